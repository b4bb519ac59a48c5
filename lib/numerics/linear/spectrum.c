/*
 * The spectrum of a column (numerics/lanes/lanes.h), computed in quadruple precision, so that each number is rounded to
 * double once.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>

#include "lib/numerics/bound.h"
#include "lib/numerics/lanes/lanes.h"
#include "lib/numerics/quad.h"

struct point {
    eps__quad real, imaginary;
};

/* The transform of len numbers, decimated in frequency: number k ends at the place given by k's bits in reverse. turn:
 * the roots of unity of a transform `step` times as long. */
static void transform(struct point *x, size_t len, const struct point *turn, size_t step)
{
    size_t half = len / 2;
    for (size_t k = 0; k < half; k++) {
        struct point a = x[k], b = x[k + half], w = turn[k * step];
        eps__quad real = a.real - b.real, imaginary = a.imaginary - b.imaginary;
        x[k] = (struct point){a.real + b.real, a.imaginary + b.imaginary};
        x[k + half] = (struct point){real * w.real + imaginary * w.imaginary, imaginary * w.real - real * w.imaginary};
    }
    for (size_t part = 0; half > 1 && part < 2; part++)
        transform(x + part * half, half, turn, 2 * step);
}

static void fill(struct eps__spectrum *spectrum, const double *column, size_t width, struct point *x,
                 struct point *turn)
{
    size_t len = spectrum->len;
    eps__quad pi = (eps__quad)0x1.921fb54442d18p1 + 0x1.1a62633145c07p-53;
    for (size_t k = 0; k < len; k++) {
        eps__quad angle = 2 * pi * (eps__quad)k / (eps__quad)len;
        turn[k] = (struct point){cosq(angle), sinq(angle)};
        x[k] = (struct point){k < width ? column[k] : 0, 0};
        spectrum->turn[2 * k] = (double)turn[k].real;
        spectrum->turn[2 * k + 1] = (double)turn[k].imaginary;
    }
    transform(x, len, turn, 1);
    for (size_t k = 0; k < len; k++) {
        spectrum->entry[2 * k] = (double)(x[k].real / (eps__quad)len);
        spectrum->entry[2 * k + 1] = (double)(-x[k].imaginary / (eps__quad)len);
    }
}

enum eps_status eps__spectrum_make(struct eps__spectrum *spectrum, const double *column, size_t width, size_t least)
{
    size_t len = 4;
    while (len < least || len < width)
        len *= 2;
    *spectrum = (struct eps__spectrum){
        .len = len, .turn = malloc(2 * len * sizeof(double)), .entry = malloc(2 * len * sizeof(double))};
    struct point *x = malloc(len * sizeof *x), *turn = calloc(len, sizeof *turn);
    enum eps_status status = spectrum->turn && spectrum->entry && x && turn ? EPS_OK : EPS_NO_MEMORY;
    if (status == EPS_OK)
        fill(spectrum, column, width, x, turn);
    else
        eps__spectrum_clear(spectrum);
    free(x);
    free(turn);
    return status;
}

void eps__spectrum_clear(struct eps__spectrum *spectrum)
{
    free(spectrum->turn);
    free(spectrum->entry);
    *spectrum = (struct eps__spectrum){0};
}

double eps__spectrum_units(const struct eps__spectrum *spectrum)
{
    double doublings = 0; /* (N8) */
    for (size_t len = spectrum->len; len > 1; len /= 2)
        doublings++;
    return eps__raise((5 * doublings + 4) * sqrt(2 * (double)spectrum->len), 4);
}
