/*
 * Part i of a data set in groups is analysed on C without its first i rows and columns; of what is left, rows are taken
 * in blocks of `groups`, and of each block's columns the first. Entry (r, j) is the norm of block r's rows in column j,
 * a = column j's rows before the block. Given what came before, the example took part at j with a probability of at
 * most p e^l / (p e^l + 1 - p), where l = (2 T - ||a||^2) / (2 sigma^2) and <y, a> exceeds T with a probability of at
 * most delta_1 / M; under add y is noise alone. Only what is not 0 above counts among the x_k <a_k, a>.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/truth/mmcc_definition.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/truth/steps.h"

enum { COLUMNS_MOST = 16 };

struct part {
    size_t rounds; /* kept columns */
    size_t blocks; /* of rows; a tree has more rows than columns, all of them blocks of their own */
    size_t groups, first;
    const struct matrix *c;
};

static struct part part_of(const struct truth *truth, size_t first)
{
    const struct eps_sampling *s = &truth->mechanism->sampling;
    size_t n = truth->mechanism->n, groups = s->scheme == EPS_SCHEME_CYCLIC_POISSON ? s->groups : 1;
    size_t rounds = (n - 1 - first) / groups + 1;
    return (struct part){rounds, groups == 1 ? truth->c.rows : rounds, groups, first, &truth->c};
}

static size_t parts_len(const struct truth *truth)
{
    size_t groups = part_of(truth, 0).groups, n = truth->mechanism->n;
    return groups < n ? groups : n;
}

static long double at(const struct part *part, size_t row, size_t j)
{
    return *entry(part->c, row, part->first + j * part->groups);
}

static size_t block_start(const struct part *part, size_t r)
{
    size_t row = part->first + r * part->groups;
    return row < part->c->rows ? row : part->c->rows;
}

static long double block_norm(const struct part *part, size_t r, size_t j)
{
    long double square = 0;
    for (size_t row = block_start(part, r); row < block_start(part, r + 1); row++)
        square += at(part, row, j) * at(part, row, j);
    return sqrtl(square);
}

/* <C_{above r, j}, C_{above r, k}> */
static long double above(const struct part *part, size_t r, size_t j, size_t k)
{
    long double sum = 0;
    for (size_t row = part->first; row < block_start(part, r); row++)
        sum += at(part, row, j) * at(part, row, k);
    return sum;
}

static size_t pairs_of(const struct part *part)
{
    size_t pairs = 0;
    for (size_t r = 0; r < part->blocks; r++)
        for (size_t j = 0; j < part->rounds; j++)
            pairs += block_norm(part, r, j) > 0 && above(part, r, j, j) > 0;
    return pairs;
}

size_t mmcc_pairs(const struct truth *truth)
{
    size_t most = 0;
    for (size_t first = 0; first < parts_len(truth); first++) {
        struct part part = part_of(truth, first);
        size_t pairs = pairs_of(&part);
        most = pairs > most ? pairs : most;
    }
    return most;
}

/* The least T with Pr[tau Z > T] <= eta. */
static long double normal_quantile(long double tau, long double eta)
{
    long double low = -160, high = 160;
    for (int i = 0; i < 100; i++) {
        long double middle = 0.5L * (low + high);
        *(normal_tail(middle) > eta ? &low : &high) = middle;
    }
    return tau * high;
}

/* The same of tau Z + sum_k x_k g_k, x_k Bernoulli(p): over all 2^len sums. */
static long double joint_quantile(const long double *g, size_t len, long double p, long double tau, long double eta)
{
    long double most = 0, low, high;
    for (size_t k = 0; k < len; k++)
        most += g[k];
    low = normal_quantile(tau, eta);
    high = low + most;
    for (int i = 0; i < 80; i++) {
        long double middle = 0.5L * (low + high), tail = 0;
        for (size_t x = 0; x < (size_t)1 << len; x++) {
            long double weight = 1, sum = 0;
            for (size_t k = 0; k < len; k++) {
                weight *= x >> k & 1 ? p : 1 - p;
                sum += x >> k & 1 ? g[k] : 0;
            }
            tail += weight * normal_tail((middle - sum) / tau);
        }
        *(tail > eta ? &low : &high) = middle;
    }
    return high;
}

static int falling(const void *a, const void *b)
{
    long double left = *(const long double *)a, right = *(const long double *)b;
    return (left < right) - (left > right);
}

/* Appendix B.3: the t largest weights, t the binomial quantile; and the noise with the other half. */
static long double split_quantile(const long double *g, size_t len, long double p, long double tau, long double eta)
{
    long double sorted[COLUMNS_MOST], mass[COLUMNS_MOST + 1] = {1}, tail = 0, sum = 0;
    memcpy(sorted, g, len * sizeof *g);
    qsort(sorted, len, sizeof *sorted, falling);
    for (size_t k = 0; k < len; k++)
        for (size_t t = k + 2; t-- > 0;)
            mass[t] = (t <= k ? mass[t] * (1 - p) : 0) + (t > 0 ? mass[t - 1] * p : 0);
    size_t t = len;
    while (t > 0 && tail + mass[t] <= 0.5L * eta)
        tail += mass[t--];
    for (size_t k = 0; k < t; k++)
        sum += sorted[k];
    return sum + normal_quantile(tau, 0.5L * eta);
}

/* What the odds are computed from. */
struct prior {
    enum eps_direction direction;
    enum mmcc_tail tail;
    long double eta, p, sigma;
};

/* ln of the odds of a participation at j, seen from block r. */
static long double odds(const struct part *part, size_t r, size_t j, const struct prior *before)
{
    long double eta = before->eta, p = before->p, sigma = before->sigma;
    long double square = above(part, r, j, j), prior = logl(p) - log1pl(-p), g[COLUMNS_MOST];
    size_t len = 0;
    if (!(square > 0))
        return prior;
    for (size_t k = 0; k < part->rounds; k++) {
        g[len] = above(part, r, j, k);
        len += g[len] > 0;
    }
    long double tau = sigma * sqrtl(square), quantile;
    if (before->direction == EPS_ADD)
        quantile = normal_quantile(tau, eta);
    else
        quantile =
            before->tail == MMCC_EXACT ? joint_quantile(g, len, p, tau, eta) : split_quantile(g, len, p, tau, eta);
    return prior + (2 * quantile - square) / (2 * sigma * sigma);
}

/* The law of sum_j norm_j Bernoulli(odds_j), equal sums together. */
static struct points row_points(const struct part *part, size_t r, const long double *log_odds)
{
    struct points points = {.len = 1, .weight = {1}, .at = {0}};
    for (size_t j = 0; j < part->rounds; j++) {
        long double norm = block_norm(part, r, j), p = 1 / (1 + expl(-log_odds[j]));
        size_t len = points.len;
        if (!(norm > 0))
            continue;
        if (2 * len > STEP_ATOMS)
            abort();
        for (size_t i = 0; i < len; i++) {
            points.weight[len + i] = points.weight[i] * p;
            points.at[len + i] = points.at[i] + norm;
            points.weight[i] *= 1 / (1 + expl(log_odds[j]));
        }
        points.len = 2 * len;
    }
    return points;
}

static void mirror(struct points *points)
{
    for (size_t i = 0; i < points->len; i++)
        points->at[i] = -points->at[i];
}

/* Without delta1. */
static struct enclosure part_delta(const struct part *part, const struct prior *prior, double eps,
                                   const struct effort *effort)
{
    struct step *shapes = calloc(part->blocks, sizeof *shapes);
    struct steps steps = {0};
    if (!shapes)
        abort();
    for (size_t r = 0; r < part->blocks; r++) {
        long double log_odds[COLUMNS_MOST];
        for (size_t j = 0; j < part->rounds; j++)
            log_odds[j] = odds(part, r, j, prior);
        struct points with = row_points(part, r, log_odds), without = {.len = 1, .weight = {1}, .at = {0}};
        if (with.len == 1)
            continue;
        shapes[r] = (struct step){.len = 1, .rising = true};
        if (prior->direction == EPS_ADD)
            mirror(&with);
        shapes[r].branches[0] =
            prior->direction == EPS_REMOVE ? (struct branch){1, with, without} : (struct branch){1, without, with};
        steps.shape[steps.len] = &shapes[r];
        steps.scale[steps.len++] = 1 / prior->sigma;
    }
    struct enclosure out = steps_delta(&steps, eps, effort);
    free(shapes);
    return out;
}

struct enclosure mmcc_delta(const struct truth *truth, enum eps_direction direction, enum mmcc_tail tail,
                            long double delta1, double eps, double sigma, const struct effort *effort)
{
    struct enclosure worst = {0, 0};
    for (size_t first = 0; first < parts_len(truth); first++) {
        struct part part = part_of(truth, first);
        size_t pairs = pairs_of(&part);
        long double spent = pairs > 0 ? delta1 : 0;
        const struct prior prior = {direction, tail, delta1 / (long double)(pairs ? pairs : 1), truth->p, sigma};
        struct enclosure own = part_delta(&part, &prior, eps, effort);
        worst.lower = fmaxl(worst.lower, own.lower + spent);
        worst.upper = fmaxl(worst.upper, own.upper + spent);
    }
    return worst;
}
