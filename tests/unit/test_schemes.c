/*
 * The table of the schemes: every row is whole, and what used to be read past it is read from it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "lib/sampling/scheme.h"

static struct eps_mechanism new_mechanism(enum eps_scheme scheme)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = 100;
    job.mechanism.sampling.scheme = scheme;
    return job.mechanism;
}

static void every_scheme_has_a_whole_row(void **state)
{
    (void)state;
    for (enum eps_scheme name = 0; name < EPS_SCHEME_COUNT; name++) {
        const struct eps__scheme *scheme = eps__scheme_find(name);
        assert_non_null(scheme);
        assert_int_equal(scheme->scheme, name);
        assert_non_null(scheme->name);
        assert_true(scheme->check && scheme->worst && scheme->assume);
        assert_true(!scheme->coins || (scheme->random && scheme->probability));
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

/* The batches of an epoch are as many whether they are given or follow from the sizes. */
static void bins_are_bins_however_they_are_given(void **state)
{
    (void)state;
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

/* Each scheme assumes something, and none what another one does. */
static void every_scheme_says_what_it_assumes(void **state)
{
    (void)state;
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

static void a_sampling_like_another_is_like_it(void **state)
{
    (void)state;
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

static void lists_in_messages_come_from_the_table(void **state)
{
    (void)state;
    char text[120];
    eps__scheme_names(text, sizeof text, never, 0);
    assert_string_equal(text, "");
    eps__scheme_names(text, sizeof text, eps__scheme_takes, EPS__LAST_ITERATE);
    assert_string_equal(text, "poisson");
    eps__scheme_names(text, sizeof text, eps__scheme_coins, 0);
    assert_string_equal(text, "poisson and cyclic_poisson");
    eps__scheme_names(text, sizeof text, eps__scheme_takes, EPS__TRUNCATION);
    assert_string_equal(text, "poisson, cyclic_poisson and b_min_sep");
}

/* Where participation is drawn otherwise than by coins, nothing is known without noise: not "delta 0, no noise needed". */
static void without_coins_nothing_is_known_without_noise(void **state)
{
    (void)state;
    for (enum eps_scheme name = 0; name < EPS_SCHEME_COUNT; name++) {
        struct eps_mechanism mechanism = new_mechanism(name);
        mechanism.sampling.p = 0.1;
        mechanism.sampling.groups = mechanism.sampling.bins = mechanism.sampling.separation = 4;
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            struct eps__interval bound = eps__sampling_log_delta(&mechanism, direction, 50);
            if (!eps__sampling_coins(&mechanism))
                assert_true(bound.lower == 0 && bound.upper == 0 &&
                            isinf(eps__sampling_epsilon(&mechanism, direction, -20)));
            else
                assert_true(direction == EPS_ADD ? isinf(bound.upper) : bound.upper < 0 && bound.upper > -0.2);
        }
    }
}

static void bins_that_are_drawn_anew_may_be_neighbours(void **state)
{
    (void)state;
    struct eps_mechanism mechanism = new_mechanism(EPS_SCHEME_BALLS_IN_BINS);
    mechanism.n = 12;
    mechanism.sampling.bins = 4;
    struct eps__participation same = eps__sampling_worst(&mechanism);
    mechanism.sampling.redraw = true;
    struct eps__participation anew = eps__sampling_worst(&mechanism);
    assert_true(same.fixed && same.separation == 4 && same.epochs == 3);
    assert_true(!anew.fixed && anew.separation == 1 && anew.epochs == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scheme_has_a_whole_row),
        cmocka_unit_test(bins_are_bins_however_they_are_given),
        cmocka_unit_test(every_scheme_says_what_it_assumes),
        cmocka_unit_test(a_sampling_like_another_is_like_it),
        cmocka_unit_test(lists_in_messages_come_from_the_table),
        cmocka_unit_test(without_coins_nothing_is_known_without_noise),
        cmocka_unit_test(bins_that_are_drawn_anew_may_be_neighbours),
    };
    return cmocka_run_group_tests_name("schemes", tests, NULL, NULL);
}
