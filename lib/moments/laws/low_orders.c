/*
 * See low_orders.h. For draws i_1 .. i_j of bins, E prod_a (x_{i_a} - 1) is a sum over the graphs on the draws in which
 * every draw has an edge; the term of a graph is the product over its edges of w = e^G - 1 >= 0 (M13). So b^j mu_j is a
 * sum of terms >= 0. For j <= 4 they are products of matrices; only the complete graph on four draws needs a matrix
 * product for each bin. Pairs of bins with w = 0 are skipped, so that this product costs width^3 if the matrix is
 * banded.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/low_orders.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/numerics/bound.h"
#include "lib/numerics/linear/linalg.h"

struct graphs {
    size_t len;
    double *w;      /* len x len */
    double *square; /* w w */
    double *degree; /* the sum of each row of w */
    size_t *near;   /* for one bin: the later bins with a positive entry */
    double *part;   /* for one bin: the matrix v of these, and its square */
};

static void graphs_free(struct graphs *g)
{
    free(g->w);
    free(g->square);
    free(g->degree);
    free(g->near);
    free(g->part);
}

/* The number of later bins with a positive entry. */
static size_t entries_beside(const struct eps__bin_gram *bins, size_t i)
{
    size_t count = 0;
    for (size_t j = i + 1; bins->gram && j < bins->len; j++)
        count += bins->gram[i * bins->len + j] > 0;
    return count;
}

double eps__low_orders_operations(const struct eps__bin_gram *bins, unsigned most)
{
    double b = (double)bins->len, operations = 40 * b * b;
    if (most >= 3)
        operations += b * b * b; /* a symmetric product */
    for (size_t i = 0; most >= 4 && i < bins->len; i++) {
        double near = (double)entries_beside(bins, i);
        operations += near * near * near + 4 * near * near;
    }
    return operations;
}

static enum eps_status graphs_make(struct graphs *g, const struct eps__bin_gram *bins, unsigned most)
{
    size_t b = bins->len;
    *g = (struct graphs){.len = b,
                         .w = malloc(b * b * sizeof *g->w),
                         .degree = malloc(b * sizeof *g->degree),
                         .square = malloc((most >= 3 ? b * b : 1) * sizeof *g->square),
                         .near = malloc(b * sizeof *g->near),
                         .part = malloc((most >= 4 ? 2 * b * b : 1) * sizeof *g->part)};
    if (!g->w || !g->degree || !g->square || !g->near || !g->part) {
        graphs_free(g);
        return EPS_NO_MEMORY;
    }
    for (size_t i = 0; i < b; i++) {
        g->degree[i] = 0;
        for (size_t j = 0; j < b; j++) {
            double w = expm1(eps__bin_gram_entry(bins, i, j));
            g->w[i * b + j] = w;
            g->degree[i] += w;
        }
    }
    if (most >= 3)
        eps__gram(NULL, g->square, g->w, b, b); /* w is symmetric */
    return EPS_OK;
}

/* Three draws: the 3 paths of two edges, and the triangle. */
static double three(const struct graphs *g)
{
    double paths = 0, triangles = 0;
    for (size_t i = 0; i < g->len; i++) {
        double closed = 0;
        for (size_t j = 0; j < g->len; j++)
            closed += g->w[i * g->len + j] * g->square[i * g->len + j];
        paths += g->degree[i] * g->degree[i];
        triangles += closed;
    }
    return 3 * paths + triangles;
}

/* Four draws, all graphs but the complete one. */
static double four_but_complete(const struct graphs *g)
{
    double edges = 0, stars = 0, paths = 0, circles = 0, tailed = 0, double_triangles = 0;
    for (size_t i = 0; i < g->len; i++) {
        double closed = 0, along = 0;
        for (size_t j = 0; j < g->len; j++) {
            double w = g->w[i * g->len + j], two = g->square[i * g->len + j];
            along += w * g->degree[j];
            closed += w * two;
            circles += two * two;
            double_triangles += w * two * two;
        }
        double degree = g->degree[i];
        edges += degree;
        stars += degree * degree * degree;
        paths += degree * along;
        tailed += degree * closed;
    }
    return 3 * edges * edges + 12 * paths + 4 * stars + 3 * circles + 12 * tailed + 6 * double_triangles;
}

/*
 * The complete graph on four draws whose least bin is i. There are 4 ways in which one draw is in bin i, 6 for two
 * draws, 4 for three, 1 for four. With one draw in bin i and the others in bins b, c, d, the term w_ib w_ic w_id w_bc
 * w_bd w_cd is v_bc v_bd v_cd, where v_bc = sqrt(w_ib w_ic) w_bc.
 */
static double complete_from(struct graphs *g, size_t i)
{
    const double *row = g->w + i * g->len;
    size_t near = 0;
    for (size_t j = i + 1; j < g->len; j++)
        if (row[j] > 0)
            g->near[near++] = j;
    double own = row[i], one = 0, two = 0, three_own = 0, *v = g->part, *square = g->part + near * near;
    for (size_t c = 0; c < near; c++) {
        double to = row[g->near[c]];
        three_own += to * to * to;
        for (size_t d = 0; d < near; d++) {
            double w = g->w[g->near[c] * g->len + g->near[d]], from = row[g->near[d]];
            two += to * to * from * from * w;
            v[c * near + d] = sqrt(to * from) * w;
        }
    }
    if (near > 0)
        eps__gram(NULL, square, v, near, near);
    for (size_t c = 0; c < near * near; c++)
        one += v[c] * square[c];
    return 4 * one + 6 * own * two + 4 * own * own * own * three_own + own * own * own * own * own * own;
}

enum eps_status eps__low_orders(const struct eps_context *context, const struct eps__bin_gram *bins, unsigned most,
                                double central[5], double *units)
{
    struct graphs g;
    double b = (double)bins->len, edges = 0, complete = 0;
    assert(most >= 2 && most <= 4);
    enum eps_status status = graphs_make(&g, bins, most);
    if (status != EPS_OK)
        return status;
    for (size_t i = 0; i < bins->len; i++)
        edges += g.degree[i];
    for (size_t i = 0; most >= 4 && i < bins->len && status == EPS_OK; i++) {
        complete += complete_from(&g, i);
        status = eps__poll(context);
    }
    central[0] = 1;
    central[1] = 0;
    central[2] = edges / (b * b);
    central[3] = most >= 3 ? three(&g) / (b * b * b) : INFINITY;
    central[4] = most >= 4 ? (four_but_complete(&g) + complete) / (b * b * b * b) : INFINITY;
    graphs_free(&g);
    /* w is within 4 units. A term has at most six of them and 12 products, and is in at most four nested sums of b. */
    *units = 1.01 * (4 * b + 64);
    return status;
}
