/*
 * What renyi needs of the law of X = P/Q under Q: a file for each class of laws whose moments are known. renyi.c
 * makes bounds of them, and knows no scheme.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_RENYI_LAW_H
#define EPS_ACCOUNTANTS_RENYI_LAW_H

#include "lib/accountants/accountant.h"
#include "lib/accountants/renyi/bounds.h"

enum { EPS__GEOMETRICS_MAX = 16, EPS__LEVELS_MAX = 4 };

/* The longest column, or vector of a bin, over sigma: e^{its square} is within quadruple precision. */
#define EPS__RENYI_SHIFT_MOST 100.0

struct eps__renyi_law_class;

/* The law at one sigma. One thread at a time may use one direction of it. */
struct eps__renyi_law {
    const struct eps__renyi_law_class *class;
    struct eps__geometric geometrics[EPS__GEOMETRICS_MAX]; /* of what is at most X (A16, A18) */
    size_t geometrics_len;                                 /* at least 1 */
    /* Orders and moments may be of laws that P is but for rare[level] (M21); no levels: of P. */
    size_t levels;
    double rare[EPS__LEVELS_MAX];
    /* The example is drawn at a step whose batch is full with at most this probability; else nothing is cut (A46). And of the patterns
     * of all, that in which it never is has at least this. */
    double cut, never;
};

struct eps__renyi_law_class {
    /* Whether the mechanism's law is of this class. */
    bool (*concerns)(const struct eps__setting *setting);
    /* As in struct eps__accountant. */
    bool (*serves)(const struct eps__setting *setting, struct eps_error *error);
    void (*cost)(const struct eps__setting *setting, double *operations, double *bytes);
    double (*least_sigma)(const struct eps__setting *setting);
    /* *law: its class and its geometrics are filled in; the caller destroys it. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED,
     * EPS_TIMEOUT, as of what follows. */
    enum eps_status (*open)(struct eps__renyi_law **law, const struct eps__setting *setting, double sigma);
    /* Bounds on ln E X^a; NULL: they are not asked for. And exact moments of laws that dominate. Nothing is held unless
     * EPS_OK; the caller clears both. */
    enum eps_status (*know)(const struct eps__renyi_law *law, struct eps__orders *orders, struct eps__laws *laws);
    /* The same of one level, where there are some; then there is no know(). */
    enum eps_status (*know_level)(const struct eps__renyi_law *law, size_t level, struct eps__orders *orders,
                                  struct eps__laws *laws);
    /* Something near to these, where only a starting point is asked for: some orders, and the variance of X, which stays 0
     * beside orders that are bounds and not near to X's own. */
    enum eps_status (*approximate_orders)(const struct eps__renyi_law *law, struct eps__orders *orders,
                                          double *variance);
    void (*destroy)(struct eps__renyi_law *law);
};

/* The laws whose moments are known: one row a class. */
/* clang-format off */
#define EPS__RENYI_LAW_CLASSES(row) \
    row(b_min_sep)                  \
    row(poisson_tree)               \
    row(poisson_banded)             \
    row(balls_in_bins)
/* clang-format on */

#define EPS__DECLARE_RENYI_LAW_CLASS(name) extern const struct eps__renyi_law_class eps__renyi_##name;
EPS__RENYI_LAW_CLASSES(EPS__DECLARE_RENYI_LAW_CLASS)

/* The class of the mechanism's law (laws.c); NULL: none concerns it. */
const struct eps__renyi_law_class *eps__renyi_law_class_of(const struct eps__setting *setting);

#endif
