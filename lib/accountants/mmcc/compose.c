/*
 * Each class of rows becomes one dominating pair, by the cheapest form of its product mixture that is accurate enough:
 * all atoms if they are few, a binomial law if all participations are equal, a quadrature if the shifts are small
 * (pld/pairs/product_moments.c), else a thinned list of atoms.
 *
 * Remove is the mixture against N(0, 1), add is N(0, 1) against the mixture. In both a larger shift or probability
 * dominates (MMCC corollary 4.4, lemma 4.5). The upper estimate uses the computed bounds on the odds. The lower
 * estimate subtracts everything that rounding may have added to them. The bound in exact arithmetic lies between the
 * two.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/mmcc/compose.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/numerics/normal.h"
#include "lib/sampling/law.h"

enum {
    FEW_ATOMS = 8,      /* the most atoms that are listed exactly */
    BINOMIAL_FROM = 24, /* the least number of equal participations for which a binomial law is used */
    ATOMS_MAX = 160,    /* the length of a thinned list of atoms */
    ROUGH_ATOMS = 24,   /* the same for unproven compositions */
    SAMPLE = 48         /* the approximate number of classes in an unproven composition */
};

struct row {
    struct eps__branch *branch;
    uint64_t count;
    double outside, error;
    enum eps_status status;
    bool resolvable;
};

struct composing {
    const struct eps__rows *rows;
    const struct eps_context *context;
    const struct eps__rows_plan *plan;
    struct row *items;
    size_t len;
    size_t stride; /* one class in `stride` is composed, with the counts of all of them */
    double total;  /* the number of rows */
};

/* ------------------------------------------------------------ one pair */

/* The mixture of one estimate and its errors. */
struct form {
    struct eps__mixture mixture;
    double error, lost; /* the relative error of the weights; the mass of trimmed atoms */
    double shift_error; /* the relative error of the shifts */
};

/* Moves the mixture into its side of the pair and fills the other side with N(0, 1). */
static bool set_pair(struct eps__pair *pair, struct form *form, enum eps_direction direction,
                     enum eps__estimate estimate)
{
    struct eps__mixture *own = direction == EPS_REMOVE ? &pair->numerator : &pair->denominator;
    struct eps__mixture *other = direction == EPS_REMOVE ? &pair->denominator : &pair->numerator;
    *own = form->mixture;
    form->mixture = (struct eps__mixture){0};
    for (size_t i = 0; i < own->len; i++)
        own->shift[i] *= estimate == EPS__UPPER ? 1 + form->shift_error : 1 - form->shift_error;
    pair->weight_error = form->error;
    if (direction == EPS_REMOVE && estimate == EPS__UPPER)
        pair->lost = form->lost;
    if (direction == EPS_ADD && estimate == EPS__LOWER && own->len) { /* moving mass to smaller shifts is safe here */
        own->weight[0] += form->lost;
        own->missing = 0;
    }
    if (!eps__mixture_alloc(other, 1))
        return false;
    other->weight[0] = 1;
    other->whole = true;
    return true;
}

/* Whether the estimate needs a mixture over or under P: a larger P means a larger loss for remove, a smaller one for
 * add. */
static enum eps__side side_of(enum eps_direction direction, enum eps__estimate estimate)
{
    return (direction == EPS_REMOVE) == (estimate == EPS__UPPER) ? EPS__OVER : EPS__UNDER;
}

/* An upper bound on what rounding added to a participation's log odds (A6); 0 for p = 1. */
static double odds_slack(const struct composing *c, const struct eps__factor *factor)
{
    if (isinf(factor->log_odds) && c->rows->p >= 1)
        return 0;
    double variance = c->plan->sigma * c->plan->sigma, size = 1 + fabs(factor->log_odds) + fabs(c->rows->prior);
    return 4 * (c->rows->square_error + 16 * EPS__UNIT_ROUNDOFF) * (size + c->plan->norm_square / variance) +
           1e-12 * sqrt(c->plan->norm_square / variance);
}

/* Log odds for the lower estimate. Odds that overflowed give no lower bound. */
static double lowered(const struct composing *c, const struct eps__factor *factor)
{
    double slack = odds_slack(c, factor);
    return isfinite(factor->log_odds) || slack == 0 ? factor->log_odds - slack : -INFINITY;
}

/* `count` equal participations: a binomial law whose p is rounded outwards. */
static enum eps_status binomial_form(struct form *form, const struct eps__factor *factor, enum eps__estimate estimate,
                                     double log_floor)
{
    struct eps__law law = {0};
    double odds = factor->log_odds, p = odds > 0 ? 1 / (1 + exp(-odds)) : exp(odds) / (1 + exp(odds));
    if (p < DBL_MIN) /* a subnormal p has a larger relative error than the 12 units below */
        p = estimate == EPS__UPPER ? DBL_MIN : 0;
    p = fmin(eps__outward(estimate, p, 12), 1); /* p rounds in an exponential, a sum and a quotient */
    enum eps_status status = eps__binomial_law(&law, (uint64_t)factor->count, p, log_floor);
    if (status != EPS_OK)
        return status;
    /* Mass trimmed below the first atom moves up to that atom (upper) or down to 0 (lower). set_pair() accounts for the
     * mass trimmed at the top. */
    bool spare = estimate == EPS__LOWER && law.first > 0;
    bool made = eps__mixture_alloc(&form->mixture, law.len + spare);
    for (size_t i = 0; made && i < law.len; i++) {
        form->mixture.weight[i + spare] = law.weight[i];
        form->mixture.shift[i + spare] = (double)(law.first + i) * factor->shift;
    }
    if (made)
        form->mixture.weight[0] += spare ? fmax(law.lost_low, DBL_MIN) : law.lost_low;
    form->lost = law.lost_high;
    form->error = law.weight_error;
    form->shift_error = 4 * EPS__UNIT_ROUNDOFF;
    eps__law_clear(&law);
    return made ? EPS_OK : EPS_NO_MEMORY;
}

static bool atoms_form(struct form *form, const struct composing *c, const struct eps__factor *factors, size_t len,
                       enum eps__estimate estimate, double budget, size_t max_len)
{
    struct eps__atoms_error error;
    const struct eps__atoms_limits limits = {budget, c->plan->log_outside - log(c->total), max_len};
    bool made =
        eps__product_atoms(&form->mixture, &error, factors, len, side_of(c->plan->direction, estimate), &limits);
    form->error = error.weight;
    form->lost = error.lost;
    form->shift_error = error.shift;
    return made;
}

/* The reach z_0 of a quadrature: the mass at |z| > z_0, written to *outside, is within the row's share of log_outside
 * if possible. */
static double find_reach(const struct composing *c, const struct eps__factor *factors, size_t len, double *outside)
{
    double aim = c->plan->log_outside - log(c->total), reach = eps__normal_tail_quantile(aim - M_LN2) + 0.01, found = 0;
    for (int i = 0; i < 60; i++, reach += 0.25) {
        found = c->plan->direction == EPS_REMOVE ? eps__product_log_outside(factors, len, reach)
                                                 : eps__log_normal_tail(reach) + M_LN2;
        if (found <= aim)
            break;
    }
    *outside = eps__exp_bound(EPS__UPPER, found, 1e-9);
    return reach;
}

/* Pr[|z| > reach] under a mixture, rounded up (A3). */
static double mass_outside(const struct eps__mixture *mixture, double reach)
{
    double mass = 0;
    for (size_t i = 0; i < mixture->len; i++)
        mass += mixture->weight[i] * (exp(eps__log_normal_tail(reach - mixture->shift[i])) +
                                      exp(eps__log_normal_tail(reach + mixture->shift[i])));
    return eps__raise(mass, 1e7);
}

/* Both estimates by one quadrature. *found is false if it does not reach the required accuracy. EPS_NO_MEMORY. */
static enum eps_status quadrature(struct row *row, const struct composing *c, const struct eps__factor *factors,
                                  size_t len, double budget, bool *found)
{
    struct form form = {.shift_error = c->rows->entry_error + 4 * EPS__UNIT_ROUNDOFF};
    double reach = find_reach(c, factors, len, &row->outside), error, slack = 0;
    for (size_t k = 0; k < len; k++)
        slack += odds_slack(c, &factors[k]) * factors[k].count;
    *found = false;
    if (!isfinite(slack))
        return EPS_OK;
    if (!eps__product_moments(&form.mixture, &error, factors, len, reach, budget, c->plan->proven))
        return EPS_NO_MEMORY;
    *found = !isinf(error);
    if (!*found)
        return EPS_OK;
    if (c->plan->direction == EPS_REMOVE)
        row->outside = fmax(row->outside, mass_outside(&form.mixture, reach));
    bool made = true;
    for (enum eps__estimate estimate = EPS__UPPER; estimate <= EPS__LOWER && made; estimate++) {
        struct form own = {.error = estimate == EPS__UPPER ? error : error + slack, .shift_error = form.shift_error};
        made = eps__mixture_alloc(&own.mixture, form.mixture.len);
        for (size_t i = 0; made && i < own.mixture.len; i++) {
            own.mixture.weight[i] = form.mixture.weight[i];
            own.mixture.shift[i] = form.mixture.shift[i];
        }
        made = made && set_pair(&row->branch->pair[estimate], &own, c->plan->direction, estimate);
        eps__mixture_clear(&own.mixture);
    }
    eps__mixture_clear(&form.mixture);
    row->error = error;
    return made ? EPS_OK : EPS_NO_MEMORY;
}

/* ------------------------------------------------------------ one row */

static enum eps_status atom_by_atom(struct row *row, const struct composing *c, struct eps__factor *factors, size_t len,
                                    double budget, size_t max_len)
{
    bool binomial = len == 1 && factors[0].count >= BINOMIAL_FROM;
    double log_floor = c->plan->log_outside - log(c->total);
    enum eps_status status = EPS_OK;
    row->outside = 0;
    for (enum eps__estimate estimate = EPS__UPPER; estimate <= EPS__LOWER && status == EPS_OK; estimate++) {
        struct form form = {0};
        for (size_t k = 0; k < len && estimate == EPS__LOWER; k++)
            factors[k].log_odds = lowered(c, &factors[k]);
        if (binomial)
            status = binomial_form(&form, &factors[0], estimate, fmax(log_floor, -740));
        else if (!atoms_form(&form, c, factors, len, estimate, budget, max_len))
            status = EPS_NO_MEMORY;
        form.shift_error += c->rows->entry_error;
        row->error = fmax(row->error, form.error);
        if (status == EPS_OK && !set_pair(&row->branch->pair[estimate], &form, c->plan->direction, estimate))
            status = EPS_NO_MEMORY;
        eps__mixture_clear(&form.mixture);
    }
    return status;
}

static bool few_atoms(const struct eps__factor *factors, size_t len)
{
    double atoms = 1;
    for (size_t k = 0; k < len && atoms <= FEW_ATOMS; k++)
        atoms *= factors[k].count + 1;
    return atoms <= FEW_ATOMS || (len == 1 && factors[0].count >= BINOMIAL_FROM);
}

static enum eps_status make_row(struct row *row, const struct composing *c, size_t k, struct eps__factor *factors)
{
    size_t len = c->rows->class->fill(c->rows, k, factors);
    double budget = c->plan->error / c->total, widest = 0;
    bool found = false;
    enum eps_status status = EPS_OK;
    row->branch = calloc(1, sizeof *row->branch);
    if (!row->branch)
        return EPS_NO_MEMORY;
    row->branch->weight[EPS__UPPER] = row->branch->weight[EPS__LOWER] = 1;
    for (size_t i = 0; i < len; i++)
        factors[i].shift /= c->plan->sigma;
    bool few = few_atoms(factors, len);
    if (!few)
        status = quadrature(row, c, factors, len, budget, &found);
    if (status == EPS_OK && !found)
        status = atom_by_atom(row, c, factors, len, budget,
                              few               ? 2 * FEW_ATOMS
                              : c->plan->proven ? ATOMS_MAX
                                                : ROUGH_ATOMS);
    for (int estimate = 0; estimate < 2 && status == EPS_OK; estimate++)
        widest = fmax(widest, fmax(eps__mixture_reach(&row->branch->pair[estimate].numerator),
                                   eps__mixture_reach(&row->branch->pair[estimate].denominator)));
    row->resolvable = widest <= EPS__SHIFT_MOST;
    return status;
}

static void compose_row(void *user, size_t index)
{
    const struct composing *c = user;
    struct row *row = &c->items[index];
    row->status = eps__poll(c->context);
    struct eps__factor *factors = row->status == EPS_OK ? malloc((c->rows->entries_max + 1) * sizeof *factors) : NULL;
    size_t first = index * c->stride;
    for (size_t k = first; k < first + c->stride && k < c->rows->classes; k++)
        row->count += c->rows->class->count(c->rows, k);
    if (row->status == EPS_OK && !factors)
        row->status = EPS_NO_MEMORY;
    if (row->status == EPS_OK && row->count > 0) {
        size_t middle = first + c->stride / 2 < c->rows->classes ? first + c->stride / 2 : first;
        row->status = make_row(row, c, middle, factors);
    }
    free(factors);
    eps__meter_add(c->plan->meter, c->plan->operations / (double)c->len);
}

enum eps_status eps__rows_compose(struct eps__composition *composition, struct eps__rows_remainder *remainder,
                                  const struct eps__rows *rows, const struct eps_context *context,
                                  const struct eps__rows_plan *plan)
{
    struct composing c = {.rows = rows, .context = context, .plan = plan, .stride = 1};
    *remainder = (struct eps__rows_remainder){.resolvable = true};
    if (!plan->proven && rows->classes > 2 * SAMPLE)
        c.stride = rows->classes / SAMPLE;
    size_t len = (rows->classes + c.stride - 1) / c.stride;
    double times = (double)plan->times;
    uint64_t total = 0;
    for (size_t k = 0; k < rows->classes; k++)
        total += rows->class->count(rows, k);
    assert(plan->times >= 1 && rows->rows <= UINT64_MAX / plan->times);
    assert(total == rows->rows); /* (A1): a row that is not counted would be released without being accounted for */
    c.total = (double)total;
    c.len = len;
    c.items = calloc(len + 1, sizeof *c.items);
    if (!c.items)
        return EPS_NO_MEMORY;
    if (context && context->parallel_for)
        context->parallel_for(context->user, len, compose_row, &c);
    for (size_t i = 0; !(context && context->parallel_for) && i < len; i++)
        compose_row(&c, i);
    enum eps_status status = EPS_OK;
    for (size_t i = 0; i < len; i++) {
        struct row *row = &c.items[i];
        status = status == EPS_OK ? row->status : status;
        if (status == EPS_OK && row->branch) {
            remainder->outside += times * (double)row->count * row->outside;
            remainder->error += times * (double)row->count * row->error;
            remainder->resolvable = remainder->resolvable && row->resolvable;
        }
        if (status == EPS_OK && row->branch && remainder->resolvable) {
            status = eps__composition_add(composition, row->branch, 1, row->count * plan->times);
        } else if (row->branch) {
            eps__branch_clear(row->branch);
            free(row->branch);
        }
    }
    remainder->outside *= 1 + 1e-9;
    free(c.items);
    return status;
}
