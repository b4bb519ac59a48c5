/*
 * What Monte Carlo draws from: the law of the privacy loss of one mechanism at one sigma, in one direction (BMS section
 * 5). A class of laws belongs to one scheme: it is a file and a row of the table in laws.c. The accountant knows no
 * scheme.
 *
 * A draw is a loss l and the logarithm of a weight w >= 0 such that, for every epsilon,
 *     delta(epsilon) <= E [w (1 - e^(epsilon - l))_+]:
 * plain draws are of P (remove: l = ln P/Q) or of Q (add: l = ln Q/P), and w = 1. Tilted ones are of another law, whose
 * likelihood ratio is w, and every value w (1 - e^(epsilon - l))_+ is at most e^(log_most(epsilon)).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAW_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAW_H

#include "lib/accountants/accountant.h"
#include "lib/numerics/lanes/lanes.h"

struct eps__mc_law_class;

/* Immutable: any number of threads may draw from one. */
struct eps__mc_law {
    const struct eps__mc_law_class *class;
    enum eps_direction direction;
    bool tilted;
    unsigned order;          /* of the Renyi divergence that it is tilted by; 0: none, or another tilt */
    double loss_error;       /* no loss is computed further than this from that of its draw, downwards */
    double log_weight_error; /* as of ln w */
    size_t scratch;          /* numbers that draw() works in */
    double operations;       /* of EPS__LANES draws, about */
};

/* What is wanted of a law. */
struct eps__mc_aim {
    double sigma; /* over 0 */
    enum eps_direction direction;
    bool tilted; /* false: plain */
    double eps;  /* tilted: where log_most should be least */
};

struct eps__mc_law_class {
    /* Whose mechanisms these are. */
    bool (*concerns)(const struct eps_mechanism *mechanism);
    /* Whether it serves the setting; if not, false and why. */
    bool (*serves)(const struct eps__setting *setting, struct eps_error *error);
    /* Whether P/Q is computed, and not a bound on it: what an audit needs. */
    bool (*exact)(const struct eps__setting *setting);
    /* About the operations of one plain draw, and the bytes of a law and its scratch. */
    void (*cost)(const struct eps__setting *setting, double *operations, double *bytes);
    /* What its draws assume beyond what the scheme does; NULL: nothing. */
    void (*assume)(struct eps__sentences *list, const struct eps__setting *setting);
    /* EPS_OK and a law, which the caller destroys; EPS_UNSUPPORTED: it knows no tilt here. */
    enum eps_status (*open)(struct eps__mc_law **law, const struct eps__setting *setting,
                            const struct eps__mc_aim *aim);
    /* The losses and log weights of the draws first .. first + EPS__LANES - 1 of the stream; scratch: law->scratch numbers, aligned to 64
     * bytes. Where the stream stops (eps__stream_stops()), nothing: what is written then is of no use. */
    void (*draw)(const struct eps__mc_law *law, const struct eps__stream *stream, uint32_t first, double *scratch,
                 double *loss, double *log_weight);
    /* ln of what a value is at most, rounded up, falling with eps; NULL: 0 for all. */
    double (*log_most)(const struct eps__mc_law *law, double eps);
    void (*destroy)(struct eps__mc_law *law);
};

/* The laws that are drawn from: one row a class. */
/* clang-format off */
#define EPS__MC_LAW_CLASSES(row) \
    row(truncated)               \
    row(b_min_sep)               \
    row(balls_in_bins)           \
    row(poisson)
/* clang-format on */

#define EPS__DECLARE_MC_LAW_CLASS(name) extern const struct eps__mc_law_class eps__mc_##name;
EPS__MC_LAW_CLASSES(EPS__DECLARE_MC_LAW_CLASS)

/* The class of the mechanism's law (laws.c); NULL: none concerns it. */
const struct eps__mc_law_class *eps__mc_law_class_of(const struct eps_mechanism *mechanism);

#endif
