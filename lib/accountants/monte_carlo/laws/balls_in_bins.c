/*
 * Draws under balls in bins: P = (1/b) sum_i N(m_i, sigma^2 I), where m_i is the sum of the strategy's columns for bin
 * i over the epochs. Only the Gram matrix of the m_i matters, so b vectors f_i of b coordinates replace them
 * (factor.h). The cost of a draw depends on the entries of the factor, not on the number of steps.
 *
 * Tilted draws for remove are of R = P^a Q^(1-a)/Z for an integer order a, a mixture over the bins of a copies of the
 * example (multisets.h), with dP/dR = Z e^(-(a-1) l).
 *
 * Tilted draws for add are of R = N(-t a, I), where a is the mean of the f_i. Let m be the mean of the |f_i|^2/2. The
 * arithmetic mean is at least the geometric one, so P/Q >= e^(<a,y> - m), and dQ/dR = e^(t <a,y> + t^2 |a|^2/2) is at
 * most e^(t m + t^2 |a|^2/2) (P/Q)^t (A32).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/merged_bins.h"
#include "lib/accountants/monte_carlo/law.h"
#include "lib/accountants/monte_carlo/laws/factor.h"
#include "lib/accountants/monte_carlo/laws/multisets.h"
#include "lib/base/error.h"
#include "lib/numerics/bound.h"
#include "lib/sampling/sampling.h"

#define OPERATIONS 40.0 /* cost of a normal and an exponential, in multiply-adds */
#define FACTORING 1.0   /* operations for a factor and its check, as a multiple of the third power of the bins */

/* v = -t a. R = N(v, I) exactly, with v as stored. */
struct drift {
    double tilt; /* t */
    double *at;  /* v */
    double half; /* |v|^2/2 */
    double mean; /* m, rounded up */
    double sum;  /* the sum of the |v_i| */
};

struct bins_law {
    struct eps__mc_law base;
    struct eps__mc_factor factor;
    struct eps__mc_multisets sets; /* remove, tilted */
    struct drift drift;            /* add, tilted */
    double slack;                  /* allowance for rounding in log_most */
};

/* ------------------------------------------------------------ a draw */

/* The bin that a uniform number draws, all equally likely. */
static size_t bin_of(double uniform, size_t bins)
{
    size_t bin = (size_t)(uniform * (double)bins);
    return bin < bins ? bin : bins - 1;
}

static size_t even(size_t rows)
{
    return rows + rows % 2;
}

/* Adds to y the f_i of the drawn bins: one bin for P, a bins for P^a Q^(1-a)/Z. Tilted: log_weight becomes the
 * correction of eps__mc_multisets_draw(). */
static void add_bins(double *y, const struct bins_law *law, const struct eps__stream *stream, uint32_t first,
                     double *log_weight)
{
    uint32_t chosen[EPS__MC_ORDER_MAX];
    for (uint32_t lane = 0; lane < EPS__LANES; lane++) {
        if (law->base.tilted)
            log_weight[lane] = eps__mc_multisets_draw(chosen, &law->sets, stream, first + lane);
        else
            chosen[0] = (uint32_t)bin_of(eps__uniform(stream, first + lane, 0), law->factor.len);
        for (unsigned c = 0; c < (law->base.tilted ? law->sets.order : 1); c++)
            eps__mc_factor_add(y, &law->factor, chosen[c], 1, lane);
    }
}

/* Adds v to y, and sets the log weight, ln dQ/dR = |v|^2/2 - <v, y>. */
static void add_drift(double *y, const struct drift *drift, size_t len, double *log_weight)
{
    for (size_t i = 0; i < len; i++)
        for (size_t lane = 0; lane < EPS__LANES; lane++)
            y[i * EPS__LANES + lane] += drift->at[i];
    eps__correlate_lanes(log_weight, y, drift->at, 0, len, 1);
    for (size_t lane = 0; lane < EPS__LANES; lane++)
        log_weight[lane] = drift->half - log_weight[lane];
}

static void draw(const struct eps__mc_law *base, const struct eps__stream *stream, uint32_t first, double *scratch,
                 double *loss, double *log_weight)
{
    const struct bins_law *law = (const struct bins_law *)base;
    size_t len = law->factor.len;
    double *y = scratch, *work = scratch + even(len) * EPS__LANES, sign = base->direction == EPS_REMOVE ? 1 : -1;
    for (size_t lane = 0; lane < EPS__LANES; lane++)
        log_weight[lane] = 0;
    eps__normals(y, stream, first, 0, even(len));
    if (base->direction == EPS_REMOVE)
        add_bins(y, law, stream, first, log_weight);
    else if (base->tilted)
        add_drift(y, &law->drift, len, log_weight);
    eps__mc_factor_log_ratio(loss, &law->factor, y, work);
    for (size_t lane = 0; lane < EPS__LANES; lane++) {
        loss[lane] *= sign;
        if (base->tilted && base->direction == EPS_REMOVE)
            log_weight[lane] += law->sets.log_moment - (law->sets.order - 1) * loss[lane];
    }
}

static double log_most(const struct eps__mc_law *base, double eps)
{
    const struct bins_law *law = (const struct bins_law *)base;
    if (!base->tilted)
        return 0;
    if (base->direction == EPS_REMOVE)
        return eps__shift(EPS__UPPER, eps__mc_tilted_log_most(law->sets.order, law->sets.log_moment, eps), law->slack);
    const struct drift *drift = &law->drift;
    double t = drift->tilt, most = t * (drift->mean - eps) + drift->half + t * log(t) - (1 + t) * log1p(t);
    double size = t * (drift->mean + fabs(eps)) + drift->half + t * fabs(log(t)) + (1 + t) * log1p(t);
    return eps__shift(EPS__UPPER, most, law->slack + 16 * EPS__UNIT_ROUNDOFF * size);
}

/* ------------------------------------------------------------ the class */

static bool concerns(const struct eps_mechanism *mechanism)
{
    return eps__sampling_bins(mechanism) > 0;
}

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    size_t bins = eps__sampling_bins(mechanism);
    if (mechanism->sampling.redraw && mechanism->n > bins)
        return eps__decline(error, "/sampling/redraw",
                            "monte_carlo does not serve a bin that is drawn anew in every epoch; leave redraw out");
    if (!eps__strategy_lower_triangular(setting->strategy))
        return eps__decline(error, "/matrix", "monte_carlo needs a lower-triangular strategy or a tree");
    if (bins > EPS__MERGED_BINS_MOST && !eps__strategy_is_diagonal(setting->strategy))
        return eps__decline(error, "/sampling/bins",
                            "monte_carlo serves at most 4096 bins unless the strategy is diagonal; use fewer bins");
    return true;
}

/* Exact up to the rounding by which the Gram matrix is raised (A30). */
static bool exact(const struct eps__setting *setting)
{
    (void)setting;
    return true;
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    double bins = (double)eps__sampling_bins(mechanism), bands = (double)eps_strategy_bands(setting->strategy);
    bool cyclic = mechanism->n > (size_t)bins, diagonal = eps__strategy_is_diagonal(setting->strategy);
    double width = diagonal ? 1 : fmin(cyclic ? 2 * bands : bands, bins);
    *operations = bins * (width + OPERATIONS);
    *bytes = 8 * ((diagonal ? 8 * bins : 9 * bins * bins + 100 * bins) + EPS__LANES * (2 * bins + 2) + 5e6);
}

static void destroy(struct eps__mc_law *base)
{
    struct bins_law *law = (struct bins_law *)base;
    eps__mc_factor_clear(&law->factor);
    eps__mc_multisets_clear(&law->sets);
    free(law->drift.at);
    free(law);
}

/* ------------------------------------------------------------ opening a law */

/* The t at which log_most(eps) is least. It solves t |a|^2 + ln(t/(1+t)) = eps - m, whose left side rises with t.
 * square: |a|^2; margin: eps - m. */
static double best_tilt(double square, double margin)
{
    double low = 0, high = fmax(margin, 0) / square + 1 / square + 1;
    for (int i = 0; i < 100; i++) {
        double t = 0.5 * (low + high);
        if (t * square + log(t / (1 + t)) < margin)
            low = t;
        else
            high = t;
    }
    return high;
}

static enum eps_status make_drift(struct bins_law *law, double eps)
{
    const struct eps__mc_factor *factor = &law->factor;
    struct drift *drift = &law->drift;
    size_t len = factor->len;
    double square = 0, halves = 0;
    drift->at = calloc(len, sizeof *drift->at);
    if (!drift->at)
        return EPS_NO_MEMORY;
    for (size_t i = 0; i < len; i++) {
        for (size_t k = factor->first[i]; k <= i; k++)
            drift->at[k] += factor->entries[factor->start[i] + k - factor->first[i]];
        halves += factor->half[i];
    }
    for (size_t k = 0; k < len; k++) {
        drift->at[k] /= (double)len;
        square += drift->at[k] * drift->at[k];
    }
    drift->mean = eps__raise(halves / (double)len, 2 * (double)len + 16);
    drift->tilt = best_tilt(square, eps - drift->mean);
    square = 0;
    for (size_t k = 0; k < len; k++) {
        drift->at[k] *= -drift->tilt;
        square += drift->at[k] * drift->at[k];
        drift->sum += fabs(drift->at[k]);
    }
    drift->half = 0.5 * square;
    return EPS_OK;
}

/* Sets the error bounds of losses, weights and log_most (A30, A32). */
static void bound_errors(struct bins_law *law)
{
    const struct eps__mc_factor *factor = &law->factor;
    double len = (double)factor->len, reach = EPS__NORMAL_MOST;
    if (law->base.direction == EPS_REMOVE)
        reach += (law->base.tilted ? law->sets.order : 1) * factor->largest;
    for (size_t k = 0; law->drift.at && k < factor->len; k++)
        reach = fmax(reach, EPS__NORMAL_MOST + fabs(law->drift.at[k]));
    reach = eps__raise(reach, 4);
    double most = factor->longest * reach + factor->largest_half + 1; /* a bound on |l| */
    law->base.loss_error = eps__mc_factor_error(factor, reach);
    if (!law->base.tilted)
        return;
    if (law->base.direction == EPS_REMOVE) {
        double power = law->sets.order - 1;
        double terms = power * most + (1 + power * (power + 1)) * (1 + fabs(law->sets.log_moment));
        law->base.log_weight_error = eps__raise(power * law->base.loss_error + 4 * EPS__UNIT_ROUNDOFF * terms, 64);
        law->slack = eps__raise(power * law->base.loss_error + 2 * law->base.log_weight_error, 64);
    } else {
        const struct drift *drift = &law->drift;
        law->base.log_weight_error =
            eps__raise((len + 16) * EPS__UNIT_ROUNDOFF * (drift->sum * reach + drift->half), 64);
        double mean = (len + 16) * EPS__UNIT_ROUNDOFF * drift->tilt * factor->longest * reach; /* rounding of a */
        law->slack = eps__raise(2 * drift->tilt * law->base.loss_error + 2 * law->base.log_weight_error + mean, 64);
    }
}

/* Makes the factor, and the tables or the drift of a tilted law. */
static enum eps_status fill(struct bins_law *law, const struct eps__setting *setting, const struct eps__mc_aim *aim)
{
    bool mixed = aim->tilted && aim->direction == EPS_REMOVE;
    double *upper = NULL, len = (double)eps__sampling_bins(&setting->job->mechanism);
    bool diagonal = eps__strategy_is_diagonal(setting->strategy);
    struct eps__bin_gram bins;
    if (!diagonal && aim->operations > 0 && FACTORING * len * len * len > aim->operations)
        return EPS_TOO_COSTLY;
    enum eps_status status = eps__merged_bins(&bins, setting, aim->sigma, 1);
    if (status != EPS_OK)
        return status;
    status = eps__mc_factor_make(&law->factor, &bins, mixed ? &upper : NULL);
    eps__bin_gram_clear(&bins);
    if (status == EPS_OK && mixed)
        status = eps__mc_multisets_make(&law->sets, &law->factor, upper, aim->eps, aim->operations);
    else if (status == EPS_OK && aim->tilted)
        status = make_drift(law, aim->eps);
    free(upper);
    return status;
}

static enum eps_status open_law(struct eps__mc_law **out, const struct eps__setting *setting,
                                const struct eps__mc_aim *aim)
{
    assert(aim->sigma > 0 && eps__strategy_nonnegative(setting->strategy)); /* (A30) */
    struct bins_law *law = calloc(1, sizeof *law);
    if (!law)
        return EPS_NO_MEMORY;
    law->base =
        (struct eps__mc_law){.class = &eps__mc_balls_in_bins, .direction = aim->direction, .tilted = aim->tilted};
    enum eps_status status = fill(law, setting, aim);
    if (status != EPS_OK) {
        destroy(&law->base);
        return status;
    }
    double numbers = (double)law->factor.start[law->factor.len], len = (double)law->factor.len;
    bound_errors(law);
    law->base.order = law->sets.order;
    law->base.scratch = 2 * even(law->factor.len) * EPS__LANES;
    law->base.operations = EPS__LANES * (numbers + OPERATIONS * len);
    *out = &law->base;
    return EPS_OK;
}

const struct eps__mc_law_class eps__mc_balls_in_bins = {.concerns = concerns,
                                                        .serves = serves,
                                                        .exact = exact,
                                                        .cost = cost,
                                                        .open = open_law,
                                                        .draw = draw,
                                                        .log_most = log_most,
                                                        .destroy = destroy};
