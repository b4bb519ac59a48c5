/*
 * Draws under balls in bins: P = (1/b) sum_i N(m_i, sigma^2 I). Of the m_i, the columns of the strategy summed over the epochs, only
 * the Gram matrix counts, so that b vectors of b coordinates take their place (mc_factor.h), and a draw costs what the factor has numbers,
 * not what the strategy has rows.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/mc_factor.h"
#include "lib/accountants/mc_law.h"
#include "lib/accountants/merged_bins.h"
#include "lib/error.h"
#include "lib/numerics/bound.h"
#include "lib/sampling/sampling.h"

#define OPERATIONS 40.0 /* of a normal and an exponential, in multiply-adds */

struct bins_law {
    struct eps__mc_law base;
    struct eps__mc_factor factor;
};

/* ------------------------------------------------------------ a draw */

/* Which of b bins, each as likely as the others. */
static size_t bin_of(double uniform, size_t bins)
{
    size_t bin = (size_t)(uniform * (double)bins);
    return bin < bins ? bin : bins - 1;
}

static size_t even(size_t rows)
{
    return rows + rows % 2;
}

static void draw(const struct eps__mc_law *base, const struct eps__stream *stream, uint32_t first, double *scratch,
                 double *loss, double *log_weight)
{
    const struct bins_law *law = (const struct bins_law *)base;
    size_t len = law->factor.len;
    double *y = scratch, *work = scratch + even(len) * EPS__LANES, sign = base->direction == EPS_REMOVE ? 1 : -1;
    eps__normals(y, stream, first, 0, even(len));
    for (uint32_t lane = 0; lane < EPS__LANES && base->direction == EPS_REMOVE; lane++)
        eps__mc_factor_add(y, &law->factor, bin_of(eps__uniform(stream, first + lane, 0), len), 1, lane);
    eps__mc_factor_log_ratio(loss, &law->factor, y, work);
    for (size_t lane = 0; lane < EPS__LANES; lane++) {
        loss[lane] *= sign;
        log_weight[lane] = 0;
    }
}

/* ------------------------------------------------------------ the kind */

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

/* Of a matrix that is larger by roundings (L57). */
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
    *bytes = 8 * ((diagonal ? 8 * bins : 5 * bins * bins) + EPS__LANES * (2 * bins + 2));
}

static void destroy(struct eps__mc_law *base)
{
    struct bins_law *law = (struct bins_law *)base;
    eps__mc_factor_clear(&law->factor);
    free(law);
}

static enum eps_status make_factor(struct bins_law *law, const struct eps__setting *setting,
                                   const struct eps__mc_aim *aim)
{
    struct eps__bins bins;
    enum eps_status status = eps__merged_bins(&bins, setting, aim->sigma, 1);
    if (status != EPS_OK)
        return status;
    status = eps__mc_factor_make(&law->factor, &bins, NULL);
    eps__bins_clear(&bins);
    return status;
}

static enum eps_status open_law(struct eps__mc_law **out, const struct eps__setting *setting,
                                const struct eps__mc_aim *aim)
{
    assert(aim->sigma > 0 && eps__strategy_nonnegative(setting->strategy)); /* (L57) */
    if (aim->tilted)
        return EPS_UNSUPPORTED;
    struct bins_law *law = calloc(1, sizeof *law);
    if (!law)
        return EPS_NO_MEMORY;
    law->base.kind = &eps__mc_balls_in_bins;
    law->base.direction = aim->direction;
    enum eps_status status = make_factor(law, setting, aim);
    if (status != EPS_OK) {
        destroy(&law->base);
        return status;
    }
    double numbers = (double)law->factor.start[law->factor.len], len = (double)law->factor.len;
    law->base.loss_error = eps__mc_factor_error(&law->factor, EPS__NORMAL_MOST + law->factor.largest);
    law->base.scratch = 2 * even(law->factor.len) * EPS__LANES;
    law->base.operations = EPS__LANES * (numbers + OPERATIONS * len);
    *out = &law->base;
    return EPS_OK;
}

const struct eps__mc_kind eps__mc_balls_in_bins = {.concerns = concerns,
                                                   .serves = serves,
                                                   .exact = exact,
                                                   .cost = cost,
                                                   .open = open_law,
                                                   .draw = draw,
                                                   .destroy = destroy};
