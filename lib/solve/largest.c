/*
 * Delta grows with the number of steps or runs. So a number that is proven to satisfy epsilon and delta proves all
 * smaller numbers, and one that is proven to violate them all larger ones (T4). A number that neither estimate decides
 * is tried again on a finer grid. Unproven approximations choose which number to try first.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/solve/largest.h"

#include <assert.h>
#include <math.h>

#include "lib/base/error.h"
#include "lib/numerics/bound.h"

#define FINEST 1e-8   /* tolerances: the last */
#define COARSEST 1e-3 /* the first, at most */
#define ROUGH 1e-2    /* of approximations */
#define FINER 16      /* factor between tolerances */

enum verdict { KEEPS, BREAKS, UNDECIDED }; /* whether a number is proven to satisfy epsilon and delta */

struct search {
    const struct eps__largest_question *question;
    enum eps_direction direction;
    double log_delta, rounding;
    struct eps__largest_answer *answer;
    /* Proven: `keeps` satisfies epsilon and delta, `breaks` does not, and keeps < breaks. breaks is limit + 1 while no
     * such number is known. 0 is tried first and may violate them too. */
    uint64_t keeps, breaks;
    /* ln of the bound that proved it less ln of the delta asked for; NAN: not known */
    double keeps_excess, breaks_excess;
    enum eps_status status;
    struct eps_error *error;
};

static bool proves(const struct search *search, double upper)
{
    return upper <= search->log_delta - search->rounding;
}

/* Computes an accountant's upper bound on ln delta and, if that proves nothing, its lower bound. */
static enum eps_status bound(const struct search *search, const struct eps__setting *setting,
                             const struct eps__accountant *accountant, double tolerance, double *upper, double *lower,
                             double *share)
{
    const struct eps__largest_question *question = search->question;
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, tolerance, search->log_delta};
    struct eps__profile *profile = NULL;
    double eps = question->query->epsilon;
    *upper = INFINITY;
    *lower = -INFINITY;
    *share = NAN;
    enum eps_status status =
        accountant->open(setting, question->query->noise_multiplier, &accuracy, &profile, search->error);
    if (status == EPS_OK)
        status = eps__profile_log_delta(setting, profile, search->direction, EPS__UPPER, eps, upper, search->error);
    if (status != EPS_OK)
        *upper = INFINITY;
    if (proves(search, *upper) && profile->class->bad_event_share)
        *share = profile->class->bad_event_share(profile, search->direction, search->log_delta);
    if (status == EPS_OK && !proves(search, *upper))
        status = eps__profile_log_delta(setting, profile, search->direction, EPS__LOWER, eps, lower, search->error);
    if (profile)
        profile->class->destroy(profile);
    return status == EPS_TOO_COSTLY ? EPS_OK : status; /* a composition over the limits decides nothing */
}

/* A number satisfies epsilon and delta if one accountant proves it, and violates them if the lower bounds of all
 * accountants do (A5). *excess: of the bound that decides. */
static enum verdict decide_once(struct search *search, uint64_t number, double tolerance, double *excess)
{
    const struct eps__setting *setting;
    const struct eps__accountant *const *accountants;
    size_t len;
    double least = INFINITY;
    search->status = search->question->at(search->question->user, number, &setting, &accountants, &len, search->error);
    for (size_t i = 0; i < len && search->status == EPS_OK; i++) {
        double upper, lower, share;
        search->status = bound(search, setting, accountants[i], tolerance, &upper, &lower, &share);
        if (search->status == EPS_OK && proves(search, upper)) {
            *excess = upper - search->log_delta;
            search->answer->accountant = accountants[i];
            search->answer->bad_event_share = share;
            return KEEPS;
        }
        least = fmin(least, lower);
    }
    *excess = least - search->log_delta;
    return search->status == EPS_OK && *excess > search->rounding ? BREAKS : UNDECIDED;
}

/* Decides a number, on finer grids if necessary, and moves `keeps` or `breaks` to it. */
static enum verdict decide(struct search *search, uint64_t number)
{
    enum verdict verdict = UNDECIDED;
    double tolerance = fmin(search->question->query->accountant.tolerance, COARSEST), excess = NAN;
    while (search->status == EPS_OK) {
        search->status = eps__poll(search->question->context);
        if (search->status == EPS_OK)
            verdict = decide_once(search, number, tolerance, &excess);
        if (verdict != UNDECIDED || tolerance <= FINEST)
            break;
        tolerance = fmax(tolerance / FINER, FINEST);
    }
    if (search->status != EPS_OK)
        return UNDECIDED;
    if (verdict == KEEPS) {
        search->keeps = number;
        search->keeps_excess = excess;
    }
    if (verdict == BREAKS) {
        search->breaks = number;
        search->breaks_excess = excess;
    }
    return verdict;
}

/* An approximation of ln delta: the least of the accountants, unproven; NAN if there is none. */
static double approximate(struct search *search, uint64_t number)
{
    const struct eps__largest_question *question = search->question;
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, ROUGH, search->log_delta};
    const struct eps__setting *setting;
    const struct eps__accountant *const *accountants;
    size_t len;
    double least = NAN;
    if (search->status == EPS_OK)
        search->status = question->at(question->user, number, &setting, &accountants, &len, search->error);
    for (size_t i = 0; search->status == EPS_OK && i < len; i++) {
        struct eps__profile *profile = NULL;
        double log_delta = NAN;
        search->status =
            accountants[i]->open(setting, question->query->noise_multiplier, &accuracy, &profile, search->error);
        if (search->status == EPS_OK)
            search->status =
                profile->class->approximate(profile, search->direction, question->query->epsilon, &log_delta);
        if (profile)
            profile->class->destroy(profile);
        if (search->status == EPS_TOO_COSTLY)
            search->status = EPS_OK;
        least = fmin(least, log_delta); /* fmin() ignores NAN */
    }
    return least;
}

static bool seems_to_keep(struct search *search, uint64_t number)
{
    return approximate(search, number) <= search->log_delta;
}

/* The largest number that appears to satisfy epsilon and delta by the approximations, at least 1. Proves nothing. */
static uint64_t aim(struct search *search)
{
    uint64_t low = 0, high = 1, limit = search->question->limit;
    while (high < limit && seems_to_keep(search, high)) {
        low = high;
        high = high > limit / 2 ? limit : 2 * high;
    }
    while (search->status == EPS_OK && high - low > 1 + low / 4096) {
        uint64_t middle = low + (high - low) / 2;
        *(seems_to_keep(search, middle) ? &low : &high) = middle;
    }
    return low > 0 ? low : 1;
}

/* The approximate growth of ln delta per step or run; NAN if unknown. */
static double slope_at(struct search *search, uint64_t number)
{
    uint64_t step = 1 + number / 64, from = number > step ? number - step : number;
    double slope = (approximate(search, from + step) - approximate(search, from)) / (double)step;
    return slope > 0 && isfinite(slope) ? slope : NAN;
}

/* Rounds x down and clamps it to [low, high]; `otherwise` if x is NAN. */
static uint64_t clamp(double x, uint64_t low, uint64_t high, uint64_t otherwise)
{
    if (isnan(x))
        return otherwise;
    return x <= (double)low ? low : x >= (double)high ? high : (uint64_t)x;
}

/*
 * The number to try next. While only one end is proven: where ln delta should cross the target by its slope, or further
 * by a stride that grows. Between two proven ends: where the chord through the two excesses crosses 0, or the middle if
 * the previous step did not halve the interval.
 */
static uint64_t next_number(struct search *search, uint64_t *stride, uint64_t *apart)
{
    uint64_t limit = search->question->limit, keeps = search->keeps, breaks = search->breaks;
    uint64_t middle = keeps + (breaks - keeps) / 2;
    double up = search->keeps_excess, down = search->breaks_excess;
    if (breaks > limit) {
        uint64_t on = limit - keeps > *stride ? keeps + *stride : limit, twice = limit / 2 > keeps ? 2 * keeps : limit;
        *stride *= 4;
        return clamp((double)keeps - up / slope_at(search, keeps), keeps + 1, twice > on ? twice : on, on);
    }
    if (keeps == 0) {
        uint64_t back = breaks > *stride ? breaks - *stride : middle;
        *stride *= 4;
        return clamp((double)breaks - down / slope_at(search, breaks), middle, breaks - 1, back);
    }
    bool halved = breaks - keeps <= *apart / 2;
    *apart = breaks - keeps;
    double crossing = (double)keeps - up / (down - up) * (double)(breaks - keeps);
    return halved ? clamp(crossing, keeps + 1, breaks - 1, middle) : middle;
}

/* Bisects on both sides of an undecided number, to bring `keeps` and `breaks` close to the undecided ones. */
static void close_in(struct search *search, uint64_t undecided)
{
    for (uint64_t low = search->keeps, high = undecided; high - low > 1 && search->status == EPS_OK;) {
        uint64_t middle = low + (high - low) / 2;
        *(decide(search, middle) == KEEPS ? &low : &high) = middle;
    }
    for (uint64_t low = undecided, high = search->breaks; high - low > 1 && search->status == EPS_OK;) {
        uint64_t middle = low + (high - low) / 2;
        *(decide(search, middle) == BREAKS ? &high : &low) = middle;
    }
}

static enum eps_status search_direction(struct eps__largest_answer *answer, struct eps_error *error,
                                        const struct eps__largest_question *question, enum eps_direction direction)
{
    double log_delta = log(question->query->delta);
    struct search search = {.question = question,
                            .direction = direction,
                            .log_delta = log_delta,
                            .rounding = 4 * EPS__UNIT_ROUNDOFF * (1 + fabs(log_delta)),
                            .answer = answer,
                            .breaks = question->limit + 1,
                            .keeps_excess = NAN,
                            .breaks_excess = NAN,
                            .error = error};
    uint64_t at, stride = 1, apart = UINT64_MAX;
    *answer = (struct eps__largest_answer){.bad_event_share = NAN};
    if (!question->alone && decide(&search, 0) != KEEPS) { /* then no number satisfies them (T4) */
        answer->exceeded = true;
        search.keeps = 0;
        search.breaks = 1;
    }
    at = search.status == EPS_OK && !answer->exceeded ? aim(&search) : 1;
    while (search.status == EPS_OK && search.breaks - search.keeps > 1) {
        assert(search.keeps < at && at < search.breaks);
        if (decide(&search, at) != UNDECIDED) {
            if (search.breaks - search.keeps > 1)
                at = next_number(&search, &stride, &apart);
            continue;
        }
        close_in(&search, at);
        break;
    }
    if (search.status != EPS_OK)
        return error && error->status == search.status
                   ? search.status
                   : eps__error(error, search.status, "", "the search was not finished");
    answer->least = search.keeps;
    answer->most = search.breaks - 1;
    if (answer->least == 0)
        answer->accountant = NULL;
    assert(!answer->exceeded || answer->most == 0);
    return EPS_OK;
}

enum eps_status eps__largest(struct eps__largest_answer answers[EPS_DIRECTIONS], struct eps_error *error,
                             const struct eps__largest_question *question)
{
    enum eps_status status = search_direction(&answers[EPS_REMOVE], error, question, EPS_REMOVE);
    return status == EPS_OK ? search_direction(&answers[EPS_ADD], error, question, EPS_ADD) : status;
}
