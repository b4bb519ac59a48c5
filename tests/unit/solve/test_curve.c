/*
 * The privacy curve of a mechanism compared with jobs: a point of a curve equals the answer of a job that asks for
 * delta at its epsilon, in both directions, up to the last point.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "lib/epsilon.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

#define TOLERANCE 1e-3 /* the default of jobs */
#define TWO_BANDS "'matrix':{'family':'square_root','bands':2}"

enum { EVERY = 20 };

/* A bound that is as good as the job's: neither may be off by more than its tolerance. Below the resolution of doubles
 * both have the least value. */
static void assert_as_good(const char *name, double epsilon, double curve, double job)
{
    if (!(curve <= job * (1 + 2 * TOLERANCE) && curve >= job * (1 - 2 * TOLERANCE)))
        fail_msg("%s at epsilon %.17g: the curve says %.17g, a job %.17g", name, epsilon, curve, job);
}

/* The number of points of the curve that are below 1e-17 in direction add. Every 20th point is compared with a job. */
static size_t compare(const char *members)
{
    struct eps_job job = job_of("{%s,'noise_multiplier':1,'curve':true}", members);
    size_t small = 0;
    struct eps_result *curve = solved(NULL, job);
    job.query.curve = false;
    assert_true(curve->curve_len == 201);
    for (size_t i = 0; i < curve->curve_len; i += EVERY) {
        const struct eps_curve_point *point = &curve->curve[i];
        job.query.epsilon = point->epsilon;
        struct eps_result *result = solved(NULL, job);
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
    /* one direction falls long before the other, past 1e-15 */
    assert_true(compare("'n':1000,'sampling':{'scheme':'poisson','p':0.01}") > 2);
    assert_true(compare("'n':100,'sampling':{'scheme':'balls_in_bins','bins':10}") > 2);
    assert_true(compare("'n':100,'sampling':{'scheme':'balls_in_bins','bins':20,'redraw':true}") > 0);
    assert_true(compare("'n':20," TWO_BANDS ",'sampling':{'scheme':'balls_in_bins','bins':10},'accountant':'pld'") > 2);
    assert_true(compare("'n':12," TWO_BANDS ",'sampling':{'scheme':'b_min_sep','p':0.01}") > 2);
    assert_true(compare("'n':100," TWO_BANDS ",'sampling':{'scheme':'cyclic_poisson','p':0.01}") > 2);
    compare("'n':10," TWO_BANDS ",'sampling':{'scheme':'none'}");
}

/* A direction that was not followed to the end kept its value once it fell below 1e-15. */
TEST(a_direction_is_followed_to_the_end)
{
    struct eps_job job =
        job_of("{'n':1000,'sampling':{'scheme':'poisson','p':0.01},'noise_multiplier':1,'delta':1e-5}");
    struct eps_curve_point *points;
    size_t len;
    assert_int_equal(eps_privacy_curve(NULL, &points, &len, NULL, &job, 1), EPS_OK);
    assert_true(points[len - 1].remove > 1e-16 && points[len - 1].add < 1e-60);
    free(points);
}
