/*
 * Functions for plans that several families share: which matrices to try, and how many rows of noise a trainer keeps.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/families/family.h"

bool eps__planned_once(struct eps_matrix *matrix, size_t n, size_t index)
{
    (void)matrix;
    (void)n;
    return index == 0;
}

bool eps__planned_bands(struct eps_matrix *matrix, size_t n, size_t index)
{
    size_t bands = 2;
    for (size_t i = 0; i < index; i++) {
        if (bands >= n)
            return false;
        bands = bands > n / 2 ? n : 2 * bands;
    }
    matrix->bands = bands;
    return bands <= n;
}

/* With so few steps, the optimum for any number of bands is found at once. */
enum { FEW_STEPS = 256 };

bool eps__planned_bands_optimised(struct eps_matrix *matrix, size_t n, size_t index)
{
    return eps__planned_bands(matrix, n, index) && (n <= FEW_STEPS || matrix->bands / 2 < n / 4);
}

size_t eps__buffers_of_bands(const struct eps_matrix *matrix, size_t n)
{
    (void)n;
    return matrix->bands - 1;
}
