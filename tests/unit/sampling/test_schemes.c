/*
 * The table of schemes: every row is complete, and code elsewhere uses it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/sampling/pairs.h"
#include "lib/sampling/scheme.h"
#include "tests/unit/test.h"

static struct eps_mechanism new_mechanism(enum eps_scheme scheme)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = 100;
    job.mechanism.sampling.scheme = scheme;
    return job.mechanism;
}

TEST(every_scheme_has_a_whole_row)
{
    for (enum eps_scheme name = 0; name < EPS_SCHEME_COUNT; name++) {
        const struct eps__scheme *scheme = eps__scheme_find(name);
        assert_non_null(scheme);
        assert_int_equal(scheme->scheme, name);
        assert_non_null(scheme->name);
        assert_true(scheme->check && scheme->worst && scheme->assume);
        assert_true(!scheme->independent_rounds || (scheme->random && scheme->probability));
        assert_true(!scheme->probability || scheme->batch);
        assert_true(scheme->random || scheme->additions == 0);
    }
    assert_null(eps__scheme_find(EPS_SCHEME_COUNT));
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.sampling.scheme = EPS_SCHEME_COUNT;
    job.mechanism.n = 4;
    eps_job_defaults(&job);
    assert_true(eps_job_check(&job, 0, NULL, NULL) > 0);
}

/* The number of batches in an epoch is the same whether it is given or follows from the sizes. */
TEST(bins_are_bins_however_they_are_given)
{
    struct eps_mechanism given = new_mechanism(EPS_SCHEME_BALLS_IN_BINS), derived = given;
    given.sampling.bins = 20;
    derived.sampling.batch_size = 50;
    derived.sampling.dataset_size = 1009;
    struct eps__participation one = eps__sampling_worst(&given), other = eps__sampling_worst(&derived);
    assert_int_equal(one.epochs, 5);
    assert_int_equal(one.separation, 20);
    assert_memory_equal(&one, &other, sizeof one);
    one = eps__sampling_target(&given);
    other = eps__sampling_target(&derived);
    assert_int_equal(one.epochs, 5);
    assert_int_equal(one.separation, 20);
    assert_memory_equal(&one, &other, sizeof one);
}

/* Each scheme assumes something, and no two assume the same. */
TEST(every_scheme_says_what_it_assumes)
{
    char *first[EPS_SCHEME_COUNT] = {NULL};
    for (enum eps_scheme name = 0; name < EPS_SCHEME_COUNT; name++) {
        struct eps_mechanism mechanism = new_mechanism(name);
        char **items = NULL;
        size_t len = 0;
        struct eps__sentences list = {&items, &len, false};
        mechanism.sampling.groups = mechanism.sampling.bins = mechanism.sampling.separation = 4;
        mechanism.sampling.epochs = 2;
        eps__scheme_of(&mechanism)->assume(&list, &mechanism.sampling);
        assert_true(!list.failed && len > 0);
        first[name] = items[0];
        for (size_t i = 1; i < len; i++)
            free(items[i]);
        free(items);
        for (enum eps_scheme other = 0; other < name; other++)
            assert_string_not_equal(first[name], first[other]);
    }
    for (enum eps_scheme name = 0; name < EPS_SCHEME_COUNT; name++)
        free(first[name]);
}

TEST(a_sampling_like_another_is_like_it)
{
    for (int random = 0; random < 2; random++)
        for (int fixed = 0; fixed < 2; fixed++) {
            struct eps_mechanism mechanism = new_mechanism(EPS_SCHEME_NONE);
            mechanism.sampling = eps__sampling_like(random, fixed);
            assert_int_equal(eps__sampling_random(&mechanism), random);
            assert_int_equal(eps__sampling_worst(&mechanism).fixed, fixed);
        }
}

static bool never(const struct eps__scheme *scheme, int unused)
{
    (void)scheme;
    (void)unused;
    return false;
}

TEST(lists_in_messages_come_from_the_table)
{
    char text[120];
    eps__scheme_names(text, sizeof text, never, 0);
    assert_string_equal(text, "");
    eps__scheme_names(text, sizeof text, eps__scheme_takes, EPS__LAST_ITERATE);
    assert_string_equal(text, "poisson");
    eps__scheme_names(text, sizeof text, eps__scheme_independent_rounds, 0);
    assert_string_equal(text, "poisson and cyclic_poisson");
    eps__scheme_names(text, sizeof text, eps__scheme_takes, EPS__TRUNCATION);
    assert_string_equal(text, "poisson, cyclic_poisson and b_min_sep");
}

/* A row without pairs, or without pairs for an adjacency or for truncated batches, is declined with a reason from the
 * row. */
TEST(who_composes_steps_asks_the_row)
{
    static const struct eps__pairs some = {.drawn = 1u << EPS_ADJACENCY_ZERO_OUT | 1u << EPS_ADJACENCY_ADD_REMOVE};
    const struct eps__scheme none = {0}, few = {.pairs = &some};
    struct eps_mechanism mechanism = new_mechanism(EPS_SCHEME_POISSON);
    struct eps_error error = {0};
    for (enum eps_adjacency a = 0; a < EPS_ADJACENCY_COUNT; a++)
        for (int truncated = 0; truncated < 2; truncated++) {
            mechanism.adjacency = a;
            mechanism.sampling.truncation = truncated;
            assert_true(eps__scheme_steps(&error, "x", eps__scheme_find(EPS_SCHEME_POISSON), &mechanism));
            assert_true(eps__scheme_steps(&error, "x", eps__scheme_find(EPS_SCHEME_CYCLIC_POISSON), &mechanism));
            assert_false(eps__scheme_steps(&error, "x", &none, &mechanism));
            assert_string_equal(error.pointer, "/sampling/scheme");
            assert_string_equal(error.message, "x serves the schemes none, poisson and cyclic_poisson");
            bool known = !truncated && a != EPS_ADJACENCY_REPLACE_ONE;
            assert_int_equal(eps__scheme_steps(&error, "x", &few, &mechanism), known);
            if (truncated)
                assert_string_equal(error.message,
                                    "x serves truncated batches of poisson and cyclic_poisson; omit truncation");
            else if (!known)
                assert_string_equal(error.message,
                                    "x knows no dominating pair for replace_one; use zero_out or add_remove");
        }
}

/* The pairs of a step at p = 0.25: public outcomes, and the shifts of both data sets. */
TEST(the_pairs_of_a_step_are_its_schemes)
{
    const struct eps__step_setting step = {.p = 0.25, .dataset = 100, .log_floor = -700};
    for (enum eps_scheme name = 0; name < EPS_SCHEME_COUNT; name++)
        for (enum eps_adjacency a = 0; a < EPS_ADJACENCY_COUNT; a++) {
            struct eps_mechanism mechanism = new_mechanism(name);
            const struct eps__pairs *pairs = eps__scheme_of(&mechanism)->pairs;
            struct eps__step_pairs made;
            mechanism.adjacency = a;
            if (!pairs)
                continue;
            assert_int_equal(pairs->make(&made, &mechanism, &step), EPS_OK);
            const struct eps__alternative *only = &made.often.items[0];
            bool random = eps__sampling_random(&mechanism);
            assert_int_equal(made.often.len, 1);
            assert_int_equal(made.rarely.len, 0);
            assert_true(only->with == 1 && only->without == (random && a == EPS_ADJACENCY_REPLACE_ONE));
            for (int estimate = 0; estimate < 2; estimate++) {
                assert_int_equal(only->law[estimate].len, random ? 2 : 1);
                assert_int_equal(only->law[estimate].first, random ? 0 : 1);
                assert_true(only->law[estimate].weight[0] == (random ? 0.75 : 1));
            }
            eps__step_pairs_clear(&made);
        }
}

/* Where participations are not drawn in independent rounds, nothing is known without noise: the answer is not "delta 0,
 * no noise needed". */
TEST(without_independent_rounds_nothing_is_known_without_noise)
{
    for (enum eps_scheme name = 0; name < EPS_SCHEME_COUNT; name++) {
        struct eps_mechanism mechanism = new_mechanism(name);
        mechanism.sampling.p = 0.1;
        mechanism.sampling.groups = mechanism.sampling.bins = mechanism.sampling.separation = 4;
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            struct eps__interval bound = eps__sampling_log_delta(&mechanism, direction, 50);
            if (!eps__sampling_independent_rounds(&mechanism) && name != EPS_SCHEME_B_MIN_SEP)
                assert_true(bound.lower == 0 && bound.upper == 0 &&
                            isinf(eps__sampling_epsilon(&mechanism, direction, -20)));
            else
                assert_true(direction == EPS_ADD ? isinf(bound.upper) : bound.upper < 0 && bound.upper > -0.2);
        }
    }
}

TEST(bins_that_are_drawn_anew_may_be_neighbours)
{
    struct eps_mechanism mechanism = new_mechanism(EPS_SCHEME_BALLS_IN_BINS);
    mechanism.n = 12;
    mechanism.sampling.bins = 4;
    struct eps__participation same = eps__sampling_worst(&mechanism);
    mechanism.sampling.redraw = true;
    struct eps__participation anew = eps__sampling_worst(&mechanism);
    assert_true(same.fixed && same.separation == 4 && same.epochs == 3);
    assert_true(!anew.fixed && anew.separation == 1 && anew.epochs == 3 && anew.shuffled == 4);
}
