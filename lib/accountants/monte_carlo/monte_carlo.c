/*
 * The accountant monte_carlo: guarantees from draws of the privacy loss (BMS section 5 and appendix A).
 *
 * A noise multiplier is found by estimate-verify-release (A42, noise_multiplier.c). An epsilon or a delta at a given
 * noise multiplier is read off one set of draws and holds with high probability (A41, A43).
 *
 * The laws (law.h) make the draws; this file chooses how many are made and what follows from them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/monte_carlo/search.h"
#include "lib/base/error.h"
#include "lib/numerics/bound.h"
#include "lib/sampling/scheme.h"

enum { CELLS = 1024 }; /* points of a grid of epsilons */

#define PILOT_SHARE 0.05     /* estimated share of a pilot in the work */
#define SAMPLES_GUESS 0x1p19 /* estimated number of samples, at most, where a tilt may reduce them */
#define TILTED_FROM 0.97     /* a grid begins at so much of the estimated answer: of tilted draws, */
#define PLAIN_FROM 0.5       /* and of plain ones */
#define PACE 1e9             /* estimated operations that max_seconds allows in a second */

/* ------------------------------------------------------------ epsilon */

static struct eps__mc_run run_of(const struct eps__mc_law *law, double sigma, enum eps__mc_purpose purpose,
                                 uint64_t samples)
{
    return (struct eps__mc_run){
        .law = law, .sigma = sigma, .candidate = (uint64_t)purpose << 32, .samples = samples, .enough = INFINITY};
}

static struct eps__mc_run pilot(const struct eps__mc_law *law, double sigma)
{
    return run_of(law, sigma, EPS__MC_PILOT, law->tilted ? EPS__MC_PILOT_TILTED : EPS__MC_PILOT_PLAIN);
}

/* The first point at which the mean is at most the threshold; grid.len: none. The mean falls from point to point. */
static size_t first_accepted(const struct eps__mc_estimator *estimator, double threshold)
{
    size_t low = 0, high = estimator->grid.len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (eps__mc_estimator_mean(estimator, middle) <= threshold)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* About the threshold of the answer, or a larger one: if the job sets samples, it may be as large as delta, and where
 * draws are cheap, they are more than threshold_share needs, for a threshold that is nearer to delta. */
static double expected_threshold(const struct eps__mc_search *search, const struct eps__mc_law *law, double delta,
                                 double eps)
{
    const struct eps__mc_promise promise = {delta, NAN};
    double share = search->tuning->threshold_share, threshold;
    uint64_t samples;
    if (search->tuning->samples > 0)
        return delta;
    (void)eps__mc_choose_samples(search, law, &promise, eps__mc_most_at(law, eps), &samples, &threshold);
    return fmax(threshold, share * delta);
}

/* Estimates the answer, or an epsilon below it. */
static enum eps_status pilot_epsilon(struct eps__mc_search *search, double sigma, double delta, double proven,
                                     double *eps)
{
    struct eps__mc_grid grid = {0, proven / (CELLS - 1), CELLS};
    struct eps__mc_estimator estimator = {0};
    struct eps__mc_law *law;
    bool complete, over;
    enum eps_status status = eps__mc_open_law(&law, search, sigma, 0.8 * proven, grid.first);
    if (status != EPS_OK)
        return status;
    eps__mc_begin_share(search, PILOT_SHARE);
    status = eps__mc_make(&estimator, &complete, &over, search, &grid, pilot(law, sigma));
    if (status == EPS_OK) {
        size_t cell = first_accepted(&estimator, expected_threshold(search, law, delta, 0.8 * proven));
        *eps = cell < grid.len ? eps__mc_grid_at(&grid, cell) : proven;
        eps__mc_take_all(search, *eps);
    }
    eps__mc_estimator_clear(&estimator);
    search->class->destroy(law);
    return status;
}

static enum eps_status solve_epsilon(struct eps__answer *answer, struct eps__mc_search *search, double proven)
{
    double sigma = search->setting->job->query.noise_multiplier, delta = search->setting->job->query.delta;
    double eps = 0, threshold, failure, most = 1;
    const struct eps__mc_promise promise = {delta, NAN};
    struct eps__mc_law *law = NULL;
    struct eps__mc_estimator estimator = {0};
    uint64_t samples;
    bool complete, over;
    enum eps_status status = pilot_epsilon(search, sigma, delta, proven, &eps);
    if (status == EPS_OK)
        status = eps__mc_open_law(&law, search, sigma, eps, TILTED_FROM * eps);
    if (status != EPS_OK)
        return status;
    double least = (law->tilted ? TILTED_FROM : PLAIN_FROM) * eps;
    struct eps__mc_grid grid = {least, (proven - least) / (CELLS - 1), CELLS};
    if (!(grid.step > 0)) /* its first point stays, where values of a dominated law are within their bound (A54) */
        grid = (struct eps__mc_grid){least, 0, 1};
    most = eps__mc_most_at(law, grid.first);
    if (!eps__mc_choose_samples(search, law, &promise, most, &samples, &threshold))
        status = eps__mc_refuse_samples(search, &promise, most);
    eps__mc_begin_share(search, 1);
    if (status == EPS_OK)
        status =
            eps__mc_make(&estimator, &complete, &over, search, &grid, run_of(law, sigma, EPS__MC_CANDIDATE, samples));
    if (status == EPS_OK && !complete) {
        answer->cut_short = true;
        threshold = estimator.count > 0 ? eps__mc_threshold(&promise, (double)estimator.count, most) : -1;
    }
    size_t cell = status == EPS_OK && threshold >= 0 ? first_accepted(&estimator, threshold) : grid.len;
    if (status == EPS_OK && cell == grid.len) {
        status = eps__error(search->error, EPS_UNATTAINABLE, "/accountant",
                            "%llu draws verify no epsilon below %.6g, which is proven without draws; raise samples",
                            (unsigned long long)estimator.count, proven);
    } else if (status == EPS_OK) {
        (void)eps__mc_keeps(&promise, (double)estimator.count, threshold, most, &failure);
        answer->value = eps__mc_grid_at(&grid, cell);
        answer->guarantee = EPS_GUARANTEE_HIGH_PROBABILITY;
        answer->order = law->order;
        answer->draws = (struct eps_draws){.threshold = threshold, .bound = most, .failure_probability = failure};
        eps__mc_describe(&answer->draws, search, law, &estimator, cell, &promise);
    }
    eps__mc_estimator_clear(&estimator);
    search->class->destroy(law);
    return status;
}

/* ------------------------------------------------------------ delta */

static enum eps_status solve_delta(struct eps__answer *answer, struct eps__mc_search *search, double proven)
{
    double sigma = search->setting->job->query.noise_multiplier, eps = search->setting->job->query.epsilon;
    struct eps__mc_grid grid = {eps, 0, 1};
    struct eps__mc_estimator estimator;
    struct eps__mc_law *law;
    bool complete, over;
    enum eps_status status = eps__mc_open_law(&law, search, sigma, eps, eps);
    if (status != EPS_OK)
        return status;
    double most = eps__mc_most_at(law, eps), share = search->tuning->threshold_share, failure;
    uint64_t samples = eps__mc_whole(search->tuning->samples);
    eps__mc_begin_share(search, PILOT_SHARE);
    if (samples == 0) { /* choose them so that the proven delta is about 1/share times the estimate */
        status = eps__mc_make(&estimator, &complete, &over, search, &grid, pilot(law, sigma));
        if (status == EPS_OK) {
            double mean = fmin(fmax(eps__mc_estimator_mean(&estimator, 0), share * proven / 64), proven);
            const struct eps__mc_promise promise = {mean / share, NAN};
            samples = eps__mc_whole_samples((double)eps__mc_samples(&promise, mean, most));
            eps__mc_take_all(search, mean);
            if (share == EPS__MC_SHARE)
                samples = eps__mc_whole_samples(fmax((double)samples, eps__mc_cheap_samples(search, law)));
        }
        eps__mc_estimator_clear(&estimator);
    }
    eps__mc_begin_share(search, 1);
    if (status == EPS_OK) {
        status =
            eps__mc_make(&estimator, &complete, &over, search, &grid, run_of(law, sigma, EPS__MC_CANDIDATE, samples));
        if (status == EPS_OK && estimator.count > 0) {
            double mean = eps__mc_estimator_mean(&estimator, 0);
            answer->value = fmin(eps__mc_guarantee((double)estimator.count, mean, most, &failure), 1);
            answer->guarantee = EPS_GUARANTEE_HIGH_PROBABILITY;
            answer->cut_short = !complete;
            const struct eps__mc_promise promise = {answer->value, NAN};
            answer->order = law->order;
            answer->draws = (struct eps_draws){.threshold = mean, .bound = most, .failure_probability = failure};
            eps__mc_describe(&answer->draws, search, law, &estimator, 0, &promise);
        } else if (status == EPS_OK) {
            status = eps__error(search->error, EPS_UNATTAINABLE, "/accountant/max_seconds",
                                "max_seconds passed before any draws were complete; raise max_seconds");
        }
        eps__mc_estimator_clear(&estimator);
    }
    search->class->destroy(law);
    return status;
}

/* ------------------------------------------------------------ the row */

static enum eps_status solve(struct eps__answer *answer, struct eps_error *error, const struct eps__setting *setting,
                             enum eps_direction direction, const struct eps__proven *bounds)
{
    const struct eps_query *query = &setting->job->query;
    const struct eps_tuning *tuning = &query->accountant;
    double proven = bounds->value;
    struct eps__mc_search search = {.setting = setting,
                                    .class = eps__mc_law_class_of(&setting->job->mechanism),
                                    .direction = direction,
                                    .tuning = tuning,
                                    .seed = eps__mc_seed(setting),
                                    .begun = eps__mc_now(),
                                    .other = bounds->other,
                                    .error = error};
    search.until_alone = search.begun + bounds->seconds;
    search.until = search.begun + (search.other > -INFINITY ? 0.5 : 1) * bounds->seconds;
    *answer = (struct eps__answer){.bad_event_share = NAN};
    if (!(proven < INFINITY))
        return eps__error(error, EPS_UNATTAINABLE, "", "monte_carlo needs a bound that is proven without draws");
    enum eps_unknown unknown = eps_job_unknown(setting->job);
    enum eps_status status;
    if (proven == 0 || (unknown == EPS_SOLVE_DELTA && proven <= 1e-300)) { /* cannot be improved */
        answer->value = proven;
        return EPS_OK;
    }
    if (unknown == EPS_SOLVE_EPSILON)
        status = solve_epsilon(answer, &search, proven);
    else if (unknown == EPS_SOLVE_DELTA)
        status = solve_delta(answer, &search, proven);
    else
        status = eps__mc_solve_noise(answer, &search, proven);
    if (status != EPS_OK && error && error->status != status) {
        static const char *const messages[EPS_STATUS_COUNT] = {[EPS_NO_MEMORY] = "out of memory",
                                                               [EPS_CANCELED] = "canceled",
                                                               [EPS_TIMEOUT] = "the time limit passed",
                                                               [EPS_INTERNAL] = "a draw exceeds its proven bound"};
        eps__error(error, status, "", "%s", messages[status] ? messages[status] : "the draws did not succeed");
    }
    return status;
}

bool eps__mc_serves(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    const struct eps__mc_law_class *class = eps__mc_law_class_of(mechanism);
    if (!class)
        return eps__decline(error, "/sampling/scheme", "monte_carlo does not serve this scheme");
    if (!eps__adjacency_known(error, "monte_carlo", 1u << EPS_ADJACENCY_ZERO_OUT | 1u << EPS_ADJACENCY_ADD_REMOVE,
                              mechanism->adjacency))
        return false;
    if (!eps__strategy_nonnegative(setting->strategy))
        return eps__decline(error, "/matrix", "monte_carlo needs a strategy whose entries are all >= 0");
    return class->serves(setting, error);
}

static bool never(const struct eps__setting *setting)
{
    (void)setting;
    return false;
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    const struct eps_query *query = &setting->job->query;
    const struct eps_tuning *tuning = &query->accountant;
    double delta = isnan(query->delta) ? 1e-6 : query->delta, share = tuning->threshold_share;
    const struct eps__mc_promise promise = {delta, NAN};
    double samples =
        tuning->samples > 0 ? (double)tuning->samples : (double)eps__mc_samples(&promise, share * delta, 1);
    if (tuning->samples == 0 && (tuning->estimator != EPS_ESTIMATOR_PLAIN || !isnan(tuning->max_seconds)))
        samples = fmin(samples, SAMPLES_GUESS);
    eps__mc_law_class_of(&setting->job->mechanism)->cost(setting, operations, bytes);
    *operations *= EPS_DIRECTIONS * samples * (eps_job_unknown(setting->job) == EPS_SOLVE_NOISE_MULTIPLIER ? 5 : 1.1);
    if (!isnan(tuning->max_seconds))
        *operations = fmin(*operations, PACE * tuning->max_seconds);
    *bytes *= 2 * EPS_DIRECTIONS;
}

static void assume(struct eps__sentences *list, const struct eps__setting *setting, const struct eps_result *result)
{
    const struct eps_tuning *tuning = &setting->job->query.accountant;
    const struct eps__mc_law_class *class = eps__mc_law_class_of(&setting->job->mechanism);
    eps__assume_causal_order(list, setting, result);
    if (class->assume)
        class->assume(list, setting);
    eps__sentence(list,
                  "the numbers of the Philox generator are independent and uniform, and Gaussians computed in floating "
                  "point are exact");
    if (tuning->seed >= 0)
        eps__sentence(list, "the seed %lld, which the client set, was not chosen after seeing answers",
                      (long long)tuning->seed);
    else
        eps__sentence(list, "the job, whose hash is the seed, was not chosen after seeing answers");
    if (!isnan(tuning->max_seconds))
        eps__sentence(
            list, "the job was run once; max_seconds may end runs at different points, and keeping the best of several "
                  "answers voids the guarantee");
}

const struct eps__accountant eps__accountant_monte_carlo = {
    .method = EPS_ACCOUNTANT_MONTE_CARLO,
    .name = "monte_carlo",
    .amplifies = true,
    .draws = true,
    .assume = assume,
    .serves = eps__mc_serves,
    .exact = never,
    .cost = cost,
    .solve = solve,
};
