/*
 * The accountant monte_carlo: guarantees from draws of the privacy loss (BMS section 5 and appendix A).
 *
 * A noise multiplier is found by estimate-verify-release: candidates of a ladder are tried from the noisiest on, and
 * the last one before the first failure is released (A42). An epsilon or a delta at a given noise multiplier is read
 * off one set of draws and holds with high probability (A41, A43).
 *
 * The laws (law.h) make the draws; this file chooses how many are made and what follows from them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/monte_carlo/draws.h"
#include "lib/accountants/monte_carlo/guarantee.h"
#include "lib/base/error.h"
#include "lib/numerics/bound.h"
#include "lib/sampling/scheme.h"

enum {
    CELLS = 1024,           /* points of a grid of epsilons */
    LADDER = 128,           /* noise multipliers of a ladder */
    PILOT_PLAIN = 1 << 16,  /* plain draws of a pilot */
    PILOT_TILTED = 1 << 13, /* tilted draws of a pilot */
    PILOT_PARTS = 2,        /* a pilot on a ladder makes 1/PILOT_PARTS of the draws of a candidate */
    SAMPLES_LEAST = 1 << 12
};

#define SHARE 0.5             /* the default of threshold_share */
#define CHEAP_OPERATIONS 2e9  /* an estimate may always use this many operations, */
#define CHEAP_SAMPLES 65536.0 /* for at most this many draws */
#define RATIO 1.01            /* of successive noise multipliers of a ladder */
#define SURE 2.5              /* standard errors of margin in a pilot, so that the first candidate is likely to pass */
#define WORTH 0.5             /* a tilted law is used if its values are at most this */
#define SAMPLES_MOST 0x1p40
#define PILOT_SHARE 0.05     /* estimated share of a pilot in the work, without a ladder */
#define TRIALS 3.0           /* estimated number of candidates that are tried on a ladder */
#define SAMPLES_GUESS 0x1p23 /* estimated number of samples, at most, where a tilt may reduce them */

struct search {
    const struct eps__setting *setting;
    const struct eps__mc_law_class *class;
    enum eps_direction direction;
    const struct eps_tuning *tuning;
    uint64_t seed;
    double begun, until; /* seconds of CLOCK_MONOTONIC */
    double from, to;     /* the part of the estimated work, in [0, 1], that the next draws are */
    struct eps_error *error;
};

/* ------------------------------------------------------------ laws and draws */

/* The bound on the values of a law at eps. */
static double most_at(const struct eps__mc_law *law, double eps)
{
    if (!law->class->log_most)
        return 1;
    double most = eps__exp_bound(EPS__UPPER, law->class->log_most(law, eps), 0);
    return law->tilted ? most : 1;
}

/* Opens the law at sigma that needs the fewest draws for epsilons near eps, of those that the job allows. */
static enum eps_status open_law(struct eps__mc_law **law, const struct search *search, double sigma, double eps)
{
    struct eps__mc_aim aim = {.sigma = sigma, .direction = search->direction, .tilted = true, .eps = eps};
    enum eps_estimator estimator = search->tuning->estimator;
    enum eps_status status = EPS_UNSUPPORTED;
    *law = NULL;
    if (estimator != EPS_ESTIMATOR_PLAIN)
        status = search->class->open(law, search->setting, &aim);
    if (status == EPS_OK && estimator == EPS_ESTIMATOR_AUTO && !(most_at(*law, eps) <= WORTH)) {
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
    return status;
}

/* Declares that the next draws are this share of the remaining work. */
static void begin_share(struct search *search, double share)
{
    search->from = search->to;
    search->to += share * (1 - search->to);
}

/* Makes an estimator and the draws of `run` into it; the members of `run` that a search has follow from it. The caller
 * clears the estimator, whatever the status. */
static enum eps_status draw(struct eps__mc_estimator *estimator, bool *complete, bool *over,
                            const struct search *search, const struct eps__mc_grid *grid, struct eps__mc_run run)
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

static uint64_t whole_samples(double samples)
{
    return eps__mc_whole((uint64_t)fmin(fmax(samples, SAMPLES_LEAST), SAMPLES_MOST));
}

static double cheap_samples(const struct eps__mc_law *law)
{
    return fmin(CHEAP_OPERATIONS / (law->operations / EPS__LANES), CHEAP_SAMPLES);
}

/* Chooses the number of samples and the threshold with which the promise is verified. If the job sets samples, the
 * threshold follows from them. Otherwise threshold_share sets the threshold, and samples are as few as it needs; with
 * the default share, cheap draws may be more, which raises the threshold. False if the samples are too few. */
static bool choose_samples(const struct search *search, const struct eps__mc_law *law,
                           const struct eps__mc_promise *promise, double most, uint64_t *samples, double *threshold)
{
    const struct eps_tuning *tuning = search->tuning;
    *threshold = eps__lower(tuning->threshold_share * promise->delta, 2);
    *samples = tuning->samples > 0 ? eps__mc_whole(tuning->samples)
                                   : whole_samples((double)eps__mc_samples(promise, *threshold, most));
    double cheap = cheap_samples(law);
    bool more = tuning->samples == 0 && tuning->threshold_share == SHARE && (double)*samples < cheap;
    if (more)
        *samples = whole_samples(cheap);
    if (more || tuning->samples > 0)
        *threshold = eps__mc_threshold(promise, (double)*samples, most);
    return *threshold >= 0 && eps__mc_keeps(promise, (double)*samples, *threshold, most, NULL);
}

static enum eps_status refuse_samples(const struct search *search, const struct eps__mc_promise *promise, double most)
{
    return eps__error(search->error, EPS_UNATTAINABLE, "/accountant/samples",
                      "these samples are too few to verify this delta; set at least %.3g or leave samples out",
                      (double)eps__mc_samples(promise, 0, most));
}

/* Fills in *draws, whose threshold, bound and probability of failure are given. */
static void describe(struct eps_draws *draws, const struct search *search, const struct eps__mc_law *law,
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

/* ------------------------------------------------------------ epsilon */

static struct eps__mc_run run_of(const struct eps__mc_law *law, double sigma, enum eps__mc_purpose purpose,
                                 uint64_t samples)
{
    return (struct eps__mc_run){
        .law = law, .sigma = sigma, .candidate = (uint64_t)purpose << 32, .samples = samples, .enough = INFINITY};
}

static struct eps__mc_run pilot(const struct eps__mc_law *law, double sigma)
{
    return run_of(law, sigma, EPS__MC_PILOT, law->tilted ? PILOT_TILTED : PILOT_PLAIN);
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

/* Estimates the answer, or an epsilon below it: if the job sets samples, the threshold may be as large as delta. */
static enum eps_status pilot_epsilon(struct search *search, double sigma, double delta, double proven, double *eps)
{
    struct eps__mc_grid grid = {0, proven / (CELLS - 1), CELLS};
    struct eps__mc_estimator estimator = {0};
    struct eps__mc_law *law;
    bool complete, over;
    enum eps_status status = open_law(&law, search, sigma, 0.8 * proven);
    if (status != EPS_OK)
        return status;
    begin_share(search, PILOT_SHARE);
    status = draw(&estimator, &complete, &over, search, &grid, pilot(law, sigma));
    if (status == EPS_OK) {
        double share = search->tuning->samples > 0 ? 1 : search->tuning->threshold_share;
        size_t cell = first_accepted(&estimator, share * delta);
        *eps = cell < grid.len ? eps__mc_grid_at(&grid, cell) : proven;
    }
    eps__mc_estimator_clear(&estimator);
    search->class->destroy(law);
    return status;
}

static enum eps_status solve_epsilon(struct eps__answer *answer, struct search *search, double proven)
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
        status = open_law(&law, search, sigma, eps);
    if (status != EPS_OK)
        return status;
    double least = (law->tilted ? 0.97 : 0.5) * eps;
    struct eps__mc_grid grid = {least, (proven - least) / (CELLS - 1), CELLS};
    if (!(grid.step > 0))
        grid = (struct eps__mc_grid){proven, 0, 1};
    most = most_at(law, grid.first);
    if (!choose_samples(search, law, &promise, most, &samples, &threshold))
        status = refuse_samples(search, &promise, most);
    begin_share(search, 1);
    if (status == EPS_OK)
        status = draw(&estimator, &complete, &over, search, &grid, run_of(law, sigma, EPS__MC_CANDIDATE, samples));
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
        describe(&answer->draws, search, law, &estimator, cell, &promise);
    }
    eps__mc_estimator_clear(&estimator);
    search->class->destroy(law);
    return status;
}

/* ------------------------------------------------------------ delta */

static enum eps_status solve_delta(struct eps__answer *answer, struct search *search, double proven)
{
    double sigma = search->setting->job->query.noise_multiplier, eps = search->setting->job->query.epsilon;
    struct eps__mc_grid grid = {eps, 0, 1};
    struct eps__mc_estimator estimator;
    struct eps__mc_law *law;
    bool complete, over;
    enum eps_status status = open_law(&law, search, sigma, eps);
    if (status != EPS_OK)
        return status;
    double most = most_at(law, eps), share = search->tuning->threshold_share, failure;
    uint64_t samples = eps__mc_whole(search->tuning->samples);
    begin_share(search, PILOT_SHARE);
    if (samples == 0) { /* choose them so that the proven delta is about 1/share times the estimate */
        status = draw(&estimator, &complete, &over, search, &grid, pilot(law, sigma));
        if (status == EPS_OK) {
            double mean = fmin(fmax(eps__mc_estimator_mean(&estimator, 0), share * proven / 64), proven);
            const struct eps__mc_promise promise = {mean / share, NAN};
            samples = whole_samples((double)eps__mc_samples(&promise, mean, most));
            if (share == SHARE)
                samples = whole_samples(fmax((double)samples, cheap_samples(law)));
        }
        eps__mc_estimator_clear(&estimator);
    }
    begin_share(search, 1);
    if (status == EPS_OK) {
        status = draw(&estimator, &complete, &over, search, &grid, run_of(law, sigma, EPS__MC_CANDIDATE, samples));
        if (status == EPS_OK && estimator.count > 0) {
            double mean = eps__mc_estimator_mean(&estimator, 0);
            answer->value = fmin(eps__mc_guarantee((double)estimator.count, mean, most, &failure), 1);
            answer->guarantee = EPS_GUARANTEE_HIGH_PROBABILITY;
            answer->cut_short = !complete;
            const struct eps__mc_promise promise = {answer->value, NAN};
            answer->order = law->order;
            answer->draws = (struct eps_draws){.threshold = mean, .bound = most, .failure_probability = failure};
            describe(&answer->draws, search, law, &estimator, 0, &promise);
        } else if (status == EPS_OK) {
            status = eps__error(search->error, EPS_UNATTAINABLE, "/accountant/max_seconds",
                                "max_seconds passed before any draws were complete; raise max_seconds");
        }
        eps__mc_estimator_clear(&estimator);
    }
    search->class->destroy(law);
    return status;
}

/* ------------------------------------------------------------ the noise multiplier */

static double rung(double proven, size_t i)
{
    return proven / pow(RATIO, (double)i);
}

/* The outcome of the draws of a candidate. */
struct trial {
    bool passed;
    bool complete; /* false: the time was over first */
    double most;   /* the bound on its values */
    struct eps_draws draws;
    unsigned order;
};

/* Tries one sigma with 1/part of the draws of a candidate; part > 1: a pilot. If the bound on the values exceeds
 * `limit`, the candidate fails without draws. */
static enum eps_status try_sigma(struct trial *trial, const struct search *search, double sigma, uint64_t candidate,
                                 size_t part, double limit)
{
    double eps = search->setting->job->query.epsilon, delta = search->setting->job->query.delta, threshold, failure;
    const struct eps__mc_promise promise = {delta, eps__mc_left(delta, search->tuning->threshold_share)};
    struct eps__mc_grid grid = {eps, 0, 1};
    struct eps__mc_estimator estimator = {0};
    struct eps__mc_law *law;
    uint64_t samples;
    bool over = false;
    *trial = (struct trial){0};
    enum eps_status status = open_law(&law, search, sigma, eps);
    if (status != EPS_OK)
        return status;
    double most = most_at(law, eps);
    trial->most = most;
    if (most > limit) {
        trial->complete = true;
        search->class->destroy(law);
        return EPS_OK;
    }
    if (!choose_samples(search, law, &promise, most, &samples, &threshold))
        status = refuse_samples(search, &promise, most);
    if (status == EPS_OK)
        status = draw(&estimator, &trial->complete, &over, search, &grid,
                      (struct eps__mc_run){.law = law,
                                           .sigma = sigma,
                                           .candidate = candidate,
                                           .samples = eps__mc_whole(samples / part),
                                           .enough = threshold});
    if (status == EPS_OK && trial->complete && !over) {
        double spare = part > 1 ? SURE * eps__mc_estimator_error(&estimator, 0) : 0;
        trial->passed = eps__mc_estimator_mean(&estimator, 0) + spare <= threshold;
        (void)eps__mc_keeps(&promise, (double)eps__mc_whole(samples), threshold, most, &failure);
        trial->order = law->order;
        trial->draws = (struct eps_draws){.threshold = threshold, .bound = most, .failure_probability = failure};
        describe(&trial->draws, search, law, &estimator, 0, &promise);
    }
    trial->complete |= over;
    eps__mc_estimator_clear(&estimator);
    search->class->destroy(law);
    return status;
}

/* Bisects for the last rung that passes a pilot, approximately. 0: none. */
static enum eps_status pilot_noise(struct search *search, double proven, size_t *found, bool *complete)
{
    size_t low = 0, high = LADDER;
    enum eps_status status = EPS_OK;
    *complete = true;
    while (high - low > 1 && status == EPS_OK && *complete) {
        size_t middle = low + (high - low) / 2;
        struct trial trial;
        double pilots = ceil(log2((double)(high - low))) / PILOT_PARTS;
        begin_share(search, 1.0 / PILOT_PARTS / (pilots + TRIALS));
        status = try_sigma(&trial, search, rung(proven, middle), (uint64_t)EPS__MC_PILOT << 32 | middle, PILOT_PARTS,
                           INFINITY);
        *complete = trial.complete;
        *(trial.passed ? &low : &high) = middle;
    }
    *found = low;
    return status;
}

/* A42: tries the candidates from the noisiest one down to the first that fails. The pilot fixes the list beforehand. */
static enum eps_status solve_noise(struct eps__answer *answer, struct search *search, double proven)
{
    size_t found = 0;
    bool complete = true;
    enum eps_status status = pilot_noise(search, proven, &found, &complete);
    struct trial trial = {.passed = true, .most = INFINITY};
    for (size_t i = found > 0 ? found : 1; status == EPS_OK && complete && trial.passed && i <= LADDER; i++) {
        double sigma = rung(proven, i);
        begin_share(search, 1.0 / TRIALS);
        status =
            try_sigma(&trial, search, sigma, (uint64_t)EPS__MC_CANDIDATE << 32 | i, 1, EPS__MC_GROWTH * trial.most);
        complete = trial.complete;
        if (status == EPS_OK && trial.passed) {
            answer->value = sigma;
            answer->guarantee = EPS_GUARANTEE_ESTIMATE_VERIFY_RELEASE;
            answer->draws = trial.draws;
            answer->order = trial.order;
        }
    }
    answer->cut_short = !complete;
    if (status == EPS_OK && answer->draws.samples == 0)
        status = eps__error(search->error, EPS_UNATTAINABLE, "/accountant",
                            "no noise multiplier below %.6g, which is proven without draws, was verified%s", proven,
                            complete ? "" : " in time");
    return status;
}

/* ------------------------------------------------------------ the row */

static enum eps_status solve(struct eps__answer *answer, struct eps_error *error, const struct eps__setting *setting,
                             enum eps_direction direction, double proven)
{
    const struct eps_query *query = &setting->job->query;
    const struct eps_tuning *tuning = &query->accountant;
    struct search search = {.setting = setting,
                            .class = eps__mc_law_class_of(&setting->job->mechanism),
                            .direction = direction,
                            .tuning = tuning,
                            .seed = eps__mc_seed(setting),
                            .begun = eps__mc_now(),
                            .until = isnan(tuning->max_seconds) ? INFINITY : eps__mc_now() + 0.5 * tuning->max_seconds,
                            .error = error};
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
        status = solve_noise(answer, &search, proven);
    if (status != EPS_OK && error && error->status != status) {
        static const char *const messages[EPS_STATUS_COUNT] = {[EPS_NO_MEMORY] = "out of memory",
                                                               [EPS_CANCELED] = "canceled",
                                                               [EPS_TIMEOUT] = "the time limit passed",
                                                               [EPS_INTERNAL] = "a draw exceeds its proven bound"};
        eps__error(error, status, "", "%s", messages[status] ? messages[status] : "the draws did not succeed");
    }
    return status;
}

static bool serves(const struct eps__setting *setting, struct eps_error *error)
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
    .assume = assume,
    .serves = serves,
    .exact = never,
    .cost = cost,
    .solve = solve,
};
