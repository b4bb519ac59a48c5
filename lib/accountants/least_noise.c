/*
 * Tests that any adversary can make (L74): of balls in bins, whether the outputs look like some bin's, whichever, and whether
 * they look like all bins' taken together. The first one sees an example whose bins share little, the second one whose bins are
 * nearly alike. Of Poisson sampling, whether they look like all steps' taken together (L75): it sees an example that takes part
 * more often than most, where steps are nearly alike.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/least_noise.h"

#include <stdlib.h>
#include <string.h>

#include "lib/accountants/merged_bins.h"
#include "lib/error.h"
#include "lib/numerics/binomial.h"
#include "lib/numerics/normal.h"
#include "lib/sampling/pairs.h"
#include "lib/sampling/scheme.h"
#include "lib/strategy/merged.h"

#define GRAM_MOST 1e10 /* operations */
#define SIGMA_LEAST 1e-9
#define SIGMA_MOST 1e9
#define STEPS_MOST 1e9 /* operations */
enum { HALVINGS = 30, COUNTS = 1024 };

/* The thresholds tried are about the one that is best for equal shifts. */
static const double around[] = {1, 0.97, 1.03};

/* Shifts of the statistic that is tested, one a bin or a number of participations, at noise 1: over a threshold it counts as
 * seen, and so it does for so many statistics without the example. */
struct test {
    const double *shifts;
    const double *chances; /* of each, at least; NULL: they are equal */
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
        double tail = eps__exp_bound(EPS__LOWER, eps__log_normal_tail(x), error);
        seen = eps__add_down(seen, test->chances ? eps__lower(tail * test->chances[i], 3) : tail);
    }
    if (!test->chances)
        seen = eps__lower(seen / (double)test->len, 3);
    double missed = eps__log_normal_tail(threshold) + test->eps + log(test->statistics);
    double error = EPS__LOG_TAIL_ERROR(threshold) + 8 * EPS__UNIT_ROUNDOFF * (1 + fabs(test->eps) + fabs(missed));
    double left = eps__add_down(seen, -eps__exp_bound(EPS__UPPER, missed, error));
    return left > eps__exp_bound(EPS__UPPER, test->log_delta, 4 * EPS__UNIT_ROUNDOFF * fabs(test->log_delta));
}

/* ln of how much likelier a value of the statistic is with the example. */
static double log_likelier(const struct test *test, double sigma, double value)
{
    double sum = -INFINITY;
    for (size_t i = 0; i < test->len; i++) {
        double shift = test->shifts[i] / sigma;
        sum = eps__log_add(sum, log(test->chances[i]) + shift * (value - shift / 2));
    }
    return sum;
}

/* Where that is eps: the best threshold, about. INFINITY: nowhere. */
static double likelier_from(const struct test *test, double sigma)
{
    double low = 0, high = 1;
    while (high < 1e6 && log_likelier(test, sigma, high) < test->eps)
        high *= 2;
    if (high >= 1e6)
        return INFINITY;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = 0.5 * (low + high);
        *(log_likelier(test, sigma, middle) < test->eps ? &low : &high) = middle;
    }
    return high;
}

static double best_threshold(const struct test *test, double sigma)
{
    double mean = 0;
    if (test->chances)
        return likelier_from(test, sigma);
    for (size_t i = 0; i < test->len; i++)
        mean += test->shifts[i] / sigma / (double)test->len;
    return mean > 0 ? mean / 2 + (test->eps + log(test->statistics)) / mean : INFINITY;
}

static bool shows(const struct test *test, double sigma)
{
    double best = best_threshold(test, sigma);
    if (isinf(best))
        return false;
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

/* ---- balls in bins ---- */

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

static enum eps_status of_bins(double *sigma, const struct eps__setting *setting)
{
    const struct eps_query *query = &setting->job->query;
    size_t bins = eps__sampling_bins(&setting->job->mechanism);
    double error;
    if (!known(setting, bins))
        return EPS_OK;
    double *gram = malloc((bins * bins + 2 * bins) * sizeof *gram), *own = gram + bins * bins, *all = own + bins;
    if (!gram)
        return EPS_NO_MEMORY;
    enum eps_status status = eps__merged_gram(setting->context, gram, &error, setting->strategy, bins);
    if (status == EPS_OK) {
        fill(own, all, gram, bins, error);
        const struct test each = {own, NULL, bins, (double)bins, query->epsilon, log(query->delta)};
        const struct test joint = {all, NULL, bins, 1, query->epsilon, log(query->delta)};
        *sigma = fmax(largest(&each), largest(&joint));
    }
    free(gram);
    return status;
}

/* ---- Poisson sampling ---- */

static bool plain_coins(const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *sampling = &mechanism->sampling;
    return eps__scheme_of(mechanism)->coins && eps__sampling_groups(mechanism) == 1 &&
           sampling->examples_per_user <= 1 && !sampling->truncation && !sampling->last_iterate &&
           (EPS__AGAINST_NOISE >> mechanism->adjacency & 1);
}

static int downwards(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* How far a step moves the statistic <C1, y>/|C1|, for every step, the farthest first; rounded down. row: n numbers. */
static enum eps_status fill_steps(double *steps, double *row, const struct eps__setting *setting)
{
    const struct eps_strategy *strategy = setting->strategy;
    size_t n = eps_strategy_columns(strategy), rows = eps_strategy_rows(strategy);
    double square = 0, units = 3 * (double)(n + rows) + 32;
    enum eps_status status = EPS_OK;
    memset(steps, 0, n * sizeof *steps);
    for (size_t i = 0; i < rows && status == EPS_OK; i++) {
        double sum = 0;
        status = eps_strategy_row(strategy, row, NULL, EPS_PART_ENCODER, i);
        for (size_t j = 0; j < n && status == EPS_OK; j++)
            sum += row[j];
        for (size_t j = 0; j < n && status == EPS_OK; j++)
            steps[j] += sum * row[j];
        square += sum * sum;
        if (status == EPS_OK && i % 64 == 0)
            status = eps__poll(setting->context);
    }
    for (size_t j = 0; j < n && square > 0; j++)
        steps[j] = eps__lower(steps[j] / sqrt(square), units);
    qsort(steps, n, sizeof *steps, downwards);
    return status;
}

/* Of so many steps that move it by `step` at least. numbers: room for 2 COUNTS. */
static double least_of_steps(const struct eps_query *query, double p, size_t len, double step, double *numbers)
{
    double mean = (double)len * p, reach = 8 * sqrt(mean) + 16;
    double error = 2 * eps__binomial_error(len, p), *chances = numbers + COUNTS;
    size_t first = mean > reach ? (size_t)(mean - reach) : 0, last = (size_t)fmin(mean + reach, (double)len);
    if (last - first >= COUNTS || !(step > 0))
        return 0;
    for (size_t k = first; k <= last; k++) {
        numbers[k - first] = eps__lower((double)k * step, 3);
        chances[k - first] = eps__exp_bound(EPS__LOWER, eps__binomial_log_pmf(len, p, k), error);
    }
    const struct test often = {numbers, chances, last - first + 1, 1, query->epsilon, log(query->delta)};
    return largest(&often);
}

static enum eps_status of_coins(double *sigma, const struct eps__setting *setting)
{
    static const double shares[] = {1, 0.95, 0.85, 0.7, 0.5};
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    size_t n = eps_strategy_columns(setting->strategy);
    double p = eps__sampling_probability(mechanism), *steps;
    if (!(p > 0 && p < 1) || !eps__strategy_nonnegative(setting->strategy) ||
        (double)eps_strategy_rows(setting->strategy) * (double)n > STEPS_MOST)
        return EPS_OK;
    steps = malloc((2 * n + 2 * COUNTS) * sizeof *steps);
    if (!steps)
        return EPS_NO_MEMORY;
    enum eps_status status = fill_steps(steps, steps + n, setting);
    for (size_t i = 0; i < sizeof shares / sizeof *shares && status == EPS_OK; i++) {
        size_t len = (size_t)ceil(shares[i] * (double)n);
        *sigma = fmax(*sigma, least_of_steps(&setting->job->query, p, len, steps[len - 1], steps + 2 * n));
    }
    free(steps);
    return status;
}

bool eps__least_noise_concerns(const struct eps_mechanism *mechanism)
{
    return eps__sampling_bins(mechanism) > 0 || plain_coins(mechanism);
}

enum eps_status eps__least_noise(double *sigma, const struct eps__setting *setting)
{
    *sigma = 0;
    if (eps__sampling_bins(&setting->job->mechanism) > 0)
        return of_bins(sigma, setting);
    return plain_coins(&setting->job->mechanism) ? of_coins(sigma, setting) : EPS_OK;
}
