/*
 * From text to a job: that of a request, which may be wrong in many ways, and that of a row, which was right once.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_JOBS_DECODE_H
#define SERVER_JOBS_DECODE_H

#include "api/codec/codec.h"
#include "api/problem.h"
#include "server/store/records.h"

/* A request's bytes; NULL with the problem document, which is the caller's. instance: its path, or NULL. */
struct api_job *decode_request(const char *text, size_t len, uint64_t max_n, const char *instance, json_t **problem);

/*
 * The job that the record's text says; NULL with the error. Unless the text was read from a row that passed its digests,
 * what was decoded must have the record's hash: a result is never kept under the name of a job that it does not answer.
 * (A text that is whole may hash otherwise after an update of the service: new members have new defaults.)
 */
struct api_job *decode_stored(const struct job_record *record, uint64_t max_n, struct eps_error *error);

#endif
