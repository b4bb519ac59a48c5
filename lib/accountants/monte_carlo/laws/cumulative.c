/*
 * See cumulative.h. A uniform number has 2^52 equally likely values. Each item gets a whole number of them, rounded up.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/laws/cumulative.h"

#include <assert.h>
#include <math.h>

#include "lib/numerics/bound.h"

#define VALUES 0x1p52

double eps__cumulative_make(double *ends, const double *weight, size_t n)
{
    double total = 0, end = 0;
    size_t last = n;
    assert(n >= 1 && n < (size_t)1 << 30);
    for (size_t k = 0; k < n; k++) {
        assert(weight[k] >= 0);
        total += weight[k];
        last = weight[k] > 0 ? k : last;
    }
    if (last == n || !(total < INFINITY))
        return last == n ? 0 : INFINITY;
    /* The total is raised by its rounding, by that of the counts below, and by one value (two units) per item (A31). */
    double sum = eps__raise(fmax(total, DBL_MIN), 20 * (double)n + 64);
    for (size_t k = 0; k < n; k++) {
        if (weight[k] > 0)
            end += fmax(ceil(eps__raise(weight[k] / sum * VALUES, 8)), 1);
        ends[k] = k < last ? end : VALUES;
    }
    assert(end <= VALUES);
    return sum;
}

size_t eps__cumulative_draw(const double *ends, size_t n, double uniform)
{
    double value = uniform * VALUES; /* half an odd number, so never equal to an end */
    size_t low = 0, high = n - 1;    /* ends[high] > value, and ends[k] < value for k < low */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (value < ends[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}
