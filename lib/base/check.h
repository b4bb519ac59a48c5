/*
 * Collects violations of a job's rules. Internal to lib/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_BASE_CHECK_H
#define EPS_BASE_CHECK_H

#include "lib/epsilon.h"

/* One run of eps_job_check(): what is checked and where violations are reported. */
struct eps__check {
    const struct eps_job *job;
    const char *prefix; /* prepended to every pointer: "/phases/I" while phase I is checked, else "" */
    size_t n;           /* the job's n; 0 if that is invalid */
    size_t block;       /* steps of one stamp; 0 if n or stamps is invalid */
    size_t max_n;
    eps_report_fn *report;
    void *user;
    size_t violations;
};

/* Reports a violation at `pointer`, below the prefix, with a formatted message of at most 319 characters. */
void eps__check_fail(struct eps__check *check, const char *pointer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns the multiple of `of` >= 1 that is nearest to n and at least `of`; the one below n if the one above exceeds
 * max_n. */
size_t eps__check_nearest_multiple(const struct eps__check *check, size_t of);

/*
 * The real numbers of a job that have a range. Finite numbers outside are refused: no practical mechanism needs them,
 * and they would make squares underflow or counts overflow. api/openapi.yaml states the same ranges.
 */
enum eps__quantity {
    EPS__EPSILON,
    EPS__DELTA,
    EPS__NOISE_MULTIPLIER,
    EPS__NOISE_SCALE,
    EPS__PROBABILITY,
    EPS__GAP,
    EPS__MOMENTUM,
    EPS__WEIGHT_DECAY,
    EPS__COOLDOWN_FROM,
    EPS__COOLDOWN_TO,
    EPS__TOLERANCE,
    EPS__BAD_EVENT_SHARE,
    EPS__THRESHOLD_SHARE,
    EPS__SECONDS,
    EPS__QUANTITIES
};

/* Returns whether the value lies in the range of the quantity. NAN lies in none. */
bool eps__in_range(enum eps__quantity quantity, double value);
/* The range of the quantity as messages show it, such as "[1e-12, 1)". Static. */
const char *eps__range_text(enum eps__quantity quantity);
/* Like eps__in_range(), and reports a violation that states the range if the value lies outside. */
bool eps__check_range(struct eps__check *check, const char *pointer, enum eps__quantity quantity, double value);

/* The `user` of eps__keep_first(), an eps_report_fn that turns the first violation into an EPS_INVALID error and
 * ignores the rest. error may be NULL. */
struct eps__first_violation {
    struct eps_error *error;
    bool seen;
};

void eps__keep_first(void *first, const char *pointer, const char *message);

enum { EPS__LISTED_MAX = 16 }; /* violations reported per array */

/* Limits of the magnitude of matrix entries. Squares within them, and sums of squares, neither overflow nor
 * underflow. */
#define EPS__ENTRY_MOST 1e100
#define EPS__ENTRY_LEAST 1e-100

/* Checks that every magnitude is at most EPS__ENTRY_MOST. Pointers name the index, or the row and column if columns
 * > 0. */
void eps__check_entries(struct eps__check *check, const char *pointer, const double *values, size_t len,
                        size_t columns);
/* Also checks that the largest magnitude is 0 or at least EPS__ENTRY_LEAST. */
void eps__check_matrix_entries(struct eps__check *check, const char *pointer, const double *values, size_t len,
                               size_t columns);
/* Also checks that there are 1 to `most` numbers; most 0: no upper limit. */
void eps__check_first_column(struct eps__check *check, const char *pointer, const double *values, size_t len,
                             size_t most);

#endif
