/*
 * The laws of the outputs, written down.
 *
 * Without truncation: y = C x + sigma z, x_i the number of examples of the user that step i draws, against -C x
 * (replace_one) or 0. A data set in groups has one such mechanism for each of them, on every groups-th column.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/truth/parts.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------ who takes part */

size_t groups_of(const struct truth *truth)
{
    const struct eps_sampling *sampling = &truth->mechanism->sampling;
    size_t groups = sampling->scheme == EPS_SCHEME_CYCLIC_POISSON ? sampling->groups : 1;
    return groups < truth->mechanism->n ? groups : truth->mechanism->n;
}

size_t rounds_of(const struct truth *truth, size_t part)
{
    return (truth->mechanism->n - 1 - part) / groups_of(truth) + 1;
}

long double log_choose(size_t n, size_t k)
{
    return lgammal((long double)n + 1) - lgammal((long double)k + 1) - lgammal((long double)(n - k) + 1);
}

long double log_binomial(size_t n, long double p, size_t k)
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

/* Whether no row is shared by columns so far apart, entries of 0 between others counted: pld asks no more. */
static bool few_bands(const struct truth *truth)
{
    for (size_t i = 0; i < truth->c.rows; i++)
        for (size_t j = 0; j + groups_of(truth) <= i && j < truth->c.columns; j++)
            if (*entry(&truth->c, i, j) != 0)
                return false;
    return true;
}

bool truth_is_tight(const struct truth *truth)
{
    if (truth->kind == TRUTH_GAUSSIAN)
        return truth->sensitivity_upper <= truth->sensitivity_lower * (1 + 1e-12L);
    return (truth->kind == TRUTH_STEPS && few_bands(truth)) || bins_are_alike(truth);
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

struct points bernoulli(long double p, long double at)
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

struct points origin(void)
{
    return (struct points){.len = 1, .weight = {1}, .at = {0}};
}

static struct points mirrored(struct points points)
{
    for (size_t i = 0; i < points.len; i++)
        points.at[i] = -points.at[i];
    return points;
}

struct branch directed(long double weight, struct points with, struct points without, enum eps_direction direction)
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

struct enclosure worst_part(const struct truth *truth, const struct step *shape, double sigma, long double eps,
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
