/*
 * Violations of a job's rules: where they go, for all who check a part of it. Internal to lib/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_CHECK_H
#define EPS_CHECK_H

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

/* A report that makes the first violation an error. */
struct eps__first_violation {
    struct eps_error *error;
    bool seen;
};

void eps__keep_first(void *first, const char *pointer, const char *message);

enum { EPS__LISTED_MAX = 16 }; /* offenders named per array */

/* Each must be finite; pointers name the row and the column where there are columns. */
void eps__check_finite(struct eps__check *check, const char *pointer, const double *values, size_t len, size_t columns);
/* 1 to `most` finite numbers; most 0: any. */
void eps__check_first_column(struct eps__check *check, const char *pointer, const double *values, size_t len,
                             size_t most);

#endif
