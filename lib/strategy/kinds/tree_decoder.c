/*
 * The decoders of a tree, without forming a matrix of n x 2n numbers.
 *
 * full: the pseudoinverse. The Gram matrix X of the leaves below a node is that of its two children side by side, plus
 * 1: the node's own row is a rank-one update, X^-1 = Y^-1 - Y^-1 1 1' Y^-1 / (1 + beta) with beta = 1' Y^-1 1. So 1'
 * X^-1 a and a' X^-1 a follow from those of the children, and a row of B = A C^+ takes one walk up the tree and one
 * down.
 *
 * online: Honaker's estimator from below. The sum below a complete node of height l is estimated from all nodes below
 * it, a node of height j with weight 2^j / (2^(l+1) - 1). The prefix sum of t + 1 steps adds the estimates of the nodes
 * of its binary representation. The last step of a block of m < 2^h steps may use the estimate of a partial node ("tree
 * completion"): the one with the least variance. The noise of nodes that contain no step is left out, because their
 * sums are known to be zero (MEMF appendix D.3).
 *
 * A left inverse of C is then N, the differences of successive rows of that decoder S of prefix sums, and B = A N for
 * every workload. With stamps this repeats the last row of a block below it (appendix D.4). In terms of N, a complete
 * node replaces the estimates of its two children, and every inner product with a row of N is a sum of steps: <w, N_s>
 * = 1 for the weights w_node = 2^height over any complete node that contains s. So sums and squares of a' N follow from
 * those of the children here too, and one pair of passes over the tree serves both decoders.
 *
 * The rounding error of the square of a node doubles with each height: variances of n steps are accurate to n 2^-53.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/decoder.h"
#include "lib/strategy/failures.h"
#include "lib/strategy/kinds/tree_levels.h"

/* Keeps only the decoder's scale. */
enum eps_status eps__tree_invert(const struct eps_context *context, double **inverse, bool *defined,
                                 struct eps_error *error, const struct eps_strategy *s)
{
    (void)context;
    *inverse = malloc(sizeof **inverse);
    if (!*inverse)
        return eps__strategy_no_memory(error);
    **inverse = 1 / s->scale;
    *defined = isfinite(**inverse);
    return EPS_OK;
}

/* ---- variance, recursive workloads ---- */

/* For the rows u and b (see struct eps__past) over the steps below one node: full: 1' X^-1 u and u' X^-1 u; online: the
 * sum of u and |u' N|^2; likewise for b. */
struct state {
    double u, b;
    struct eps__past past;
};

static struct state merge_full(const struct state *left, const struct state *right, double tau)
{
    struct state node = *left;
    if (right) {
        node.u += right->u;
        node.b += right->b;
        node.past.uu += right->past.uu;
        node.past.bu += right->past.bu;
        node.past.bb += right->past.bb;
    }
    node.past.uu -= node.u * node.u * tau;
    node.past.bu -= node.b * node.u * tau;
    node.past.bb -= node.b * node.b * tau;
    node.u *= tau;
    node.b *= tau;
    return node;
}

/* Replaces a row of N. `weight` is the sum, over the estimates it replaces, of their sum of steps times the change of
 * weights (for u, and for b). The row's entries for the current step are 1 in u and eta in b. */
static void exchange(struct state *node, double u_weight, double b_weight, double square, double eta)
{
    node->past.uu += 2 * u_weight + square;
    node->past.bu += b_weight + eta * u_weight + eta * square;
    node->past.bb += 2 * eta * b_weight + eta * eta * square;
}

static struct state add_states(const struct state *left, const struct state *right)
{
    struct state node = {
        left->u + right->u,
        left->b + right->b,
        {left->past.bb + right->past.bb, left->past.bu + right->past.bu, left->past.uu + right->past.uu}};
    return node;
}

/* At the last step, replaces the estimates within the partial node of height `completion` by the node's own. */
static void complete(struct state *total, const struct eps__tree_levels *v, const struct state *stack, double eta)
{
    double u = 0, b = 0;
    for (size_t j = 0; j < v->completion; j++) {
        if (!(v->m >> j & 1))
            continue;
        double change = 1 / v->width[v->completion] - 1 / v->width[j];
        u += change * stack[j].u;
        b += change * stack[j].b;
    }
    exchange(total, u, b, v->completion_square, eta);
}

/* Step t of a block, with rate eta. stack[j] is the node of height j in the binary representation of the completed
 * steps. */
static struct state tree_step(struct state *stack, const struct eps__tree_levels *v, const struct eps__workload *w,
                              size_t t, double eta)
{
    struct state node = {1, eta, {eta * eta, eta, 1}};
    size_t l = 0;
    for (size_t j = 0; j <= v->height; j++) {
        if (!(t >> j & 1))
            continue;
        stack[j].u *= w->momentum;
        stack[j].b = w->decay * stack[j].b + eta * stack[j].u;
        eps__past_step(&stack[j].past, w, eta);
    }
    for (; t >> l & 1; l++) {
        if (v->full) {
            node = merge_full(&stack[l], &node, v->tau[l + 1]);
        } else {
            node = add_states(&stack[l], &node);
            exchange(&node, v->delta[l + 1] * node.u, v->delta[l + 1] * node.b, v->square[l + 1], eta);
        }
    }
    stack[l] = node;
    for (; l < v->height; l++) {
        bool right = t >> l & 1;
        if (v->full) {
            /* The update of the parent depends on whether m fills it, not on the steps so far. */
            bool filled = t >> (l + 1) < v->m >> (l + 1);
            node = merge_full(&node, right ? &stack[l] : NULL, filled ? v->tau[l + 1] : v->partial_tau[l + 1]);
        } else if (right) {
            node = add_states(&node, &stack[l]);
        }
    }
    if (!v->full && t + 1 == v->m && v->completion)
        complete(&node, v, stack, eta);
    return node;
}

static enum eps_status recursive_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                          const struct eps_strategy *s, const struct eps__tree_levels *v)
{
    const struct eps__workload *w = &s->workload;
    struct state stack[EPS__TREE_HEIGHTS] = {0};
    struct eps__past past = {0};
    for (size_t t = 0; t < s->n; t++) {
        enum eps_status status = t % 4096 == 0 ? eps__strategy_poll(context, error) : EPS_OK;
        if (status != EPS_OK)
            return status;
        double eta = eps__workload_rate(w, t);
        eps__past_step(&past, w, eta);
        struct state node = tree_step(stack, v, w, t % s->block, eta);
        out[t] = node.past.bb + past.bb;
        if (t % s->block == s->block - 1) {
            past.bb += node.past.bb;
            past.bu += node.past.bu;
            past.uu += node.past.uu;
        }
    }
    return EPS_OK;
}

/* ---- variance, any Toeplitz workload ---- */

/*
 * The contribution to the row's norm of a node that started k steps ago depends on k alone, and so does the sum that it
 * passes on: arrays over k, one height after the other, for the complete nodes and for the partial one.
 */
struct arrays {
    size_t n;
    const double *a; /* the workload's first column, n numbers */
    double *sum, *square;
    double *partial_sum, *partial_square;
    double *partial_weight; /* online: sums of steps over widths, added over the estimates in it */
};

static void merge_arrays(const struct arrays *r, const struct eps__tree_levels *v, size_t l)
{
    size_t half = (size_t)1 << (l - 1);
    for (size_t k = r->n; k-- > 0;) {
        double sum = r->sum[k], square = r->square[k];
        if (k >= half) {
            sum += r->sum[k - half];
            square += r->square[k - half];
        }
        if (v->full) {
            r->square[k] = square - sum * sum * v->tau[l];
            r->sum[k] = sum * v->tau[l];
        } else {
            double x = k + 1 >= 2 * half ? r->a[k + 1 - 2 * half] : 0;
            r->square[k] = square + x * (2 * v->delta[l] * sum + x * v->square[l]);
            r->sum[k] = sum;
        }
    }
}

/* The partial node of height l: a complete left child and a partial right one, or only a partial left child. */
static void merge_partial(const struct arrays *r, const struct eps__tree_levels *v, size_t l)
{
    size_t half = (size_t)1 << (l - 1), rest = eps__tree_remainder(v, l);
    bool left = v->m >> (l - 1) & 1;
    for (size_t k = r->n; k-- > 0;) {
        double sum = r->partial_sum[k], square = r->partial_square[k], weight = r->partial_weight[k];
        if (left) {
            sum = r->sum[k] + (k >= half ? r->partial_sum[k - half] : 0);
            square = r->square[k] + (k >= half ? r->partial_square[k - half] : 0);
            weight = v->full ? 0 : r->sum[k] / v->width[l - 1] + (k >= half ? r->partial_weight[k - half] : 0);
        }
        if (v->full) {
            square -= sum * sum * v->partial_tau[l];
            sum *= v->partial_tau[l];
        } else if (l == v->completion && k + 1 >= rest) {
            double x = r->a[k + 1 - rest];
            square += x * (2 * (sum / v->width[l] - weight) + x * v->completion_square);
        }
        r->partial_sum[k] = sum;
        r->partial_square[k] = square;
        r->partial_weight[k] = weight;
    }
}

static enum eps_status toeplitz_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                         const struct eps_strategy *s, const struct eps__tree_levels *v)
{
    size_t n = s->n;
    double *memory = calloc(6 * n, sizeof *memory);
    enum eps_status status = EPS_OK;
    if (!memory)
        return eps__strategy_no_memory(error);
    const struct arrays r = {n, memory, memory + n, memory + 2 * n, memory + 3 * n, memory + 4 * n, memory + 5 * n};
    eps__workload_coefficients(&s->workload, memory, n);
    for (size_t k = 0; k < n; k++) {
        r.sum[k] = r.a[k];
        r.square[k] = r.a[k] * r.a[k];
    }
    for (size_t l = 1; status == EPS_OK && l <= v->height; l++) {
        if (eps__tree_remainder(v, l) != 0)
            merge_partial(&r, v, l);
        merge_arrays(&r, v, l);
        status = eps__strategy_poll(context, error);
    }
    /* A block is one node; an earlier block contributes as the same node that started earlier. */
    memcpy(out, eps__tree_remainder(v, v->height) ? r.partial_square : r.square, n * sizeof *out);
    for (size_t t = s->block; t < n; t++)
        out[t] += out[t - s->block];
    free(memory);
    return status;
}

enum eps_status eps__tree_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                   const struct eps_strategy *s, const double *inverse)
{
    struct eps__tree_levels v;
    eps__tree_levels_init(&v, s);
    enum eps_status status = s->workload.recursive ? recursive_variance(context, out, error, s, &v)
                                                   : toeplitz_variance(context, out, error, s, &v);
    for (size_t t = 0; status == EPS_OK && t < s->n; t++)
        out[t] *= *inverse * *inverse;
    return status;
}

/* ---- rows ---- */

/* a X^-1 C': up the tree, 1' X^-1 a for every node; down the tree, minus the updates of the nodes above, which are
 * equal for all leaves below a node. shift: as many numbers as out. */
static void full_row(double *out, double *shift, const struct eps__tree_levels *v, const double *a, size_t len)
{
    size_t leaves = (size_t)1 << v->height;
    for (size_t e = 0; e < leaves; e++) {
        out[eps__tree_node_row(e, 0)] = e < len ? a[e] : 0;
        for (size_t l = 1; l <= (size_t)__builtin_ctzll(e + 1) && l <= v->height; l++) {
            size_t row = eps__tree_node_row(e, l);
            double tau = e < v->m ? v->tau[l] : v->partial_tau[l];
            out[row] = (out[row - ((size_t)1 << l)] + out[row - 1]) * tau;
        }
    }
    shift[eps__tree_node_row(leaves - 1, v->height)] = 0;
    for (size_t e = leaves; e-- > 0;) {
        for (size_t l = (size_t)__builtin_ctzll(e + 1) + 1; l-- > 0;) {
            size_t row = eps__tree_node_row(e, l), first = e + 1 - ((size_t)1 << l);
            double alpha = e < v->m ? v->alpha[l] : first < v->m ? v->partial_alpha[l] : 0;
            out[row] -= shift[row] * alpha;
            if (l)
                shift[row - 1] = shift[row - ((size_t)1 << l)] = shift[row] + out[row];
        }
    }
}

/* a N: each row of N changes the estimates of whole subtrees, which are accumulated on the way down. */
static void online_row(double *out, const struct eps__tree_levels *v, const double *a, size_t len)
{
    size_t leaves = (size_t)1 << v->height;
    memset(out, 0, (2 * leaves - 1) * sizeof *out);
    for (size_t t = 0; t < len; t++) {
        size_t l = (size_t)__builtin_ctzll(t + 1);
        if (t + 1 == v->m && v->completion)
            l = v->completion;
        size_t start = t >> l << l;
        out[eps__tree_node_row(start + ((size_t)1 << l) - 1, l)] += a[t] / v->width[l];
        for (size_t j = l; j-- > 0;)
            if (t >> j & 1)
                out[eps__tree_node_row((t >> j << j) - 1, j)] -= a[t] / v->width[j];
    }
    for (size_t e = leaves; e-- > 0;) {
        for (size_t l = (size_t)__builtin_ctzll(e + 1) + 1; l-- > 0;) {
            size_t row = eps__tree_node_row(e, l), first = e + 1 - ((size_t)1 << l);
            if (l) {
                out[row - 1] += out[row];
                out[row - ((size_t)1 << l)] += out[row];
            }
            out[row] = first < v->m ? ldexp(out[row], (int)l) : 0;
        }
    }
}

static bool tree_solve(const struct eps_strategy *s, double *out, const double *inverse, const double *a, size_t len,
                       double *work)
{
    struct eps__tree_levels v;
    eps__tree_levels_init(&v, s);
    if (v.full)
        full_row(out, work, &v, a, len);
    else
        online_row(out, &v, a, len);
    for (size_t i = 0; i < s->block_rows; i++)
        out[i] *= *inverse;
    return true;
}

enum eps_status eps__tree_decoder_row(const struct eps_strategy *s, double *out, struct eps_error *error,
                                      const double *inverse, size_t row)
{
    return eps__decoder_row_by_blocks(s, out, error, inverse, row, tree_solve);
}

enum eps_status eps__tree_noise_row(const struct eps_strategy *s, double *out, struct eps_error *error,
                                    const double *inverse, size_t row)
{
    return eps__noise_row_by_solving(s, out, error, inverse, row, tree_solve);
}
