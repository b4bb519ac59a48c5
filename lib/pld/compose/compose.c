/*
 * Composition by FFT with relative accuracy in the far tail.
 *
 * The masses are multiplied by e^{t loss} and normalised so that the wanted epsilon is in the middle of the tilted sum:
 * an error that is small compared with the largest tilted mass is then small compared with delta. The sum is periodic
 * in the transform's length; Chernoff bounds on the stored masses bound what lies outside the window. In an upper
 * estimate what wraps into the window only adds, and what lies above is added once more; in a lower one all of it is
 * subtracted.
 *
 * Rounding (P10). Let r bound the modulus of a coefficient, computed or exact, and e the error of the forward
 * transform. At each frequency the product of powers is off by at most prod r^n * sum n (e/r + 4 u); the mean of that
 * over the frequencies bounds the error of every output, and the backward transform adds its own. The bound is added to
 * (upper) or subtracted from (lower) every output before anything is summed.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/numerics/fft/fft.h"
#include "lib/numerics/lanes/lanes.h"
#include "lib/numerics/normal.h"
#include "lib/pld/grid/coarse.h"
#include "lib/pld/grid/knots.h"

/* A coefficient whose power is below e^-100 in modulus is replaced by zero, which the same bound covers. The share
 * covers the rounding of the root. */
#define NEGLIGIBLE_LOG (-100.0)
#define NEGLIGIBLE_SHARE 0.999999

enum {
    GROUP = 8,                /* coefficients of a spectrum whose powers are computed together */
    AT_ONCE = 8 * EPS__LANES, /* masses that are tilted together */
};

/* Tails are bounded on the masses before these are inflated for rounding. This factor is more than the difference. */
#define TAIL_SLACK 1.01

/* A window of more cells than this for each mass is worth a search for its exponents on the masses themselves. */
#define SEARCH_LENGTH 16

struct spectrum {
    size_t n, half; /* length of the transform; number of coefficients */
    double complex *product, *factor;
    double *modulus;  /* prod r^n */
    double *relative; /* sum n e / r */
    double steps;     /* sum n */
};

/* GROUP complex numbers and bounds on their moduli, side by side for vector instructions. */
struct group {
    double re[GROUP], im[GROUP], bound[GROUP];
};

static void multiply_group(struct group *product, const struct group *factor)
{
    for (size_t l = 0; l < GROUP; l++) {
        double re = product->re[l], im = product->im[l];
        product->re[l] = re * factor->re[l] - im * factor->im[l];
        product->im[l] = re * factor->im[l] + im * factor->re[l];
        product->bound[l] *= factor->bound[l];
    }
}

static void square_group(struct group *group)
{
    for (size_t l = 0; l < GROUP; l++) {
        double re = group->re[l], im = group->im[l];
        group->re[l] = re * re - im * im;
        group->im[l] = 2 * re * im;
        group->bound[l] *= group->bound[l];
    }
}

/* Writes base^count to *power, and overwrites *base. */
static void raise_group(struct group *power, struct group *base, uint64_t count)
{
    for (size_t l = 0; l < GROUP; l++) {
        power->re[l] = power->bound[l] = 1;
        power->im[l] = 0;
    }
    for (uint64_t bits = count;;) {
        if (bits & 1)
            multiply_group(power, base);
        if (!(bits >>= 1))
            return;
        square_group(base);
    }
}

static void drop_coefficient(struct spectrum *spectrum, size_t k)
{
    spectrum->product[k] = 0;
    spectrum->modulus[k] *= exp(NEGLIGIBLE_LOG);
    spectrum->relative[k] += 1;
}

/* product *= factor^count for GROUP coefficients from `from` on; updates the bounds. Coefficients whose squared modulus
 * is below `negligible` count as 0. */
static void multiply_some(struct spectrum *spectrum, size_t from, uint64_t count, double error, double negligible)
{
    struct group base, power;
    double r[GROUP], square[GROUP];
    size_t some = spectrum->half - from < GROUP ? spectrum->half - from : GROUP;
    for (size_t l = 0; l < GROUP; l++) {
        double complex factor = l < some ? spectrum->factor[from + l] : 0;
        base.re[l] = creal(factor);
        base.im[l] = cimag(factor);
        square[l] = base.re[l] * base.re[l] + base.im[l] * base.im[l];
        r[l] = base.bound[l] = eps__raise(sqrt(square[l]), 4) + error;
    }
    raise_group(&power, &base, count);
    for (size_t l = 0; l < some; l++) {
        size_t k = from + l;
        if (square[l] < negligible) {
            drop_coefficient(spectrum, k);
            continue;
        }
        double re = creal(spectrum->product[k]), im = cimag(spectrum->product[k]);
        spectrum->product[k] = re * power.re[l] - im * power.im[l] + I * (re * power.im[l] + im * power.re[l]);
        spectrum->modulus[k] *= power.bound[l];
        spectrum->relative[k] += (double)count * error / r[l];
    }
}

/* The first coefficient from `from` on that is not negligible; `end` if there is none. */
static size_t first_kept(const struct spectrum *spectrum, size_t from, size_t end, double negligible)
{
    for (size_t k = from; k < end; k++) {
        double re = creal(spectrum->factor[k]), im = cimag(spectrum->factor[k]);
        if (!(re * re + im * im < negligible))
            return k;
    }
    return end;
}

/* product *= factor^count. A spectrum that falls off fast has few coefficients that are not negligible. */
static void multiply_power(struct spectrum *spectrum, uint64_t count, double error)
{
    double cutoff = exp(NEGLIGIBLE_LOG / (double)count) * NEGLIGIBLE_SHARE - error;
    double negligible = cutoff > 0 ? cutoff * cutoff : 0;
    for (size_t k = 0; k < spectrum->half; k += GROUP) {
        size_t kept = first_kept(spectrum, k, spectrum->half, negligible);
        for (; k < kept; k++)
            drop_coefficient(spectrum, k);
        if (k < spectrum->half)
            multiply_some(spectrum, k, count, error, negligible);
    }
    spectrum->steps += (double)count;
}

/* The bound on |out_j - exact| before the backward transform. Out: the mean modulus (P10). */
static double spectrum_error(const struct spectrum *spectrum, double *mean_modulus)
{
    double error[2] = {0}, total[2] = {0}, power = 4 * spectrum->steps * EPS__UNIT_ROUNDOFF;
    for (size_t k = 1; k + 1 < spectrum->half; k++) { /* each stands for two */
        error[k % 2] += 2 * spectrum->modulus[k] * (spectrum->relative[k] + power);
        total[k % 2] += 2 * spectrum->modulus[k];
    }
    for (size_t k = 0; k < spectrum->half; k += spectrum->half - 1) { /* the length is even */
        error[0] += spectrum->modulus[k] * (spectrum->relative[k] + power);
        total[0] += spectrum->modulus[k];
    }
    *mean_modulus = (total[0] + total[1]) / (double)spectrum->n;
    return (error[0] + error[1]) / (double)spectrum->n;
}

/* The laws of independent summands: counts[i] of them have distribution i, i < len. */
struct summands {
    /* Writes distribution i into a zeroed array of n numbers. Out: *norm, its 1-norm. */
    void (*fill)(const void *user, size_t i, double *array, size_t n, double *norm);
    const void *user;
    const uint64_t *counts;
    size_t len;
};

static enum eps_status convolve(const struct eps_context *context, double *out, double *error,
                                const struct summands *summands, size_t n)
{
    enum eps_status status = EPS_NO_MEMORY;
    struct spectrum spectrum = {.n = n, .half = n / 2 + 1};
    assert(n >= 2 && n % 2 == 0);
    double transform_error = eps__fft_error(n);
    spectrum.product = eps__fft_alloc_complex(spectrum.half);
    spectrum.factor = eps__fft_alloc_complex(spectrum.half);
    spectrum.modulus = eps__fft_alloc_real(spectrum.half);
    spectrum.relative = eps__fft_alloc_real(spectrum.half);
    if (!spectrum.product || !spectrum.factor || !spectrum.modulus || !spectrum.relative || !isfinite(transform_error))
        goto out; /* out of memory, or a plan without a known error */
    for (size_t k = 0; k < spectrum.half; k++) {
        spectrum.product[k] = spectrum.modulus[k] = 1;
        spectrum.relative[k] = 0;
    }
    for (size_t i = 0; i < summands->len; i++) {
        double norm;
        memset(out, 0, n * sizeof *out);
        summands->fill(summands->user, i, out, n, &norm);
        status = eps__poll(context);
        if (status != EPS_OK)
            goto out;
        status = EPS_NO_MEMORY;
        if (eps__fft_forward(spectrum.factor, out, n) != 0)
            goto out;
        status = eps__poll(context);
        if (status != EPS_OK)
            goto out;
        multiply_power(&spectrum, summands->counts[i], transform_error * norm);
    }
    double mean_modulus, bound = spectrum_error(&spectrum, &mean_modulus);
    status = eps__poll(context);
    if (status != EPS_OK)
        goto out;
    status = EPS_NO_MEMORY;
    if (eps__fft_backward(out, spectrum.product, n) != 0)
        goto out;
    double scale = 1 / (double)n;
    for (size_t j = 0; j < n; j++)
        out[j] *= scale;
    *error = 1.01 * (bound + (transform_error + 4 * EPS__UNIT_ROUNDOFF) * mean_modulus);
    status = eps__poll(context);
out:
    eps__fft_free(spectrum.product);
    eps__fft_free(spectrum.factor);
    eps__fft_free(spectrum.modulus);
    eps__fft_free(spectrum.relative);
    return status;
}

static void fill_plain(const void *user, size_t i, double *array, size_t n, double *norm)
{
    const double *masses = ((const double *const *)user)[i];
    *norm = 0;
    for (size_t j = 0; j < n; j++) {
        array[j] = masses[j];
        *norm += fabs(masses[j]);
    }
}

enum eps_status eps__convolve_powers(const struct eps_context *context, double *out, double *error,
                                     const double *const *masses, const uint64_t *counts, size_t powers_len, size_t n)
{
    double *aligned = eps__fft_alloc_real(n);
    if (!aligned)
        return EPS_NO_MEMORY;
    const struct summands summands = {fill_plain, masses, counts, powers_len};
    enum eps_status status = convolve(context, aligned, error, &summands, n);
    if (status == EPS_OK)
        memcpy(out, aligned, n * sizeof *out);
    eps__fft_free(aligned);
    return status;
}

/* ------------------------------------------------------------ the tilted sum */

struct tilted {
    const struct eps__pld_power *powers;
    size_t len;
    double tilt;
    double *log_moment, *moment_error; /* for each power, at the tilt */
    double mean, variance, log_scale, scale_error, offset, widening, infinity, excess, shrink, steps;
};

/* The masses from number `from` on of power i, tilted, in units of e^log_moment. log_scale contains the same number,
 * whatever its error, so only the rounding of sums counts (P10). */
static void tilt_masses(const struct tilted *tilted, size_t i, size_t from, double out[AT_ONCE])
{
    const struct eps__pld *pld = tilted->powers[i].pld;
    size_t some = pld->len - from < AT_ONCE ? pld->len - from : AT_ONCE;
    size_t rows = (some + EPS__LANES - 1) / EPS__LANES;
    double sizes = 16 + 2 * fabs(pld->log_scale) + 2 * fabs(tilted->log_moment[i]), error[AT_ONCE];
    for (size_t j = 0; j < some; j++) {
        double exponent = (tilted->tilt - pld->tilt) * eps__pld_loss(pld, from + j);
        out[j] = exponent + pld->log_scale - tilted->log_moment[i];
        error[j] = EPS__UNIT_ROUNDOFF * (sizes + 4 * fabs(exponent) + 2 * fabs(out[j]));
    }
    for (size_t j = some; j < rows * EPS__LANES; j++) {
        out[j] = -INFINITY;
        error[j] = 0;
    }
    if (pld->tilt == tilted->tilt) { /* all exponents are 0 */
        double factor = eps__exp_bound(pld->estimate, out[0], error[0]);
        for (size_t j = 0; j < some; j++)
            out[j] = factor;
    } else {
        eps__exp_bound_lanes(pld->estimate, out, error, rows);
    }
    for (size_t j = 0; j < some; j++)
        out[j] *= pld->mass[from + j];
}

static void measure(struct tilted *tilted)
{
    for (size_t i = 0; i < tilted->len; i++) {
        const struct eps__pld *pld = tilted->powers[i].pld;
        double count = (double)tilted->powers[i].count, mean = 0, square = 0;
        tilted->log_moment[i] = eps__pld_log_moment(pld, tilted->tilt, &tilted->moment_error[i]);
        for (size_t from = 0; from < pld->len; from += AT_ONCE) {
            double mass[AT_ONCE];
            tilt_masses(tilted, i, from, mass);
            for (size_t j = 0; j < AT_ONCE && from + j < pld->len; j++) {
                double loss = eps__pld_loss(pld, from + j);
                mean += mass[j] * loss;
                square += mass[j] * loss * loss;
            }
        }
        tilted->mean += count * mean;
        tilted->variance += count * fmax(square - mean * mean, 0);
        tilted->log_scale += count * tilted->log_moment[i];
        tilted->scale_error += 8 * EPS__UNIT_ROUNDOFF * count * fabs(tilted->log_moment[i]);
        tilted->offset += count * pld->offset;
        tilted->widening += count * pld->loss_error;
        tilted->infinity += count * pld->infinity;
        /* `excess` refers to a total of 1, of which e^(log_moment - log_scale) is left (P6) */
        assert(pld->excess == 0 || pld->tilt == tilted->tilt);
        tilted->excess += count * pld->excess;
        if (pld->excess > 0)
            tilted->shrink += count * fmax(pld->log_scale - tilted->log_moment[i] + tilted->moment_error[i], 0);
        tilted->steps += count;
    }
}

/* Measures the powers at a tilt. Returns false if out of memory. In every case tilted_close() releases it. */
static bool tilted_open(struct tilted *tilted, const struct eps__pld_power *powers, size_t len, double tilt)
{
    *tilted = (struct tilted){.powers = powers, .len = len, .tilt = tilt};
    tilted->log_moment = malloc(2 * len * sizeof *tilted->log_moment);
    if (!tilted->log_moment)
        return false;
    tilted->moment_error = tilted->log_moment + len;
    measure(tilted);
    return true;
}

static void tilted_close(struct tilted *tilted)
{
    free(tilted->log_moment);
    tilted->log_moment = tilted->moment_error = NULL;
}

/* ln of the ratio of the sum's moment generating function at `to` to that at `from`, rounded up. */
static double log_moment_ratio(const struct tilted *tilted, double to, double from)
{
    double total = 0;
    for (size_t i = 0; i < tilted->len; i++) {
        const struct eps__pld_power *power = &tilted->powers[i];
        double error = tilted->moment_error[i], other, start = tilted->log_moment[i];
        if (from != tilted->tilt)
            start = eps__pld_log_moment(power->pld, from, &error);
        double end = eps__pld_log_moment(power->pld, to, &other);
        error += other + 4 * EPS__UNIT_ROUNDOFF * (fabs(start) + fabs(end));
        total += (double)power->count * (end - start + error);
    }
    return total;
}

/* A tail to bound: sign 1 above or -1 below; needed, minus ln of the mass allowed; tilt t of the measure, 0 for the
 * untilted one. */
struct tail {
    double sign, needed, tilt;
};

/* The distance beyond which the sum has at most the tail's mass, by Chernoff with the exponent s = e^log_s relative to
 * the tilt. */
static double chernoff_bound(const struct tilted *tilted, const struct tail *tail, double log_s)
{
    double s = exp(log_s), log_ratio = log_moment_ratio(tilted, tail->tilt + tail->sign * s, tail->tilt);
    double bound = (log_ratio + tail->needed) / s;
    return isnan(bound) ? INFINITY : bound;
}

/* Approximately the exponent with the least Chernoff bound. Golden section over ln s, in which the bound is unimodal.
 * The first interval is centred at the best s of a normal sum; heavy tails need a smaller one. */
static double best_exponent(const struct tilted *tilted, const struct tail *tail)
{
    const double ratio = 0.61803398874989484820;
    double deviation = sqrt(tilted->variance) + tilted->powers[0].pld->spacing;
    double normal = log(sqrt(2 * tail->needed) / deviation), low = normal - 1, high = normal + 1;
    while (low > normal - 30 && chernoff_bound(tilted, tail, low) < chernoff_bound(tilted, tail, low + 0.5))
        low -= 2;
    if (low < normal - 1)
        high = low + 3;
    double a = high - ratio * (high - low), b = low + ratio * (high - low);
    double at_a = chernoff_bound(tilted, tail, a), at_b = chernoff_bound(tilted, tail, b);
    double best = at_a < at_b ? a : b, least = fmin(at_a, at_b);
    for (int i = 0; i < 4; i++) {
        if (at_a < at_b) {
            high = b;
            b = a;
            at_b = at_a;
            a = high - ratio * (high - low);
            at_a = chernoff_bound(tilted, tail, a);
        } else {
            low = a;
            a = b;
            at_a = at_b;
            b = low + ratio * (high - low);
            at_b = chernoff_bound(tilted, tail, b);
        }
        if (fmin(at_a, at_b) < least) {
            least = fmin(at_a, at_b);
            best = at_a < at_b ? a : b;
        }
    }
    return best;
}

/* The x, least to within a few per cent, beyond which a Chernoff bound leaves at most the tail's mass. Any exponent is
 * valid, so it is sought on the coarse copy; the bound is then computed from the masses themselves. */
static double chernoff_edge(const struct tilted *tilted, const struct tilted *coarse, const struct tail *tail)
{
    return tail->sign * chernoff_bound(tilted, tail, best_exponent(coarse, tail));
}

static void fill_tilted(const void *user, size_t i, double *array, size_t n, double *norm)
{
    const struct tilted *tilted = user;
    const struct eps__pld *pld = tilted->powers[i].pld;
    /* Masses at the same position are added, each time with a rounding. */
    double meeting = ceil((double)(pld->index[pld->len - 1] - pld->index[0]) / (double)n);
    double sum = 0;
    int64_t position = pld->index[0] % (int64_t)n, last = pld->index[0];
    position += position < 0 ? (int64_t)n : 0;
    for (size_t from = 0; from < pld->len; from += AT_ONCE) {
        double tilted_mass[AT_ONCE];
        tilt_masses(tilted, i, from, tilted_mass);
        for (size_t j = from; j < from + AT_ONCE && j < pld->len; j++) {
            double mass = eps__outward(pld->estimate, tilted_mass[j - from], meeting + 2);
            assert(pld->index[j] >= last); /* knots rise, so positions are not negative */
            position += pld->index[j] - last;
            position -= position < (int64_t)n ? 0 : position / (int64_t)n * (int64_t)n;
            last = pld->index[j];
            array[position] += mass;
            sum += mass;
        }
    }
    *norm = eps__raise(sum, 8 + meeting + (double)pld->len);
}

/* The tilted sum on a circle. Position j holds the masses of the indices equal to j modulo len, each within `rounding`.
 * All but tail_mass on either side is in the window of len indices from `first` on. */
struct circle {
    double *mass;
    size_t len;
    int64_t first;
    double rounding;
};

/* Finds *low and *high such that at most the plan's tail masses lie outside. The Chernoff exponents are sought on a
 * coarse copy. */
static void find_edges(const struct tilted *tilted, const struct tilted *coarse, const struct eps__compose_plan *plan,
                       double *low, double *high)
{
    const struct tail above = {1, -log(plan->tail_mass), plan->tilt}, below = {-1, above.needed, plan->tilt};
    const struct tail infinite = {1, -plan->log_infinity, 0};
    *high = chernoff_edge(tilted, coarse, &above);
    *low = chernoff_edge(tilted, coarse, &below);
    if (plan->log_infinity < 0)
        *high = fmax(*high, chernoff_edge(tilted, coarse, &infinite));
}

/* Whether the window is longer than a transform may be, or so long that a search on the masses themselves is cheap
 * beside the transform. A coarse copy with few knots knows little of heavy tails. */
static bool is_long(const struct tilted *tilted, const struct eps__compose_plan *plan, double low, double high)
{
    double needed = (high - low) / tilted->powers[0].pld->spacing + 3, masses = 0;
    for (size_t i = 0; i < tilted->len; i++)
        masses += (double)tilted->powers[i].pld->len;
    return !(needed < fmin((double)plan->max_len, SEARCH_LENGTH * masses));
}

/* Finds the window. If the coarse copy's is long, the exponents are sought on the masses themselves. */
static enum eps_status find_window(const struct tilted *tilted, const struct eps__compose_plan *plan, double *low,
                                   double *high)
{
    struct eps__coarse coarse_powers;
    struct tilted coarse;
    enum eps_status status = eps__coarse_make(&coarse_powers, tilted->powers, tilted->len);
    if (status != EPS_OK)
        return status;
    if (tilted_open(&coarse, coarse_powers.powers, coarse_powers.len, tilted->tilt)) {
        find_edges(tilted, &coarse, plan, low, high);
        if (is_long(tilted, plan, *low, *high))
            find_edges(tilted, tilted, plan, low, high);
        tilted_close(&coarse);
    } else {
        status = EPS_NO_MEMORY;
    }
    eps__coarse_clear(&coarse_powers);
    return status;
}

static enum eps_status compose_circle(const struct eps_context *context, struct circle *circle, struct tilted *tilted,
                                      const struct eps__pld_power *powers, size_t powers_len,
                                      const struct eps__compose_plan *plan)
{
    enum eps_status status = EPS_NO_MEMORY;
    double spacing = powers[0].pld->spacing, low, high;
    uint64_t *counts = malloc(powers_len * sizeof *counts);
    *circle = (struct circle){0};
    if (!tilted_open(tilted, powers, powers_len, plan->tilt) || !counts)
        goto out;
    for (size_t i = 0; i < powers_len; i++)
        counts[i] = powers[i].count;
    status = find_window(tilted, plan, &low, &high);
    if (status != EPS_OK)
        goto out;
    double needed = (high - low) / spacing + 3, first = floor((low - tilted->offset) / spacing);
    /* needed < 3: rounding has put the upper edge below the lower one */
    if (!(needed >= 3 && needed < (double)plan->max_len) || !(fabs(first) < 0x1p52)) {
        status = EPS_TOO_COSTLY;
        goto out;
    }
    circle->len = plan->seldom ? eps__fft_length_seldom((size_t)needed) : eps__fft_length((size_t)needed);
    circle->first = (int64_t)first;
    circle->mass = eps__fft_alloc_real(circle->len);
    status = EPS_NO_MEMORY;
    const struct summands summands = {fill_tilted, tilted, counts, powers_len};
    if (circle->mass)
        status = convolve(context, circle->mass, &circle->rounding, &summands, circle->len);
out:
    free(counts);
    tilted_close(tilted);
    return status;
}

/* The mass at index first + i, bounded in the direction of the estimate. */
static double circle_mass(const struct circle *circle, enum eps__estimate estimate, size_t start, size_t i)
{
    size_t position = start + i >= circle->len ? start + i - circle->len : start + i;
    double mass = circle->mass[position];
    if (estimate == EPS__UPPER) /* keeps NAN */
        return (mass < 0 ? 0 : mass) + circle->rounding;
    return fmax(mass - circle->rounding, 0);
}

static size_t circle_start(const struct circle *circle)
{
    int64_t start = circle->first % (int64_t)circle->len;
    return (size_t)(start < 0 ? start + (int64_t)circle->len : start);
}

/* tail[i]: see struct eps__panel. */
static void sum_tail(struct eps__panel *panel, const struct circle *circle)
{
    double decay = exp(-panel->tilt * panel->spacing), decay_more = exp(-(panel->tilt + 1) * panel->spacing);
    double step = -expm1(-panel->spacing);
    double above = 0, sum = 0; /* sum_{j > i} a_j e^{-t..}(1 - e^{-..}) and sum_{j > i} a_j e^{-(t+1)(j-i-1)h} */
    size_t start = circle_start(circle);
    for (size_t i = panel->len; i-- > 0;) {
        above = decay * (above + step * sum);
        panel->tail[i] = above;
        sum = circle_mass(circle, panel->estimate, start, i) + decay_more * sum;
    }
    panel->below = sum;
}

/* Lower: a bound on the surplus mass of the powers that follows from `excess`, in units of the total that is left
 * (P6). */
static double excess_of(const struct tilted *tilted)
{
    return tilted->excess > 0 ? eps__raise(expm1(1.01 * tilted->excess) * exp(tilted->shrink), 1e7) : 0;
}

enum eps_status eps__compose(const struct eps_context *context, struct eps__panel *panel,
                             const struct eps__pld_power *powers, size_t powers_len,
                             const struct eps__compose_plan *plan)
{
    struct tilted tilted;
    struct circle circle;
    struct eps__panel made = {
        .estimate = powers[0].pld->estimate, .tilt = plan->tilt, .spacing = powers[0].pld->spacing};
    enum eps_status status = compose_circle(context, &circle, &tilted, powers, powers_len, plan);
    if (status != EPS_OK)
        goto out;
    made.len = circle.len;
    made.start = tilted.offset + (double)circle.first * made.spacing;
    made.log_scale = tilted.log_scale;
    made.scale_error = tilted.scale_error;
    made.widening = tilted.widening;
    made.rounding = circle.rounding;
    made.infinity = eps__raise(tilted.infinity, 4 * (double)powers_len);
    if (made.estimate == EPS__UPPER)
        made.beyond = TAIL_SLACK * plan->tail_mass;
    else
        made.wrapped = 2 * TAIL_SLACK * plan->tail_mass + excess_of(&tilted);
    made.tail = malloc(made.len * sizeof *made.tail);
    status = made.tail ? EPS_OK : EPS_NO_MEMORY;
    if (status == EPS_OK) {
        sum_tail(&made, &circle);
        *panel = made;
    }
out:
    eps__fft_free(circle.mass);
    return status;
}

/* ------------------------------------------------------------ a coarser grid */

/* The shares of a mass at distance j spacings above a coarse knot that go to the knots on either side, and its gap: the
 * split of pld/grid/discretise.c, for masses that are tilted at their own loss. */
struct split {
    double left, right, gap;
};

static struct split *make_splits(size_t coarser, double spacing, double tilt)
{
    struct split *splits = malloc(coarser * sizeof *splits);
    double width = (double)coarser * spacing, step = -expm1(-width);
    for (size_t j = 0; splits && j < coarser; j++) {
        double below = (double)j * spacing, above = width - below;
        double right = -expm1(-below) / step, rest = -expm1(-above);
        splits[j].right = right * exp(tilt * above);
        splits[j].left = exp(-below) * rest / step * exp(-tilt * below);
        splits[j].gap = right * rest * exp(-tilt * below);
    }
    return splits;
}

static enum eps_status coarsen(struct eps__pld *pld, const struct circle *circle, size_t coarser, double spacing)
{
    enum eps_status status = EPS_NO_MEMORY;
    struct eps__cells cells = {.spacing = pld->spacing, .tilt = pld->tilt};
    struct split *splits = make_splits(coarser, spacing, pld->tilt);
    int64_t ratio = (int64_t)coarser, remainder = circle->first % ratio;
    size_t j = (size_t)(remainder < 0 ? remainder + ratio : remainder), start = circle_start(circle);
    double error = EPS__UNIT_ROUNDOFF * (32 + (double)coarser + 4 * pld->tilt * pld->spacing);
    double bound = pld->estimate == EPS__UPPER ? 1 + error : 1 - error;
    if (!splits)
        goto out;
    cells.first = (circle->first - (int64_t)j) / ratio;
    int64_t index = cells.first;
    for (size_t i = 0; i < circle->len;) {
        struct eps__cell *cell = eps__cells_add(&cells, ++index);
        double left = 0, right = 0, gap = 0;
        if (!cell)
            goto out;
        for (; j < coarser && i < circle->len; i++, j++) {
            double mass = circle_mass(circle, pld->estimate, start, i);
            left += mass * splits[j].left;
            right += mass * splits[j].right;
            gap += mass * splits[j].gap;
        }
        j = 0;
        cell->left = left * bound;
        cell->right = right * bound;
        cell->gap = gap * (1 + error);
    }
    status = eps__cells_assemble(pld, &cells, pld->estimate);
out:
    eps__cells_clear(&cells);
    free(splits);
    return status;
}

enum eps_status eps__pld_compose(const struct eps_context *context, struct eps__pld *pld,
                                 const struct eps__pld_power *powers, size_t powers_len, size_t coarser,
                                 const struct eps__compose_plan *plan)
{
    struct tilted tilted;
    struct circle circle;
    const struct eps__pld *step = powers[0].pld;
    struct eps__pld made = {.estimate = step->estimate, .tilt = plan->tilt};
    enum eps_status status = compose_circle(context, &circle, &tilted, powers, powers_len, plan);
    if (status != EPS_OK)
        goto out;
    made.spacing = step->spacing * (double)coarser;
    made.offset = tilted.offset;
    made.log_scale = tilted.log_scale;
    made.loss_error = tilted.widening + 8 * EPS__UNIT_ROUNDOFF * (double)circle.len * step->spacing;
    made.infinity = eps__raise(tilted.infinity, 4 + 4 * (double)powers_len);
    if (made.estimate == EPS__UPPER) { /* the window does not contain what lies above it */
        made.infinity += exp(plan->log_infinity) * TAIL_SLACK;
    } else {
        made.excess = 2 * TAIL_SLACK * plan->tail_mass + excess_of(&tilted);
    }
    /* The rounding of the scale becomes a relative change of every mass. */
    made.log_scale += made.estimate == EPS__UPPER ? tilted.scale_error : -tilted.scale_error;
    status = coarsen(&made, &circle, coarser, step->spacing);
    if (status == EPS_OK)
        *pld = made;
out:
    eps__fft_free(circle.mass);
    return status;
}

void eps__panel_clear(struct eps__panel *panel)
{
    free(panel->tail);
    *panel = (struct eps__panel){0};
}

/* ------------------------------------------------------------ the query */

double eps__panel_log_delta(const struct eps__panel *panel, double eps)
{
    double sign = panel->estimate == EPS__UPPER ? 1 : -1, t = panel->tilt, h = panel->spacing;
    double last = panel->start + (double)(panel->len - 1) * h;
    double widening = panel->widening + 8 * EPS__UNIT_ROUNDOFF * (fabs(eps) + fabs(panel->start) + fabs(last));
    double at = eps - sign * widening;
    double outside = fmax(panel->start - at, 0); /* distance below the window */
    at = fmax(at, panel->start);
    if (at >= last) {
        double log_above = panel->log_scale - t * at + log(panel->beyond) + panel->scale_error +
                           8 * EPS__UNIT_ROUNDOFF * (fabs(t * at) + fabs(panel->log_scale));
        return sign < 0 ? -INFINITY : fmin(eps__log_bound(EPS__UPPER, exp(log_above) + panel->infinity, 4), 0);
    }
    double position = floor((at - panel->start) / h);
    size_t i = (size_t)fmin(position, (double)(panel->len - 2));
    double above = at - (panel->start + (double)i * h), share = exp(above - h) * expm1(-above) / expm1(-h);
    /* delta is linear in e^eps between knots. For the rounding see P10. */
    double sum = (1 - share) * panel->tail[i] * exp(t * above) + share * panel->tail[i + 1] * exp(t * (above - h));
    double largest = exp(t * log(fmax(t, 1e-300)) - (1 + t) * log1p(t)); /* max_u e^{-tu} (1 - e^{-u}) */
    if (outside > 0) { /* all losses of the window are larger; upper: so may be some that the window does not contain */
        sum = exp(-t * outside) * (sum - panel->below * expm1(-outside)) + panel->beyond * largest;
        at -= outside;
    }
    sum += panel->beyond * exp(-t * (last - at)) - panel->wrapped * largest;
    sum += sign > 0 ? DBL_MIN : 0; /* products that underflowed */
    if (!(sum > 0))
        return eps__certain(panel->estimate, NAN);
    double log_scale = panel->log_scale - t * at;
    double error = EPS__UNIT_ROUNDOFF * (16 + 4 * (double)panel->len + 4 * fabs(panel->log_scale) + 8 * fabs(t * at)) +
                   panel->scale_error;
    double log_delta = log_scale + log(sum) + sign * error;
    if (panel->infinity > 0) { /* ln(e^log_delta + infinity) */
        double log_infinity = log(panel->infinity), larger = fmax(log_delta, log_infinity);
        log_delta = larger + log1p(exp(fmin(log_delta, log_infinity) - larger)) + 8 * EPS__UNIT_ROUNDOFF * fabs(larger);
    }
    return fmin(log_delta, 0);
}
