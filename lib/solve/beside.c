/*
 * See beside.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/solve/beside.h"

#include <assert.h>

#include "lib/accountants/monte_carlo/audit.h"
#include "lib/base/error.h"
#include "lib/job/setting.h"

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
