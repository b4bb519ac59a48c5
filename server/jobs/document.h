/*
 * A job as the wire shows it, built by joining texts that were encoded once: reading a finished job parses nothing.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_JOBS_DOCUMENT_H
#define SERVER_JOBS_DOCUMENT_H

#include "server/ops/document.h"
#include "server/store/records.h"

/* What runs now; NULL where nothing does. */
struct job_progress {
    double fraction;
    const char *stage;        /* static, or NULL */
    double remaining_seconds; /* NAN: unknown */
};

/* The member `progress`, and events: an object. */
void document_write_progress(struct text *out, const struct job_progress *progress);
/* Writes the object. brief: for lists, without curve; links: false for `epsilond solve`. */
void document_write(struct text *out, const struct job_record *record, const struct result_record *result,
                    const struct job_progress *progress, bool brief, bool links);
/* NULL: out of memory. result is NULL unless the job succeeded. */
struct document *document_create(const struct job_record *record, const struct result_record *result,
                                 const struct job_progress *progress);

#endif
