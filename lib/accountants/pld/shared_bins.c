/*
 * See shared_bins.h. The classes are those of bin_classes.h, for any distance between the bins of a class: fewer
 * classes have more bins each, which share more. Of all distances that give another size, the one with the least
 * estimate is chosen. Estimates are of moments of the likelihood ratio, which are sums in closed form.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/pld/shared_bins.h"

#include <math.h>
#include <stdlib.h>

#include "lib/accountants/merged_bins.h"
#include "lib/accountants/pld/bin_classes.h"
#include "lib/base/error.h"
#include "lib/numerics/bound.h"
#include "lib/sampling/sampling.h"

enum { ORDERS = 48, STEPS = 40 };

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

bool eps__shared_bins_serve(const struct eps__setting *setting, double *operations)
{
    size_t bins = bins_of(setting);
    double rows = (double)eps_strategy_rows(setting->strategy), width = (double)eps_strategy_bands(setting->strategy);
    width = width < (double)bins / 4 ? width : (double)bins;
    *operations = 0.25 * rows * width * width + 4 * rows * width + 30 * (double)bins * (double)bins + 4e7;
    return bins > 1 && bins <= EPS__MERGED_BINS_MOST && *operations <= OPERATIONS_MOST;
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
        double order = a, log_all = aim->draws * (log_moment[a] + lgamma(order + 1) +
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

/* out[m]: the largest entry of the matrix between two bins that are m or more apart, m = 1..len - 1. */
static void find_shared(double *out, const struct eps__bin_gram *bins, bool around)
{
    size_t len = bins->len;
    for (size_t i = 0; i < len; i++)
        for (size_t j = 0; j < i; j++) {
            size_t apart = around ? eps__bin_distance(len, i, j) : i - j;
            out[apart] = fmax(out[apart], eps__bin_gram_entry(bins, i, j));
        }
    for (size_t m = len - 1; m-- > 1;)
        out[m] = fmax(out[m], out[m + 1]);
}

/* The parts for bins that are `apart` or more from each other (A51). */
static struct eps__shared_bins parts_of(size_t size, double shared, double largest)
{
    struct eps__shared_bins made = {.size = size, .shared = fmax(shared, LEAST_SHARE * largest)};
    made.own = eps__raise(fmax(largest - made.shared, LEAST_SHARE * largest), 2);
    return made;
}

static enum eps_status choose(struct eps__shared_bins *found, const struct eps__setting *setting,
                              const struct eps__bin_gram *bins, const double *shared, const struct aim *aim,
                              size_t least)
{
    size_t len = bins->len, last = least;
    bool around = eps__bin_classes(setting->strategy, len).around;
    double largest = bins->most, best = INFINITY;
    if (least > 0) /* bins that share nothing */
        best = estimate(&(struct eps__shared_bins){least, 0, largest}, aim) * (isnan(aim->sigma) ? WORTH : 1);
    enum eps_status status = EPS_OK;
    for (size_t apart = len; apart-- > 1 && status == EPS_OK;) {
        struct eps__bin_classes classes = eps__bin_classes_make(len, apart, around);
        size_t size = len / classes.len;
        if (size <= last || size < 2)
            continue;
        last = size;
        struct eps__shared_bins parts = parts_of(size, shared[apart], largest);
        double own = estimate(&parts, aim);
        if (own < best || (least == 0 && found->size == 0)) {
            best = own;
            *found = parts;
        }
        status = eps__poll(setting->context);
    }
    return status;
}

enum eps_status eps__shared_bins_find(struct eps__shared_bins *found, const struct eps__setting *setting, double sigma,
                                      size_t draws, size_t least)
{
    struct eps__bin_gram bins;
    *found = (struct eps__shared_bins){0};
    enum eps_status status = eps__merged_bins(&bins, setting, 1, draws);
    if (status != EPS_OK)
        return status;
    double *shared = calloc(bins.len + 1, sizeof *shared);
    if (shared) {
        struct aim aim = aim_of(setting, sigma, draws);
        find_shared(shared, &bins, eps__bin_classes(setting->strategy, bins.len).around);
        status = choose(found, setting, &bins, shared, &aim, least);
    } else
        status = EPS_NO_MEMORY;
    free(shared);
    eps__bin_gram_clear(&bins);
    return status;
}

void eps__shared_bins_curves(struct eps__bin_curves *curves, const struct eps__shared_bins *found, size_t draws)
{
    double shared = sqrt(found->shared), own = sqrt(found->own);
    *curves = (struct eps__bin_curves){.len = 2};
    curves->items[0] = (struct eps__bin_curve){1, draws, eps__lower(shared, 2), eps__raise(shared, 2)};
    curves->items[1] = (struct eps__bin_curve){found->size, draws, eps__lower(own, 2), eps__raise(own, 2)};
    curves->total = eps__raise(sqrt((double)draws * (found->shared + found->own)), 8);
}
