/*
 * A finished job as it was answered: with the largest n or count that was found in its place, and of it the mechanism that a
 * question is about, which of a job of phases is one of them.
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
    struct eps_mechanism mechanism; /* borrows from the job; of a job of phases without one: empty */
    double noise_multiplier;        /* of the mechanism: the job's times the phase's scale */
    size_t count;                   /* how often the phase is run; 1 */
    char factorization[65];         /* its id; "": not known */
};

/*
 * Settles the job's largest number, and reads what was answered of the phase. phase: NO_PHASE, where none was asked for; required:
 * of a job of phases it has to be. False: *problem, the caller's, says why; `instance` is its.
 */
bool answered_read(struct answered *answered, struct eps_job *job, const struct result_record *result, size_t phase,
                   bool required, const char *instance, json_t **problem);

/* For tables of query members: ?phase, an index. */
bool query_is_phase(const char *value);
#define PHASE_MUST "must be the index of a phase, from 0 on"
/* Of the request's query; or NO_PHASE. */
size_t request_phase(const struct request *request);

#endif
