/*
 * See search.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/search.h"

#include <math.h>

#include "lib/base/error.h"
#include "lib/numerics/bound.h"

enum { SAMPLES_LEAST = 1 << 12 };

#define CHEAP_OPERATIONS 2e9  /* an estimate may always use this many operations, */
#define CHEAP_SAMPLES 65536.0 /* for at most this many draws */
#define WORTH 0.5             /* a tilted law is used if its values are at most this */
#define SAMPLES_MOST 0x1p40
#define TIMES 3 /* the remaining time allows at least this many estimates */

double eps__mc_most_at(const struct eps__mc_law *law, double eps)
{
    if (!law->class->log_most)
        return 1;
    double most = eps__exp_bound(EPS__UPPER, law->class->log_most(law, eps), 0);
    return law->tilted ? most : 1;
}

enum eps_status eps__mc_open_law(struct eps__mc_law **law, const struct eps__mc_search *search, double sigma,
                                 double eps, double least)
{
    struct eps__mc_aim aim = {.sigma = sigma,
                              .direction = search->direction,
                              .tilted = true,
                              .eps = eps,
                              .operations = search->opening,
                              .least = least};
    enum eps_estimator estimator = search->tuning->estimator;
    enum eps_status status = EPS_UNSUPPORTED;
    *law = NULL;
    if (estimator != EPS_ESTIMATOR_PLAIN)
        status = search->class->open(law, search->setting, &aim);
    if (status == EPS_OK && estimator == EPS_ESTIMATOR_AUTO && !(eps__mc_most_at(*law, eps) <= WORTH)) {
        search->class->destroy(*law);
        status = EPS_UNSUPPORTED;
    }
    if (status == EPS_UNSUPPORTED && estimator == EPS_ESTIMATOR_TILTED)
        return eps__error(search->error, EPS_UNSUPPORTED, "/accountant/estimator",
                          "there are no tilted draws for %s here; leave estimator out",
                          eps_direction_name(search->direction));
    if (status == EPS_UNSUPPORTED) {
        aim.tilted = false;
        status = search->class->open(law, search->setting, &aim);
    }
    if (status == EPS_OK)
        (*law)->aim = aim;
    return status;
}

void eps__mc_take_all(struct eps__mc_search *search, double expected)
{
    if (search->other <= expected)
        search->until = search->until_alone;
}

void eps__mc_begin_share(struct eps__mc_search *search, double share)
{
    search->from = search->to;
    search->to += share * (1 - search->to);
}

enum eps_status eps__mc_make(struct eps__mc_estimator *estimator, bool *complete, bool *over,
                             const struct eps__mc_search *search, const struct eps__mc_grid *grid,
                             struct eps__mc_run run)
{
    const struct eps_context *context = search->setting->context;
    double operations = run.law->operations * (double)run.samples / EPS__LANES;
    run.setting = search->setting;
    run.seed = search->seed;
    run.until = search->until;
    run.begun = search->begun;
    run.from = search->from;
    run.to = search->to;
    *estimator = (struct eps__mc_estimator){0};
    if (context && context->max_operations > 0 && operations > context->max_operations && isinf(search->until)) {
        eps__error(
            search->error, EPS_TOO_COSTLY, "/accountant/samples",
            "%.3g draws take about %.2g operations, but the limit is %.2g; set accountant.max_seconds or fewer samples",
            (double)run.samples, operations, context->max_operations);
        if (search->error)
            search->error->operations = operations;
        return EPS_TOO_COSTLY;
    }
    enum eps_status status = eps__mc_estimator_make(estimator, grid, EPS__UPPER);
    return status == EPS_OK ? eps__mc_draw(estimator, complete, over, &run) : status;
}

uint64_t eps__mc_whole_samples(double samples)
{
    return eps__mc_whole((uint64_t)fmin(fmax(samples, SAMPLES_LEAST), SAMPLES_MOST));
}

double eps__mc_cheap_samples(const struct eps__mc_search *search, const struct eps__mc_law *law)
{
    double cheap = fmin(CHEAP_OPERATIONS / (law->operations / EPS__LANES), CHEAP_SAMPLES);
    if (isfinite(search->until) && search->rate > 0)
        cheap = fmin(cheap, search->rate * fmax(search->until - eps__mc_now(), 0) / TIMES);
    return cheap;
}

bool eps__mc_choose_samples(const struct eps__mc_search *search, const struct eps__mc_law *law,
                            const struct eps__mc_promise *promise, double most, uint64_t *samples, double *threshold)
{
    const struct eps_tuning *tuning = search->tuning;
    *threshold = eps__lower(tuning->threshold_share * promise->delta, 2);
    *samples = tuning->samples > 0 ? eps__mc_whole(tuning->samples)
                                   : eps__mc_whole_samples((double)eps__mc_samples(promise, *threshold, most));
    double cheap = eps__mc_cheap_samples(search, law);
    bool more = tuning->samples == 0 && tuning->threshold_share == EPS__MC_SHARE && (double)*samples < cheap;
    if (more)
        *samples = eps__mc_whole_samples(cheap);
    if (more || tuning->samples > 0)
        *threshold = eps__mc_threshold(promise, (double)*samples, most);
    return *threshold >= 0 && eps__mc_keeps(promise, (double)*samples, *threshold, most, NULL);
}

enum eps_status eps__mc_refuse_samples(const struct eps__mc_search *search, const struct eps__mc_promise *promise,
                                       double most)
{
    return eps__error(search->error, EPS_UNATTAINABLE, "/accountant/samples",
                      "these samples are too few to verify this delta; set at least %.3g or leave samples out",
                      (double)eps__mc_samples(promise, 0, most));
}

void eps__mc_describe(struct eps_draws *draws, const struct eps__mc_search *search, const struct eps__mc_law *law,
                      const struct eps__mc_estimator *estimator, size_t cell, const struct eps__mc_promise *promise)
{
    draws->samples = estimator->count;
    draws->estimate = eps__mc_estimator_mean(estimator, cell);
    draws->standard_error = eps__mc_estimator_error(estimator, cell);
    draws->seed = search->seed;
    draws->estimator = law->tilted ? EPS_ESTIMATOR_TILTED : EPS_ESTIMATOR_PLAIN;
    draws->plain_samples =
        law->tilted ? (double)eps__mc_samples(promise, draws->threshold, 1) : (double)estimator->count;
}
