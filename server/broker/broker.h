/*
 * The side of a server: questions that workers on other machines answer. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_BROKER_BROKER_H
#define SERVER_BROKER_BROKER_H

#include "server/broker/roll.h"
#include "server/cells/question.h"
#include "server/ops/config.h"

struct broker;

/* Connects in the background, now and whenever the connection is lost. name: of the server, always the same. Returns
 * NULL with a message. */
struct broker *broker_create(const struct config *config, const char *name, char *message, size_t message_size);
/* From now on questions end as canceled, without workers being told. NULL is allowed, as below. */
void broker_quiesce(struct broker *broker);
/* Disconnects. Returns false if a thread still runs at the deadline; then nothing may be freed. No question may be
 * asked any more. */
bool broker_stop(struct broker *broker, double deadline);
void broker_destroy(struct broker *broker);

struct broker_question {
    const struct question *question;
    const char *work;          /* equal questions that must be kept apart differ in this text */
    const char *realm;         /* of the caches; "": that of all */
    double seconds;            /* the time limit of the computation; 0: none */
    void (*began)(void *user); /* a worker has it, and its time limit begins */
    void (*lost)(void *user);  /* that worker is silent: another one will begin it anew. Or NULL */
    void *user;
};

/*
 * Asks, and waits for the answer, as cells_ask() does; expired() is left to the worker. Waits while the broker is gone,
 * and while there is no worker; with config->broker_fallback only for some seconds, and then returns false: it is to be
 * computed here.
 */
bool broker_ask(struct broker *broker, const struct broker_question *asked, const struct eps_context *context,
                struct answer *answer);

/* The threads of all workers that are ready. */
size_t broker_threads(struct broker *broker);
/* Whether the broker cannot be reached, and why. */
bool broker_gone(struct broker *broker, char *why, size_t why_size);

/* The workers that were heard of, in a list that the caller frees; NULL: there are none, or memory ran out. now: as of
 * which their state is meant. */
struct roll_worker *broker_workers(struct broker *broker, size_t *len, double *now);

#endif
