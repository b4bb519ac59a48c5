/*
 * See normal_tails.h. Pr[Z > x] is e^(-x^2/2)/sqrt(2 pi) times Mills' ratio, here a Taylor series around the nearest
 * node.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/normal_tails.h"

#include <math.h>
#include <stdbool.h>

#include "lib/numerics/normal.h"

#define PER_UNIT 32 /* nodes */
#define FARTHEST ((EPS__TAIL_NODES - 1) / (double)PER_UNIT)

void eps__normal_tails_make(struct eps__normal_tails *tails)
{
    for (int k = 0; k < EPS__TAIL_NODES; k++)
        tails->ratios[k] = eps__mills(k / (double)PER_UNIT);
}

/* Mills' ratios at c + h from those at c, by the derivatives at c: m' = c m - 1, m^(j+1) = j m^(j-1) + c m^(j). */
static void series(double *out, const double *at, const double *step)
{
    for (int lane = 0; lane < EPS__LANES; lane++) {
        double c = at[lane], h = step[lane], m0 = out[lane];
        double m1 = c * m0 - 1, m2 = m0 + c * m1, m3 = 2 * m1 + c * m2, m4 = 3 * m2 + c * m3;
        double m5 = 4 * m3 + c * m4, m6 = 5 * m4 + c * m5, m7 = 6 * m5 + c * m6;
        double sum = m6 + h * (1.0 / 7) * m7;
        sum = m5 + h * (1.0 / 6) * sum;
        sum = m4 + h * (1.0 / 5) * sum;
        sum = m3 + h * (1.0 / 4) * sum;
        sum = m2 + h * (1.0 / 3) * sum;
        sum = m1 + h * 0.5 * sum;
        out[lane] = m0 + h * sum;
    }
}

/* Mills' ratios at the sizes of x. */
static void mills(const struct eps__normal_tails *tails, double *out, const double *x)
{
    double at[EPS__LANES], step[EPS__LANES];
    bool beyond = false;
    for (int lane = 0; lane < EPS__LANES; lane++) {
        double far = fabs(x[lane]), near = far < FARTHEST ? far : FARTHEST;
        int k = (int)(near * PER_UNIT + 0.5);
        at[lane] = k * (1.0 / PER_UNIT);
        step[lane] = near - at[lane];
        out[lane] = tails->ratios[k];
        beyond = beyond || !(far <= FARTHEST);
    }
    series(out, at, step);
    for (int lane = 0; lane < EPS__LANES && beyond; lane++)
        if (!(fabs(x[lane]) <= FARTHEST)) /* also NAN */
            out[lane] = eps__mills(fabs(x[lane]));
}

void eps__normal_tails(const struct eps__normal_tails *tails, double *out, const double *log_factor, const double *x)
{
    double whole[EPS__LANES], ratio[EPS__LANES];
    bool below = false; /* some x < 0, whose tail is the larger one */
    mills(tails, ratio, x);
    for (int lane = 0; lane < EPS__LANES; lane++) {
        out[lane] = log_factor[lane] - 0.5 * x[lane] * x[lane] - EPS__LOG_SQRT_2PI;
        whole[lane] = log_factor[lane];
        below = below || x[lane] < 0;
    }
    eps__exp_lanes(out, 1);
    if (below)
        eps__exp_lanes(whole, 1);
    for (int lane = 0; lane < EPS__LANES; lane++) {
        double part = out[lane] * ratio[lane];
        out[lane] = x[lane] < 0 ? whole[lane] - part : part;
    }
}
