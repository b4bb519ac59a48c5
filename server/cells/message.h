/*
 * The messages between the service and a process that computes, as values: writing one, and reading one that may be
 * anything. A message is self-contained: it names the accounting version, carries the job as canonical JSON, and cached
 * blobs by content id, so that it may travel. Thread-compatible.
 *
 * A computing process says hello once. Then, for each question: the question; while it is computed, progress and
 * lookups (each is answered by what was found) and blobs to keep from it, and threads and stops to it; the answer.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_CELLS_MESSAGE_H
#define SERVER_CELLS_MESSAGE_H

#include "server/cells/packet.h"
#include "server/cells/question.h"

enum message {
    MESSAGE_HELLO = 1, /* from the computing process, once */
    MESSAGE_QUESTION,  /* to it */
    MESSAGE_THREADS,   /* to it: how many threads it may use from now on */
    MESSAGE_STOP,      /* to it: the answer is not wanted, or would be late */
    MESSAGE_FOUND,     /* to it: what it looked up */
    MESSAGE_PROGRESS,  /* from it */
    MESSAGE_LOOKUP,    /* from it, one at a time */
    MESSAGE_KEEP,      /* from it: a blob for the cache */
    MESSAGE_ANSWER,    /* from it */
    MESSAGE_AHEAD      /* from it: chunks of draws that it will look up */
};

/* How a process is confined; bits. */
enum confinement { CONFINED_CALLS = 1 /* system calls */, CONFINED_MEMORY = 2 /* its address space */ };

struct hello {
    int accounting; /* EPS_ACCOUNTING_VERSION */
    char version[32];
    unsigned confined; /* bits of enum confinement */
    char why[160];     /* not all; "": all are */
};

/* The hooks of struct eps_context that the asker has; bits. */
enum hook {
    HOOK_PROGRESS = 1,
    HOOK_CANCELED = 2,
    HOOK_EXPIRED = 4,
    HOOK_GET = 8,
    HOOK_PUT = 16,
    HOOK_PARALLEL = 32,
    HOOK_AHEAD = 64
};

/* A question with what its computation needs. */
struct lent {
    struct question question;
    uint64_t max_n;
    double max_operations;
    double max_bytes;
    size_t threads;
    unsigned hooks;                     /* bits of enum hook */
    uint8_t portion[EPS_PORTION_BYTES]; /* as it arrived */
};

enum stop { STOP_NONE, STOP_CANCELED, STOP_EXPIRED };

struct message_progress {
    double fraction;
    char stage[32]; /* a word */
    double remaining_seconds;
};

struct message_blob {
    enum eps_cache_kind kind;
    uint8_t key[32];
    const void *bytes; /* borrowed; of MESSAGE_KEEP */
    size_t len;        /* 0: the blob was used, and is not sent, because its sender had it */
};

/* Each writes a frame; its end may have failed, as packet_end() says. */
void message_hello(struct packet *packet, const struct hello *hello);
void message_question(struct packet *packet, const struct lent *lent);
void message_threads(struct packet *packet, size_t threads);
void message_stop(struct packet *packet, enum stop stop);
void message_found(struct packet *packet, bool found, const void *bytes, size_t len);
void message_progress(struct packet *packet, double fraction, const char *stage, double remaining_seconds);
void message_lookup(struct packet *packet, enum eps_cache_kind kind, const uint8_t key[32]);
void message_keep(struct packet *packet, const struct message_blob *blob);
void message_ahead(struct packet *packet, const struct eps_portion *portion);
void message_answer(struct packet *packet, const struct question *question, const struct answer *answer);

/* Each reads the payload of such a frame. False: it is malformed. */
bool message_read_hello(struct unpack *unpack, struct hello *hello);
bool message_read_threads(struct unpack *unpack, size_t *threads);
bool message_read_stop(struct unpack *unpack, enum stop *stop);
/* bytes: a copy, which the caller frees; NULL if nothing was found. */
bool message_read_found(struct unpack *unpack, bool *found, void **bytes, size_t *len);
bool message_read_progress(struct unpack *unpack, struct message_progress *progress);
bool message_read_lookup(struct unpack *unpack, struct message_blob *blob);
bool message_read_keep(struct unpack *unpack, struct message_blob *blob);
bool message_read_ahead(struct unpack *unpack, struct eps_portion *portion);
/* Decodes the job as if it came from a client. A portion is copied to `lent`, to which its question then points. *job:
 * to be released with api_job_destroy(). If the question cannot be answered here, such as one of another accounting
 * version, *job is NULL and the answer says why. */
bool message_read_question(struct unpack *unpack, struct lent *lent, struct api_job **job, struct answer *answer);
/* The answer to that question; to be freed with answer_clear(), also if it is malformed. What the store will keep is
 * well-formed: objects of JSON, numbers and short texts. */
bool message_read_answer(struct unpack *unpack, enum question_kind kind, struct answer *answer);

#endif
