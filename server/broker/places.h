/*
 * The exchanges and queues at the broker, by name:
 *
 * epsilond.questions.KEY  an exchange and its queue: questions for workers of one build (see build.h), so that no
 *                         other worker gets one. Quorum, so what is in it survives the loss of a broker.
 * epsilond.answers.SERVER a queue: answers for a server; quorum, and survives a restart of that server.
 * epsilond.dead           an exchange: questions that were delivered DELIVERIES times in vain, to the queue of answers
 *                         of the server that asked.
 * epsilond.letters        an exchange: what may be lost, to servers and workers by their names, or to all of them. Each
 *                         has a queue that goes with its connection;
 * epsilond.server.SERVER  is that of a server, which keeps a second one of the same name (from a copy of its database)
 *                         away from its answers.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_BROKER_PLACES_H
#define SERVER_BROKER_PLACES_H

#include "server/broker/letter.h"
#include "server/broker/session.h"

#define PLACES_LETTERS "epsilond.letters"
#define PLACES_DEAD "epsilond.dead"
#define PLACES_SERVERS "servers" /* the key of letters to all servers, */
#define PLACES_WORKERS "workers" /* and to all workers */

/* The queues of a process, by their numbers. */
enum { QUEUE_LETTERS, QUEUE_QUESTIONS, QUEUE_ANSWERS, QUEUES };

struct places {
    char name[LETTER_NAME_SIZE]; /* of the process */
    char own[64];                /* the queue of letters of a server */
    char questions[64];
    char answers[64];
    struct session_exchange exchanges[4];
    struct session_queue queues[QUEUES];
    unsigned queues_len;
};

/* Of a server. */
void places_server(struct places *places, const char *name, const struct build *build);
/* Of a worker that has so many questions at a time. */
void places_worker(struct places *places, const char *name, const struct build *build, unsigned questions);
/* The queue for answers to that server. */
void places_answers(char queue[64], const char *server);

#endif
