/*
 * Numbers in a row of bytes, for what the caches keep of a strategy: written and read in the same order, in this
 * machine's byte order, as the blobs of the loss distributions are. Whoever reads checks `bad` once, at the end:
 * after a read past the end, or of what has no sense, every further read gives zero.
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

/* Zero-initialise to write; eps__record_over() to read. */
struct eps__record {
    uint8_t *bytes; /* writing: owned */
    size_t len, capacity;
    size_t at; /* reading: the next byte */
    bool bad;  /* writing: no memory; reading: no such record */
};

void eps__record_clear(struct eps__record *record);

void eps__record_put(struct eps__record *record, const void *bytes, size_t len);
void eps__record_put_u64(struct eps__record *record, uint64_t value);
void eps__record_put_double(struct eps__record *record, double value);
/* The length, then the numbers. */
void eps__record_put_doubles(struct eps__record *record, const double *values, size_t len);

/* Reads from borrowed bytes. */
struct eps__record eps__record_over(const void *bytes, size_t len);
bool eps__record_get(struct eps__record *record, void *bytes, size_t len);
uint64_t eps__record_get_u64(struct eps__record *record);
double eps__record_get_double(struct eps__record *record);
/* *values: malloc'ed, the caller's; NULL where the list is empty or the record bad. */
void eps__record_get_doubles(struct eps__record *record, double **values, size_t *len);
/* Whether all of it was read and made sense. */
bool eps__record_done(const struct eps__record *record);

#endif
