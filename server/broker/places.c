/*
 * See places.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/broker/places.h"

#include <stdio.h>
#include <string.h>

#define ANSWERS_PREFETCH 64

void places_answers(char queue[64], const char *server)
{
    snprintf(queue, 64, "epsilond.answers.%s", server);
}

/* What both have. */
static void places(struct places *places, const char *name, const char *all, const struct build *build)
{
    char key[BUILD_KEY_SIZE];
    *places = (struct places){.queues_len = QUEUE_QUESTIONS + 1};
    build_key(key, build);
    snprintf(places->name, sizeof places->name, "%s", name);
    snprintf(places->questions, sizeof places->questions, "epsilond.questions.%s", key);
    places->exchanges[0] = (struct session_exchange){.name = PLACES_LETTERS, .type = "direct"};
    places->exchanges[1] = (struct session_exchange){.name = PLACES_DEAD, .type = "direct"};
    places->exchanges[2] = (struct session_exchange){.name = places->questions, .type = "fanout", .fleeting = true};
    places->queues[QUEUE_LETTERS] =
        (struct session_queue){.ours = true, .exchange = PLACES_LETTERS, .keys = {places->name, all}};
    places->queues[QUEUE_QUESTIONS] = (struct session_queue){
        .name = places->questions, .dead = PLACES_DEAD, .exchange = places->questions, .keys = {""}};
}

void places_server(struct places *out, const char *name, const struct build *build)
{
    places(out, name, PLACES_SERVERS, build);
    places_answers(out->answers, name);
    snprintf(out->own, sizeof out->own, "epsilond.server.%s", name);
    out->queues[QUEUE_LETTERS].name = out->own;
    out->queues[QUEUE_QUESTIONS].never = true;
    out->queues[QUEUE_ANSWERS] = (struct session_queue){
        .name = out->answers, .exchange = PLACES_DEAD, .keys = {out->name}, .prefetch = ANSWERS_PREFETCH};
    out->queues_len = QUEUE_ANSWERS + 1;
}

void places_worker(struct places *out, const char *name, const struct build *build, unsigned questions)
{
    places(out, name, PLACES_WORKERS, build);
    out->queues[QUEUE_QUESTIONS].prefetch = questions;
    out->queues[QUEUE_QUESTIONS].later = true;
}
