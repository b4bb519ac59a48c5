/*
 * Letters: what servers and workers send each other through a broker, as values; writing one, and reading one that may
 * be anything. A letter is one frame (server/cells/packet.h). It says to which question it belongs and who sent it, and
 * what is said about the question is the frame that a cell and its parent would exchange (server/cells/message.h).
 * Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_BROKER_LETTER_H
#define SERVER_BROKER_LETTER_H

#include "server/broker/build.h"
#include "server/cells/packet.h"

#define LETTER_MOST ((size_t)64 << 20) /* bytes; a longer one is neither sent nor read */
#define LETTER_NAME_SIZE 33            /* of a server or a worker: at most 32 of a-z, 0-9 and '-' */
#define LETTER_HELD_MOST 1024

enum letter {
    LETTER_QUESTION = 64, /* to any worker */
    LETTER_SPEECH,        /* about a question, either way; not kept by the broker */
    LETTER_ANSWER,        /* to the server that asked */
    LETTER_STATUS,        /* from a worker to all servers, every few seconds and when called */
    LETTER_CALL           /* from a server to a worker or to all */
};

/* Which question. id: a hash of all that the answer depends on, and of the server; a question that is asked again,
 * also after a restart, has the same one. nonce: of this asking. */
struct letter_of {
    uint8_t id[32];
    uint64_t nonce;
};

/* A frame of server/cells/, borrowed from the letter. */
struct letter_frame {
    const uint8_t *bytes;
    size_t len;
};

struct letter_question {
    struct letter_of of;
    char server[LETTER_NAME_SIZE];
    uint8_t realm[32];         /* what it looks up is kept apart by this */
    double seconds;            /* its time limit, from the start of the computation; 0: none */
    struct letter_frame frame; /* MESSAGE_QUESTION */
};

struct letter_speech {
    struct letter_of of;
    char from[LETTER_NAME_SIZE];
    uint64_t number; /* of a lookup, and of what was found */
    struct letter_frame frame;
};

struct letter_answer {
    struct letter_of of;
    char from[LETTER_NAME_SIZE];
    bool crashed;              /* see struct answer */
    double seconds;            /* that the worker spent on it */
    struct letter_frame frame; /* MESSAGE_ANSWER */
};

/* A question that a worker has. */
struct letter_held {
    struct letter_of of;
    char server[LETTER_NAME_SIZE]; /* that asked it */
};

struct letter_status {
    char name[LETTER_NAME_SIZE];
    char host[64];
    struct build build;
    uint64_t threads;
    uint64_t max_bytes; /* memory of a job */
    uint64_t computed;  /* questions, since its start */
    uint64_t failed;    /* of these */
    double seconds;     /* spent on them */
    uint64_t cached;    /* bytes */
    bool leaving;       /* it takes no more questions */
    size_t held_len;
    struct unpack held; /* read them one by one by letter_read_held() */
};

/* What a server says to workers. */
enum letter_verdict { LETTER_WHO, /* say who you are, and what you have */ LETTER_WELCOME, LETTER_REFUSED };

struct letter_call {
    char server[LETTER_NAME_SIZE];
    enum letter_verdict verdict;
    char why[512]; /* "": it is not refused */
};

/* Each writes a letter; its end may have failed, as packet_end() says. */
void letter_question(struct packet *packet, const struct letter_question *question);
void letter_speech(struct packet *packet, const struct letter_speech *speech);
void letter_answer(struct packet *packet, const struct letter_answer *answer);
void letter_status(struct packet *packet, const struct letter_status *status, const struct letter_held *held);
void letter_call(struct packet *packet, const struct letter_call *call);

/* Each reads the payload of such a letter. False: it is malformed. */
bool letter_read_question(struct unpack *unpack, struct letter_question *question);
bool letter_read_speech(struct unpack *unpack, struct letter_speech *speech);
bool letter_read_answer(struct unpack *unpack, struct letter_answer *answer);
bool letter_read_status(struct unpack *unpack, struct letter_status *status);
bool letter_read_held(struct unpack *held, struct letter_held *one);
bool letter_read_call(struct unpack *unpack, struct letter_call *call);

/* The kind of the frame in a letter, which has one, and its payload. */
uint8_t letter_frame_kind(const struct letter_frame *frame);
struct unpack letter_frame_payload(const struct letter_frame *frame);

/* Draws a name. */
void letter_name(char name[LETTER_NAME_SIZE]);

#endif
