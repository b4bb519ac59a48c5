/*
 * Bracketing roots, and GSL's error handler, which belongs to the process: the first call installs it, so each case
 * runs in a process of its own.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <gsl/gsl_errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/numerics/root.h"
#include "tests/unit/test.h"

static double falling(double x, void *user)
{
    (void)user;
    return 2 - x * x;
}

/* GSL calls its error handler for an end that is no number. */
static double nowhere(double x, void *user)
{
    (void)x, (void)user;
    return NAN;
}

/* 0 if the body returns true in a process of its own; otherwise what ended that process. */
static int in_a_process(bool (*body)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(body() ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static bool fails_politely(void)
{
    double low = 0, high = 3;
    return eps__bisect(nowhere, NULL, &low, &high, 1e-3, 0) == -1;
}

TEST(gsl_does_not_abort_for_a_caller_who_never_heard_of_it)
{
    assert_int_equal(in_a_process(fails_politely), 0);
}

static atomic_int heard;

static void hear(const char *reason, const char *file, int line, int number)
{
    (void)reason, (void)file, (void)line, (void)number;
    heard++;
}

static bool keeps_the_callers(void)
{
    gsl_set_error_handler(hear);
    bool good = fails_politely() && heard == 1 && fails_politely() && heard == 2;
    return good && gsl_set_error_handler(NULL) == hear;
}

/* A handler that is installed after the first call stays, too. */
static bool keeps_a_late_one(void)
{
    return fails_politely() && gsl_set_error_handler(hear) != hear && fails_politely() && heard == 1 &&
           gsl_set_error_handler(NULL) == hear;
}

TEST(a_handler_of_the_callers_stays)
{
    assert_int_equal(in_a_process(keeps_the_callers), 0);
    assert_int_equal(in_a_process(keeps_a_late_one), 0);
}

enum { THREADS = 8 };

static pthread_barrier_t together;

static void *call_first(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&together);
    return fails_politely() ? &together : NULL;
}

static bool many_are_first(void)
{
    pthread_t threads[THREADS];
    bool good = pthread_barrier_init(&together, NULL, THREADS) == 0;
    for (int i = 0; i < THREADS; i++)
        good = pthread_create(&threads[i], NULL, call_first, NULL) == 0 && good;
    for (int i = 0; i < THREADS; i++) {
        void *result = NULL;
        good = pthread_join(threads[i], &result) == 0 && result == &together && good;
    }
    return good;
}

TEST(threads_may_call_first_together)
{
    for (int i = 0; i < 20; i++)
        assert_int_equal(in_a_process(many_are_first), 0);
}

/* The last test, because the others need a process that has not searched for a root yet. */
TEST(the_ends_keep_their_signs)
{
    for (double tolerance = 1e-1; tolerance > 1e-18; tolerance /= 10) {
        double low = 0, high = 3;
        assert_int_equal(eps__bisect(falling, NULL, &low, &high, tolerance, 0), 0);
        assert_true(falling(low, NULL) > 0 && falling(high, NULL) <= 0);
        assert_true(high - low <= fmax(tolerance * high, nextafter(low, INFINITY) - low));
    }
}
