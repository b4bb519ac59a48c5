/*
 * See epochs.h. Powers of a law, where the product is that of independent likelihood ratios.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/epochs.h"

#include <assert.h>
#include <math.h>

#include "lib/numerics/bound.h"

enum { LEN = EPS__MOMENTS_MAX + 1 };

void eps__orders_of_epochs(struct eps__orders *orders, size_t epochs)
{
    for (unsigned a = 0; a <= orders->len && epochs > 1; a++) {
        orders->log_upper[a] = eps__raise((double)epochs * orders->log_upper[a], 4);
        orders->log_lower[a] = eps__lower((double)epochs * orders->log_lower[a], 4);
    }
}

/* out[j] = E (X Y - 1)^j from the central moments of independent X and Y. With s = X - 1 and t = Y - 1,
 * X Y - 1 = s + t + s t; a term of its power has c factors s t and i factors s (M16). out may be x or y. */
static void multiply(eps__quad *out, const eps__quad *x, const eps__quad *y, size_t len)
{
    eps__quad product[LEN];
    for (size_t j = 0; j <= len; j++) {
        eps__quad both = 1; /* C(j, c) */
        product[j] = 0;
        for (size_t c = 0; c <= j; c++) {
            eps__quad single = both; /* C(j, c) C(j - c, i) */
            for (size_t i = 0; i + c <= j; i++) {
                product[j] += single * x[i + c] * y[j - i];
                single = single * (eps__quad)(j - c - i) / (eps__quad)(i + 1);
            }
            both = both * (eps__quad)(j - c) / (eps__quad)(c + 1);
        }
    }
    for (size_t j = 0; j <= len; j++)
        out[j] = product[j];
}

/* Moves moments outwards by the rounding of multiply(): a sum of at most (j + 1)(j + 2)/2 terms >= 0 of four operations
 * each, whose coefficients are integers that a quad holds exactly. */
static void round_all(eps__quad *moments, size_t len, enum eps__estimate estimate)
{
    double units = (double)((len + 1) * (len + 2)) + 16;
    for (size_t j = 2; j <= len; j++)
        moments[j] = estimate == EPS__UPPER ? eps__quad_raise(moments[j], units) : eps__quad_lower(moments[j], units);
}

/* Replaces the moments of X by those of a product of `count` independent copies, by squaring. */
static void power(eps__quad *moments, size_t len, size_t count, enum eps__estimate estimate)
{
    eps__quad square[LEN];
    for (size_t j = 0; j <= len; j++) {
        square[j] = moments[j];
        moments[j] = j == 0;
    }
    for (; count > 0; count >>= 1) {
        if (count & 1) {
            multiply(moments, moments, square, len);
            round_all(moments, len, estimate);
        }
        multiply(square, square, square, len);
        round_all(square, len, estimate);
    }
}

void eps__moments_of_epochs(struct eps__moments *moments, size_t epochs)
{
    eps__quad upper[LEN], lower[LEN];
    assert(epochs >= 1);
    if (epochs == 1)
        return;
    if (moments->len > EPS__MOMENTS_MAX)
        moments->len = EPS__MOMENTS_MAX;
    for (size_t j = 0; j <= moments->len; j++) {
        eps__quad most = moments->central[j] + moments->error[j], least = moments->central[j] - moments->error[j];
        upper[j] = j > 1 ? eps__quad_raise(most, 4) : moments->central[j];
        lower[j] = j > 1 ? fmaxq(eps__quad_lower(least, 4), 0) : moments->central[j];
    }
    power(upper, moments->len, epochs, EPS__UPPER);
    power(lower, moments->len, epochs, EPS__LOWER);
    for (size_t j = 2; j <= moments->len; j++) {
        eps__quad half = (upper[j] - lower[j]) / 2;
        moments->central[j] = lower[j] + half;
        moments->error[j] = half + 4 * EPS__QUAD_ROUNDOFF * upper[j];
    }
}
