/*
 * Multisets of `len` numbers under a limit, as rising sequences: copies that nothing else tells apart.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_MULTISETS_H
#define EPS_MOMENTS_LAWS_MULTISETS_H

#include <stdbool.h>

/* How many there are: C(len + limit - 1, len). */
static inline double eps__multisets(double limit, unsigned len)
{
    double count = 1;
    for (unsigned i = 1; i <= len; i++)
        count = count * (limit + i - 1) / i;
    return count;
}

/*
 * The next one, the last number being what changes least; false after the last. So that of numbers n_0 <= n_1 <= ... comes after sum
 * over j of eps__multisets(n_j, j + 1) others (0 where n_j = 0), and those under a lower limit come first.
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
