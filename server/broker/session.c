/*
 * Channel 1 has everything; channel 2 asks whether a queue exists, because a negative answer closes the channel. What
 * librabbitmq sends is sent at once; what it waits for is bounded by RPC_SECONDS, or by two heartbeats.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/broker/session.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define CONNECT_SECONDS 5
#define RPC_SECONDS 10
#define HEARTBEAT_SECONDS 10
#define FRAME_BYTES 131072
#define EXPIRES_MS (30 * 24 * 3600 * 1000u) /* of a queue that nobody uses */
#define CHANNEL 1
#define PROBE 2
#define CONTENT_TYPE "application/x-epsilond"

struct session {
    amqp_connection_state_t state;
    amqp_message_t message; /* the last delivery, if `has` */
    bool has;
    char own[128]; /* the name of the queue that is ours, which the broker may have drawn */
    char why[256];
};

/* ---------------------------------------------------------------- addresses */

bool address_read(struct address *address, const char *url, const char *ca, char *message, size_t message_size)
{
    struct amqp_connection_info info;
    char *text = strdup(url);
    *address = (struct address){0};
    amqp_default_connection_info(&info);
    if (!text || amqp_parse_url(text, &info) != AMQP_STATUS_OK) {
        snprintf(message, message_size, "--broker must be amqps://user:password@host:port/vhost, or amqp://...");
        free(text);
        return false;
    }
    *address = (struct address){.text = text,
                                .host = info.host,
                                .vhost = info.vhost,
                                .user = info.user,
                                .password = info.password,
                                .port = info.port,
                                .tls = info.ssl != 0,
                                .ca = ca};
    return true;
}

void address_clear(struct address *address)
{
    if (address->text)
        explicit_bzero(address->text, strlen(address->text)); /* its last part; the rest is with the environment */
    free(address->text);
    *address = (struct address){0};
}

/* ---------------------------------------------------------------- failures */

static bool fail(struct session *session, const char *what, const char *why)
{
    if (!session->why[0])
        snprintf(session->why, sizeof session->why, "%s: %.200s", what, why);
    return false;
}

/* What the broker said when it closed the channel or the connection. */
static bool fail_closed(struct session *session, const char *what, const amqp_method_t *method)
{
    char text[200] = "closed by the broker";
    const amqp_bytes_t *said = NULL;
    if (method->id == AMQP_CONNECTION_CLOSE_METHOD)
        said = &((const amqp_connection_close_t *)method->decoded)->reply_text;
    else if (method->id == AMQP_CHANNEL_CLOSE_METHOD)
        said = &((const amqp_channel_close_t *)method->decoded)->reply_text;
    if (said)
        snprintf(text, sizeof text, "%.*s", (int)(said->len < 180 ? said->len : 180), (const char *)said->bytes);
    for (char *at = text; *at; at++)
        *at = *at < ' ' || *at > '~' ? '?' : *at;
    return fail(session, what, text);
}

/* Whether the last call that waits for the broker was well. */
static bool well(struct session *session, const char *what, const amqp_rpc_reply_t *reply)
{
    if (reply->reply_type == AMQP_RESPONSE_NORMAL)
        return true;
    if (reply->reply_type == AMQP_RESPONSE_SERVER_EXCEPTION)
        return fail_closed(session, what, &reply->reply);
    return fail(session, what,
                reply->reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION ? amqp_error_string2(reply->library_error)
                                                                     : "no answer");
}

static bool was_well(struct session *session, const char *what)
{
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(session->state);
    return well(session, what, &reply);
}

const char *session_why(const struct session *session)
{
    return session->why;
}

/* ---------------------------------------------------------------- opening and closing */

static bool connect_to(struct session *session, const struct address *address)
{
    struct timeval wait = {.tv_sec = CONNECT_SECONDS}, rpc = {.tv_sec = RPC_SECONDS};
    amqp_socket_t *socket = address->tls ? amqp_ssl_socket_new(session->state) : amqp_tcp_socket_new(session->state);
    if (!socket)
        return fail(session, "no socket", "out of memory");
    if (address->tls) {
        amqp_ssl_socket_set_verify_peer(socket, 1);
        amqp_ssl_socket_set_verify_hostname(socket, 1);
        if (amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST) != AMQP_STATUS_OK ||
            amqp_ssl_socket_set_cacert(socket, address->ca) != AMQP_STATUS_OK)
            return fail(session, "cannot read the authorities of --broker-ca", address->ca);
    }
    int code = amqp_socket_open_noblock(socket, address->host, address->port, &wait);
    if (code != AMQP_STATUS_OK)
        return fail(session, "cannot connect", amqp_error_string2(code));
    amqp_set_handshake_timeout(session->state, &rpc);
    amqp_set_rpc_timeout(session->state, &rpc);
    amqp_rpc_reply_t reply = amqp_login(session->state, address->vhost, 0, FRAME_BYTES, HEARTBEAT_SECONDS,
                                        AMQP_SASL_METHOD_PLAIN, address->user, address->password);
    return well(session, "cannot log in", &reply);
}

struct session *session_open(const struct address *address, char *message, size_t message_size)
{
    struct session *session = calloc(1, sizeof *session);
    if (session)
        session->state = amqp_new_connection();
    bool open = session && session->state && connect_to(session, address);
    if (open) {
        amqp_channel_open(session->state, CHANNEL);
        open = was_well(session, "cannot open a channel");
    }
    if (open) {
        amqp_confirm_select(session->state, CHANNEL);
        open = was_well(session, "no confirmations");
    }
    if (open)
        return session;
    snprintf(message, message_size, "%s", session && session->state ? session->why : "out of memory");
    session_close(session);
    return NULL;
}

void session_close(struct session *session)
{
    if (!session)
        return;
    if (session->has)
        amqp_destroy_message(&session->message);
    if (session->state)
        amqp_destroy_connection(session->state);
    free(session);
}

int session_fd(const struct session *session)
{
    return amqp_get_sockfd(session->state);
}

/* ---------------------------------------------------------------- exchanges and queues */

bool session_exchange(struct session *session, const struct session_exchange *exchange)
{
    amqp_exchange_declare(session->state, CHANNEL, amqp_cstring_bytes(exchange->name),
                          amqp_cstring_bytes(exchange->type), 0, 1, exchange->fleeting, 0, amqp_empty_table);
    return was_well(session, "cannot declare an exchange");
}

/* Whether the queue exists. Returns false if that cannot be known. */
static bool probe(struct session *session, const char *name, bool *exists)
{
    amqp_channel_open(session->state, PROBE);
    if (!was_well(session, "cannot open a channel"))
        return false;
    amqp_queue_declare(session->state, PROBE, amqp_cstring_bytes(name), 1, 0, 0, 0, amqp_empty_table);
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(session->state);
    *exists = reply.reply_type == AMQP_RESPONSE_NORMAL;
    if (*exists) {
        amqp_rpc_reply_t closed = amqp_channel_close(session->state, PROBE, AMQP_REPLY_SUCCESS);
        return well(session, "cannot close a channel", &closed);
    }
    if (reply.reply_type != AMQP_RESPONSE_SERVER_EXCEPTION || reply.reply.id != AMQP_CHANNEL_CLOSE_METHOD ||
        ((const amqp_channel_close_t *)reply.reply.decoded)->reply_code != AMQP_NOT_FOUND)
        return well(session, "cannot look for a queue", &reply);
    amqp_channel_close_ok_t ok = {0};
    int code = amqp_send_method(session->state, PROBE, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok);
    return code == AMQP_STATUS_OK || fail(session, "cannot close a channel", amqp_error_string2(code));
}

static amqp_table_entry_t text_entry(const char *key, const char *value)
{
    return (amqp_table_entry_t){.key = amqp_cstring_bytes(key),
                                .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(value)}};
}

static amqp_table_entry_t number_entry(const char *key, int64_t value)
{
    return (amqp_table_entry_t){.key = amqp_cstring_bytes(key),
                                .value = {.kind = AMQP_FIELD_KIND_I64, .value.i64 = value}};
}

/* A queue that outlives connections is a quorum queue. A message that was delivered DELIVERIES times, and returned as
 * often, is dead; it is kept until the queue behind the exchange has it. */
static bool declare(struct session *session, const struct session_queue *queue)
{
    amqp_table_entry_t entries[6];
    int len = 0;
    entries[len++] = text_entry("x-queue-type", "quorum");
    entries[len++] = number_entry("x-expires", EXPIRES_MS);
    if (queue->dead) {
        entries[len++] = number_entry("x-delivery-limit", DELIVERIES - 1);
        entries[len++] = text_entry("x-dead-letter-exchange", queue->dead);
        entries[len++] = text_entry("x-dead-letter-strategy", "at-least-once");
        entries[len++] = text_entry("x-overflow", "reject-publish");
    }
    amqp_table_t arguments = {.num_entries = len, .entries = entries};
    amqp_queue_declare(session->state, CHANNEL, amqp_cstring_bytes(queue->name), 0, 1, 0, 0, arguments);
    return was_well(session, "cannot declare a queue");
}

static bool declare_ours(struct session *session, const struct session_queue *queue)
{
    const amqp_queue_declare_ok_t *declared = amqp_queue_declare(
        session->state, CHANNEL, amqp_cstring_bytes(queue->name ? queue->name : ""), 0, 0, 1, 1, amqp_empty_table);
    if (!was_well(session, "cannot declare a queue"))
        return false;
    if (!declared || declared->queue.len >= sizeof session->own)
        return fail(session, "cannot declare a queue", "its name is too long");
    memcpy(session->own, declared->queue.bytes, declared->queue.len);
    session->own[declared->queue.len] = '\0';
    return true;
}

static amqp_bytes_t name_of(const struct session *session, const struct session_queue *queue)
{
    return amqp_cstring_bytes(queue->name ? queue->name : session->own);
}

bool session_queue(struct session *session, const struct session_queue *queue, bool *fresh)
{
    bool exists = true;
    if (queue->ours && !declare_ours(session, queue))
        return false;
    if (!queue->ours && (!probe(session, queue->name, &exists) || !declare(session, queue)))
        return false;
    *fresh = *fresh || !exists;
    for (size_t i = 0; i < 2 && queue->keys[i]; i++) {
        amqp_queue_bind(session->state, CHANNEL, name_of(session, queue), amqp_cstring_bytes(queue->exchange),
                        amqp_cstring_bytes(queue->keys[i]), amqp_empty_table);
        if (!was_well(session, "cannot bind a queue"))
            return false;
    }
    return true;
}

static void tag_of(char tag[16], unsigned number)
{
    snprintf(tag, 16, "%u", number);
}

bool session_consume(struct session *session, const struct session_queue *queue, unsigned number)
{
    char tag[16];
    tag_of(tag, number);
    amqp_basic_qos(session->state, CHANNEL, 0, (uint16_t)queue->prefetch, 0);
    if (!was_well(session, "cannot limit deliveries"))
        return false;
    amqp_basic_consume(session->state, CHANNEL, name_of(session, queue), amqp_cstring_bytes(tag), 0, !queue->prefetch,
                       0, amqp_empty_table);
    return was_well(session, "cannot consume a queue");
}

bool session_cancel(struct session *session, unsigned number)
{
    char tag[16];
    tag_of(tag, number);
    amqp_basic_cancel(session->state, CHANNEL, amqp_cstring_bytes(tag));
    return was_well(session, "cannot stop consuming a queue");
}

/* ---------------------------------------------------------------- messages */

bool session_publish(struct session *session, const struct session_message *message)
{
    const amqp_basic_properties_t properties = {._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG,
                                                .content_type = amqp_cstring_bytes(CONTENT_TYPE),
                                                .delivery_mode = message->lasting ? 2 : 1};
    amqp_bytes_t body = {.len = message->len, .bytes = (void *)(uintptr_t)message->bytes};
    int code = amqp_basic_publish(session->state, CHANNEL, amqp_cstring_bytes(message->exchange),
                                  amqp_cstring_bytes(message->key), message->routed, 0, &properties, body);
    return code == AMQP_STATUS_OK || fail(session, "cannot publish", amqp_error_string2(code));
}

bool session_ack(struct session *session, uint64_t tag)
{
    int code = amqp_basic_ack(session->state, CHANNEL, tag, 0);
    return code == AMQP_STATUS_OK || fail(session, "cannot acknowledge", amqp_error_string2(code));
}

bool session_return(struct session *session, uint64_t tag)
{
    int code = amqp_basic_reject(session->state, CHANNEL, tag, 1);
    return code == AMQP_STATUS_OK || fail(session, "cannot return a delivery", amqp_error_string2(code));
}

/* Reads the content of a delivery. */
static bool read_delivery(struct session *session, const amqp_basic_deliver_t *deliver,
                          struct session_delivery *delivery)
{
    char tag[16] = "";
    size_t len = deliver->consumer_tag.len < sizeof tag - 1 ? deliver->consumer_tag.len : sizeof tag - 1;
    memcpy(tag, deliver->consumer_tag.bytes, len);
    delivery->tag = deliver->delivery_tag;
    delivery->queue = (unsigned)strtoul(tag, NULL, 10);
    amqp_rpc_reply_t reply = amqp_read_message(session->state, CHANNEL, &session->message, 0);
    if (!well(session, "cannot read a delivery", &reply))
        return false;
    session->has = true;
    delivery->bytes = session->message.body.bytes;
    delivery->len = session->message.body.len;
    return true;
}

static enum session_event on_method(struct session *session, const amqp_method_t *method,
                                    struct session_delivery *delivery)
{
    switch (method->id) {
    case AMQP_BASIC_DELIVER_METHOD:
        return read_delivery(session, method->decoded, delivery) ? SESSION_DELIVERY : SESSION_FAILED;
    case AMQP_BASIC_ACK_METHOD: {
        const amqp_basic_ack_t *ack = method->decoded;
        delivery->published = ack->delivery_tag;
        delivery->multiple = ack->multiple;
        return SESSION_CONFIRMED;
    }
    case AMQP_BASIC_NACK_METHOD: {
        const amqp_basic_nack_t *nack = method->decoded;
        delivery->published = nack->delivery_tag;
        delivery->multiple = nack->multiple;
        return SESSION_REJECTED;
    }
    case AMQP_BASIC_RETURN_METHOD:
        fail(session, "a message has no queue", "it was deleted");
        return SESSION_FAILED;
    case AMQP_BASIC_CANCEL_METHOD:
        fail(session, "a queue is gone", "it was deleted");
        return SESSION_FAILED;
    case AMQP_CHANNEL_CLOSE_METHOD:
    case AMQP_CONNECTION_CLOSE_METHOD:
        fail_closed(session, "disconnected", method);
        return SESSION_FAILED;
    default: /* such as connection.blocked */
        return SESSION_NOTHING;
    }
}

enum session_event session_next(struct session *session, struct session_delivery *delivery)
{
    struct timeval now = {0};
    amqp_frame_t frame;
    *delivery = (struct session_delivery){0};
    if (session->has)
        amqp_destroy_message(&session->message);
    session->has = false;
    for (;;) {
        amqp_maybe_release_buffers(session->state);
        int code = amqp_simple_wait_frame_noblock(session->state, &frame, &now);
        if (code == AMQP_STATUS_TIMEOUT)
            return SESSION_NOTHING;
        if (code != AMQP_STATUS_OK) {
            fail(session, "disconnected", amqp_error_string2(code));
            return SESSION_FAILED;
        }
        enum session_event event = frame.frame_type == AMQP_FRAME_METHOD
                                       ? on_method(session, &frame.payload.method, delivery)
                                       : SESSION_NOTHING;
        if (event != SESSION_NOTHING)
            return event;
    }
}
