/*
 * More terms allow a lower cut and hence lighter tails. Numbers of jumps are tried in ascending order. For up to K
 * jumps, the cut is where more than K jumps are so improbable that they may count as infinite loss: (n J)^(K+1)/(K+1)!
 * is a small share of delta. As delta in turn follows from the terms, both are found in a few rounds.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/compose/expansion.h"

#include <math.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/numerics/normal.h"

/* A surplus this small is light enough: rounding, which is relative to a term's tilted mass, stays far below delta. */
#define LIGHT_SURPLUS 10.0

/* The relative distance of the two epsilons that give the slope. */
#define APART 0.02

/* A computed term that is smaller than its saddle point's value by more than this was lost on a coarse grid and is
 * ignored. */
#define MISLED 8.0

/* Shares of tolerance * delta: for more jumps than the terms have, and for each term that is not composed. */
#define MORE_JUMPS 1e-3
#define NEGLIGIBLE 1e-4

/* The tilted moments of one side of the cut of one class of steps. */
struct moments {
    double log_moment, mean, variance;
};

static struct moments side_moments(const struct eps__step *step, double tilt, double cut, bool above)
{
    double largest = -INFINITY, total = 0, mean = 0, square = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t b = 0; b < step->len; b++) {
            const struct eps__quadrature *quadrature = &step->quadratures[b];
            for (size_t i = 0; i < quadrature->len; i++) {
                double loss = quadrature->loss[i];
                if ((loss > cut) != above)
                    continue;
                double exponent = quadrature->log_mass[i] + tilt * loss;
                if (pass == 0) {
                    largest = fmax(largest, exponent);
                } else if (exponent - largest > -80) {
                    double weight = exp(exponent - largest);
                    total += weight;
                    mean += weight * loss;
                    square += weight * loss * loss;
                }
            }
        }
    }
    if (!(total > 0))
        return (struct moments){-INFINITY, above ? cut : 0, 0};
    mean /= total;
    return (struct moments){largest + log(total), mean, fmax(square / total - mean * mean, 0)};
}

/* The variance that splitting cells of a spacing adds to the sum of the cores; as eps__added_variance(). */
static double core_variance(const struct eps__steps *steps, double tilt, double cut, double spacing)
{
    double added = 0;
    for (size_t k = 0; k < steps->len; k++) {
        const struct eps__step *step = &steps->items[k];
        double log_total = side_moments(step, tilt, cut, false).log_moment, sum = 0;
        for (size_t b = 0; b < step->len; b++) {
            const struct eps__quadrature *quadrature = &step->quadratures[b];
            for (size_t i = 0; i < quadrature->len; i++) {
                double loss = quadrature->loss[i], exponent = quadrature->log_mass[i] + tilt * loss - log_total;
                if (loss <= cut && exponent > -60)
                    sum += exp(exponent) * fmin(1.7 / 6 * spacing * spacing, fabs(loss) * spacing);
            }
        }
        added += (double)step->count * sum;
    }
    return added;
}

static void term_moments(const struct eps__steps *steps, double tilt, double cut, struct eps__expansion_term *term)
{
    struct eps__saddle *saddle = &term->saddle;
    saddle->tilt = tilt;
    saddle->log_moment = term->log_count;
    saddle->mean = saddle->third = saddle->variance = 0;
    for (size_t k = 0; k < steps->len; k++) {
        double jumps = (double)term->jumps[k], rest = (double)steps->items[k].count - jumps;
        if (rest > 0) {
            struct moments core = side_moments(&steps->items[k], tilt, cut, false);
            saddle->log_moment += rest * core.log_moment;
            saddle->mean += rest * core.mean;
            saddle->variance += rest * core.variance;
        }
        if (jumps > 0) {
            struct moments jump = side_moments(&steps->items[k], tilt, cut, true);
            saddle->log_moment += jumps * jump.log_moment;
            saddle->mean += jumps * jump.mean;
            saddle->variance += jumps * jump.variance;
        }
    }
    saddle->variance = fmax(saddle->variance, 1e-300);
}

/* Finds the tilt at which the term's mean is eps, or 0 if the untilted mean is not below. */
static void aim_term(const struct eps__steps *steps, double eps, double cut, struct eps__expansion_term *term)
{
    const struct eps__saddle *saddle = &term->saddle;
    double low = 0, high = INFINITY, tilt = 0;
    term_moments(steps, 0, cut, term);
    for (int i = 0; i < 40; i++) {
        double residual = eps - saddle->mean;
        if (fabs(residual) < 0.05 * sqrt(saddle->variance) || (tilt == 0 && residual <= 0))
            return;
        if (residual > 0)
            low = tilt;
        else
            high = tilt;
        double next = tilt + residual / saddle->variance;
        if (!(next > low && next < high) || (isinf(high) && next > 4 * tilt + 4))
            next = isinf(high) ? 4 * tilt + 1 : 0.5 * (low + high);
        if (high - low < 1e-3 * high || next > 1e6)
            return;
        tilt = next;
        term_moments(steps, tilt, cut, term);
    }
}

/* ln of the expected number of jumps. Out: log_jump, the same for each class. */
static double log_jumps(const struct eps__steps *steps, double cut, double *log_jump)
{
    double largest = -INFINITY, total = 0;
    for (size_t k = 0; k < steps->len; k++) {
        log_jump[k] = side_moments(&steps->items[k], 0, cut, true).log_moment + log((double)steps->items[k].count);
        largest = fmax(largest, log_jump[k]);
    }
    if (isinf(largest))
        return -INFINITY;
    for (size_t k = 0; k < steps->len; k++)
        total += exp(log_jump[k] - largest);
    return largest + log(total);
}

/* The least cut at which the expected number of jumps is at most e^log_total. */
static double find_cut(const struct eps__steps *steps, double log_total)
{
    double low = 0, high = 1e-6, log_jump[EPS__STEP_CLASSES_MAX];
    while (high < 1e6 && log_jumps(steps, high, log_jump) > log_total)
        high *= 2;
    for (int i = 0; i < 30; i++) {
        double middle = 0.5 * (low + high);
        *(log_jumps(steps, middle, log_jump) > log_total ? &low : &high) = middle;
    }
    return high;
}

static double log_binomial(double n, double k)
{
    double log_count = 0;
    for (double i = 0; i < k; i++)
        log_count += log((n - i) / (i + 1));
    return log_count;
}

static double log_factorial(double n)
{
    double log_value = 0;
    for (double i = 2; i <= n; i++)
        log_value += log(i);
    return log_value;
}

/* Lists all terms with at most expansion->most jumps. Returns false if there are too many. */
static bool list_terms(const struct eps__steps *steps, struct eps__expansion *expansion)
{
    size_t jumps[EPS__STEP_CLASSES_MAX] = {0};
    expansion->terms_len = 0;
    for (;;) {
        size_t total = 0, k = 0;
        for (size_t j = 0; j < steps->len; j++)
            total += jumps[j];
        if (total <= expansion->most) {
            if (expansion->terms_len == EPS__TERMS_MAX)
                return false;
            struct eps__expansion_term *term = &expansion->terms[expansion->terms_len++];
            *term = (struct eps__expansion_term){0};
            for (size_t j = 0; j < steps->len; j++) {
                term->jumps[j] = jumps[j];
                term->log_count += log_binomial((double)steps->items[j].count, (double)jumps[j]);
            }
        }
        /* the next one in odometer order; no class exceeds its count, and no total the largest one */
        while (k < steps->len && (total >= expansion->most || jumps[k] >= steps->items[k].count)) {
            total -= jumps[k];
            jumps[k++] = 0;
        }
        if (k == steps->len)
            return true;
        jumps[k]++;
    }
}

/* Finds the least tilt, to within a third, whose Chernoff bound makes a term negligible from eps - reach on, or from as
 * far below eps as possible. A larger tilt would need a finer grid. Out: saddle.mean, the epsilon from which on the
 * term is negligible. */
static void relax_term(const struct eps__steps *steps, double eps, double reach, double log_bound, double cut,
                       struct eps__expansion_term *term)
{
    double steepest = term->saddle.tilt;
    for (int i = 0; i < 4; i++, reach = i < 3 ? 0.25 * reach : 0) {
        double from = fmax(eps - reach, 0);
        term_moments(steps, 0, cut, term);
        for (double tilt = fmin(1, steepest);
             tilt > 0 && term->saddle.log_moment - term->saddle.tilt * from > log_bound; tilt *= 1.4) {
            if (tilt > steepest && term->saddle.tilt >= steepest)
                break;
            term_moments(steps, fmin(tilt, steepest), cut, term);
        }
        bool enough = term->saddle.log_moment - term->saddle.tilt * from <= log_bound;
        term->saddle.mean = from;
        if (enough)
            return;
    }
}

/* Evaluates the terms at one cut: their saddle points and their sum. Polls at each term, which takes long if a step
 * reaches far. */
static enum eps_status evaluate(const struct eps_context *context, const struct eps__steps *steps, double eps,
                                double known, double tolerance, struct eps__expansion *expansion)
{
    enum eps_status status = EPS_OK;
    double largest = -INFINITY, total = 0, slope = 0, log_delta[EPS__TERMS_MAX], heaviest = -INFINITY;
    for (size_t i = 0; i < expansion->terms_len && status == EPS_OK; i++) {
        struct eps__expansion_term *term = &expansion->terms[i];
        status = eps__poll(context);
        aim_term(steps, eps, expansion->cut, term);
        log_delta[i] = eps__saddle_log_delta(&term->saddle, eps);
        largest = fmax(largest, log_delta[i]);
    }
    if (status != EPS_OK)
        return status;
    for (size_t i = 0; i < expansion->terms_len; i++) {
        double share = exp(log_delta[i] - largest);
        total += share;
        slope += share * expansion->terms[i].saddle.tilt;
    }
    expansion->log_delta = isnan(known) ? fmin(largest + log(total), 0) : known;
    /* At eps a heavy tail falls faster than its tilt indicates, because the tilt aims at a mean. */
    double fall = eps__jump_log_delta(steps, eps) - eps__jump_log_delta(steps, eps * (1 + APART));
    expansion->slope = fmax(slope / total, fall > 0 ? fall / (APART * eps) : 0);
    double log_bound = expansion->log_delta + log(NEGLIGIBLE * tolerance);
    expansion->steepest = expansion->jump_tilt = 0;
    double reach = eps;
    for (size_t i = 0; i < expansion->terms_len; i++) {
        struct eps__expansion_term *term = &expansion->terms[i];
        double log_mass = term->saddle.log_moment - term->saddle.tilt * eps;
        term->negligible = log_mass < log_bound;
        if (term->negligible)
            continue;
        reach = fmin(reach, 2 * sqrt(term->saddle.variance));
        heaviest = fmax(heaviest, log_mass);
        if (i > 0)
            expansion->jump_tilt = fmax(expansion->jump_tilt, term->saddle.tilt);
    }
    for (size_t i = 0; i < expansion->terms_len && status == EPS_OK; i++) {
        struct eps__expansion_term *term = &expansion->terms[i];
        status = eps__poll(context);
        if (term->negligible)
            relax_term(steps, eps, reach, log_bound, expansion->cut, term);
        expansion->steepest = fmax(expansion->steepest, term->saddle.tilt);
        term->saddle.eps = eps;
        term->saddle.log_delta = log_delta[i];
        term->saddle.z_excess = EPS__TAIL_REACH;
    }
    expansion->surplus = heaviest - expansion->log_delta;
    return status;
}

void eps__expansion_learn(struct eps__expansion *expansion, const double *log_deltas, double log_delta, double slope)
{
    for (size_t i = 0; i < expansion->terms_len; i++) {
        struct eps__expansion_term *term = &expansion->terms[i];
        if (!(log_deltas[i] > term->saddle.log_delta - MISLED))
            continue;
        term->missed = log_deltas[i] - term->saddle.log_delta;
        term->saddle.log_delta = log_deltas[i];
    }
    expansion->log_delta = log_delta;
    expansion->slope = slope;
}

void eps__expansion_remember(struct eps__expansion *expansion, const struct eps__expansion *before)
{
    for (size_t i = 0; i < expansion->terms_len; i++)
        for (size_t j = 0; j < before->terms_len; j++)
            if (memcmp(expansion->terms[i].jumps, before->terms[j].jumps, sizeof before->terms[j].jumps) == 0)
                expansion->terms[i].saddle.log_delta += expansion->terms[i].missed = before->terms[j].missed;
    expansion->slope = before->slope;
}

double eps__expansion_effect(const struct eps__steps *steps, const struct eps__expansion *expansion, double spacing)
{
    double effect = 0;
    for (size_t i = 0; i < expansion->terms_len; i++) {
        const struct eps__saddle *saddle = &expansion->terms[i].saddle;
        double share = exp(fmin(saddle->log_delta - expansion->log_delta, 0));
        if (expansion->terms[i].negligible)
            continue;
        /* the curvature of e^{-t eps} (1 - e^-...), or of a normal density if there is no tilt */
        double rate = saddle->tilt > 0 ? saddle->tilt : fmin(1 / sqrt(saddle->variance), 1 / spacing);
        double added = core_variance(steps, saddle->tilt, expansion->cut, spacing);
        for (size_t k = 0; k < steps->len; k++)
            added += (double)expansion->terms[i].jumps[k] * 1.7 / 6 * spacing * spacing;
        effect += share * 0.5 * rate * (rate + 1) * added;
    }
    return effect;
}

enum eps_status eps__expand(const struct eps_context *context, const struct eps__steps *steps, double eps, double known,
                            double tolerance, struct eps__expansion *expansion)
{
    static const size_t jumps[] = {1, 2, 3, 5, 8, 12};
    bool found = false;
    if (steps->len > EPS__STEP_CLASSES_MAX)
        return EPS_UNSUPPORTED;
    struct eps__expansion tried;
    double log_jump[EPS__STEP_CLASSES_MAX];
    double log_delta = isnan(known) ? fmax(eps__jump_log_delta(steps, eps), EPS__LOG_DELTA_FLOOR) : known;
    for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++) {
        tried.most = jumps[i];
        if (!list_terms(steps, &tried))
            break;
        for (int round = 0; round < 4; round++) {
            double more = (double)tried.most + 1, before = log_delta;
            tried.cut = find_cut(steps, (log_factorial(more) + log(MORE_JUMPS * tolerance) + log_delta) / more);
            tried.log_jumps = log_jumps(steps, tried.cut, log_jump);
            enum eps_status status = evaluate(context, steps, eps, known, tolerance, &tried);
            if (status != EPS_OK)
                return status;
            log_delta = fmax(tried.log_delta, EPS__LOG_DELTA_FLOOR);
            if (fabs(log_delta - before) < 1)
                break;
        }
        if (!found || tried.surplus < expansion->surplus)
            *expansion = tried;
        found = true;
        if (expansion->surplus < LIGHT_SURPLUS)
            break;
    }
    return found ? EPS_OK : EPS_UNSUPPORTED;
}
