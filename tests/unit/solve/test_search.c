/*
 * The search leaves an accountant out where others proved far less than its own approximation: never by default, and
 * never where it might be the best.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>

#include "lib/job/setting.h"
#include "lib/solve/search.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

static struct eps__answer search(const char *question, enum eps_accountant method, double best)
{
    struct eps_job job = job_of("{'n':16,'matrix':{'family':'square_root','bands':3},'sampling':{'scheme':"
                                "'balls_in_bins','bins':8},%s}",
                                question);
    struct eps__answer answer = {0};
    struct eps__setting setting;
    assert_int_equal(eps__setting_open(&setting, NULL, NULL, &job), EPS_OK);
    assert_int_equal(eps__search(&answer, NULL, &setting, eps__accountant_find(method), EPS_REMOVE, best), EPS_OK);
    eps__setting_close(&setting);
    return answer;
}

TEST(what_is_far_from_the_best_is_left_out)
{
    static const char *const questions[] = {"'epsilon':2,'delta':1e-5", "'noise_multiplier':2,'delta':1e-5",
                                            "'noise_multiplier':2,'epsilon':2"};
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        enum eps_accountant composed = EPS_ACCOUNTANT_CONDITIONAL_COMPOSITION;
        struct eps__answer alone = search(questions[i], composed, INFINITY);
        assert_true(!alone.left_out && isfinite(alone.value));
        struct eps__answer beside = search(questions[i], composed, alone.value);
        assert_true(!beside.left_out && beside.value == alone.value && beside.lower == alone.lower);
        assert_true(search(questions[i], composed, 0.5 * alone.value).left_out);
        /* renyi's approximations may be far above what it proves */
        assert_false(search(questions[i], EPS_ACCOUNTANT_RENYI, 1e-3 * alone.value).left_out);
    }
}
