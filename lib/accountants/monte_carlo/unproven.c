/*
 * See unproven.h. The direction whose proven answer is worse is estimated first. The other one is estimated too if its
 * proven answer is above that estimate; it decides only if its delta is too large there.
 *
 * For delta, the estimate is the mean of the draws. For epsilon, it is where the mean over one set of draws falls to
 * delta. For a noise multiplier, it is the root of ln(mean/delta) in ln sigma by the secant method, with draws of its
 * own at each place. The standard error of the mean over its slope is that of an epsilon and of a noise multiplier.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/unproven.h"

#include <float.h>
#include <math.h>

#include "lib/accountants/monte_carlo/search.h"

enum {
    CELLS = 1024,        /* points of a grid of epsilons */
    SAMPLES_MOST = 8192, /* for one law */
    HITS = 30,           /* plain draws that are expected to count, at least */
    PLACES = 4,          /* noise multipliers at which the first direction is drawn, at most */
    OTHER_PLACES = 2,    /* and the other one */
    TRIALS = 3           /* estimated number of candidates that monte_carlo verifies */
};

#define SHARE 0.1       /* of the job's operations, at most, */
#define MOST 2e9        /* and at most this */
#define LEAST 2e7       /* a job of fewer operations gets no estimate */
#define DRAWN_SHARE 0.6 /* of the operations that are for draws, at least; the others open laws */
#define PACE 0.2        /* nanoseconds for an estimated operation of a draw: they are vectorised */
#define AIM 0.8         /* epsilon is expected at this fraction of the proven one, */
#define AIM_NEAR 0.1    /* and aimed at again if it differs by more than this share */
#define REACH 1.25      /* the grid of epsilons ends at this multiple of the proven one */
#define STEP_LEAST 0.05 /* of ln sigma, first: it tells the slope */
#define STEP_MOST 0.7   /* of ln sigma */
#define NEAR 0.02       /* a place is good enough if its mean differs from delta by this share, */
#define NEAR_ERRORS 2.0 /* or by so many standard errors */
#define EXTEND 1.0      /* the largest ln(mean/delta) that is extrapolated to 0 */
#define RATIO 1.005     /* of monte_carlo's noise multiplier to the least that would pass: its candidates are apart */
#define VAGUE 0.5       /* a mean with this relative standard error is useless; */
#define VALUE_VAGUE 0.2 /* so is an estimate with this one */

/* ------------------------------------------------------------ draws */

/* The state of the estimate in one direction. */
struct quest {
    struct eps__mc_search search;
    const struct eps__mc_unproven_plan *plan;
    double proven;  /* the answer of this direction */
    double delta;   /* the job's; if it is asked for, the proven one */
    unsigned laws;  /* opened so far */
    double most;    /* the bound on the values of the last law, at the epsilon that it was opened for */
    double margin;  /* ln of delta over what the mean of monte_carlo's draws of the last law may be, about */
    double seconds; /* about what it takes to draw them */
};

static enum eps_unknown unknown_of(const struct quest *quest)
{
    return eps_job_unknown(quest->search.setting->job);
}

/* What monte_carlo would make of a law. mean: an estimate of delta if that is asked for, else NAN. */
static void foresee(struct quest *quest, const struct eps__mc_law *law, double mean)
{
    const struct eps__mc_search *search = &quest->search;
    bool noise = unknown_of(quest) == EPS_SOLVE_NOISE_MULTIPLIER;
    double share = search->tuning->threshold_share, delta = isnan(mean) ? quest->delta : fmin(mean / share, 0.5);
    const struct eps__mc_promise promise = {delta, noise ? eps__mc_left(delta, share) : NAN};
    uint64_t samples;
    double threshold;
    (void)eps__mc_choose_samples(search, law, &promise, quest->most, &samples, &threshold);
    double draws = (double)EPS__MC_PILOT_TILTED * (noise ? PLACES : 1) + (double)samples * (noise ? TRIALS : 1);
    quest->seconds = 1e-9 * PACE * draws * law->operations / EPS__LANES;
    quest->margin = isnan(mean) ? log(delta / fmax(threshold, DBL_MIN))
                                : log(eps__mc_guarantee((double)samples, mean, quest->most, NULL) / mean);
}

/* Draws from the law at sigma that is best at eps. *drawn: whether there is one whose draws tell something. The caller
 * clears the estimator. */
static enum eps_status draw(struct eps__mc_estimator *estimator, bool *drawn, struct quest *quest, double sigma,
                            double eps, const struct eps__mc_grid *grid)
{
    struct eps__mc_law *law;
    bool complete, over, asked = unknown_of(quest) == EPS_SOLVE_DELTA;
    *estimator = (struct eps__mc_estimator){0};
    *drawn = false;
    if (quest->laws >= quest->plan->laws)
        return EPS_OK;
    eps__mc_begin_share(&quest->search, 1.0 / (quest->plan->laws - quest->laws++));
    enum eps_status status = eps__mc_open_law(&law, &quest->search, sigma, eps);
    if (status != EPS_OK)
        return status == EPS_UNSUPPORTED || status == EPS_TOO_COSTLY ? EPS_OK : status;
    if (law->tilted || (double)quest->plan->samples * quest->delta >= HITS) {
        status = eps__mc_make(estimator, &complete, &over, &quest->search, grid,
                              (struct eps__mc_run){.law = law,
                                                   .sigma = sigma,
                                                   .candidate = (uint64_t)EPS__MC_UNPROVEN << 32 | quest->laws,
                                                   .samples = quest->plan->samples,
                                                   .enough = INFINITY});
        *drawn = status == EPS_OK;
    }
    if (*drawn) {
        double mean = eps__mc_estimator_mean(estimator, 0);
        quest->most = eps__mc_most_at(law, eps);
        if (!asked || (mean > 0 && mean < quest->most))
            foresee(quest, law, asked ? mean : NAN);
    }
    quest->search.class->destroy(law);
    return status;
}

/* Whether the mean at a point is small enough that this direction does not decide. The bound on values tells how large
 * a mean may be of which nothing was drawn. */
static bool is_below(const struct quest *quest, const struct eps__mc_estimator *estimator, size_t k, double delta)
{
    return eps__mc_estimator_mean(estimator, k) <= delta && 3 * quest->most <= delta * (double)estimator->count;
}

/* drawn: what monte_carlo would answer. */
static void settle(struct eps__mc_unproven *out, const struct quest *quest, double value, double error, double drawn)
{
    out->estimate = (struct eps_unproven_estimate){value, error, quest->plan->samples, quest->search.direction};
    out->drawn = drawn;
}

/* ------------------------------------------------------------ delta */

/* other: the estimate of the other direction; NAN: this is the first. The same for all questions: *out is left as it is
 * if this direction does not decide, and *told says whether that or an estimate is known. */
static enum eps_status find_delta(struct eps__mc_unproven *out, bool *told, struct quest *quest, double other)
{
    const struct eps_query *query = &quest->search.setting->job->query;
    const struct eps__mc_grid grid = {query->epsilon, 0, 1};
    struct eps__mc_estimator estimator;
    enum eps_status status = draw(&estimator, told, quest, query->noise_multiplier, query->epsilon, &grid);
    if (*told && (isnan(other) || !is_below(quest, &estimator, 0, other))) {
        double mean = eps__mc_estimator_mean(&estimator, 0), error = eps__mc_estimator_error(&estimator, 0);
        *told = isnan(other) || mean > other;
        if (*told)
            settle(out, quest, mean, error, mean * exp(quest->margin));
    }
    eps__mc_estimator_clear(&estimator);
    return status;
}

/* ------------------------------------------------------------ epsilon */

/* Where the mean falls to delta, ln of it taken as linear between two points. False if it does not on the grid. */
static bool crossing(double *eps, double *error, double *slope, const struct eps__mc_estimator *estimator, double delta)
{
    size_t low = 0, high = estimator->grid.len - 1;
    if (!(eps__mc_estimator_mean(estimator, low) > delta && eps__mc_estimator_mean(estimator, high) <= delta))
        return false;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(eps__mc_estimator_mean(estimator, middle) > delta ? &low : &high) = middle;
    }
    double above = eps__mc_estimator_mean(estimator, low), below = eps__mc_estimator_mean(estimator, high);
    double off = eps__mc_estimator_error(estimator, low);
    *slope = (log(above) - log(below)) / estimator->grid.step;
    *eps = eps__mc_grid_at(&estimator->grid, low) + log(above / delta) / *slope;
    *error = off / above / *slope;
    return isfinite(*eps) && isfinite(*error) && off < VAGUE * above;
}

static enum eps_status find_epsilon(struct eps__mc_unproven *out, bool *told, struct quest *quest, double other)
{
    const struct eps_query *query = &quest->search.setting->job->query;
    double most = REACH * quest->proven, aim = isnan(other) ? AIM * quest->proven : other, eps, error, slope;
    const struct eps__mc_grid grid = {0, most / (CELLS - 1), CELLS};
    enum eps_status status;
    for (int round = 0;; round++) {
        struct eps__mc_estimator estimator;
        bool again = false;
        status = draw(&estimator, told, quest, query->noise_multiplier, aim, &grid);
        size_t at = isnan(other) ? 0 : (size_t)fmin(floor(other / grid.step), CELLS - 1);
        if (*told && (isnan(other) || !is_below(quest, &estimator, at, query->delta))) {
            *told = crossing(&eps, &error, &slope, &estimator, query->delta);
            again = *told && round == 0 && isnan(other) && fabs(eps - aim) > AIM_NEAR * eps;
            if (*told && (isnan(other) || eps > other))
                settle(out, quest, eps, error, eps + quest->margin / slope);
        }
        eps__mc_estimator_clear(&estimator);
        if (!again)
            return status;
        aim = eps;
    }
}

/* ------------------------------------------------------------ a noise multiplier */

/* What is known at a noise multiplier: ln sigma, and ln(mean/delta) with its standard error. */
struct place {
    double x, excess, error;
};

/* *told: the place is known, or lies below delta. *below: the mean is so small that the direction does not decide. */
static enum eps_status look(struct place *place, bool *told, bool *below, struct quest *quest)
{
    const struct eps_query *query = &quest->search.setting->job->query;
    const struct eps__mc_grid grid = {query->epsilon, 0, 1};
    struct eps__mc_estimator estimator;
    enum eps_status status = draw(&estimator, told, quest, exp(place->x), query->epsilon, &grid);
    *below = false;
    if (*told) {
        double mean = eps__mc_estimator_mean(&estimator, 0);
        *below = is_below(quest, &estimator, 0, query->delta);
        place->excess = log(mean / query->delta);
        place->error = eps__mc_estimator_error(&estimator, 0) / mean;
        *told = *below || (isfinite(place->excess) && place->error < VAGUE);
    }
    eps__mc_estimator_clear(&estimator);
    return status;
}

static enum eps_status find_noise(struct eps__mc_unproven *out, bool *told, struct quest *quest, double other)
{
    double first = isnan(other) ? quest->proven : other, usual = 2 * log(quest->delta), slope = usual;
    struct place before = {NAN, NAN, NAN}, now = {log(first), NAN, NAN};
    unsigned places = isnan(other) ? PLACES : OTHER_PLACES;
    for (unsigned i = 0; i < places; i++) {
        bool below;
        enum eps_status status = look(&now, told, &below, quest);
        if (status != EPS_OK || !*told || (i == 0 && below && !isnan(other)))
            return status;
        *told = isfinite(now.excess) && now.error < VAGUE;
        if (!*told)
            return EPS_OK;
        if (i > 0) /* ln delta falls about like that of a Gaussian; a secant that says otherwise is noise */
            slope = fmin(fmax((now.excess - before.excess) / (now.x - before.x), 4 * usual), usual / 8);
        if (i > 0 && fabs(now.excess) <= fmax(NEAR, NEAR_ERRORS * now.error))
            break;
        before = now;
        double step = fmin(fmax(-now.excess / slope, -STEP_MOST), STEP_MOST);
        if (i == 0 && fabs(step) < STEP_LEAST)
            step = step > 0 ? STEP_LEAST : -STEP_LEAST;
        if (i + 1 < places)
            now = (struct place){now.x + step, NAN, NAN};
    }
    double value = exp(now.x - now.excess / slope);
    *told = fabs(now.excess) <= EXTEND;
    if (*told && (isnan(other) || value > other))
        settle(out, quest, value, -value * now.error / slope, value * RATIO * exp(-quest->margin / slope));
    return EPS_OK;
}

/* ------------------------------------------------------------ both directions */

static unsigned laws_of(enum eps_unknown unknown)
{
    return unknown == EPS_SOLVE_NOISE_MULTIPLIER ? PLACES + OTHER_PLACES : unknown == EPS_SOLVE_EPSILON ? 3 : 2;
}

bool eps__mc_plan_unproven(struct eps__mc_unproven_plan *plan, const struct eps__setting *setting, double operations)
{
    enum eps_unknown unknown = eps_job_unknown(setting->job);
    double one, bytes, budget = fmin(SHARE * operations, MOST);
    *plan = (struct eps__mc_unproven_plan){0};
    if ((unknown != EPS_SOLVE_EPSILON && unknown != EPS_SOLVE_DELTA && unknown != EPS_SOLVE_NOISE_MULTIPLIER) ||
        operations < LEAST || !eps__mc_serves(setting, NULL))
        return false;
    const struct eps_context *context = setting->context;
    eps__mc_law_class_of(&setting->job->mechanism)->cost(setting, &one, &bytes);
    double laws = laws_of(unknown), each = laws * EPS__MC_CHUNK * PACE * one;
    double chunks = fmin(floor(DRAWN_SHARE * budget / each), (double)SAMPLES_MOST / EPS__MC_CHUNK);
    if (!(chunks >= 1) || (context && context->max_bytes > 0 && 2 * bytes > context->max_bytes))
        return false;
    plan->samples = (uint64_t)chunks * EPS__MC_CHUNK;
    plan->laws = (unsigned)laws;
    /* a law whose preparation takes much longer than its draws gains little */
    plan->opening = fmin(budget - chunks * each, 2 * chunks * each) / laws;
    plan->operations = chunks * each + laws * plan->opening;
    return true;
}

static enum eps_status find(struct eps__mc_unproven *out, bool *told, struct quest *quest, double other)
{
    switch (unknown_of(quest)) {
    case EPS_SOLVE_DELTA:
        return find_delta(out, told, quest, other);
    case EPS_SOLVE_EPSILON:
        return find_epsilon(out, told, quest, other);
    default:
        return find_noise(out, told, quest, other);
    }
}

/* Whether the answer can be improved at all. */
static bool is_open(const struct eps_result *result, double proven)
{
    return proven > 0 && isfinite(proven) && (result->solved_for != EPS_SOLVE_DELTA || proven > 1e-300);
}

enum eps_status eps__mc_unproven(struct eps__mc_unproven *unproven, const struct eps__setting *setting,
                                 const struct eps__mc_unproven_plan *plan, const struct eps_result *result)
{
    const struct eps__mc_law_class *class = eps__mc_law_class_of(&setting->job->mechanism);
    /* so few draws need not be kept */
    struct eps_context context = setting->context ? *setting->context : (struct eps_context){0};
    struct eps__setting own = *setting;
    struct eps__mc_unproven found = {0};
    enum eps_direction first = result->directions[EPS_ADD].value > result->directions[EPS_REMOVE].value;
    double proven = result->directions[first].value, other = result->directions[!first].value;
    context.cache_get = NULL;
    context.cache_put = NULL;
    own.context = &context;
    *unproven = found;
    if (!is_open(result, proven))
        return EPS_OK;
    struct quest quest = {.search = {.setting = &own,
                                     .class = class,
                                     .direction = first,
                                     .tuning = &setting->job->query.accountant,
                                     .seed = eps__mc_seed(setting),
                                     .until = INFINITY,
                                     .until_alone = INFINITY,
                                     .other = -INFINITY,
                                     .opening = plan->opening},
                          .plan = plan,
                          .proven = proven,
                          .delta = result->delta};
    bool told;
    enum eps_status status = find(&found, &told, &quest, NAN);
    found.seconds = quest.seconds;
    if (status == EPS_OK && told && other > found.estimate.value) {
        quest.search.direction = !first;
        quest.proven = other;
        quest.seconds = 0;
        status = find(&found, &told, &quest, found.estimate.value);
        found.seconds += quest.seconds;
    }
    /* draws of a bound on the loss tell nothing if they say more than is proven */
    const struct eps_unproven_estimate *estimate = &found.estimate;
    told = told && estimate->standard_error <= VALUE_VAGUE * estimate->value &&
           (estimate->value <= proven || class->exact(setting));
    if (status == EPS_OK && told)
        *unproven = found;
    return status;
}
