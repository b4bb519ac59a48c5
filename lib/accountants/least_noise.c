/*
 * Two tests that any adversary can make (L74): whether the outputs look like some bin's, whichever, and whether they
 * look like all bins' taken together. The first one sees an example whose bins share little, the second one whose bins are
 * nearly alike.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/least_noise.h"

#include <stdlib.h>

#include "lib/accountants/merged_bins.h"
#include "lib/error.h"
#include "lib/numerics/normal.h"
#include "lib/sampling/pairs.h"
#include "lib/sampling/scheme.h"
#include "lib/strategy/merged.h"

#define GRAM_MOST 1e10 /* operations */
#define SIGMA_LEAST 1e-9
#define SIGMA_MOST 1e9
enum { HALVINGS = 30 };

/* The thresholds tried are about the one that is best for equal shifts. */
static const double around[] = {1, 0.97, 1.03};

/* Shifts of the statistic that is tested, one a bin, at noise 1: over a threshold it counts as seen, and so it does for so
 * many statistics without the example. */
struct test {
    const double *shifts;
    size_t len;
    double statistics, eps, log_delta;
};

/* Whether the test at this threshold shows that delta is more than the one asked for. */
static bool shows_at(const struct test *test, double sigma, double threshold)
{
    double seen = 0;
    for (size_t i = 0; i < test->len; i++) {
        double x = threshold - test->shifts[i] / sigma;
        double error = EPS__LOG_TAIL_ERROR(x) + 4 * EPS__UNIT_ROUNDOFF * fabs(threshold) * (fabs(x) + 2);
        seen = eps__add_down(seen, eps__exp_bound(EPS__LOWER, eps__log_normal_tail(x), error));
    }
    seen = eps__lower(seen / (double)test->len, 3);
    double missed = eps__log_normal_tail(threshold) + test->eps + log(test->statistics);
    double error = EPS__LOG_TAIL_ERROR(threshold) + 8 * EPS__UNIT_ROUNDOFF * (1 + fabs(test->eps) + fabs(missed));
    double left = eps__add_down(seen, -eps__exp_bound(EPS__UPPER, missed, error));
    return left > eps__exp_bound(EPS__UPPER, test->log_delta, 4 * EPS__UNIT_ROUNDOFF * fabs(test->log_delta));
}

static bool shows(const struct test *test, double sigma)
{
    double mean = 0;
    for (size_t i = 0; i < test->len; i++)
        mean += test->shifts[i] / sigma / (double)test->len;
    if (!(mean > 0))
        return false;
    double best = mean / 2 + (test->eps + log(test->statistics)) / mean;
    for (size_t i = 0; i < sizeof around / sizeof *around; i++)
        if (shows_at(test, sigma, best * around[i]))
            return true;
    return false;
}

/* The largest noise at which the test shows it, about; 0 where at none. */
static double largest(const struct test *test)
{
    double low = 1, high = 1;
    if (shows(test, low)) {
        do
            high *= 2;
        while (high < SIGMA_MOST && shows(test, high));
        low = high / 2;
    } else {
        do
            low /= 2;
        while (low > SIGMA_LEAST && !shows(test, low));
        if (low <= SIGMA_LEAST)
            return 0;
        high = 2 * low;
    }
    for (int i = 0; i < HALVINGS; i++) {
        double middle = 0.5 * (low + high);
        *(shows(test, middle) ? &low : &high) = middle;
    }
    return low;
}

static bool known(const struct eps__setting *setting, size_t bins)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    double width = fmin((double)bins, (double)eps_strategy_bands(setting->strategy));
    return bins > 0 && bins <= EPS__MERGED_BINS_MOST && !mechanism->sampling.redraw &&
           (EPS__AGAINST_NOISE >> mechanism->adjacency & 1) && eps__strategy_nonnegative(setting->strategy) &&
           (double)eps_strategy_rows(setting->strategy) * width * width <= GRAM_MOST;
}

/* The shifts of each bin's own statistic into own, and of that of all bins together into all; rounded down. */
static void fill(double *own, double *all, const double *gram, size_t bins, double error)
{
    double units = 2 * error / EPS__UNIT_ROUNDOFF + (double)bins + 8, total = 0;
    for (size_t i = 0; i < bins; i++) {
        own[i] = eps__lower(sqrt(gram[i * bins + i]), units);
        all[i] = 0;
        for (size_t j = 0; j < bins; j++)
            all[i] += gram[i * bins + j];
        total += all[i];
    }
    for (size_t i = 0; i < bins; i++)
        all[i] = total > 0 ? eps__lower(all[i] / sqrt(total), 2 * units) : 0;
}

enum eps_status eps__least_noise(double *sigma, const struct eps__setting *setting)
{
    const struct eps_query *query = &setting->job->query;
    size_t bins = eps__sampling_bins(&setting->job->mechanism);
    double error;
    *sigma = 0;
    if (!known(setting, bins))
        return EPS_OK;
    double *gram = malloc((bins * bins + 2 * bins) * sizeof *gram), *own = gram + bins * bins, *all = own + bins;
    if (!gram)
        return EPS_NO_MEMORY;
    enum eps_status status = eps__merged_gram(setting->context, gram, &error, setting->strategy, bins);
    if (status == EPS_OK) {
        fill(own, all, gram, bins, error);
        const struct test each = {own, bins, (double)bins, query->epsilon, log(query->delta)};
        const struct test joint = {all, bins, 1, query->epsilon, log(query->delta)};
        *sigma = fmax(largest(&each), largest(&joint));
    }
    free(gram);
    return status;
}
