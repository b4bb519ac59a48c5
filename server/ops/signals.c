/*
 * Blocked signals, taken by sigwait().
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/signals.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

static void signals_set(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
}

void signals_start(void)
{
    sigset_t set;
    signals_set(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int signals_wait(void)
{
    sigset_t set;
    int number = 0;
    signals_set(&set);
    while (sigwait(&set, &number) != 0) {}
    return number;
}

bool signals_pending(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}
