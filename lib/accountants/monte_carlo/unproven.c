/*
 * See unproven.h. One direction is estimated first, and the other one too if its proven answer is above that estimate;
 * it decides only if its delta is too large there.
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
    CELLS = 1024,            /* points of a grid of epsilons */
    SAMPLES_FIRST = 1 << 13, /* of the first law, and of the others unless their means turn out to be inaccurate */
    SAMPLES_MOST = 1 << 16,
    SAMPLES_TIMES = 8, /* by which the number rises at a time, at most */
    HITS = 30,         /* plain draws that are expected to count, at least */
    PLACES = 4,        /* noise multipliers at which one direction is drawn, at most */
    TRIALS = 3         /* estimated number of candidates that monte_carlo verifies */
};

#define SHARE 0.1        /* of the job's operations, at most, */
#define MOST 2e9         /* and at most this */
#define LEAST 2e7        /* a job of fewer operations gets no estimate */
#define DRAWN_SHARE 0.75 /* of these operations that are for draws, about; the others open laws */
#define DRAWN_MOST 0.9   /* the same, for the fewest draws */
#define PACE 0.7         /* nanoseconds for an estimated operation of a draw, at most */
#define AIM 0.8          /* epsilon is expected at this fraction of the proven one, */
#define AIM_NEAR 0.1     /* and aimed at again if it differs by more than this share */
#define REACH 1.25       /* the grid of epsilons ends at this multiple of the proven one */
#define STEP_LEAST 0.05  /* of ln sigma, first: it tells the slope */
#define STEP_MOST 0.7    /* of ln sigma */
#define NEAR 0.02        /* a place is good enough if its mean differs from delta by this share, */
#define NEAR_ERRORS 2.0  /* or by so many standard errors */
#define EXTEND 1.0       /* the largest ln(mean/delta) that is extrapolated to 0 */
#define ADD_FIRST 1.2    /* remove usually decides; add is drawn first if it is proven to be worse by this factor */
#define FINE 0.06        /* the relative standard error of means that is aimed at; */
#define VAGUE 0.5        /* a mean with this one is useless, */
#define VALUE_VAGUE 0.2  /* and so is an estimate with this one */
#define RATIO 1.005      /* of monte_carlo's noise multiplier to the least that would pass: its candidates are apart */

/* ------------------------------------------------------------ draws */

/* The state of the estimate in one direction. */
struct quest {
    struct eps__mc_search search;
    const struct eps__mc_unproven_plan *plan;
    double proven;    /* the answer of this direction */
    double delta;     /* the job's; if it is asked for, the proven one */
    uint64_t samples; /* of the next law */
    unsigned laws;    /* opened so far */
    double most;      /* the bound on the values of the last law, at the epsilon that it was opened for */
    double margin;    /* ln of delta over what the mean of monte_carlo's draws of the last law may be, about */
    double seconds;   /* about what it takes to draw them */
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
    enum eps_status status = eps__mc_open_law(&law, &quest->search, sigma, eps, grid->first);
    if (status != EPS_OK)
        return status == EPS_UNSUPPORTED || status == EPS_TOO_COSTLY ? EPS_OK : status;
    if (law->tilted || (double)quest->samples * quest->delta >= HITS) {
        status = eps__mc_make(estimator, &complete, &over, &quest->search, grid,
                              (struct eps__mc_run){.law = law,
                                                   .sigma = sigma,
                                                   .candidate = (uint64_t)EPS__MC_UNPROVEN << 32 | quest->laws,
                                                   .samples = quest->samples,
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

/* Takes more samples from now on if a mean with this relative standard error is inaccurate and more are affordable.
 * Returns whether it does. */
static bool refine(struct quest *quest, double error)
{
    uint64_t samples = quest->samples, times = SAMPLES_TIMES;
    if (error <= FINE)
        return false;
    if (error * error < SAMPLES_TIMES * FINE * FINE) /* otherwise, or if it is not known: as many as possible */
        times = (uint64_t)ceil(error * error / (FINE * FINE));
    quest->samples = samples * times < quest->plan->samples ? samples * times : quest->plan->samples;
    return quest->samples > samples;
}

/* Whether the mean at a point is so small that this direction does not decide. If it is useless, the bound on values
 * tells how large the true mean may be. */
static bool is_below(const struct quest *quest, const struct eps__mc_estimator *estimator, size_t k, double delta)
{
    double mean = eps__mc_estimator_mean(estimator, k), error = eps__mc_estimator_error(estimator, k);
    return mean <= delta && (error < VAGUE * mean || 3 * quest->most <= delta * (double)estimator->count);
}

/* drawn: what monte_carlo would answer; samples: those that the value was read off. */
static void settle(struct eps__mc_unproven *out, const struct quest *quest, double value, double error, double drawn,
                   uint64_t samples)
{
    out->estimate = (struct eps_unproven_estimate){value, error, samples, quest->search.direction};
    out->drawn = drawn;
}

/* ------------------------------------------------------------ delta */

/* other: the estimate of the other direction; NAN: this is the first. The same for all questions: *out is left as it is
 * if this direction does not decide, and *told says whether that or an estimate is known. */
static enum eps_status find_delta(struct eps__mc_unproven *out, bool *told, struct quest *quest, double other)
{
    const struct eps_query *query = &quest->search.setting->job->query;
    const struct eps__mc_grid grid = {query->epsilon, 0, 1};
    for (;;) {
        struct eps__mc_estimator estimator;
        bool again = false;
        enum eps_status status = draw(&estimator, told, quest, query->noise_multiplier, query->epsilon, &grid);
        if (*told && (isnan(other) || !is_below(quest, &estimator, 0, other))) {
            double mean = eps__mc_estimator_mean(&estimator, 0), error = eps__mc_estimator_error(&estimator, 0);
            again = refine(quest, error / mean);
            *told = isnan(other) || mean > other;
            if (*told && !again)
                settle(out, quest, mean, error, mean * exp(quest->margin), estimator.count);
        }
        eps__mc_estimator_clear(&estimator);
        if (!again)
            return status;
    }
}

/* ------------------------------------------------------------ epsilon */

/* Where the mean falls to delta. */
struct crossing {
    double eps;
    double slope; /* by how much ln of the mean falls with epsilon */
    double error; /* relative standard error of the mean */
};

/* ln of the mean is taken as linear between two points. False if it does not fall to delta on the grid, or if the mean
 * is useless. */
static bool cross(struct crossing *crossing, const struct eps__mc_estimator *estimator, double delta)
{
    size_t low = 0, high = estimator->grid.len - 1;
    if (!(eps__mc_estimator_mean(estimator, low) > delta && eps__mc_estimator_mean(estimator, high) <= delta))
        return false;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(eps__mc_estimator_mean(estimator, middle) > delta ? &low : &high) = middle;
    }
    double above = eps__mc_estimator_mean(estimator, low), below = eps__mc_estimator_mean(estimator, high);
    crossing->slope = (log(above) - log(below)) / estimator->grid.step;
    crossing->eps = eps__mc_grid_at(&estimator->grid, low) + log(above / delta) / crossing->slope;
    crossing->error = eps__mc_estimator_error(estimator, low) / above;
    return isfinite(crossing->slope) && isfinite(crossing->eps) && crossing->error < VAGUE;
}

static enum eps_status find_epsilon(struct eps__mc_unproven *out, bool *told, struct quest *quest, double other)
{
    const struct eps_query *query = &quest->search.setting->job->query;
    double most = REACH * quest->proven, aim = isnan(other) ? AIM * quest->proven : other;
    const struct eps__mc_grid grid = {0, most / (CELLS - 1), CELLS};
    size_t at = isnan(other) ? 0 : (size_t)fmin(floor(other / grid.step), CELLS - 1);
    for (bool aimed = !isnan(other);;) {
        struct eps__mc_estimator estimator;
        struct crossing crossing = {0};
        bool again = false;
        enum eps_status status = draw(&estimator, told, quest, query->noise_multiplier, aim, &grid);
        if (*told && (isnan(other) || !is_below(quest, &estimator, at, query->delta))) {
            *told = cross(&crossing, &estimator, query->delta);
            bool near = aimed || (*told && fabs(crossing.eps - aim) <= AIM_NEAR * crossing.eps);
            again = refine(quest, *told ? crossing.error : NAN) || (*told && !near);
            if (*told && !again && (isnan(other) || crossing.eps > other))
                settle(out, quest, crossing.eps, crossing.error / crossing.slope,
                       crossing.eps + quest->margin / crossing.slope, estimator.count);
            aimed = near || *told;
            aim = *told && !near ? crossing.eps : aim;
        }
        eps__mc_estimator_clear(&estimator);
        if (!again)
            return status;
    }
}

/* ------------------------------------------------------------ a noise multiplier */

/* What is known at a noise multiplier: ln sigma, and ln(mean/delta) with its standard error. */
struct place {
    double x, excess, error;
    uint64_t samples;
    bool below; /* the mean is so small that the direction does not decide */
};

/* *told: the mean is not useless. */
static enum eps_status look(struct place *place, bool *told, struct quest *quest)
{
    const struct eps_query *query = &quest->search.setting->job->query;
    const struct eps__mc_grid grid = {query->epsilon, 0, 1};
    struct eps__mc_estimator estimator;
    bool drawn;
    enum eps_status status = draw(&estimator, &drawn, quest, exp(place->x), query->epsilon, &grid);
    *told = false;
    *place = (struct place){place->x, NAN, NAN, estimator.count, false};
    if (drawn) {
        double mean = eps__mc_estimator_mean(&estimator, 0);
        place->below = is_below(quest, &estimator, 0, query->delta);
        place->excess = log(mean / query->delta);
        place->error = eps__mc_estimator_error(&estimator, 0) / mean;
        *told = isfinite(place->excess) && place->error < VAGUE;
    }
    eps__mc_estimator_clear(&estimator);
    return status;
}

/* The step in ln sigma to where the excess is 0. */
static double step_from(const struct place *place, double slope, bool first)
{
    double step = fmin(fmax(-place->excess / slope, -STEP_MOST), STEP_MOST);
    return first && fabs(step) < STEP_LEAST ? copysign(STEP_LEAST, step) : step;
}

static enum eps_status find_noise(struct eps__mc_unproven *out, bool *told, struct quest *quest, double other)
{
    double usual = 2 * log(quest->delta), slope = usual;
    struct place now = {.x = log(isnan(other) ? quest->proven : other)}, last = {.excess = NAN};
    unsigned known = 0;
    for (unsigned looks = 0; looks < PLACES && quest->laws < quest->plan->laws; looks++) {
        enum eps_status status = look(&now, told, quest);
        if (status == EPS_OK && known == 0 && now.below && !isnan(other)) {
            *told = true;
            return EPS_OK;
        }
        bool again = status == EPS_OK && now.samples > 0 && refine(quest, now.error);
        if (status == EPS_OK && !*told && again)
            continue;
        if (status != EPS_OK || !*told)
            return status;
        if (known > 0) /* ln delta falls about like that of a Gaussian; a secant that says otherwise is noise */
            slope = fmin(fmax((now.excess - last.excess) / (now.x - last.x), 4 * usual), usual / 8);
        last = now;
        if (known++ > 0 && !again && fabs(last.excess) <= fmax(NEAR, NEAR_ERRORS * last.error))
            break;
        now.x += step_from(&last, slope, known == 1);
    }
    double value = exp(last.x - last.excess / slope);
    *told = known > 1 && fabs(last.excess) <= EXTEND;
    if (*told && (isnan(other) || value > other))
        settle(out, quest, value, -value * last.error / slope, value * RATIO * exp(-quest->margin / slope),
               last.samples);
    return EPS_OK;
}

/* ------------------------------------------------------------ both directions */

static unsigned laws_of(enum eps_unknown unknown)
{
    return unknown == EPS_SOLVE_NOISE_MULTIPLIER ? PLACES + 1 : unknown == EPS_SOLVE_EPSILON ? 4 : 3;
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
    if (chunks < 1 && each <= DRAWN_MOST * budget)
        chunks = 1;
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

/* Goes on with the other direction. */
static void turn(struct quest *quest, const struct eps_result *result)
{
    quest->search.direction = !quest->search.direction;
    quest->proven = result->directions[quest->search.direction].value;
    quest->seconds = 0;
}

enum eps_status eps__mc_unproven(struct eps__mc_unproven *unproven, const struct eps__setting *setting,
                                 const struct eps__mc_unproven_plan *plan, const struct eps_result *result)
{
    const struct eps__mc_law_class *class = eps__mc_law_class_of(&setting->job->mechanism);
    /* so few draws need not be kept */
    struct eps_context context = setting->context ? *setting->context : (struct eps_context){0};
    struct eps__setting own = *setting;
    struct eps__mc_unproven found = {0};
    const struct eps_candidate *directions = result->directions;
    enum eps_direction first = directions[EPS_ADD].value > ADD_FIRST * directions[EPS_REMOVE].value;
    double proven = directions[first].value, worse = fmax(proven, directions[!first].value);
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
                          .samples = plan->samples < SAMPLES_FIRST ? plan->samples : SAMPLES_FIRST,
                          .delta = result->delta};
    bool told;
    enum eps_status status = find(&found, &told, &quest, NAN);
    if (status == EPS_OK && !told) { /* its answer may be so loose that no draws reach from there to the truth */
        turn(&quest, result);
        status = is_open(result, quest.proven) ? find(&found, &told, &quest, NAN) : EPS_OK;
    }
    found.seconds = quest.seconds;
    turn(&quest, result);
    if (status == EPS_OK && told && quest.proven > found.estimate.value) {
        status = find(&found, &told, &quest, found.estimate.value);
        found.seconds += quest.seconds;
    }
    /* draws of a bound on the loss tell nothing if they say more than is proven */
    const struct eps_unproven_estimate *estimate = &found.estimate;
    told = told && estimate->standard_error <= VALUE_VAGUE * estimate->value &&
           (estimate->value <= worse || class->exact(setting));
    if (status == EPS_OK && told)
        *unproven = found;
    return status;
}
