/*
 * Product mixtures, atom by atom.
 *
 * The law is built factor by factor as a sorted list of atoms, of which there may be 2^k. If the list grows too long it
 * is thinned. One inequality bounds the effect on the density. With h_s(z) = e^{s z - s^2/2}, for any law of s with
 * mean m and variance v, Jensen's inequality gives E h_s(z) >= e^{E[s z - s^2/2]} = e^{-v/2} h_m(z) for every z. So
 *   UNDER: atoms may be merged at their barycentre, with their weight times e^{-v/2};
 *   OVER:  an atom may be split between its two neighbours, keeping the mean, with its weight times e^{v/2}.
 * The cost is of second order in the distance. Rounding shifts up to a grid (MMCC appendix B.2) costs an error of first
 * order for each of thousands of participations, and would need a grid of millions of points.
 *
 * OVER may raise the total weight above 1. The weights are then scaled to 1, and the excess is reported in the error.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/pairs/product_mixture.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/normal.h"

enum { WORKING_MAX = 512 };

struct atom {
    double shift, weight;
};

struct atoms {
    struct atom *items, *spare;   /* two arrays of `capacity` atoms */
    size_t len, capacity, passes; /* number of thinning passes */
    double lost;
};

static double probability(double log_odds)
{
    return log_odds > 0 ? 1 / (1 + exp(-log_odds)) : exp(log_odds) / (1 + exp(log_odds));
}

/* The lists of s and of s + shift, merged by shift. */
static void multiply(struct atoms *atoms, double shift, double log_odds)
{
    double p = probability(log_odds), q = probability(-log_odds);
    size_t stay = 0, move = 0, len = 0;
    assert(p >= 0 && q >= 0);
    while (move < atoms->len) {
        double moved = atoms->items[move].shift + shift;
        struct atom next;
        if (stay < atoms->len && atoms->items[stay].shift <= moved) {
            next = (struct atom){atoms->items[stay].shift, q * atoms->items[stay].weight};
            stay++;
        } else {
            next = (struct atom){moved, p * atoms->items[move].weight};
            move++;
        }
        if (next.weight < DBL_MIN) { /* it has lost digits or underflowed to 0 (or, with p = 1, is 0) */
            atoms->lost += isinf(log_odds) ? 0 : DBL_MIN;
            continue;
        }
        if (len > 0 && atoms->spare[len - 1].shift == next.shift)
            atoms->spare[len - 1].weight += next.weight;
        else
            atoms->spare[len++] = next;
    }
    struct atom *items = atoms->items;
    atoms->items = atoms->spare;
    atoms->spare = items;
    atoms->len = len;
}

/* Drops the largest atoms while the lost mass stays within floor_mass. */
static void trim(struct atoms *atoms, double floor_mass)
{
    while (atoms->len > 1 && atoms->lost + atoms->items[atoms->len - 1].weight <= floor_mass)
        atoms->lost += atoms->items[--atoms->len].weight;
}

/* The importance of a relative change of an atom's weight. More than proportional for small weights, because small
 * deltas come from rare, large shifts. */
static double importance(double weight, double change)
{
    return sqrt(weight) * fabs(change);
}

/* One pass: splits an atom between its neighbours, at most every other one, if its importance is at most the
 * threshold. */
static void split_pass(struct atoms *atoms, double threshold)
{
    size_t len = 1;
    struct atom *items = atoms->items;
    for (size_t i = 1; i < atoms->len; i++) {
        if (i + 1 < atoms->len) {
            double below = items[i].shift - items[len - 1].shift, above = items[i + 1].shift - items[i].shift;
            double variance = below * above;
            if (!(importance(items[i].weight, expm1(0.5 * variance)) > threshold)) {
                double weight = items[i].weight * exp(0.5 * variance);
                double share = below + above > 0 ? above / (below + above) : 1;
                items[len - 1].weight += weight * share;
                items[i + 1].weight += weight * (1 - share);
                items[len++] = items[i + 1];
                i++;
                continue;
            }
        }
        items[len++] = items[i];
    }
    atoms->len = len;
}

static void merge_pass(struct atoms *atoms, double threshold)
{
    size_t len = 0;
    struct atom *items = atoms->items;
    for (size_t i = 0; i < atoms->len; i++) {
        struct atom left = items[i];
        if (i + 1 < atoms->len) {
            struct atom right = items[i + 1];
            double weight = left.weight + right.weight, share = right.weight / weight;
            double distance = right.shift - left.shift, variance = share * (1 - share) * distance * distance;
            if (!(importance(weight, expm1(-0.5 * variance)) > threshold)) {
                left.shift += share * distance;
                left.weight = weight * exp(-0.5 * variance);
                i++;
            }
        }
        items[len++] = left;
    }
    atoms->len = len;
}

/* Thins to max_len atoms. In-out: *threshold, doubled after each pass; at the latest when it is infinite, every pass
 * halves the list. */
static void thin(struct atoms *atoms, enum eps__side side, double *threshold, size_t max_len)
{
    if (!(*threshold > 0))
        *threshold = DBL_MIN;
    for (; atoms->len > max_len; *threshold *= 2, atoms->passes++)
        (side == EPS__OVER ? split_pass : merge_pass)(atoms, *threshold);
}

static bool atoms_alloc(struct atoms *atoms, size_t capacity)
{
    atoms->capacity = capacity;
    atoms->items = malloc(capacity * sizeof *atoms->items);
    atoms->spare = malloc(capacity * sizeof *atoms->spare);
    return atoms->items && atoms->spare;
}

static double participations(const struct eps__factor *factors, size_t len)
{
    double total = 0;
    for (size_t k = 0; k < len; k++)
        total += factors[k].count;
    return total;
}

static bool to_mixture(struct eps__mixture *mixture, const struct atoms *atoms, double scale)
{
    if (!eps__mixture_alloc(mixture, atoms->len))
        return false;
    for (size_t i = 0; i < atoms->len; i++) {
        mixture->weight[i] = atoms->items[i].weight * scale;
        mixture->shift[i] = atoms->items[i].shift;
    }
    return true;
}

bool eps__product_atoms(struct eps__mixture *mixture, struct eps__atoms_error *error, const struct eps__factor *factors,
                        size_t len, enum eps__side side, const struct eps__atoms_limits *limits)
{
    struct atoms atoms = {0};
    double total = participations(factors, len), sum = 0;
    size_t max_len = limits->max_len, working = max_len > WORKING_MAX ? max_len : WORKING_MAX;
    double threshold = 0.25 * limits->budget / ((double)working * (total + 1));
    *mixture = (struct eps__mixture){0};
    bool made = atoms_alloc(&atoms, 2 * working);
    if (made) {
        atoms.items[0] = (struct atom){0, 1};
        atoms.len = 1;
    }
    for (size_t k = 0; made && k < len; k++) {
        for (double i = 0; i < factors[k].count; i++) {
            multiply(&atoms, factors[k].shift, factors[k].log_odds);
            trim(&atoms, exp(limits->log_floor));
            thin(&atoms, side, &threshold, working);
        }
    }
    threshold = 0.05 * limits->budget / (double)max_len;
    if (made)
        thin(&atoms, side, &threshold, max_len);
    for (size_t i = 0; made && i < atoms.len; i++)
        sum += atoms.items[i].weight;
    /* The roundings of a participation's products, sum and probability; of a pass; and of the last sums (P12). */
    double passes = (double)atoms.passes;
    error->weight = EPS__UNIT_ROUNDOFF * (16 * total + 16 * passes + 2 * (double)atoms.len + 16);
    error->shift = EPS__UNIT_ROUNDOFF * (4 * total + 4 * passes + 32);
    double scale = 1;
    if (made && side == EPS__OVER && sum > 1) {
        scale = 1 / sum;
        error->weight += eps__raise(sum - 1, 1e7);
    }
    error->lost = side == EPS__OVER ? eps__raise(atoms.lost, 1e7) : 0;
    made = made && to_mixture(mixture, &atoms, scale);
    mixture->whole = made && atoms.passes == 0; /* (P2) */
    mixture->missing = eps__raise(atoms.lost, 1e7);
    free(atoms.items);
    free(atoms.spare);
    return made;
}

/* Uses Pr[N(0,1) > reach - s] <= Pr[Z > u] e^{hazard(u) (s - (reach - u))} for any u, the tangent of a concave
 * logarithm. */
double eps__product_log_outside(const struct eps__factor *factors, size_t len, double reach)
{
    double best = 0;
    for (int i = 0; i < 4; i++) {
        double u = reach * (1 - 0.08 * i), rate = 1 / eps__mills(u), log_moment = 0;
        for (size_t k = 0; k < len; k++) {
            double p = probability(factors[k].log_odds), exponent = rate * factors[k].shift;
            double term = exponent > 30 ? exponent : log1p(p * expm1(exponent));
            log_moment += factors[k].count * term;
        }
        double bound = eps__log_normal_tail(u) + eps__raise(log_moment, 1e4) - rate * (reach - u);
        if (bound >= best && i > 0)
            break;
        best = fmin(best, bound);
    }
    /* Doubled for both sides: on the left the shifts only reduce the tail. */
    return eps__shift(EPS__UPPER, best + M_LN2, 1e-12 * (1 + fabs(best)));
}
