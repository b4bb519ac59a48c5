/*
 * The parts of a data set in groups, and the rows of one.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/mmcc/parts.h"

#include <math.h>

#include "lib/sampling/sampling.h"

bool eps__mmcc_toeplitz_parts(const struct eps__blocks *blocks, size_t groups)
{
    return blocks->shape == EPS__SHAPE_TOEPLITZ && (blocks->stamps == 1 || blocks->block % groups == 0);
}

enum eps_status eps__mmcc_rows(struct eps__rows **rows, const struct eps__setting *setting, size_t part,
                               struct eps_error *error)
{
    struct eps__blocks blocks = eps__strategy_blocks(setting->strategy);
    size_t groups = eps__sampling_groups(&setting->job->mechanism);
    double p = setting->p;
    if (eps__mmcc_toeplitz_parts(&blocks, groups))
        return eps__toeplitz_rows(rows, &blocks, groups, p);
    if (blocks.shape == EPS__SHAPE_TREE && groups == 1)
        return eps__tree_rows(rows, &blocks, p);
    return eps__general_rows(rows, setting->context, error, setting->strategy, groups, part, p);
}

size_t eps__mmcc_parts(const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    struct eps__blocks blocks = eps__strategy_blocks(setting->strategy);
    return eps__mmcc_toeplitz_parts(&blocks, eps__sampling_groups(mechanism)) ? 1 : eps__sampling_parts(mechanism);
}

double eps__mmcc_uncertain_pairs(const struct eps__rows *rows)
{
    return rows->p < 1 ? rows->pairs : 0;
}

enum eps_status eps__mmcc_bound(struct eps__rows *rows, const struct eps_context *context, enum eps_direction direction,
                                double sigma, double log_delta1, bool quick)
{
    double log_eta = -1, pairs = eps__mmcc_uncertain_pairs(rows);
    if (pairs > 0) {
        log_eta = log_delta1 - log(pairs);
        log_eta -= 4 * EPS__UNIT_ROUNDOFF * (fabs(log_eta) + fabs(log_delta1));
    }
    struct eps__tail_query query = eps__tail_query(direction, sigma, log_eta, quick);
    return rows->class->bound(rows, context, &query);
}
