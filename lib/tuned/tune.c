/*
 * The search for the best C of a family, which says how its numbers move (lib/strategy/families/search.h): by so few
 * variables that gradients by differences are affordable. By the implicit function theorem, d ln sigma = -d ln delta /
 * slope, so a difference takes one bound on delta at a fixed sigma, and no search for sigma. L-BFGS needs about five
 * gradients.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/members.h"
#include "lib/base/progress.h"
#include "lib/job/setting.h"
#include "lib/numerics/hash.h"
#include "lib/numerics/lbfgs.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/kept/record.h"
#include "lib/strategy/strategy.h"
#include "lib/tuned/price.h"
#include "lib/tuned/tuned.h"

enum { STARTS_MAX = 2, ITERATIONS_MAX = 20 };

#define DIFFERENCE 4e-3     /* of a variable, for a derivative */
#define GAP_LEAST 1e-4      /* differences are not more accurate */
#define CURVATURE 0.1       /* of ln price along a variable, about */
#define BUDGET 1e11         /* operations of a search: well under a minute */
#define PROFILES_START 30.0 /* to choose a start */
#define PROFILES_LEAST 32.0
#define PROFILES_MOST 80.0
#define FORMAT 1 /* of the numbers that are cached */

static const struct eps__family_search *search_of(const struct eps_matrix *matrix)
{
    return eps__family_of(matrix)->search;
}

/* ------------------------------------------------------------ the search */

struct search {
    struct eps__pricing pricing;
    const struct eps__family_search *family;
    const struct eps_matrix *matrix; /* of the job */
    const double *start;
    size_t variables;
    double *numbers; /* scratch */
    double most;     /* no gradient is begun once so many profiles have been opened */
};

static struct eps_matrix given(const struct search *search)
{
    return search->family->given(search->matrix, search->numbers);
}

/* The derivative of the objective along variable i of `changes`, which is changed and restored; 0 if no step along it
 * is allowed. */
static bool derivative(struct search *search, double *gradient, double *changes, size_t i,
                       const struct eps__price *price)
{
    const double at = changes[i];
    *gradient = 0;
    for (int sign = 1; sign >= -1; sign -= 2) {
        struct eps__price near = {.log_error = INFINITY};
        changes[i] = at + sign * DIFFERENCE;
        bool allowed = search->family->move(search->numbers, search->matrix, search->start, changes);
        struct eps_matrix matrix = given(search);
        changes[i] = at;
        if (allowed && !eps__price_like(&search->pricing, &near, price, &matrix))
            return false;
        if (isfinite(near.log_error)) {
            *gradient = (eps__price_log(&search->pricing, &near) - eps__price_log(&search->pricing, price)) /
                        (sign * DIFFERENCE * CURVATURE);
            return true;
        }
    }
    return true;
}

/* ln price in units of CURVATURE, so that a step of the size of the gradient is about the right one, and its gradient.
 * Stops when all profiles are spent. */
static bool objective(void *user, double *value, double *gradient, const double *changes)
{
    struct search *search = user;
    struct eps__pricing *pricing = &search->pricing;
    struct eps__price price;
    double moved[EPS__SEARCH_VARIABLES_MAX];
    *value = INFINITY;
    if (pricing->status != EPS_OK || pricing->profiles >= search->most)
        return false;
    if (!search->family->move(search->numbers, search->matrix, search->start, changes))
        return true;
    struct eps_matrix matrix = given(search);
    if (!eps__price(pricing, &price, &matrix))
        return false;
    *value = eps__price_log(pricing, &price) / CURVATURE;
    memcpy(moved, changes, search->variables * sizeof *moved);
    for (size_t i = 0; i < search->variables && isfinite(*value); i++)
        if (!derivative(search, &gradient[i], moved, i, &price))
            return false;
    return true;
}

/* ------------------------------------------------------------ where it starts */

/* The numbers of the member near a start. *usable: there is one, and no entry of the start is negative. */
static enum eps_status read_start(double *numbers, bool *usable, const struct eps__pricing *pricing,
                                  const struct eps_matrix *start)
{
    struct eps_mechanism mechanism = pricing->job.mechanism;
    const struct eps_matrix *matrix = &pricing->job.mechanism.matrix;
    struct eps_strategy *strategy = NULL;
    mechanism.matrix = *start;
    mechanism.matrix.stamps = matrix->stamps;
    enum eps_status status = eps_strategy_create(pricing->context, &strategy, pricing->error, &mechanism);
    *usable = false;
    if (status == EPS_INVALID || status == EPS_UNSUPPORTED) /* such as the root of a workload that has none */
        return EPS_OK;
    if (status != EPS_OK)
        return status;
    if (eps__strategy_nonnegative(strategy)) {
        status = search_of(matrix)->read(numbers, matrix, strategy);
        *usable = status == EPS_OK;
    }
    eps_strategy_destroy(strategy);
    return status == EPS_OK || status == EPS_UNSUPPORTED
               ? EPS_OK
               : eps__error(pricing->error, status, "", "the strategy was not optimised");
}

/* A start, and who decides its price. */
struct start {
    double *numbers;
    bool usable;
    double log_price;
    struct eps__pricing pricing;
};

/* Prices a start. *profiles: those opened before. */
static enum eps_status price_start(struct start *start, double *profiles, const struct eps__pricing *pricing,
                                   const struct eps_matrix *matrix)
{
    struct eps__price price;
    start->pricing = *pricing;
    start->pricing.profiles = *profiles;
    enum eps_status status = read_start(start->numbers, &start->usable, pricing, matrix);
    if (status != EPS_OK || !start->usable)
        return status;
    struct eps_matrix given =
        search_of(&pricing->job.mechanism.matrix)->given(&pricing->job.mechanism.matrix, start->numbers);
    /* Which accountant is the best may differ. */
    if (!eps__price_first(&start->pricing, &price, &given))
        return start->pricing.status;
    start->log_price = eps__price_log(&start->pricing, &price);
    *profiles = start->pricing.profiles;
    return EPS_OK;
}

/* Prices the family's starts. The better one comes first. */
static enum eps_status price_starts(struct start starts[STARTS_MAX], const struct eps__pricing *pricing)
{
    const struct eps_matrix *matrix = &pricing->job.mechanism.matrix;
    struct eps_matrix from;
    double profiles = 0;
    for (size_t i = 0; i < STARTS_MAX; i++)
        starts[i].log_price = INFINITY;
    for (size_t i = 0; i < STARTS_MAX && search_of(matrix)->start(&from, matrix, i); i++) {
        enum eps_status status = price_start(&starts[i], &profiles, pricing, &from);
        if (status != EPS_OK)
            return status;
    }
    if (!starts[0].usable && !starts[1].usable)
        return eps__error(pricing->error, EPS_UNSUPPORTED, "/matrix/optimize_for",
                          "no strategy with entries >= 0 is known for this workload: choose error");
    if (!starts[0].usable || starts[1].log_price < starts[0].log_price) {
        struct start better = starts[1];
        starts[1] = starts[0];
        starts[0] = better;
    }
    return EPS_OK;
}

/* ------------------------------------------------------------ the answer */

/* The job that is priced: an accountant that only solves, without profiles, is replaced by `auto`. */
static struct eps_job priced_job(const struct eps_job *job)
{
    struct eps_job priced = *job, fresh;
    eps_job_init(&fresh);
    if (!eps__accountant_find(job->query.accountant.method)->open)
        priced.query.accountant = fresh.query.accountant;
    priced.query.accountant.audit = 0;
    return priced;
}

/* Profiles that a search may open after its start, given the operations of one. */
static double profiles_of(double operations)
{
    return fmin(fmax(BUDGET / fmax(operations, 1), PROFILES_LEAST), PROFILES_MOST);
}

/* Writes the best numbers that a search from a start finds, and lowers *log_price to their price; no other ones. */
static enum eps_status minimise(struct eps__tuned *tuned, double *log_price, const struct start *start, double share,
                                double *scratch)
{
    const struct eps_matrix *matrix = &start->pricing.job.mechanism.matrix;
    double changes[EPS__SEARCH_VARIABLES_MAX] = {0}, value = start->log_price / CURVATURE;
    struct search search = {.pricing = start->pricing,
                            .family = search_of(matrix),
                            .matrix = matrix,
                            .start = start->numbers,
                            .variables = search_of(matrix)->variables(matrix),
                            .numbers = scratch};
    const struct eps__lbfgs options = {.max_iterations = ITERATIONS_MAX,
                                       .tolerance = fmax(matrix->gap, GAP_LEAST) / CURVATURE};
    size_t iterations = 0;
    search.most = search.pricing.profiles + share * profiles_of(search.pricing.operations);
    assert(search.variables <= EPS__SEARCH_VARIABLES_MAX);
    if (search.variables > 0 && eps__lbfgs_minimise(&options, changes, &value, &iterations, search.variables, objective,
                                                    &search) == EPS__LBFGS_NO_MEMORY)
        return eps__error(search.pricing.error, EPS_NO_MEMORY, "", "out of memory");
    if (search.pricing.status != EPS_OK)
        return search.pricing.status;
    tuned->iterations += iterations;
    value *= CURVATURE;
    if (!(value < *log_price))
        return EPS_OK;
    *log_price = value;
    (void)search.family->move(tuned->numbers, matrix, start->numbers, changes);
    if (search.family->scale)
        search.family->scale(tuned->numbers, matrix);
    return EPS_OK;
}

/* Searches from the better start; if the prices of the two are decided by different accountants, from both. */
static enum eps_status search_from(struct eps__tuned *tuned, const struct start starts[STARTS_MAX], double *scratch)
{
    const struct eps__pricing *a = &starts[0].pricing, *b = &starts[1].pricing;
    bool both = starts[1].usable && a->accountants[a->direction] != b->accountants[b->direction];
    double log_price = INFINITY;
    enum eps_status status = minimise(tuned, &log_price, &starts[0], both ? 0.5 : 1, scratch);
    if (status == EPS_OK && both)
        status = minimise(tuned, &log_price, &starts[1], 0.5, scratch);
    if (status == EPS_OK && !isfinite(log_price))
        return eps__error(a->error, EPS_UNATTAINABLE, "/matrix/optimize_for",
                          "no noise multiplier was found at which the strategy can be optimised: choose error");
    return status;
}

static enum eps_status compute(const struct eps_context *context, struct eps__tuned *tuned, struct eps_error *error,
                               const struct eps_job *job, double expected)
{
    double *scratch = malloc((STARTS_MAX + 1) * tuned->len * sizeof *scratch);
    struct eps_context quiet = context ? *context : (struct eps_context){0};
    struct eps__meter meter = {.expected = 1};
    struct eps__meters meters = {.context = context, .items = &meter, .len = 1, .stride = sizeof meter};
    /* What the cache would keep of candidates is not asked for again. */
    quiet.progress = NULL;
    quiet.cache_get = NULL;
    quiet.cache_put = NULL;
    meter.all = &meters;
    if (!scratch)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    const struct eps__pricing pricing = {.context = &quiet,
                                         .job = priced_job(job),
                                         .slopes = {-20, -20}, /* as often measured; the first secant corrects it */
                                         .expected = expected,
                                         .meter = &meter,
                                         .error = error};
    struct start starts[STARTS_MAX] = {{.numbers = scratch + tuned->len}, {.numbers = scratch + 2 * tuned->len}};
    enum eps_status status = price_starts(starts, &pricing);
    if (status == EPS_OK)
        status = search_from(tuned, starts, scratch);
    eps__meter_end(&meter);
    free(scratch);
    return status;
}

/* ------------------------------------------------------------ the cache */

static void hash_bytes(void *to, const void *bytes, size_t len)
{
    eps__hash_bytes(to, bytes, len);
}

/* The numbers depend on everything in the job: all members are in the key. */
static void key_of(uint8_t key[EPS__HASH_BYTES], const struct eps_job *job)
{
    struct eps__hash hash;
    eps__hash_init(&hash, "strategy optimised for a job");
    eps__hash_u64(&hash, EPS_ACCOUNTING_VERSION);
    eps__members_put(&eps__mechanism_object, &job->mechanism, false, hash_bytes, &hash);
    eps__members_put(&eps__query_object, &job->query, false, hash_bytes, &hash);
    eps__hash_final(&hash, key);
}

static bool fetch(const struct eps_context *context, struct eps__tuned *tuned, const struct eps_matrix *matrix,
                  const uint8_t key[EPS__HASH_BYTES])
{
    void *blob = NULL;
    size_t blob_len = 0, len = 0;
    double *numbers = NULL;
    if (!context->cache_get(context->user, EPS_CACHE_FACTORIZATION, key, &blob, &blob_len))
        return false;
    struct eps__record from = eps__record_over(blob, blob_len);
    bool whole = eps__record_get_u64(&from) == FORMAT;
    size_t iterations = eps__record_get_u64(&from);
    eps__record_get_doubles(&from, &numbers, &len);
    whole = whole && eps__record_done(&from) && len == tuned->len && search_of(matrix)->holds(numbers, matrix);
    if (whole) {
        memcpy(tuned->numbers, numbers, len * sizeof *numbers);
        tuned->iterations = iterations;
    }
    free(numbers);
    free(blob);
    return whole;
}

static void offer(const struct eps_context *context, const struct eps__tuned *tuned, const uint8_t key[EPS__HASH_BYTES])
{
    struct eps__record blob = {0};
    eps__record_put_u64(&blob, FORMAT);
    eps__record_put_u64(&blob, tuned->iterations);
    eps__record_put_doubles(&blob, tuned->numbers, tuned->len);
    if (!blob.bad)
        context->cache_put(context->user, EPS_CACHE_FACTORIZATION, key, blob.bytes, blob.len);
    eps__record_clear(&blob);
}

/* ------------------------------------------------------------ the interface */

bool eps__is_tuned(const struct eps_job *job)
{
    return job->phases_len == 0 && job->mechanism.matrix.optimize_for == EPS_OPTIMIZE_FOR_JOB;
}

/* The operations of one profile. */
static enum eps_status operations_of(const struct eps_context *context, double *operations, struct eps_error *error,
                                     const struct eps_job *job)
{
    struct eps_job priced = priced_job(job);
    struct eps__setting setting;
    enum eps_status status = eps__setting_probe(&setting, error, context, &priced);
    *operations = 0;
    if (status != EPS_OK)
        return status;
    setting.draft = true;
    *operations = eps__price_operations(&setting);
    eps__setting_close(&setting);
    return EPS_OK;
}

enum eps_status eps__tuned_cost(const struct eps_context *context, double *operations, struct eps_error *error,
                                const struct eps_job *job)
{
    double one = 0;
    *operations = 0;
    if (!eps__is_tuned(job))
        return EPS_OK;
    enum eps_status status = operations_of(context, &one, error, job);
    *operations = one * (PROFILES_START + profiles_of(one));
    return status;
}

enum eps_status eps__tune(const struct eps_context *context, struct eps__tuned *tuned, struct eps_error *error,
                          const struct eps_job *job)
{
    uint8_t key[EPS__HASH_BYTES];
    const struct eps_matrix *matrix = &job->mechanism.matrix;
    double operations = 0;
    enum eps_status status = operations_of(context, &operations, error, job);
    if (status != EPS_OK)
        return status;
    size_t len = search_of(matrix)->numbers(matrix);
    *tuned = (struct eps__tuned){.job = *job, .numbers = calloc(len, sizeof *tuned->numbers), .len = len};
    if (!tuned->numbers)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    tuned->job.mechanism.matrix = search_of(matrix)->given(matrix, tuned->numbers);
    tuned->job.mechanism.matrix.stamps = matrix->stamps;
    tuned->job.mechanism.matrix.normalization = matrix->normalization;
    key_of(key, job);
    if (context && context->cache_get && fetch(context, tuned, matrix, key)) {
        tuned->cache_state = EPS_CACHE_HIT;
        return EPS_OK;
    }
    tuned->cache_state = context && context->cache_put ? EPS_CACHE_MISS : EPS_CACHE_UNUSED;
    status = compute(context, tuned, error, job, PROFILES_START + profiles_of(operations));
    if (status != EPS_OK)
        eps__tuned_clear(tuned);
    else if (context && context->cache_put)
        offer(context, tuned, key);
    return status;
}

void eps__tuned_clear(struct eps__tuned *tuned)
{
    free(tuned->numbers);
    *tuned = (struct eps__tuned){0};
}
