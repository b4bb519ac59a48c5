/*
 * One computation, from a job to a result record. It provides the library with threads, caches, progress and
 * cancellation, runs eps_solve() and encodes the result; the privacy curve at the noise multiplier is a second call.
 * Used by the workers of the daemon, for drawings and by `epsilond solve`. Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_JOBS_COMPUTE_H
#define SERVER_JOBS_COMPUTE_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/cells/question.h"
#include "server/ops/ledger.h"
#include "server/server.h"
#include "server/store/store.h"
#include "server/work/watchdog.h"
#include "server/work/work.h"

struct portions;

struct computation {
    /* Set by computation_open(). */
    const struct server *server;
    struct work *work;            /* NULL: no other thread shares this computation */
    const char *realm;            /* of the caches (realm.h); borrowed; "" at first: that of all */
    struct account *account;      /* of the key that pays for its time, when it is closed; NULL at first: nobody */
    _Atomic double deadline;      /* monotonic seconds; INFINITY: none */
    bool (*canceled)(void *user); /* also called on the watchdog thread; or NULL */
    void (*offer)(void *user);    /* called from time to time; may lend its place to other tasks; or NULL */
    /* For the log of the watchdog: the job of the computation, and the id of the request that submitted it. And a
     * callback on the watchdog thread for a computation that does not stop, after its work has been canceled. Or
     * NULL. */
    const char *job;
    const char *request;
    void (*stuck)(void *user);
    /* Or NULL. If the library does not know the remaining time, it is extrapolated; NAN while there is no basis for
     * that. */
    void (*progress)(void *user, double fraction, const char *stage, double remaining_seconds);
    void *user;
    /* Instead of waiting for a factorisation that another thread computes, the computation may end as canceled if it
     * has just started; it is run again when the other has ended. */
    bool may_put_off;
    bool remote;               /* workers compute it, through the broker */
    struct portions *portions; /* workers make its draws, if it announces them; or NULL */
    /* Out. */
    enum eps_status status;
    struct eps_error error;       /* set unless status is EPS_OK */
    bool left;                    /* canceled, because there is no worker: to be computed here */
    bool crashed;                 /* the error is that the process of the computation ended */
    struct result_record *result; /* EPS_OK: owned by the caller */
    uint8_t (*uses)[32];          /* keys of the factorisations that were used */
    size_t uses_len;
    atomic_bool put_off; /* it was put off, for the factorisation with this key */
    uint8_t awaited[32];
    /* Private. */
    struct watch watch;
    const char *hash; /* of the current job; or NULL */
    pthread_mutex_t mutex;
    struct computation_count {
        const struct computation *outer;
        double started;
    } count;                /* of this thread, from its opening to its closing */
    double started;         /* monotonic seconds */
    double compute_seconds; /* of the other threads */
};

/*
 * Prepares a computation with the parts of the server (its config and pool, and its store; NULL: no caches), for at
 * most `seconds` (0: no limit). It is canceled when its work is; without work (NULL), by the fields that the caller
 * sets.
 */
void computation_open(struct computation *computation, const struct server *server, struct work *work, double seconds);
/* On the thread that opened it. Ends the parts for which others wait, and frees `uses` unless it was taken. */
void computation_close(struct computation *computation);

/* Computes the result. A curve that the job asked for, or the reason why there is none, is part of the record;
 * otherwise see computation_curve(). hash: of the job; must remain valid until computation_close(). */
void computation_run(struct computation *computation, const struct api_job *job, const char *hash);
/* For threads that work for a computation: they have spent so much CPU time; a blob is to be kept. */
void computation_spent(struct computation *computation, double seconds);
void computation_keep(struct computation *computation, enum eps_cache_kind kind, const uint8_t key[32],
                      const void *blob, size_t blob_len);
/* A copy of the result with its curve, or with the reason why there is none. NULL: canceled, or out of memory. Does not
 * require computation_run(). */
struct result_record *computation_curve(struct computation *computation, const struct api_job *job,
                                        const struct result_record *result);

/* Answers another question on behalf of a job: where the service computes, in a cell or in this process. The caller
 * frees the answer by answer_clear(). */
void computation_ask(struct computation *computation, const struct question *question, struct answer *answer);

/* The context with the callbacks of `computation`, for other calls of the library on behalf of a job. From now on the
 * watchdog expects them to be called, so fields must be set before, after computation_open(). */
struct eps_context computation_context(struct computation *computation);

/* The strategy of a result: that of its factorization.id if the store still has it, otherwise that of the mechanism.
 * Returns like eps_strategy_create(). */
enum eps_status computation_strategy(const struct eps_context *context, struct eps_strategy **strategy,
                                     struct eps_error *error, const struct eps_mechanism *mechanism, const char *id);

/* A context for eps_job_serves(): the limits, and read access to the stored factorisations of a realm (store NULL:
 * none). Nothing is written and no use is recorded. It borrows the struct. */
struct checks {
    const struct config *config;
    struct store *store;
    const char *realm;
};
struct eps_context computation_checks(struct checks *checks);

#endif
