/*
 * Violations of a job's rules: where they go, for all who check a part of it. Internal to lib/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_BASE_CHECK_H
#define EPS_BASE_CHECK_H

#include "lib/epsilon.h"

/* One run of eps_job_check(): what is checked, and where violations go. */
struct eps__check {
    const struct eps_job *job;
    const char *prefix; /* of every pointer: of the phase that is checked; "" */
    size_t n;           /* 0 where the job's is wrong */
    size_t block;       /* steps of one stamp; 0 where n or stamps is wrong */
    size_t max_n;
    eps_report_fn *report;
    void *user;
    size_t violations;
};

void eps__check_fail(struct eps__check *check, const char *pointer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The multiple of `of`, at least 1, that is nearest to n; the one below where the one above is over max_n. */
size_t eps__check_nearest_multiple(const struct eps__check *check, size_t of);

/*
 * What is computed of each of a job's real numbers: the finite rest is refused, for what lies so far out no mechanism has
 * ever had, and there squares underflow, and counts overflow. api/openapi.yaml has the same ranges.
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

bool eps__in_range(enum eps__quantity quantity, double value);
/* The range as messages write it: "[1e-12, 1)". Static. */
const char *eps__range_text(enum eps__quantity quantity);
/* Says the range where the value does not lie in it; true where it does. NaN lies in none. */
bool eps__check_range(struct eps__check *check, const char *pointer, enum eps__quantity quantity, double value);

/* A report that makes the first violation an error. */
struct eps__first_violation {
    struct eps_error *error;
    bool seen;
};

void eps__keep_first(void *first, const char *pointer, const char *message);

enum { EPS__LISTED_MAX = 16 }; /* offenders named per array */

/* Squares, and sums of as many as there are, are far from where doubles end. */
#define EPS__ENTRY_MOST 1e100
#define EPS__ENTRY_LEAST 1e-100

/* Each must be of a size of at most EPS__ENTRY_MOST; pointers name the row and the column where there are columns. */
void eps__check_entries(struct eps__check *check, const char *pointer, const double *values, size_t len,
                        size_t columns);
/* And the largest size must be 0, or EPS__ENTRY_LEAST at least. */
void eps__check_matrix_entries(struct eps__check *check, const char *pointer, const double *values, size_t len,
                               size_t columns);
/* 1 to `most` such numbers; most 0: any. */
void eps__check_first_column(struct eps__check *check, const char *pointer, const double *values, size_t len,
                             size_t most);

#endif
