/*
 * See shared_bins.h. The classes are those of bin_classes.h, for any distance between the bins of a class: fewer
 * classes have more bins each, which share more. Of all distances that give another size, the one with the least
 * estimate is chosen. Estimates are of moments of the likelihood ratio, which are sums in closed form.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/pld/shared_bins.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/merged_bins.h"
#include "lib/accountants/pld/bin_classes.h"
#include "lib/base/error.h"
#include "lib/numerics/binomial.h"
#include "lib/numerics/bound.h"
#include "lib/sampling/sampling.h"
#include "lib/strategy/merged.h"

enum { ORDERS = 48, STEPS = 40, POLL = 64 };

#define OPERATIONS_MOST 4e9  /* for one matrix */
#define DELTA_OTHERWISE 1e-5 /* for the choice of classes of a job that has neither delta nor epsilon */
#define LEAST_SHARE 1e-4     /* of a squared norm: a Gaussian with less would need a grid too fine for the bins */
#define WORTH 1.02           /* an estimate this much above that of bins that share nothing is no better */
#define NOISE_LEAST 0.02     /* in units of the norm */
#define NOISE_MOST 1e4
#define LOG_MOST 600.0 /* of a moment's exponent, which must not overflow */

static size_t bins_of(const struct eps__setting *setting)
{
    return eps__sampling_bins(&setting->job->mechanism);
}

/* Whether the first row of the matrix of inner products has the largest ones of every distance (A51). */
static bool falls(const struct eps_strategy *strategy, size_t bins)
{
    struct eps__blocks blocks = eps__strategy_blocks(strategy);
    return blocks.shape == EPS__SHAPE_TOEPLITZ && (blocks.stamps == 1 || eps__merged_repeats(strategy, bins));
}

bool eps__shared_bins_serve(const struct eps__setting *setting, double *operations)
{
    size_t bins = bins_of(setting);
    double rows = (double)eps_strategy_rows(setting->strategy), bands = (double)eps_strategy_bands(setting->strategy);
    double width = bands < (double)bins / 4 ? bands : (double)bins, matrix = 30 * (double)bins * (double)bins;
    bool row_alone = falls(setting->strategy, bins);
    *operations = 4 * rows * (bands + (double)bins) + 4e7;
    if (!row_alone)
        *operations += 0.25 * rows * width * width + matrix;
    return bins > 1 && (row_alone || bins <= EPS__MERGED_BINS_MOST) && *operations <= OPERATIONS_MOST;
}

/* ------------------------------------------------------------ estimates */

/* What a class is judged by. */
struct aim {
    double eps, log_delta, sigma; /* NAN: unknown */
    double draws;
};

/* ln E X^a - ln a! for a = 0..ORDERS, X the mean of `size` independent lognormals of squared shift `own`; a power of a
 * series. INFINITY where it would overflow. */
static void find_moments(double log_moment[ORDERS + 1], size_t size, double own)
{
    double one[ORDERS + 1], all[ORDERS + 1], count = (double)size, power = 1;
    one[0] = all[0] = 1;
    log_moment[0] = 0;
    for (int n = 1; n <= ORDERS; n++) {
        double exponent = 0.5 * own * n * (n - 1), sum = 0;
        power /= count * n;
        log_moment[n] = INFINITY;
        one[n] = exponent < LOG_MOST ? power * exp(exponent) : INFINITY;
        for (int k = 1; k <= n; k++)
            sum += (k * (count + 1) - n) * one[k] * all[n - k];
        all[n] = sum / n;
        if (all[n] > 0 && isfinite(all[n]))
            log_moment[n] = log(all[n]);
    }
}

/* ln of about the delta at aim->eps or, without that, the epsilon at aim->log_delta. */
static double estimate_at(const struct eps__shared_bins *class, const struct aim *aim, double sigma)
{
    double log_moment[ORDERS + 1], best = INFINITY, square = sigma * sigma;
    find_moments(log_moment, class->size, class->own / square);
    for (int a = 2; a <= ORDERS; a++) {
        double order = a, log_all = aim->draws * (log_moment[a] + eps__log_factorial(order) +
                                                  0.5 * class->shared / square * order * (order - 1));
        double at_most = log_all + (order - 1) * log(order - 1) - order * log(order);
        best =
            fmin(best, isnan(aim->eps) ? (at_most - aim->log_delta) / (order - 1) : at_most - (order - 1) * aim->eps);
    }
    return best;
}

/* About the noise that the class needs or, with a given noise, ln delta or epsilon; less is better. */
static double estimate(const struct eps__shared_bins *class, const struct aim *aim)
{
    if (!isnan(aim->sigma))
        return estimate_at(class, aim, aim->sigma);
    double norm = sqrt(aim->draws * (class->shared + class->own)), low = log(NOISE_LEAST), high = log(NOISE_MOST);
    for (int i = 0; i < STEPS; i++) {
        double middle = 0.5 * (low + high);
        *(estimate_at(class, aim, norm * exp(middle)) > aim->log_delta ? &low : &high) = middle;
    }
    return norm * exp(high);
}

static struct aim aim_of(const struct eps__setting *setting, double sigma, size_t draws)
{
    const struct eps_query *query = &setting->job->query;
    struct aim aim = {query->epsilon, log(query->delta), query->noise_multiplier, (double)draws};
    if (isnan(aim.sigma) && (isnan(aim.eps) || isnan(aim.log_delta)))
        aim.sigma = sigma;
    if (isnan(aim.eps) && isnan(aim.log_delta))
        aim.log_delta = log(DELTA_OTHERWISE);
    return aim;
}

/* ------------------------------------------------------------ classes */

/* What is known of the inner products, in one draw of the bin; rounded up. */
struct products {
    double *shared; /* the largest one of two bins that are m or more apart, m = 1..len - 1 */
    double largest; /* of all */
    size_t len;     /* the number of bins */
    bool around;    /* distances are those around the cycle of bins */
};

static void add_pair(struct products *products, size_t i, size_t j, double product)
{
    size_t apart = products->around ? eps__bin_distance(products->len, i, j) : i > j ? i - j : j - i;
    products->shared[apart] = fmax(products->shared[apart], product);
    products->largest = fmax(products->largest, product);
}

/* From all of the matrix, which is no less than the exact one (M9). */
static enum eps_status add_matrix(struct products *products, const struct eps__setting *setting, size_t draws)
{
    struct eps__bin_gram bins;
    enum eps_status status = eps__merged_bins(&bins, setting, 1, draws);
    if (status != EPS_OK)
        return status;
    for (size_t i = 0; i < bins.len; i++)
        for (size_t j = 0; j <= i; j++)
            add_pair(products, i, j, eps__bin_gram_entry(&bins, i, j));
    eps__bin_gram_clear(&bins);
    return EPS_OK;
}

/* From its first row alone. */
static enum eps_status add_row(struct products *products, const struct eps__setting *setting, size_t draws)
{
    const struct eps_strategy *strategy = setting->strategy;
    size_t len = products->len, rows = eps_strategy_rows(strategy);
    double *row = calloc(len, sizeof *row), *merged = malloc(len * sizeof *merged);
    double *scratch = malloc(eps_strategy_columns(strategy) * sizeof *scratch);
    enum eps_status status = row && merged && scratch ? EPS_OK : EPS_NO_MEMORY;
    for (size_t r = 0; r < rows && status == EPS_OK; r++) {
        eps__merged_row(strategy, merged, len, r, scratch);
        for (size_t j = 0; merged[0] > 0 && j < len; j++)
            row[j] += merged[0] * merged[j];
        if (r % POLL == 0)
            status = eps__poll(setting->context);
    }
    /* the errors of two numbers, of their products, of the sum and of the division */
    double units = 2.001 * eps__merged_error(strategy, len) / EPS__UNIT_ROUNDOFF + (double)rows + 16;
    for (size_t j = 0; j < len && status == EPS_OK; j++)
        add_pair(products, 0, j, eps__raise(row[j] / (double)draws, units));
    free(row);
    free(merged);
    free(scratch);
    return status;
}

/* The caller frees products->shared, also on failure. */
static enum eps_status find_products(struct products *products, const struct eps__setting *setting, size_t draws)
{
    size_t len = bins_of(setting);
    *products = (struct products){.len = len, .around = eps__bin_classes(setting->strategy, len).around};
    products->shared = calloc(len, sizeof *products->shared);
    if (!products->shared)
        return EPS_NO_MEMORY;
    enum eps_status status =
        falls(setting->strategy, len) ? add_row(products, setting, draws) : add_matrix(products, setting, draws);
    for (size_t m = len - 1; m-- > 1;)
        products->shared[m] = fmax(products->shared[m], products->shared[m + 1]);
    return status;
}

/* The parts for bins that are `apart` or more from each other (A51). */
static struct eps__shared_bins parts_of(size_t size, double shared, double largest)
{
    struct eps__shared_bins made = {.size = size, .shared = fmax(shared, LEAST_SHARE * largest)};
    made.own = eps__raise(fmax(largest - made.shared, LEAST_SHARE * largest), 3);
    return made;
}

static enum eps_status choose(struct eps__shared_bins *found, const struct eps__setting *setting,
                              const struct products *products, const struct aim *aim, size_t least)
{
    size_t len = products->len, last = least;
    struct eps__bin_classes chosen = {0};
    struct eps__class_sizes sizes;
    double largest = products->largest, best = INFINITY;
    if (least > 0) /* bins that share nothing */
        best = estimate(&(struct eps__shared_bins){least, 0, largest}, aim) * (isnan(aim->sigma) ? WORTH : 1);
    enum eps_status status = EPS_OK;
    for (size_t apart = len; apart-- > 1 && status == EPS_OK;) {
        struct eps__bin_classes classes = eps__bin_classes_make(len, apart, products->around);
        size_t size = len / classes.len;
        if (size <= last || size < 2)
            continue;
        last = size;
        struct eps__shared_bins parts = parts_of(size, products->shared[apart], largest);
        double own = estimate(&parts, aim);
        if (own < best || (least == 0 && found->size == 0)) {
            best = own;
            *found = parts;
            chosen = classes;
        }
        status = eps__poll(setting->context);
    }
    if (status == EPS_OK && found->size > 0)
        status = eps__bin_class_sizes(setting->context, &sizes, &chosen);
    assert(status != EPS_OK || found->size == 0 || sizes.sizes[0] == found->size); /* every class has as many bins */
    return status;
}

enum eps_status eps__shared_bins_find(struct eps__shared_bins *found, const struct eps__setting *setting, double sigma,
                                      size_t draws, size_t least)
{
    struct products products;
    struct aim aim = aim_of(setting, sigma, draws);
    *found = (struct eps__shared_bins){0};
    enum eps_status status = find_products(&products, setting, draws);
    if (status == EPS_OK)
        status = choose(found, setting, &products, &aim, least);
    free(products.shared);
    return status;
}

void eps__shared_bins_curves(struct eps__bin_curves *curves, const struct eps__shared_bins *found, size_t draws)
{
    double shared = sqrt(found->shared), own = sqrt(found->own);
    *curves = (struct eps__bin_curves){.len = found->own > 0 ? 2 : 0}; /* else no bin shows anything */
    curves->items[0] = (struct eps__bin_curve){1, draws, eps__lower(shared, 3), eps__raise(shared, 3)};
    curves->items[1] = (struct eps__bin_curve){found->size, draws, eps__lower(own, 3), eps__raise(own, 3)};
    curves->total = eps__raise(sqrt((double)draws * (found->shared + found->own)), 8);
}
