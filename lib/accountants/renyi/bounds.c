/*
 * Bounds from single Rényi orders, and from the geometric mean.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/renyi/bounds.h"

#include <math.h>

#include "lib/numerics/normal.h"

#define ORDER_LEAST 1.001 /* as the order tends to 1, the bound tends to 1 */

/*
 * ln of the least of (E X^a) e^{-(a-1) eps} (1-1/a)^a/(a-1) over a in (below, below + 1], with the chord in place of
 * ln E X^a (A15). The derivative in a, slope - eps + ln(1 - 1/a), rises, so the minimum is at its root or at an end.
 * Every a gives a valid bound.
 */
static double least_on_chord(double left, double right, unsigned below, enum eps__estimate estimate, double eps,
                             double *order)
{
    double slope = right - left, a = slope > eps ? -1 / expm1(eps - slope) : INFINITY;
    a = fmin(fmax(a, fmax(below, ORDER_LEAST)), below + 1.0);
    double share = a - below, kept = log1p(-1 / a) * a, over = log(a - 1);
    double value = (1 - share) * left + share * right - (a - 1) * eps + kept - over;
    double sizes = fabs(left) + fabs(right) + (a - 1) * eps + fabs(kept) + fabs(over) + a / (a - 1);
    *order = a;
    return eps__shift(estimate, value, 8 * EPS__UNIT_ROUNDOFF * sizes);
}

double eps__orders_log_delta(const struct eps__orders *orders, enum eps__estimate estimate, double eps, unsigned *order)
{
    const double *log_moment = estimate == EPS__UPPER ? orders->log_upper : orders->log_lower;
    double least = INFINITY;
    *order = 0;
    for (unsigned below = 1; below < orders->len; below++) {
        double a, value;
        if (!isfinite(log_moment[below]) || !isfinite(log_moment[below + 1]))
            continue;
        value = least_on_chord(log_moment[below], log_moment[below + 1], below, estimate, eps, &a);
        if (value < least) {
            least = value;
            *order = (unsigned)ceil(a);
        }
    }
    return least;
}

/* The product of independent geometric means is lognormal, and its parameters are the sums of theirs (M16). The form
 * that uses empty bins does not apply to it. */
static struct eps__geometric repeated(struct eps__geometric geometric, size_t draws)
{
    geometric.empty = 0;
    geometric.trace.upper = eps__raise((double)draws * geometric.trace.upper, 4);
    geometric.trace.lower = eps__lower((double)draws * geometric.trace.lower, 4);
    geometric.total.upper = eps__raise((double)draws * geometric.total.upper, 4);
    geometric.total.lower = eps__lower((double)draws * geometric.total.lower, 4);
    return geometric;
}

struct eps__geometric eps__geometric_of(const struct eps__bin_gram *bins, size_t draws)
{
    struct eps__geometric geometric = {.len = (double)bins->len};
    struct eps__sum trace = {0}, total = {0};
    for (size_t i = 0; i < bins->len; i++) {
        geometric.empty += bins->diagonal[i] == 0;
        eps__sum_add(&trace, bins->diagonal[i]);
        for (size_t j = 0; bins->gram && j < bins->len; j++)
            eps__sum_add(&total, bins->gram[i * bins->len + j]);
    }
    geometric.trace = eps__sum_interval(&trace, 0);
    geometric.total = bins->gram ? eps__sum_interval(&total, 0) : geometric.trace;
    return draws > 1 ? repeated(geometric, draws) : geometric;
}

/*
 * ln E (A - B e^{-m + s Z})_+ for log_a = ln A and log_b = ln B, with 2 m = trace/shown and s^2 = total/shown^2 for
 * `shown` bins. This is A times the delta of a Gaussian of shift s at epsilon = ln(B/A) - m + s^2/2, which rises with
 * the shift and falls with epsilon. So the estimate takes the shift and epsilon at the ends that keep it a bound.
 */
static double put_on_mean(const struct eps__geometric *geometric, enum eps__estimate estimate, double shown,
                          double log_a, double log_b)
{
    bool upper = estimate == EPS__UPPER;
    double trace = upper ? geometric->trace.upper : geometric->trace.lower;
    double wide = upper ? geometric->total.upper : geometric->total.lower;
    double narrow = upper ? geometric->total.lower : geometric->total.upper, rounding;
    double m = trace / (2 * shown), gained = narrow / (2 * shown * shown), eps = log_b - log_a - m + gained;
    double error = 8 * EPS__UNIT_ROUNDOFF * (fabs(log_a) + fabs(log_b) + m + gained);
    double shift = eps__outward(estimate, sqrt(fmax(wide, DBL_MIN)) / shown, 6);
    eps = eps__shift(eps__other(estimate), eps, error);
    double value = eps__gaussian_log_delta(shift, eps, &rounding);
    return eps__certain(estimate, eps__shift(estimate, log_a + value, rounding + 2 * EPS__UNIT_ROUNDOFF * fabs(log_a)));
}

double eps__geometric_log_delta(const struct eps__geometric *geometric, enum eps__estimate estimate, double eps)
{
    double shown = geometric->len - geometric->empty;
    if (!(shown > 0))
        return -INFINITY;
    double least = put_on_mean(geometric, estimate, geometric->len, 0, eps);
    if (geometric->empty > 0) {
        /* X is at least the share of the empty bins plus the share of the others times their geometric mean. */
        double share = geometric->empty / geometric->len;
        double certain = eps__outward(eps__other(estimate), share * eps__exp_bound(eps__other(estimate), eps, 0), 6);
        double left = estimate == EPS__UPPER ? eps__add_up(1, -certain) : eps__add_down(1, -certain);
        if (!(left > 0))
            return -INFINITY;
        double log_b = eps + log(shown / geometric->len);
        least = fmin(least, put_on_mean(geometric, estimate, shown, log(left), log_b));
    }
    return fmin(least, 0);
}
