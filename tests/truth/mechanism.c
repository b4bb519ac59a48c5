/*
 * The laws of the outputs, written down.
 *
 * Without truncation: y = C x + sigma z, x_i the number of examples of the user that step i draws, against -C x
 * (replace_one) or 0. A data set in groups has one such mechanism for each of them, on every groups-th column.
 *
 * Truncated batches. For the table of pairs (TPS, as corrected in the specification): a batch is open with the public
 * probability that fewer than B of the other N - 1 examples are drawn; an open batch is Bern(p) against what the
 * adjacency makes of it, a full one twice Bern(q). A full batch under zero_out and replace_one has a second pair:
 * whether the example is in it is released, for it is the same under both data sets. Besides, the batch is coupled:
 * then the example's own shift is all that differs, and only if it is in the batch. What the mechanism really does is
 * computed too, for data sets of which all others contribute -1, 0 or 1.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/truth/mechanism.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/truth/steps.h"
#include "tests/unit/test.h"

enum { PATTERNS_MOST = 4096, ATTACKED_DATASET_MOST = 24 };

/* ------------------------------------------------------------ the matrix */

/* The first column of a Toeplitz block of m steps that matrices.h does not define; false for optimised ones. */
static bool own_column(const struct eps_mechanism *mechanism, long double *c, size_t m)
{
    const struct eps_matrix *matrix = &mechanism->matrix;
    if (matrix->family == EPS_FAMILY_BLT && matrix->blt_len > 0) {
        c[0] = 1;
        for (size_t t = 1; t < m; t++) {
            c[t] = 0;
            for (size_t i = 0; i < matrix->blt_len; i++)
                c[t] += (long double)matrix->scale[i] * powl(matrix->decay[i], (long double)t - 1);
        }
        return true;
    }
    if (matrix->family != EPS_FAMILY_INVERSE_SQUARE_ROOT)
        return false;
    struct eps_mechanism block = *mechanism;
    block.n = m;
    block.matrix = (struct eps_matrix){.family = EPS_FAMILY_SQUARE_ROOT, .stamps = 1};
    struct matrix root = family_matrix(&block), inverse = matrix_inverse(&root);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < m; j++)
            if (i < j || i - j >= matrix->bands)
                *entry(&inverse, i, j) = 0;
    struct matrix banded = matrix_inverse(&inverse);
    for (size_t t = 0; t < m; t++)
        c[t] = *entry(&banded, t, 0);
    matrix_free(&root);
    matrix_free(&inverse);
    matrix_free(&banded);
    return true;
}

static long double column_square(const struct matrix *c, size_t j)
{
    long double square = 0;
    for (size_t i = 0; i < c->rows; i++)
        square += *entry(c, i, j) * *entry(c, i, j);
    return square;
}

static void divide(struct matrix *c, long double norm)
{
    for (size_t i = 0; i < c->rows * c->columns; i++)
        c->at[i] /= norm;
}

static bool defined_here(enum eps_family family)
{
    return family == EPS_FAMILY_IDENTITY || family == EPS_FAMILY_TOEPLITZ || family == EPS_FAMILY_DENSE ||
           family == EPS_FAMILY_SQUARE_ROOT || family == EPS_FAMILY_TREE;
}

static struct matrix matrix_of(const struct eps_mechanism *mechanism)
{
    size_t m = mechanism->n / mechanism->matrix.stamps;
    long double column[64];
    struct matrix c;
    bool scaled = mechanism->matrix.normalization == EPS_NORMALIZATION_SENSITIVITY, own = false;
    if (!scaled && defined_here(mechanism->matrix.family)) {
        c = family_matrix(mechanism);
        own = true;
    } else if (!scaled && own_column(mechanism, column, m)) {
        c = matrix_new(mechanism->n, mechanism->n);
        for (size_t i = 0; i < c.rows; i++)
            for (size_t j = 0; j <= i; j++)
                if (i / m == j / m)
                    *entry(&c, i, j) = column[i - j];
        own = true;
    } else {
        struct eps_strategy *strategy = strategy_new(mechanism);
        c = part_matrix(strategy, EPS_PART_ENCODER);
        eps_strategy_destroy(strategy);
    }
    long double most = 0;
    for (size_t j = 0; j < c.columns; j++)
        most = fmaxl(most, column_square(&c, j));
    if (own && mechanism->matrix.normalization == EPS_NORMALIZATION_MAX_COLUMN)
        divide(&c, sqrtl(most));
    return c;
}

/* ------------------------------------------------------------ sensitivity */

/* The largest eigenvalue of a symmetric matrix of m rows, by Jacobi's rotations. */
static long double largest_eigenvalue(long double *a, size_t m)
{
    for (int sweep = 0; sweep < 60; sweep++)
        for (size_t p = 0; p < m; p++)
            for (size_t q = p + 1; q < m; q++) {
                if (a[p * m + q] == 0)
                    continue;
                long double theta = (a[q * m + q] - a[p * m + p]) / (2 * a[p * m + q]);
                long double t = (theta < 0 ? -1 : 1) / (fabsl(theta) + sqrtl(theta * theta + 1));
                long double c = 1 / sqrtl(t * t + 1), s = t * c;
                for (size_t k = 0; k < m; k++) {
                    long double x = a[k * m + p], y = a[k * m + q];
                    a[k * m + p] = c * x - s * y;
                    a[k * m + q] = s * x + c * y;
                }
                for (size_t k = 0; k < m; k++) {
                    long double x = a[p * m + k], y = a[q * m + k];
                    a[p * m + k] = c * x - s * y;
                    a[q * m + k] = s * x + c * y;
                }
            }
    long double most = a[0];
    for (size_t i = 1; i < m; i++)
        most = fmaxl(most, a[i * m + i]);
    return most;
}

/*
 * The largest sum of x_ij <v_i, v_j> over unit vectors v: found by setting each v_i to the best for the others, which
 * proves the lower end; d_i = |sum_j x_ij v_j| raised until diag(d) - x is positive semidefinite proves the upper.
 */
static void vector_square(const long double *x, size_t m, long double *lower, long double *upper)
{
    long double v[16 * 16], g[16], reduced[16 * 16], value = 0, dual = 0;
    unsigned long long state = 12345;
    bool positive = true;
    *lower = 0;
    for (size_t i = 0; i < m * m; i++) {
        value += x[i];
        positive = positive && x[i] >= 0;
    }
    if (positive) {
        *lower = *upper = value;
        return;
    }
    for (size_t i = 0; i < m * m; i++)
        v[i] = scatter(&state);
    for (int sweep = 0; sweep < 3000; sweep++)
        for (size_t i = 0; i < m; i++) {
            long double square = 0;
            for (size_t d = 0; d < m; d++) {
                g[d] = 0;
                for (size_t j = 0; j < m; j++)
                    g[d] += j == i ? 0 : x[i * m + j] * v[j * m + d];
                square += g[d] * g[d];
            }
            for (size_t d = 0; d < m && square > 0; d++)
                v[i * m + d] = g[d] / sqrtl(square);
        }
    memcpy(reduced, x, m * m * sizeof *reduced);
    for (size_t i = 0; i < m; i++) {
        long double along = 0, norm = 0;
        for (size_t d = 0; d < m; d++) {
            long double sum = 0;
            for (size_t j = 0; j < m; j++)
                sum += x[i * m + j] * v[j * m + d];
            along += sum * v[i * m + d];
            norm += v[i * m + d] * v[i * m + d];
        }
        *lower += along / norm;
        dual += along;
        reduced[i * m + i] -= along;
    }
    *upper = dual + (long double)m * fmaxl(largest_eigenvalue(reduced, m), 0);
}

static bool is_b_min_sep(const struct eps_mechanism *mechanism)
{
    return mechanism->sampling.scheme == EPS_SCHEME_B_MIN_SEP;
}

static bool allowed(const struct eps_mechanism *mechanism, size_t set)
{
    const struct eps_sampling *s = &mechanism->sampling;
    size_t last = SIZE_MAX, count = 0;
    for (size_t j = 0; j < mechanism->n; j++) {
        if (!(set >> j & 1))
            continue;
        if (is_b_min_sep(mechanism)) {
            if (count++ && j - last < s->separation)
                return false;
            last = j;
            continue;
        }
        if (s->schema == EPS_SCHEMA_SHUFFLED) { /* in one epoch once, and in none after the last */
            if (j / s->separation >= s->epochs || (count++ && j / s->separation == last / s->separation))
                return false;
            last = j;
            continue;
        }
        if (count++ && (s->schema == EPS_SCHEMA_FIXED_ORDER ? j - last != s->separation : j - last < s->separation))
            return false;
        last = j;
    }
    return is_b_min_sep(mechanism) || count <= s->epochs;
}

static bool extendable(const struct eps_mechanism *mechanism, size_t set)
{
    for (size_t j = 0; j < mechanism->n; j++)
        if (!(set >> j & 1) && allowed(mechanism, set | (size_t)1 << j))
            return true;
    return false;
}

static size_t bins_of(const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *s = &mechanism->sampling;
    if (s->scheme != EPS_SCHEME_BALLS_IN_BINS)
        return 0;
    return s->bins > 0 ? s->bins : (size_t)(s->dataset_size / s->batch_size);
}

/* Balls in bins: the number of patterns, and the steps of one of them, a bit each: the same bin in every epoch, or
 * any. */
static size_t bin_patterns(const struct eps_mechanism *mechanism)
{
    size_t bins = bins_of(mechanism), len = bins;
    for (size_t epoch = 1; mechanism->sampling.redraw && epoch < mechanism->n / bins && len <= PATTERNS_MOST; epoch++)
        len *= bins;
    return len;
}

static size_t bin_pattern(const struct eps_mechanism *mechanism, size_t index)
{
    size_t bins = bins_of(mechanism), set = 0;
    for (size_t epoch = 0; epoch < mechanism->n / bins; epoch++) {
        set |= (size_t)1 << (epoch * bins + index % bins);
        index = mechanism->sampling.redraw ? index / bins : index;
    }
    return set;
}

static bool is_bin_pattern(const struct eps_mechanism *mechanism, size_t set)
{
    for (size_t i = 0; i < bin_patterns(mechanism); i++)
        if (bin_pattern(mechanism, i) == set)
            return true;
    return false;
}

static void find_sensitivity(struct truth *truth)
{
    const struct eps_mechanism *mechanism = truth->mechanism;
    struct matrix gram = matrix_gram(&truth->c);
    bool bins = bins_of(mechanism) > 0;
    bool sampled = mechanism->sampling.scheme != EPS_SCHEME_NONE && !bins && !is_b_min_sep(mechanism);
    size_t groups = mechanism->sampling.scheme == EPS_SCHEME_CYCLIC_POISSON ? mechanism->sampling.groups : 1;
    long double lower = 0, upper = 0, x[16 * 16];
    for (size_t set = 1; set < (size_t)1 << mechanism->n; set++) {
        size_t steps[16], m = 0;
        if (bins && !is_bin_pattern(mechanism, set))
            continue;
        if (!sampled && !bins && (!allowed(mechanism, set) || extendable(mechanism, set)))
            continue;
        for (size_t j = 0; j < mechanism->n; j++)
            if (set >> j & 1)
                steps[m++] = j;
        bool part = true; /* sampled: all of one part's steps */
        for (size_t i = 0; i < m; i++)
            part = part && steps[i] % groups == steps[0] % groups;
        if (sampled && (!part || m < (mechanism->n - 1 - steps[0]) / groups + 1 || steps[0] >= groups))
            continue;
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < m; j++)
                x[i * m + j] = *entry(&gram, steps[i], steps[j]);
        long double found, bound;
        vector_square(x, m, &found, &bound);
        lower = fmaxl(lower, found);
        upper = fmaxl(upper, bound);
    }
    truth->sensitivity_lower = sqrtl(lower);
    truth->sensitivity_upper = sqrtl(upper);
    matrix_free(&gram);
}

/* ------------------------------------------------------------ who takes part */

static size_t groups_of(const struct truth *truth)
{
    const struct eps_sampling *sampling = &truth->mechanism->sampling;
    size_t groups = sampling->scheme == EPS_SCHEME_CYCLIC_POISSON ? sampling->groups : 1;
    return groups < truth->mechanism->n ? groups : truth->mechanism->n;
}

static size_t rounds_of(const struct truth *truth, size_t part)
{
    return (truth->mechanism->n - 1 - part) / groups_of(truth) + 1;
}

static long double log_choose(size_t n, size_t k)
{
    return lgammal((long double)n + 1) - lgammal((long double)k + 1) - lgammal((long double)(n - k) + 1);
}

static long double log_binomial(size_t n, long double p, size_t k)
{
    long double sum = log_choose(n, k);
    sum += k > 0 ? (long double)k * logl(p) : 0;
    return sum + (n > k ? (long double)(n - k) * log1pl(-p) : 0);
}

static long double probability(const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *s = &mechanism->sampling;
    if (s->scheme == EPS_SCHEME_NONE || s->scheme == EPS_SCHEME_BALLS_IN_BINS)
        return 1;
    if (!isnan(s->p))
        return s->p;
    if (is_b_min_sep(mechanism))
        return (double)s->batch_size / ((double)s->dataset_size - (double)s->batch_size * ((double)s->separation - 1));
    size_t groups = s->scheme == EPS_SCHEME_CYCLIC_POISSON ? s->groups : 1;
    return (double)groups * (double)s->batch_size / (double)s->dataset_size; /* the double is the contract */
}

/*
 * b-min-sep sampling: the user's examples wait, or sit out the steps before `step` of those that follow a drawing. A
 * path ends where no step is left; each is an atom, if there is a mixture to take it. How many there are, as long as
 * that is no more than PATTERNS_MOST.
 */
static size_t b_min_sep_paths(const struct truth *truth, size_t step, long double log_weight, const size_t *taken,
                              struct mixture *mixture, size_t at, double scale)
{
    const struct eps_sampling *sampling = &truth->mechanism->sampling;
    size_t n = truth->mechanism->n, users = sampling->examples_per_user, len = 0;
    if (step >= n) {
        if (mixture) {
            mixture->log_weight[at] = log_weight;
            for (size_t j = 0; j < n; j++)
                for (size_t row = 0; row < mixture->dimension && taken[j] > 0; row++)
                    mixture->at[at * mixture->dimension + row] +=
                        scale * (long double)taken[j] * *entry(&truth->c, row, j);
        }
        return 1;
    }
    for (size_t j = truth->p < 1 ? 0 : users; j <= users && len <= PATTERNS_MOST; j++) {
        size_t own[64];
        memcpy(own, taken, n * sizeof *own);
        own[step] = j;
        len += b_min_sep_paths(truth, step + (j > 0 ? sampling->separation : 1),
                               log_weight + (truth->p < 1 ? log_binomial(users, truth->p, j) : 0), own, mixture,
                               at + len, scale);
    }
    return len;
}

/* From a cold start, or from any state of a process that has run for long: to wait, or to sit out r more steps. */
static size_t b_min_sep_patterns(const struct truth *truth, struct mixture *mixture, double scale)
{
    const struct eps_sampling *sampling = &truth->mechanism->sampling;
    const size_t none[64] = {0};
    if (!sampling->warm_start)
        return b_min_sep_paths(truth, 0, 0, none, mixture, 0, scale);
    long double waits = -log1pl((long double)(sampling->separation - 1) * truth->p);
    size_t len = b_min_sep_paths(truth, 0, waits, none, mixture, 0, scale);
    for (size_t r = 1; r < sampling->separation && len <= PATTERNS_MOST; r++)
        len += b_min_sep_paths(truth, r, waits + logl(truth->p), none, mixture, len, scale);
    return len;
}

static bool disjoint(const struct truth *truth)
{
    size_t groups = groups_of(truth);
    for (size_t i = 0; i < truth->c.rows; i++)
        for (size_t j = 0; j < truth->c.columns; j++)
            for (size_t k = j + groups; k < truth->c.columns; k += groups)
                if (*entry(&truth->c, i, j) != 0 && *entry(&truth->c, i, k) != 0)
                    return false;
    return true;
}

/* Zero entries of a computed matrix may be noise. */
static void clean(struct matrix *c)
{
    long double most = 0;
    for (size_t i = 0; i < c->rows * c->columns; i++)
        most = fmaxl(most, fabsl(c->at[i]));
    for (size_t i = 0; i < c->rows * c->columns; i++)
        if (fabsl(c->at[i]) < 1e-300L * most)
            c->at[i] = 0;
}

struct truth truth_open(const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *sampling = &mechanism->sampling;
    struct truth truth = {.mechanism = mechanism, .c = matrix_of(mechanism), .p = probability(mechanism)};
    clean(&truth.c);
    find_sensitivity(&truth);
    bool bins = bins_of(mechanism) > 0, b_min_sep = is_b_min_sep(mechanism), nonnegative = true;
    bool steps = !bins && !b_min_sep && disjoint(&truth);
    double patterns = bins        ? (double)bin_patterns(mechanism)
                      : b_min_sep ? (double)b_min_sep_patterns(&truth, NULL, 0)
                                  : pow((double)sampling->examples_per_user + 1, (double)rounds_of(&truth, 0));
    for (size_t i = 0; i < truth.c.rows * truth.c.columns; i++)
        nonnegative = nonnegative && truth.c.at[i] >= 0;
    if (sampling->scheme == EPS_SCHEME_NONE)
        truth.kind = TRUTH_GAUSSIAN;
    else if (steps && (!sampling->last_iterate || mechanism->matrix.family == EPS_FAMILY_IDENTITY))
        truth.kind = TRUTH_STEPS;
    else if (!steps && nonnegative && patterns <= PATTERNS_MOST && !sampling->truncation && !sampling->last_iterate)
        truth.kind = TRUTH_MIXTURE;
    else
        truth.kind = TRUTH_NONE;
    return truth;
}

void truth_close(struct truth *truth)
{
    matrix_free(&truth->c);
}

/* Bins that share no row, and are equally long: a law that is known. */
static bool bins_are_alike(const struct truth *truth)
{
    size_t bins = bins_of(truth->mechanism), n = truth->mechanism->n;
    long double first = 0;
    if (bins == 0 || (truth->mechanism->sampling.redraw && bins < n) ||
        truth->mechanism->adjacency == EPS_ADJACENCY_REPLACE_ONE)
        return false;
    for (size_t i = 0; i < bins; i++) {
        long double square = 0;
        for (size_t j = i; j < n; j += bins)
            square += column_square(&truth->c, j);
        first = i ? first : square;
        if (fabsl(square - first) > 1e-12L * first)
            return false;
    }
    for (size_t i = 0; i < truth->c.rows; i++)
        for (size_t j = 0; j < truth->c.columns; j++)
            if (i != j && *entry(&truth->c, i, j) != 0)
                return false;
    return true;
}

bool truth_is_tight(const struct truth *truth)
{
    if (truth->kind == TRUTH_GAUSSIAN)
        return truth->sensitivity_upper <= truth->sensitivity_lower * (1 + 1e-12L);
    return truth->kind == TRUTH_STEPS || bins_are_alike(truth);
}

/* ------------------------------------------------------------ closed forms */

long double truth_gaussian(long double mu, long double eps)
{
    if (!(mu > 0))
        return 0;
    long double at = eps / mu - 0.5L * mu, log_tail = log_normal_tail(at);
    return -expl(log_tail) * expm1l(fminl(eps + log_normal_tail(at + mu) - log_tail, 0));
}

static long double adjacency_factor(const struct truth *truth)
{
    enum eps_adjacency adjacency = truth->mechanism->adjacency;
    if (truth->mechanism->sampling.truncation && adjacency == EPS_ADJACENCY_ADD_REMOVE)
        return 2; /* the example takes another one's place */
    return adjacency == EPS_ADJACENCY_REPLACE_ONE ? 2 : 1;
}

long double truth_unamplified(const struct truth *truth)
{
    long double users = (long double)truth->mechanism->sampling.examples_per_user;
    if (truth->mechanism->sampling.scheme == EPS_SCHEME_NONE)
        users = 1;
    return truth->sensitivity_upper * users * adjacency_factor(truth);
}

/* ------------------------------------------------------------ steps */

static struct points bernoulli(long double p, long double at)
{
    if (p >= 1)
        return (struct points){.len = 1, .weight = {1}, .at = {at}};
    return (struct points){.len = 2, .weight = {1 - p, p}, .at = {0, at}};
}

static struct points binomial(size_t trials, long double p, long double at)
{
    struct points points = {.len = trials + 1};
    if (p >= 1)
        return (struct points){.len = 1, .weight = {1}, .at = {at * (long double)trials}};
    for (size_t k = 0; k <= trials; k++) {
        points.weight[k] = expl(log_binomial(trials, p, k));
        points.at[k] = at * (long double)k;
    }
    return points;
}

static struct points origin(void)
{
    return (struct points){.len = 1, .weight = {1}, .at = {0}};
}

static struct points mirrored(struct points points)
{
    for (size_t i = 0; i < points.len; i++)
        points.at[i] = -points.at[i];
    return points;
}

/* With the example against without it, or the other way around: outputs mirrored, so that the loss rises again. */
static struct branch directed(long double weight, struct points with, struct points without,
                              enum eps_direction direction)
{
    if (direction == EPS_REMOVE)
        return (struct branch){weight, with, without};
    return (struct branch){weight, mirrored(without), mirrored(with)};
}

/* One part's steps: its columns' norms in units of sigma, largest first. */
static void scales_of(const struct truth *truth, size_t part, double sigma, struct steps *steps)
{
    const struct eps_mechanism *mechanism = truth->mechanism;
    steps->len = 0;
    if (mechanism->sampling.last_iterate) {
        steps->len = 1;
        steps->scale[0] = sqrtl(column_square(&truth->c, 0) / (long double)mechanism->n) / (long double)sigma;
        return;
    }
    for (size_t j = part; j < mechanism->n; j += groups_of(truth)) {
        long double scale = sqrtl(column_square(&truth->c, j)) / (long double)sigma;
        size_t at = steps->len;
        if (scale == 0)
            continue;
        for (; at > 0 && steps->scale[at - 1] < scale; at--)
            steps->scale[at] = steps->scale[at - 1];
        steps->scale[at] = scale;
        steps->len++;
    }
}

/* Each step of one is matched with one of the other of at least its scale: noise added to the latter gives the
 * former. */
static bool is_noisier(const struct steps *steps, const struct steps *than)
{
    bool noisier = steps->len <= than->len;
    for (size_t i = 0; i < steps->len && noisier; i++)
        noisier = steps->scale[i] <= than->scale[i];
    return noisier;
}

static struct enclosure worst_part(const struct truth *truth, const struct step *shape, double sigma, long double eps,
                                   const struct effort *effort)
{
    struct enclosure worst = {0, 0};
    struct steps parts[16];
    size_t len = groups_of(truth);
    for (size_t i = 0; i < len; i++) {
        scales_of(truth, i, sigma, &parts[i]);
        for (size_t k = 0; k < STEPS_MAX; k++)
            parts[i].shape[k] = shape;
    }
    for (size_t i = 0; i < len; i++) {
        bool needed = true;
        for (size_t other = 0; other < len && needed; other++)
            needed = other == i || !is_noisier(&parts[i], &parts[other]) ||
                     (i < other && is_noisier(&parts[other], &parts[i])); /* of equals the first */
        if (!needed)
            continue;
        struct enclosure own = steps_delta(&parts[i], eps, effort);
        worst.lower = fmaxl(worst.lower, own.lower);
        worst.upper = fmaxl(worst.upper, own.upper);
    }
    return worst;
}

static struct enclosure plain_steps(const struct truth *truth, enum eps_direction direction, long double eps,
                                    double sigma, const struct effort *effort)
{
    const struct eps_mechanism *mechanism = truth->mechanism;
    size_t trials = mechanism->sampling.examples_per_user * (mechanism->sampling.last_iterate ? mechanism->n : 1);
    if (trials >= STEP_ATOMS)
        return (struct enclosure){0, 1};
    bool replace = mechanism->adjacency == EPS_ADJACENCY_REPLACE_ONE;
    struct points with = binomial(trials, truth->p, 1), without = replace ? binomial(trials, truth->p, -1) : origin();
    struct step shape = {.len = 1, .rising = true};
    shape.branches[0] = directed(1, with, without, direction);
    return worst_part(truth, &shape, sigma, eps, effort);
}

/* ------------------------------------------------------------ truncated batches */

struct truncated {
    long double open, full, q;
};

static struct truncated truncate_batch(size_t dataset, long double p, size_t limit)
{
    struct truncated t = {0};
    if (limit >= dataset)
        return (struct truncated){1, 0, 0};
    if (p >= 1)
        return (struct truncated){0, 1, (long double)limit / (long double)dataset};
    for (size_t k = 0; k < dataset; k++) {
        long double mass = expl(log_binomial(dataset - 1, p, k));
        *(k < limit ? &t.open : &t.full) += mass;
        /* k others and the example, of which `limit` are kept */
        t.q += k < limit ? 0 : mass * p * (long double)limit / (long double)(k + 1);
    }
    t.q /= t.full > 0 ? t.full : 1;
    return t;
}

/* The table's pair, or with the full batch's draw released. */
static struct step truncated_step(const struct truth *truth, const struct truncated *t, enum eps_direction direction,
                                  bool released)
{
    enum eps_adjacency adjacency = truth->mechanism->adjacency;
    bool replace = adjacency == EPS_ADJACENCY_REPLACE_ONE;
    struct step step = {.rising = true};
    struct points open = replace ? bernoulli(truth->p, -1) : origin();
    struct points full = replace                               ? bernoulli(t->q, -2)
                         : adjacency == EPS_ADJACENCY_ZERO_OUT ? bernoulli(t->q, -1)
                                                               : origin();
    if (t->open > 0)
        step.branches[step.len++] = directed(t->open, bernoulli(truth->p, 1), open, direction);
    if (t->full > 0 && released) {
        step.branches[step.len++] = directed(t->full * t->q, bernoulli(1, replace ? 2 : 1), origin(), direction);
        step.branches[step.len++] = directed(t->full * (1 - t->q), origin(), origin(), direction);
    } else if (t->full > 0) {
        step.branches[step.len++] = directed(t->full, bernoulli(t->q, 2), full, direction);
    }
    return step;
}

static void part_sizes(const struct truth *truth, size_t sizes[2])
{
    const struct eps_sampling *s = &truth->mechanism->sampling;
    size_t groups = s->scheme == EPS_SCHEME_CYCLIC_POISSON ? s->groups : 1;
    sizes[0] = (size_t)s->dataset_size / groups;
    sizes[1] = (size_t)s->dataset_size % groups ? sizes[0] + 1 : sizes[0];
}

/* The probability that an example makes a difference to one batch. */
static long double takes_part(const struct truth *truth)
{
    size_t sizes[2], users = truth->mechanism->sampling.examples_per_user;
    long double most = 0;
    if (!truth->mechanism->sampling.truncation || users > 1)
        return truth->p;
    part_sizes(truth, sizes);
    for (size_t i = 0; i < 2; i++) {
        struct truncated t = truncate_batch(sizes[i], truth->p, (size_t)truth->mechanism->sampling.max_batch_size);
        most = fmaxl(most, t.open * truth->p + t.full * t.q);
    }
    return most;
}

long double truth_presence(const struct truth *truth, enum eps_direction direction, double eps)
{
    const struct eps_mechanism *mechanism = truth->mechanism;
    if (mechanism->sampling.scheme == EPS_SCHEME_NONE || bins_of(mechanism) > 0 || is_b_min_sep(mechanism))
        return 1;
    long double draws = (long double)rounds_of(truth, 0) * (long double)mechanism->sampling.examples_per_user;
    long double log_never = draws * log1pl(-takes_part(truth));
    bool still = !mechanism->sampling.truncation && mechanism->adjacency != EPS_ADJACENCY_REPLACE_ONE;
    if (direction == EPS_ADD && still) /* the other data set's output is noise alone */
        return fmaxl(-expm1l((long double)eps + log_never), 0);
    return -expm1l(log_never);
}

static bool has_pairs(const struct truth *truth)
{
    const struct eps_sampling *s = &truth->mechanism->sampling;
    return s->examples_per_user == 1 && !s->last_iterate;
}

static struct enclosure truncated_pairs(const struct truth *truth, enum eps_direction direction, long double eps,
                                        double sigma, const struct effort *effort)
{
    size_t sizes[2];
    struct enclosure worst = {0, 0};
    long double plain = truth_gaussian(truth_unamplified(truth) / (long double)sigma, eps);
    long double presence = truth_presence(truth, direction, (double)eps);
    part_sizes(truth, sizes);
    for (size_t i = 0; i < (sizes[0] == sizes[1] ? 1 : 2); i++) {
        struct truncated t = truncate_batch(sizes[i], truth->p, (size_t)truth->mechanism->sampling.max_batch_size);
        struct step step = truncated_step(truth, &t, direction, false);
        struct enclosure table = worst_part(truth, &step, sigma, eps, effort), least = table;
        if (truth->mechanism->adjacency != EPS_ADJACENCY_ADD_REMOVE && t.full > 0) {
            step = truncated_step(truth, &t, direction, true);
            least.lower = fminl(least.lower, worst_part(truth, &step, sigma, eps, effort).lower);
        }
        least.lower = fminl(least.lower, fminl(plain, presence) * (1 - 1e-10L));
        worst.lower = fmaxl(worst.lower, least.lower);
        worst.upper = fmaxl(worst.upper, table.upper);
    }
    return worst;
}

/* Examples of which `users` are the user's own and contribute `own`, all others `other`. */
struct dataset {
    size_t len, users;
    int own, other;
};

/* The law of one step's sum; of a batch over `limit`, that of a uniformly random subset. */
static void sum_law(long double *law, size_t reach, struct dataset data, long double p, size_t limit)
{
    memset(law, 0, (2 * reach + 1) * sizeof *law);
    for (size_t k = 0; k <= data.len - data.users; k++)
        for (size_t b = 0; b <= data.users; b++) {
            long double mass = expl(log_binomial(data.len - data.users, p, k) + log_binomial(data.users, p, b));
            size_t all = k + b, kept = all < limit ? all : limit;
            for (size_t h = kept > k ? kept - k : 0; h <= b && h <= kept; h++) {
                long double share = expl(log_choose(b, h) + log_choose(k, kept - h) - log_choose(all, kept));
                long long sum = (long long)h * data.own + (long long)(kept - h) * data.other;
                law[(size_t)((long long)reach + sum)] += mass * share;
            }
        }
}

static struct points points_of(const long double *law, size_t reach)
{
    struct points points = {0};
    for (size_t i = 0; i <= 2 * reach; i++)
        if (law[i] > 1e-40L) { /* less is left out: a law of less mass has a smaller divergence */
            points.weight[points.len] = law[i];
            points.at[points.len++] = (long double)i - (long double)reach;
        }
    return points;
}

/* The sum over the steps, of which only the last iterate shows. */
static void add_up(long double *law, size_t *reach, size_t steps, size_t capacity)
{
    long double one[2 * STEP_ATOMS + 1], sum[2 * STEP_ATOMS + 1];
    size_t one_reach = *reach;
    memcpy(one, law, (2 * one_reach + 1) * sizeof *one);
    for (size_t s = 1; s < steps; s++) {
        size_t grown = *reach + one_reach;
        assert_true(2 * grown + 1 <= capacity);
        memset(sum, 0, sizeof sum);
        for (size_t i = 0; i <= 2 * *reach; i++)
            for (size_t k = 0; k <= 2 * one_reach; k++)
                sum[i + k] += law[i] * one[k];
        *reach = grown;
        memcpy(law, sum, (2 * grown + 1) * sizeof *sum);
    }
}

long double truth_attack(const struct truth *truth, enum eps_direction direction, double eps, double sigma,
                         const struct effort *effort)
{
    const struct eps_sampling *s = &truth->mechanism->sampling;
    size_t sizes[2], users = s->examples_per_user, limit = (size_t)s->max_batch_size;
    long double worst = 0;
    part_sizes(truth, sizes);
    for (size_t i = 0; i < (sizes[0] == sizes[1] ? 1 : 2); i++) {
        size_t steps = s->last_iterate ? truth->mechanism->n : 1, most = limit < sizes[i] ? limit : sizes[i];
        if (sizes[i] < users || sizes[i] > ATTACKED_DATASET_MOST || 2 * most * steps + 1 > STEP_ATOMS)
            continue;
        for (int other = -1; other <= 1; other++) {
            long double with[2 * STEP_ATOMS + 1], without[2 * STEP_ATOMS + 1];
            size_t reach = most, reach_without = most;
            int without_own = truth->mechanism->adjacency == EPS_ADJACENCY_REPLACE_ONE ? -1 : 0;
            sum_law(with, reach, (struct dataset){sizes[i], users, 1, other}, truth->p, limit);
            if (truth->mechanism->adjacency == EPS_ADJACENCY_ADD_REMOVE)
                sum_law(without, reach, (struct dataset){sizes[i] - users, 0, 0, other}, truth->p, limit);
            else
                sum_law(without, reach, (struct dataset){sizes[i], users, without_own, other}, truth->p, limit);
            add_up(with, &reach, steps, STEP_ATOMS);
            add_up(without, &reach_without, steps, STEP_ATOMS);
            struct step shape = {.len = 1, .rising = false};
            shape.branches[0] = directed(1, points_of(with, reach), points_of(without, reach), direction);
            worst = fmaxl(worst, worst_part(truth, &shape, sigma, eps, effort).lower);
        }
    }
    return worst;
}

/* ------------------------------------------------------------ all patterns */

static struct mixture bin_outputs(const struct truth *truth, double sigma, long double sign)
{
    size_t len = bin_patterns(truth->mechanism);
    struct mixture m = mixture_new(len, truth->c.rows);
    for (size_t x = 0; x < len; x++) {
        size_t set = bin_pattern(truth->mechanism, x);
        m.log_weight[x] = -logl((long double)len);
        for (size_t j = 0; j < truth->mechanism->n; j++)
            for (size_t row = 0; row < m.dimension && set >> j & 1; row++)
                m.at[x * m.dimension + row] += sign * *entry(&truth->c, row, j) / (long double)sigma;
    }
    return m;
}

static struct mixture outputs(const struct truth *truth, size_t part, double sigma, long double sign)
{
    if (bins_of(truth->mechanism) > 0)
        return bin_outputs(truth, sigma, sign);
    if (is_b_min_sep(truth->mechanism)) {
        struct mixture b_min_sep = mixture_new(b_min_sep_patterns(truth, NULL, 0), truth->c.rows);
        b_min_sep_patterns(truth, &b_min_sep, (double)sign / sigma);
        return b_min_sep;
    }
    size_t users = truth->mechanism->sampling.examples_per_user, rounds = rounds_of(truth, part), len = 1;
    size_t groups = groups_of(truth);
    for (size_t i = 0; i < rounds; i++)
        len *= users + 1;
    struct mixture m = mixture_new(truth->p >= 1 ? 1 : len, truth->c.rows);
    for (size_t x = 0; x < m.len; x++) {
        size_t left = truth->p >= 1 ? len - 1 : x;
        for (size_t i = 0; i < rounds; i++, left /= users + 1) {
            size_t times = left % (users + 1), column = part + i * groups;
            if (truth->p < 1)
                m.log_weight[x] += log_binomial(users, truth->p, times);
            for (size_t row = 0; row < m.dimension && times > 0; row++)
                m.at[x * m.dimension + row] +=
                    sign * (long double)times * *entry(&truth->c, row, column) / (long double)sigma;
        }
    }
    return m;
}

static struct enclosure part_mixture(const struct truth *truth, size_t part, enum eps_direction direction,
                                     long double eps, double sigma, const struct effort *effort)
{
    bool replace = truth->mechanism->adjacency == EPS_ADJACENCY_REPLACE_ONE, remove = direction == EPS_REMOVE;
    struct mixture with = outputs(truth, part, sigma, remove ? 1 : -1);
    struct mixture without = replace ? outputs(truth, part, sigma, remove ? -1 : 1) : mixture_new(1, truth->c.rows);
    struct enclosure out =
        remove ? mixture_delta(&with, &without, eps, effort) : mixture_delta(&without, &with, eps, effort);
    mixture_free(&with);
    mixture_free(&without);
    return out;
}

struct enclosure truth_delta(const struct truth *truth, enum eps_direction direction, double eps, double sigma,
                             const struct effort *effort)
{
    const struct eps_sampling *sampling = &truth->mechanism->sampling;
    struct enclosure worst = {0, 0};
    long double factor = adjacency_factor(truth) / (long double)sigma;
    switch (truth->kind) {
    case TRUTH_GAUSSIAN:
        return (struct enclosure){truth_gaussian(truth->sensitivity_lower * factor, eps) * (1 - 1e-11L),
                                  truth_gaussian(truth->sensitivity_upper * factor, eps) * (1 + 1e-11L)};
    case TRUTH_STEPS:
        if (!sampling->truncation)
            return plain_steps(truth, direction, eps, sigma, effort);
        worst = has_pairs(truth) ? truncated_pairs(truth, direction, eps, sigma, effort) : (struct enclosure){0, 1};
        worst.lower = fmaxl(worst.lower, truth_attack(truth, direction, eps, sigma, effort));
        return worst;
    case TRUTH_MIXTURE:
        for (size_t part = 0; part < groups_of(truth); part++) {
            struct enclosure own = part_mixture(truth, part, direction, eps, sigma, effort);
            worst.lower = fmaxl(worst.lower, own.lower);
            worst.upper = fmaxl(worst.upper, own.upper);
        }
        return worst;
    case TRUTH_NONE:
        break;
    }
    return (struct enclosure){0, 1};
}
