/*
 * The interface to the law of X = P/Q under Q. Each class of laws with known moments has its own file. renyi.c turns
 * the moments into bounds and does not depend on the scheme.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_RENYI_LAW_H
#define EPS_ACCOUNTANTS_RENYI_LAW_H

#include "lib/accountants/accountant.h"
#include "lib/accountants/renyi/residual.h"

enum { EPS__GEOMETRICS_MAX = 16, EPS__LEVELS_MAX = 4 };

/* The largest norm over sigma of a column, or of the vector m_i of a bin: e to its square is within quadruple
 * precision. */
#define EPS__RENYI_SHIFT_MOST 100.0

struct eps__renyi_law_class;

/* The law at one sigma. Two threads may use its two directions concurrently; one direction is thread-compatible. */
struct eps__renyi_law {
    const struct eps__renyi_law_class *class;
    struct eps__geometric geometrics[EPS__GEOMETRICS_MAX]; /* each is at most X (A16, A18) */
    size_t geometrics_len;                                 /* at least 1 */
    bool shares; /* the moments are known beside a factor that all bins share (M28) */
    /* With levels, the orders and moments of a level are those of P without patterns of total probability rare[level]
     * (M21). 0 levels: they are those of P. */
    size_t levels;
    double rare[EPS__LEVELS_MAX];
    /* An upper bound on the probability that the example is drawn at a step whose batch is full, 0 if no batch is
     * truncated; what that adds further to add, at any epsilon (psi of A46); and a lower bound on the probability that
     * the example is never drawn. */
    double cut, cut_add, never;
};

struct eps__renyi_law_class {
    /* Whether the mechanism's law is of this class. */
    bool (*concerns)(const struct eps__setting *setting);
    /* These three are as in struct eps__accountant. */
    bool (*serves)(const struct eps__setting *setting, struct eps_error *error);
    void (*cost)(const struct eps__setting *setting, double *operations, double *bytes);
    double (*least_sigma)(const struct eps__setting *setting);
    /* Makes a law with its class and geometrics filled in; the caller destroys it. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED
     * or EPS_TIMEOUT; the same statuses hold for the functions below. */
    enum eps_status (*open)(struct eps__renyi_law **law, const struct eps__setting *setting, double sigma);
    /* Computes bounds on ln E X^a for integers a (orders may be NULL), and exact moments of dominating laws. The caller
     * clears both; on failure nothing is allocated. */
    enum eps_status (*know)(const struct eps__renyi_law *law, struct eps__orders *orders, struct eps__laws *laws);
    /* Computes one order more than *orders and *laws hold, and puts it into both; to remove only. *more: false if the
     * limits allow none, and nothing changes. NULL: know() computes all. */
    enum eps_status (*know_more)(const struct eps__renyi_law *law, struct eps__orders *orders, struct eps__laws *laws,
                                 bool *more);
    /* Computes bounds on ln E X^a for more orders than *known (M22), to remove only. The caller clears; on failure
     * nothing is allocated. NULL: know() computes all. */
    enum eps_status (*know_groups)(const struct eps__renyi_law *law, const struct eps__orders *known,
                                   struct eps__orders *orders);
    /* The same as know() for one level, if the law has levels; then know() is NULL. */
    enum eps_status (*know_level)(const struct eps__renyi_law *law, size_t level, struct eps__orders *orders,
                                  struct eps__laws *laws);
    /* The law of the residual of geometrics[index] under the tilt t (A50). The caller clears residual->laws. NULL: no
     * residual is known. */
    enum eps_status (*know_residual)(const struct eps__renyi_law *law, size_t index, double t,
                                     struct eps__residual_law *residual);
    /* Fast approximations for a starting point: some orders (orders may be NULL), and the variance of X. The variance
     * stays 0 if the orders are bounds rather than approximations of the moments of X. */
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
