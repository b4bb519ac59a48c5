/*
 * Truncated batches. For the table of pairs (TPS, as corrected in the specification): a batch is open with the public
 * probability that fewer than B of the other N - 1 examples are drawn; an open batch is Bern(p) against what the
 * adjacency makes of it, a full one twice Bern(q). A full batch under zero_out and replace_one has a second pair:
 * whether the example is in it is released, for it is the same under both data sets. Besides, the batch is coupled:
 * then the example's own shift is all that differs, and only if it is in the batch. What the mechanism really does is
 * computed too, for data sets of which all others contribute -1, 0 or 1.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/truth/parts.h"

#include <math.h>
#include <string.h>

#include "tests/unit/test.h"

enum { ATTACKED_DATASET_MOST = 24 };

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

bool has_pairs(const struct truth *truth)
{
    const struct eps_sampling *s = &truth->mechanism->sampling;
    return s->examples_per_user == 1 && !s->last_iterate;
}

struct enclosure truncated_pairs(const struct truth *truth, enum eps_direction direction, long double eps, double sigma,
                                 const struct effort *effort)
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
