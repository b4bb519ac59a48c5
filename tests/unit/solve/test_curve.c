/*
 * The privacy curve of a mechanism against jobs: a point of a curve says what a job says that asks for delta at its epsilon, in
 * both directions, to the last point.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "lib/epsilon.h"
#include "tests/unit/test.h"

#define TOLERANCE 1e-3

enum { EVERY = 20 };

static struct eps_job new_job(enum eps_scheme scheme, size_t n, size_t bands)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.sampling.scheme = scheme;
    if (bands > 1) {
        job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
        job.mechanism.matrix.bands = bands;
    }
    job.query.noise_multiplier = 1;
    job.query.accountant.tolerance = TOLERANCE;
    return job;
}

static struct eps_result *solve(struct eps_job job)
{
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    eps_job_defaults(&job);
    if (eps_solve(NULL, &result, &error, &job) != EPS_OK)
        fail_msg("%s: %s", error.pointer, error.message);
    return result;
}

/* A bound that is as good as the job's: neither may be off by more than its tolerance. Past what doubles tell apart both are at
 * the least. */
static void assert_as_good(const char *name, double epsilon, double curve, double job)
{
    if (!(curve <= job * (1 + 2 * TOLERANCE) && curve >= job * (1 - 2 * TOLERANCE)))
        fail_msg("%s at epsilon %.17g: the curve says %.17g, a job %.17g", name, epsilon, curve, job);
}

static size_t compare(struct eps_job job)
{
    size_t small = 0;
    job.query.curve = true;
    struct eps_result *curve = solve(job);
    job.query.curve = false;
    assert_true(curve->curve_len == 201);
    for (size_t i = 0; i < curve->curve_len; i += EVERY) {
        const struct eps_curve_point *point = &curve->curve[i];
        job.query.epsilon = point->epsilon;
        struct eps_result *result = solve(job);
        assert_as_good("remove", point->epsilon, point->remove, result->directions[EPS_REMOVE].value);
        assert_as_good("add", point->epsilon, point->add, result->directions[EPS_ADD].value);
        assert_true(point->lower <= result->delta && point->delta >= result->bracket_lower);
        small += point->add < 1e-17;
        eps_result_destroy(result);
    }
    for (size_t i = 1; i < curve->curve_len; i++) {
        assert_true(curve->curve[i].remove <= curve->curve[i - 1].remove);
        assert_true(curve->curve[i].add <= curve->curve[i - 1].add);
    }
    eps_result_destroy(curve);
    return small;
}

TEST(a_point_is_as_good_as_a_job)
{
    struct eps_job poisson = new_job(EPS_SCHEME_POISSON, 1000, 1), bins = new_job(EPS_SCHEME_BALLS_IN_BINS, 100, 1),
                   redraw = new_job(EPS_SCHEME_BALLS_IN_BINS, 100, 1),
                   banded = new_job(EPS_SCHEME_BALLS_IN_BINS, 20, 2), b_min_sep = new_job(EPS_SCHEME_B_MIN_SEP, 12, 2),
                   groups = new_job(EPS_SCHEME_CYCLIC_POISSON, 100, 2), none = new_job(EPS_SCHEME_NONE, 10, 2);
    poisson.mechanism.sampling.p = b_min_sep.mechanism.sampling.p = groups.mechanism.sampling.p = 0.01;
    bins.mechanism.sampling.bins = banded.mechanism.sampling.bins = 10;
    redraw.mechanism.sampling.bins = 20;
    redraw.mechanism.sampling.redraw = true;
    banded.query.accountant.method = EPS_ACCOUNTANT_PLD;
    /* directions of which one falls long before the other, past 1e-15 */
    assert_true(compare(poisson) > 2);
    assert_true(compare(bins) > 2);
    assert_true(compare(redraw) > 0);
    assert_true(compare(banded) > 2);
    assert_true(compare(b_min_sep) > 2);
    assert_true(compare(groups) > 2);
    compare(none);
}

/* A direction that was not followed to the end stayed at what it was where it fell under 1e-15. */
TEST(a_direction_is_followed_to_the_end)
{
    struct eps_job job = new_job(EPS_SCHEME_POISSON, 1000, 1);
    job.mechanism.sampling.p = 0.01;
    job.query.delta = 1e-5;
    struct eps_curve_point *points;
    size_t len;
    eps_job_defaults(&job);
    assert_int_equal(eps_privacy_curve(NULL, &points, &len, NULL, &job, 1), EPS_OK);
    assert_true(points[len - 1].remove > 1e-16 && points[len - 1].add < 1e-60);
    free(points);
}
