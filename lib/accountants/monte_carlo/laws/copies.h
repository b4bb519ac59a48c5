/*
 * What tilts by copies share: y is drawn from R = P^a Q^(1-a)/Z, where Z = E_Q (P/Q)^a, as the sum of a copies of the
 * example and noise. The weight is w = dP/dR = Z (P/Q)^(1-a) (A29).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_COPIES_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_COPIES_H

struct eps__mc_copies {
    unsigned order;            /* a >= 2; 0: no tilt */
    double log_z, log_z_error; /* ln Z, and its absolute error bound */
    double log_density_error;  /* the absolute error bound of ln of the probability of a draw of the copies */
};

/* ln of the bound on values w (1 - e^(eps - loss))_+ at eps, before rounding. */
double eps__mc_copies_log_value(const struct eps__mc_copies *copies, double eps);

/* ln w of a loss. */
double eps__mc_copies_log_weight(const struct eps__mc_copies *copies, double loss);

/* The absolute error bound of ln w, if losses are within loss_error. */
double eps__mc_copies_error(const struct eps__mc_copies *copies, double loss_error);

/* ln of an upper bound on every value at eps, rounded up. */
double eps__mc_copies_most(const struct eps__mc_copies *copies, double eps, double loss_error);

/*
 * Sets a loss and ln of a weight whose value bounds that of every loss from `low` to `high` at every epsilon from
 * `least` on, and at `least` is at most e^(eps__mc_copies_log_value(least)), before rounding (A54). low may be
 * -INFINITY and high INFINITY.
 */
void eps__mc_copies_between(double *loss, double *log_weight, const struct eps__mc_copies *copies, double least,
                            double low, double high);

#endif
