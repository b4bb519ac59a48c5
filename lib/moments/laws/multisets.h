/*
 * Multisets of `len` numbers below a limit, as ascending sequences. They stand for the states of indistinguishable
 * copies.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_MULTISETS_H
#define EPS_MOMENTS_LAWS_MULTISETS_H

#include <stdbool.h>

/* The number of multisets, C(len + limit - 1, len). Exact below 2^53. */
static inline double eps__multisets(double limit, unsigned len)
{
    double count = 1;
    for (unsigned i = 1; i <= len; i++)
        count = count * (limit + i - 1) / i;
    return count;
}

/*
 * Advances to the next multiset; false after the last one. The last number changes most slowly, so multisets below a
 * lower limit come first. n_0 <= n_1 <= ... has the rank sum over j of eps__multisets(n_j, j + 1), where terms with n_j
 * = 0 are 0.
 */
static inline bool eps__multiset_next(unsigned *numbers, unsigned len, unsigned limit)
{
    for (unsigned j = 0; j < len; j++)
        if (j + 1 < len ? numbers[j] < numbers[j + 1] : numbers[j] + 1 < limit) {
            numbers[j]++;
            for (unsigned i = 0; i < j; i++)
                numbers[i] = 0;
            return true;
        }
    return false;
}

/* Insertion sort into ascending order. */
static inline void eps__multiset_sort(unsigned *numbers, unsigned len)
{
    for (unsigned i = 1; i < len; i++)
        for (unsigned j = i; j > 0 && numbers[j] < numbers[j - 1]; j--) {
            unsigned swapped = numbers[j];
            numbers[j] = numbers[j - 1];
            numbers[j - 1] = swapped;
        }
}

#endif
