/*
 * The search in one direction: delta is read off the profile, epsilon is bracketed on a profile, and the noise
 * multiplier is bracketed over profiles. Each end of an answer is a point at which an inequality was proven: at the
 * upper end the upper estimate of delta is at most the delta asked for, at the lower end the lower estimate is at least
 * that. The profile is refined until the ends are within the tolerance.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/solve/search.h"

#include <math.h>

#include "lib/base/error.h"
#include "lib/numerics/normal.h"
#include "lib/numerics/root.h"

/* AIMS_MAX: refinements that may only move the profile to another epsilon. MISSES_MAX: epsilons that may be out of
 * reach. */
enum { REFINEMENTS_MAX = 8, AIMS_MAX = 3, EXPANSIONS_MAX = 40, MISSES_MAX = 16 };

#define SIGMA_MAX EPS_NOISE_MULTIPLIER_MOST
#define EPSILON_SCALE 1e-6 /* the tolerance is relative to epsilon or to this, whichever is larger */
#define HOPELESS 1.15      /* a multiple of what others proved, which is too far */
#define FINEST 1e-8 /* the least tolerance with which profiles are first opened in a search for the noise multiplier */
/* A bad start above LARGE is left towards 0 by this factor at most: delta at 0, which a far smaller epsilon than the
 * answer's makes expensive, is then not asked for. */
#define LARGE 1.0
#define NEARER 0.0625

/* A step of a search for a noise multiplier that leaves this share of the excess is followed by one LEAP times as
 * long. */
#define FLAT 0.97
#define LEAP 16.0
/* below this tolerance, coarser grids are tried too: rounding may outweigh what a finer one gains */
#define COARSE 1e-7

struct search {
    const struct eps__setting *setting;
    const struct eps__accountant *accountant;
    enum eps_direction direction;
    struct eps__profile *profile;
    double sigma, tolerance; /* the profile was opened with these, in a search for the noise multiplier */
    enum eps__estimate estimate;
    double log_delta; /* the delta asked for */
    enum eps_status status;
    bool out_of_reach; /* some sigma was out of reach */
    int misses;        /* number of epsilons that were out of reach */
    double best;       /* what others proved; INFINITY: nothing that matters */
    struct eps_error *error;
};

static double tolerance_of(const struct search *search)
{
    return search->setting->job->query.accountant.tolerance;
}

/* The estimate of ln delta at eps; NAN once a call has failed. */
static double log_delta_at(struct search *search, double eps)
{
    double value = NAN;
    if (search->status == EPS_OK)
        search->status = eps__profile_log_delta(search->setting, search->profile, search->direction, search->estimate,
                                                eps, &value, search->error);
    return search->status == EPS_OK ? value : NAN;
}

/* The estimate of ln delta at eps less the ln delta asked for, rounded in the direction of the estimate. Positive
 * while delta is too large. */
static double excess(double eps, void *user)
{
    struct search *search = user;
    double value = eps__shift(search->estimate, log_delta_at(search, eps) - search->log_delta,
                              2 * EPS__UNIT_ROUNDOFF * (1 + fabs(search->log_delta)));
    if (search->status == EPS_TOO_COSTLY && search->misses < MISSES_MAX) {
        /* Out of reach: nothing is known of delta at this epsilon, but another epsilon may be within reach. */
        search->status = EPS_OK;
        search->misses++;
        return search->estimate == EPS__UPPER ? 1e300 : -1e300;
    }
    return isinf(value) && value < 0 ? -1e300 : value;
}

/* Whether the accountant would not improve on the best value, by its own approximation of its value. */
static bool is_hopeless(const struct search *search, double approximation)
{
    return search->accountant->foretells && approximation > HOPELESS * search->best;
}

/* Brackets the eps at which the estimate crosses delta: *low < crossing <= *high, close together. *high = 0 if the
 * estimate never exceeds delta. */
static enum eps_status crossing(struct search *search, double start, double *low, double *high)
{
    double tolerance = 1e-3 * tolerance_of(search), step = fmax(1e-5 * start, 1e-9);
    bool above = excess(start, search) > 0;
    *low = *high = start;
    for (int i = 0; search->status == EPS_OK; i++, step *= 4) {
        if (i == EXPANSIONS_MAX || *high > 1e12)
            return eps__error(search->error, EPS_UNATTAINABLE, "/delta",
                              "no finite epsilon reaches this delta; raise delta or the noise multiplier");
        if (above) {
            *low = *high;
            *high += step;
            if (!(excess(*high, search) > 0))
                break;
        } else {
            *high = *low;
            if (*high == 0)
                return search->status;
            *low = fmax(*low - step, *low > LARGE ? *low * NEARER : 0);
            if (excess(*low, search) > 0)
                break;
        }
    }
    if (search->status == EPS_OK &&
        eps__bisect(excess, search, low, high, tolerance, EPSILON_SCALE) == EPS__BISECT_NO_MEMORY)
        search->status = EPS_NO_MEMORY;
    return search->status;
}

/* Refines the profile for a bracket that is `excess_width` times too wide. Returns false if refining no longer
 * helps. */
static bool refine(struct search *search, double excess_width, double *last)
{
    if (!(excess_width < 0.7 * *last))
        return false;
    *last = excess_width;
    return search->profile->class->refine(search->profile, search->direction, fmin(1.3 * sqrt(excess_width), 16));
}

/* Keeps the best ends so far. Each is proven, and a finer grid may be worse once rounding dominates. A lower end above
 * the value of another grid shows that the grids enclose different numbers, such as bounds by curves with more and less
 * points: the lower end is then that of the grid of the smaller value. */
static void keep_best(struct eps__answer *answer, double value, double lower)
{
    if (value < answer->lower)
        answer->lower = lower;
    else if (!(lower > answer->value))
        answer->lower = fmax(answer->lower, lower);
    answer->value = fmin(answer->value, value);
    answer->lower = fmin(answer->lower, answer->value);
}

/* The width of the bracket in the units of the tolerance. */
static double width_of(const struct eps__answer *answer, enum eps_unknown unknown)
{
    double scale = unknown == EPS_SOLVE_EPSILON ? fmax(answer->value, EPSILON_SCALE) : answer->value;
    if (unknown == EPS_SOLVE_DELTA && answer->value <= EPS__DELTA_LEAST)
        return 0;
    return (answer->value - answer->lower) / scale;
}

static enum eps_status solve_epsilon(struct search *search, struct eps__answer *answer)
{
    double tolerance = tolerance_of(search), low, high, last = INFINITY, start;
    double enough = eps__absence_epsilon(&search->setting->absence, search->direction, search->log_delta);
    search->status = search->profile->class->guess(search->profile, search->direction, search->log_delta, &start);
    if (search->status != EPS_OK)
        return search->status;
    answer->left_out = is_hopeless(search, start);
    if (answer->left_out)
        return EPS_OK;
    start = fmin(start, enough);
    for (int i = 0; i < REFINEMENTS_MAX; i++) {
        search->estimate = EPS__UPPER;
        enum eps_status status = crossing(search, start, &low, &high);
        double value = high;
        /* if the answer is far from where the profile was aimed, aim it again before refining */
        bool astray = i < AIMS_MAX && fabs(start - value) > 0.2 * value, upper_alone = search->setting->upper_alone;
        search->estimate = EPS__LOWER;
        if (upper_alone)
            low = 0;
        else if (status == EPS_OK)
            status = crossing(search, high, &low, &high);
        if (status != EPS_OK)
            return status;
        keep_best(answer, value, low);
        double width = width_of(answer, EPS_SOLVE_EPSILON);
        if (upper_alone ? !astray : width <= tolerance)
            break;
        if (astray ? !search->profile->class->refine(search->profile, search->direction, 1)
                   : !refine(search, width / tolerance, &last))
            break;
        start = answer->value;
    }
    return EPS_OK;
}

static enum eps_status solve_delta(struct search *search, struct eps__answer *answer, double eps)
{
    double tolerance = tolerance_of(search), last = INFINITY, approximation = -INFINITY;
    if (isfinite(search->best))
        search->status = search->profile->class->approximate(search->profile, search->direction, eps, &approximation);
    answer->left_out = search->status == EPS_OK && is_hopeless(search, exp(approximation));
    if (answer->left_out || search->status != EPS_OK)
        return search->status;
    for (int i = 0; i < REFINEMENTS_MAX; i++) {
        search->estimate = EPS__UPPER;
        double upper = log_delta_at(search, eps);
        search->estimate = EPS__LOWER;
        double lower = log_delta_at(search, eps);
        if (search->status != EPS_OK)
            return search->status;
        if (upper <= log(EPS__DELTA_LEAST)) {
            *answer = (struct eps__answer){.value = EPS__DELTA_LEAST, .bad_event_share = NAN};
            return EPS_OK;
        }
        keep_best(answer, fmin(eps__exp_bound(EPS__UPPER, upper, 0), 1),
                  lower < log(EPS__DELTA_LEAST) ? 0 : eps__exp_bound(EPS__LOWER, lower, 0));
        double width = width_of(answer, EPS_SOLVE_DELTA);
        if (width <= tolerance || !refine(search, width / tolerance, &last))
            break;
    }
    return EPS_OK;
}

static void forget_profile(struct search *search)
{
    if (search->profile)
        search->profile->class->destroy(search->profile);
    search->profile = NULL;
}

/* Records how the profile found the answer. */
static void describe(const struct search *search, double eps, double log_delta, struct eps__answer *answer)
{
    const struct eps__profile_class *class = search->profile ? search->profile->class : NULL;
    if (class && class->bad_event_share)
        answer->bad_event_share = class->bad_event_share(search->profile, search->direction, log_delta);
    if (class && class->describe)
        class->describe(search->profile, search->direction, eps, answer);
}

/*
 * Solves for epsilon or delta, on a grid as fine as the tolerance. If that misses the tolerance or exceeds the limits,
 * a grid ten times coarser may do better. The best bounds of all grids count, so a tighter tolerance never gives a
 * wider bracket than a coarser one.
 */
static enum eps_status solve_given_noise(struct search *search, struct eps__answer *answer, enum eps_unknown unknown)
{
    const struct eps_query *query = &search->setting->job->query;
    for (double tolerance = tolerance_of(search);; tolerance *= 10) {
        struct eps__accuracy accuracy = {unknown, tolerance, search->log_delta};
        double before = answer->value;
        search->misses = 0;
        forget_profile(search);
        search->status = search->accountant->open(search->setting, query->noise_multiplier, &accuracy, &search->profile,
                                                  search->error);
        if (search->status == EPS_OK)
            search->status = unknown == EPS_SOLVE_DELTA ? solve_delta(search, answer, query->epsilon)
                                                        : solve_epsilon(search, answer);
        if (answer->value < before && unknown == EPS_SOLVE_DELTA)
            describe(search, query->epsilon, log(answer->value), answer);
        else if (answer->value < before)
            describe(search, answer->value, search->log_delta, answer);
        bool met = search->status == EPS_OK &&
                   (answer->left_out || ((search->setting->upper_alone && unknown == EPS_SOLVE_EPSILON) ||
                                         width_of(answer, unknown) <= tolerance_of(search)));
        if (met || (search->status != EPS_OK && search->status != EPS_TOO_COSTLY) || !(tolerance < 0.5 * COARSE))
            break;
    }
    /* A grid over the limits does not invalidate the answer found before, whose bracket may be wide. */
    return search->status == EPS_TOO_COSTLY && isfinite(answer->value) ? EPS_OK : search->status;
}

/* ------------------------------------------------------------ the noise multiplier */

static enum eps_status open_at(struct search *search, double sigma, double tolerance)
{
    const struct eps__accuracy accuracy = {EPS_SOLVE_NOISE_MULTIPLIER, tolerance, search->log_delta};
    if (search->profile && search->sigma == sigma && search->tolerance == tolerance)
        return EPS_OK;
    forget_profile(search);
    search->sigma = sigma;
    search->tolerance = tolerance;
    return search->accountant->open(search->setting, sigma, &accuracy, &search->profile, search->error);
}

/* ln delta at eps and this sigma less the ln delta asked for: the estimate if `proven`, else the approximation. */
static double excess_at_sigma(struct search *search, double log_sigma, double eps, double tolerance, bool proven)
{
    if (search->status == EPS_OK)
        search->status = open_at(search, exp(log_sigma), tolerance);
    if (search->status != EPS_OK)
        return NAN;
    if (proven) {
        double value = excess(eps, search);
        if (search->status != EPS_TOO_COSTLY)
            return value;
        /* Out of reach: nothing is known of delta at this sigma, but another sigma may be within reach. */
        search->status = EPS_OK;
        search->out_of_reach = true;
        return search->estimate == EPS__UPPER ? INFINITY : -INFINITY;
    }
    double value = NAN;
    search->status = search->profile->class->approximate(search->profile, search->direction, eps, &value);
    return value - search->log_delta;
}

/* The starting point: ln sigma at which the approximation crosses, and *slope, d ln delta / d ln sigma there. */
static double approximate_crossing(struct search *search, double eps, double least, double *slope)
{
    double low = log(least), high = log(SIGMA_MAX), x = fmin(fmax(log(fmax(least * 20, 0.7)), low), high);
    double step = 0.7;
    bool above = excess_at_sigma(search, x, eps, 1e-2, false) > 0;
    for (double next; search->status == EPS_OK && x > low && x < high; x = next, step *= 1.5) {
        next = fmin(fmax(above ? x + step : x - step, low), high);
        if ((excess_at_sigma(search, next, eps, 1e-2, false) > 0) != above) {
            *(above ? &low : &high) = x;
            *(above ? &high : &low) = next;
            break;
        }
    }
    for (int i = 0; i < 9 && search->status == EPS_OK && high - low > 1e-3; i++) {
        x = 0.5 * (low + high);
        *(excess_at_sigma(search, x, eps, 1e-2, false) > 0 ? &low : &high) = x;
    }
    x = 0.5 * (low + high);
    double rise = excess_at_sigma(search, x + 0.01, eps, 1e-2, false) - excess_at_sigma(search, x, eps, 1e-2, false);
    *slope = fmin(rise / 0.01, -0.5);
    return x;
}

/*
 * Finds the ln sigma, from x >= least, at which this estimate of delta crosses the target, to within `reach` on the
 * side that proves: from above for the upper estimate, from below for the lower. Newton's method with a secant slope,
 * safeguarded by a bracket. If `least` already suffices, returns least for the upper estimate and -INFINITY for the
 * lower.
 */
static double sigma_crossing(struct search *search, double x, double eps, double tolerance, double reach, double slope,
                             double least)
{
    double low = -INFINITY, high = INFINITY, last_x = NAN, last = NAN;
    bool upper = search->estimate == EPS__UPPER;
    for (int i = 0; i < 60 && search->status == EPS_OK; i++) {
        double value = excess_at_sigma(search, x, eps, tolerance, true);
        /* Equality proves the inequality in both directions. */
        if (value > 0 || (!upper && value == 0))
            low = x;
        else
            high = x;
        double miss = value / slope; /* approximately x - crossing */
        if (upper ? value <= 0 && miss <= reach : value >= 0 && -miss <= reach)
            return x;
        if (x <= least && value <= 0)
            return upper ? least : -INFINITY;
        if (high - low <= 0.5 * reach || (upper && low >= log(SIGMA_MAX)))
            return upper ? high : low;
        /* If delta barely depends on the noise, the slope is useless: double the previous step, or more if that changed
         * next to nothing. */
        double growth = fabs(value) > FLAT * fabs(last) ? LEAP : 2;
        double stride = value * last > 0 && fabs(value) > 0.5 * fabs(last) ? growth * fabs(x - last_x) : 0;
        if (fabs(x - last_x) > 1e-9 && fabs((value - last) / (x - last_x)) < 1e6 &&
            (value - last) / (x - last_x) < -0.1)
            slope = (value - last) / (x - last_x);
        last_x = x;
        last = value;
        double next = isinf(value) ? x + (value > 0 ? 0.5 : -0.5) : x - value / slope + (upper ? 0.4 : -0.4) * reach;
        if (fabs(next - x) < stride)
            next = x + (value > 0 ? stride : -stride);
        next = fmin(fmax(next, x - 2), x + 2);
        if (!(next > low && next < high))
            next = isinf(low) ? high - 0.5 : isinf(high) ? low + 0.5 : 0.5 * (low + high);
        x = fmax(next, least);
    }
    return upper ? high : low;
}

static enum eps_status solve_noise(struct search *search, struct eps__answer *answer, double eps)
{
    const struct eps__accountant *accountant = search->accountant;
    double tolerance = tolerance_of(search), inner = fmax(tolerance, FINEST), last = INFINITY, slope;
    search->misses = MISSES_MAX; /* an epsilon out of reach means another sigma, not another epsilon */
    double least = fmax(accountant->least_sigma(search->setting), EPS_NOISE_MULTIPLIER_LEAST);
    double x = approximate_crossing(search, eps, least, &slope);
    answer->left_out = search->status == EPS_OK && is_hopeless(search, exp(x));
    if (answer->left_out)
        return EPS_OK;
    for (int i = 0; i < 5 && search->status == EPS_OK; i++) {
        search->estimate = EPS__UPPER;
        double high = sigma_crossing(search, x, eps, inner, 0.1 * tolerance, slope, log(least));
        if (search->status == EPS_OK && search->out_of_reach && !(exp(high) <= SIGMA_MAX))
            return i ? EPS_OK : EPS_TOO_COSTLY; /* bounds from coarser grids remain valid */
        if (search->status == EPS_OK && !(exp(high) <= SIGMA_MAX))
            return eps__error(search->error, EPS_UNATTAINABLE, "/delta",
                              "no noise multiplier up to 1e9 reaches this epsilon and delta; raise one of them");
        search->estimate = EPS__LOWER;
        double low = sigma_crossing(search, high, eps, inner, 0.1 * tolerance, slope, log(least));
        /* the bound is proven at exp(high), and holds for every larger sigma (P7) */
        double value = fmin(eps__exp_bound(EPS__UPPER, high, 0), SIGMA_MAX);
        keep_best(answer, value, exp(low));
        if (high - low <= tolerance || high <= log(least)) /* the smallest sigma suffices */
            break;
        if (i > 0 && !(high - low < 0.7 * last)) /* a finer grid no longer helps */
            break;
        last = high - low;
        inner = fmax(inner / fmin(fmax(4, pow((high - low) / tolerance, 2)), 64), 1e-9);
        x = high;
    }
    return search->status;
}

/* Answers questions that need no noise, and therefore no accountant. Returns whether this is one. */
static bool without_noise(const struct search *search, const struct eps_query *query, struct eps__answer *answer)
{
    const struct eps__setting *setting = search->setting;
    enum eps_unknown unknown = eps_job_unknown(setting->job);
    double eps = unknown == EPS_SOLVE_EPSILON ? 0 : query->epsilon;
    double most = eps__absence_log_delta(&setting->absence, search->direction, eps).upper;
    if (setting->sensitivity_known && !(setting->sensitivity.value > 0))
        most = -INFINITY;
    if (!(most <= (unknown == EPS_SOLVE_DELTA ? log(EPS__DELTA_LEAST) : search->log_delta)))
        return false;
    *answer = (struct eps__answer){.value = unknown == EPS_SOLVE_DELTA ? EPS__DELTA_LEAST : 0, .bad_event_share = NAN};
    return true;
}

enum eps_status eps__search(struct eps__answer *answer, struct eps_error *error, const struct eps__setting *setting,
                            const struct eps__accountant *accountant, enum eps_direction direction, double best)
{
    const struct eps_query *query = &setting->job->query;
    enum eps_unknown unknown = eps_job_unknown(setting->job);
    struct search search = {
        .setting = setting, .accountant = accountant, .direction = direction, .error = error, .best = best};
    search.log_delta = unknown == EPS_SOLVE_DELTA ? NAN : log(query->delta);
    if (without_noise(&search, query, answer))
        return EPS_OK;
    *answer = (struct eps__answer){.value = INFINITY, .bad_event_share = NAN};
    if (unknown == EPS_SOLVE_NOISE_MULTIPLIER) {
        search.status = solve_noise(&search, answer, query->epsilon);
        if (search.status == EPS_OK)
            describe(&search, query->epsilon, search.log_delta, answer);
    } else {
        search.status = solve_given_noise(&search, answer, unknown);
    }
    forget_profile(&search);
    if (search.status != EPS_OK && error && error->status != search.status) {
        static const char *const messages[EPS_STATUS_COUNT] = {
            [EPS_NO_MEMORY] = "out of memory; raise accountant.tolerance",
            [EPS_CANCELED] = "canceled",
            [EPS_TIMEOUT] = "the time limit passed",
            [EPS_TOO_COSTLY] = "the grid that the tolerance needs exceeds the limits; raise accountant.tolerance",
        };
        const char *message = messages[search.status];
        eps__error(error, search.status, "", "%s", message ? message : "the computation failed");
    }
    return search.status;
}
