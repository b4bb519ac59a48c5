/*
 * The outcomes are public, so delta is their mean. Let K be the number of steps, of n, with the rare outcome (P1):
 *   delta(eps) = sum_k Pr[K = k] delta_k(eps),   delta_k: n - k steps with one outcome and k with the other
 * and the terms after the first ones add at most Pr[K > k]. If even a single rare step is improbable compared with
 * delta, the first term alone is enough, which is an ordinary composition. (A mixture of both outcomes in each step
 * would have no good tilt: one of probability 1e-100 with large losses needs another than the rest.)
 *
 * If rare steps are not rare, or belong to different classes and two of them matter, each step is that mixture, and its
 * PLD the mixture of the two.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/compose/outcomes.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/normal.h"

/* The terms: 0, 1, ... rare steps if there is one class; otherwise none, and one of each class. */
enum { TERMS_MAX = 10, STEP_CLASSES_MAX = 8 };

#define RARE 0.02       /* if more rare steps than this are expected, mixtures are used */
#define LEFT_SHARE 1e-3 /* share of the tolerance times delta for the terms left out */

struct step_class {
    struct eps__outcome_branches often, rarely; /* owned */
    uint64_t count;
};

struct eps__outcomes {
    const struct eps_context *context;
    struct eps__cache_use *cache_use;
    struct eps__accuracy accuracy;
    struct step_class *classes;
    size_t classes_len;
    double expected; /* expected number of rare steps, rounded up */
    double finer;    /* refinement so far */
    struct eps__composition *terms[TERMS_MAX];
    struct eps__composition *mixture;
};

/* ------------------------------------------------------------ the steps */

static bool copy_mixture(struct eps__mixture *copy, const struct eps__mixture *mixture)
{
    if (!eps__mixture_alloc(copy, mixture->len))
        return false;
    copy->whole = mixture->whole;
    copy->missing = mixture->missing;
    memcpy(copy->weight, mixture->weight, mixture->len * sizeof(double));
    memcpy(copy->shift, mixture->shift, mixture->len * sizeof(double));
    return true;
}

/* Copies a side's branches, with their weights times a probability. */
static bool copy_branches(struct eps__branch *copies, const struct eps__outcome_branches *side, double upper,
                          double lower)
{
    for (size_t b = 0; b < side->len; b++) {
        const struct eps__branch *from = &side->branches[b];
        copies[b].weight[EPS__UPPER] = from->weight[EPS__UPPER] * upper;
        copies[b].weight[EPS__LOWER] = from->weight[EPS__LOWER] * lower;
        for (int estimate = 0; estimate < 2; estimate++) {
            copies[b].pair[estimate] = from->pair[estimate];
            copies[b].pair[estimate].numerator = copies[b].pair[estimate].denominator = (struct eps__mixture){0};
        }
        for (int estimate = 0; estimate < 2; estimate++)
            if (!copy_mixture(&copies[b].pair[estimate].numerator, &from->pair[estimate].numerator) ||
                !copy_mixture(&copies[b].pair[estimate].denominator, &from->pair[estimate].denominator))
                return false;
    }
    return true;
}

static void free_branches(struct eps__branch *branches, size_t len)
{
    for (size_t b = 0; branches && b < len; b++)
        eps__branch_clear(&branches[b]);
    free(branches);
}

static bool copy_side(struct eps__outcome_branches *copy, const struct eps__outcome_branches *side)
{
    *copy = (struct eps__outcome_branches){.probability = side->probability, .len = side->len};
    if (side->len == 0)
        return true;
    copy->branches = calloc(side->len, sizeof *copy->branches);
    return copy->branches && copy_branches(copy->branches, side, 1, 1);
}

/* Adds `count` steps of one side, or of the mixture of both. */
static enum eps_status add_steps(struct eps__composition *composition, const struct eps__outcome_branches *one,
                                 const struct eps__outcome_branches *other, uint64_t count)
{
    size_t len = one->len + (other ? other->len : 0);
    if (count == 0)
        return EPS_OK;
    struct eps__branch *branches = calloc(len, sizeof *branches);
    if (!branches)
        return EPS_NO_MEMORY;
    bool made = other
                    ? copy_branches(branches, one, one->probability.upper, one->probability.lower) &&
                          copy_branches(branches + one->len, other, other->probability.upper, other->probability.lower)
                    : copy_branches(branches, one, 1, 1);
    if (made)
        return eps__composition_add(composition, branches, len, count);
    free_branches(branches, len);
    return EPS_NO_MEMORY;
}

enum eps_status eps__outcomes_create(struct eps__outcomes **outcomes, const struct eps_context *context,
                                     struct eps__cache_use *cache_use, const struct eps__accuracy *accuracy)
{
    struct eps__outcomes *made = calloc(1, sizeof *made);
    if (!made)
        return EPS_NO_MEMORY;
    *made = (struct eps__outcomes){.context = context, .cache_use = cache_use, .accuracy = *accuracy, .finer = 1};
    *outcomes = made;
    return EPS_OK;
}

enum eps_status eps__outcomes_add(struct eps__outcomes *outcomes, const struct eps__outcome_branches *often,
                                  const struct eps__outcome_branches *rarely, uint64_t count)
{
    struct step_class *classes = realloc(outcomes->classes, (outcomes->classes_len + 1) * sizeof *classes);
    if (!classes)
        return EPS_NO_MEMORY;
    outcomes->classes = classes;
    struct step_class *class = &classes[outcomes->classes_len++];
    *class = (struct step_class){.count = count};
    if (!copy_side(&class->often, often) || !copy_side(&class->rarely, rarely))
        return EPS_NO_MEMORY;
    if (rarely->len)
        outcomes->expected += eps__raise((double)count * rarely->probability.upper, 4) + DBL_MIN;
    return EPS_OK;
}

void eps__outcomes_destroy(struct eps__outcomes *outcomes)
{
    if (!outcomes)
        return;
    for (size_t j = 0; j < outcomes->classes_len; j++) {
        free_branches(outcomes->classes[j].often.branches, outcomes->classes[j].often.len);
        free_branches(outcomes->classes[j].rarely.branches, outcomes->classes[j].rarely.len);
    }
    for (size_t i = 0; i < TERMS_MAX; i++)
        eps__composition_destroy(outcomes->terms[i]);
    eps__composition_destroy(outcomes->mixture);
    free(outcomes->classes);
    free(outcomes);
}

/* ------------------------------------------------------------ the terms */

static size_t terms_len(const struct eps__outcomes *outcomes)
{
    if (outcomes->expected == 0)
        return 1;
    if (outcomes->expected > RARE)
        return 0;
    if (outcomes->classes_len > 1)
        return outcomes->classes_len < STEP_CLASSES_MAX ? 1 + outcomes->classes_len : 1;
    return outcomes->classes[0].count < TERMS_MAX ? (size_t)outcomes->classes[0].count + 1 : TERMS_MAX;
}

/* The number of rare steps of class j in a term. */
static uint64_t rare_steps(const struct eps__outcomes *outcomes, size_t term, size_t j)
{
    return outcomes->classes_len == 1 ? term : term == j + 1;
}

/* ln of the probability of a term, rounded up or down (P1). */
static double log_count(const struct eps__outcomes *outcomes, size_t term, enum eps__estimate estimate)
{
    double total = 0, size = 0;
    for (size_t j = 0; j < outcomes->classes_len; j++) {
        const struct step_class *class = &outcomes->classes[j];
        double n = (double)class->count, rare = (double)rare_steps(outcomes, term, j);
        bool upper = estimate == EPS__UPPER;
        for (double i = 0; i < rare; i++) {
            double p = upper ? class->rarely.probability.upper : class->rarely.probability.lower;
            double part = log((n - i) / (i + 1)) + log(p);
            total += part;
            size += fabs(part) + 4;
        }
        if (class->rarely.len && n > rare) {
            double part = (n - rare) * log(upper ? class->often.probability.upper : class->often.probability.lower);
            total += part;
            size += fabs(part);
        }
    }
    return eps__shift(estimate, total, 4 * EPS__UNIT_ROUNDOFF * size);
}

/* A bound on the probability of what the first `len` terms leave out: len rare steps (one class); or a rare step of
 * another class, or two rare steps. */
static double left_out(const struct eps__outcomes *outcomes, size_t len)
{
    double expected = outcomes->expected, left = 0;
    if (outcomes->classes_len == 1) {
        left = 1;
        for (size_t k = 1; k <= len; k++)
            left *= expected / (double)k;
        return outcomes->classes[0].count < len ? 0 : eps__raise(left, 1e4);
    }
    for (size_t j = len - 1; j < outcomes->classes_len; j++)
        left += (double)outcomes->classes[j].count *
                (outcomes->classes[j].rarely.len ? outcomes->classes[j].rarely.probability.upper : 0);
    return eps__raise(fmin(left + 0.5 * expected * expected, expected), 1e4);
}

static enum eps_status open_composition(const struct eps__outcomes *outcomes, struct eps__composition **composition)
{
    return eps__composition_create(composition, outcomes->context, outcomes->cache_use, &outcomes->accuracy);
}

static enum eps_status obtain_term(struct eps__outcomes *outcomes, size_t term)
{
    enum eps_status status = EPS_OK;
    if (outcomes->terms[term])
        return EPS_OK;
    status = open_composition(outcomes, &outcomes->terms[term]);
    for (size_t j = 0; j < outcomes->classes_len && status == EPS_OK; j++) {
        const struct step_class *class = &outcomes->classes[j];
        uint64_t rare = rare_steps(outcomes, term, j);
        status = add_steps(outcomes->terms[term], &class->often, NULL, class->count - rare);
        if (status == EPS_OK)
            status = add_steps(outcomes->terms[term], &class->rarely, NULL, rare);
    }
    if (status == EPS_OK && outcomes->finer > 1)
        eps__composition_refine(outcomes->terms[term], outcomes->finer);
    if (status != EPS_OK) {
        eps__composition_destroy(outcomes->terms[term]);
        outcomes->terms[term] = NULL;
    }
    return status;
}

static enum eps_status obtain_mixture(struct eps__outcomes *outcomes)
{
    if (outcomes->mixture)
        return EPS_OK;
    enum eps_status status = open_composition(outcomes, &outcomes->mixture);
    for (size_t j = 0; j < outcomes->classes_len && status == EPS_OK; j++)
        status = add_steps(outcomes->mixture, &outcomes->classes[j].often, &outcomes->classes[j].rarely,
                           outcomes->classes[j].count);
    if (status == EPS_OK && outcomes->finer > 1)
        eps__composition_refine(outcomes->mixture, outcomes->finer);
    if (status != EPS_OK) {
        eps__composition_destroy(outcomes->mixture);
        outcomes->mixture = NULL;
    }
    return status;
}

/* ------------------------------------------------------------ the answers */

/* The sum of the terms. Out: *rest, a bound on the probability of what they leave out. */
static enum eps_status sum_terms(struct eps__outcomes *outcomes, enum eps__estimate estimate, double eps, double *sum,
                                 double *rest)
{
    size_t len = terms_len(outcomes);
    *sum = 0;
    *rest = 1;
    for (size_t k = 0; k < len; k++) {
        double log_delta;
        enum eps_status status = obtain_term(outcomes, k);
        if (status == EPS_OK)
            status = eps__composition_log_delta(outcomes->terms[k], estimate, eps, &log_delta);
        if (status != EPS_OK)
            return status;
        double log_term = log_delta + log_count(outcomes, k, estimate);
        if (log_term > -INFINITY)
            *sum += eps__exp_bound(estimate, log_term, 4 * EPS__UNIT_ROUNDOFF * (1 + fabs(log_term)));
        *rest = left_out(outcomes, k + 1);
        if (*rest <= LEFT_SHARE * outcomes->accuracy.tolerance * *sum / outcomes->finer)
            break;
    }
    return EPS_OK;
}

static double enclosed_log(double value, enum eps__estimate estimate)
{
    return fmin(eps__certain(estimate, eps__log_bound(estimate, value, 8)), 0);
}

enum eps_status eps__outcomes_log_delta(struct eps__outcomes *outcomes, enum eps__estimate estimate, double eps,
                                        double *log_delta)
{
    double sum = 0, rest = 1;
    enum eps_status status = EPS_OK;
    if (outcomes->expected == 0) { /* a single term, without a sum */
        status = obtain_term(outcomes, 0);
        return status == EPS_OK ? eps__composition_log_delta(outcomes->terms[0], estimate, eps, log_delta) : status;
    }
    if (terms_len(outcomes) > 0)
        status = sum_terms(outcomes, estimate, eps, &sum, &rest);
    bool summed = terms_len(outcomes) > 0 && status == EPS_OK;
    double by_terms = enclosed_log(estimate == EPS__UPPER ? sum + rest : sum, estimate), by_mixture;
    if (summed && rest <= LEFT_SHARE * outcomes->accuracy.tolerance * sum) {
        *log_delta = by_terms;
        return EPS_OK;
    }
    if (status != EPS_OK && status != EPS_TOO_COSTLY)
        return status;
    status = obtain_mixture(outcomes);
    if (status == EPS_OK)
        status = eps__composition_log_delta(outcomes->mixture, estimate, eps, &by_mixture);
    if (status == EPS_OK)
        *log_delta = !summed                  ? by_mixture
                     : estimate == EPS__UPPER ? fmin(by_terms, by_mixture)
                                              : fmax(by_terms, by_mixture);
    else if (status == EPS_TOO_COSTLY && summed) {
        *log_delta = by_terms;
        status = EPS_OK;
    }
    return status;
}

enum eps_status eps__outcomes_log_bound(struct eps__outcomes *outcomes, double eps, double *log_delta)
{
    enum eps_status status = obtain_mixture(outcomes);
    return status == EPS_OK ? eps__composition_log_bound(outcomes->mixture, eps, log_delta) : status;
}

enum eps_status eps__outcomes_approximate(struct eps__outcomes *outcomes, double eps, double *log_delta)
{
    size_t len = terms_len(outcomes);
    double sum = 0;
    if (len == 0) {
        enum eps_status status = obtain_mixture(outcomes);
        if (status == EPS_OK)
            *log_delta = eps__composition_approximate(outcomes->mixture, eps);
        return status;
    }
    for (size_t k = 0; k < len; k++) {
        enum eps_status status = obtain_term(outcomes, k);
        if (status != EPS_OK)
            return status;
        sum += exp(eps__composition_approximate(outcomes->terms[k], eps) + log_count(outcomes, k, EPS__UPPER));
        if (left_out(outcomes, k + 1) <= 0.1 * sum)
            break;
    }
    *log_delta = sum > 0 ? log(sum) : -INFINITY;
    return EPS_OK;
}

/* The epsilon at which the approximation crosses log_delta, searched from `low` on, where the first term crosses it. */
static enum eps_status guess_from(struct eps__outcomes *outcomes, double low, double log_delta, double *eps)
{
    double high = low, value;
    enum eps_status status = eps__outcomes_approximate(outcomes, low, &value);
    *eps = low;
    if (status != EPS_OK || !(value > log_delta + 0.1))
        return status;
    for (int i = 0; i < 60 && status == EPS_OK && value > log_delta; i++) {
        low = high;
        high = 1.5 * high + 0.1;
        status = eps__outcomes_approximate(outcomes, high, &value);
    }
    for (int i = 0; i < 12 && status == EPS_OK; i++) {
        double middle = 0.5 * (low + high);
        status = eps__outcomes_approximate(outcomes, middle, &value);
        *(value > log_delta ? &low : &high) = middle;
    }
    *eps = high;
    return status;
}

enum eps_status eps__outcomes_guess(struct eps__outcomes *outcomes, double log_delta, double *eps)
{
    bool terms = terms_len(outcomes) > 0;
    enum eps_status status = terms ? obtain_term(outcomes, 0) : obtain_mixture(outcomes);
    if (status != EPS_OK)
        return status;
    *eps = eps__composition_guess(terms ? outcomes->terms[0] : outcomes->mixture, log_delta);
    return terms && outcomes->expected > 0.1 * exp(log_delta) ? guess_from(outcomes, *eps, log_delta, eps) : EPS_OK;
}

bool eps__outcomes_refine(struct eps__outcomes *outcomes, double factor)
{
    bool refined = true;
    outcomes->finer *= factor;
    for (size_t i = 0; i < TERMS_MAX && refined; i++)
        refined = !outcomes->terms[i] || eps__composition_refine(outcomes->terms[i], factor);
    return refined && (!outcomes->mixture || eps__composition_refine(outcomes->mixture, factor));
}
