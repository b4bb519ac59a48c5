/*
 * Prepares a job for accountants: checks it, computes its strategy and its sensitivity.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/job/setting.h"

#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/sampling/scheme.h"

bool eps_serves_scheme(enum eps_scheme scheme)
{
    const struct eps__scheme *row = eps__scheme_find(scheme);
    return row && row->served;
}

static enum eps_status refuse_scheme(struct eps_error *error, enum eps_scheme scheme)
{
    char names[120];
    eps__scheme_names(names, sizeof names, eps__scheme_served, 0);
    return eps__error(error, EPS_UNSUPPORTED, "/sampling/scheme",
                      "this version does not serve the scheme %s; use one of %s", eps_scheme_name(scheme), names);
}

static enum eps_status refuse_accountant(struct eps_error *error, enum eps_accountant name)
{
    char names[120];
    eps__accountant_names_served(names, sizeof names);
    return eps__error(error, EPS_UNSUPPORTED, "/accountant/method",
                      "this version does not have the accountant %s; use one of %s", eps_accountant_name(name), names);
}

/* Sets the members that derive from setting->job. */
static enum eps_status derive(struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    setting->p = eps__sampling_probability(mechanism);
    setting->absence = eps__sampling_absence(mechanism);
    enum eps_status status =
        eps__strategy_sensitivity(setting->context, &setting->sensitivity, error, setting->strategy, mechanism);
    setting->sensitivity_known = status == EPS_OK;
    /* The sensitivity stays unknown, and the Gaussian accountant declines. */
    return status == EPS_UNSUPPORTED ? EPS_OK : status;
}

/*
 * Makes accountants see the plainest sampling with the same law as the one asked for. If the accountant named by the
 * job serves only the original sampling, it sees that. A bound for either is a bound for both (S10).
 */
static enum eps_status derive_plainer(struct eps__setting *setting, struct eps_error *error,
                                      const struct eps_sampling *sampling)
{
    const struct eps__accountant *named = eps__accountant_find(setting->asked->query.accountant.method);
    setting->plainer = malloc(sizeof *setting->plainer);
    if (!setting->plainer)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    *setting->plainer = *setting->asked;
    setting->plainer->mechanism.sampling = *sampling;
    setting->job = setting->plainer;
    /* (S10): the probability of one step from a warm start is a rounded-up quotient */
    setting->raised =
        setting->asked->mechanism.n == 1 && sampling->p != eps__sampling_probability(&setting->asked->mechanism);
    enum eps_status status = derive(setting, error);
    if (status != EPS_OK || !named->serves || named->serves(setting, NULL))
        return status;
    setting->job = setting->asked;
    setting->raised = false;
    return derive(setting, error);
}

void eps__setting_as_asked(struct eps__setting *setting)
{
    setting->job = setting->asked;
    setting->raised = false;
    setting->p = eps__sampling_probability(&setting->job->mechanism);
    setting->absence = eps__sampling_absence(&setting->job->mechanism);
}

static enum eps_status open_setting(struct eps__setting *setting, struct eps_error *error,
                                    const struct eps_context *context, const struct eps_job *job, bool probe)
{
    const struct eps_sampling *sampling = &job->mechanism.sampling;
    struct eps__first_violation first = {error, false};
    *setting = (struct eps__setting){.context = context, .job = job, .asked = job};
    if (eps_job_check(job, 0, eps__keep_first, &first) > 0)
        return EPS_INVALID;
    if (!eps_serves_scheme(sampling->scheme))
        return refuse_scheme(error, sampling->scheme);
    if (!eps_serves_accountant(job->query.accountant.method))
        return refuse_accountant(error, job->query.accountant.method);
    struct eps_strategy *strategy;
    enum eps_status status = probe ? eps__strategy_probe(context, &strategy, error, &job->mechanism)
                                   : eps_strategy_create(context, &strategy, error, &job->mechanism);
    if (status != EPS_OK)
        return status;
    setting->strategy = strategy;
    struct eps_sampling plainer;
    status = eps__sampling_plainer(&plainer, &job->mechanism) ? derive_plainer(setting, error, &plainer)
                                                              : derive(setting, error);
    if (status != EPS_OK)
        eps__setting_close(setting);
    return status;
}

enum eps_status eps__setting_open(struct eps__setting *setting, struct eps_error *error,
                                  const struct eps_context *context, const struct eps_job *job)
{
    return open_setting(setting, error, context, job, false);
}

enum eps_status eps__setting_probe(struct eps__setting *setting, struct eps_error *error,
                                   const struct eps_context *context, const struct eps_job *job)
{
    return open_setting(setting, error, context, job, true);
}

void eps__setting_close(struct eps__setting *setting)
{
    eps_strategy_destroy((struct eps_strategy *)setting->strategy);
    setting->strategy = NULL;
    free(setting->plainer);
    setting->plainer = NULL;
}
