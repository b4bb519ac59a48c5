/*
 * Turns a job into the setting that accountants work on.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_JOB_SETTING_H
#define EPS_JOB_SETTING_H

#include "lib/accountants/accountant.h"

/* Checks the job and computes its strategy and sensitivity. The job and the context must outlive the setting. On
 * EPS_OK the caller releases it with eps__setting_close(). Returns EPS_OK, EPS_INVALID (first violation),
 * EPS_UNSUPPORTED, or another failure of eps_strategy_create(). */
EPS_MUST_USE enum eps_status eps__setting_open(struct eps__setting *setting, struct eps_error *error,
                                               const struct eps_context *context, const struct eps_job *job);
/* The same, with the strategy of eps__strategy_probe(), which is quick. */
EPS_MUST_USE enum eps_status eps__setting_probe(struct eps__setting *setting, struct eps_error *error,
                                                const struct eps_context *context, const struct eps_job *job);
void eps__setting_close(struct eps__setting *setting);

/* Makes accountants see the job as it was asked instead of its plainer equivalent, for an accountant that does not
 * serve the latter. The sensitivity is unchanged, because both samplings have the same law. */
void eps__setting_as_asked(struct eps__setting *setting);

#endif
