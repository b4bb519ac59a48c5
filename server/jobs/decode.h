/*
 * Decodes a job from a request, which may be invalid, or from a row, which was valid when it was stored.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_JOBS_DECODE_H
#define SERVER_JOBS_DECODE_H

#include "api/codec/codec.h"
#include "api/problem.h"
#include "server/ops/config.h"
#include "server/store/records.h"

/* Decodes the bytes of a request. Returns NULL with the problem document, owned by the caller. instance: its path, or
 * NULL. */
struct api_job *decode_request(const char *text, size_t len, uint64_t max_n, const char *instance, json_t **problem);

/*
 * Decodes the job of a record. Returns NULL with the error. Unless the text was read from a row whose digests match,
 * the decoded job must have the hash of the record, so that a result is never stored under a job that it does not
 * answer. (An intact text may have another hash after an update of the service, because new members have new defaults.)
 */
struct api_job *decode_stored(const struct job_record *record, const struct config *config, struct eps_error *error);

#endif
