/*
 * Rows of any other matrix, entry by entry: dense blocks, and cyclic sampling with columns that are not shifts of each
 * other. Every row adds a rank-one term to the Gram matrix of the rows so far. What a pair needs of it is extracted
 * once, when the rows are made: the products themselves if they are few, else their number, maximum and first three
 * power sums, from which ln E e^{lambda S} is bounded by
 *   sum_j ln(1 + p (e^{lambda g_j} - 1)) <= N ln(1 + p Y/N),   Y = sum_j (e^{lambda g_j} - 1)      (Jensen)
 *   Y <= lambda s_1 + lambda^2 s_2/2 + lambda^3 s_3 phi(lambda g_max)                              (Bennett)
 * where phi(x) = (e^x - 1 - x - x^2/2)/x^3 is increasing. Rows with equal entries and equal odds form a class.
 *
 * A row belongs to the step at which it can be released: the last column that it or a row before it uses. This is the
 * row's index if C is lower triangular, and follows the post-order of a tree.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/mmcc/rows.h"
#include "lib/base/error.h"
#include "lib/numerics/normal.h"

enum {
    KEPT_PRODUCTS = 1 << 21, /* the most products that are kept; if there are more, only power sums are */
    FEW_PAIRS = 100,         /* the most pairs for which every method of tail bounds is used */
    MANY_PAIRS = 1 << 14,    /* the most pairs for which the method that sorts the weights is used */
    CHUNK = 64,              /* the entries per parallel task */
    TILTS = 6                /* the tilts that are tried with power sums */
};

/* One entry of the matrix of blocks, and the data for its tail bound. */
struct entry {
    double value;         /* the norm of the column's part in the block of rows */
    double square;        /* ||a||^2, a being the column's part above */
    bool paired;          /* a is not 0 */
    double odds;          /* log odds */
    size_t first, len;    /* the position and the number of its products; without kept products only the number */
    double most, sums[3]; /* the maximum and the power sums of the products */
};

struct general_rows {
    struct eps__rows base;
    uint64_t stamps;
    size_t rounds;
    struct entry *entries; /* row by row, the latest column first */
    size_t entries_len, entries_capacity;
    size_t *start;    /* rounds + 1 positions of rows in `entries` */
    double *products; /* NULL if they are not kept */
    size_t products_len;
    size_t *class_row, *class_count; /* by class: one of its rows, and the number of its rows */
};

/* ------------------------------------------------------------ tail bounds */

static double phi(double x)
{
    if (x < 0.5) { /* sum x^k / (k + 3)! */
        double sum = 0;
        for (int k = 12; k >= 0; k--)
            sum = 1 + x / (k + 4) * sum;
        return eps__raise(sum / 6, 100);
    }
    return eps__raise((expm1(x) - x - 0.5 * x * x) / (x * x * x), 1e4);
}

static double summed_log_moment(const struct general_rows *g, const struct entry *e, double lambda)
{
    double x = lambda * e->most, n = (double)e->len;
    double sum =
        lambda * e->sums[0] + lambda * lambda * e->sums[1] / 2 + lambda * lambda * lambda * e->sums[2] * phi(x);
    double units = 8 * (1 + x + n);
    if (x > 600)
        return eps__raise(lambda * e->sums[0], units); /* the bound for p = 1 */
    return eps__raise(fmin(n * log1p(g->base.p * sum / n), lambda * e->sums[0]), units);
}

struct bounding {
    struct general_rows *rows;
    const struct eps_context *context;
    const struct eps__tail_query *query;
    struct eps__tilt tilts[TILTS]; /* for tau = 1 */
};

/* Tries tilts downwards from the normal quantile: with small weights the best one lies just below it. */
static double tail_from_sums(const struct general_rows *g, const struct entry *e, double tau,
                             const struct bounding *bounding)
{
    double best = INFINITY, log_eta = eps__rows_log_eta(&g->base, bounding->query, e->square);
    for (size_t k = 0; k < TILTS; k++) {
        struct eps__tilt tilt = bounding->tilts[k];
        tilt.tau = tau;
        tilt.rate /= tau;
        double tail = eps__tail_tilted_at(&tilt, summed_log_moment(g, e, tilt.rate), log_eta);
        if (tail > best)
            break;
        best = tail;
        if (bounding->query->quick)
            break;
    }
    return best;
}

static double tail_from_products(const struct general_rows *g, const struct entry *e, double tau,
                                 const struct bounding *bounding)
{
    const struct eps__tail_query *query = bounding->query;
    struct eps__weights weights = {g->products + e->first, NULL, e->len, g->base.p, &bounding->rows->base.starved};
    double log_eta = eps__rows_log_eta(&g->base, query, e->square), ratio = 0.95;
    double tail = eps__tail_tilted(&weights, tau, log_eta, &ratio);
    if (query->quick)
        return tail;
    if (g->base.pairs <= MANY_PAIRS)
        tail = fmin(tail, eps__tail_largest(&weights, tau, log_eta));
    if (g->base.pairs <= FEW_PAIRS)
        tail = fmin(tail, eps__tail_convolved(&weights, tau, log_eta));
    return tail;
}

static void bound_chunk(void *user, size_t chunk)
{
    const struct bounding *b = user;
    struct general_rows *g = b->rows;
    size_t end = (chunk + 1) * CHUNK < g->entries_len ? (chunk + 1) * CHUNK : g->entries_len;
    if (eps__poll(b->context) != EPS_OK)
        return;
    for (size_t i = chunk * CHUNK; i < end; i++) {
        struct entry *e = &g->entries[i];
        e->odds = g->base.prior;
        if (!e->paired)
            continue;
        double tail, tau = b->query->sigma * eps__rows_norm_upper(&g->base, e->square);
        if (b->query->direction == EPS_ADD)
            tail = eps__rows_tail_without(&g->base, b->query, e->square);
        else
            tail = (g->products ? tail_from_products : tail_from_sums)(g, e, tau, b);
        e->odds = eps__rows_log_odds(&g->base, b->query, e->square, tail);
    }
}

/* ------------------------------------------------------------ equal rows */

static bool equal_rows(const struct general_rows *g, size_t a, size_t b)
{
    size_t len = g->start[a + 1] - g->start[a];
    if (len != g->start[b + 1] - g->start[b])
        return false;
    for (size_t i = 0; i < len; i++) {
        const struct entry *left = &g->entries[g->start[a] + i], *right = &g->entries[g->start[b] + i];
        if (left->value != right->value || left->odds != right->odds)
            return false;
    }
    return true;
}

/* A hash value: equal rows have the same one. */
static double signature(const struct general_rows *g, size_t row)
{
    double sum = 0;
    for (size_t i = g->start[row]; i < g->start[row + 1]; i++)
        sum = 0.7 * sum + g->entries[i].value * exp(fmin(g->entries[i].odds, 700));
    return sum;
}

struct signed_row {
    double signature;
    size_t row;
};

static int by_signature(const void *a, const void *b)
{
    const struct signed_row *left = a, *right = b;
    if (left->signature != right->signature)
        return (left->signature > right->signature) - (left->signature < right->signature);
    return (left->row > right->row) - (left->row < right->row);
}

static enum eps_status classify(struct general_rows *g)
{
    struct signed_row *sorted = malloc(g->rounds * sizeof *sorted);
    if (!sorted)
        return EPS_NO_MEMORY;
    for (size_t i = 0; i < g->rounds; i++)
        sorted[i] = (struct signed_row){signature(g, i), i};
    qsort(sorted, g->rounds, sizeof *sorted, by_signature);
    g->base.classes = 0;
    for (size_t i = 0; i < g->rounds; i++) {
        size_t last = g->base.classes - 1;
        if (g->start[sorted[i].row] == g->start[sorted[i].row + 1])
            continue; /* the row does not show the example */
        if (g->base.classes && equal_rows(g, g->class_row[last], sorted[i].row)) {
            g->class_count[last]++;
            continue;
        }
        g->class_row[g->base.classes] = sorted[i].row;
        g->class_count[g->base.classes++] = 1;
    }
    free(sorted);
    return EPS_OK;
}

static enum eps_status bound_general(struct eps__rows *rows, const struct eps_context *context,
                                     const struct eps__tail_query *query)
{
    struct general_rows *g = (struct general_rows *)rows;
    struct bounding bounding = {.rows = g, .context = context, .query = query};
    for (size_t k = 0; k < TILTS; k++)
        bounding.tilts[k] = eps__tilt_at(fmax(query->z, 0.1) * (0.98 - 0.02 * (double)(k * (k + 1))), 1);
    size_t chunks = (g->entries_len + CHUNK - 1) / CHUNK;
    if (context && context->parallel_for)
        context->parallel_for(context->user, chunks, bound_chunk, &bounding);
    for (size_t i = 0; !(context && context->parallel_for) && i < chunks; i++)
        bound_chunk(&bounding, i);
    enum eps_status status = eps__poll(context);
    if (status != EPS_OK)
        return status;
    return atomic_load(&g->base.starved) ? EPS_NO_MEMORY : classify(g);
}

static uint64_t count_general(const struct eps__rows *rows, size_t k)
{
    const struct general_rows *g = (const struct general_rows *)rows;
    return g->stamps * g->class_count[k];
}

static size_t fill_general(const struct eps__rows *rows, size_t k, struct eps__factor *out)
{
    const struct general_rows *g = (const struct general_rows *)rows;
    size_t row = g->class_row[k], len = g->start[row + 1] - g->start[row];
    for (size_t i = 0; i < len; i++) {
        const struct entry *e = &g->entries[g->start[row] + i];
        out[i] = (struct eps__factor){e->value, e->odds, 1};
    }
    return len;
}

static void destroy_general(struct eps__rows *rows)
{
    struct general_rows *g = (struct general_rows *)rows;
    free(g->entries);
    free(g->start);
    free(g->products);
    free(g->class_row);
    free(g->class_count);
    free(g);
}

static const struct eps__rows_class general_class = {bound_general, count_general, fill_general, destroy_general};

/* ------------------------------------------------------------ making the rows */

/* Reads the matrix row by row and extracts the columns of one part. */
struct reader {
    const struct eps_strategy *strategy;
    size_t rows, groups, part, width, kept; /* width: the columns that are read; kept: those of the part */
    double *row, *columns;
    size_t latest; /* the last column with a nonzero entry in a row so far */
};

static bool read_row(struct reader *r, size_t row, struct eps_error *error, size_t *block)
{
    if (eps_strategy_row(r->strategy, r->row, error, EPS_PART_ENCODER, row) != EPS_OK)
        return false;
    for (size_t j = 0; j < r->width; j++)
        if (r->row[j] != 0 && j > r->latest)
            r->latest = j;
    for (size_t k = 0; k < r->kept; k++)
        r->columns[k] = r->row[r->part + k * r->groups];
    *block = r->latest < r->part ? SIZE_MAX : (r->latest - r->part) / r->groups;
    return true;
}

struct making {
    double *gram, *squares, *pending; /* squares: by column, the squared norm in the open block; pending: its rows */
    bool *shown, *above;              /* by column: whether an entry is not 0 in the open block, and in one before it */
    size_t *index, pending_len, pending_capacity;
};

static bool add_entry(struct general_rows *g, const struct entry *entry)
{
    if (g->entries_len == g->entries_capacity) {
        size_t capacity = 2 * g->entries_capacity + 1024;
        struct entry *grown = realloc(g->entries, capacity * sizeof *grown);
        if (!grown)
            return false;
        g->entries = grown;
        g->entries_capacity = capacity;
    }
    g->entries[g->entries_len++] = *entry;
    return true;
}

/* Stores the products of column j with the columns up to `last`, or their power sums. */
static bool take_products(struct general_rows *g, struct entry *e, const double *gram, size_t j, size_t last, size_t ld)
{
    double sum = 0, square = 0, cube = 0, most = 0, up = 1 + g->base.square_error;
    if (g->products && g->products_len + last + 1 > KEPT_PRODUCTS) {
        free(g->products);
        g->products = NULL;
    }
    e->first = g->products_len;
    e->len = 0;
    for (size_t k = 0; k <= last; k++) {
        double product = gram[j * ld + k] * up;
        if (!(product > 0))
            continue;
        e->len++;
        most = fmax(most, product);
        sum += product;
        square += product * product;
        cube += product * product * product;
        if (g->products)
            g->products[g->products_len++] = product;
    }
    e->most = most;
    e->sums[0] = sum;
    e->sums[1] = square;
    e->sums[2] = cube;
    return true;
}

/* Makes the entries of the open block of rows. The Gram matrix holds the rows before it. */
static bool close_block(struct general_rows *g, struct making *m, size_t block, size_t kept)
{
    size_t last = block < kept ? block : kept - 1;
    for (size_t j = last + 1; j-- > 0;) {
        if (!m->shown[j])
            continue;
        /* `tiny` covers entries whose squares underflow (A2). */
        struct entry e = {
            .value = sqrt(m->squares[j] + g->base.tiny), .square = m->gram[j * kept + j], .paired = m->above[j]};
        if (e.paired) {
            g->base.pairs += (double)g->stamps;
            if (!take_products(g, &e, m->gram, j, last, kept))
                return false;
        }
        if (!add_entry(g, &e))
            return false;
        m->squares[j] = 0;
        m->shown[j] = false;
        m->above[j] = true;
    }
    g->start[++g->rounds] = g->entries_len;
    if (g->entries_len > g->start[g->rounds - 1])
        g->base.rows += g->stamps;
    if (g->entries_len - g->start[g->rounds - 1] > g->base.entries_max)
        g->base.entries_max = g->entries_len - g->start[g->rounds - 1];
    return true;
}

/* Adds one row's products to the Gram matrix. `index` has room for `kept` numbers. */
static void add_row(double *gram, const double *row, size_t last, size_t kept, size_t *index)
{
    size_t len = 0;
    for (size_t k = 0; k <= last && k < kept; k++)
        if (row[k] != 0)
            index[len++] = k;
    for (size_t a = 0; a < len; a++) {
        double *out = gram + index[a] * kept, value = row[index[a]];
        if (len == last + 1) { /* the row has no zeros */
            for (size_t k = 0; k < len; k++)
                out[k] += value * row[k];
            continue;
        }
        for (size_t b = 0; b < len; b++)
            out[index[b]] += value * row[index[b]];
    }
}

static bool push_pending(struct making *m, const double *row, size_t kept)
{
    if (m->pending_len == m->pending_capacity) {
        size_t capacity = 2 * m->pending_capacity + 4;
        double *grown = realloc(m->pending, capacity * kept * sizeof *grown);
        if (!grown)
            return false;
        m->pending = grown;
        m->pending_capacity = capacity;
    }
    memcpy(m->pending + m->pending_len++ * kept, row, kept * sizeof *row);
    for (size_t k = 0; k < kept; k++) {
        m->squares[k] += row[k] * row[k];
        m->shown[k] = m->shown[k] || row[k] != 0;
    }
    return true;
}

static bool finish_block(struct general_rows *g, struct making *m, size_t block, size_t kept)
{
    if (m->pending_len == 0)
        return true;
    if (!close_block(g, m, block, kept))
        return false;
    for (size_t i = 0; i < m->pending_len; i++)
        add_row(m->gram, m->pending + i * kept, block < kept ? block : kept - 1, kept, m->index);
    m->pending_len = 0;
    return true;
}

static enum eps_status read_all(struct general_rows *g, struct reader *r, struct making *m,
                                const struct eps_context *context, struct eps_error *error)
{
    size_t open = SIZE_MAX;
    for (size_t row = 0; row < r->rows; row++) {
        size_t block;
        enum eps_status status = eps__poll(context);
        if (status != EPS_OK)
            return status;
        if (!read_row(r, row, error, &block))
            return error && error->status != EPS_OK ? error->status : EPS_NO_MEMORY;
        if (block == SIZE_MAX)
            continue; /* the row precedes the part's first round */
        if (block != open && open != SIZE_MAX && !finish_block(g, m, open, r->kept))
            return EPS_NO_MEMORY;
        open = block;
        if (!push_pending(m, r->columns, r->kept))
            return EPS_NO_MEMORY;
    }
    return finish_block(g, m, open, r->kept) ? EPS_OK : EPS_NO_MEMORY;
}

enum eps_status eps__general_rows(struct eps__rows **rows, const struct eps_context *context, struct eps_error *error,
                                  const struct eps_strategy *strategy, size_t groups, size_t part, double p)
{
    struct eps__blocks blocks = eps__strategy_blocks(strategy);
    bool alike = blocks.block % groups == 0; /* all stamps have equal rows, so one is read */
    struct reader r = {.strategy = strategy, .groups = groups, .part = part};
    struct making m = {0};
    r.rows = alike ? blocks.block_rows : eps_strategy_rows(strategy);
    r.width = alike ? blocks.block : eps_strategy_columns(strategy);
    r.kept = (r.width - part + groups - 1) / groups;
    enum eps_status status = EPS_NO_MEMORY;
    struct general_rows *g = calloc(1, sizeof *g);
    if (!g)
        return EPS_NO_MEMORY;
    eps__rows_init(&g->base, &general_class, p, (double)r.rows, (double)r.kept);
    g->stamps = alike ? blocks.stamps : 1;
    g->start = calloc(r.kept + 1, sizeof *g->start);
    g->class_row = malloc(r.kept * sizeof *g->class_row);
    g->class_count = malloc(r.kept * sizeof *g->class_count);
    g->products = malloc(KEPT_PRODUCTS * sizeof *g->products);
    r.row = malloc(eps_strategy_columns(strategy) * sizeof *r.row);
    r.columns = malloc(r.kept * sizeof *r.columns);
    m.gram = calloc(r.kept * r.kept, sizeof *m.gram);
    m.squares = calloc(r.kept, sizeof *m.squares);
    m.shown = calloc(r.kept, sizeof *m.shown);
    m.above = calloc(r.kept, sizeof *m.above);
    m.index = malloc(r.kept * sizeof *m.index);
    if (g->start && g->class_row && g->class_count && g->products && r.row && r.columns && m.gram && m.squares &&
        m.shown && m.above && m.index)
        status = read_all(g, &r, &m, context, error);
    free(r.row);
    free(r.columns);
    free(m.gram);
    free(m.squares);
    free(m.pending);
    free(m.shown);
    free(m.above);
    free(m.index);
    if (status != EPS_OK) {
        destroy_general(&g->base);
        return status;
    }
    *rows = &g->base;
    return EPS_OK;
}
