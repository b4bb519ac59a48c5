/*
 * From a job to the accountants that serve it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_REGISTRY_H
#define EPS_ACCOUNTANTS_REGISTRY_H

#include "lib/accountants/accountant.h"
#include "lib/error.h"

enum { EPS__ACCOUNTANTS_MAX = EPS_ACCOUNTANT_COUNT };

/* Checks the job and computes its strategy and sensitivity. Release with eps__setting_close(). */
EPS_MUST_USE enum eps_status eps__setting_open(struct eps__setting *setting, struct eps_error *error,
                                               const struct eps_context *context, const struct eps_job *job);
/* The same, but never runs an optimiser: where one would have to run, setting->strategy is NULL. */
EPS_MUST_USE enum eps_status eps__setting_probe(struct eps__setting *setting, struct eps_error *error,
                                                const struct eps_context *context, const struct eps_job *job);
void eps__setting_close(struct eps__setting *setting);

/* The accountants to run, at most EPS__ACCOUNTANTS_MAX: the one asked for, or all that serve. 0: the error says why
 * none does (EPS_UNSUPPORTED). */
size_t eps__setting_accountants(const struct eps__setting *setting, const struct eps__accountant **serving,
                                struct eps_error *error);

#endif
