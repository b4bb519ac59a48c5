/*
 * Prices by the upper bounds of accountants. Bounds on the moments and on losses are smooth in the column but for a few
 * kinks, where another order or another number of moments becomes the best.
 *
 * In each direction one accountant is watched, the best one at the start: a search that stays near its start seldom
 * needs another, and the proof of the answer asks all of them again.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/tuned/price.h"

#include <math.h>

#include "lib/base/error.h"
#include "lib/job/setting.h"
#include "lib/strategy/families/family.h"

#define TOLERANCE 1e-4 /* with which profiles are opened */
#define CLOSE 0.02     /* an excess of ln delta that the slope may extrapolate over: 1e-3 of sigma, to first order */
#define STEEPEST -1e4
#define FLATTEST -0.5
#define STRIDE 0.35 /* the first step of ln sigma where no end is known; it doubles */
#define TRIES 40    /* profiles for one sigma, at most */
#define DEARER 8    /* an accountant that takes so many times the operations of the cheapest one is not asked, */
#define CHEAP 4e9   /* unless it takes no more than this */

/* ln of the sigma at which the bound is delta, by the slope. */
static double extrapolated(const struct eps__pricing *pricing, const struct eps__price *price)
{
    return price->log_sigma - price->excess / pricing->slopes[pricing->direction];
}

double eps__price_log(const struct eps__pricing *pricing, const struct eps__price *price)
{
    return price->log_error + 2 * extrapolated(pricing, price);
}

static bool stop(struct eps__pricing *pricing, enum eps_status status)
{
    pricing->status = status;
    if (pricing->error && pricing->error->status != status)
        eps__error(pricing->error, status, "", "the strategy was not optimised%s",
                   status == EPS_NO_MEMORY ? ": out of memory" : "");
    return false;
}

/* ------------------------------------------------------------ one strategy */

static enum eps_status measure(double *log_error, const struct eps__setting *setting, enum eps_objective objective)
{
    double mean, max, last;
    enum eps_status status =
        eps__strategy_error(setting->context, setting->strategy, &setting->job->mechanism, &mean, &max, &last);
    *log_error = INFINITY;
    if (status == EPS_OK && isfinite(max) && isfinite(mean))
        *log_error = log(objective == EPS_OBJECTIVE_MAX_SQUARED ? max : mean);
    return status;
}

/* The job with this matrix. */
static struct eps_job job_of(const struct eps__pricing *pricing, const struct eps_matrix *matrix)
{
    struct eps_job job = pricing->job;
    job.mechanism.matrix = *matrix;
    job.mechanism.matrix.stamps = pricing->job.mechanism.matrix.stamps;
    return job;
}

/* Opens the setting of a job and measures the error, which is INFINITY if the matrix has no price; the setting is then
 * closed. */
static bool open_priced(struct eps__pricing *pricing, struct eps__setting *setting, const struct eps_job *job,
                        double *log_error)
{
    struct eps_error error = {0};
    *log_error = INFINITY;
    enum eps_status status = eps__setting_open(setting, &error, pricing->context, job);
    if (status == EPS_INVALID) /* such as entries beyond all bounds */
        return true;
    if (status != EPS_OK) {
        if (pricing->error)
            *pricing->error = error;
        return stop(pricing, status);
    }
    setting->draft = true;
    if (eps__strategy_nonnegative(setting->strategy))
        status = measure(log_error, setting, pricing->job.mechanism.matrix.objective);
    if (status == EPS_OK && isfinite(*log_error))
        return true;
    eps__setting_close(setting);
    return status == EPS_OK ? true : stop(pricing, status);
}

/* *excess: ln of the bound on delta at sigma, less the ln delta asked for; large and finite if there is no bound. */
static bool look(struct eps__pricing *pricing, const struct eps__setting *setting, double log_sigma, double *excess)
{
    const struct eps_query *query = &pricing->job.query;
    const struct eps__accuracy accuracy = {EPS_SOLVE_NOISE_MULTIPLIER, TOLERANCE, log(query->delta)};
    const struct eps__accountant *accountant = pricing->accountants[pricing->direction];
    struct eps__profile *profile = NULL;
    struct eps_error error = {0};
    double bound = INFINITY;
    enum eps_status status = eps__poll(pricing->context);
    pricing->profiles++;
    eps__meter_tell(pricing->meter, fmin(pricing->profiles / pricing->expected, 1));
    if (status == EPS_OK && exp(log_sigma) >= accountant->least_sigma(setting))
        status = accountant->open(setting, exp(log_sigma), &accuracy, &profile, &error);
    if (status == EPS_OK && profile)
        status =
            eps__profile_log_delta(setting, profile, pricing->direction, EPS__UPPER, query->epsilon, &bound, &error);
    if (profile)
        profile->class->destroy(profile);
    if (status == EPS_CANCELED || status == EPS_TIMEOUT || status == EPS_NO_MEMORY)
        return stop(pricing, status);
    if (status != EPS_OK || isnan(bound)) /* out of reach here: more noise may be within it */
        bound = 0;
    *excess = fmax(fmin(bound, 0), -1e6) - log(query->delta);
    return true;
}

/* The sigma to try next: by the secant, kept between the known ends and within a stride. */
static double next(const struct eps__pricing *pricing, double at, double excess, double low, double high, double stride)
{
    double to = at - excess / pricing->slopes[pricing->direction];
    if (isfinite(low) && isfinite(high))
        return to > low && to < high ? to : 0.5 * (low + high);
    return fmax(fmin(to, at + stride), at - stride);
}

/* Finds the sigma at which the bound is near delta, from pricing->log_sigma on. *found: false if there is none. */
static bool find_sigma(struct eps__pricing *pricing, struct eps__price *price, const struct eps__setting *setting,
                       bool *found)
{
    double low = -INFINITY, high = INFINITY, before = NAN, excess_before = NAN, stride = STRIDE;
    *found = false;
    for (int i = 0; i < TRIES && !*found; i++, stride *= 2) {
        double at = isnan(before) ? pricing->log_sigma : next(pricing, before, excess_before, low, high, stride);
        if (fabs(at) > log(EPS_NOISE_MULTIPLIER_MOST) || high - low < 1e-9)
            return true;
        if (!look(pricing, setting, at, &price->excess))
            return false;
        double slope = (price->excess - excess_before) / (at - before);
        if (fabs(at - before) > 1e-3 && slope > STEEPEST && slope < FLATTEST)
            pricing->slopes[pricing->direction] = slope;
        *(price->excess > 0 ? &low : &high) = at;
        before = price->log_sigma = at;
        excess_before = price->excess;
        *found = fabs(price->excess) <= CLOSE;
    }
    return true;
}

/* Where the other direction needs more noise than the one that decided so far, it decides from now on. */
static bool find_worse(struct eps__pricing *pricing, struct eps__price *price, const struct eps__setting *setting,
                       bool *found)
{
    struct eps__price other;
    enum eps_direction first = pricing->direction;
    if (!find_sigma(pricing, price, setting, found))
        return false;
    if (!*found || !pricing->accountants[!first])
        return true;
    pricing->log_sigma = extrapolated(pricing, price);
    pricing->direction = !first;
    if (!look(pricing, setting, pricing->log_sigma, &other.excess))
        return false;
    if (other.excess > CLOSE)
        return find_sigma(pricing, price, setting, found);
    pricing->direction = first;
    return true;
}

bool eps__price(struct eps__pricing *pricing, struct eps__price *price, const struct eps_matrix *matrix)
{
    struct eps_job job = job_of(pricing, matrix);
    struct eps__setting setting;
    bool found = false;
    if (!open_priced(pricing, &setting, &job, &price->log_error))
        return false;
    if (!isfinite(price->log_error))
        return true;
    bool going = find_worse(pricing, price, &setting, &found);
    eps__setting_close(&setting);
    if (going && found)
        pricing->log_sigma = extrapolated(pricing, price);
    else
        price->log_error = INFINITY;
    return going;
}

bool eps__price_like(struct eps__pricing *pricing, struct eps__price *price, const struct eps__price *like,
                     const struct eps_matrix *matrix)
{
    struct eps_job job = job_of(pricing, matrix);
    struct eps__setting setting;
    *price = *like;
    if (!open_priced(pricing, &setting, &job, &price->log_error))
        return false;
    if (!isfinite(price->log_error))
        return true;
    bool going = look(pricing, &setting, like->log_sigma, &price->excess);
    eps__setting_close(&setting);
    return going;
}

/* ------------------------------------------------------------ who decides */

/* Estimated operations of one profile in one direction. */
static double operations_of(const struct eps__setting *setting, const struct eps__accountant *accountant)
{
    struct eps_job job = *setting->job;
    struct eps__setting one = *setting;
    double operations, bytes;
    job.query.epsilon = NAN;
    job.query.noise_multiplier = 1; /* one profile */
    one.job = &job;
    accountant->cost(&one, &operations, &bytes);
    return operations / EPS_DIRECTIONS;
}

/* The accountants that may decide: those that have profiles and amplify, or, if none does, all that have profiles; of
 * these, no dear ones. */
static size_t deciders(const struct eps__setting *setting, const struct eps__accountant **deciders,
                       struct eps_error *error)
{
    const struct eps__accountant *serving[EPS__ACCOUNTANTS_MAX];
    double operations[EPS__ACCOUNTANTS_MAX], least = INFINITY;
    size_t len = eps__setting_accountants(setting, serving, error), kept = 0, out = 0;
    bool amplifies = false;
    for (size_t i = 0; i < len; i++)
        amplifies |= serving[i]->open && serving[i]->amplifies;
    for (size_t i = 0; i < len; i++)
        if (serving[i]->open && (serving[i]->amplifies || !amplifies))
            serving[kept++] = serving[i];
    for (size_t i = 0; i < kept; i++) {
        operations[i] = operations_of(setting, serving[i]);
        least = fmin(least, operations[i]);
    }
    for (size_t i = 0; i < kept; i++)
        if (operations[i] <= fmax(DEARER * least, CHEAP))
            deciders[out++] = serving[i];
    return out;
}

double eps__price_operations(const struct eps__setting *setting)
{
    const struct eps__accountant *asked[EPS__ACCOUNTANTS_MAX];
    size_t len = deciders(setting, asked, NULL);
    double most = 0;
    for (size_t i = 0; i < len; i++)
        most = fmax(most, operations_of(setting, asked[i]));
    return most;
}

/* Lowers *least to the ln sigma that this accountant needs, if that is less. */
static bool ask(struct eps__pricing *pricing, double *least, const struct eps__setting *setting,
                const struct eps__accountant *accountant)
{
    const struct eps__accountant *best = pricing->accountants[pricing->direction];
    struct eps__price price;
    bool found = true;
    pricing->accountants[pricing->direction] = accountant;
    if (best) { /* one look tells whether it needs more */
        if (!look(pricing, setting, *least, &price.excess))
            return false;
        found = price.excess < 0;
    }
    if (found && !find_sigma(pricing, &price, setting, &found))
        return false;
    if (found && extrapolated(pricing, &price) < *least)
        *least = pricing->log_sigma = extrapolated(pricing, &price);
    else
        pricing->accountants[pricing->direction] = best;
    return true;
}

/* In each direction the accountant with the least noise decides, and of the directions the one with the most. */
static bool choose(struct eps__pricing *pricing, const struct eps__setting *setting,
                   const struct eps__accountant *const *asked, size_t len)
{
    double least[EPS_DIRECTIONS] = {INFINITY, INFINITY};
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
        pricing->direction = direction;
        pricing->accountants[direction] = NULL;
        for (size_t i = 0; i < len; i++)
            if (!ask(pricing, &least[direction], setting, asked[i]))
                return false;
        if (!pricing->accountants[direction]) /* no noise is needed, or none is enough */
            least[direction] = -INFINITY;
    }
    pricing->direction = least[EPS_ADD] > least[EPS_REMOVE] ? EPS_ADD : EPS_REMOVE;
    if (isfinite(least[pricing->direction]))
        pricing->log_sigma = least[pricing->direction];
    pricing->operations = 0;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        if (pricing->accountants[direction])
            pricing->operations = fmax(pricing->operations, operations_of(setting, pricing->accountants[direction]));
    return true;
}

bool eps__price_first(struct eps__pricing *pricing, struct eps__price *price, const struct eps_matrix *matrix)
{
    const struct eps__accountant *asked[EPS__ACCOUNTANTS_MAX];
    struct eps_job job = job_of(pricing, matrix);
    struct eps__setting setting;
    if (!open_priced(pricing, &setting, &job, &price->log_error))
        return false;
    if (!isfinite(price->log_error))
        return true;
    size_t asked_len = deciders(&setting, asked, pricing->error);
    bool going = asked_len > 0 ? choose(pricing, &setting, asked, asked_len) : stop(pricing, EPS_UNSUPPORTED);
    eps__setting_close(&setting);
    if (going && !pricing->accountants[pricing->direction]) {
        eps__error(pricing->error, EPS_UNATTAINABLE, "/matrix/optimize_for",
                   "no noise multiplier was found at which the strategy can be optimised: choose error");
        going = stop(pricing, EPS_UNATTAINABLE);
    }
    return going && eps__price(pricing, price, matrix);
}
