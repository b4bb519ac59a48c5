/*
 * From a job to what accountants are asked about.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_JOB_SETTING_H
#define EPS_JOB_SETTING_H

#include "lib/accountants/accountant.h"

/* Checks the job and computes its strategy and sensitivity. Release with eps__setting_close(). */
EPS_MUST_USE enum eps_status eps__setting_open(struct eps__setting *setting, struct eps_error *error,
                                               const struct eps_context *context, const struct eps_job *job);
/* The same with the strategy of eps__strategy_probe(), which takes no time. */
EPS_MUST_USE enum eps_status eps__setting_probe(struct eps__setting *setting, struct eps_error *error,
                                                const struct eps_context *context, const struct eps_job *job);
void eps__setting_close(struct eps__setting *setting);

/* From now on accountants see the job as it was asked: for one that serves no plainer one. The sensitivity stays: of one law there is
 * one. */
void eps__setting_as_asked(struct eps__setting *setting);

#endif
