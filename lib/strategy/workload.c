/*
 * The workload matrix A. Prefix sums and momentum share one recursion; prefix sums are the case without momentum and
 * decay. Row t of A is decay times row t-1 plus eta_t times row t of the momentum matrix; that row is momentum times
 * its own row t-1 plus a unit vector. So nothing is stored for them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/workload.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/members.h"
#include "lib/numerics/fft/convolve.h"
#include "lib/strategy/failures.h"

struct eps_workload eps__workload_default(void)
{
    struct eps_workload workload;
    eps__members_init(&eps__workload_object, &workload);
    return workload;
}

enum eps_status eps__workload_init(struct eps__workload *w, struct eps_error *error,
                                   const struct eps_mechanism *mechanism)
{
    const struct eps_workload *given = &mechanism->workload;
    *w = (struct eps__workload){.recursive = true, .decay = 1, .cooldown_to = 1, .n = mechanism->n};
    if (given->type == EPS_WORKLOAD_MOMENTUM) {
        w->momentum = given->momentum;
        w->decay = given->decay;
        w->cooldown_start = given->cooldown ? given->cooldown_from * (double)w->n : (double)w->n;
        w->cooldown_to = given->cooldown ? given->cooldown_to : 1;
        w->cooldown = given->cooldown && w->cooldown_to != 1 && w->cooldown_start < (double)(w->n - 1);
    } else if (given->type == EPS_WORKLOAD_TOEPLITZ) {
        if (!given->coefficients || !given->coefficients_len || given->coefficients_len > w->n)
            return eps__error(error, EPS_INVALID, "/workload/coefficients", "must hold between 1 and n = %zu numbers",
                              w->n);
        w->recursive = false;
        w->coefficients_len = given->coefficients_len;
        w->coefficients = malloc(w->coefficients_len * sizeof *w->coefficients);
        if (!w->coefficients)
            return eps__strategy_no_memory(error);
        memcpy(w->coefficients, given->coefficients, w->coefficients_len * sizeof *w->coefficients);
    }
    return EPS_OK;
}

enum eps_status eps__workload_of_block(struct eps__workload *w, struct eps_error *error,
                                       const struct eps_mechanism *mechanism, size_t n)
{
    struct eps_mechanism block = *mechanism;
    block.n = n;
    if (block.workload.coefficients_len > n)
        block.workload.coefficients_len = n;
    return eps__workload_init(w, error, &block);
}

void eps__workload_clear(struct eps__workload *w)
{
    free(w->coefficients);
    w->coefficients = NULL;
}

bool eps__workload_is_toeplitz(const struct eps__workload *w)
{
    return !w->cooldown;
}

double eps__workload_rate(const struct eps__workload *w, size_t step)
{
    if (!w->cooldown || (double)step <= w->cooldown_start)
        return 1;
    double gone = ((double)step - w->cooldown_start) / ((double)w->n - w->cooldown_start);
    return 1 - (1 - w->cooldown_to) * gone;
}

void eps__workload_coefficients(const struct eps__workload *w, double *out, size_t len)
{
    if (!w->recursive) {
        size_t given = len < w->coefficients_len ? len : w->coefficients_len;
        memcpy(out, w->coefficients, given * sizeof *out);
        memset(out + given, 0, (len - given) * sizeof *out);
        return;
    }
    double value = 0, power = 1;
    for (size_t t = 0; t < len; t++) {
        out[t] = value = w->decay * value + power;
        power *= w->momentum;
    }
}

/*
 * f = ((1 - a x)(1 - m x))^p, so (1 - a x)(1 - m x) f' = p (2 a m x - a - m) f, that is
 * (t + 1) f_{t+1} = (a + m)(t - p) f_t - a m (t - 1 - 2 p) f_{t-1}.
 * For p = -1/2 and m = 0, f_t = f_{t-1} a (1 - 1/(2t)).
 */
void eps__workload_power(const struct eps__workload *w, double *out, size_t len, double power)
{
    double a = w->decay, m = w->momentum;
    out[0] = 1;
    for (size_t i = 1; i < len; i++) {
        double t = (double)(i - 1), before = i > 1 ? out[i - 2] : 0;
        out[i] = ((a + m) * (t - power) * out[i - 1] - a * m * (t - 1 - 2 * power) * before) / (t + 1);
    }
}

enum eps_status eps__inverse_root(double **out, struct eps_error *error, const struct eps__workload *w, size_t len)
{
    double *inverse = malloc(len * sizeof *inverse), *root = w->recursive ? NULL : malloc(len * sizeof *root);
    bool ok = inverse && (w->recursive || root);
    if (ok && w->recursive)
        eps__workload_power(w, inverse, len, 0.5);
    else if (ok)
        ok = eps__series_sqrt(root, len, w->coefficients, w->coefficients_len) &&
             eps__series_inverse(inverse, len, root, len);
    free(root);
    if (!ok) {
        free(inverse);
        return eps__strategy_no_memory(error);
    }
    *out = inverse;
    return EPS_OK;
}

void eps__workload_row(const struct eps__workload *w, double *out, size_t t)
{
    if (!w->recursive) {
        for (size_t j = 0; j <= t; j++)
            out[j] = t - j < w->coefficients_len ? w->coefficients[t - j] : 0;
        return;
    }
    /* A_tj = momentum A_t,j+1 + decay^(t-j) eta_j, from the diagonal leftwards. */
    double value = 0, power = 1;
    for (size_t j = t + 1; j-- > 0;) {
        out[j] = value = w->momentum * value + power * eps__workload_rate(w, j);
        power *= w->decay;
    }
}
