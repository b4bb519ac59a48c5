/*
 * See threads.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/unit/threads.h"

#include <pthread.h>

#include "tests/unit/test.h"

struct half {
    size_t first, count;
    void (*body)(void *arg, size_t index);
    void *arg;
};

static void *run_half(void *arg)
{
    struct half *half = arg;
    for (size_t i = half->first; i < half->count; i += 2)
        half->body(half->arg, i);
    return NULL;
}

void two_threads(void *user, size_t count, void (*body)(void *arg, size_t index), void *arg)
{
    (void)user;
    pthread_t other;
    struct half mine = {0, count, body, arg}, theirs = {1, count, body, arg};
    assert_int_equal(pthread_create(&other, NULL, run_half, &theirs), 0);
    run_half(&mine);
    pthread_join(other, NULL);
}
