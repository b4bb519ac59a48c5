/*
 * The thread of the link takes letters and hands questions to the pool. A worker takes no question before a server has
 * welcomed it, and the queue from which it takes them is named after its own build (places.h), so it never has a
 * question of a server that would refuse it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/broker/desk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/broker/errand.h"
#include "server/broker/places.h"
#include "server/cells/message.h"
#include "server/ops/clock.h"
#include "server/ops/log.h"

#define STATUS_SECONDS 2.0  /* between two statuses */
#define SERVERS_MOST 64     /* that are remembered */
#define SILENT_SECONDS 30.0 /* a server that was silent for this long is gone */
#define REFUSED_SECONDS 1.0 /* after a refusal, for another server to welcome it */
#define STOPPED_MOST 1024   /* questions that were stopped before they came */

struct known_server {
    char name[LETTER_NAME_SIZE];
    double heard;
    bool welcomes;
    bool refuses;
};

struct desk_process {
    struct desk desk; /* first */
    struct address address;
    struct places places;
    struct build build;
    struct pool *pool;
    void (*refused)(const char *why);
    struct map errands; /* under the mutex of the desk, like all that follows */
    struct known_server servers[SERVERS_MOST];
    struct letter_of stopped[STOPPED_MOST];
    size_t stopped_next;
    bool connected;
    bool told;      /* that the broker is gone, */
    char gone[256]; /* and why */
    bool gave_up;
    double refused_at; /* 0: never */
    char why[512];
    double status_at;
    uint64_t tickets;
    uint64_t computed;
    uint64_t failed;
    double seconds;
};

static struct desk_process *process_of(struct desk *desk)
{
    return (struct desk_process *)desk;
}

/* ---------------------------------------------------------------- servers */

bool desk__lives_locked(struct desk *desk, const char *name)
{
    const struct desk_process *process = process_of(desk);
    for (size_t i = 0; i < SERVERS_MOST; i++)
        if (strcmp(process->servers[i].name, name) == 0)
            return clock_monotonic() < process->servers[i].heard + SILENT_SECONDS;
    return false;
}

/* The entry of a server: its own, or that of the one that has been silent the longest. */
static struct known_server *server_locked(struct desk_process *process, const char *name)
{
    struct known_server *oldest = &process->servers[0];
    for (size_t i = 0; i < SERVERS_MOST; i++) {
        struct known_server *server = &process->servers[i];
        if (strcmp(server->name, name) == 0)
            return server;
        oldest = server->heard < oldest->heard ? server : oldest;
    }
    *oldest = (struct known_server){0};
    strcpy(oldest->name, name);
    return oldest;
}

static bool welcome_locked(const struct desk_process *process)
{
    for (size_t i = 0; i < SERVERS_MOST; i++)
        if (process->servers[i].welcomes && clock_monotonic() < process->servers[i].heard + SILENT_SECONDS)
            return true;
    return false;
}

/* ---------------------------------------------------------------- letters of ours */

static bool send_status(struct desk_process *process)
{
    struct packet packet = {0};
    struct letter_held held[LETTER_HELD_MOST];
    struct letter_status status = {.build = process->build,
                                   .threads = process->desk.config->workers,
                                   .max_bytes = process->desk.config->max_bytes,
                                   .leaving = atomic_load(&process->desk.leaving)};
    memcpy(status.name, process->desk.name, sizeof status.name);
    if (gethostname(status.host, sizeof status.host - 1) != 0)
        status.host[0] = '\0';
    pthread_mutex_lock(&process->desk.mutex);
    status.computed = process->computed;
    status.failed = process->failed;
    status.seconds = process->seconds;
    status.cached = memory_bytes(process->desk.blobs);
    for (size_t i = 0; i < process->errands.capacity; i++) {
        for (struct map_node *node = process->errands.buckets[i]; node; node = node->next) {
            const struct errand *errand = MAP_ENTRY(node, struct errand, node);
            if (errand->state == ERRAND_OVER || status.held_len == LETTER_HELD_MOST)
                continue;
            held[status.held_len].of = errand->letter.of;
            memcpy(held[status.held_len++].server, errand->letter.server, sizeof held[0].server);
        }
    }
    process->status_at = clock_monotonic();
    pthread_mutex_unlock(&process->desk.mutex);
    letter_status(&packet, &status, held);
    const struct session_message message = {
        .exchange = PLACES_LETTERS, .key = PLACES_SERVERS, .bytes = packet.bytes, .len = packet.len};
    bool sent = !packet.failed && link_send(process->desk.link, &message, 0);
    packet_clear(&packet);
    return sent;
}

/* Sends the last letter of an errand: its answer, or the question for another worker. */
static void send_last_locked(struct desk_process *process, struct errand *errand)
{
    char queue[64];
    bool back = errand->last.bytes[FRAME_HEAD - 1] == LETTER_QUESTION;
    places_answers(queue, errand->letter.server);
    const struct session_message message = {.exchange = back ? process->places.questions : "",
                                            .key = back ? errand->letter.server : queue,
                                            .bytes = errand->last.bytes,
                                            .len = errand->last.len,
                                            .lasting = true,
                                            .routed = back};
    errand->ticket = ++process->tickets;
    errand->sent = link_send(process->desk.link, &message, errand->ticket);
}

/* ---------------------------------------------------------------- errands */

static struct errand *find_locked(struct desk_process *process, const uint8_t id[32])
{
    char key[65];
    for (size_t i = 0; i < 32; i++)
        snprintf(key + 2 * i, 3, "%02x", id[i]);
    struct map_node *node = map_find(&process->errands, key);
    return node ? MAP_ENTRY(node, struct errand, node) : NULL;
}

static void drop(struct desk_process *process, struct errand *errand)
{
    link_ack(process->desk.link, errand->epoch, errand->tag);
    errand_destroy(errand);
}

static bool is_answered(const struct errand *errand)
{
    return errand->last.len && errand->last.bytes[FRAME_HEAD - 1] == LETTER_ANSWER;
}

/* For another worker, or for this one when it has memory again. */
static void give_back(struct desk_process *process, struct errand *errand)
{
    link_return(process->desk.link, errand->epoch, errand->tag);
    errand_destroy(errand);
}

/* Ends an errand that nobody uses any more. What is not answered and not stopped goes back to the broker. */
static void close_locked(struct desk_process *process, struct errand *errand)
{
    struct errand *again = errand->again;
    errand->again = NULL;
    map_remove(&process->errands, &errand->node);
    if (again && is_answered(errand))
        drop(process, again);
    else if (again && !atomic_load(&process->desk.leaving) && map_insert(&process->errands, &again->node, again->key))
        pool_submit(process->pool, &again->task);
    else if (again)
        give_back(process, again);
    if (errand->state == ERRAND_OVER && !atomic_load(&errand->stopped)) /* there was no memory for its letter */
        give_back(process, errand);
    else
        drop(process, errand);
    pthread_cond_broadcast(&process->desk.news);
}

/* On a thread of the pool: it has been computed. */
static void on_done(struct errand *errand)
{
    struct desk_process *process = process_of(errand->desk);
    pthread_mutex_lock(&process->desk.mutex);
    bool answered = is_answered(errand);
    process->computed += answered;
    process->failed += answered && errand->failed;
    process->seconds += clock_monotonic() - errand->started;
    errand->state = errand->last.len && !errand->last.failed ? ERRAND_ENDS : ERRAND_OVER;
    if (errand->state == ERRAND_ENDS)
        send_last_locked(process, errand);
    else
        close_locked(process, errand);
    pthread_mutex_unlock(&process->desk.mutex);
}

static bool was_stopped_locked(const struct desk_process *process, const struct letter_of *of)
{
    for (size_t i = 0; i < STOPPED_MOST; i++)
        if (process->stopped[i].nonce == of->nonce && memcmp(process->stopped[i].id, of->id, sizeof of->id) == 0)
            return true;
    return false;
}

/* Takes a question that is computed already: a delivery that is repeated because the connection was lost, or another
 * asking, which needs nothing unless the one before is stopped. */
static void take_again_locked(struct desk_process *process, struct errand *known, struct errand *errand)
{
    struct errand *same = known;
    while (same && same->letter.of.nonce != errand->letter.of.nonce)
        same = same->again;
    if (same && same->epoch != errand->epoch) {
        same->epoch = errand->epoch;
        same->tag = errand->tag;
        errand_destroy(errand);
    } else if (same) {
        drop(process, errand);
    } else {
        if (known->again)
            drop(process, known->again);
        known->again = errand;
    }
}

static void take_locked(struct desk_process *process, struct errand *errand)
{
    struct errand *known = find_locked(process, errand->letter.of.id);
    if (was_stopped_locked(process, &errand->letter.of))
        drop(process, errand);
    else if (known)
        take_again_locked(process, known, errand);
    else if (map_insert(&process->errands, &errand->node, errand->key))
        pool_submit(process->pool, &errand->task);
    else
        give_back(process, errand);
}

static void on_question(struct desk_process *process, const struct link_delivery *delivery)
{
    if (atomic_load(&process->desk.leaving)) /* it goes to another worker when this one disconnects */
        return;
    struct letter_question letter;
    struct unpack payload;
    uint8_t kind;
    if (!frame_whole(delivery->bytes, delivery->len, &kind, &payload) || !letter_read_question(&payload, &letter)) {
        log_event(LOG_LEVEL_ERROR, "question", "bytes=%zu detail=\"it makes no sense\"", delivery->len);
        link_ack(process->desk.link, delivery->epoch, delivery->tag);
        return;
    }
    struct errand *errand = errand_create(&process->desk, delivery->bytes, delivery->len);
    if (!errand) {
        log_event(LOG_LEVEL_ERROR, "question", "bytes=%zu detail=\"out of memory\"", delivery->len);
        link_return(process->desk.link, delivery->epoch, delivery->tag);
        return;
    }
    errand->done = on_done;
    errand->epoch = delivery->epoch;
    errand->tag = delivery->tag;
    pthread_mutex_lock(&process->desk.mutex);
    take_locked(process, errand);
    pthread_mutex_unlock(&process->desk.mutex);
}

/* ---------------------------------------------------------------- the hooks of the link */

static bool on_call(struct desk_process *process, const struct letter_call *call)
{
    char quoted[600];
    double now = clock_monotonic();
    pthread_mutex_lock(&process->desk.mutex);
    struct known_server *server = server_locked(process, call->server);
    server->heard = now;
    bool news =
        (call->verdict == LETTER_WELCOME && !server->welcomes) || (call->verdict == LETTER_REFUSED && !server->refuses);
    if (call->verdict != LETTER_WHO) {
        server->welcomes = call->verdict == LETTER_WELCOME;
        server->refuses = call->verdict == LETTER_REFUSED;
    }
    if (call->verdict == LETTER_REFUSED) {
        process->refused_at = process->refused_at > 0 ? process->refused_at : now;
        memcpy(process->why, call->why, sizeof process->why);
    }
    bool asked = call->verdict == LETTER_WHO && now > process->status_at + 0.2;
    bool welcome = welcome_locked(process);
    pthread_mutex_unlock(&process->desk.mutex);
    if (news)
        log_event(call->verdict == LETTER_WELCOME ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR, "server",
                  "server=%s state=%s detail=%s", call->server,
                  call->verdict == LETTER_WELCOME ? "welcomes" : "refuses",
                  log_quote(quoted, sizeof quoted, call->why));
    if (asked)
        (void)send_status(process);
    link_consume(process->desk.link, QUEUE_QUESTIONS, welcome && !atomic_load(&process->desk.leaving));
    return true;
}

static bool on_speech(struct desk_process *process, const struct letter_speech *speech)
{
    pthread_mutex_lock(&process->desk.mutex);
    struct errand *errand = find_locked(process, speech->of.id);
    bool sense = true;
    if (errand && errand->state == ERRAND_RUNS && strcmp(errand->letter.server, speech->from) == 0) {
        sense = errand_hear_locked(errand, speech);
    } else if (!errand && letter_frame_kind(&speech->frame) == MESSAGE_STOP) {
        process->stopped[process->stopped_next] = speech->of;
        process->stopped_next = (process->stopped_next + 1) % STOPPED_MOST;
    }
    pthread_mutex_unlock(&process->desk.mutex);
    return sense;
}

static bool on_letter(struct desk_process *process, uint8_t kind, struct unpack *payload)
{
    struct letter_call call;
    struct letter_speech speech;
    if (kind == LETTER_CALL && letter_read_call(payload, &call))
        return on_call(process, &call);
    return kind == LETTER_SPEECH && letter_read_speech(payload, &speech) && on_speech(process, &speech);
}

static void on_received(void *user, const struct link_delivery *delivery)
{
    struct desk_process *process = user;
    uint8_t kind = 0;
    struct unpack payload;
    if (delivery->queue == QUEUE_QUESTIONS) {
        on_question(process, delivery);
    } else if (delivery->len > LETTER_MOST || !frame_whole(delivery->bytes, delivery->len, &kind, &payload) ||
               !on_letter(process, kind, &payload)) {
        log_event(LOG_LEVEL_WARN, "broker", "detail=\"a message that makes no sense\" kind=%u bytes=%zu", kind,
                  delivery->len);
    }
}

/* Sends the last letters that have not gone out on this connection. */
static void send_unsent(struct desk_process *process, bool all)
{
    pthread_mutex_lock(&process->desk.mutex);
    for (size_t i = 0; i < process->errands.capacity; i++) {
        for (struct map_node *node = process->errands.buckets[i]; node; node = node->next) {
            struct errand *errand = MAP_ENTRY(node, struct errand, node);
            if (errand->state == ERRAND_ENDS && (all || !errand->sent))
                send_last_locked(process, errand);
        }
    }
    pthread_mutex_unlock(&process->desk.mutex);
}

static void on_up(void *user, bool fresh)
{
    struct desk_process *process = user;
    (void)fresh;
    pthread_mutex_lock(&process->desk.mutex);
    process->connected = true;
    process->told = false;
    pthread_mutex_unlock(&process->desk.mutex);
    log_event(LOG_LEVEL_INFO, "broker", "host=%s port=%d state=connected", process->address.host,
              process->address.port);
    (void)send_status(process);
    send_unsent(process, true);
}

static void on_down(void *user, const char *why)
{
    struct desk_process *process = user;
    char quoted[300];
    pthread_mutex_lock(&process->desk.mutex);
    bool tell = (!process->told || strcmp(process->gone, why) != 0) && !atomic_load(&process->desk.leaving);
    snprintf(process->gone, sizeof process->gone, "%s", why);
    process->connected = false;
    process->told = true;
    pthread_mutex_unlock(&process->desk.mutex);
    if (tell)
        log_event(LOG_LEVEL_ERROR, "broker", "host=%s port=%d state=gone detail=%s action=\"it is tried again\"",
                  process->address.host, process->address.port, log_quote(quoted, sizeof quoted, why));
}

static void on_settled(void *user, uint64_t ticket, bool stored)
{
    struct desk_process *process = user;
    struct errand *settled = NULL;
    pthread_mutex_lock(&process->desk.mutex);
    for (size_t i = 0; i < process->errands.capacity; i++) {
        for (struct map_node *node = process->errands.buckets[i]; node; node = node->next) {
            struct errand *errand = MAP_ENTRY(node, struct errand, node);
            if (errand->state == ERRAND_ENDS && errand->ticket == ticket)
                settled = errand;
        }
    }
    if (settled && stored)
        close_locked(process, settled);
    else if (settled)
        settled->sent = false; /* sent again at the next tick */
    pthread_mutex_unlock(&process->desk.mutex);
}

static void on_tick(void *user, bool connected)
{
    struct desk_process *process = user;
    double now = clock_monotonic();
    char why[sizeof process->why];
    pthread_mutex_lock(&process->desk.mutex);
    bool welcome = welcome_locked(process);
    bool give_up =
        !process->gave_up && process->refused_at > 0 && !welcome && now > process->refused_at + REFUSED_SECONDS;
    process->gave_up = process->gave_up || give_up;
    if (welcome)
        process->refused_at = 0;
    memcpy(why, process->why, sizeof why);
    bool due = connected && now >= process->status_at + STATUS_SECONDS;
    pthread_mutex_unlock(&process->desk.mutex);
    if (connected)
        send_unsent(process, false);
    if (due)
        (void)send_status(process);
    if (give_up)
        process->refused(why);
}

/* ---------------------------------------------------------------- creating and stopping */

static bool start(struct desk_process *process, char *message, size_t message_size)
{
    const struct config *config = process->desk.config;
    const struct link_needs needs = {process->places.exchanges, process->places.queues, process->places.queues_len};
    const struct link_hooks hooks = {on_up, on_down, on_received, on_settled, on_tick, process};
    if (!address_read(&process->address, config->broker, config->broker_ca, message, message_size))
        return false;
    process->pool = pool_create((size_t)config->workers, 0, METRIC_WORKERS_BUSY);
    process->desk.blobs = memory_create((size_t)config->memory_bytes, errand_blob_retain, errand_blob_release);
    snprintf(message, message_size, "out of memory or threads");
    if (!process->pool || !process->desk.blobs)
        return false;
    process->desk.cells = cells_create(config, process->pool, message, message_size);
    if (!process->desk.cells)
        return false;
    process->desk.link = link_create(&process->address, &needs, &hooks);
    snprintf(message, message_size, "out of memory or threads");
    return process->desk.link && link_start(process->desk.link);
}

struct desk_process *desk_create(const struct config *config, void (*refused)(const char *why), char *message,
                                 size_t message_size)
{
    struct desk_process *process = calloc(1, sizeof *process);
    if (!process) {
        snprintf(message, message_size, "out of memory");
        return NULL;
    }
    process->desk.config = config;
    process->refused = refused;
    pthread_mutex_init(&process->desk.mutex, NULL);
    clock_condition(&process->desk.news);
    letter_name(process->desk.name);
    build_own(&process->build);
    places_worker(&process->places, process->desk.name, &process->build, (unsigned)config->workers);
    if (start(process, message, message_size))
        return process;
    desk_destroy(process);
    return NULL;
}

/* Waits until all errands are over. */
static bool empty(struct desk_process *process, double deadline)
{
    struct timespec until = clock_timespec(deadline);
    pthread_mutex_lock(&process->desk.mutex);
    int code = 0;
    while (process->errands.len && process->connected && code == 0)
        code = pthread_cond_timedwait(&process->desk.news, &process->desk.mutex, &until);
    bool is = !process->errands.len;
    pthread_mutex_unlock(&process->desk.mutex);
    return is;
}

bool desk_stop(struct desk_process *process, double deadline)
{
    atomic_store(&process->desk.leaving, true);
    link_consume(process->desk.link, QUEUE_QUESTIONS, false);
    (void)send_status(process);
    bool all = empty(process, deadline);
    bool ended = pool_stop(process->pool, deadline) && link_stop(process->desk.link, deadline);
    if (!all)
        log_event(LOG_LEVEL_WARN, "stopped", "detail=\"what was not answered is delivered to another worker\"");
    return ended;
}

bool desk_destroy(struct desk_process *process)
{
    if (!process)
        return true;
    link_destroy(process->desk.link);
    bool well = cells_destroy(process->desk.cells);
    pool_destroy(process->pool);
    for (size_t i = 0; i < process->errands.capacity; i++) {
        while (process->errands.buckets[i]) {
            struct errand *errand = MAP_ENTRY(process->errands.buckets[i], struct errand, node);
            map_remove(&process->errands, &errand->node);
            errand_destroy(errand);
        }
    }
    map_clear(&process->errands);
    if (process->desk.blobs)
        memory_destroy(process->desk.blobs);
    address_clear(&process->address);
    pthread_cond_destroy(&process->desk.news);
    pthread_mutex_destroy(&process->desk.mutex);
    free(process);
    return well;
}
