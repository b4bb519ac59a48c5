/*
 * See audit.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/audit.h"

#include <math.h>

#include "lib/accountants/monte_carlo/draws.h"
#include "lib/accountants/monte_carlo/guarantee.h"
#include "lib/base/error.h"
#include "lib/numerics/bound.h"

enum { CELLS = 512 };

#define FAILURE 1e-3 /* probability that a lower bound of an audit is wrong */

bool eps__mc_audits(const struct eps__setting *setting, double *operations, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    const struct eps__mc_law_class *class = eps__mc_law_class_of(mechanism);
    double bytes;
    *operations = 0;
    if (!class || mechanism->adjacency == EPS_ADJACENCY_REPLACE_ONE || !eps__strategy_nonnegative(setting->strategy) ||
        !class->serves(setting, error) || !class->exact(setting))
        return eps__decline(error, "/accountant/audit",
                            "no draws bound the true value for this mechanism from below; leave audit out");
    class->cost(setting, operations, &bytes);
    *operations *= EPS_DIRECTIONS * (double)setting->job->query.accountant.audit;
    return true;
}

/* A lower bound on the true mean of values in [0, most], at the estimator's point k. */
static double least_mean(const struct eps__mc_estimator *estimator, size_t k, double most)
{
    double mean = eps__lower(fmin(eps__mc_estimator_mean(estimator, k) / most, 1), 2);
    return eps__lower(most * eps__mc_least((double)estimator->count, mean, FAILURE), 2);
}

/* Opens the tilted law if its values are below 1/2 at eps, else the plain one. *most: the bound on its values. */
static enum eps_status open_law(struct eps__mc_law **law, const struct eps__mc_law_class *class,
                                const struct eps__setting *setting, enum eps_direction direction, double sigma,
                                double eps, double *most)
{
    struct eps__mc_aim aim = {
        .sigma = sigma, .direction = direction, .tilted = true, .eps = eps, .least = eps, .exact = true};
    enum eps_status status = class->open(law, setting, &aim);
    *most = 1;
    if (status == EPS_OK && (*law)->class->log_most)
        *most = eps__exp_bound(EPS__UPPER, (*law)->class->log_most(*law, eps), 0);
    if (status == EPS_OK && !(*most < 0.5)) {
        class->destroy(*law);
        status = EPS_UNSUPPORTED;
    }
    if (status != EPS_UNSUPPORTED)
        return status;
    *most = 1;
    aim.tilted = false;
    return class->open(law, setting, &aim);
}

enum eps_status eps__mc_audit(struct eps_audit *audit, const struct eps__setting *setting, enum eps_direction direction,
                              const struct eps_result *result)
{
    const struct eps__mc_law_class *class = eps__mc_law_class_of(&setting->job->mechanism);
    bool epsilon = result->solved_for == EPS_SOLVE_EPSILON, complete, over;
    double answer = epsilon ? result->epsilon : result->delta, sigma = result->noise_multiplier, most;
    /* For epsilon, the grid begins at half the answer; a smaller lower bound is reported as 0. */
    struct eps__mc_grid grid = {epsilon ? 0.5 * answer : result->epsilon, epsilon ? 0.5 * answer / CELLS : 0,
                                epsilon && answer > 0 ? CELLS + 1 : 1};
    struct eps__mc_estimator estimator = {0};
    struct eps__mc_law *law;
    *audit = (struct eps_audit){.samples = eps__mc_whole(setting->job->query.accountant.audit), .ratio = NAN};
    if (!(sigma > 0))
        return EPS_OK;
    enum eps_status status = open_law(&law, class, setting, direction, sigma, grid.first, &most);
    if (status != EPS_OK)
        return status;
    struct eps__mc_run run = {.setting = setting,
                              .law = law,
                              .sigma = sigma,
                              .seed = eps__mc_seed(setting),
                              .candidate = (uint64_t)EPS__MC_AUDIT << 32,
                              .samples = audit->samples,
                              .enough = INFINITY,
                              .until = INFINITY,
                              .to = 1};
    status = eps__mc_estimator_make(&estimator, &grid, EPS__LOWER);
    if (status == EPS_OK)
        status = eps__mc_draw(&estimator, &complete, &over, &run);
    if (status == EPS_OK && epsilon) {
        for (size_t k = 0; k < grid.len && least_mean(&estimator, k, most) > result->delta; k++)
            audit->lower = eps__mc_grid_at(&grid, k);
    } else if (status == EPS_OK) {
        audit->lower = least_mean(&estimator, 0, most);
    }
    if (status == EPS_OK && audit->lower > 0)
        audit->ratio = answer / audit->lower;
    eps__mc_estimator_clear(&estimator);
    class->destroy(law);
    return status;
}
