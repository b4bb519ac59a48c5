/*
 * More of it costs more privacy, so that a number that is proven to keep the promise proves all smaller ones, and one that is proven
 * to break it all larger ones (phases/LEMMAS.md, L4); what neither estimate decides is asked again on a finer grid. Where to look
 * first is told by quick approximations.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/largest.h"

#include <assert.h>
#include <math.h>

#include "lib/error.h"
#include "lib/numerics/bound.h"

#define FINEST 1e-8
#define COARSEST 1e-3
#define ROUGH 1e-2
#define FINER 16

enum verdict { KEEPS, BREAKS, UNDECIDED };

struct search {
    const struct eps__largest_question *question;
    double log_delta, rounding;
    struct eps__largest_answer *answer;
    uint64_t keeps,
        breaks; /* proven: keeps < breaks, or breaks is limit + 1 and stands for none known; but 0 is first asked */
    enum eps_status status;
    struct eps_error *error;
};

/* One accountant's upper bound on ln delta, or, where that is too large, its lower one. */
static enum eps_status bound(const struct search *search, const struct eps__setting *setting,
                             const struct eps__accountant *accountant, double tolerance, bool *keeps, double *lower,
                             double *share)
{
    const struct eps__largest_question *question = search->question;
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, tolerance, search->log_delta};
    struct eps__profile *profile = NULL;
    double upper = 0, eps = question->query->epsilon;
    *keeps = false;
    *lower = -INFINITY;
    *share = NAN;
    enum eps_status status =
        accountant->open(setting, question->query->noise_multiplier, &accuracy, &profile, search->error);
    if (status == EPS_OK)
        status = eps__profile_log_delta(setting, profile, question->direction, EPS__UPPER, eps, &upper, search->error);
    *keeps = status == EPS_OK && upper <= search->log_delta - search->rounding;
    if (*keeps && profile->class->bad_event_share)
        *share = profile->class->bad_event_share(profile, question->direction, search->log_delta);
    if (status == EPS_OK && !*keeps)
        status = eps__profile_log_delta(setting, profile, question->direction, EPS__LOWER, eps, lower, search->error);
    if (profile)
        profile->class->destroy(profile);
    return status == EPS_TOO_COSTLY ? EPS_OK : status; /* what does not fit the limits decides nothing */
}

/* It keeps the promise if one accountant proves it; it breaks it if the bounds of all do (accountants/LEMMAS.md, L5). */
static enum verdict decide_once(struct search *search, uint64_t number, double tolerance)
{
    const struct eps__setting *setting;
    const struct eps__accountant *const *accountants;
    size_t len;
    double least = INFINITY;
    search->status = search->question->at(search->question->user, number, &setting, &accountants, &len, search->error);
    for (size_t i = 0; i < len && search->status == EPS_OK; i++) {
        double lower, share;
        bool keeps;
        search->status = bound(search, setting, accountants[i], tolerance, &keeps, &lower, &share);
        if (search->status == EPS_OK && keeps) {
            search->answer->accountant = accountants[i];
            search->answer->bad_event_share = share;
            return KEEPS;
        }
        least = fmin(least, lower);
    }
    return search->status == EPS_OK && least > search->log_delta + search->rounding ? BREAKS : UNDECIDED;
}

/* And moves the end that it proves. */
static enum verdict decide(struct search *search, uint64_t number)
{
    enum verdict verdict = UNDECIDED;
    double tolerance = fmin(search->question->query->accountant.tolerance, COARSEST);
    while (search->status == EPS_OK) {
        search->status = eps__poll(search->question->context);
        if (search->status == EPS_OK)
            verdict = decide_once(search, number, tolerance);
        if (verdict != UNDECIDED || tolerance <= FINEST)
            break;
        tolerance = fmax(tolerance / FINER, FINEST);
    }
    if (search->status != EPS_OK)
        return UNDECIDED;
    if (verdict == KEEPS)
        search->keeps = number;
    if (verdict == BREAKS)
        search->breaks = number;
    return verdict;
}

/* Unproven. */
static bool seems_to_keep(struct search *search, uint64_t number)
{
    const struct eps__largest_question *question = search->question;
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, ROUGH, search->log_delta};
    const struct eps__setting *setting;
    const struct eps__accountant *const *accountants;
    size_t len;
    bool keeps = false;
    if (search->status == EPS_OK)
        search->status = question->at(question->user, number, &setting, &accountants, &len, search->error);
    for (size_t i = 0; search->status == EPS_OK && i < len && !keeps; i++) {
        struct eps__profile *profile = NULL;
        double log_delta = NAN;
        search->status =
            accountants[i]->open(setting, question->query->noise_multiplier, &accuracy, &profile, search->error);
        if (search->status == EPS_OK)
            search->status =
                profile->class->approximate(profile, question->direction, question->query->epsilon, &log_delta);
        if (profile)
            profile->class->destroy(profile);
        if (search->status == EPS_TOO_COSTLY)
            search->status = EPS_OK;
        keeps = log_delta <= search->log_delta;
    }
    return keeps;
}

/* The largest that seems to keep the promise, about. */
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

/* Where to ask next, when `at` was decided: further on by strides that grow, until both ends are known, then between them. */
static uint64_t next_after(const struct search *search, uint64_t at, uint64_t *stride)
{
    uint64_t limit = search->question->limit, keeps = search->keeps, breaks = search->breaks, next = at;
    if (breaks > limit)
        next = limit - keeps > *stride ? keeps + *stride : limit;
    else if (keeps == 0)
        next = breaks - keeps > *stride ? breaks - *stride : 0;
    *stride *= 4;
    return next > keeps && next < breaks && next != at ? next : keeps + (breaks - keeps) / 2;
}

/* From an undecided number down and up: `keeps` and `breaks` are brought near those that nothing decides. */
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

enum eps_status eps__largest(struct eps__largest_answer *answer, struct eps_error *error,
                             const struct eps__largest_question *question)
{
    double log_delta = log(question->query->delta);
    struct search search = {.question = question,
                            .log_delta = log_delta,
                            .rounding = 4 * EPS__UNIT_ROUNDOFF * (1 + fabs(log_delta)),
                            .answer = answer,
                            .breaks = question->limit + 1,
                            .error = error};
    uint64_t at, stride = 1;
    *answer = (struct eps__largest_answer){.bad_event_share = NAN};
    if (!question->alone && decide(&search, 0) != KEEPS) { /* then no number keeps it (phases/LEMMAS.md, L4) */
        answer->exceeded = true;
        search.keeps = 0;
        search.breaks = 1;
    }
    at = search.status == EPS_OK && !answer->exceeded ? aim(&search) : 1;
    while (search.status == EPS_OK && search.breaks - search.keeps > 1) {
        assert(search.keeps < at && at < search.breaks);
        if (decide(&search, at) != UNDECIDED) {
            at = next_after(&search, at, &stride);
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
