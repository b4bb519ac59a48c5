/*
 * Along a direction u in which the loss rises, the integral is a difference of normal tails beyond the point where the
 * loss is eps. What is left is an integral over the other dimensions: of none, closed; of up to three, a trapezoid sum,
 * which converges like e^{-c/step^2} for these analytic functions and whose every other node tells how far it is; of
 * more, an average over importance samples.
 *
 * u is the direction of the point nearest to the origin at which the loss is eps: tiny deltas come from around it. It
 * is a combination with weights >= 0 of the atoms, so the loss rises along it too.
 *
 * The samples' bound is one-sided, which needs no bound on the integrand: a mean of min(f, M) is under the mean of f
 * whatever M, and a mean of numbers in [0, M] has the empirical Bernstein bound of Maurer and Pontil (2009), theorem 4.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/truth/mixture.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/draw.h"

enum { DIMENSIONS_MAX = 16, DIRECTIONS = 24, PILOT_ROUNDS = 3, ENOUGH = 30, STARTS_MOST = 1024 };

#define FAILURE 1e-10   /* of a sampled bound */
#define ROUNDING 1e-17L /* of a tail, of itself, in long doubles */
#define QUICK_ROUNDING 1e-12L
#define REACH_LIMIT 155.0 /* beyond, a tail is no long double */
/* Of itself: two sums that agree may do so by chance. */
#define QUADRATURE_ERROR 1e-6L

static void *must(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

struct mixture mixture_new(size_t len, size_t dimension)
{
    struct mixture m = {.len = len, .dimension = dimension};
    m.log_weight = must(calloc(len, sizeof *m.log_weight));
    m.at = must(calloc(len * dimension + 1, sizeof *m.at));
    return m;
}

void mixture_free(struct mixture *mixture)
{
    free(mixture->log_weight);
    free(mixture->at);
    *mixture = (struct mixture){0};
}

long double normal_tail(long double x)
{
    return 0.5L * erfcl(x * 0.70710678118654752440084436210484903928L);
}

long double log_normal_tail(long double x)
{
    if (x < 100)
        return logl(normal_tail(x));
    long double y = 1 / (x * x); /* the asymptotic series, whose terms fall under rounding here */
    return -0.5L * x * x - logl(x * 2.50662827463100050241576528481104525L) +
           log1pl(-y * (1 - y * (3 - y * (15 - y * 105))));
}

/* ------------------------------------------------------------ lines */

/* The atoms in coordinates whose first is the direction u. */
struct rays {
    size_t len;
    const long double *log_weight;
    long double *along;    /* the first coordinate */
    long double *across;   /* len x (dimension - 1) */
    long double *log_mass; /* on the line at hand */
    double *quick_along, *quick_mass;
};

struct lines {
    size_t across; /* dimensions but the first */
    long double eps, most, least;
    struct rays over, under;
    long double at;       /* where the last line's loss was eps */
    bool quick;           /* doubles will do to find it */
    long double rounding; /* what the last line's integral may be off by: two tails may cancel */
};

static void rays_free(struct rays *rays)
{
    free(rays->along);
    free(rays->across);
    free(rays->log_mass);
    free(rays->quick_along);
    free(rays->quick_mass);
}

/* ln sum_i exp(log_mass_i + a_i t - a_i^2/2), and the mean of a_i under these weights. */
static long double log_sum(const struct rays *rays, long double t, long double *slope)
{
    long double most = -INFINITY, total = 0, mean = 0;
    for (size_t i = 0; i < rays->len; i++) {
        long double a = rays->along[i], exponent = rays->log_mass[i] + a * (t - 0.5L * a);
        most = exponent > most ? exponent : most;
    }
    for (size_t i = 0; i < rays->len; i++) {
        long double a = rays->along[i], exponent = rays->log_mass[i] + a * (t - 0.5L * a) - most;
        if (exponent < -60)
            continue;
        long double term = expl(exponent);
        total += term;
        mean += term * a;
    }
    *slope = mean / total;
    return most + logl(total);
}

static double quick_log_sum(const struct rays *rays, double t, double *slope)
{
    double most = -INFINITY, total = 0, mean = 0;
    for (size_t i = 0; i < rays->len; i++) {
        double a = rays->quick_along[i], exponent = rays->quick_mass[i] + a * (t - 0.5 * a);
        most = exponent > most ? exponent : most;
    }
    for (size_t i = 0; i < rays->len; i++) {
        double a = rays->quick_along[i], exponent = rays->quick_mass[i] + a * (t - 0.5 * a) - most;
        if (exponent < -40)
            continue;
        double term = exp(exponent);
        total += term;
        mean += term * a;
    }
    *slope = mean / total;
    return most + log(total);
}

static void aim(struct rays *rays, size_t across, const long double *y)
{
    for (size_t i = 0; i < rays->len; i++) {
        long double square = 0;
        for (size_t d = 0; d < across; d++) {
            long double off = y[d] - rays->across[i * across + d];
            square += off * off;
        }
        rays->log_mass[i] = rays->log_weight[i] - 0.5L * square;
        rays->quick_along[i] = (double)rays->along[i];
        rays->quick_mass[i] = (double)rays->log_mass[i];
    }
}

/* An atom's tail has about this logarithm, or a little less. */
static long double log_tail_bound(const struct rays *rays, size_t i, long double t)
{
    long double x = t - rays->along[i];
    return rays->log_mass[i] - (x > 0 ? 0.5L * x * x : 0);
}

static long double quick_tails(const struct rays *rays, double t)
{
    double most = -11300, total = 0;
    for (size_t i = 0; i < rays->len; i++) {
        double x = t - rays->quick_along[i], bound = rays->quick_mass[i] - (x > 0 ? 0.5 * x * x : 0);
        most = bound > most ? bound : most;
    }
    for (size_t i = 0; i < rays->len; i++) {
        double x = t - rays->quick_along[i], square = x > 0 ? 0.5 * x * x : 0;
        double exponent = rays->quick_mass[i] - square - most;
        if (exponent < -36)
            continue;
        double tail = x < 0    ? 0.5 * erfc(x * M_SQRT1_2)
                      : x < 25 ? 0.5 * erfc(x * M_SQRT1_2) * exp(square)
                               : (1 - 1 / (x * x) + 3 / (x * x * x * x)) / (x * 2.5066282746310002);
        total += exp(exponent) * tail;
    }
    return expl((long double)most) * (long double)total;
}

static long double tails(const struct rays *rays, long double t)
{
    long double total = 0, most = -11300;
    for (size_t i = 0; i < rays->len; i++)
        most = fmaxl(most, log_tail_bound(rays, i, t) - 6);
    for (size_t i = 0; i < rays->len; i++)
        if (log_tail_bound(rays, i, t) > most - 50)
            total += expl(rays->log_mass[i]) * normal_tail(t - rays->along[i]);
    return total;
}

static long double excess(const struct lines *lines, long double t, long double *slope)
{
    if (lines->quick) {
        double rise, fall;
        double value = quick_log_sum(&lines->over, (double)t, &rise) - quick_log_sum(&lines->under, (double)t, &fall);
        *slope = rise - fall;
        return value - lines->eps;
    }
    long double rise, fall;
    long double value = log_sum(&lines->over, t, &rise) - log_sum(&lines->under, t, &fall);
    *slope = rise - fall;
    return value - lines->eps;
}

/* Where the loss on the line at hand is eps: INFINITY or -INFINITY where it never or always exceeds it. Newton's
 * steps as long as they stay inside of what is known. */
static long double crossing(struct lines *lines)
{
    long double low = lines->least - (long double)REACH_LIMIT, high = lines->most + (long double)REACH_LIMIT, slope;
    long double t = lines->at > low && lines->at < high ? lines->at : 0;
    bool low_known = false, high_known = false;
    for (int i = 0; i < 200 && high - low > 1e-12L * (1 + fabsl(t)); i++) {
        long double value = excess(lines, t, &slope);
        *(value > 0 ? &high : &low) = t;
        *(value > 0 ? &high_known : &low_known) = true;
        long double next = t - value / slope;
        /* The integral is stationary there: half of the digits give all of it. */
        if (fabsl(next - t) < (lines->quick ? 1e-5L : 1e-9L) * (1 + fabsl(t)))
            return lines->at = next;
        if (!(next > low && next < high)) {
            if (!low_known && next <= low && excess(lines, low, &slope) >= 0)
                return -INFINITY;
            if (!high_known && next >= high && excess(lines, high, &slope) <= 0)
                return INFINITY;
            low_known = high_known = true;
            next = 0.5L * (low + high);
        }
        t = next;
    }
    return lines->at = t;
}

/* The integral along the line at y, times (2 pi)^{across/2}. */
static long double line_delta(struct lines *lines, const long double *y)
{
    aim(&lines->over, lines->across, y);
    aim(&lines->under, lines->across, y);
    long double t = crossing(lines), above, below;
    lines->rounding = 0;
    if (t == INFINITY)
        return 0;
    if (lines->quick) {
        above = quick_tails(&lines->over, (double)t);
        below = expl(lines->eps) * quick_tails(&lines->under, (double)t);
    } else {
        above = tails(&lines->over, t);
        below = expl(lines->eps) * tails(&lines->under, t);
    }
    lines->rounding = (lines->quick ? QUICK_ROUNDING : ROUNDING) * (above + below);
    return above > below ? above - below : 0;
}

/* ------------------------------------------------------------ the direction, and coordinates */

static long double product(const long double *a, const long double *b, size_t len)
{
    long double sum = 0;
    for (size_t i = 0; i < len; i++)
        sum += a[i] * b[i];
    return sum;
}

static bool unit(long double *a, size_t len)
{
    long double norm = sqrtl(product(a, a, len));
    for (size_t i = 0; i < len && norm > 0; i++)
        a[i] /= norm;
    return norm > 0;
}

/* Adds sign times the mean of the atoms, under their weights at the point t u of the line through the origin. */
static void add_mean(long double *sum, const struct mixture *m, const struct rays *rays, long double t,
                     long double sign)
{
    long double most = -INFINITY, total = 0;
    for (size_t i = 0; i < m->len; i++)
        most = fmaxl(most, rays->log_mass[i] + rays->along[i] * (t - 0.5L * rays->along[i]));
    for (size_t i = 0; i < m->len; i++)
        total += expl(rays->log_mass[i] + rays->along[i] * (t - 0.5L * rays->along[i]) - most);
    for (size_t i = 0; i < m->len; i++) {
        long double weight = expl(rays->log_mass[i] + rays->along[i] * (t - 0.5L * rays->along[i]) - most) / total;
        for (size_t d = 0; d < m->dimension; d++)
            sum[d] += sign * weight * m->at[i * m->dimension + d];
    }
}

/* The atoms' coordinates along u; what they have across it counts in log_mass, for the line through the origin. */
static void look_along(struct rays *rays, const struct mixture *m, const long double *u)
{
    for (size_t i = 0; i < m->len; i++) {
        const long double *a = m->at + i * m->dimension;
        rays->along[i] = product(a, u, m->dimension);
        rays->log_mass[i] =
            m->log_weight[i] - 0.5L * fmaxl(product(a, a, m->dimension) - rays->along[i] * rays->along[i], 0);
    }
}

static void choose_direction(struct lines *lines, long double *u, const struct mixture *over,
                             const struct mixture *under)
{
    size_t len = over->dimension;
    long double next[DIMENSIONS_MAX * 2] = {0};
    memset(u, 0, len * sizeof *u);
    for (size_t i = 0; i < over->len; i++)
        for (size_t d = 0; d < len; d++)
            u[d] += expl(over->log_weight[i]) * over->at[i * len + d];
    for (size_t i = 0; i < under->len; i++)
        for (size_t d = 0; d < len; d++)
            u[d] -= expl(under->log_weight[i]) * under->at[i * len + d];
    if (!unit(u, len)) {
        u[0] = 1;
        return;
    }
    for (int k = 0; k < DIRECTIONS; k++) {
        look_along(&lines->over, over, u);
        look_along(&lines->under, under, u);
        long double t = crossing(lines);
        if (isinf(t))
            return;
        memset(next, 0, len * sizeof *next);
        add_mean(next, over, &lines->over, t, 1);
        add_mean(next, under, &lines->under, t, -1);
        if (!unit(next, len))
            return;
        for (size_t d = 0; d < len; d++)
            u[d] += next[d];
        unit(u, len);
    }
}

/* An orthonormal basis of the atoms' span that begins with u; returns its size. */
static size_t span(long double *basis, const long double *u, const struct mixture *const *mixtures)
{
    size_t dimension = mixtures[0]->dimension, len = 1;
    long double largest = 0;
    memcpy(basis, u, dimension * sizeof *u);
    for (size_t m = 0; m < 2; m++)
        for (size_t i = 0; i < mixtures[m]->len; i++) {
            const long double *a = mixtures[m]->at + i * dimension;
            largest = fmaxl(largest, product(a, a, dimension));
        }
    while (len < dimension && len < DIMENSIONS_MAX) {
        long double best = 0, left[2 * DIMENSIONS_MAX], *kept = basis + len * dimension;
        for (size_t m = 0; m < 2; m++)
            for (size_t i = 0; i < mixtures[m]->len; i++) {
                memcpy(left, mixtures[m]->at + i * dimension, dimension * sizeof *left);
                for (int twice = 0; twice < 2; twice++)
                    for (size_t k = 0; k < len; k++) {
                        long double share = product(left, basis + k * dimension, dimension);
                        for (size_t d = 0; d < dimension; d++)
                            left[d] -= share * basis[k * dimension + d];
                    }
                long double square = product(left, left, dimension);
                if (square > best) {
                    best = square;
                    memcpy(kept, left, dimension * sizeof *left);
                }
            }
        if (!(best > 1e-28L * largest))
            break;
        unit(kept, dimension);
        len++;
    }
    return len;
}

static void rays_init(struct rays *rays, const struct mixture *m)
{
    rays->len = m->len;
    rays->log_weight = m->log_weight;
    rays->along = must(calloc(m->len, sizeof *rays->along));
    rays->log_mass = must(calloc(m->len, sizeof *rays->log_mass));
    rays->across = must(calloc(m->len * 2 * DIMENSIONS_MAX, sizeof *rays->across));
    rays->quick_along = must(calloc(m->len, sizeof *rays->quick_along));
    rays->quick_mass = must(calloc(m->len, sizeof *rays->quick_mass));
}

static void rays_turn(struct rays *rays, const struct mixture *m, const long double *basis, size_t dimensions,
                      long double *least, long double *most)
{
    for (size_t i = 0; i < m->len; i++) {
        const long double *a = m->at + i * m->dimension;
        rays->along[i] = product(a, basis, m->dimension);
        *least = fminl(*least, rays->along[i]);
        *most = fmaxl(*most, rays->along[i]);
        for (size_t d = 1; d < dimensions; d++)
            rays->across[i * (dimensions - 1) + d - 1] = product(a, basis + d * m->dimension, m->dimension);
    }
}

/* ------------------------------------------------------------ quadrature */

struct grid {
    struct lines *lines;
    long double step, from[DIMENSIONS_MAX], y[DIMENSIONS_MAX];
    size_t nodes[DIMENSIONS_MAX];
    long double all, even, shell; /* sums: of all nodes, of those with even indices, of the outermost */
    long double rounding;         /* of all */
};

static void sum_nodes(struct grid *grid, size_t dimension, bool even, bool outermost)
{
    struct lines *lines = grid->lines;
    if (dimension == lines->across) {
        long double value = line_delta(lines, grid->y);
        grid->all += value;
        grid->rounding += lines->rounding;
        grid->even += even ? value : 0;
        grid->shell += outermost ? value : 0;
        return;
    }
    long double start = lines->at;
    for (size_t k = 0; k < grid->nodes[dimension]; k++) {
        grid->y[dimension] = grid->from[dimension] + (long double)k * grid->step;
        sum_nodes(grid, dimension + 1, even && k % 2 == 0, outermost || k == 0 || k + 1 == grid->nodes[dimension]);
        if (k == 0)
            start = lines->at;
    }
    lines->at = start;
}

static void extent(const struct rays *rays, size_t across, size_t d, long double *low, long double *high)
{
    for (size_t i = 0; i < rays->len; i++) {
        *low = fminl(*low, rays->across[i * across + d]);
        *high = fmaxl(*high, rays->across[i * across + d]);
    }
}

/* A small delta may have its mass far out, beyond a valley in which the sum would seem to have converged. */
static long double first_reach(long double floor)
{
    return fmaxl(8, sqrtl(-2 * logl(fmaxl(fminl(floor, 1), 1e-4000L))) + 2);
}

static bool quadrature(struct lines *lines, long double floor, struct enclosure *out)
{
    size_t budget = 400000;
    long double reach = first_reach(floor), step = 0.5L, last_error = INFINITY;
    for (int i = 0; i < 12; i++) {
        struct grid grid = {.lines = lines, .step = step};
        double nodes = 1;
        for (size_t d = 0; d < lines->across; d++) {
            long double low = 0, high = 0;
            extent(&lines->over, lines->across, d, &low, &high);
            grid.from[d] = low - reach;
            grid.nodes[d] = (size_t)ceill((high - low + 2 * reach) / step) + 1;
            nodes *= (double)grid.nodes[d];
        }
        if (nodes > (double)budget)
            return false;
        sum_nodes(&grid, 0, true, false);
        long double unit_volume = powl(step * 0.39894228040143267793994605993438187L, (long double)lines->across);
        long double coarse = ldexpl(grid.even, (int)lines->across), error = fabsl(grid.all - coarse) + grid.shell;
        long double told = error + QUADRATURE_ERROR * grid.all + grid.rounding;
        *out = (struct enclosure){(grid.all - told) * unit_volume, (grid.all + told) * unit_volume};
        if (error <= QUADRATURE_ERROR * grid.all || grid.all == 0)
            return true;
        if (grid.shell > 0.1L * QUADRATURE_ERROR * grid.all)
            reach *= 1.3L;
        else if (error > 0.9L * last_error && i > 4)
            return false;
        else
            step *= 0.7L;
        last_error = error;
    }
    return false;
}

/* ------------------------------------------------------------ samples */

/* A mixture of unit Gaussians over the dimensions across. */
struct proposal {
    size_t len, across;
    long double *weight, *centre;
};

static struct proposal proposal_new(size_t len, size_t across)
{
    return (struct proposal){len, across, must(calloc(len, sizeof(long double))),
                             must(calloc(len * across + 1, sizeof(long double)))};
}

static void proposal_free(struct proposal *p)
{
    free(p->weight);
    free(p->centre);
}

static long double draw_normal(uint64_t *state)
{
    long double u = 1 - (long double)draw_unit(state), v = (long double)draw_unit(state);
    return sqrtl(-2 * logl(u)) * cosl(6.283185307179586476925286766559L * v);
}

static void draw_point(const struct proposal *p, uint64_t *state, long double *y)
{
    long double u = (long double)draw_unit(state);
    size_t c = 0;
    while (c + 1 < p->len && u >= p->weight[c])
        u -= p->weight[c++];
    for (size_t d = 0; d < p->across; d++)
        y[d] = p->centre[c * p->across + d] + draw_normal(state);
}

/* The density at y times (2 pi)^{across/2}; shares: each component's part of it, or NULL. */
static long double density(const struct proposal *p, const long double *y, long double *shares)
{
    long double total = 0;
    for (size_t c = 0; c < p->len; c++) {
        long double square = 0;
        for (size_t d = 0; d < p->across; d++) {
            long double off = y[d] - p->centre[c * p->across + d];
            square += off * off;
        }
        long double part = p->weight[c] > 0 ? p->weight[c] * expl(-0.5L * square) : 0;
        total += part;
        if (shares)
            shares[c] = part;
    }
    return total;
}

static void normalise(struct proposal *p)
{
    long double total = 0;
    for (size_t c = 0; c < p->len; c++)
        total += p->weight[c];
    for (size_t c = 0; c < p->len; c++)
        p->weight[c] = total > 0 ? p->weight[c] / total : 1 / (long double)p->len;
}

/* One round of cross entropy: each component goes where what it found lies. Returns the largest value seen. */
static long double learn(struct proposal *p, const struct proposal *first, struct lines *lines, uint64_t *state,
                         size_t samples)
{
    size_t across = p->across;
    long double y[DIMENSIONS_MAX], most = 0, *shares = must(calloc(2 * p->len, sizeof *shares));
    long double *squares = shares + p->len;
    struct proposal sums = proposal_new(p->len, across);
    for (size_t s = 0; s < samples; s++) {
        draw_point(p, state, y);
        long double at = density(p, y, shares), value = line_delta(lines, y) / at;
        most = fmaxl(most, value);
        for (size_t c = 0; c < p->len && value > 0; c++) {
            long double part = value * shares[c] / at;
            sums.weight[c] += part;
            squares[c] += part * part;
            for (size_t d = 0; d < across; d++)
                sums.centre[c * across + d] += part * y[d];
        }
    }
    for (size_t c = 0; c < p->len; c++)
        for (size_t d = 0; d < across && sums.weight[c] * sums.weight[c] > ENOUGH * squares[c]; d++)
            p->centre[c * across + d] = sums.centre[c * across + d] / sums.weight[c];
    normalise(&sums);
    for (size_t c = 0; c < p->len && most > 0; c++)
        p->weight[c] = 0.9L * sums.weight[c] + 0.1L * first->weight[c];
    proposal_free(&sums);
    free(shares);
    return most;
}

/* The loss at y, all coordinates, and its gradient. */
static long double loss_at(const struct lines *lines, const long double *y, long double *gradient)
{
    const struct rays *sides[] = {&lines->over, &lines->under};
    long double loss = 0;
    memset(gradient, 0, (lines->across + 1) * sizeof *gradient);
    for (int side = 0; side < 2; side++) {
        const struct rays *rays = sides[side];
        double most = -INFINITY, total = 0, weights[DIMENSIONS_MAX + 1] = {0}, *exponents = rays->quick_mass;
        for (size_t i = 0; i < rays->len; i++) {
            long double along = rays->along[i], exponent = rays->log_weight[i] + along * (y[0] - 0.5L * along);
            for (size_t d = 0; d < lines->across; d++) {
                long double a = rays->across[i * lines->across + d];
                exponent += a * (y[d + 1] - 0.5L * a);
            }
            exponents[i] = (double)exponent;
            most = fmax(most, exponents[i]);
        }
        for (size_t i = 0; i < rays->len; i++) {
            double term = exponents[i] < most - 36 ? 0 : exp(exponents[i] - most);
            total += term;
            weights[0] += term * (double)rays->along[i];
            for (size_t d = 0; d < lines->across && term > 0; d++)
                weights[d + 1] += term * (double)rays->across[i * lines->across + d];
        }
        loss += (side ? -1 : 1) * (long double)(most + log(total));
        for (size_t d = 0; d <= lines->across; d++)
            gradient[d] += (side ? -1 : 1) * (long double)(weights[d] / total);
    }
    return loss;
}

/* From an atom to the nearest point where the loss is eps, by repeated linearisation; returns about ln of the atom's
 * weight beyond it. */
static long double nearest_point(const struct lines *lines, size_t atom, long double *y)
{
    size_t len = lines->across + 1;
    long double from[DIMENSIONS_MAX + 1], gradient[DIMENSIONS_MAX + 1], square = 0;
    from[0] = lines->over.along[atom];
    memcpy(from + 1, lines->over.across + atom * lines->across, lines->across * sizeof *from);
    memcpy(y, from, len * sizeof *y);
    for (int i = 0; i < 12; i++) {
        long double missing = lines->eps - loss_at(lines, y, gradient), slope = product(gradient, gradient, len);
        if ((i == 0 && missing <= 0) || !(slope > 0))
            break;
        for (size_t d = 0; d < len; d++)
            missing += gradient[d] * (y[d] - from[d]);
        for (size_t d = 0; d < len; d++)
            y[d] = from[d] + gradient[d] * fmaxl(missing, 0) / slope;
    }
    for (size_t d = 0; d < len; d++)
        square += (y[d] - from[d]) * (y[d] - from[d]);
    return lines->over.log_weight[atom] - 0.5L * square;
}

struct start {
    long double log_weight, point[DIMENSIONS_MAX + 1];
};

static int likelier(const void *a, const void *b)
{
    long double left = ((const struct start *)a)->log_weight, right = ((const struct start *)b)->log_weight;
    return (left < right) - (left > right);
}

/* Around the origin, where the line passes through the nearest point of all; and around each atom's own. */
static struct proposal first_proposal(struct lines *lines)
{
    size_t across = lines->across, len = 1;
    struct start *starts = must(calloc(lines->over.len, sizeof *starts));
    for (size_t i = 0; i < lines->over.len; i++)
        starts[i].log_weight = nearest_point(lines, i, starts[i].point);
    qsort(starts, lines->over.len, sizeof *starts, likelier);
    struct proposal first = proposal_new((lines->over.len < STARTS_MOST ? lines->over.len : STARTS_MOST) + 1, across);
    for (size_t i = 0; i + 1 < first.len && starts[i].log_weight > starts[0].log_weight - 12; i++)
        memcpy(first.centre + len++ * across, starts[i].point + 1, across * sizeof *first.centre);
    first.len = len;
    for (size_t c = 0; c < len; c++) {
        lines->at = 0;
        first.weight[c] = line_delta(lines, first.centre + c * across);
    }
    normalise(&first);
    free(starts);
    return first;
}

static struct enclosure sampled(struct lines *lines, const struct effort *effort)
{
    size_t across = lines->across;
    struct proposal first = first_proposal(lines), p = proposal_new(first.len, across);
    uint64_t state = effort->seed;
    long double y[DIMENSIONS_MAX], most = 0, sum = 0, square = 0;
    memcpy(p.weight, first.weight, p.len * sizeof *p.weight);
    memcpy(p.centre, first.centre, p.len * across * sizeof *p.centre);
    for (int round = 0; round < PILOT_ROUNDS; round++)
        most = learn(&p, &first, lines, &state, effort->samples / 8 + 64);
    for (size_t s = 0; s < effort->samples; s++) {
        draw_point(&p, &state, y);
        long double found = fmaxl(line_delta(lines, y) - lines->rounding, 0);
        long double value = fminl(found / density(&p, y, NULL), most);
        sum += value;
        square += value * value;
    }
    long double n = (long double)effort->samples, mean = sum / n, nats = logl(2 / (long double)FAILURE);
    long double variance = fmaxl(square - n * mean * mean, 0) / (n - 1);
    long double error = sqrtl(2 * variance * nats / n) + 7 * most * nats / (3 * (n - 1));
    proposal_free(&first);
    proposal_free(&p);
    return (struct enclosure){fmaxl(mean - error, 0), 1};
}

/* ------------------------------------------------------------ all together */

static int heavier(const void *a, const void *b)
{
    long double left = **(const long double *const *)a, right = **(const long double *const *)b;
    return (left < right) - (left > right);
}

/* The mixture without its lightest atoms, of at most `spare` together; *left_out is their weight. */
static struct mixture lighten(const struct mixture *m, long double spare, long double *left_out)
{
    const long double **order = must(malloc(m->len * sizeof *order));
    size_t len = m->len;
    *left_out = 0;
    for (size_t i = 0; i < len; i++)
        order[i] = &m->log_weight[i];
    qsort(order, len, sizeof *order, heavier);
    while (len > 1 && *left_out + expl(*order[len - 1]) <= spare)
        *left_out += expl(*order[--len]);
    struct mixture kept = mixture_new(len, m->dimension);
    for (size_t i = 0; i < len; i++) {
        size_t from = (size_t)(order[i] - m->log_weight);
        kept.log_weight[i] = m->log_weight[from];
        memcpy(kept.at + i * m->dimension, m->at + from * m->dimension, m->dimension * sizeof *m->at);
    }
    free(order);
    return kept;
}

static struct enclosure divergence(const struct mixture *over, const struct mixture *under, long double eps,
                                   const struct effort *effort)
{
    struct lines lines = {.eps = eps};
    long double u[2 * DIMENSIONS_MAX], *basis = must(calloc(2 * DIMENSIONS_MAX * DIMENSIONS_MAX, sizeof *basis));
    const struct mixture *both[] = {over, under};
    struct enclosure out;
    if (over->dimension > 2 * DIMENSIONS_MAX)
        abort();
    rays_init(&lines.over, over);
    rays_init(&lines.under, under);
    lines.most = lines.least = 0;
    for (size_t m = 0; m < 2; m++)
        for (size_t i = 0; i < both[m]->len; i++) {
            const long double *a = both[m]->at + i * both[m]->dimension;
            long double norm = sqrtl(product(a, a, both[m]->dimension));
            lines.most = fmaxl(lines.most, norm);
            lines.least = fminl(lines.least, -norm);
        }
    choose_direction(&lines, u, over, under);
    size_t dimensions = span(basis, u, both);
    lines.across = dimensions - 1;
    rays_turn(&lines.over, over, basis, dimensions, &lines.least, &lines.most);
    rays_turn(&lines.under, under, basis, dimensions, &lines.least, &lines.most);
    lines.at = 0;
    if (lines.across == 0) {
        long double value = line_delta(&lines, u);
        out = (struct enclosure){value * (1 - 1e-12L) - lines.rounding, value * (1 + 1e-12L) + lines.rounding};
    } else if (dimensions > effort->quadrature_most || !quadrature(&lines, effort->floor, &out)) {
        lines.quick = true;
        out = sampled(&lines, effort);
    }
    rays_free(&lines.over);
    rays_free(&lines.under);
    free(basis);
    return out;
}

/* What is left out of `over` can only have added its weight; of `under`, have taken e^eps times that away. */
struct enclosure mixture_delta(const struct mixture *over, const struct mixture *under, long double eps,
                               const struct effort *effort)
{
    long double over_lost, under_lost, spare = 1e-4L * effort->floor;
    if (eps > TRUTH_EPSILON_MOST)
        return (struct enclosure){0, 1};
    struct mixture above = lighten(over, spare, &over_lost), below = lighten(under, spare * expl(-eps), &under_lost);
    struct enclosure out = divergence(&above, &below, eps, effort);
    out.lower = fmaxl(out.lower - expl(eps) * under_lost, 0);
    out.upper = fminl(out.upper + over_lost, 1);
    mixture_free(&above);
    mixture_free(&below);
    return out;
}
