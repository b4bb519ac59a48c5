/*
 * A noise multiplier from draws (A42). A pilot looks for the noise multiplier whose estimate is just below the
 * threshold, by a few draws at each place. It fixes the candidates: a list that begins there and falls by a constant
 * ratio. They are verified one by one, with draws of their own, until one fails.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>

#include "lib/accountants/monte_carlo/search.h"
#include "lib/base/error.h"

enum {
    PILOTS = 24,          /* places at which the pilot draws, at most */
    CANDIDATES = 256,     /* that are verified, at most */
    PARTS = 2,            /* plain draws of a pilot: 1/PARTS of those of a candidate */
    SAMPLES_LEAST = 4096, /* tilted draws at a place of the pilot, about, at first, */
    SAMPLES_TIMES = 4     /* and so many times as many while they do not tell */
};

#define RATIO 1.01      /* of successive candidates */
#define SURE 3.5        /* standard errors of margin in a pilot, so that the first candidate is likely to pass */
#define SHOWN 32.0      /* of the largest value: what tilted draws of a pilot add up to, at least, at the threshold */
#define NEAR 0.004      /* the pilot ends if ln of the noise multiplier is known this well, */
#define CLEAR 0.05      /* or if ln of its estimate is below that of the threshold by less than this */
#define UNSEEN (-6.0)   /* ln of an estimate over the threshold, at most, where hardly any draw has a value: a guess */
#define FIRST 0.05      /* of ln(proven/noise multiplier), at the pilot's first place */
#define STEP_LEAST 0.02 /* of the same, as long as no place is too low */
#define STEP_MOST 0.4
#define TRIALS 3.0      /* estimated number of candidates */
#define PILOT_WORK 0.04 /* estimated share of one place of a pilot in the remaining work */
#define PILOT_TIME 0.4  /* the largest share of a time limit that a pilot takes */

/* What is drawn at one noise multiplier. */
struct place {
    struct eps__mc_law *law;
    double most; /* the bound on its values */
    uint64_t samples;
    double threshold;
};

static struct eps__mc_promise promise_of(const struct eps__mc_search *search)
{
    double delta = search->setting->job->query.delta;
    return (struct eps__mc_promise){delta, eps__mc_left(delta, search->tuning->threshold_share)};
}

/* The caller destroys place->law if the status is EPS_OK. */
static enum eps_status open_place(struct place *place, const struct eps__mc_search *search, double sigma)
{
    const struct eps__mc_promise promise = promise_of(search);
    double eps = search->setting->job->query.epsilon;
    enum eps_status status = eps__mc_open_law(&place->law, search, sigma, eps, eps);
    if (status != EPS_OK)
        return status;
    place->most = eps__mc_most_at(place->law, eps);
    if (eps__mc_choose_samples(search, place->law, &promise, place->most, &place->samples, &place->threshold))
        return EPS_OK;
    search->class->destroy(place->law);
    return eps__mc_refuse_samples(search, &promise, place->most);
}

/* ------------------------------------------------------------ the pilot */

/* Draws at a place. *clear: the mean is so far from the threshold that more draws would not help. */
static enum eps_status sample(double *excess, bool *clear, bool *complete, struct eps__mc_search *search,
                              const struct place *place, struct eps__mc_run run)
{
    struct eps__mc_grid grid = {search->setting->job->query.epsilon, 0, 1};
    struct eps__mc_estimator estimator = {0};
    bool over = false;
    double begun = eps__mc_now();
    enum eps_status status = eps__mc_make(&estimator, complete, &over, search, &grid, run);
    *complete |= over;
    if (status == EPS_OK && *complete) {
        double mean = eps__mc_estimator_mean(&estimator, 0);
        double error = fmax(eps__mc_estimator_error(&estimator, 0), place->most / (double)estimator.count);
        bool above = over || mean - SURE * error > place->threshold;
        *clear = above || mean + SURE * error < place->threshold;
        *excess = log((above ? mean : mean + SURE * error) / place->threshold);
        if (above)
            *excess = fmax(*excess, CLEAR);
        else if (mean <= error)
            *excess = fmin(*excess, UNSEEN);
        search->rate = (double)estimator.count / fmax(eps__mc_now() - begun, 1e-6);
    }
    eps__mc_estimator_clear(&estimator);
    return status;
}

/* *excess: ln of the estimate, with its margin, over the threshold; the estimate passes if it is at most 0. Few draws
 * tell it where it is far from 0. */
static enum eps_status estimate(double *excess, bool *complete, struct eps__mc_search *search, double sigma,
                                uint64_t index)
{
    struct place place;
    bool clear = false;
    enum eps_status status = open_place(&place, search, sigma);
    if (status != EPS_OK)
        return status;
    bool shown = place.law->tilted && place.samples > EPS__MC_PILOT_TILTED &&
                 EPS__MC_PILOT_TILTED * place.threshold >= SHOWN * place.most;
    uint64_t most = shown ? EPS__MC_PILOT_TILTED : eps__mc_whole(place.samples / PARTS), samples = most;
    while (place.law->tilted && samples > SAMPLES_LEAST)
        samples /= SAMPLES_TIMES;
    eps__mc_begin_share(search, PILOT_WORK);
    for (*complete = true; status == EPS_OK && *complete && !clear; samples *= SAMPLES_TIMES) {
        struct eps__mc_run run = {.law = place.law,
                                  .sigma = sigma,
                                  .candidate = (uint64_t)EPS__MC_PILOT << 32 | index,
                                  .whole = true,
                                  .samples = samples < most ? eps__mc_whole(samples) : most,
                                  .enough = shown ? INFINITY : place.threshold};
        status = sample(excess, &clear, complete, search, &place, run);
        clear |= samples >= most;
    }
    search->class->destroy(place.law);
    return status;
}

/* Where the next estimate is made: x = ln(proven/noise multiplier). */
struct bracket {
    double low, low_excess;   /* the largest x that passed; 0, NAN: proven */
    double high, high_excess; /* the least x above it that did not; INFINITY: none */
    double slope;             /* of the excess in x */
};

static double next_place(const struct bracket *bracket)
{
    double wide = bracket->high - bracket->low;
    if (isinf(wide)) {
        double step = isnan(bracket->low_excess) ? FIRST : -bracket->low_excess / bracket->slope;
        return bracket->low + fmin(fmax(step, STEP_LEAST), STEP_MOST);
    }
    double share = -bracket->low_excess / (bracket->high_excess - bracket->low_excess);
    return bracket->low + wide * (isnan(share) ? 0.5 : fmin(fmax(share, 0.1), 0.9));
}

/* Finds about the largest x at which estimates pass; *x = 0: none was found. */
static enum eps_status pilot(double *x, struct eps__mc_search *search, double proven)
{
    double until = search->until;
    struct bracket bracket = {0, NAN, INFINITY, NAN, -2 * log(search->setting->job->query.delta)};
    bool complete = true;
    enum eps_status status = EPS_OK;
    if (isfinite(until))
        search->until = search->begun + PILOT_TIME * (until - search->begun);
    for (uint64_t i = 0; i < PILOTS && bracket.high - bracket.low > NEAR; i++) {
        double at = next_place(&bracket), excess = NAN;
        status = estimate(&excess, &complete, search, proven * exp(-at), i);
        if (status != EPS_OK || !complete)
            break;
        if (excess > 0) {
            bracket.high = at;
            bracket.high_excess = excess;
            continue;
        }
        if (!isnan(bracket.low_excess) && excess > bracket.low_excess)
            bracket.slope = (excess - bracket.low_excess) / (at - bracket.low);
        bracket.low = at;
        bracket.low_excess = excess;
        if (excess > -CLEAR)
            break;
    }
    search->until = until;
    *x = bracket.low;
    return status;
}

/* ------------------------------------------------------------ the candidates */

/* The outcome of the draws of a candidate. */
struct trial {
    bool passed;
    bool complete; /* false: the time was over first */
    double most;   /* the bound on its values */
    struct eps_draws draws;
    unsigned order;
};

/* Verifies one sigma. If the bound on the values exceeds `limit`, it fails without draws. */
static enum eps_status verify(struct trial *trial, const struct eps__mc_search *search, double sigma, uint64_t index,
                              double limit)
{
    const struct eps__mc_promise promise = promise_of(search);
    struct eps__mc_grid grid = {search->setting->job->query.epsilon, 0, 1};
    struct eps__mc_estimator estimator = {0};
    struct place place;
    bool over = false;
    *trial = (struct trial){0};
    enum eps_status status = open_place(&place, search, sigma);
    if (status != EPS_OK)
        return status;
    trial->most = place.most;
    trial->complete = place.most > limit;
    if (!trial->complete)
        status = eps__mc_make(&estimator, &trial->complete, &over, search, &grid,
                              (struct eps__mc_run){.law = place.law,
                                                   .sigma = sigma,
                                                   .candidate = (uint64_t)EPS__MC_CANDIDATE << 32 | index,
                                                   .whole = true,
                                                   .samples = place.samples,
                                                   .enough = place.threshold});
    if (status == EPS_OK && trial->complete && !over && place.most <= limit) {
        trial->passed = eps__mc_estimator_mean(&estimator, 0) <= place.threshold;
        trial->order = place.law->order;
        trial->draws = (struct eps_draws){.threshold = place.threshold, .bound = place.most};
        (void)eps__mc_keeps(&promise, (double)place.samples, place.threshold, place.most,
                            &trial->draws.failure_probability);
        eps__mc_describe(&trial->draws, search, place.law, &estimator, 0, &promise);
    }
    trial->complete |= over;
    eps__mc_estimator_clear(&estimator);
    search->class->destroy(place.law);
    return status;
}

/* A42: verifies the candidates from the noisiest one down to the first that fails. The pilot fixes the list
 * beforehand. */
enum eps_status eps__mc_solve_noise(struct eps__answer *answer, struct eps__mc_search *search, double proven)
{
    double x = 0;
    enum eps_status status = pilot(&x, search, proven);
    struct trial trial = {.passed = true, .complete = true, .most = INFINITY};
    double sigma = x > 0 ? proven * exp(-x) : proven / RATIO;
    eps__mc_take_all(search, sigma / (RATIO * RATIO * RATIO));
    for (uint64_t i = 0; status == EPS_OK && trial.complete && trial.passed && i < CANDIDATES; i++, sigma /= RATIO) {
        eps__mc_begin_share(search, 1.0 / TRIALS);
        status = verify(&trial, search, sigma, i, EPS__MC_GROWTH * trial.most);
        if (status == EPS_OK && trial.passed) {
            answer->value = sigma;
            answer->guarantee = EPS_GUARANTEE_ESTIMATE_VERIFY_RELEASE;
            answer->draws = trial.draws;
            answer->order = trial.order;
        }
    }
    answer->cut_short = !trial.complete;
    if (status == EPS_OK && answer->draws.samples == 0)
        status = eps__error(search->error, EPS_UNATTAINABLE, "/accountant",
                            "no noise multiplier below %.6g, which is proven without draws, was verified%s", proven,
                            trial.complete ? "" : " in time");
    return status;
}
