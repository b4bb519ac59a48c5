/*
 * See beside.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/solve/beside.h"

#include <assert.h>
#include <math.h>

#include "lib/accountants/monte_carlo/audit.h"
#include "lib/base/error.h"
#include "lib/job/setting.h"
#include "lib/solve/answer.h"
#include "lib/solve/search.h"

#define MOMENTS_ENOUGH 16     /* moments of the likelihood ratio from which samples gain little, except in delta */
#define WORTH_SAYING 0.03     /* an estimated answer of draws is mentioned if it is lower by this share */
#define DRAWS_AFFORDABLE 1e13 /* largest estimated operations of monte_carlo for it to be recommended unseen */

/* ------------------------------------------------------------ audits */

/* Sets *audited to a setting that an audit can sample. If the plainer sampling cannot be audited, the original
 * sampling may be. Returns whether one of them can. */
static bool audits(const struct eps__setting *setting, struct eps__setting *audited, double *operations,
                   struct eps_error *error)
{
    *audited = *setting;
    if (eps__mc_audits(audited, operations, NULL))
        return true;
    eps__setting_as_asked(audited);
    return eps__mc_audits(audited, operations, error);
}

enum eps_status eps__plan_audit(double *operations, const struct eps__setting *setting, struct eps_error *error)
{
    struct eps__setting audited;
    *operations = 0;
    return setting->job->query.accountant.audit == 0 || audits(setting, &audited, operations, error) ? EPS_OK
                                                                                                     : EPS_UNSUPPORTED;
}

enum eps_status eps__audit(struct eps_result *result, struct eps_error *error, const struct eps__setting *setting)
{
    struct eps__setting own;
    double operations;
    bool served = audits(setting, &own, &operations, error);
    assert(served); /* eps__plan_audit() has refused other jobs */
    (void)served;
    struct eps__meter items[EPS_DIRECTIONS] = {{.expected = 1}, {.expected = 1}};
    struct eps__meters meters = {
        .context = setting->context, .items = items, .len = EPS_DIRECTIONS, .stride = sizeof *items};
    enum eps_status status = EPS_OK;
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS && status == EPS_OK; d++) {
        own.meter = &items[d];
        items[d].all = &meters;
        status = eps__mc_audit(&result->audit[d], &own, d, result);
        eps__meter_end(&items[d]);
    }
    return status == EPS_OK ? status : eps__error(error, status, "/accountant/audit", "the audit did not finish");
}

/* ------------------------------------------------------------ unproven estimates */

void eps__plan_unproven(struct eps__mc_unproven_plan *plan, const struct eps__setting *setting,
                        const struct eps__accountant *const *accountants, size_t len, double operations)
{
    double limit = setting->context ? setting->context->max_operations : 0;
    bool wanted = true;
    for (size_t i = 0; i < len; i++)
        wanted &= !accountants[i]->solve && !accountants[i]->exact(setting) &&
                  !(accountants[i]->attained && accountants[i]->attained(setting));
    if (!wanted || !eps__mc_plan_unproven(plan, setting, operations) ||
        (limit > 0 && operations + plan->operations > limit))
        *plan = (struct eps__mc_unproven_plan){0};
}

enum eps_status eps__estimate_unproven(struct eps__mc_unproven *unproven, struct eps_error *error,
                                       const struct eps__setting *setting, const struct eps__mc_unproven_plan *plan,
                                       const struct eps_result *result)
{
    struct eps__setting own = *setting;
    struct eps__meter meter = {.expected = 1};
    struct eps__meters meters = {.context = setting->context, .items = &meter, .len = 1, .stride = sizeof meter};
    meter.all = &meters;
    own.meter = &meter;
    enum eps_status status = eps__mc_unproven(unproven, &own, plan, result);
    eps__meter_end(&meter);
    return status == EPS_OK ? status : eps__error(error, status, "", "the unproven estimate did not finish");
}

/* ------------------------------------------------------------ who would draw */

/* Whether draws may give a smaller answer. With an estimate, whether they give one that is worth mentioning. */
static bool may_help(const struct eps_result *result, const struct eps__setting *setting,
                     const struct eps__mc_unproven *unproven)
{
    const struct eps_candidate *worse = eps__result_worse(result);
    const struct eps__accountant *found = eps__accountant_find(worse->accountant);
    if (setting->job->query.accountant.method != EPS_ACCOUNTANT_AUTO || worse->value <= EPS__DELTA_LEAST)
        return false;
    if (unproven->estimate.samples > 0)
        return unproven->drawn <= (1 - WORTH_SAYING) * worse->value;
    return (worse->moments < MOMENTS_ENOUGH || result->solved_for == EPS_SOLVE_DELTA) && !found->exact(setting) &&
           !(found->tight && found->tight(setting));
}

/* Returns monte_carlo if the answer is a bound that draws may undercut, or NULL if it is not, if sampling would cost
 * too much, or if no smaller answer is possible. */
static const struct eps__accountant *who_would_help(const struct eps_result *result, const struct eps__setting *setting,
                                                    const struct eps__mc_unproven *unproven)
{
    double operations, bytes;
    if (!may_help(result, setting, unproven))
        return NULL;
    for (size_t i = 0; eps__accountants[i]; i++) {
        const struct eps__accountant *accountant = eps__accountants[i];
        if (!accountant->solve || !accountant->serves(setting, NULL))
            continue;
        accountant->cost(setting, &operations, &bytes);
        if (unproven->estimate.samples > 0 || operations <= DRAWS_AFFORDABLE)
            return accountant;
    }
    return NULL;
}

/* Whole seconds with two digits. */
static double roughly(double seconds)
{
    double unit = pow(10, fmax(floor(log10(fmax(seconds, 1))) - 1, 0));
    return fmax(round(seconds / unit), 1) * unit;
}

void eps__hint_drawing(struct eps__sentences *list, const struct eps_result *result, const struct eps__setting *setting,
                       bool decided, const struct eps__mc_unproven *unproven)
{
    const struct eps__accountant *drawing = who_would_help(result, setting, unproven);
    if (!drawing)
        return;
    if (unproven->estimate.samples > 0)
        eps__sentence(list, "sampling would give about %.3g instead of %.3g: use %s, which takes about %.0f s",
                      unproven->drawn, eps__result_worse(result)->value, drawing->name, roughly(unproven->seconds));
    else
        eps__sentence(list,
                      decided ? "sampling takes the noise into account and may give a much tighter answer: use %s"
                              : "sampling may give a tighter answer: use %s",
                      drawing->name);
}
