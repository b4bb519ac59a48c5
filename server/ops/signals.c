/*
 * Signals are blocked and received with sigtimedwait().
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "server/ops/clock.h"
#include "server/ops/log.h"

static bool hangups;           /* whether SIGHUP is handled here; set before threads start, like the next variable */
static bool terminal;          /* SIGHUP then means that the terminal is gone */
static atomic_int first_taken; /* the number of the first signal that requested a stop */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER;

static struct {
    double seconds;
    int (*overdue)(void *user);
    void *user;
} watch;

static struct {
    pthread_mutex_t mutex;
    void (*call)(void *user);
    void *user;
} reload = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void signals_on_reload(void (*call)(void *user), void *user)
{
    pthread_mutex_lock(&reload.mutex);
    reload.call = call;
    reload.user = user;
    pthread_mutex_unlock(&reload.mutex);
}

static void hang_up(void)
{
    pthread_mutex_lock(&reload.mutex);
    if (reload.call)
        reload.call(reload.user);
    else
        log_event(LOG_LEVEL_WARN, "hangup", "detail=\"nothing to reload; restart to change an option\"");
    pthread_mutex_unlock(&reload.mutex);
}

static void signals_set(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    if (hangups)
        sigaddset(set, SIGHUP);
}

void signals_start(void)
{
    sigset_t set;
    struct sigaction present;
    hangups = sigaction(SIGHUP, NULL, &present) == 0 && present.sa_handler != SIG_IGN;
    int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC); /* possible while the process has a terminal */
    terminal = fd >= 0;
    if (fd >= 0)
        close(fd);
    signals_set(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

/* The next signal that requests a stop, or 0 at the deadline (monotonic seconds; 0: none). */
static int take_stop(double deadline)
{
    sigset_t set;
    signals_set(&set);
    for (;;) {
        double left = deadline > 0 ? deadline - clock_monotonic() : 0;
        if (deadline > 0 && left <= 0)
            return 0;
        struct timespec time = clock_timespec(left);
        int number = sigtimedwait(&set, NULL, deadline > 0 ? &time : NULL);
        if (number == SIGHUP && !terminal)
            hang_up();
        else if (number > 0)
            return number;
    }
}

static void *watch_main(void *unused)
{
    (void)unused;
    int number = take_stop(0);
    double deadline = clock_monotonic() + watch.seconds;
    pthread_mutex_lock(&mutex);
    atomic_store(&first_taken, number);
    pthread_cond_broadcast(&asked);
    pthread_mutex_unlock(&mutex);
    take_stop(deadline);
    _exit(watch.overdue(watch.user));
}

bool signals_watch(double seconds, int (*overdue)(void *user), void *user)
{
    pthread_t thread;
    watch.seconds = seconds;
    watch.overdue = overdue;
    watch.user = user;
    return pthread_create(&thread, NULL, watch_main, NULL) == 0 && pthread_detach(thread) == 0;
}

int signals_wait(void)
{
    pthread_mutex_lock(&mutex);
    while (!atomic_load(&first_taken))
        pthread_cond_wait(&asked, &mutex);
    pthread_mutex_unlock(&mutex);
    return atomic_load(&first_taken);
}

bool signals_asked(void)
{
    return atomic_load_explicit(&first_taken, memory_order_relaxed) != 0;
}
