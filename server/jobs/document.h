/*
 * A job as the wire shows it, built by joining texts that were encoded once: reading a finished job parses nothing.
 * Immutable once made and counted by reference.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_JOBS_DOCUMENT_H
#define SERVER_JOBS_DOCUMENT_H

#include <stdatomic.h>

#include "server/ops/text.h"
#include "server/store/records.h"

struct document {
    atomic_int references;
    enum job_status status;
    char id[UUID_SIZE];
    char etag[ETAG_SIZE];
    size_t len;
    char *text;
};

/* What runs now; NULL where nothing does. */
struct job_progress {
    double fraction;
    const char *stage;        /* static, or NULL */
    double remaining_seconds; /* NAN: unknown */
};

/* Writes the object. brief: for lists, without curve; links: false for `epsilond solve`. */
void document_write(struct text *out, const struct job_record *record, const struct result_record *result,
                    const struct job_progress *progress, bool brief, bool links);
/* NULL: out of memory. result is NULL unless the job succeeded. */
struct document *document_create(const struct job_record *record, const struct result_record *result,
                                 const struct job_progress *progress);
struct document *document_retain(struct document *document);
void document_release(struct document *document);

#endif
