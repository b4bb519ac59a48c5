/*
 * Threshold tests that any adversary can run. Each one gives a lower bound on delta.
 *
 * Balls in bins (A47): one test projects the output on the vector m_i of every bin and looks at the largest projection,
 * which is strong if bins overlap little. The other one projects on the sum of the m_i, which is strong if bins are
 * nearly equal. Poisson sampling (A48): the test projects on the sum of the columns. It detects an example that takes
 * part more often than expected, and is strong if the columns are nearly equal.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/least.h"

#include <stdlib.h>
#include <string.h>

#include "lib/accountants/merged_bins.h"
#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/numerics/binomial.h"
#include "lib/numerics/normal.h"
#include "lib/sampling/pairs.h"
#include "lib/sampling/scheme.h"
#include "lib/strategy/merged.h"

#define GRAM_MOST 1e10 /* the most operations for a Gram matrix */
#define QUICKLY 1e7    /* operations that are cheap beside an answer: hundredths of a second */
#define SIGMA_LEAST EPS_NOISE_MULTIPLIER_LEAST
#define EPSILON_LEAST 1e-6
#define SIGMA_MOST EPS_NOISE_MULTIPLIER_MOST
#define STEPS_MOST 1e9 /* the most operations for the projections of all steps */
enum { HALVINGS = 30, COUNTS = 1024 };

/* The thresholds that are tried, as multiples of an approximately optimal one. */
static const double around[] = {1, 0.97, 1.03};

struct least_question {
    enum eps_unknown unknown; /* epsilon, delta or the noise multiplier */
    double eps, log_delta, sigma;
    double operations; /* the approximate limit on operations */
};

/* A test: an example is detected if a statistic exceeds a threshold. With the example, the statistic is a standard
 * normal number plus a shift, one for each bin or number of participations. */
struct test {
    const double *shifts;  /* at sigma = 1; divided by sigma they are in standard deviations */
    const double *chances; /* lower bounds on the probabilities of the shifts; NULL: all are 1/len */
    size_t len;
    double statistics;           /* how many statistics are tested: the factor of the union bound without the example */
    struct least_question asked; /* the unknown is set to the value that is tried */
};

/* The lower bound on delta that the test gives at this threshold. */
static double delta_at(const struct test *test, double threshold)
{
    double seen = 0, sigma = test->asked.sigma, eps = test->asked.eps;
    for (size_t i = 0; i < test->len; i++) {
        double x = threshold - test->shifts[i] / sigma;
        double error = EPS__LOG_TAIL_ERROR(x) + 4 * EPS__UNIT_ROUNDOFF * fabs(threshold) * (fabs(x) + 2);
        double tail = eps__exp_bound(EPS__LOWER, eps__log_normal_tail(x), error);
        seen = eps__add_down(seen, test->chances ? eps__lower(tail * test->chances[i], 3) : tail);
    }
    if (!test->chances)
        seen = eps__lower(seen / (double)test->len, 3);
    double missed = eps__log_normal_tail(threshold) + eps + log(test->statistics);
    double error = EPS__LOG_TAIL_ERROR(threshold) + 8 * EPS__UNIT_ROUNDOFF * (1 + fabs(eps) + fabs(missed));
    return eps__add_down(seen, -eps__exp_bound(EPS__UPPER, missed, error));
}

/* The log likelihood ratio of the statistic at `value`, with the example over without it. */
static double log_likelier(const struct test *test, double value)
{
    double sum = -INFINITY;
    for (size_t i = 0; i < test->len; i++) {
        double shift = test->shifts[i] / test->asked.sigma;
        sum = eps__log_add(sum, log(test->chances[i]) + shift * (value - shift / 2));
    }
    return sum;
}

/* The value at which this ratio is eps, approximately, which is the best threshold. INFINITY if there is none. */
static double likelier_from(const struct test *test)
{
    double low = 0, high = 1;
    while (high < 1e6 && log_likelier(test, high) < test->asked.eps)
        high *= 2;
    if (high >= 1e6)
        return INFINITY;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = 0.5 * (low + high);
        *(log_likelier(test, middle) < test->asked.eps ? &low : &high) = middle;
    }
    return high;
}

static double best_threshold(const struct test *test)
{
    double mean = 0;
    if (test->chances)
        return likelier_from(test);
    for (size_t i = 0; i < test->len; i++)
        mean += test->shifts[i] / test->asked.sigma / (double)test->len;
    return mean > 0 ? mean / 2 + (test->asked.eps + log(test->statistics)) / mean : INFINITY;
}

/* The largest lower bound on delta over the thresholds that are tried. */
static double delta_shown(const struct test *test)
{
    double best = best_threshold(test), delta = 0;
    if (isinf(best))
        return 0;
    for (size_t i = 0; i < sizeof around / sizeof *around; i++)
        delta = fmax(delta, delta_at(test, best * around[i]));
    return delta;
}

/* Whether the test proves that delta exceeds the given one at this epsilon or noise multiplier. */
static bool shows(const struct test *test, double value)
{
    struct test own = *test;
    double log_delta = test->asked.log_delta;
    *(test->asked.unknown == EPS_SOLVE_EPSILON ? &own.asked.eps : &own.asked.sigma) = value;
    return delta_shown(&own) > eps__exp_bound(EPS__UPPER, log_delta, 4 * EPS__UNIT_ROUNDOFF * fabs(log_delta));
}

/* For an unknown epsilon or noise multiplier: approximately the largest value for which shows() holds, and 0 if there
 * is none. For an unknown delta: its lower bound. */
static double largest(const struct test *test)
{
    bool noise = test->asked.unknown == EPS_SOLVE_NOISE_MULTIPLIER;
    double low = 1, high = 1, least = noise ? SIGMA_LEAST : EPSILON_LEAST,
           most = noise ? SIGMA_MOST : EPS__EPSILON_MOST;
    if (test->asked.unknown == EPS_SOLVE_DELTA)
        return delta_shown(test);
    if (shows(test, low)) {
        do
            high *= 2;
        while (high < most && shows(test, high));
        low = high / 2;
    } else {
        do
            low /= 2;
        while (low > least && !shows(test, low));
        if (low <= least)
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

static bool known(const struct eps__setting *setting, size_t bins, double operations)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    double width = fmin((double)bins, (double)eps_strategy_bands(setting->strategy));
    return bins > 0 && bins <= EPS__MERGED_BINS_MOST && !mechanism->sampling.redraw &&
           (EPS__AGAINST_NOISE >> mechanism->adjacency & 1) && eps__strategy_nonnegative(setting->strategy) &&
           (double)eps_strategy_rows(setting->strategy) * width * width <= fmin(operations, GRAM_MOST);
}

/* Writes each bin's shift in its own statistic into `own` and its shift in the joint statistic into `all`, rounded
 * down. */
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

static enum eps_status of_bins(double *least, const struct eps__setting *setting, const struct least_question *question)
{
    size_t bins = eps__sampling_bins(&setting->job->mechanism);
    double error;
    if (!known(setting, bins, question->operations))
        return EPS_OK;
    double *gram = malloc((bins * bins + 2 * bins) * sizeof *gram), *own = gram + bins * bins, *all = own + bins;
    if (!gram)
        return EPS_NO_MEMORY;
    enum eps_status status = eps__merged_gram(setting->context, gram, &error, setting->strategy, bins);
    if (status == EPS_OK) {
        fill(own, all, gram, bins, error);
        const struct test each = {own, NULL, bins, (double)bins, *question};
        const struct test joint = {all, NULL, bins, 1, *question};
        *least = fmax(largest(&each), largest(&joint));
    }
    free(gram);
    return status;
}

/* ---- Poisson sampling ---- */

static bool plain_poisson(const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *sampling = &mechanism->sampling;
    return eps__scheme_of(mechanism)->independent_rounds && eps__sampling_groups(mechanism) == 1 &&
           sampling->examples_per_user <= 1 && !sampling->truncation && !sampling->last_iterate &&
           (EPS__AGAINST_NOISE >> mechanism->adjacency & 1);
}

static int downwards(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The shift of the statistic <C1, y>/|C1| by each step, rounded down, in descending order. `row` has room for n
 * numbers. */
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

/* The bound from `len` steps that each shift the statistic by at least `step`. `numbers` has room for 2 COUNTS. */
static double least_of_steps(const struct least_question *question, double p, size_t len, double step, double *numbers)
{
    double mean = (double)len * p, reach = 8 * sqrt(mean) + 16;
    double *chances = numbers + COUNTS;
    double error = 2 * eps__binomial_error(len, p, 0); /* as p >= 1e-20, no chance is below e^-870 (N2) */
    size_t first = mean > reach ? (size_t)(mean - reach) : 0, last = (size_t)fmin(mean + reach, (double)len);
    if (last - first >= COUNTS || !(step > 0))
        return 0;
    for (size_t k = first; k <= last; k++) {
        numbers[k - first] = eps__lower((double)k * step, 3);
        chances[k - first] = eps__exp_bound(EPS__LOWER, eps__binomial_log_pmf(len, p, k), error);
    }
    const struct test often = {numbers, chances, last - first + 1, 1, *question};
    return largest(&often);
}

static enum eps_status of_poisson(double *least, const struct eps__setting *setting,
                                  const struct least_question *question)
{
    static const double shares[] = {1, 0.95, 0.85, 0.7, 0.5};
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    size_t n = eps_strategy_columns(setting->strategy);
    double p = eps__sampling_probability(mechanism), *steps;
    if (!(p > 0 && p < 1) || setting->raised || !eps__strategy_nonnegative(setting->strategy) ||
        (double)eps_strategy_rows(setting->strategy) * (double)n > fmin(question->operations, STEPS_MOST))
        return EPS_OK;
    steps = malloc((2 * n + 2 * COUNTS) * sizeof *steps);
    if (!steps)
        return EPS_NO_MEMORY;
    enum eps_status status = fill_steps(steps, steps + n, setting);
    for (size_t i = 0; i < sizeof shares / sizeof *shares && status == EPS_OK; i++) {
        size_t len = (size_t)ceil(shares[i] * (double)n);
        *least = fmax(*least, least_of_steps(question, p, len, steps[len - 1], steps + 2 * n));
    }
    free(steps);
    return status;
}

bool eps__least_noise_concerns(const struct eps_mechanism *mechanism)
{
    return eps__sampling_bins(mechanism) > 0 || plain_poisson(mechanism);
}

static enum eps_status find(double *least, const struct eps__setting *setting, const struct least_question *question)
{
    *least = 0;
    if (eps__sampling_bins(&setting->job->mechanism) > 0)
        return of_bins(least, setting, question);
    return plain_poisson(&setting->job->mechanism) ? of_poisson(least, setting, question) : EPS_OK;
}

enum eps_status eps__least_noise(double *sigma, const struct eps__setting *setting)
{
    const struct eps_query *query = &setting->job->query;
    const struct least_question question = {EPS_SOLVE_NOISE_MULTIPLIER, query->epsilon, log(query->delta), NAN,
                                            INFINITY};
    return find(sigma, setting, &question);
}

enum eps_status eps__least(double *least, const struct eps__setting *setting)
{
    const struct eps_query *query = &setting->job->query;
    struct least_question question = {eps_job_unknown(setting->job), query->epsilon, NAN, query->noise_multiplier,
                                      QUICKLY};
    question.log_delta = log(query->delta);
    return find(least, setting, &question);
}
