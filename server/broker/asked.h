/*
 * The questions that a server has asked through its broker, and what arrives for them. A pure data structure: it knows
 * no clock, no threads and no broker. Thread-compatible.
 *
 * A question has one id whenever it is asked, also by an earlier process of the same server, and a nonce of its asking.
 * Invariants:
 * - Of several answers to a question the first is kept, and each later one is dropped. Answers are equal, whoever gives
 *   them, so which one comes first does not matter.
 * - An answer to a question that only an earlier process has asked waits for it to be asked again.
 * - A worker that computes what nobody waits for is told to stop. If two workers have copies of one question that
 *   were asked apart, the second one is.
 * - An asking that was given up does not count when its question is asked again: its worker has been told to stop.
 * - What is kept for a question is bounded in number, and all that is kept in bytes.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_BROKER_ASKED_H
#define SERVER_BROKER_ASKED_H

#include "server/broker/letter.h"
#include "server/ops/map.h"

#define ASKED_MAILS_MOST 64
#define ASKED_BYTES_MOST ((size_t)256 << 20)
#define ASKED_EARLY_MOST 4096                /* answers that came before their question was asked again */
#define ASKED_EARLY_BYTES ((size_t)64 << 20) /* of these; the oldest ones are dropped */
#define ASKED_ENDED 4096                     /* ids of answered questions that are remembered */
#define ASKED_GIVEN_UP 4096                  /* nonces of askings that ended without an answer, likewise */

enum asked_state {
    ASKED_UNSENT, /* it must be sent */
    ASKED_SENT,   /* the broker has not confirmed it */
    ASKED_KEPT,   /* the broker has it */
    ASKED_ANSWERED
};

enum asked_mail_kind { MAIL_SPEECH, MAIL_ANSWER, MAIL_DEAD /* no worker lived to answer it */ };

/* What has arrived for a question. */
struct asked_mail {
    struct asked_mail *next;
    enum asked_mail_kind kind;
    char from[LETTER_NAME_SIZE];
    uint64_t number;
    bool crashed;
    size_t len;
    uint8_t bytes[]; /* a frame; none of MAIL_DEAD */
};

/* A question. Embed it; asked_add() sets it. */
struct asked {
    struct map_node node;
    char key[65];
    struct letter_of of;
    enum asked_state state;
    bool again;                    /* deliveries may have been lost with a connection, also of an earlier process */
    char worker[LETTER_NAME_SIZE]; /* that computes it; "": none has said so */
    struct asked_mail *first, *last;
    size_t mails;
    struct asked *next; /* in the table */
};

/* A question that a worker had when this process started, or an early answer. */
struct asked_early {
    struct map_node node;
    char key[65];
    uint64_t nonce;
    char worker[LETTER_NAME_SIZE];
    struct asked_mail *answer; /* NULL: it is being computed */
    struct asked_early *next;  /* the next newer one */
};

/* Zero-initialise; set generation, by which nonces of this process differ from those of earlier ones. */
struct asked_table {
    uint32_t generation;
    uint32_t count;
    struct map asked;
    struct asked *all;
    size_t bytes; /* of mail */
    struct map early;
    struct asked_early *oldest, *newest;
    size_t early_len;
    size_t early_bytes;
    uint8_t ended[ASKED_ENDED][32];
    size_t ended_next;
    uint64_t given_up[ASKED_GIVEN_UP]; /* 0: none */
    size_t given_up_next;
};

/* Whether that question is in the table: it cannot be added before it has been removed. */
bool asked_already(const struct asked_table *table, const uint8_t id[32]);
/* Adds a question by its id. Its state is ASKED_ANSWERED or ASKED_KEPT if an earlier process has asked it. Returns
 * false if memory runs out. */
bool asked_add(struct asked_table *table, struct asked *asked, const uint8_t id[32]);
/* Removes it, and frees its mail. */
void asked_remove(struct asked_table *table, struct asked *asked);
/* Its first mail, which the caller frees; NULL: none. */
struct asked_mail *asked_take(struct asked_table *table, struct asked *asked);
/* Drops repetitions of a lookup that was answered. */
void asked_drop(struct asked_table *table, struct asked *asked, const char *from, uint64_t number);
/* It must be sent again, as another asking. */
void asked_again(struct asked_table *table, struct asked *asked);

/* The connection was lost: what was not confirmed must be sent again. */
void asked_disconnected(struct asked_table *table);
/* The broker has lost everything. */
void asked_lost(struct asked_table *table);
/* The broker has stored it, or could not. */
void asked_settled(struct asked_table *table, uint64_t nonce, bool stored);

enum asked_verdict {
    ASKED_TAKEN,   /* *whose has mail */
    ASKED_DROPPED, /* it changes nothing */
    ASKED_UNWANTED /* its sender should stop */
};
/* Letters of workers. *whose: the question; set only if ASKED_TAKEN. */
enum asked_verdict asked_speech(struct asked_table *table, const struct letter_speech *speech, struct asked **whose);
enum asked_verdict asked_answer(struct asked_table *table, const struct letter_answer *answer, struct asked **whose);
/* A question that comes back because no worker lived to answer it. */
enum asked_verdict asked_dead(struct asked_table *table, const struct letter_question *question, struct asked **whose);
/* A worker has that question, which a process of this server asked. */
void asked_held(struct asked_table *table, const struct letter_of *of, const char *worker);

/* There must be no questions. */
void asked_clear(struct asked_table *table);

#endif
