/*
 * The sum of k numbers at distance b, ending at every index: the row sums of the columns of one pattern.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>

#include "lib/strategy/sensitivity/sensitivity.h"

/*
 * Sliding sums within each class of indices modulo b, in pieces of k. A window consists of the end of one piece and the
 * beginning of the next, so nothing is subtracted and nothing cancels.
 */
bool eps__strided_window(double *out, size_t n, const double *c, size_t len, size_t k, size_t b)
{
    size_t longest = (n - 1) / b + 1;
    double *suffix = malloc(((k < longest ? k : longest) + 1) * sizeof *suffix);
    if (!suffix)
        return false;
    for (size_t residue = 0; residue < b && residue < n; residue++) {
        size_t count = (n - 1 - residue) / b + 1;
        for (size_t piece = 0; piece < count; piece += k) {
            struct eps__sum sum = {0};
            size_t end = count - piece < k ? count : piece + k;
            for (size_t i = piece; i < end; i++) {
                size_t u = residue + i * b;
                eps__sum_add(&sum, u < len ? fabs(c[u]) : 0);
                out[u] = eps__sum_value(&sum) + (piece ? suffix[i - piece + 1] : 0);
            }
            if (end == count)
                break;
            sum = (struct eps__sum){0};
            suffix[k] = 0;
            for (size_t i = k; i-- > 0;) {
                size_t u = residue + (piece + i) * b;
                eps__sum_add(&sum, u < len ? fabs(c[u]) : 0);
                suffix[i] = eps__sum_value(&sum);
            }
        }
    }
    free(suffix);
    return true;
}
