/*
 * A finished job with its answer: "max" is replaced by the largest n or count found. It also holds the mechanism that a
 * request refers to, which in a job with phases is one of them.
 *
 * Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_JOBS_ANSWERED_H
#define SERVER_ROUTES_JOBS_ANSWERED_H

#include <stdbool.h>

#include "server/http/query.h"
#include "server/http/request.h"
#include "server/store/records.h"

#define NO_PHASE SIZE_MAX

struct answered {
    struct eps_mechanism mechanism; /* borrows from the job; empty for a job with phases if none was selected */
    double noise_multiplier;        /* of the mechanism: that of the job times the scale of the phase */
    size_t count;                   /* the number of runs of the phase; otherwise 1 */
    char factorization[65];         /* the id; "": unknown */
};

/*
 * Replaces the largest number in the job, and reads the result of the phase. phase: NO_PHASE if none was selected;
 * required: an error for a job with phases. Returns false with *problem, owned by the caller, whose instance is
 * `instance`.
 */
bool answered_read(struct answered *answered, struct eps_job *job, const struct result_record *result, size_t phase,
                   bool required, const char *instance, json_t **problem);

/* The members of a stored job, without its large arrays, and of a stored result. The caller owns them. NULL: out of
 * memory. */
json_t *job_members(const struct job_record *record);
json_t *result_members(const struct result_record *result);

/* For tables of query parameters: ?phase, an index. */
bool query_is_phase(const char *value);
#define PHASE_MUST "must be the index of a phase, from 0"
/* The phase in the query of the request, or NO_PHASE. */
size_t request_phase(const struct request *request);

#endif
