/*
 * The rules that are checked before and after the members of a job are read. Internal to the codec.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_CODEC_RULES_H
#define API_CODEC_RULES_H

#include "api/codec/values.h"

/* Checks that a job (path "") or a phase has exactly one of n and epochs. In the canonical form, epochs is replaced by
 * n. */
void api__check_steps(struct api_decoder *decoder, const char *path, const json_t *json);

/* The error callback for eps_job_check() and similar functions; user: the decoder. read_errors must be set before. */
void api__report_rule(void *user, const char *pointer, const char *message);
/* Reports an explicit warm start at `path` if the defaults selected the cold start. */
void api__check_warm_start(struct api_decoder *decoder, const char *path, const json_t *json,
                           const struct eps_sampling *sampling);

/* Fills in the defaults of the job and adds the violations of its rules. Called after the members were read. */
void api__check_rules(struct api_decoder *decoder);

#endif
