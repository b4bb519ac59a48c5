/*
 * What the searches for an epsilon, a delta and a noise multiplier have in common: which law they draw from, how many
 * draws they make, and what they say of them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_SEARCH_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_SEARCH_H

#include "lib/accountants/monte_carlo/draws.h"
#include "lib/accountants/monte_carlo/guarantee.h"

enum {
    EPS__MC_PILOT_PLAIN = 1 << 16, /* plain draws of a pilot */
    EPS__MC_PILOT_TILTED = 1 << 13 /* tilted draws of a pilot */
};

#define EPS__MC_SHARE 0.5 /* the default of threshold_share */

struct eps__mc_search {
    const struct eps__setting *setting;
    const struct eps__mc_law_class *class;
    enum eps_direction direction;
    const struct eps_tuning *tuning;
    uint64_t seed;
    double begun, until; /* seconds of CLOCK_MONOTONIC */
    double until_alone;  /* `until` if the other direction needs no draws */
    double other;        /* the proven value of the other direction; -INFINITY: it needs no draws */
    double rate;         /* draws per second that a pilot measured; 0: not known */
    double from, to;     /* the part of the estimated work, in [0, 1], that the next draws are */
    double opening;      /* the most operations for opening a law (struct eps__mc_aim); 0: no limit */
    struct eps_error *error;
};

/* Whether monte_carlo serves the setting; if not, it sets the error. */
bool eps__mc_serves(const struct eps__setting *setting, struct eps_error *error);

/* The bound on the values of a law at eps. */
double eps__mc_most_at(const struct eps__mc_law *law, double eps);

/* Opens the law at sigma that needs the fewest draws for epsilons near eps, of those that the job allows. Values are
 * used from epsilon `least` on. Statuses are those of struct eps__mc_law_class's open(); EPS_UNSUPPORTED: tilted draws
 * were asked for, and there are none. */
enum eps_status eps__mc_open_law(struct eps__mc_law **law, const struct eps__mc_search *search, double sigma,
                                 double eps, double least);

/* Uses the time of the other direction as well if its proven value is at most `expected`, about the answer of this
 * one: then the other direction will need no draws. */
void eps__mc_take_all(struct eps__mc_search *search, double expected);

/* Declares that the next draws are this share of the remaining work. */
void eps__mc_begin_share(struct eps__mc_search *search, double share);

/* Makes an estimator and the draws of `run` into it; the members of `run` that a search has follow from it. The caller
 * clears the estimator, whatever the status. EPS_TOO_COSTLY, and as eps__mc_draw(). */
enum eps_status eps__mc_make(struct eps__mc_estimator *estimator, bool *complete, bool *over,
                             const struct eps__mc_search *search, const struct eps__mc_grid *grid,
                             struct eps__mc_run run);

/* Rounds a number of samples up to whole chunks, within the least and the most that are drawn. */
uint64_t eps__mc_whole_samples(double samples);

/* The number of draws that is always affordable. Under a time limit it is at most a third of what the remaining time
 * allows, as far as the rate is known. */
double eps__mc_cheap_samples(const struct eps__mc_search *search, const struct eps__mc_law *law);

/* Chooses the number of samples and the threshold with which the promise is verified. If the job sets samples, the
 * threshold follows from them. Otherwise threshold_share sets the threshold, and samples are as few as it needs; with
 * the default share, cheap draws may be more, which raises the threshold. False if the samples are too few. */
bool eps__mc_choose_samples(const struct eps__mc_search *search, const struct eps__mc_law *law,
                            const struct eps__mc_promise *promise, double most, uint64_t *samples, double *threshold);
enum eps_status eps__mc_refuse_samples(const struct eps__mc_search *search, const struct eps__mc_promise *promise,
                                       double most);

/* Fills in *draws, whose threshold, bound and probability of failure are given. */
void eps__mc_describe(struct eps_draws *draws, const struct eps__mc_search *search, const struct eps__mc_law *law,
                      const struct eps__mc_estimator *estimator, size_t cell, const struct eps__mc_promise *promise);

/* Finds a noise multiplier below `proven`, which is proven without draws (noise_multiplier.c). EPS_UNATTAINABLE: none
 * was verified. */
enum eps_status eps__mc_solve_noise(struct eps__answer *answer, struct eps__mc_search *search, double proven);

#endif
