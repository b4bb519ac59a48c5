/*
 * The rules that are checked around the reading of a job's members. Internal to the codec.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_CODEC_RULES_H
#define API_CODEC_RULES_H

#include "api/codec/values.h"

/* One of n and epochs, of a job alone ("") or of a phase: in the canonical form n says what epochs does. */
void api__check_steps(struct api_decoder *decoder, const char *path, const json_t *json);

/* What eps_job_check() and its kind report to; user: the decoder. After it, read_errors is set. */
void api__report_rule(void *user, const char *pointer, const char *message);
/* A warm start that was asked for is refused where the defaults took the cold one: of what is at `path`. */
void api__check_warm_start(struct api_decoder *decoder, const char *path, const json_t *json,
                           const struct eps_sampling *sampling);

/* After the members were read: fills in the job's defaults and adds the violations of its rules. */
void api__check_rules(struct api_decoder *decoder);

#endif
