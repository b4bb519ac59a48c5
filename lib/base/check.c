/*
 * Reports violations of a job's rules, and checks single numbers and arrays against their ranges.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/base/check.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "lib/base/error.h"

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

#define UNDER_1 0x1.fffffffffffffp-1 /* the largest double below 1 */

static const struct {
    double least, most;
    const char *text;
} ranges[EPS__QUANTITIES] = {
    [EPS__EPSILON] = {0, 1e4, "[0, 10000]"},
    [EPS__DELTA] = {1e-300, UNDER_1, "[1e-300, 1)"},
    [EPS__NOISE_MULTIPLIER] = {EPS_NOISE_MULTIPLIER_LEAST, EPS_NOISE_MULTIPLIER_MOST, "[1e-9, 1e9]"},
    [EPS__NOISE_SCALE] = {1e-6, 1e6, "[1e-6, 1e6]"},
    [EPS__PROBABILITY] = {1e-20, 1, "[1e-20, 1]"},
    [EPS__GAP] = {1e-12, UNDER_1, "[1e-12, 1)"},
    [EPS__MOMENTUM] = {0, UNDER_1, "[0, 1)"},
    [EPS__WEIGHT_DECAY] = {0x1p-1074, 1, "(0, 1]"},
    [EPS__COOLDOWN_FROM] = {0, 1, "[0, 1]: a fraction of n"},
    [EPS__COOLDOWN_TO] = {0, 1, "[0, 1]: a fraction of the first learning rate"},
    [EPS__TOLERANCE] = {1e-9, 0.1, "[1e-9, 0.1]"},
    [EPS__BAD_EVENT_SHARE] = {1e-12, UNDER_1, "[1e-12, 1), or be \"auto\""},
    [EPS__THRESHOLD_SHARE] = {1e-6, UNDER_1, "[1e-6, 1)"},
    [EPS__SECONDS] = {1e-3, 1e9, "[1e-3, 1e9]"},
};

bool eps__in_range(enum eps__quantity quantity, double value)
{
    assert((unsigned)quantity < EPS__QUANTITIES);
    return value >= ranges[quantity].least && value <= ranges[quantity].most;
}

const char *eps__range_text(enum eps__quantity quantity)
{
    assert((unsigned)quantity < EPS__QUANTITIES);
    return ranges[quantity].text;
}

bool eps__check_range(struct eps__check *check, const char *pointer, enum eps__quantity quantity, double value)
{
    if (eps__in_range(quantity, value))
        return true;
    eps__check_fail(check, pointer, "must lie in %s", ranges[quantity].text);
    return false;
}

void eps__check_entries(struct eps__check *check, const char *pointer, const double *values, size_t len, size_t columns)
{
    size_t listed = 0;

    for (size_t i = 0; i < len && listed < EPS__LISTED_MAX; i++) {
        char where[96];
        if (fabs(values[i]) <= EPS__ENTRY_MOST)
            continue;
        listed++;
        if (columns > 0)
            snprintf(where, sizeof where, "%s/%zu/%zu", pointer, i / columns, i % columns);
        else
            snprintf(where, sizeof where, "%s/%zu", pointer, i);
        eps__check_fail(check, where, "must lie in [-1e100, 1e100]");
    }
}

void eps__check_matrix_entries(struct eps__check *check, const char *pointer, const double *values, size_t len,
                               size_t columns)
{
    double largest = 0;

    eps__check_entries(check, pointer, values, len, columns);
    for (size_t i = 0; i < len; i++)
        largest = fmax(largest, fabs(values[i]));
    if (largest > 0 && largest < EPS__ENTRY_LEAST)
        eps__check_fail(check, pointer,
                        "the largest magnitude is %.3g, but must lie in [1e-100, 1e100] or be 0: rescale all numbers",
                        largest);
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
        eps__check_matrix_entries(check, pointer, values, len, 0);
}

size_t eps__check_nearest_multiple(const struct eps__check *check, size_t of)
{
    size_t n = check->n, below = n / of * of, above;
    bool reached = !__builtin_add_overflow(below, of, &above);
    if (below == 0) /* then the multiple above n is `of` itself */
        return of;
    return reached && above - n < n - below && above <= check->max_n ? above : below;
}
