/*
 * The JSON document of a job, assembled from texts that were encoded once, so that reading a finished job needs no
 * parser.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_JOBS_DOCUMENT_H
#define SERVER_JOBS_DOCUMENT_H

#include "server/ops/document.h"
#include "server/store/records.h"

/* The current stage; NULL if nothing is running. */
struct job_progress {
    double fraction;
    const char *stage;        /* static, or NULL */
    double remaining_seconds; /* NAN: unknown */
};

/* Writes a time, in milliseconds, as a member preceded by a comma; null for 0. */
void document_write_time(struct text *out, const char *member, int64_t ms);
/* Writes the object of the member `progress` and of events. */
void document_write_progress(struct text *out, const struct job_progress *progress);
/* Writes the object. brief: for lists, without the curve. links: false for `epsilond solve`. */
void document_write(struct text *out, const struct job_record *record, const struct result_record *result,
                    const struct job_progress *progress, bool brief, bool links);
/* NULL: out of memory. result is NULL unless the job succeeded. */
struct document *document_create(const struct job_record *record, const struct result_record *result,
                                 const struct job_progress *progress);

#endif
