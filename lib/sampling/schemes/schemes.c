/*
 * The table of the schemes, and the functions of sampling.h that call a mechanism's row.
 *
 * Practitioners know the batch size and the number of epochs; the analysis needs p, the number of bins or groups, and
 * the number of steps. The rounding is part of the contract: bins are dataset/batch rounded down, and p is the double
 * nearest to the exact quotient.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/members.h"
#include "lib/sampling/pairs.h"
#include "lib/sampling/scheme.h"

#define STEPS_MAX 0x1p53L

/* One row per scheme. */
/* clang-format off */
#define SCHEMES(row)    \
    row(none)           \
    row(poisson)        \
    row(cyclic_poisson) \
    row(balls_in_bins)  \
    row(b_min_sep)
/* clang-format on */

#define DECLARE(name) extern const struct eps__scheme eps__scheme_##name;
SCHEMES(DECLARE)

#define ADDRESS(name) &eps__scheme_##name,
static const struct eps__scheme *const table[] = {SCHEMES(ADDRESS)};

enum { ROWS = sizeof table / sizeof *table };

_Static_assert((int)ROWS == (int)EPS_SCHEME_COUNT, "each scheme must have one row");

const struct eps__scheme *eps__scheme_find(enum eps_scheme scheme)
{
    for (size_t i = 0; i < ROWS; i++)
        if (table[i]->scheme == scheme)
            return table[i];
    return NULL;
}

const char *eps_scheme_name(enum eps_scheme scheme)
{
    const struct eps__scheme *row = eps__scheme_find(scheme);
    return row ? row->name : NULL;
}

const struct eps__scheme *eps__scheme_of(const struct eps_mechanism *mechanism)
{
    static const struct eps__scheme unknown = {.scheme = EPS_SCHEME_COUNT};
    const struct eps__scheme *scheme = eps__scheme_find(mechanism->sampling.scheme);
    return scheme ? scheme : &unknown;
}

void eps__scheme_names(char *text, size_t size, bool (*passes)(const struct eps__scheme *scheme, int user), int user)
{
    const char *names[ROWS];
    size_t len = 0;
    for (size_t i = 0; i < ROWS; i++)
        if (passes(table[i], user))
            names[len++] = table[i]->name;
    eps__list(text, size, names, len);
}

bool eps__scheme_served(const struct eps__scheme *scheme, int unused)
{
    (void)unused;
    return scheme->served;
}

bool eps__scheme_takes(const struct eps__scheme *scheme, int addition)
{
    return scheme->additions >> addition & 1;
}

bool eps__scheme_independent_rounds(const struct eps__scheme *scheme, int unused)
{
    (void)unused;
    return scheme->independent_rounds;
}

bool eps__scheme_bins(const struct eps__scheme *scheme, int unused)
{
    (void)unused;
    return scheme->bins;
}

bool eps__scheme_random(const struct eps__scheme *scheme, int unused)
{
    (void)unused;
    return scheme->random;
}

bool eps__scheme_pairs(const struct eps__scheme *scheme, int unused)
{
    (void)unused;
    return scheme->pairs;
}

static bool truncated_pairs(const struct eps__scheme *scheme, int unused)
{
    (void)unused;
    return scheme->pairs && scheme->pairs->truncated;
}

bool eps__scheme_decline(struct eps_error *error, const char *who,
                         bool (*passes)(const struct eps__scheme *scheme, int user))
{
    char names[120], message[200];
    eps__scheme_names(names, sizeof names, passes, 0);
    snprintf(message, sizeof message, "%s serves the scheme%s %s", who, strchr(names, ' ') ? "s" : "", names);
    return eps__decline(error, "/sampling/scheme", message);
}

bool eps__adjacency_known(struct eps_error *error, const char *who, unsigned known, enum eps_adjacency adjacency)
{
    const char *names[EPS_ADJACENCY_COUNT];
    char list[60], message[200];
    size_t len = 0;
    if (known >> adjacency & 1)
        return true;
    for (enum eps_adjacency a = 0; a < EPS_ADJACENCY_COUNT; a++)
        if (known >> a & 1)
            names[len++] = eps_adjacency_name(a);
    eps__choices(list, sizeof list, names, len);
    snprintf(message, sizeof message, "%s knows no dominating pair for %s; use %s", who, eps_adjacency_name(adjacency),
             list);
    return eps__decline(error, "/adjacency", message);
}

bool eps__scheme_steps(struct eps_error *error, const char *who, const struct eps__scheme *scheme,
                       const struct eps_mechanism *mechanism)
{
    bool truncated = mechanism->sampling.truncation;
    char names[120], message[200];
    if (!scheme->pairs)
        return eps__scheme_decline(error, who, eps__scheme_pairs);
    if (truncated && !scheme->pairs->truncated) {
        eps__scheme_names(names, sizeof names, truncated_pairs, 0);
        snprintf(message, sizeof message, "%s serves truncated batches of %s; omit truncation", who, names);
        return eps__decline(error, "/sampling/truncation", message);
    }
    return eps__adjacency_known(error, who, truncated ? scheme->pairs->truncated : scheme->pairs->drawn,
                                mechanism->adjacency);
}

static bool has_sizes(const struct eps_sampling *sampling)
{
    return sampling->batch_size > 0 && sampling->dataset_size > 0;
}

double eps__sampling_probability(const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *s = &mechanism->sampling;
    const struct eps__scheme *scheme = eps__scheme_of(mechanism);

    if (!scheme->probability)
        return NAN;
    if (!isnan(s->p))
        return s->p;
    return has_sizes(s) ? scheme->probability(s) : NAN;
}

size_t eps__sampling_bins(const struct eps_mechanism *mechanism)
{
    const struct eps__scheme *scheme = eps__scheme_of(mechanism);
    return scheme->bins ? scheme->bins(&mechanism->sampling) : 0;
}

size_t eps__sampling_steps(const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *s = &mechanism->sampling;

    if (!has_sizes(s) || s->batch_size > s->dataset_size || !(mechanism->epochs > 0))
        return 0;
    long double exact = (long double)mechanism->epochs * (long double)s->dataset_size / (long double)s->batch_size;
    if (!(exact < STEPS_MAX))
        return (size_t)STEPS_MAX;
    /* The double nearest to a decimal has a relative error of at most 2^-53. */
    long double nearest = roundl(exact);
    size_t steps = (size_t)fmaxl(fabsl(exact - nearest) <= exact * 0x1p-52L ? nearest : ceill(exact), 1);
    size_t bins = eps__sampling_bins(mechanism);
    return bins > 0 && steps % bins ? steps + (bins - steps % bins) : steps;
}

double eps__sampling_expected_batch(const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *s = &mechanism->sampling;
    const struct eps__scheme *scheme = eps__scheme_of(mechanism);
    size_t bins = eps__sampling_bins(mechanism);
    double p = eps__sampling_probability(mechanism);

    if (s->dataset_size == 0)
        return NAN;
    if (scheme->bins)
        return bins > 0 ? (double)s->dataset_size / (double)bins : NAN;
    if (scheme->probability && isnan(p))
        return NAN;
    if (s->batch_size > 0)
        return (double)s->batch_size;
    return scheme->batch ? scheme->batch(s, p) : NAN;
}

bool eps__sampling_plainer(struct eps_sampling *plainer, const struct eps_mechanism *mechanism)
{
    const struct eps__scheme *scheme = eps__scheme_of(mechanism);
    return scheme->plainer && scheme->plainer(plainer, mechanism);
}

bool eps__sampling_turns(const struct eps_mechanism *mechanism)
{
    return eps__scheme_of(mechanism)->groups;
}

size_t eps__sampling_groups(const struct eps_mechanism *mechanism)
{
    const struct eps__scheme *scheme = eps__scheme_of(mechanism);
    return scheme->groups ? scheme->groups(&mechanism->sampling) : 1;
}

size_t eps__sampling_parts(const struct eps_mechanism *mechanism)
{
    size_t groups = eps__sampling_groups(mechanism);
    return groups < mechanism->n ? groups : mechanism->n;
}

size_t eps__sampling_part_sizes(const struct eps_mechanism *mechanism, uint64_t sizes[2])
{
    uint64_t groups = eps__sampling_groups(mechanism), dataset = mechanism->sampling.dataset_size;
    sizes[0] = dataset / groups;
    sizes[1] = sizes[0] + 1;
    return dataset % groups ? 2 : 1;
}

struct eps_sampling eps__sampling_default(void)
{
    struct eps_sampling sampling;
    eps__members_init(&eps__sampling_object, &sampling);
    return sampling;
}

struct eps_sampling eps__sampling_like(bool random, bool fixed)
{
    struct eps_mechanism mechanism = {.n = 1, .sampling = eps__sampling_default()};
    mechanism.sampling.schema = fixed ? EPS_SCHEMA_FIXED_ORDER : EPS_SCHEMA_MIN_SEPARATION;
    for (size_t i = 0; i < ROWS; i++) {
        mechanism.sampling.scheme = table[i]->scheme;
        if (table[i]->random == random && table[i]->worst(&mechanism).fixed == fixed)
            break;
    }
    return mechanism.sampling;
}

bool eps__sampling_random(const struct eps_mechanism *mechanism)
{
    return eps__scheme_of(mechanism)->random;
}

bool eps__sampling_independent_rounds(const struct eps_mechanism *mechanism)
{
    return eps__scheme_of(mechanism)->independent_rounds;
}

struct eps__participation eps__sampling_worst(const struct eps_mechanism *mechanism)
{
    struct eps__participation participation = eps__scheme_of(mechanism)->worst(mechanism);
    if (!participation.separation)
        participation.separation = 1;
    size_t fit = (mechanism->n - 1) / participation.separation + 1;
    if (participation.epochs > fit)
        participation.epochs = fit;
    return participation;
}

struct eps__participation eps__sampling_target(const struct eps_mechanism *mechanism)
{
    const struct eps__scheme *scheme = eps__scheme_of(mechanism);
    return scheme->target ? scheme->target(mechanism) : (struct eps__participation){.epochs = 1};
}
