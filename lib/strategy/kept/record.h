/*
 * Numbers serialised to bytes, for what the caches keep of a strategy. They are read in the order in which they were
 * written, in the byte order of this machine, like the blobs of loss distributions. A reader checks `bad` once, at the
 * end: after a read past the end, or of an invalid value, all further reads give zero.
 *
 * Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_KEPT_RECORD_H
#define EPS_STRATEGY_KEPT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialise it to write; use eps__record_over() to read. */
struct eps__record {
    uint8_t *bytes; /* writing: owned */
    size_t len, capacity;
    size_t at; /* reading: the next byte */
    bool bad;  /* writing: no memory; reading: not a valid record */
};

void eps__record_clear(struct eps__record *record);

/* Append; after an allocation failure, `bad` is set and nothing is written. */
void eps__record_put(struct eps__record *record, const void *bytes, size_t len);
void eps__record_put_u64(struct eps__record *record, uint64_t value);
void eps__record_put_double(struct eps__record *record, double value);
/* Writes the length, then the numbers. */
void eps__record_put_doubles(struct eps__record *record, const double *values, size_t len);

/* A record that reads from borrowed bytes. */
struct eps__record eps__record_over(const void *bytes, size_t len);
/* Read what the functions above wrote; past the end, `bad` is set and the value is zero. */
bool eps__record_get(struct eps__record *record, void *bytes, size_t len);
uint64_t eps__record_get_u64(struct eps__record *record);
double eps__record_get_double(struct eps__record *record);
/* *values is malloc'ed and owned by the caller; NULL if the list is empty or the record bad. */
void eps__record_get_doubles(struct eps__record *record, double **values, size_t *len);
/* Whether all bytes were read and were valid. */
bool eps__record_done(const struct eps__record *record);

#endif
