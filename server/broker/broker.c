/*
 * The thread that asks a question waits for what arrives for it, and does what it asks for by the hooks of the context,
 * as cells/ask.c does. The thread of the link hands out what arrives.
 *
 * After a start, questions are not sent for SETTLE_SECONDS: workers that have questions of an earlier process of this
 * server say so meanwhile, and these are not asked twice.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/broker/broker.h"

#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/broker/asked.h"
#include "server/broker/link.h"
#include "server/broker/places.h"
#include "server/cells/ask.h"
#include "server/cells/message.h"
#include "server/ops/clock.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"

#define SETTLE_SECONDS 1.0   /* after the first connection */
#define CALL_SECONDS 4.0     /* between two calls by which workers know that the server lives */
#define TICK_SECONDS 0.05    /* between two calls of canceled() */
#define FALLBACK_SECONDS 5.0 /* without a broker, or without a worker, until questions are computed here */

struct broker {
    const struct config *config;
    struct address address;
    struct places places;
    struct roll_demand demand;
    struct link *link;
    pthread_mutex_t mutex;
    struct asked_table table;
    struct roll roll;
    bool connected;
    bool stopping;
    bool told;      /* that the broker is gone */
    char why[256];  /* it is not connected */
    double settled; /* when questions may be sent; 0: not connected yet */
    double since;   /* when it was connected */
    double able;    /* when there were a broker and a worker for the last time */
    double called;  /* see CALL_SECONDS */
};

/* A question, on the stack of the thread that asks. */
struct waiting {
    struct asked asked; /* first */
    pthread_cond_t news;
    struct broker *broker;
    const struct broker_question *what;
    const struct eps_context *context;
    struct answer *answer;
    struct packet letter; /* the question */
    bool began;
    bool done;
};

/* ---------------------------------------------------------------- sending */

static bool send_letter(struct broker *broker, const char *key, const struct packet *packet)
{
    const struct session_message message = {
        .exchange = PLACES_LETTERS, .key = key, .bytes = packet->bytes, .len = packet->len};
    return !packet->failed && packet->len <= LETTER_MOST && link_send(broker->link, &message, 0);
}

static void call(struct broker *broker, const char *key, enum letter_verdict verdict, const char *why)
{
    struct packet packet = {0};
    struct letter_call call = {.verdict = verdict};
    memcpy(call.server, broker->places.name, sizeof call.server);
    snprintf(call.why, sizeof call.why, "%s", why);
    letter_call(&packet, &call);
    (void)send_letter(broker, key, &packet);
    packet_clear(&packet);
}

/* Says something about a question; frame: complete. */
static void speak(struct broker *broker, const char *key, const struct letter_of *of, uint64_t number,
                  const struct packet *frame)
{
    struct packet packet = {0};
    struct letter_speech speech = {.of = *of, .number = number, .frame = {frame->bytes, frame->len}};
    memcpy(speech.from, broker->places.name, sizeof speech.from);
    letter_speech(&packet, &speech);
    if (!frame->failed)
        (void)send_letter(broker, key, &packet);
    packet_clear(&packet);
}

static void stop(struct broker *broker, const char *key, const struct letter_of *of)
{
    struct packet frame = {0};
    message_stop(&frame, STOP_CANCELED);
    speak(broker, key, of, 0, &frame);
    packet_clear(&frame);
}

/* ---------------------------------------------------------------- the hooks of the link */

static void on_up(void *user, bool fresh)
{
    struct broker *broker = user;
    double now = clock_monotonic();
    pthread_mutex_lock(&broker->mutex);
    bool first = !(broker->settled > 0);
    broker->connected = true;
    broker->told = false;
    broker->since = now;
    broker->settled = first ? now + SETTLE_SECONDS : broker->settled;
    if (fresh && !first)
        asked_lost(&broker->table);
    pthread_mutex_unlock(&broker->mutex);
    log_event(LOG_LEVEL_INFO, "broker", "host=%s port=%d state=connected%s", broker->address.host, broker->address.port,
              fresh ? " queues=new" : "");
    call(broker, PLACES_WORKERS, LETTER_WHO, "");
}

static void on_down(void *user, const char *why)
{
    struct broker *broker = user;
    char quoted[300];
    pthread_mutex_lock(&broker->mutex);
    bool tell = (!broker->told || strcmp(broker->why, why) != 0) && !broker->stopping;
    broker->connected = false;
    broker->told = true;
    snprintf(broker->why, sizeof broker->why, "%s", why);
    asked_disconnected(&broker->table);
    pthread_mutex_unlock(&broker->mutex);
    if (tell)
        log_event(LOG_LEVEL_ERROR, "broker", "host=%s port=%d state=gone detail=%s action=\"it is tried again\"",
                  broker->address.host, broker->address.port, log_quote(quoted, sizeof quoted, why));
}

static void on_settled(void *user, uint64_t ticket, bool stored)
{
    struct broker *broker = user;
    pthread_mutex_lock(&broker->mutex);
    asked_settled(&broker->table, ticket, stored);
    pthread_mutex_unlock(&broker->mutex);
}

static void on_tick(void *user, bool connected)
{
    struct broker *broker = user;
    double now = clock_monotonic();
    pthread_mutex_lock(&broker->mutex);
    size_t ready = roll_ready(&broker->roll, now);
    if (connected && ready)
        broker->able = now;
    bool due = connected && now >= broker->called + CALL_SECONDS;
    broker->called = due ? now : broker->called;
    roll_forget(&broker->roll, now);
    pthread_mutex_unlock(&broker->mutex);
    metric_set(METRIC_BROKER_CONNECTED, connected);
    metric_set(METRIC_BROKER_WORKERS, (int64_t)ready);
    if (due)
        call(broker, PLACES_WORKERS, LETTER_WHO, "");
}

static void on_status(struct broker *broker, const struct letter_status *status)
{
    bool fresh;
    struct letter_held held;
    char why[512] = "", quoted[600];
    double now = clock_monotonic();
    pthread_mutex_lock(&broker->mutex);
    const struct roll_worker *worker = roll_note(&broker->roll, status, &broker->demand, now, &fresh);
    if (worker)
        memcpy(why, worker->why, sizeof why);
    struct unpack list = status->held;
    for (size_t i = 0; worker && !*why && i < status->held_len && letter_read_held(&list, &held); i++)
        if (strcmp(held.server, broker->places.name) == 0)
            asked_held(&broker->table, &held.of, status->name);
    pthread_mutex_unlock(&broker->mutex);
    if (!worker)
        snprintf(why, sizeof why, "the server has as many workers as it can have");
    if (fresh) {
        log_event(*why ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "worker", "worker=%s host=%s threads=%llu state=%s detail=%s",
                  status->name, log_quote(quoted, 100, status->host), (unsigned long long)status->threads,
                  *why ? "refused" : "ready", *why ? log_quote(quoted + 100, sizeof quoted - 100, why) : "-");
    }
    call(broker, status->name, *why ? LETTER_REFUSED : LETTER_WELCOME, why);
}

/* A letter that is not kept by the broker. Returns false if it makes no sense. */
static bool on_letter(struct broker *broker, uint8_t kind, struct unpack *payload)
{
    struct letter_status status;
    struct letter_speech speech;
    struct asked *whose = NULL;
    if (kind == LETTER_STATUS && letter_read_status(payload, &status)) {
        on_status(broker, &status);
        return true;
    }
    if (kind != LETTER_SPEECH || !letter_read_speech(payload, &speech))
        return false;
    pthread_mutex_lock(&broker->mutex);
    enum asked_verdict verdict = asked_speech(&broker->table, &speech, &whose);
    if (verdict == ASKED_TAKEN)
        pthread_cond_signal(&((struct waiting *)whose)->news);
    pthread_mutex_unlock(&broker->mutex);
    if (verdict == ASKED_UNWANTED)
        stop(broker, speech.from, &speech.of);
    return true;
}

/* An answer, or a question that comes back. */
static bool on_answer(struct broker *broker, uint8_t kind, struct unpack *payload)
{
    struct letter_answer answer;
    struct letter_question question;
    struct asked *whose = NULL;
    bool is_answer = kind == LETTER_ANSWER && letter_read_answer(payload, &answer);
    bool is_dead = kind == LETTER_QUESTION && letter_read_question(payload, &question);
    if (!is_answer && !is_dead)
        return false;
    pthread_mutex_lock(&broker->mutex);
    enum asked_verdict verdict =
        is_answer ? asked_answer(&broker->table, &answer, &whose) : asked_dead(&broker->table, &question, &whose);
    if (verdict == ASKED_TAKEN)
        pthread_cond_signal(&((struct waiting *)whose)->news);
    pthread_mutex_unlock(&broker->mutex);
    if (is_answer)
        metric_add(verdict == ASKED_TAKEN ? METRIC_BROKER_ANSWERS : METRIC_BROKER_ANSWERS_DROPPED, 1);
    else
        metric_add(METRIC_BROKER_DEAD, 1);
    return true;
}

static void on_received(void *user, const struct link_delivery *delivery)
{
    struct broker *broker = user;
    uint8_t kind = 0;
    struct unpack payload;
    bool sense = delivery->len <= LETTER_MOST && frame_whole(delivery->bytes, delivery->len, &kind, &payload);
    if (delivery->queue == QUEUE_ANSWERS) {
        sense = sense && on_answer(broker, kind, &payload);
        link_ack(broker->link, delivery->epoch, delivery->tag);
    } else {
        sense = sense && on_letter(broker, kind, &payload);
    }
    if (!sense) {
        metric_add(METRIC_BROKER_MALFORMED, 1);
        log_event(LOG_LEVEL_WARN, "broker", "detail=\"a message that makes no sense\" kind=%u bytes=%zu", kind,
                  delivery->len);
    }
}

/* ---------------------------------------------------------------- creating and stopping */

static bool start(struct broker *broker, char *message, size_t message_size)
{
    const struct link_needs needs = {broker->places.exchanges, broker->places.queues, broker->places.queues_len};
    const struct link_hooks hooks = {on_up, on_down, on_received, on_settled, on_tick, broker};
    if (!address_read(&broker->address, broker->config->broker, broker->config->broker_ca, message, message_size))
        return false;
    broker->link = link_create(&broker->address, &needs, &hooks);
    snprintf(message, message_size, "out of memory or threads");
    return broker->link && link_start(broker->link);
}

struct broker *broker_create(const struct config *config, const char *name, char *message, size_t message_size)
{
    struct broker *broker = calloc(1, sizeof *broker);
    if (!broker) {
        snprintf(message, message_size, "out of memory");
        return NULL;
    }
    broker->config = config;
    pthread_mutex_init(&broker->mutex, NULL);
    broker->table.generation = (uint32_t)(clock_now_ms() / 100) | 1; /* another one for each start */
    broker->able = clock_monotonic();
    snprintf(broker->why, sizeof broker->why, "not connected yet");
    build_own(&broker->demand.build);
    broker->demand.max_bytes = config->max_bytes;
    places_server(&broker->places, name, &broker->demand.build);
    if (start(broker, message, message_size))
        return broker;
    broker_destroy(broker);
    return NULL;
}

void broker_quiesce(struct broker *broker)
{
    if (!broker)
        return;
    pthread_mutex_lock(&broker->mutex);
    broker->stopping = true;
    for (struct asked *asked = broker->table.all; asked; asked = asked->next)
        pthread_cond_signal(&((struct waiting *)asked)->news);
    pthread_mutex_unlock(&broker->mutex);
}

bool broker_stop(struct broker *broker, double deadline)
{
    return !broker || link_stop(broker->link, deadline);
}

void broker_destroy(struct broker *broker)
{
    if (!broker)
        return;
    link_destroy(broker->link);
    asked_clear(&broker->table);
    roll_clear(&broker->roll);
    address_clear(&broker->address);
    pthread_mutex_destroy(&broker->mutex);
    free(broker);
}

size_t broker_threads(struct broker *broker)
{
    pthread_mutex_lock(&broker->mutex);
    size_t threads = roll_threads(&broker->roll, clock_monotonic());
    pthread_mutex_unlock(&broker->mutex);
    return threads;
}

bool broker_gone(struct broker *broker, char *why, size_t why_size)
{
    pthread_mutex_lock(&broker->mutex);
    bool gone = !broker->connected;
    if (gone)
        snprintf(why, why_size, "%s:%d: %s", broker->address.host, broker->address.port, broker->why);
    pthread_mutex_unlock(&broker->mutex);
    return gone;
}

struct roll_worker *broker_workers(struct broker *broker, size_t *len, double *now)
{
    pthread_mutex_lock(&broker->mutex);
    *now = clock_monotonic();
    *len = broker->roll.len;
    struct roll_worker *workers = *len ? malloc(*len * sizeof *workers) : NULL;
    if (workers)
        memcpy(workers, broker->roll.workers, *len * sizeof *workers);
    else
        *len = 0;
    pthread_mutex_unlock(&broker->mutex);
    return workers;
}

/* ---------------------------------------------------------------- a question */

/* What a worker's caches are kept apart by: nothing, or a realm of this server. */
static void hash_realm(const struct broker *broker, const char *realm, uint8_t out[32])
{
    memset(out, 0, 32);
    if (*realm)
        crypto_generichash(out, 32, (const unsigned char *)realm, strlen(realm),
                           (const unsigned char *)broker->places.name, strlen(broker->places.name));
}

/* The id of a question: all that the answer depends on, and who asks. */
static void hash_question(const struct broker *broker, const struct broker_question *what, const struct packet *frame,
                          uint8_t out[32])
{
    crypto_generichash_state state;
    const char *const texts[] = {broker->places.name, broker->places.questions, what->work};
    crypto_generichash_init(&state, NULL, 0, 32);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        crypto_generichash_update(&state, (const unsigned char *)texts[i], strlen(texts[i]) + 1);
    crypto_generichash_update(&state, frame->bytes, frame->len);
    crypto_generichash_final(&state, out, 32);
}

/* Writes the letter, but for its nonce, which is of each asking. */
static bool write_frame(struct waiting *waiting, struct packet *frame, uint8_t id[32])
{
    const struct lent lent = {
        .question = *waiting->what->question,
        .max_n = waiting->broker->config->max_n,
        .max_operations = waiting->context->max_operations,
        .max_bytes = waiting->context->max_bytes,
        .threads = 1, /* the worker knows how many it has */
        .hooks = ask_hooks(waiting->context) | HOOK_CANCELED,
    };
    message_question(frame, &lent);
    if (frame->failed)
        return false;
    hash_question(waiting->broker, waiting->what, frame, id);
    return true;
}

static void send_locked(struct waiting *waiting, const struct packet *frame)
{
    struct broker *broker = waiting->broker;
    struct letter_question letter = {
        .of = waiting->asked.of, .seconds = waiting->what->seconds, .frame = {frame->bytes, frame->len}};
    memcpy(letter.server, broker->places.name, sizeof letter.server);
    hash_realm(broker, waiting->what->realm, letter.realm);
    letter_question(&waiting->letter, &letter);
    const struct session_message message = {.exchange = broker->places.questions,
                                            .key = broker->places.name,
                                            .bytes = waiting->letter.bytes,
                                            .len = waiting->letter.len,
                                            .lasting = true,
                                            .routed = true};
    if (!waiting->letter.failed && link_send(broker->link, &message, waiting->asked.of.nonce)) {
        waiting->asked.state = ASKED_SENT;
        metric_add(METRIC_BROKER_QUESTIONS, 1);
    }
}

/* What a worker has said. */
static void on_speech(struct waiting *waiting, const struct asked_mail *mail)
{
    struct packet reply = {0};
    const struct letter_frame frame = {mail->bytes, mail->len};
    struct unpack payload = letter_frame_payload(&frame);
    struct broker *broker = waiting->broker;
    if (!waiting->began && waiting->what->began)
        waiting->what->began(waiting->what->user);
    waiting->began = true;
    if (!ask_obey(waiting->context, letter_frame_kind(&frame), &payload, &reply))
        metric_add(METRIC_BROKER_MALFORMED, 1);
    if (reply.len) {
        pthread_mutex_lock(&broker->mutex);
        asked_drop(&broker->table, &waiting->asked, mail->from, mail->number);
        pthread_mutex_unlock(&broker->mutex);
        if (reply.len + 256 > LETTER_MOST) /* as if it were not there */
            message_found(&reply, false, NULL, 0);
        speak(broker, mail->from, &waiting->asked.of, mail->number, &reply);
    }
    packet_clear(&reply);
}

static void on_mail(struct waiting *waiting, const struct asked_mail *mail)
{
    struct answer *answer = waiting->answer;
    const struct letter_frame frame = {mail->bytes, mail->len};
    if (mail->kind == MAIL_SPEECH) {
        on_speech(waiting, mail);
        return;
    }
    waiting->done = true;
    if (mail->kind == MAIL_DEAD) {
        answer_fail(answer, EPS_INTERNAL,
                    "the job was given to workers %d times, and each time the worker ended, was disconnected or had no "
                    "memory for it; nothing else was affected. See the logs of the workers",
                    DELIVERIES);
        answer->crashed = true;
        return;
    }
    struct unpack payload = letter_frame_payload(&frame);
    bool whole = message_read_answer(&payload, waiting->what->question->kind, answer);
    if (!whole || answer->error.status == EPS_CANCELED) {
        answer_clear(answer);
        answer_fail(answer, EPS_INTERNAL, "worker %s sent an answer that makes no sense; please report it as a bug",
                    mail->from);
    }
    answer->crashed = !whole || mail->crashed;
}

/* Waits for mail, some time. */
static struct asked_mail *await_locked(struct waiting *waiting)
{
    struct broker *broker = waiting->broker;
    struct asked_mail *mail = asked_take(&broker->table, &waiting->asked);
    if (!mail && !broker->stopping) {
        struct timespec until = clock_timespec(clock_monotonic() + TICK_SECONDS);
        pthread_cond_timedwait(&waiting->news, &broker->mutex, &until);
        mail = asked_take(&broker->table, &waiting->asked);
    }
    return mail;
}

static bool is_stopping(struct broker *broker)
{
    pthread_mutex_lock(&broker->mutex);
    bool is = broker->stopping;
    pthread_mutex_unlock(&broker->mutex);
    return is;
}

/* Whether the worker that had it is silent for long, and not because the broker was gone. */
static bool is_lost_locked(struct waiting *waiting, double now)
{
    const struct broker *broker = waiting->broker;
    const char *name = waiting->asked.worker;
    if (!waiting->began || !name[0] || !broker->connected || now < broker->since + ROLL_SILENT_SECONDS)
        return false;
    for (size_t i = 0; i < broker->roll.len; i++)
        if (strcmp(broker->roll.workers[i].status.name, name) == 0)
            return roll_state(&broker->roll.workers[i], now) == WORKER_LOST;
    return false;
}

/* Returns false if the question is to be answered here. */
static bool converse(struct waiting *waiting, const struct packet *frame)
{
    struct broker *broker = waiting->broker;
    const struct eps_context *context = waiting->context;
    while (!waiting->done) {
        pthread_mutex_lock(&broker->mutex);
        double now = clock_monotonic();
        if (waiting->asked.state == ASKED_UNSENT && broker->connected && now >= broker->settled)
            send_locked(waiting, frame);
        struct asked_mail *mail = await_locked(waiting);
        bool lost = !mail && is_lost_locked(waiting, now);
        if (lost)
            waiting->asked.worker[0] = '\0';
        bool left = !mail && broker->config->broker_fallback && now > broker->able + FALLBACK_SECONDS;
        pthread_mutex_unlock(&broker->mutex);
        if (mail)
            on_mail(waiting, mail);
        free(mail);
        if (lost) {
            waiting->began = false;
            if (waiting->what->lost)
                waiting->what->lost(waiting->what->user);
        }
        if (waiting->done)
            break;
        bool stopping = is_stopping(broker); /* what is asked stays asked for the next process */
        if (stopping || (context->canceled && context->canceled(context->user))) {
            answer_fail(waiting->answer, EPS_CANCELED, "canceled");
            if (!stopping)
                stop(broker, PLACES_WORKERS, &waiting->asked.of);
            break;
        }
        if (left)
            return false;
    }
    return true;
}

/* Adds the question. A job that was canceled and is submitted again asks what its thread before may not have given up
 * yet. EPS_OK, EPS_CANCELED, EPS_NO_MEMORY. */
static enum eps_status add(struct waiting *waiting, const uint8_t id[32])
{
    struct broker *broker = waiting->broker;
    const struct eps_context *context = waiting->context;
    enum eps_status status = EPS_OK;
    pthread_mutex_lock(&broker->mutex);
    while (status == EPS_OK && asked_already(&broker->table, id)) {
        struct timespec until = clock_timespec(clock_monotonic() + TICK_SECONDS);
        bool stopping = broker->stopping;
        pthread_cond_timedwait(&waiting->news, &broker->mutex, &until);
        pthread_mutex_unlock(&broker->mutex);
        if (stopping || (context->canceled && context->canceled(context->user)))
            status = EPS_CANCELED;
        pthread_mutex_lock(&broker->mutex);
    }
    if (status == EPS_OK && !asked_add(&broker->table, &waiting->asked, id))
        status = EPS_NO_MEMORY;
    pthread_mutex_unlock(&broker->mutex);
    return status;
}

bool broker_ask(struct broker *broker, const struct broker_question *asked, const struct eps_context *context,
                struct answer *answer)
{
    struct packet frame = {0};
    uint8_t id[32];
    struct waiting waiting = {.broker = broker, .what = asked, .context = context, .answer = answer};
    *answer = (struct answer){0};
    clock_condition(&waiting.news);
    bool ready = write_frame(&waiting, &frame, id);
    enum eps_status status = ready ? add(&waiting, id) : EPS_NO_MEMORY;
    ready = status == EPS_OK;
    bool here = ready && !converse(&waiting, &frame);
    if (!ready)
        answer_fail(answer, status, status == EPS_CANCELED ? "canceled" : "out of memory");
    if (ready) {
        pthread_mutex_lock(&broker->mutex);
        asked_remove(&broker->table, &waiting.asked);
        pthread_mutex_unlock(&broker->mutex);
    }
    pthread_cond_destroy(&waiting.news);
    packet_clear(&waiting.letter);
    packet_clear(&frame);
    metric_add(METRIC_BROKER_LEFT, here);
    return !here;
}
