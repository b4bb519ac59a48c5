/*
 * See lines.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/quadrature/lines.h"

#include <assert.h>
#include <math.h>

enum { MOST = EPS__BIN_POINTS_MOST, LINES = EPS__LINES };

#define RESIDUAL 1e-10 /* how far ln X is from its target where an integral is cut, about */
#define UNDERFLOW 1e4  /* beyond it every term of a line is 0 */
#define NEWTON 60      /* the most steps */

/* ------------------------------------------------------------ cuts */

/* ln X at s[line], and its slope. */
static void log_ratios(const struct eps__lines *lines, const double *s, double *out, double *slope)
{
    const struct eps__bin_points *points = lines->points;
    double powers[MOST][LINES], largest[LINES], moment[LINES] = {0};
    for (int line = 0; line < LINES; line++)
        largest[line] = -INFINITY;
    for (size_t i = 0; i < points->len; i++)
        for (int line = 0; line < LINES; line++) {
            powers[i][line] = lines->y[i][line] + points->along[i] * s[line];
            largest[line] = powers[i][line] > largest[line] ? powers[i][line] : largest[line];
        }
    for (size_t i = 0; i < points->len; i++)
        for (int line = 0; line < LINES; line++)
            powers[i][line] -= largest[line];
    eps__exp_lanes(powers[0], points->len);
    for (int line = 0; line < LINES; line++)
        out[line] = 0;
    for (size_t i = 0; i < points->len; i++)
        for (int line = 0; line < LINES; line++) {
            out[line] += powers[i][line];
            moment[line] += powers[i][line] * points->along[i];
        }
    for (int line = 0; line < LINES; line++)
        slope[line] = moment[line] / out[line];
    eps__log_lanes(out, 1);
    for (int line = 0; line < LINES; line++)
        out[line] += largest[line];
}

/* ln X is convex and rises, so Newton's method from the right stays on the right. Lines do not influence each other. */
void eps__lines_cut(const struct eps__lines *lines, double target, bool below, struct eps__cuts *cuts)
{
    const struct eps__bin_points *points = lines->points;
    double log_ratio[LINES];
    bool over[LINES] = {false};
    for (int line = 0; line < LINES; line++) {
        cuts->at[line] = INFINITY;
        for (size_t i = 0; i < points->len; i++) {
            double own = (target - lines->y[i][line]) / points->along[i];
            if (points->along[i] > 0 && own < cuts->at[line])
                cuts->at[line] = own;
        }
        assert(isfinite(cuts->at[line])); /* not all are 0 */
    }
    for (int step = 0, left = LINES; step < NEWTON && left > 0; step++) {
        log_ratios(lines, cuts->at, log_ratio, cuts->slope);
        for (int line = 0; line < LINES; line++) {
            double excess = log_ratio[line] - target;
            if (over[line])
                continue;
            over[line] = fabs(excess) <= RESIDUAL || !(cuts->slope[line] > 0);
            if (over[line])
                left--;
            else
                cuts->at[line] -= excess / cuts->slope[line];
        }
    }
    for (int line = 0; line < LINES; line++)
        if (cuts->slope[line] > 0)
            cuts->at[line] += (below ? -2 : 2) * RESIDUAL / cuts->slope[line];
    log_ratios(lines, cuts->at, log_ratio, cuts->slope);
    for (int line = 0; line < LINES; line++) {
        double excess = log_ratio[line] - target;
        cuts->missed[line] = (below ? -excess : excess) > RESIDUAL / 2 ? fabs(excess) : INFINITY;
    }
}

/* The cut, but no farther out than the standard normal law has mass. */
static double within_reach(double at, enum eps_direction direction)
{
    at = at > -EPS__LINE_FARTHEST ? at : -EPS__LINE_FARTHEST;
    return direction == EPS_REMOVE || at < EPS__LINE_FARTHEST ? at : EPS__LINE_FARTHEST;
}

/* ------------------------------------------------------------ integrals */

/* The relative error of the terms of a line that is cut at s. Where |s| is larger than UNDERFLOW, they are 0. */
static double rounding_of(const struct eps__lines *lines, size_t line, double eps, double s)
{
    double most = lines->most, far = fabs(s) < UNDERFLOW ? fabs(s) : UNDERFLOW;
    double size = lines->sizes[line] + fabs(lines->log_weight[line]) + eps + most * most + (far + most) * (far + most);
    return lines->error + EPS__UNIT_ROUNDOFF * (128 + 16 * size);
}

bool eps__line_is_placed(const struct eps__lines *lines, size_t line, enum eps_direction direction, double eps,
                         const struct eps__cuts *cuts)
{
    return isfinite(cuts->missed[line]) &&
           rounding_of(lines, line, eps, within_reach(cuts->at[line], direction)) < RESIDUAL / 4;
}

void eps__lines_at_most(const struct eps__lines *lines, enum eps_direction direction, double *out)
{
    const struct eps__bin_points *points = lines->points;
    double powers[MOST][LINES];
    size_t rows = direction == EPS_REMOVE ? points->len : 1;
    for (size_t i = 0; i < rows; i++)
        for (int line = 0; line < LINES; line++)
            powers[i][line] =
                lines->log_weight[line] +
                (direction == EPS_REMOVE ? lines->y[i][line] + points->along[i] * points->along[i] / 2 : 0);
    eps__exp_lanes(powers[0], rows);
    for (int line = 0; line < LINES; line++) {
        double sum = 0;
        for (size_t i = 0; i < rows; i++)
            sum += powers[i][line];
        out[line] = sum * (1 + rounding_of(lines, (size_t)line, 0, 0));
    }
}

/* Remove: the integrals of X phi and of e^eps phi over s > cut. Add: those of e^eps X phi and of phi over s < cut. Each
 * is a sum of tails (N10). */
static void cut_at(const struct eps__lines *lines, enum eps_direction direction, double eps, const double *cut,
                   double *ratio, double *one)
{
    const struct eps__bin_points *points = lines->points;
    bool remove = direction == EPS_REMOVE;
    double factor[LINES], x[LINES], part[LINES];
    for (int line = 0; line < LINES; line++)
        ratio[line] = 0;
    for (size_t i = 0; i < points->len; i++) {
        double along = points->along[i];
        for (int line = 0; line < LINES; line++) {
            factor[line] = lines->log_weight[line] + lines->y[i][line] + along * along / 2 + (remove ? 0 : eps);
            x[line] = remove ? cut[line] - along : along - cut[line];
        }
        eps__normal_tails(lines->tails, part, factor, x);
        for (int line = 0; line < LINES; line++)
            ratio[line] += part[line];
    }
    for (int line = 0; line < LINES; line++) {
        factor[line] = lines->log_weight[line] + (remove ? eps : 0);
        x[line] = remove ? cut[line] : -cut[line];
    }
    eps__normal_tails(lines->tails, one, factor, x);
}

/* An upper bound on e^x - 1, for x >= 0. */
static double expm1_up(double x)
{
    return x <= 1 ? x + x * x : expm1(x);
}

void eps__lines_integrals(const struct eps__lines *lines, enum eps_direction direction, enum eps__estimate estimate,
                          double eps, const struct eps__cuts *cuts, double *out)
{
    bool remove = direction == EPS_REMOVE;
    double cut[LINES], ratio[LINES], one[LINES], most[LINES];
    for (int line = 0; line < LINES; line++)
        cut[line] = within_reach(cuts->at[line], direction);
    cut_at(lines, direction, eps, cut, ratio, one);
    if (estimate == EPS__UPPER)
        eps__lines_at_most(lines, direction, most);
    for (int line = 0; line < LINES; line++) {
        double plus = remove ? ratio[line] : one[line], minus = remove ? one[line] : ratio[line];
        double rounding = rounding_of(lines, (size_t)line, eps, cut[line]);
        if (estimate == EPS__LOWER) {
            out[line] = fmax(plus * (1 - rounding) - minus * (1 + rounding), 0);
        } else if (eps__line_is_placed(lines, (size_t)line, direction, eps, cuts)) {
            double value = plus * (1 + rounding) - minus * (1 - rounding);
            double lost = expm1_up(cuts->missed[line] + RESIDUAL) * one[line];
            out[line] = (value < 0 ? 0 : value) + lost;
        } else {
            out[line] = most[line];
        }
    }
}
