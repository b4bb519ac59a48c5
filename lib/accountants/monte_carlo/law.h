/*
 * The laws that Monte Carlo draws from. A law is that of the privacy loss of one mechanism at one sigma in one
 * direction (BMS section 5). A class of laws serves one sampling scheme: it has a file of its own and a row of the
 * table in laws.c. The accountant itself knows no scheme.
 *
 * A draw is a loss l and the logarithm of a weight w >= 0 such that, for every epsilon,
 *     delta(epsilon) <= E [w (1 - e^(epsilon - l))_+].
 * Plain draws come from P (remove: l = ln P/Q) or from Q (add: l = ln Q/P), with w = 1. Tilted draws come from another
 * law, and w is the likelihood ratio of P or Q to it, or a bound on it. A value is w (1 - e^(epsilon - l))_+; every
 * value is at most e^(log_most(epsilon)).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAW_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAW_H

#include "lib/accountants/accountant.h"
#include "lib/numerics/lanes/lanes.h"

struct eps__mc_law_class;

#define EPS__MC_CERTAIN 1e9 /* the loss of a draw whose value is its weight at every epsilon in range */

/* The law to open. */
struct eps__mc_aim {
    double sigma; /* > 0 */
    enum eps_direction direction;
    bool tilted; /* false: plain */
    double eps;  /* for tilted laws: the epsilon at which log_most should be least */
    /* What opening the law may take, about: then a tilt may be one that is quicker to prepare. 0: no limit */
    double operations;
    double least; /* the least epsilon at which values are used */
    bool exact;   /* losses have to be exact, where exact() says that they can be */
};

/* Immutable: any number of threads may draw from one law. */
struct eps__mc_law {
    const struct eps__mc_law_class *class;
    struct eps__mc_aim aim; /* by which another process can open it; sigma 0: not told */
    enum eps_direction direction;
    bool tilted;
    bool dominated;          /* w is a bound on the likelihood ratio, so values are within log_most at `least` alone */
    double least;            /* that of the aim */
    unsigned order;          /* the Renyi order a of a tilt by P^a Q^(1-a); 0: plain, or another tilt */
    double loss_error;       /* absolute error bound of a computed loss */
    double log_weight_error; /* absolute error bound of a computed ln w */
    size_t scratch;          /* doubles that draw() needs as scratch space */
    double operations;       /* estimated operations of EPS__LANES draws */
};

struct eps__mc_law_class {
    /* Whether the class is responsible for the mechanism's scheme. */
    bool (*concerns)(const struct eps_mechanism *mechanism);
    /* Whether it serves the setting; if not, it returns false and sets the error. */
    bool (*serves)(const struct eps__setting *setting, struct eps_error *error);
    /* Whether losses can be ln P/Q itself, and not a bound on it. An audit needs this. */
    bool (*exact)(const struct eps__setting *setting);
    /* Estimates the operations of one plain draw, and the bytes of a law with its scratch space. */
    void (*cost)(const struct eps__setting *setting, double *operations, double *bytes);
    /* Appends the assumptions of the draws beyond those of the scheme; NULL: none. */
    void (*assume)(struct eps__sentences *list, const struct eps__setting *setting);
    /* Opens a law, which the caller destroys. EPS_OK; EPS_UNSUPPORTED: the class has no tilted law here;
     * EPS_TOO_COSTLY: it would take more than aim->operations; EPS_NO_MEMORY and what the computation of a law may fail
     * with. */
    enum eps_status (*open)(struct eps__mc_law **law, const struct eps__setting *setting,
                            const struct eps__mc_aim *aim);
    /* Computes the losses and log weights of the draws first .. first + EPS__LANES - 1 of the stream. scratch has
     * law->scratch doubles and is aligned to 64 bytes. If the stream stops (eps__stream_stops()), the output is
     * undefined. */
    void (*draw)(const struct eps__mc_law *law, const struct eps__stream *stream, uint32_t first, double *scratch,
                 double *loss, double *log_weight);
    /* ln of an upper bound on all values at eps, which falls with eps; of a dominated law an estimate of it at an eps
     * above the least. NULL: the bound is 1. */
    double (*log_most)(const struct eps__mc_law *law, double eps);
    void (*destroy)(struct eps__mc_law *law);
};

/* The classes of laws: the first row that concerns a mechanism serves it, so truncated precedes b_min_sep. */
/* clang-format off */
#define EPS__MC_LAW_CLASSES(row) \
    row(truncated)               \
    row(b_min_sep)               \
    row(balls_in_bins)           \
    row(poisson)
/* clang-format on */

#define EPS__DECLARE_MC_LAW_CLASS(name) extern const struct eps__mc_law_class eps__mc_##name;
EPS__MC_LAW_CLASSES(EPS__DECLARE_MC_LAW_CLASS)

/* The class that is responsible for the mechanism; NULL: Monte Carlo does not support its scheme. */
const struct eps__mc_law_class *eps__mc_law_class_of(const struct eps_mechanism *mechanism);

#endif
