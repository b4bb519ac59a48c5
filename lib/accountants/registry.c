/*
 * The table of accountants, and what it takes to ask one: a job made ready.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/registry.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/sampling/scheme.h"

const struct eps__accountant *const eps__accountants[] = {&eps__accountant_pld, &eps__accountant_mmcc,
                                                          &eps__accountant_gaussian, NULL};

#define TUNING(member) (1u << EPS_TUNING_##member)

/* `auto`, which takes all, and what has no accountant yet but a name that jobs may use. */
static const struct eps__accountant names_alone[] = {
    {.name = EPS_ACCOUNTANT_AUTO, .tuning = UINT32_MAX, .curves = true},
    {.name = EPS_ACCOUNTANT_RENYI, .tuning = TUNING(TOLERANCE) | TUNING(MAX_ORDER) | TUNING(BANDWIDTH), .curves = true},
    {.name = EPS_ACCOUNTANT_CONDITIONAL_COMPOSITION, .tuning = TUNING(TOLERANCE) | TUNING(BAD_EVENT_SHARE)},
    {.name = EPS_ACCOUNTANT_MONTE_CARLO,
     .tuning = TUNING(SAMPLES) | TUNING(SEED) | TUNING(THRESHOLD_SHARE) | TUNING(ESTIMATOR) | TUNING(MAX_SECONDS)},
};

const struct eps__accountant *eps__accountant_find(enum eps_accountant name)
{
    for (size_t i = 0; eps__accountants[i]; i++)
        if (eps__accountants[i]->name == name)
            return eps__accountants[i];
    for (size_t i = 0; i < sizeof names_alone / sizeof *names_alone; i++)
        if (names_alone[i].name == name)
            return &names_alone[i];
    return NULL;
}

bool eps_serves_accountant(enum eps_accountant name)
{
    const struct eps__accountant *accountant = eps__accountant_find(name);
    return accountant && (accountant->open || name == EPS_ACCOUNTANT_AUTO);
}

/* The names, by number from `first` on and around, that are served or have curves. */
static void list_names(char *text, size_t size, int first, bool curves)
{
    const char *names[EPS_ACCOUNTANT_COUNT];
    size_t names_len = 0;
    for (int i = 0; i < EPS_ACCOUNTANT_COUNT; i++) {
        enum eps_accountant name = (enum eps_accountant)((first + i) % EPS_ACCOUNTANT_COUNT);
        if (curves ? eps__accountant_find(name)->curves : eps_serves_accountant(name))
            names[names_len++] = eps_accountant_name(name);
    }
    eps__list(text, size, names, names_len);
}

void eps__accountant_names_served(char *text, size_t size)
{
    list_names(text, size, EPS_ACCOUNTANT_AUTO, false);
}

void eps__accountant_names_curves(char *text, size_t size)
{
    list_names(text, size, EPS_ACCOUNTANT_AUTO + 1, true);
}

bool eps_serves_scheme(enum eps_scheme scheme)
{
    const struct eps__scheme *row = eps__scheme_find(scheme);
    return row && row->served;
}

struct first_violation {
    struct eps_error *error;
    bool seen;
};

static void keep_first(void *user, const char *pointer, const char *message)
{
    struct first_violation *first = user;
    if (first->seen)
        return;
    first->seen = true;
    eps__error(first->error, EPS_INVALID, pointer, "%s", message);
}

static enum eps_status refuse_scheme(struct eps_error *error, enum eps_scheme scheme)
{
    char names[120];
    eps__scheme_names(names, sizeof names, eps__scheme_served, 0);
    return eps__error(error, EPS_UNSUPPORTED, "/sampling/scheme",
                      "the scheme %s is not served in this version, which serves %s", eps_scheme_name(scheme), names);
}

static enum eps_status refuse_accountant(struct eps_error *error, enum eps_accountant name)
{
    char names[120];
    eps__accountant_names_served(names, sizeof names);
    return eps__error(error, EPS_UNSUPPORTED, "/accountant/method",
                      "the accountant %s is not served in this version, which serves %s", eps_accountant_name(name),
                      names);
}

/* probe: where an optimiser would have to run, the setting stays without a strategy. */
static enum eps_status open_setting(struct eps__setting *setting, struct eps_error *error,
                                    const struct eps_context *context, const struct eps_job *job, bool probe)
{
    const struct eps_sampling *sampling = &job->mechanism.sampling;
    struct first_violation first = {error, false};
    *setting = (struct eps__setting){.context = context, .job = job};
    if (eps_job_check(job, 0, keep_first, &first) > 0)
        return EPS_INVALID;
    if (!eps_serves_scheme(sampling->scheme))
        return refuse_scheme(error, sampling->scheme);
    if (!eps_serves_accountant(job->query.accountant.method))
        return refuse_accountant(error, job->query.accountant.method);
    struct eps_strategy *strategy;
    enum eps_status status = probe ? eps__strategy_probe(context, &strategy, error, &job->mechanism)
                                   : eps_strategy_create(context, &strategy, error, &job->mechanism);
    if (status != EPS_OK || !strategy)
        return status;
    setting->strategy = strategy;
    setting->p = eps__sampling_probability(&job->mechanism);
    status = eps__strategy_sensitivity(context, &setting->sensitivity, error, strategy, &job->mechanism);
    setting->sensitivity_known = status == EPS_OK;
    if (status == EPS_UNSUPPORTED)
        return EPS_OK; /* no bound without amplification: the Gaussian accountant will decline */
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
}

size_t eps__setting_accountants(const struct eps__setting *setting, const struct eps__accountant **serving,
                                struct eps_error *error)
{
    enum eps_accountant wanted = setting->job->query.accountant.method;
    struct eps_error why = {0}, reason = {0};
    size_t count = 0;
    uint32_t others = 0;
    for (size_t i = 0; eps__accountants[i]; i++) {
        const struct eps__accountant *accountant = eps__accountants[i];
        bool serves = accountant->serves(setting, &why);
        if (serves && wanted == EPS_ACCOUNTANT_AUTO && accountant->exact(setting)) {
            serving[0] = accountant;
            return 1;
        }
        if (serves && (wanted == EPS_ACCOUNTANT_AUTO || wanted == accountant->name))
            serving[count++] = accountant;
        else if (serves)
            others |= 1u << accountant->name;
        else if (!reason.message[0] || wanted == accountant->name)
            reason = why;
    }
    if (count == 0) {
        eps__error(error, EPS_UNSUPPORTED, reason.pointer, "%s", reason.message);
        if (error)
            error->accountants = others;
    }
    return count;
}
