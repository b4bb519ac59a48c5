/*
 * A bound for balls in bins that is a composition: of one epoch after another, and of what the bins share. Each part is
 * a curve that is known, that of orthogonal bins of one norm; one bin is a Gaussian.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_PLD_BIN_CURVES_H
#define EPS_ACCOUNTANTS_PLD_BIN_CURVES_H

#include "lib/accountants/accountant.h"
#include "lib/accountants/stepper.h"

enum { EPS__BIN_CURVES_MAX = 9 };

/* `count` times `bins` orthogonal vectors whose norm is in [lower, upper], both > 0. */
struct eps__bin_curve {
    size_t bins, count;
    double lower, upper;
};

struct eps__bin_curves {
    struct eps__bin_curve items[EPS__BIN_CURVES_MAX];
    size_t len;
    double total; /* the norm of the Gaussian in which the bins are known, over all epochs; rounded up */
};

/* The least sigma at which a composition with norms of at most `largest` is resolved. */
double eps__bin_curves_least_sigma(double largest);

/* Adds the curves for `count` runs. EPS_NO_MEMORY. */
EPS_MUST_USE enum eps_status eps__bin_curves_add(const struct eps__curve_sink *sink, const struct eps_context *context,
                                                 const struct eps__bin_curves *curves, enum eps_direction direction,
                                                 double sigma, uint64_t count);

/* Their composition as a profile. EPS_NO_MEMORY. */
EPS_MUST_USE enum eps_status eps__bin_curves_open(const struct eps__bin_curves *curves,
                                                  const struct eps_context *context, double sigma,
                                                  const struct eps__accuracy *accuracy, struct eps__profile **profile);

#endif
