/*
 * One computation: a job in, a result record out. Lends the library what it may use (threads, caches, progress,
 * cancellation), runs eps_solve() and encodes the answer; the privacy curve at its noise multiplier is a second call.
 * Used by the daemon's workers, for drawings and by `epsilond solve`. Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_JOBS_COMPUTE_H
#define SERVER_JOBS_COMPUTE_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/server.h"
#include "server/store/store.h"
#include "server/work/watchdog.h"
#include "server/work/work.h"

struct computation {
    /* Set by computation_open(). */
    const struct server *server;
    struct work *work;            /* NULL: no one computes beside this one */
    _Atomic double deadline;      /* monotonic seconds; INFINITY: none */
    bool (*canceled)(void *user); /* also on the watchdog's thread; or NULL */
    void (*offer)(void *user);    /* it goes on, but may lend its place to others for a while; or NULL */
    /* What the watchdog's log calls it; and what becomes of who waits for it if it does not end, on the watchdog's thread: its work is
     * canceled already. Or NULL. */
    const char *job;
    void (*stuck)(void *user);
    /* Or NULL. What remains is extrapolated where the library does not know; NAN before there is anything to go by. */
    void (*progress)(void *user, double fraction, const char *stage, double remaining_seconds);
    void *user;
    /* It may end, as canceled, where it would only wait for a factorisation that another computes: it has just begun, and
     * is run again when that has ended. */
    bool may_put_off;
    /* Out. */
    enum eps_status status;
    struct eps_error error;       /* where status is not EPS_OK */
    struct result_record *result; /* EPS_OK: the caller's */
    uint8_t (*uses)[32];          /* keys of the factorisations used */
    size_t uses_len;
    atomic_bool put_off; /* it has, for the factorisation of this key */
    uint8_t awaited[32];
    /* Private. */
    struct watch watch;
    const char *hash; /* of the job that is run; or NULL */
    pthread_mutex_t mutex;
    double started;         /* monotonic seconds */
    double compute_seconds; /* of all threads */
};

/*
 * Lends a computation the parts of the server (its config and pool; its store: NULL for no caches), for so many seconds (0:
 * without end). It is canceled when the work is; without work (NULL) by what the caller sets.
 */
void computation_open(struct computation *computation, const struct server *server, struct work *work, double seconds);
/* On the thread that asked for the context. Ends the parts that others wait for, and frees `uses` unless they were taken. */
void computation_close(struct computation *computation);

/* The answer. What the job itself has of a curve, or why it has none, is in the record; else computation_curve(). hash: of
 * the job, borrowed until computation_close(). */
void computation_run(struct computation *computation, const struct eps_job *job, const char *hash);
/* A copy of the result with its curve, or with the reason why there is none; NULL: canceled, or no memory. Needs
 * no earlier computation_run(). */
struct result_record *computation_curve(struct computation *computation, const struct eps_job *job,
                                        const struct result_record *result);

/* The context that lends `computation`'s hooks; for other calls into the library on behalf of a job. From here on the watchdog
 * expects them to be called: what is set after computation_open() is set before. */
struct eps_context computation_context(struct computation *computation);

/* The strategy of a result: that of its factorization.id where the store still has it, and that of the mechanism where the id is
 * no longer known. As eps_strategy_create(). */
enum eps_status computation_strategy(const struct eps_context *context, struct eps_strategy **strategy,
                                     struct eps_error *error, const struct eps_mechanism *mechanism, const char *id);

/* For eps_job_serves(): the limits, and what the store has of factorisations (store NULL: none). Nothing is written
 * and no use is noted. */
struct eps_context computation_checks(const struct config *config, struct store *store);

#endif
