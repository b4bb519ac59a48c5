/*
 * The loops over lanes, for any vector width. A file that includes this one must define WIDTH (a divisor of
 * EPS__LANES), TILE and the types vec (WIDTH doubles) and words (WIDTH 64-bit integers), and on them these operations,
 * which act lane by lane and round once:
 *
 *     load, store, splat, fuse (a b + c), root; + - * of vec
 *     spread (one 32-bit number in every lane), above (x, x + 1, ... by lane), low_product (of the lower 32 bits),
 *         high (>> 32), ^ and & of words
 *     whole_63, whole_53: the upper 63 or 53 bits, as vec, of the 64-bit number made of two lower halves of words
 *     outside: whether any lane is outside two bounds
 *     exp_of, log_of, turn_of: SLEEF's e^x, ln x, and (sin, cos) of pi x
 *
 * The results have the same bits for every width: lanes never mix, and every operation above is the same in each lane.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_LANES_LANES_OF_H
#define EPS_NUMERICS_LANES_LANES_OF_H

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/numerics/lanes/lanes_variant.h"

/* ------------------------------------------------------------ Philox 4x32-10, Box-Muller */

enum { ROUNDS = 10 };

struct block {
    words word[4]; /* only the lower 32 bits of each are used */
};

static inline void philox(struct block *at, words (*key)[2])
{
    const words first = spread(0xD2511F53), second = spread(0xCD9E8D57);
#pragma GCC unroll 10
    for (int i = 0; i < ROUNDS; i++) {
        words a = low_product(at->word[0], first), b = low_product(at->word[2], second);
        *at = (struct block){{high(b) ^ at->word[1] ^ key[i][0], b, high(a) ^ at->word[3] ^ key[i][1], a}};
    }
}

/* For normals, even rows are uniform in (0, 1] and odd rows in [0, 2), in half turns. Otherwise all are uniform in (0,
 * 1). */
static inline __attribute__((always_inline)) void fill(double *out, const struct eps__stream *stream, uint32_t draw,
                                                       uint32_t purpose, size_t first, size_t rows)
{
    assert(first % 2 == 0 && rows % 2 == 0 && draw % EPS__LANES == 0);
    words key[ROUNDS][2], lane[EPS__LANES / WIDTH];
    for (uint32_t i = 0; i < ROUNDS; i++) {
        key[i][0] = spread(stream->key[0] + i * 0x9E3779B9);
        key[i][1] = spread(stream->key[1] + i * 0xBB67AE85);
    }
    for (uint32_t v = 0; v < EPS__LANES / WIDTH; v++)
        lane[v] = above((draw + v * WIDTH) | purpose << 24);
    const words even = spread(0xFFFFF7FF); /* clears the last of 53 bits */
    words low = spread((uint32_t)stream->chunk), up = spread((uint32_t)(stream->chunk >> 32));
    for (size_t i = 0; i < rows; i += 2)
        for (size_t v = 0; v < EPS__LANES / WIDTH; v++) {
            struct block bits = {{spread((uint32_t)((first + i) / 2)), lane[v], low, up}};
            philox(&bits, key);
            double *row = out + i * EPS__LANES + v * WIDTH;
            const words *word = bits.word;
            if (purpose == EPS__COUNTS_NORMALS) {
                store(row, (whole_63(word[0], word[1]) + splat(0.5)) * splat(0x1p-63));
                store(row + EPS__LANES, whole_53(word[2], word[3]) * splat(0x1p-52));
            } else {
                /* an odd number of 53 bits: exact, and never 1 */
                store(row, (whole_53(word[0] & even, word[1]) + splat(1)) * splat(0x1p-53));
                store(row + EPS__LANES, (whole_53(word[2] & even, word[3]) + splat(1)) * splat(0x1p-53));
            }
        }
}

static void uniforms(double *out, const struct eps__stream *stream, uint32_t draw, size_t first, size_t rows)
{
    fill(out, stream, draw, EPS__COUNTS_UNIFORMS, first, rows);
}

/* The Box-Muller transform of pairs of rows as fill() leaves them for normals. */
static void turn_rows(double *x, size_t rows)
{
    for (size_t i = 0; i < rows; i += 2)
        for (double *row = x + i * EPS__LANES, *end = row + EPS__LANES; row < end; row += WIDTH) {
            vec radius = root(splat(-2) * log_of(load(row)));
            struct turned at = turn_of(load(row + EPS__LANES));
            store(row, radius * at.cosine);
            store(row + EPS__LANES, radius * at.sine);
        }
}

static void normals(double *out, const struct eps__stream *stream, uint32_t draw, size_t first, size_t rows)
{
    fill(out, stream, draw, EPS__COUNTS_NORMALS, first, rows);
    turn_rows(out, rows);
}

/* ------------------------------------------------------------ e^x, ln x */

static void exp_rows(double *x, size_t rows)
{
    for (double *end = x + rows * EPS__LANES; x < end; x += WIDTH)
        store(x, exp_of(load(x)));
}

static void log_rows(double *x, size_t rows)
{
    for (double *end = x + rows * EPS__LANES; x < end; x += WIDTH)
        store(x, log_of(load(x)));
}

static void mixture(double *x, const double *half, const double *log_pick, unsigned terms, size_t rows)
{
    vec pick = splat(log_pick[0]);
    if (terms == 1)
        for (size_t i = 0; i < rows; i++)
            for (size_t lane = 0; lane < EPS__LANES; lane += WIDTH, x += WIDTH)
                store(x, (load(x) - splat(half[i])) + pick);
    if (terms == 1)
        exp_rows(x - rows * EPS__LANES, rows);
    else
        for (size_t i = 0; i < rows * EPS__LANES; i += WIDTH, x += WIDTH) {
            vec product = load(x), sum = splat(0);
            for (unsigned j = 1; j <= terms; j++)
                sum = sum + exp_of((splat(j) * product - splat((double)j * j * half[i / EPS__LANES])) +
                                   splat(log_pick[j - 1]));
            store(x, sum);
        }
}

/* ------------------------------------------------------------ correlation */

/* A tile has TILE rows and PARTS * WIDTH lanes. Its row r uses y[t] at d = t - r. For TILE - 1 <= t < width all rows
 * use y[t]; before and after that fewer do. */
enum { PARTS = TILE > 1 ? 2 : 1 };

static inline __attribute__((always_inline)) void add_products(vec sum[TILE][PARTS], const double *y,
                                                               const double *column, size_t stride, size_t t,
                                                               size_t from, size_t end)
{
    vec at[PARTS];
    for (size_t v = 0; v < PARTS; v++)
        at[v] = load(y + t * EPS__LANES + v * WIDTH);
#pragma GCC unroll 16
    for (size_t r = from; r < end; r++) {
        vec entry = splat(column[r * stride + t - r]);
        for (size_t v = 0; v < PARTS; v++)
            sum[r][v] = fuse(entry, at[v], sum[r][v]);
    }
}

static inline __attribute__((always_inline)) void correlate_tile(double *out, const double *y, const double *column,
                                                                 size_t stride, size_t width)
{
    vec sum[TILE][PARTS];
#pragma GCC unroll 16
    for (size_t r = 0; r < TILE; r++)
        for (size_t v = 0; v < PARTS; v++)
            sum[r][v] = splat(0);
#pragma GCC unroll 16
    for (size_t t = 0; t + 1 < TILE; t++)
        add_products(sum, y, column, stride, t, 0, t + 1);
    for (size_t t = TILE - 1; t < width; t++)
        add_products(sum, y, column, stride, t, 0, TILE);
#pragma GCC unroll 16
    for (size_t left = 1; left < TILE; left++)
        add_products(sum, y, column, stride, width + left - 1, left, TILE);
#pragma GCC unroll 16
    for (size_t r = 0; r < TILE; r++)
        for (size_t v = 0; v < PARTS; v++)
            store(out + r * EPS__LANES + v * WIDTH, sum[r][v]);
}

static void correlate_row(double *out, const double *y, const double *column, size_t width)
{
    for (size_t lane = 0; lane < EPS__LANES; lane += WIDTH) {
        vec sum = splat(0);
        for (size_t d = 0; d < width; d++)
            sum = fuse(splat(column[d]), load(y + d * EPS__LANES + lane), sum);
        store(out + lane, sum);
    }
}

static void correlate(double *out, const double *y, const double *column, size_t stride, size_t width, size_t rows)
{
    size_t i = 0;
    for (; TILE > 1 && width >= TILE && i + TILE <= rows; i += TILE)
        for (size_t lane = 0; lane < EPS__LANES; lane += PARTS * WIDTH) {
            size_t at = i * EPS__LANES + lane;
            correlate_tile(out + at, y + at, column + i * stride, stride, width);
        }
    for (; i < rows; i++)
        correlate_row(out + i * EPS__LANES, y + i * EPS__LANES, column + i * stride, width);
}

/* ------------------------------------------------------------ a recursion backward in time */

static size_t recur(double *ring, size_t separation, const double *factor, double keep, size_t from, size_t end)
{
    vec stay = splat(keep), after[EPS__LANES / WIDTH];
    for (size_t v = 0; v < EPS__LANES / WIDTH; v++)
        after[v] = load(ring + end % separation * EPS__LANES + v * WIDTH);
    size_t slot = end % separation;
    for (size_t i = end; i-- > from;) {
        slot = slot > 0 ? slot - 1 : separation - 1;
        double *now = ring + slot * EPS__LANES;
        const double *e = factor + (i - from) * EPS__LANES;
        bool beyond = false;
        for (size_t v = 0; v < EPS__LANES / WIDTH; v++) {
            after[v] = stay * after[v] + load(e + v * WIDTH) * load(now + v * WIDTH);
            store(now + v * WIDTH, after[v]);
            beyond |= outside(after[v], EPS__RECUR_LEAST, EPS__RECUR_MOST);
        }
        if (beyond)
            return i;
    }
    return SIZE_MAX;
}

/* ------------------------------------------------------------ a recursion over the last coins */

static void coins(double *now, const double *after, const double *weight, size_t states, double keep, const double *own)
{
    const vec stay = splat(keep);
    size_t half = states / 2;
    for (size_t s = 0; s < half; s++) {
        const double *none = after + 2 * s * EPS__LANES, *taken = none + EPS__LANES;
        double *new = now + s *EPS__LANES, *old = new + half *EPS__LANES;
        const vec rare = splat(weight[s]), rarer = splat(weight[s + half]);
        for (size_t v = 0; v < EPS__LANES; v += WIDTH) {
            vec left = stay * load(none + v), term = load(own + v) * load(taken + v);
            store(new + v, left + rare * term);
            store(old + v, left + rarer * term);
        }
    }
}

/* ------------------------------------------------------------ a recursion over the last few participations */

/* Two vectors at a time, so that their ranges stay in registers. */
static void follow(double *now, const double *after, const struct eps__lanes_moves *moves, const double *own,
                   double *range)
{
    const uint32_t *none = moves->none, *taken = moves->taken;
    const double *weights = moves->weight;
    const size_t states = moves->states;
    const vec stay = splat(moves->keep);
    for (size_t lane = 0; lane < EPS__LANES; lane += 2 * WIDTH) {
        const vec own_a = load(own + lane), own_b = load(own + lane + WIDTH);
        vec least_a = splat(INFINITY), least_b = least_a, most_a = splat(0), most_b = most_a;
        for (size_t s = 0; s < states; s++) {
            const double *left = after + (size_t)none[s] * EPS__LANES + lane;
            const double *right = after + (size_t)taken[s] * EPS__LANES + lane;
            const vec weight = splat(weights[s]);
            const vec a = stay * load(left) + weight * (own_a * load(right));
            const vec b = stay * load(left + WIDTH) + weight * (own_b * load(right + WIDTH));
            store(now + s * EPS__LANES + lane, a);
            store(now + s * EPS__LANES + lane + WIDTH, b);
            least_a = lesser(a, least_a);
            least_b = lesser(b, least_b);
            most_a = greater(a, most_a);
            most_b = greater(b, most_b);
        }
        store(range + lane, least_a);
        store(range + lane + WIDTH, least_b);
        store(range + EPS__LANES + lane, most_a);
        store(range + EPS__LANES + lane + WIDTH, most_b);
    }
}

/* ------------------------------------------------------------ correlation by FFT */

/* Two draws, lane l and lane l + HALF, make one complex number. */
enum { HALF = EPS__LANES / 2 };

struct plane {
    vec real, imaginary;
};

static inline struct plane get(const double *row)
{
    return (struct plane){load(row), load(row + HALF)};
}

static inline void put(double *row, struct plane z)
{
    store(row, z.real);
    store(row + HALF, z.imaginary);
}

static inline struct plane plus(struct plane a, struct plane b)
{
    return (struct plane){a.real + b.real, a.imaginary + b.imaginary};
}

static inline struct plane minus(struct plane a, struct plane b)
{
    return (struct plane){a.real - b.real, a.imaginary - b.imaginary};
}

/* a + i b, a - i b */
static inline struct plane plus_i(struct plane a, struct plane b)
{
    return (struct plane){a.real - b.imaginary, a.imaginary + b.real};
}

static inline struct plane minus_i(struct plane a, struct plane b)
{
    return (struct plane){a.real + b.imaginary, a.imaginary - b.real};
}

/* a w, and a conj(w) */
static inline struct plane times(struct plane a, const double *w)
{
    vec c = splat(w[0]), s = splat(w[1]);
    return (struct plane){fuse(a.real, c, -(a.imaginary * s)), fuse(a.real, s, a.imaginary * c)};
}

static inline struct plane times_conjugate(struct plane a, const double *w)
{
    vec c = splat(w[0]), s = splat(w[1]);
    return (struct plane){fuse(a.real, c, a.imaginary * s), fuse(-a.real, s, a.imaginary * c)};
}

/* One radix-4 stage, decimated in frequency, of the transform of `len` rows in blocks of `block`: each block becomes
 * four blocks of a quarter of its length, in the order 0, 2, 1, 3. */
static void stage(double *out, const double *in, const struct eps__spectrum *spectrum, size_t len, size_t block)
{
    size_t quarter = block / 4, apart = 2 * (spectrum->len / block);
    for (size_t begin = 0; begin < len; begin += block)
        for (size_t k = 0; k < quarter; k++) {
            const double *w = spectrum->turn + k * apart, *from = in + (begin + k) * EPS__LANES;
            double *to = out + (begin + k) * EPS__LANES;
            for (size_t lane = 0; lane < HALF; lane += WIDTH, from += WIDTH, to += WIDTH) {
                struct plane a = get(from), b = get(from + quarter * EPS__LANES),
                             c = get(from + 2 * quarter * EPS__LANES), d = get(from + 3 * quarter * EPS__LANES);
                struct plane even = plus(a, c), odd = plus(b, d), even_apart = minus(a, c), odd_apart = minus(b, d);
                put(to, plus(even, odd));
                put(to + quarter * EPS__LANES, times_conjugate(minus(even, odd), w + k * apart));
                put(to + 2 * quarter * EPS__LANES, times_conjugate(minus_i(even_apart, odd_apart), w));
                put(to + 3 * quarter * EPS__LANES, times_conjugate(plus_i(even_apart, odd_apart), w + 2 * k * apart));
            }
        }
}

/* The inverse of stage(), except for a factor of four. Rows from `rows` on are not written. */
static void stage_back(double *out, const double *in, const struct eps__spectrum *spectrum, size_t len, size_t block,
                       size_t rows)
{
    size_t quarter = block / 4, apart = 2 * (spectrum->len / block);
    for (size_t begin = 0; begin < len; begin += block)
        for (size_t k = 0; k < quarter; k++) {
            const double *w = spectrum->turn + k * apart, *from = in + (begin + k) * EPS__LANES;
            double *to = out + (begin + k) * EPS__LANES;
            for (size_t lane = 0; lane < HALF; lane += WIDTH, from += WIDTH, to += WIDTH) {
                struct plane a = get(from), b = times(get(from + quarter * EPS__LANES), w + k * apart),
                             c = times(get(from + 2 * quarter * EPS__LANES), w),
                             d = times(get(from + 3 * quarter * EPS__LANES), w + 2 * k * apart);
                struct plane even = plus(a, b), odd = plus(c, d), even_apart = minus(a, b), odd_apart = minus(c, d);
                size_t at = begin + k;
                if (at < rows)
                    put(to, plus(even, odd));
                if (at + quarter < rows)
                    put(to + quarter * EPS__LANES, plus_i(even_apart, odd_apart));
                if (at + 2 * quarter < rows)
                    put(to + 2 * quarter * EPS__LANES, minus(even, odd));
                if (at + 3 * quarter < rows)
                    put(to + 3 * quarter * EPS__LANES, minus_i(even_apart, odd_apart));
            }
        }
}

/* The last forward stage, of blocks of one or two rows; the products with the spectrum; and the first backward
 * stage. */
static void multiply(double *work, const double *entry, size_t len, size_t block)
{
    for (size_t i = 0; i < len; i += block, entry += 2 * block)
        for (double *at = work + i * EPS__LANES, *end = at + HALF; at < end; at += WIDTH) {
            if (block == 1) {
                put(at, times(get(at), entry));
                continue;
            }
            struct plane a = get(at), b = get(at + EPS__LANES);
            struct plane sum = times(plus(a, b), entry), apart = times(minus(a, b), entry + 2);
            put(at, plus(sum, apart));
            put(at + EPS__LANES, minus(sum, apart));
        }
}

/* Transforms the `len` rows to which `entry` belongs, multiplies and transforms back: by recursion into quarters until
 * they fit into the cache. */
static void convolve(double *work, const struct eps__spectrum *spectrum, const double *entry, size_t len)
{
    enum { NEAR = 128 };
    size_t block = len;
    if (len > NEAR) {
        stage(work, work, spectrum, len, len);
        for (size_t j = 0; j < len; j += len / 4)
            convolve(work + j * EPS__LANES, spectrum, entry + 2 * j, len / 4);
        stage_back(work, work, spectrum, len, len, len);
        return;
    }
    for (; block >= 4; block /= 4)
        stage(work, work, spectrum, len, block);
    multiply(work, entry, len, block);
    for (block *= 4; block <= len; block *= 4)
        stage_back(work, work, spectrum, len, block, len);
}

static void by_spectrum(double *out, const double *y, const struct eps__spectrum *spectrum, size_t rows, double *work)
{
    size_t len = spectrum->len, quarter = len / 4;
    stage(work, y, spectrum, len, len);
    for (size_t j = 0; j < len; j += quarter)
        convolve(work + j * EPS__LANES, spectrum, spectrum->entry + 2 * j, quarter);
    stage_back(out, work, spectrum, len, len, rows);
}

#define LANES_VARIANT(text)                                                                                           \
    {                                                                                                                 \
        text, normals, turn_rows, uniforms, exp_rows, log_rows, correlate, mixture, recur, coins, follow, by_spectrum \
    }

#endif
