/*
 * Draws under Poisson sampling with a tree strategy. Row v of y is h s_v(x) plus noise, where h is the value of the
 * tree over sigma and s_v(x) the number of leaves under node v that take part. So
 *     P/Q = E_x prod over v of exp(h s_v y_v - h^2 s_v^2/2).
 * Let f_v(c) be the part of this expectation that comes from the leaves and nodes under v (v included), over patterns
 * with s_v = c. Then f_v is the convolution of the tables of v's children, times the factor of v. A table is made for
 * each node, from the leaves to the root (A36).
 *
 * Patterns in which some node exceeds its cap are left out of P/Q. For remove, a draw of such a pattern gets the
 * largest possible value, 1.
 *
 * Tilted draws have a drift against the mean of C x. Jensen's inequality gives another lower bound on P/Q (A45), which
 * the caps do not affect; the larger bound is used.
 *
 * As in poisson.c, tables hold plain numbers scaled by powers of two, or numbers with separate exponents.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/monte_carlo/laws/poisson.h"
#include "lib/accountants/monte_carlo/laws/drift.h"
#include "lib/accountants/monte_carlo/laws/scaled.h"
#include "lib/numerics/bound.h"
#include "lib/sampling/participations.h"

#define LEAST 0x1p-480   /* the least number of a table, whose largest is about 1 */
#define FACTOR 0x1p-500  /* the least factor of a node, whose largest is about 1 */
#define PRODUCT 0x1p-900 /* the least number of a node before scaling; a smaller one may have lost precision */
#define OPERATIONS 60.0  /* cost of a number of a table, in multiply-adds */

struct tree_law {
    struct eps__mc_law base;
    struct eps__b_min_sep_steps steps;
    size_t stamps, leaves, height, rows; /* leaves, height and rows are those of one tree */
    double value, half;                  /* h, h^2/2 */
    size_t cap[EPS__MC_HEIGHT_MAX + 1];  /* of a node, by height */
    size_t wide;                         /* numbers of the largest table */
    struct eps__mc_drift drift;
    double leaf_drift; /* tilted: what each leaf in use adds to the drift of the rows above it */
    double log_base;   /* tilted: half the squared norm of the drift */
};

/* The table of a node, for all lanes. */
struct table {
    double *value;      /* f_v(c), by count c */
    double *exponent;   /* separate binary exponents of the values; used only if they are needed */
    double *scale;      /* else the common binary exponent of a lane's values */
    double *taken;      /* the number of leaves that take part in the draw */
    size_t top, leaves; /* the largest count; the leaves in use under the node */
};

/* The scratch space of draw(), divided up, and the state of a draw. */
struct work {
    const struct tree_law *law;
    const struct eps__stream *stream;
    uint32_t first;
    bool scaled;           /* with separate exponents */
    bool over[EPS__LANES]; /* some node exceeds its cap */
    struct table tables[EPS__MC_HEIGHT_MAX + 2], spare;
    double *normals, *factor, *log_weight;
    size_t pair; /* `normals` holds numbers 2 pair and 2 pair + 1 of the stream */
    struct eps__participated *slots;
    size_t most, len[EPS__LANES], at[EPS__LANES];
};

static size_t minimum(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t scratch_of(const struct tree_law *law)
{
    return ((law->height + 3) * (2 * law->wide + 2) + 2 + law->wide + eps__b_min_sep_steps_most(&law->steps)) *
           EPS__LANES;
}

static double *make_table(struct table *table, double *at, size_t wide)
{
    table->value = at;
    table->exponent = table->value + wide * EPS__LANES;
    table->scale = table->exponent + wide * EPS__LANES;
    table->taken = table->scale + EPS__LANES;
    return table->taken + EPS__LANES;
}

static void make_work(struct work *work, const struct tree_law *law, double *scratch)
{
    double *at = scratch;
    for (size_t i = 0; i < law->height + 2; i++)
        at = make_table(&work->tables[i], at, law->wide);
    at = make_table(&work->spare, at, law->wide);
    work->normals = at;
    work->factor = work->normals + 2 * (size_t)EPS__LANES;
    work->slots = (void *)(work->factor + law->wide * EPS__LANES);
    work->most = eps__b_min_sep_steps_most(&law->steps);
    work->pair = SIZE_MAX;
}

/* ------------------------------------------------------------ tables of plain numbers */

/* The convolution of two tables. Their numbers are at least LEAST, so no product underflows. */
static void convolve(struct table *out, const struct table *a, const struct table *b)
{
    for (size_t c = 0; c <= out->top; c++) {
        size_t first = c > b->top ? c - b->top : 0, last = minimum(c, a->top);
        double sum[EPS__LANES] = {0};
        for (size_t i = first; i <= last; i++) {
            const double *left = a->value + i * EPS__LANES, *right = b->value + (c - i) * EPS__LANES;
            for (size_t lane = 0; lane < EPS__LANES; lane++)
                sum[lane] += left[lane] * right[lane];
        }
        memcpy(out->value + c * EPS__LANES, sum, sizeof sum);
    }
    for (size_t lane = 0; lane < EPS__LANES; lane++)
        out->scale[lane] = a->scale[lane] + b->scale[lane];
}

/* Scales a lane such that its largest number is about 1. False if its least number is too small. */
static bool normalise(struct table *table, size_t lane)
{
    double most = 0, least = INFINITY;
    for (size_t c = 0; c <= table->top; c++) {
        most = fmax(most, table->value[c * EPS__LANES + lane]);
        least = fmin(least, table->value[c * EPS__LANES + lane]);
    }
    int shift;
    (void)frexp(most, &shift);
    if (!(least >= PRODUCT && most < INFINITY))
        return false;
    double by = ldexp(1, -shift);
    for (size_t c = 0; c <= table->top; c++)
        table->value[c * EPS__LANES + lane] *= by;
    table->scale[lane] += shift;
    return least * by >= LEAST;
}

/* The logarithms of the node's factors in one lane, by count, for a row y. They are divided by the power of two that is
 * nearest to the largest factor; its exponent is returned. */
static double make_factors(double *factor, const struct tree_law *law, double y, size_t top, size_t lane)
{
    double most = 0;
    for (size_t c = 0; c <= top; c++) {
        double count = (double)c, x = count * (law->value * y) - count * count * law->half;
        factor[c * EPS__LANES + lane] = x;
        most = fmax(most, x);
    }
    double whole = rint(most * M_LOG2E);
    for (size_t c = 0; c <= top; c++) {
        double *x = &factor[c * EPS__LANES + lane];
        *x = fma(-whole, 0x1.abc9e3b39803fp-56, fma(-whole, M_LN2, *x));
    }
    return whole;
}

/* Multiplies a table by the factors, given by their logarithms. False if a number is too small. */
static bool multiply(struct table *table, double *factor)
{
    bool safe = true;
    eps__exp_lanes(factor, table->top + 1);
    for (size_t i = 0; i < (table->top + 1) * EPS__LANES; i++) {
        safe &= factor[i] >= FACTOR;
        table->value[i] *= factor[i];
    }
    for (size_t lane = 0; safe && lane < EPS__LANES; lane++)
        safe = normalise(table, lane);
    return safe;
}

/* ------------------------------------------------------------ tables with separate exponents */

static struct eps__scaled number(const struct table *table, size_t at)
{
    return (struct eps__scaled){table->value[at], table->exponent[at]};
}

static void set(struct table *table, size_t at, struct eps__scaled x)
{
    table->value[at] = x.mantissa;
    table->exponent[at] = x.exponent;
}

static void convolve_scaled(struct table *out, const struct table *a, const struct table *b)
{
    for (size_t c = 0; c <= out->top; c++)
        for (size_t lane = 0; lane < EPS__LANES; lane++) {
            size_t first = c > b->top ? c - b->top : 0, last = minimum(c, a->top);
            struct eps__scaled sum = {0, -INFINITY};
            for (size_t i = first; i <= last; i++)
                sum = eps__scaled_add(
                    sum, eps__scaled_times(number(a, i * EPS__LANES + lane), number(b, (c - i) * EPS__LANES + lane)));
            set(out, c * EPS__LANES + lane, sum);
        }
}

/* ------------------------------------------------------------ nodes */

/* Draws row `row` of y, which belongs to the node of this table, and adds its part to the log weight. */
static void draw_row(struct work *work, double *y, const struct table *table, size_t row)
{
    double drift = work->law->leaf_drift * (double)table->leaves;
    if (work->pair != row / 2)
        eps__normals(work->normals, work->stream, work->first, row / 2 * 2, 2);
    work->pair = row / 2;
    for (size_t lane = 0; lane < EPS__LANES; lane++) {
        work->over[lane] |= table->taken[lane] > (double)table->top;
        y[lane] = work->law->value * table->taken[lane] + work->normals[row % 2 * EPS__LANES + lane] + drift;
        work->log_weight[lane] -= drift * y[lane];
    }
}

/* Multiplies the table of a node by the node's own factor; `row` is its row. False if a number leaves the range. */
static bool apply(struct work *work, struct table *table, size_t row)
{
    double y[EPS__LANES];
    draw_row(work, y, table, row);
    for (size_t lane = 0; lane < EPS__LANES; lane++) {
        double whole = make_factors(work->factor, work->law, y[lane], table->top, lane);
        for (size_t c = 0; work->scaled && c <= table->top; c++) {
            size_t at = c * EPS__LANES + lane;
            struct eps__scaled factor = eps__scaled_exp(work->factor[at]);
            factor.exponent += whole;
            set(table, at, eps__scaled_times(number(table, at), factor));
        }
        if (!work->scaled)
            table->scale[lane] += whole;
    }
    return work->scaled || multiply(table, work->factor);
}

/* The row, in post-order, of the node of this height whose last leaf (in use or not) is end - 1. */
static size_t row_of(size_t end, size_t height)
{
    size_t last = end - 1;
    return 2 * last - (size_t)__builtin_popcountll(last) + height;
}

static void make_leaf(struct work *work, struct table *table, size_t step)
{
    const struct tree_law *law = work->law;
    table->top = minimum(law->cap[0], 1);
    table->leaves = 1;
    for (size_t lane = 0; lane < EPS__LANES; lane++) {
        const struct eps__participated *slots = work->slots + lane * work->most;
        bool taken = work->at[lane] < work->len[lane] && slots[work->at[lane]].step == step;
        work->at[lane] += taken;
        table->taken[lane] = taken;
        table->scale[lane] = 0;
        for (size_t c = 0; c <= table->top; c++) {
            double chance = c ? law->steps.p : 1 - law->steps.p;
            if (work->scaled)
                set(table, c * EPS__LANES + lane, eps__scaled_of(chance, 0));
            else
                table->value[c * EPS__LANES + lane] = chance;
        }
    }
}

/* Replaces the tables of two children by that of their parent, without its own factor, in the first one's place. */
static void merge(struct work *work, struct table *a, const struct table *b, size_t cap)
{
    struct table *out = &work->spare, before = *a;
    out->top = minimum(cap, a->top + b->top);
    out->leaves = a->leaves + b->leaves;
    assert(out->top < work->law->wide);
    for (size_t lane = 0; lane < EPS__LANES; lane++)
        out->taken[lane] = a->taken[lane] + b->taken[lane];
    if (work->scaled)
        convolve_scaled(out, a, b);
    else
        convolve(out, a, b);
    *a = *out;
    work->spare = before;
}

/* Computes the tree of one stamp; tables[0] becomes the root's table. False if a number leaves the range. */
static bool fold(struct work *work, size_t stamp)
{
    const struct tree_law *law = work->law;
    size_t depth = 0, row = stamp * law->rows, m = law->leaves;
    bool safe = true;
    for (size_t leaf = 0; safe && leaf < m; leaf++) {
        make_leaf(work, &work->tables[depth++], stamp * m + leaf);
        safe = apply(work, &work->tables[depth - 1], row + row_of(leaf + 1, 0));
        for (size_t h = 1; safe && h <= law->height && (leaf + 1) % ((size_t)1 << h) == 0; h++, depth--) {
            merge(work, &work->tables[depth - 2], &work->tables[depth - 1], law->cap[h]);
            safe = apply(work, &work->tables[depth - 2], row + row_of(leaf + 1, h));
        }
        assert(depth <= law->height + 2);
    }
    /* Nodes whose leaves are not all in use: the second child is merged if it has leaves in use. */
    for (size_t h = 1; safe && h <= law->height; h++) {
        size_t width = (size_t)1 << h, left = m % width;
        if (left == 0)
            continue;
        if (left > width / 2) {
            merge(work, &work->tables[depth - 2], &work->tables[depth - 1], law->cap[h]);
            depth--;
        }
        assert(work->tables[depth - 1].leaves == left && work->tables[depth - 1].top <= law->cap[h]);
        safe = apply(work, &work->tables[depth - 1], row + row_of(m - left + width, h));
    }
    assert(!safe || (depth == 1 && work->tables[0].leaves == m)); /* every leaf was counted once */
    return safe;
}

/* ------------------------------------------------------------ a draw */

/* ln of the sum of the root's table. */
static double log_sum(const struct work *work, size_t lane)
{
    const struct table *root = &work->tables[0];
    struct eps__scaled sum = {0, -INFINITY};
    for (size_t c = 0; c <= root->top; c++) {
        size_t at = c * EPS__LANES + lane;
        sum =
            eps__scaled_add(sum, work->scaled ? number(root, at) : eps__scaled_of(root->value[at], root->scale[lane]));
    }
    return eps__scaled_log(sum);
}

/* The smaller one of the loss for add and m - <a, y>, its upper bound by Jensen's inequality (A45). */
static double least_loss(const struct tree_law *law, double loss, double log_weight)
{
    return law->base.tilted ? fmin(loss, law->drift.mean - (log_weight - law->log_base) / law->drift.tilt) : loss;
}

/* Draws y and computes the losses. scaled: with separate exponents. False if a number leaves the range. */
static bool run(const struct tree_law *law, const struct eps__stream *stream, uint32_t first, double *scratch,
                bool scaled, double *loss, double *log_weight)
{
    struct work work = {.law = law, .stream = stream, .first = first, .scaled = scaled, .log_weight = log_weight};
    bool remove = law->base.direction == EPS_REMOVE, safe = true;
    make_work(&work, law, scratch);
    for (uint32_t lane = 0; lane < EPS__LANES; lane++) {
        if (remove)
            work.len[lane] = eps__b_min_sep_draw(work.slots + lane * work.most, &law->steps, stream, first + lane);
        loss[lane] = 0;
        log_weight[lane] = law->log_base;
    }
    for (size_t stamp = 0; safe && stamp < law->stamps; stamp++) {
        safe = fold(&work, stamp);
        for (size_t lane = 0; safe && lane < EPS__LANES; lane++)
            loss[lane] += log_sum(&work, lane);
    }
    for (size_t lane = 0; safe && lane < EPS__LANES; lane++)
        loss[lane] = !remove           ? least_loss(law, -loss[lane], log_weight[lane])
                     : work.over[lane] ? EPS__MC_CERTAIN
                                       : loss[lane];
    return safe;
}

static void draw(const struct eps__mc_law *base, const struct eps__stream *stream, uint32_t first, double *scratch,
                 double *loss, double *log_weight)
{
    const struct tree_law *law = (const struct tree_law *)base;
    if (!run(law, stream, first, scratch, false, loss, log_weight))
        (void)run(law, stream, first, scratch, true, loss, log_weight);
}

void eps__mc_poisson_tree_exponents(const struct eps__mc_law *law, const struct eps__stream *stream, uint32_t first,
                                    double *scratch, double *loss)
{
    double log_weight[EPS__LANES];
    (void)run((const struct tree_law *)law, stream, first, scratch, true, loss, log_weight);
}

/* ------------------------------------------------------------ the law */

/* -ln of Chernoff's bound on Pr[Binomial(m, p) >= c]. Logarithms are SLEEF's, so that the caps, and with them the
 * draws, are the same on every machine. */
static double rarity(double m, double p, double c)
{
    double q = c / m;
    if (q <= p)
        return 0;
    double rest = q < 1 ? (1 - q) * Sleef_cinz_logd1_u10purec((1 - q) / (1 - p)) : 0;
    return m * (q * Sleef_cinz_logd1_u10purec(q / p) + rest);
}

/* The least count that a node with this number of leaves exceeds with probability at most e^-rare. */
static size_t cap_of(size_t leaves, double p, double rare)
{
    size_t low = 1, high = leaves;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rarity((double)leaves, p, (double)middle + 1) >= rare)
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}

void eps__mc_poisson_tree_caps(size_t *cap, size_t leaves, size_t height, size_t stamps, double p, double rare)
{
    rare += Sleef_cinz_logd1_u10purec(2 * (double)leaves * (double)stamps);
    assert(height <= EPS__MC_HEIGHT_MAX);
    for (size_t h = 0; h <= height; h++) {
        cap[h] = p < 1 ? cap_of(minimum((size_t)1 << h, leaves), p, rare) : minimum((size_t)1 << h, leaves);
        if (h > 0 && cap[h] < cap[h - 1])
            cap[h] = cap[h - 1]; /* caps rise with the height, up to rounding */
    }
}

static bool exact(const struct eps__setting *setting)
{
    struct eps__blocks blocks = eps__strategy_blocks(setting->strategy);
    size_t cap[EPS__MC_HEIGHT_MAX + 1];
    eps__mc_poisson_tree_caps(cap, blocks.block, blocks.height, blocks.stamps, setting->p, EPS__MC_TREE_RARE);
    for (size_t h = 0; h <= blocks.height; h++)
        if (cap[h] < minimum((size_t)1 << h, blocks.block))
            return false;
    return true;
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    struct eps__blocks blocks = eps__strategy_blocks(setting->strategy);
    size_t cap[EPS__MC_HEIGHT_MAX + 1];
    eps__mc_poisson_tree_caps(cap, blocks.block, blocks.height, blocks.stamps, setting->p, EPS__MC_TREE_RARE);
    double wide = (double)minimum(blocks.block, cap[blocks.height]) + 1, sum = 0;
    for (size_t h = 0; h <= blocks.height; h++) {
        double child = h > 0 ? (double)cap[h - 1] + 1 : 0;
        sum += ceil(ldexp((double)blocks.block, -(int)h)) * (OPERATIONS * (double)(cap[h] + 1) + child * child);
    }
    *operations = (double)blocks.stamps * sum;
    *bytes = 8 * EPS__LANES * (((double)blocks.height + 4) * 2 * wide + (double)(blocks.stamps * blocks.block));
}

/* The loss error of A36, a sum over all nodes. The relative error of a sum of products is at most that of its longest
 * product. */
static double error_of(const struct tree_law *law)
{
    double h = law->value, sum = 0, log_keep = law->steps.p < 1 ? fabs(law->steps.log_keep) : 0;
    for (size_t height = 0; height <= law->height; height++) {
        double cap = (double)law->cap[height], nodes = ceil(ldexp((double)law->leaves, -(int)height));
        double drift = fabs(law->leaf_drift) * (double)minimum((size_t)1 << height, law->leaves);
        double size = cap * h * (EPS__NORMAL_MOST + cap * h + drift) + cap * cap * law->half;
        sum += nodes * (cap + 24 + 16 * size);
    }
    sum += (double)law->leaves * (8 + 4 * log_keep);
    return eps__raise(EPS__UNIT_ROUNDOFF * (double)law->stamps * sum, 64);
}

/* Makes the drift from the sums over all nodes of their leaves in use, and of the squares of these numbers. EPS_OK,
 * EPS_UNSUPPORTED (no drift is better than plain draws). */
static enum eps_status make_drift(struct tree_law *law, double eps)
{
    double sum = 0, squares = 0, n = (double)law->steps.n, stamps = (double)law->stamps;
    double weight = eps__raise(law->value * law->value, 8);
    for (size_t h = 0; h <= law->height; h++) {
        double width = ldexp(1, (int)h), full = floor((double)law->leaves / width);
        double cut = (double)law->leaves - full * width;
        sum += stamps * (full * width + cut); /* integers */
        squares += stamps * (full * width * width + cut * cut);
    }
    struct eps__mc_rounds rounds = {n, law->steps.p, eps__raise(weight * sum, 4), eps__raise(weight * squares, 64)};
    if (!eps__mc_drift_choose_poisson(&law->drift, &rounds, eps))
        return EPS_UNSUPPORTED;
    law->leaf_drift = -law->drift.tilt * law->drift.q * law->value;
    law->log_base = 0.5 * law->leaf_drift * law->leaf_drift * squares;
    law->base.loss_error = error_of(law);
    double reach = EPS__NORMAL_MOST - law->leaf_drift * (double)law->leaves, units = 4 * n + 64;
    law->base.log_weight_error =
        eps__raise(units * EPS__UNIT_ROUNDOFF * (-law->leaf_drift * sum * reach + law->log_base), 2 * units);
    /* if the loss is m - <a, y>, which is computed from the weight */
    law->base.loss_error +=
        eps__raise(law->base.log_weight_error / law->drift.tilt + 16 * EPS__UNIT_ROUNDOFF * law->drift.mean, 64);
    law->drift.slack = 4 * law->base.log_weight_error + 4 * law->drift.tilt * law->base.loss_error;
    return EPS_OK;
}

static double log_most(const struct eps__mc_law *base, double eps)
{
    const struct tree_law *law = (const struct tree_law *)base;
    return base->tilted ? eps__mc_drift_log_most(&law->drift, eps) : 0;
}

enum eps_status eps__mc_poisson_tree_open(struct eps__mc_law **out, const struct eps__setting *setting,
                                          const struct eps__mc_aim *aim, double rare)
{
    struct eps__blocks blocks = eps__strategy_blocks(setting->strategy);
    struct tree_law *law = calloc(1, sizeof *law);
    double unused;
    if (!law)
        return EPS_NO_MEMORY;
    law->steps =
        (struct eps__b_min_sep_steps){.n = setting->job->mechanism.n, .separation = 1, .p = setting->p, .examples = 1};
    eps__b_min_sep_steps_fill(&law->steps);
    law->stamps = blocks.stamps;
    law->leaves = blocks.block;
    law->height = blocks.height;
    law->rows = blocks.block_rows;
    law->value = blocks.scale / aim->sigma;
    law->half = 0.5 * law->value * law->value;
    eps__mc_poisson_tree_caps(law->cap, law->leaves, law->height, law->stamps, setting->p, rare);
    for (size_t h = 0; h <= law->height; h++)
        law->wide = law->cap[h] + 1 > law->wide ? law->cap[h] + 1 : law->wide;
    law->base =
        (struct eps__mc_law){.class = &eps__mc_poisson_tree, .direction = aim->direction, .loss_error = error_of(law)};
    law->base.scratch = scratch_of(law);
    law->base.tilted = aim->tilted;
    enum eps_status status = aim->tilted ? make_drift(law, aim->eps) : EPS_OK;
    if (status != EPS_OK) {
        free(law);
        return status;
    }
    cost(setting, &law->base.operations, &unused);
    law->base.operations *= EPS__LANES;
    *out = &law->base;
    return EPS_OK;
}

static enum eps_status open_law(struct eps__mc_law **law, const struct eps__setting *setting,
                                const struct eps__mc_aim *aim)
{
    bool copies = aim->tilted && aim->direction == EPS_REMOVE;
    return copies ? EPS_UNSUPPORTED : eps__mc_poisson_tree_open(law, setting, aim, EPS__MC_TREE_RARE);
}

static void destroy(struct eps__mc_law *law)
{
    free(law);
}

/* Not a row of the table: poisson.c opens this law if the strategy is a tree. */
const struct eps__mc_law_class eps__mc_poisson_tree = {
    .exact = exact, .cost = cost, .open = open_law, .draw = draw, .log_most = log_most, .destroy = destroy};
