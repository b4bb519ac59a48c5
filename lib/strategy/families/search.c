/*
 * Variables for searches through families whose members are a sequence, such as the first column of C.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/families/search.h"

#include <math.h>

#define GROWTH 1.5 /* of the distance of an anchor from the first number, at least */
#define FAR 20.0   /* the largest value at an anchor */

static size_t place(size_t anchors[EPS__SEARCH_VARIABLES_MAX], size_t len)
{
    double last = (double)len - 1, growth = fmax(GROWTH, pow(last, 1.0 / (EPS__SEARCH_VARIABLES_MAX - 5)));
    size_t count = 0;
    for (double at = 1; at <= last && count < EPS__SEARCH_VARIABLES_MAX; at = floor(fmax(at + 1, growth * at))) {
        bool ends = count + 1 == EPS__SEARCH_VARIABLES_MAX || (at < last && floor(fmax(at + 1, growth * at)) > last);
        anchors[count++] = (size_t)at;
        if (ends && at < last && count < EPS__SEARCH_VARIABLES_MAX)
            anchors[count++] = (size_t)last;
    }
    return count;
}

/* Writes the function that is linear in ln(1 + k) between the anchors, where it has these values, and 0 at k = 0.
 * False: a value is too large. */
static bool between_anchors(double *out, size_t len, const double *values)
{
    size_t anchors[EPS__SEARCH_VARIABLES_MAX], count = place(anchors, len), k = 0;
    for (size_t i = 0; i < count; i++)
        if (!(fabs(values[i]) < FAR))
            return false;
    out[0] = 0;
    for (size_t i = 0; i < count; i++) {
        double from = i > 0 ? (double)anchors[i - 1] : 0, to = (double)anchors[i];
        double left = i > 0 ? values[i - 1] : 0, width = log1p(to) - log1p(from);
        for (k++; k <= anchors[i]; k++) {
            double share = (log1p((double)k) - log1p(from)) / width;
            out[k] = (1 - share) * left + share * values[i];
        }
        k--;
    }
    return true;
}

size_t eps__search_bands(const struct eps_matrix *matrix)
{
    return matrix->bands;
}

size_t eps__search_bands_anchors(const struct eps_matrix *matrix)
{
    size_t anchors[EPS__SEARCH_VARIABLES_MAX];
    return place(anchors, matrix->bands);
}

bool eps__search_bands_move(double *numbers, const struct eps_matrix *matrix, const double *start,
                            const double *changes)
{
    if (!between_anchors(numbers, matrix->bands, changes))
        return false;
    for (size_t k = 0; k < matrix->bands; k++)
        numbers[k] = start[k] * exp(numbers[k]);
    return true;
}
