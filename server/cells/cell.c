/*
 * The main thread reads a question, computes, and writes the answer. While it computes, no thread waits for messages:
 * hooks that the library polls look for one now and then, and a lookup waits for what is found. One thread at a time
 * reads (`reading`) and one writes (`writing`), so frames stay whole. The pool of threads starts with the first loop
 * that has more than one index.
 *
 * A message that makes no sense, or the end of the connection, ends the process: the answer would reach nobody.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/cells/cell.h"

#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server/cells/confine.h"
#include "server/cells/message.h"
#include "server/work/pool.h"

#define LOOK_SECONDS 0.002 /* between two looks for a message while computing */
#define TRIM_SECONDS 0.5   /* free memory is given back to the system after this much computing */

/* The process; one of each. */
struct cell_process {
    pthread_mutex_t reading;
    pthread_mutex_t writing;
    struct intake intake; /* under `reading` */
    struct packet packet; /* under `writing` */
    _Atomic double looked;
    _Atomic int stop; /* enum stop */
    _Atomic size_t threads;
    size_t threads_most;
    pthread_mutex_t pooling;
    struct pool *pool; /* NULL: not yet */
    double since_trim; /* seconds of computations since free memory was given back */
};

enum { EXIT_ENDED = 0, EXIT_BAD = 3 };

/* Other threads may still compute, so nothing is freed. */
static _Noreturn void leave(int status)
{
    _exit(status);
}

/* ---------------------------------------------------------------- sending and receiving */

/* Sends the frame that was written. */
static void send_locked(struct cell_process *cell)
{
    const struct packet *packet = &cell->packet;
    for (size_t sent = 0; !packet->failed && sent < packet->len;) {
        ssize_t len = send(CELL_FD, packet->bytes + sent, packet->len - sent, MSG_NOSIGNAL);
        if (len < 0 && errno != EINTR)
            leave(EXIT_ENDED);
        sent += len > 0 ? (size_t)len : 0;
    }
}

/* Receives what has arrived; waits: until something has. */
static void receive_locked(struct cell_process *cell, bool waits)
{
    size_t room = 0;
    uint8_t *at = intake_room(&cell->intake, &room);
    ssize_t len = at ? recv(CELL_FD, at, room, waits ? 0 : MSG_DONTWAIT) : -1;
    if (!at)
        leave(EXIT_BAD);
    if (len == 0 || (len < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK))
        leave(EXIT_ENDED);
    intake_filled(&cell->intake, len > 0 ? (size_t)len : 0);
}

/* The next frame; waits: for it. Returns false if there is none yet. */
static bool next_locked(struct cell_process *cell, bool waits, uint8_t *kind, struct unpack *payload)
{
    for (bool received = false;; received = true) {
        enum intake_next next = intake_take(&cell->intake, kind, payload);
        if (next == INTAKE_MALFORMED)
            leave(EXIT_BAD);
        if (next == INTAKE_FRAME)
            return true;
        if (received && !waits)
            return false;
        receive_locked(cell, waits);
    }
}

static void set_threads(struct cell_process *cell, size_t threads)
{
    size_t most = threads < cell->threads_most ? threads : cell->threads_most;
    atomic_store(&cell->threads, most);
    pthread_mutex_lock(&cell->pooling);
    if (cell->pool)
        pool_help_at_most(cell->pool, most - 1);
    pthread_mutex_unlock(&cell->pooling);
}

/* Obeys a message that may arrive at any time. Returns false if it is another one. */
static bool obey(struct cell_process *cell, uint8_t kind, struct unpack *payload)
{
    size_t threads = 0;
    enum stop stop = STOP_NONE;
    if (kind == MESSAGE_THREADS && message_read_threads(payload, &threads)) {
        set_threads(cell, threads);
        return true;
    }
    if (kind == MESSAGE_STOP && message_read_stop(payload, &stop)) {
        atomic_store(&cell->stop, (int)stop);
        return true;
    }
    return false;
}

/* Looks for messages, unless somebody does or did just now. */
static void look(struct cell_process *cell)
{
    uint8_t kind;
    struct unpack payload;
    double now = clock_monotonic();
    if (now < atomic_load_explicit(&cell->looked, memory_order_relaxed) + LOOK_SECONDS ||
        pthread_mutex_trylock(&cell->reading) != 0)
        return;
    atomic_store_explicit(&cell->looked, now, memory_order_relaxed);
    while (next_locked(cell, false, &kind, &payload))
        if (!obey(cell, kind, &payload))
            leave(EXIT_BAD);
    pthread_mutex_unlock(&cell->reading);
}

/* ---------------------------------------------------------------- the hooks of a computation */

static bool on_stop(struct cell_process *cell, enum stop stop)
{
    look(cell);
    return atomic_load_explicit(&cell->stop, memory_order_relaxed) == (int)stop;
}

static bool on_canceled(void *user)
{
    return on_stop(user, STOP_CANCELED);
}

static bool on_expired(void *user)
{
    return on_stop(user, STOP_EXPIRED);
}

static void on_progress(void *user, double fraction, const char *stage, double remaining_seconds)
{
    struct cell_process *cell = user;
    fraction = fmin(fmax(fraction, 0), 1);
    remaining_seconds = remaining_seconds < 0 ? 0 : remaining_seconds;
    pthread_mutex_lock(&cell->writing);
    message_progress(&cell->packet, fraction, stage, remaining_seconds);
    send_locked(cell);
    pthread_mutex_unlock(&cell->writing);
}

/* The pool, created at the first use; NULL: there are no threads for it. */
static struct pool *pool_of(struct cell_process *cell)
{
    pthread_mutex_lock(&cell->pooling);
    if (!cell->pool && cell->threads_most > 1) {
        cell->pool = pool_create(cell->threads_most - 1, 0, METRIC_COUNT);
        if (cell->pool)
            pool_help_at_most(cell->pool, atomic_load(&cell->threads) - 1);
    }
    struct pool *pool = cell->pool;
    pthread_mutex_unlock(&cell->pooling);
    return pool;
}

static void on_parallel_for(void *user, size_t count, void (*body)(void *arg, size_t index), void *arg)
{
    struct cell_process *cell = user;
    struct pool *pool = count > 1 ? pool_of(cell) : NULL;
    if (pool)
        pool_parallel_for(pool, count, body, arg);
    for (size_t i = 0; !pool && i < count; i++)
        body(arg, i);
}

static bool on_cache_get(void *user, enum eps_cache_kind kind, const uint8_t key[32], void **blob, size_t *blob_len)
{
    struct cell_process *cell = user;
    uint8_t told;
    struct unpack payload;
    bool found = false;
    pthread_mutex_lock(&cell->reading); /* first, so that nobody else receives what is found */
    pthread_mutex_lock(&cell->writing);
    message_lookup(&cell->packet, kind, key);
    send_locked(cell);
    pthread_mutex_unlock(&cell->writing);
    do {
        (void)next_locked(cell, true, &told, &payload);
    } while (obey(cell, told, &payload));
    if (told != MESSAGE_FOUND || !message_read_found(&payload, &found, blob, blob_len))
        leave(EXIT_BAD);
    pthread_mutex_unlock(&cell->reading);
    return found;
}

static void on_cache_put(void *user, enum eps_cache_kind kind, const uint8_t key[32], const void *blob, size_t blob_len)
{
    struct cell_process *cell = user;
    struct message_blob kept = {.kind = kind, .bytes = blob, .len = blob_len};
    memcpy(kept.key, key, sizeof kept.key);
    pthread_mutex_lock(&cell->writing);
    message_keep(&cell->packet, &kept);
    send_locked(cell); /* one that is too large is not sent, as the cache would not keep it */
    pthread_mutex_unlock(&cell->writing);
}

static void on_ahead(void *user, const struct eps_portion *portion)
{
    struct cell_process *cell = user;
    pthread_mutex_lock(&cell->writing);
    message_ahead(&cell->packet, portion);
    send_locked(cell);
    pthread_mutex_unlock(&cell->writing);
}

/* ---------------------------------------------------------------- questions */

/* CPU seconds of all threads. */
static double seconds(void *unused)
{
    struct timespec time;
    (void)unused;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void compute(struct cell_process *cell, const struct lent *lent, struct answer *answer)
{
    const struct eps_context context = {
        .user = cell,
        .progress = lent->hooks & HOOK_PROGRESS ? on_progress : NULL,
        .canceled = lent->hooks & HOOK_CANCELED ? on_canceled : NULL,
        .expired = lent->hooks & HOOK_EXPIRED ? on_expired : NULL,
        .parallel_for = lent->hooks & HOOK_PARALLEL ? on_parallel_for : NULL,
        .cache_get = lent->hooks & HOOK_GET ? on_cache_get : NULL,
        .cache_put = lent->hooks & HOOK_PUT ? on_cache_put : NULL,
        .ahead = lent->hooks & HOOK_AHEAD ? on_ahead : NULL,
        .max_operations = lent->max_operations,
        .max_bytes = lent->max_bytes,
    };
    atomic_store(&cell->stop, STOP_NONE);
    set_threads(cell, lent->threads ? lent->threads : 1);
    question_answer(&lent->question, &context, seconds, NULL, answer);
}

static void send_answer(struct cell_process *cell, const struct question *question, struct answer *answer)
{
    pthread_mutex_lock(&cell->writing);
    message_answer(&cell->packet, question, answer);
    if (cell->packet.failed) {
        double used = answer->compute_seconds;
        answer_clear(answer);
        answer_fail(answer, EPS_NO_MEMORY, "out of memory while encoding the answer");
        answer->compute_seconds = used;
        message_answer(&cell->packet, question, answer);
    }
    if (cell->packet.failed)
        leave(EXIT_BAD);
    send_locked(cell);
    pthread_mutex_unlock(&cell->writing);
}

static void answer_one(struct cell_process *cell, struct unpack *payload)
{
    struct lent lent;
    struct answer answer;
    struct api_job *job;
    double before = seconds(NULL);
    if (!message_read_question(payload, &lent, &job, &answer))
        leave(EXIT_BAD);
    if (job)
        compute(cell, &lent, &answer);
    send_answer(cell, &lent.question, &answer);
    answer_clear(&answer);
    api_job_destroy(job);
    cell->since_trim += seconds(NULL) - before;
    if (cell->since_trim > TRIM_SECONDS) {
        malloc_trim(0);
        cell->since_trim = 0;
    }
}

/* Whether there is another question; false: the other side has ended. Messages that came too late are for the last
 * one. */
static bool next_question(struct cell_process *cell, struct unpack *payload)
{
    uint8_t kind;
    char byte;
    for (;;) {
        if (cell->intake.len == cell->intake.taken && recv(CELL_FD, &byte, 1, MSG_PEEK) == 0)
            return false;
        pthread_mutex_lock(&cell->reading);
        (void)next_locked(cell, true, &kind, payload);
        pthread_mutex_unlock(&cell->reading);
        if (kind == MESSAGE_QUESTION)
            return true;
        if (kind != MESSAGE_THREADS && kind != MESSAGE_STOP)
            leave(EXIT_BAD);
    }
}

const char *cell_kind_name(enum cell_kind kind)
{
    static const char *const names[CELL_KINDS] = {
        [CELL_USUAL] = "usual", [CELL_PROMPT] = "prompt", [CELL_PATIENT] = "patient"};
    return names[kind];
}

/* CELL_KINDS: there is none. */
static enum cell_kind kind_named(const char *name)
{
    enum cell_kind kind = CELL_USUAL;
    while (kind < CELL_KINDS && strcmp(cell_kind_name(kind), name) != 0)
        kind++;
    return kind;
}

/* The policy is inherited by threads that start later. */
static void be_patient(void)
{
    const struct sched_param none = {0};
    (void)sched_setscheduler(0, SCHED_IDLE, &none);
}

/* Solves a small job, so that the first question finds the program in memory, the heap and plans of FFTW made: it would
 * take 6 ms longer. */
static void rehearse(struct cell_process *cell)
{
    static const char text[] = "{\"n\":200,\"sampling\":{\"scheme\":\"poisson\",\"p\":0.01},\"noise_multiplier\":1,"
                               "\"delta\":1e-6}";
    struct api_errors errors = {0};
    char message[256];
    json_t *json = api_json_parse(text, sizeof text - 1, message, sizeof message);
    struct api_job *job = json ? api_job_decode(&errors, json, 1000) : NULL;
    if (job) {
        const struct lent lent = {.question = {.kind = QUESTION_SOLVE, .job = job}, .threads = 1};
        struct answer answer = {0};
        compute(cell, &lent, &answer);
        answer_clear(&answer);
    }
    api_job_destroy(job);
    api_errors_clear(&errors);
    json_decref(json);
}

/* Confines the process, and says how. */
static void say_hello(struct cell_process *cell, uint64_t address_space)
{
    struct hello hello = {.accounting = EPS_ACCOUNTING_VERSION};
    snprintf(hello.version, sizeof hello.version, "%s", EPS_VERSION);
    hello.confined = confine(address_space, hello.why, sizeof hello.why);
    message_hello(&cell->packet, &hello);
    send_locked(cell);
}

int command_cell(int argc, char **argv)
{
    static struct cell_process cell = {.reading = PTHREAD_MUTEX_INITIALIZER,
                                       .writing = PTHREAD_MUTEX_INITIALIZER,
                                       .pooling = PTHREAD_MUTEX_INITIALIZER};
    int type = 0;
    socklen_t type_size = sizeof type;
    unsigned long threads = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
    enum cell_kind kind = argc == 4 ? kind_named(argv[3]) : CELL_KINDS;
    if (!threads || kind == CELL_KINDS || getsockopt(CELL_FD, SOL_SOCKET, SO_TYPE, &type, &type_size) != 0) {
        fprintf(stderr, "epsilond: the command " CELL_COMMAND " is for processes that serve starts\n");
        return 2;
    }
    cell.threads_most = threads;
    atomic_init(&cell.threads, 1);
    if (kind == CELL_PATIENT)
        be_patient();
    rehearse(&cell);
    say_hello(&cell, strtoull(argv[1], NULL, 10));
    struct unpack payload;
    while (next_question(&cell, &payload))
        answer_one(&cell, &payload);
    pool_destroy(cell.pool);
    intake_clear(&cell.intake);
    packet_clear(&cell.packet);
    return 0;
}
