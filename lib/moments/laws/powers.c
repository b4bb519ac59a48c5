/*
 * See powers.h. Products of power series with coefficients >= 0.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/powers.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The diagonal in ascending order, malloc'ed; NULL if memory runs out. */
static double *sorted_diagonal(const struct eps__bin_gram *bins)
{
    double *sorted = malloc(bins->len * sizeof *sorted);
    if (sorted) {
        memcpy(sorted, bins->diagonal, bins->len * sizeof *sorted);
        qsort(sorted, bins->len, sizeof *sorted, ascending);
    }
    return sorted;
}

size_t eps__powers_distinct(const struct eps__bin_gram *bins)
{
    double *sorted = sorted_diagonal(bins);
    size_t distinct = bins->len;
    if (sorted) {
        distinct = 1;
        for (size_t i = 1; i < bins->len; i++)
            distinct += sorted[i] != sorted[i - 1];
    }
    free(sorted);
    return distinct;
}

/*
 * out[j] = E (x - 1)^j / (j! scale^j) for one bin, where E x^i = e^{g i(i-1)/2}. Let q = e^g, w = q - 1, and let F(j,
 * m) be the j-th difference of q^{i(i-1)/2 + m i} at i = 0. Then E (x - 1)^j = F(j, 0), F(0, m) = 1, and Leibniz' rule
 * for differences gives (M12)
 *   F(j, m) = sum_{k < j} C(j-1, k) (q^m w^k - [k = 0]) q^{k(k-1)/2 + m k} F(j-1-k, m+k).
 * room: scratch space for (most + 3) (most + 1) numbers.
 */
static void series_of(eps__quad *out, double g, unsigned most, double scale, eps__quad *room)
{
    eps__quad w = expm1q(g), factorial = 1;
    size_t row = (size_t)most + 1;
    eps__quad *tilted = room, *raised = room + row, *rows = room + 2 * row; /* q^m, q^m - 1, F */
    for (unsigned m = 0; m <= most; m++) {
        tilted[m] = expq((eps__quad)g * m);
        raised[m] = expm1q((eps__quad)g * m);
        rows[m] = 1;
    }
    for (unsigned j = 1; j <= most; j++)
        for (unsigned m = 0; m + j <= most; m++) {
            eps__quad sum = raised[m] * rows[(j - 1) * row + m], binomial = 1, power = tilted[m], tilt = 1;
            for (unsigned k = 1; k < j; k++) {
                binomial = binomial * (j - k) / k;
                power *= w;
                tilt *= tilted[m + k - 1]; /* q^{k(k-1)/2 + m k} */
                sum += binomial * power * tilt * rows[(j - 1 - k) * row + m + k];
            }
            rows[j * row + m] = sum;
        }
    for (unsigned j = 0; j <= most; j++) {
        out[j] = rows[j * row] / factorial;
        factorial *= (eps__quad)(j + 1) * scale;
    }
}

/* a *= b, both series up to z^most. */
static void multiply(eps__quad *a, const eps__quad *b, unsigned most)
{
    for (unsigned m = most + 1; m-- > 0;) {
        eps__quad sum = 0;
        for (unsigned t = 0; t <= m; t++)
            if (t != 1 && m - t != 1) /* the coefficients of z are 0 */
                sum += a[m - t] * b[t];
        a[m] = sum;
    }
}

/* product *= base^count. Overwrites base. room: scratch space for most + 1 numbers. */
static void multiply_power(eps__quad *product, eps__quad *base, eps__quad *room, size_t count, unsigned most)
{
    for (; count > 0; count >>= 1) {
        if (count & 1)
            multiply(product, base, most);
        memcpy(room, base, ((size_t)most + 1) * sizeof *room);
        if (count > 1)
            multiply(base, room, most);
    }
}

enum eps_status eps__powers(const struct eps_context *context, const struct eps__bin_gram *bins, unsigned most,
                            eps__quad *central, double *units)
{
    size_t row = (size_t)most + 1;
    double *sorted = sorted_diagonal(bins);
    eps__quad *room = malloc((row + 4) * row * sizeof *room), *base = room, *rows = room + 2 * row, factorial = 1;
    enum eps_status status = sorted && room ? EPS_OK : EPS_NO_MEMORY;
    for (unsigned j = 0; status == EPS_OK && j <= most; j++)
        central[j] = j == 0;
    for (size_t i = 0, run; status == EPS_OK && i < bins->len; i += run) {
        for (run = 1; i + run < bins->len && sorted[i + run] == sorted[i]; run++)
            ;
        series_of(base, sorted[i], most, (double)bins->len, rows);
        multiply_power(central, base, room + row, run, most);
        status = eps__poll(context);
    }
    for (unsigned j = 0; status == EPS_OK && j <= most; j++) {
        central[j] *= factorial;
        factorial *= j + 1;
    }
    /* M12: a coefficient of a series is within 12 j^2 units; each of the b series adds its own and a sum of most + 1
     * products. */
    *units = 1.01 * ((double)bins->len * (12.0 * most * most + most + 4) + 4.0 * most);
    free(sorted);
    free(room);
    return status;
}
