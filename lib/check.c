/*
 * Reporting a violation, and the rules of lists of numbers.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "lib/error.h"

void eps__check_fail(struct eps__check *check, const char *pointer, const char *format, ...)
{
    char message[320], where[160];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    check->violations++;
    snprintf(where, sizeof where, "%s%s", check->prefix, pointer);
    if (check->report)
        check->report(check->user, where, message);
}

void eps__keep_first(void *user, const char *pointer, const char *message)
{
    struct eps__first_violation *first = user;
    if (first->seen)
        return;
    first->seen = true;
    eps__error(first->error, EPS_INVALID, pointer, "%s", message);
}

void eps__check_finite(struct eps__check *check, const char *pointer, const double *values, size_t len, size_t columns)
{
    size_t listed = 0;

    for (size_t i = 0; i < len && listed < EPS__LISTED_MAX; i++) {
        char where[96];
        if (isfinite(values[i]))
            continue;
        listed++;
        if (columns > 0)
            snprintf(where, sizeof where, "%s/%zu/%zu", pointer, i / columns, i % columns);
        else
            snprintf(where, sizeof where, "%s/%zu", pointer, i);
        eps__check_fail(check, where, "must be a finite number");
    }
}

void eps__check_first_column(struct eps__check *check, const char *pointer, const double *values, size_t len,
                             size_t most)
{
    if (len == 0 || !values)
        eps__check_fail(check, pointer, "is required: a list of numbers, the first column of a Toeplitz matrix");
    else if (most > 0 && len > most)
        eps__check_fail(check, pointer, "has %zu numbers, but the matrix has %zu rows: give 1 to %zu, the rest are 0",
                        len, most, most);
    else
        eps__check_finite(check, pointer, values, len, 0);
}
