/*
 * square_root: the Toeplitz square root of a Toeplitz workload, whole or cut to some bands (banded square root).
 * For 1/((1 - decay x)(1 - momentum x)), which prefix sums and momentum are, the coefficients of the root satisfy a
 * three-term recursion (the generating function's logarithmic derivative is rational): O(n), and no transform's
 * rounding in small coefficients. Other workloads take the root of their power series.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>

#include "lib/numerics/convolve.h"
#include "lib/strategy/internal.h"

/*
 * f = ((1 - a x)(1 - m x))^(-1/2), so (1 - a x)(1 - m x) f' = ((a + m)/2 - a m x) f, that is
 * (t + 1) f_{t+1} = (a + m)(t + 1/2) f_t - a m t f_{t-1}; without momentum f_t = f_{t-1} a (1 - 1/(2t)).
 */
static void recursive_root(double *out, size_t len, double a, double m)
{
    out[0] = 1;
    for (size_t i = 1; i < len; i++) {
        double t = (double)(i - 1), before = i > 1 ? out[i - 2] : 0;
        out[i] = ((a + m) * (t + 0.5) * out[i - 1] - a * m * t * before) / (t + 1);
    }
}

enum eps_status eps__build_square_root(const struct eps_context *context, struct eps_strategy *s,
                                       struct eps_error *error, const struct eps_mechanism *mechanism)
{
    (void)context;
    const struct eps__workload *w = &s->workload;
    size_t bands = mechanism->matrix.bands, len = bands && bands < s->block ? bands : s->block;
    if (!eps__workload_is_toeplitz(w))
        return eps__error(error, EPS_INVALID, "/workload/cooldown",
                          "square_root needs a Toeplitz workload: leave the cooldown out, or choose "
                          "another family");
    if (!w->recursive && !(w->coefficients[0] > 0))
        return eps__error(error, EPS_INVALID, "/workload/coefficients/0",
                          "must be positive: square_root takes the root of the workload");
    double *root = malloc(len * sizeof *root);
    if (!root)
        return eps__strategy_no_memory(error);
    if (w->recursive) {
        recursive_root(root, len, w->decay, w->momentum);
    } else if (!eps__series_sqrt(root, len, w->coefficients, w->coefficients_len)) {
        free(root);
        return eps__strategy_no_memory(error);
    }
    eps__toeplitz_steal(s, root, len);
    return EPS_OK;
}
