/*
 * The search for the best first column. Its logarithm is that of a starting column plus a function that is linear in
 * ln(1 + k) between a few anchors: so few numbers that gradients by differences are affordable, and C stays positive,
 * as amplification needs. By the implicit function theorem, d ln sigma = -d ln delta / slope, so a difference takes one
 * bound on delta at a fixed sigma, and no search for sigma. L-BFGS needs about five gradients.
 *
 * Starting columns: the square root of the workload, and the best one for error alone. Which is better depends on how
 * many participations share a row, and on the accountant.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
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

enum { ANCHORS_MAX = 12, ITERATIONS_MAX = 8 };

#define GROWTH 1.5          /* of the distance of an anchor from the diagonal, at least */
#define DIFFERENCE 4e-3     /* of ln c for a derivative */
#define GAP_LEAST 1e-4      /* differences are not more accurate */
#define FAR 20.0            /* the largest change of ln c */
#define SMALL 1e-8          /* entries of a starting column, relative to its first */
#define BUDGET 1e11         /* operations of a search: well under a minute */
#define PROFILES_START 30.0 /* to choose a start */
#define PROFILES_LEAST 32.0
#define PROFILES_MOST 80.0
#define FORMAT 1 /* of cached columns */

/* ------------------------------------------------------------ the search */

struct search {
    struct eps__pricing pricing;
    size_t len;          /* entries of the column */
    const double *start; /* its first entry is 1 */
    size_t anchors[ANCHORS_MAX], anchors_len;
    double *column; /* scratch */
    double most;    /* no gradient is begun once so many profiles have been opened */
};

/* Anchors at 1, 2, 3... and then ever further apart, up to the last entry. */
static void place_anchors(struct search *search)
{
    double last = (double)search->len - 1, growth = fmax(GROWTH, pow(last, 1.0 / (ANCHORS_MAX - 5)));
    search->anchors_len = 0;
    for (double at = 1; at <= last && search->anchors_len < ANCHORS_MAX; at = floor(fmax(at + 1, growth * at))) {
        bool ends = search->anchors_len + 1 == ANCHORS_MAX || (at < last && floor(fmax(at + 1, growth * at)) > last);
        search->anchors[search->anchors_len++] = (size_t)at;
        if (ends && at < last && search->anchors_len < ANCHORS_MAX)
            search->anchors[search->anchors_len++] = (size_t)last;
    }
}

/* The column for these changes of ln c at the anchors. False: they are too large. */
static bool expand(const struct search *search, const double *changes)
{
    size_t k = 0;
    for (size_t i = 0; i < search->anchors_len; i++)
        if (!(fabs(changes[i]) < FAR))
            return false;
    search->column[0] = 1;
    for (size_t i = 0; i < search->anchors_len; i++) {
        double from = i > 0 ? (double)search->anchors[i - 1] : 0, to = (double)search->anchors[i];
        double left = i > 0 ? changes[i - 1] : 0, width = log1p(to) - log1p(from);
        for (k++; k <= search->anchors[i]; k++) {
            double share = (log1p((double)k) - log1p(from)) / width;
            search->column[k] = search->start[k] * exp((1 - share) * left + share * changes[i]);
        }
        k--;
    }
    return true;
}

/* ln price and its gradient. Stops when all profiles are spent. */
static bool objective(void *user, double *value, double *gradient, const double *changes)
{
    struct search *search = user;
    struct eps__pricing *pricing = &search->pricing;
    struct eps__price price, near;
    double moved[ANCHORS_MAX];
    *value = INFINITY;
    if (pricing->status != EPS_OK || pricing->profiles >= search->most)
        return false;
    if (!expand(search, changes))
        return true;
    if (!eps__price(pricing, &price, search->column, search->len))
        return false;
    *value = eps__price_log(pricing, &price);
    memcpy(moved, changes, search->anchors_len * sizeof *moved);
    for (size_t i = 0; i < search->anchors_len && isfinite(*value); i++) {
        moved[i] = changes[i] + DIFFERENCE;
        (void)expand(search, moved);
        if (!eps__price_like(pricing, &near, &price, search->column, search->len))
            return false;
        gradient[i] = (eps__price_log(pricing, &near) - *value) / DIFFERENCE;
        moved[i] = changes[i];
    }
    return true;
}

/* ------------------------------------------------------------ starting columns */

/* The first column of a matrix, divided by its first entry. *usable: it has one, and no entry is negative. */
static enum eps_status column_of(double *column, size_t len, bool *usable, struct eps_error *error,
                                 const struct eps__pricing *pricing, const struct eps_matrix *matrix)
{
    struct eps_mechanism mechanism = pricing->job.mechanism;
    struct eps_strategy *strategy = NULL;
    size_t stamps = mechanism.matrix.stamps;
    mechanism.matrix = *matrix;
    mechanism.matrix.stamps = stamps;
    enum eps_status status = eps_strategy_create(pricing->context, &strategy, error, &mechanism);
    *usable = false;
    if (status == EPS_INVALID || status == EPS_UNSUPPORTED) /* such as the root of a workload that has none */
        return EPS_OK;
    if (status != EPS_OK)
        return status;
    struct eps__blocks blocks = eps__strategy_blocks(strategy);
    if (blocks.shape == EPS__SHAPE_TOEPLITZ && blocks.coefficients_len > 0 && blocks.coefficients[0] > 0 &&
        eps__strategy_nonnegative(strategy)) {
        *usable = true;
        for (size_t k = 0; k < len; k++)
            column[k] = fmax(k < blocks.coefficients_len ? blocks.coefficients[k] / blocks.coefficients[0] : 0, SMALL);
    }
    eps_strategy_destroy(strategy);
    return EPS_OK;
}

/* A starting column, and who decides its price. */
struct start {
    double *column;
    bool usable;
    double log_price;
    struct eps__pricing pricing;
};

/* Prices the starting columns: the root, and the best one for error alone. The better one comes first. */
static enum eps_status price_starts(struct start starts[2], const struct eps__pricing *pricing, size_t len)
{
    struct eps_matrix matrices[2] = {eps__matrix_of_bands(len), pricing->job.mechanism.matrix};
    double profiles = 0;
    matrices[1].optimize_for = EPS_OPTIMIZE_FOR_ERROR;
    for (size_t i = 0; i < 2; i++) {
        struct start *start = &starts[i];
        struct eps__price price;
        start->pricing = *pricing;
        start->pricing.profiles = profiles;
        start->log_price = INFINITY;
        enum eps_status status = column_of(start->column, len, &start->usable, pricing->error, pricing, &matrices[i]);
        if (status != EPS_OK)
            return status;
        if (!start->usable)
            continue;
        /* Which accountant is the best may differ. */
        if (!eps__price_first(&start->pricing, &price, start->column, len))
            return start->pricing.status;
        start->log_price = eps__price_log(&start->pricing, &price);
        profiles = start->pricing.profiles;
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

/* Writes the best column that a search from a start finds, and lowers *log_price to its price; no other one. */
static enum eps_status minimise(struct eps__tuned *tuned, double *log_price, const struct start *start, size_t len,
                                double share, double *scratch)
{
    double changes[ANCHORS_MAX] = {0}, value = start->log_price, square = 0;
    struct search search = {.pricing = start->pricing, .len = len, .start = start->column, .column = scratch};
    const struct eps__lbfgs options = {.max_iterations = ITERATIONS_MAX,
                                       .tolerance = fmax(search.pricing.job.mechanism.matrix.gap, GAP_LEAST)};
    size_t iterations = 0;
    search.most = search.pricing.profiles + share * profiles_of(search.pricing.operations);
    place_anchors(&search);
    if (search.anchors_len > 0 && eps__lbfgs_minimise(&options, changes, &value, &iterations, search.anchors_len,
                                                      objective, &search) == EPS__LBFGS_NO_MEMORY)
        return eps__error(search.pricing.error, EPS_NO_MEMORY, "", "out of memory");
    if (search.pricing.status != EPS_OK)
        return search.pricing.status;
    tuned->iterations += iterations;
    if (!(value < *log_price))
        return EPS_OK;
    *log_price = value;
    (void)expand(&search, changes);
    for (size_t k = 0; k < len; k++)
        square += search.column[k] * search.column[k];
    for (size_t k = 0; k < len; k++)
        tuned->column[k] = search.column[k] / sqrt(square);
    return EPS_OK;
}

/* Searches from the better start; if the prices of the two are decided by different accountants, from both. */
static enum eps_status search_from(struct eps__tuned *tuned, const struct start starts[2], size_t len, double *scratch)
{
    const struct eps__pricing *a = &starts[0].pricing, *b = &starts[1].pricing;
    bool both = starts[1].usable && a->accountants[a->direction] != b->accountants[b->direction];
    double log_price = INFINITY;
    enum eps_status status = minimise(tuned, &log_price, &starts[0], len, both ? 0.5 : 1, scratch);
    if (status == EPS_OK && both)
        status = minimise(tuned, &log_price, &starts[1], len, 0.5, scratch);
    if (status == EPS_OK && !isfinite(log_price))
        return eps__error(a->error, EPS_UNATTAINABLE, "/matrix/optimize_for",
                          "no noise multiplier was found at which the strategy can be optimised: choose error");
    return status;
}

static enum eps_status compute(const struct eps_context *context, struct eps__tuned *tuned, struct eps_error *error,
                               const struct eps_job *job, double expected)
{
    size_t len = job->mechanism.matrix.bands;
    double *scratch = malloc(3 * len * sizeof *scratch);
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
    struct start starts[2] = {{.column = scratch + len}, {.column = scratch + 2 * len}};
    enum eps_status status = price_starts(starts, &pricing, len);
    if (status == EPS_OK)
        status = search_from(tuned, starts, len, scratch);
    eps__meter_end(&meter);
    free(scratch);
    return status;
}

/* ------------------------------------------------------------ the cache */

static void hash_bytes(void *to, const void *bytes, size_t len)
{
    eps__hash_bytes(to, bytes, len);
}

/* A column depends on everything in the job: all members are in the key. */
static void key_of(uint8_t key[EPS__HASH_BYTES], const struct eps_job *job)
{
    struct eps__hash hash;
    eps__hash_init(&hash, "strategy optimised for a job");
    eps__hash_u64(&hash, EPS_ACCOUNTING_VERSION);
    eps__members_put(&eps__mechanism_object, &job->mechanism, false, hash_bytes, &hash);
    eps__members_put(&eps__query_object, &job->query, false, hash_bytes, &hash);
    eps__hash_final(&hash, key);
}

static bool fetch(const struct eps_context *context, struct eps__tuned *tuned, const uint8_t key[EPS__HASH_BYTES])
{
    void *blob = NULL;
    size_t blob_len = 0, len = 0;
    double *column = NULL;
    if (!context->cache_get(context->user, EPS_CACHE_FACTORIZATION, key, &blob, &blob_len))
        return false;
    struct eps__record from = eps__record_over(blob, blob_len);
    bool whole = eps__record_get_u64(&from) == FORMAT;
    size_t iterations = eps__record_get_u64(&from);
    eps__record_get_doubles(&from, &column, &len);
    whole = whole && eps__record_done(&from) && len == tuned->job.mechanism.matrix.coefficients_len;
    for (size_t k = 0; whole && k < len; k++)
        whole = column[k] > 0 && column[k] <= 1;
    if (whole) {
        memcpy(tuned->column, column, len * sizeof *column);
        tuned->iterations = iterations;
    }
    free(column);
    free(blob);
    return whole;
}

static void offer(const struct eps_context *context, const struct eps__tuned *tuned, const uint8_t key[EPS__HASH_BYTES])
{
    struct eps__record blob = {0};
    eps__record_put_u64(&blob, FORMAT);
    eps__record_put_u64(&blob, tuned->iterations);
    eps__record_put_doubles(&blob, tuned->column, tuned->job.mechanism.matrix.coefficients_len);
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
    *tuned = (struct eps__tuned){.job = *job, .column = calloc(matrix->bands, sizeof *tuned->column)};
    if (!tuned->column)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    tuned->job.mechanism.matrix = eps__matrix_of_column(tuned->column, matrix->bands);
    tuned->job.mechanism.matrix.stamps = matrix->stamps;
    tuned->job.mechanism.matrix.normalization = matrix->normalization;
    key_of(key, job);
    if (context && context->cache_get && fetch(context, tuned, key)) {
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
    free(tuned->column);
    *tuned = (struct eps__tuned){0};
}
