/*
 * See asked.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/broker/asked.h"

#include <assert.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "server/cells/message.h"

static void key_of(char key[65], const uint8_t id[32])
{
    sodium_bin2hex(key, 65, id, 32);
}

static struct asked *find(const struct asked_table *table, const uint8_t id[32])
{
    char key[65];
    key_of(key, id);
    struct map_node *node = map_find(&table->asked, key);
    return node ? MAP_ENTRY(node, struct asked, node) : NULL;
}

static bool is_ours(const struct asked_table *table, uint64_t nonce)
{
    return nonce >> 32 == table->generation;
}

static bool has_ended(const struct asked_table *table, const uint8_t id[32])
{
    for (size_t i = 0; i < ASKED_ENDED; i++)
        if (memcmp(table->ended[i], id, 32) == 0)
            return true;
    return false;
}

static bool was_given_up(const struct asked_table *table, uint64_t nonce)
{
    for (size_t i = 0; i < ASKED_GIVEN_UP; i++)
        if (table->given_up[i] == nonce)
            return true;
    return false;
}

/* ---------------------------------------------------------------- mail */

static struct asked_mail *mail_create(enum asked_mail_kind kind, const char *from, const struct letter_frame *frame)
{
    struct asked_mail *mail = malloc(sizeof *mail + frame->len);
    if (!mail)
        return NULL;
    *mail = (struct asked_mail){.kind = kind, .len = frame->len};
    strcpy(mail->from, from);
    if (frame->len)
        memcpy(mail->bytes, frame->bytes, frame->len);
    return mail;
}

static void mail_add(struct asked_table *table, struct asked *asked, struct asked_mail *mail)
{
    mail->next = NULL;
    if (asked->first)
        asked->last->next = mail;
    else
        asked->first = mail;
    asked->last = mail;
    asked->mails++;
    table->bytes += mail->len;
}

/* Removes the mail behind `before` (NULL: the first one). */
static struct asked_mail *mail_remove(struct asked_table *table, struct asked *asked, struct asked_mail *before)
{
    struct asked_mail *mail = before ? before->next : asked->first;
    if (!mail)
        return NULL;
    if (before)
        before->next = mail->next;
    else
        asked->first = mail->next;
    if (asked->last == mail)
        asked->last = before;
    assert(table->bytes >= mail->len && asked->mails);
    table->bytes -= mail->len;
    asked->mails--;
    return mail;
}

struct asked_mail *asked_take(struct asked_table *table, struct asked *asked)
{
    return mail_remove(table, asked, NULL);
}

static bool is_speech(const struct asked_mail *mail, uint8_t kind)
{
    return mail->kind == MAIL_SPEECH && mail->bytes[FRAME_HEAD - 1] == kind;
}

/* Drops the speeches of that kind; from: NULL: of any worker, with any number. */
static void drop(struct asked_table *table, struct asked *asked, uint8_t kind, const char *from, uint64_t number)
{
    struct asked_mail *before = NULL, *mail;
    while ((mail = before ? before->next : asked->first) != NULL) {
        if (is_speech(mail, kind) && (!from || (mail->number == number && strcmp(mail->from, from) == 0)))
            free(mail_remove(table, asked, before));
        else
            before = mail;
    }
}

void asked_drop(struct asked_table *table, struct asked *asked, const char *from, uint64_t number)
{
    drop(table, asked, MESSAGE_LOOKUP, from, number);
}

/* ---------------------------------------------------------------- early ones */

static struct asked_early *early_find(const struct asked_table *table, const char *key)
{
    struct map_node *node = map_find(&table->early, key);
    return node ? MAP_ENTRY(node, struct asked_early, node) : NULL;
}

static void early_free(struct asked_table *table, struct asked_early *early)
{
    struct asked_early **link = &table->oldest, *before = NULL;
    while (*link != early) {
        before = *link;
        link = &before->next;
    }
    *link = early->next;
    if (table->newest == early)
        table->newest = before;
    map_remove(&table->early, &early->node);
    table->early_len--;
    table->early_bytes -= early->answer ? early->answer->len : 0;
    free(early->answer);
    free(early);
}

/* Notes that a worker has, or has answered, what an earlier process asked. Takes the answer. */
static void early_add(struct asked_table *table, const struct letter_of *of, const char *worker,
                      struct asked_mail *answer)
{
    char key[65];
    key_of(key, of->id);
    struct asked_early *early = early_find(table, key);
    if (early && (early->answer || !answer)) { /* the first answer is kept */
        free(answer);
        return;
    }
    if (early)
        early_free(table, early);
    early = calloc(1, sizeof *early);
    if (early) {
        memcpy(early->key, key, sizeof key);
        strcpy(early->worker, worker);
        early->nonce = of->nonce;
    }
    if (!early || !map_insert(&table->early, &early->node, early->key)) { /* the question is asked again */
        free(early);
        free(answer);
        return;
    }
    early->answer = answer;
    if (table->newest)
        table->newest->next = early;
    else
        table->oldest = early;
    table->newest = early;
    table->early_len++;
    table->early_bytes += answer ? answer->len : 0;
    while (table->early_len > ASKED_EARLY_MOST || table->early_bytes > ASKED_EARLY_BYTES)
        early_free(table, table->oldest);
}

void asked_held(struct asked_table *table, const struct letter_of *of, const char *worker)
{
    if (!is_ours(table, of->nonce) && !find(table, of->id) && !has_ended(table, of->id))
        early_add(table, of, worker, NULL);
}

/* ---------------------------------------------------------------- questions */

static uint64_t next_nonce(struct asked_table *table)
{
    return (uint64_t)table->generation << 32 | ++table->count;
}

bool asked_already(const struct asked_table *table, const uint8_t id[32])
{
    return find(table, id) != NULL;
}

bool asked_add(struct asked_table *table, struct asked *asked, const uint8_t id[32])
{
    assert(!asked_already(table, id));
    *asked = (struct asked){.of.nonce = next_nonce(table)};
    memcpy(asked->of.id, id, 32);
    key_of(asked->key, id);
    if (!map_insert(&table->asked, &asked->node, asked->key))
        return false;
    asked->next = table->all;
    table->all = asked;
    struct asked_early *early = early_find(table, asked->key);
    if (!early)
        return true;
    asked->of.nonce = early->nonce;
    asked->state = ASKED_KEPT;
    asked->again = true;
    strcpy(asked->worker, early->worker);
    if (early->answer) {
        asked->state = ASKED_ANSWERED;
        table->early_bytes -= early->answer->len;
        mail_add(table, asked, early->answer);
        early->answer = NULL;
    }
    early_free(table, early);
    return true;
}

void asked_remove(struct asked_table *table, struct asked *asked)
{
    struct asked **link = &table->all;
    while (*link != asked)
        link = &(*link)->next;
    *link = asked->next;
    map_remove(&table->asked, &asked->node);
    if (asked->state == ASKED_ANSWERED) {
        memcpy(table->ended[table->ended_next], asked->of.id, 32);
        table->ended_next = (table->ended_next + 1) % ASKED_ENDED;
    } else {
        table->given_up[table->given_up_next] = asked->of.nonce;
        table->given_up_next = (table->given_up_next + 1) % ASKED_GIVEN_UP;
    }
    struct asked_mail *mail;
    while ((mail = asked_take(table, asked)) != NULL)
        free(mail);
}

void asked_again(struct asked_table *table, struct asked *asked)
{
    asked->of.nonce = next_nonce(table);
    asked->state = ASKED_UNSENT;
    asked->again = false;
    asked->worker[0] = '\0';
}

void asked_disconnected(struct asked_table *table)
{
    for (struct asked *asked = table->all; asked; asked = asked->next) {
        asked->again = asked->again || asked->state == ASKED_KEPT;
        if (asked->state == ASKED_SENT) /* the broker may have it: then there are two askings, and one of them counts */
            asked_again(table, asked);
    }
}

void asked_lost(struct asked_table *table)
{
    for (struct asked *asked = table->all; asked; asked = asked->next)
        if (asked->state == ASKED_KEPT)
            asked_again(table, asked);
}

void asked_settled(struct asked_table *table, uint64_t nonce, bool stored)
{
    for (struct asked *asked = table->all; asked; asked = asked->next)
        if (asked->of.nonce == nonce && asked->state == ASKED_SENT)
            asked->state = stored ? ASKED_KEPT : ASKED_UNSENT;
}

/* ---------------------------------------------------------------- letters */

/* Whether the sender computes the asking that counts. It does if no other one is computed yet. */
static bool counts(struct asked *asked, const struct letter_of *of, const char *from)
{
    if (of->nonce != asked->of.nonce && asked->worker[0] && strcmp(asked->worker, from) != 0)
        return false;
    if (of->nonce != asked->of.nonce) { /* the broker has that one, which is enough */
        asked->state = ASKED_KEPT;
        asked->again = true;
    }
    asked->of.nonce = of->nonce;
    strcpy(asked->worker, from);
    return true;
}

/* Whether mail of that kind is kept: progress replaces what was not read, a lookup is kept once, blobs while there is
 * room, because the cache can do without them. */
static bool admit(struct asked_table *table, struct asked *asked, const struct letter_speech *speech)
{
    uint8_t kind = letter_frame_kind(&speech->frame);
    if (kind == MESSAGE_LOOKUP)
        asked_drop(table, asked, speech->from, speech->number);
    if (kind == MESSAGE_PROGRESS)
        drop(table, asked, MESSAGE_PROGRESS, NULL, 0);
    return asked->mails < ASKED_MAILS_MOST && table->bytes + speech->frame.len <= ASKED_BYTES_MOST;
}

enum asked_verdict asked_speech(struct asked_table *table, const struct letter_speech *speech, struct asked **whose)
{
    struct asked *asked = find(table, speech->of.id);
    uint8_t kind = letter_frame_kind(&speech->frame);
    if (!asked)
        return is_ours(table, speech->of.nonce) || has_ended(table, speech->of.id) ? ASKED_UNWANTED : ASKED_DROPPED;
    if (asked->state == ASKED_ANSWERED || was_given_up(table, speech->of.nonce) ||
        !counts(asked, &speech->of, speech->from))
        return ASKED_UNWANTED;
    if ((kind != MESSAGE_PROGRESS && kind != MESSAGE_LOOKUP && kind != MESSAGE_KEEP) || !admit(table, asked, speech))
        return ASKED_DROPPED;
    struct asked_mail *mail = mail_create(MAIL_SPEECH, speech->from, &speech->frame);
    if (!mail)
        return ASKED_DROPPED;
    mail->number = speech->number;
    mail_add(table, asked, mail);
    *whose = asked;
    return ASKED_TAKEN;
}

enum asked_verdict asked_answer(struct asked_table *table, const struct letter_answer *answer, struct asked **whose)
{
    struct asked *asked = find(table, answer->of.id);
    if (letter_frame_kind(&answer->frame) != MESSAGE_ANSWER || (asked && asked->state == ASKED_ANSWERED) ||
        (!asked && (is_ours(table, answer->of.nonce) || has_ended(table, answer->of.id))))
        return ASKED_DROPPED;
    struct asked_mail *mail = mail_create(MAIL_ANSWER, answer->from, &answer->frame);
    if (!mail) { /* it is computed again */
        if (asked)
            asked_again(table, asked);
        return ASKED_DROPPED;
    }
    mail->crashed = answer->crashed;
    if (!asked) {
        early_add(table, &answer->of, answer->from, mail);
        return ASKED_DROPPED;
    }
    asked->state = ASKED_ANSWERED;
    mail_add(table, asked, mail);
    *whose = asked;
    return ASKED_TAKEN;
}

enum asked_verdict asked_dead(struct asked_table *table, const struct letter_question *question, struct asked **whose)
{
    static const struct letter_frame none = {0};
    struct asked *asked = find(table, question->of.id);
    if (!asked || asked->of.nonce != question->of.nonce || asked->state == ASKED_ANSWERED)
        return ASKED_DROPPED;
    if (asked->again) { /* a delivery that was lost with the connection is no fault of the question */
        asked_again(table, asked);
        *whose = asked;
        return ASKED_TAKEN;
    }
    struct asked_mail *mail = mail_create(MAIL_DEAD, "", &none);
    if (!mail)
        return ASKED_DROPPED;
    asked->state = ASKED_ANSWERED;
    mail_add(table, asked, mail);
    *whose = asked;
    return ASKED_TAKEN;
}

void asked_clear(struct asked_table *table)
{
    assert(!table->all && !table->bytes);
    while (table->oldest)
        early_free(table, table->oldest);
    map_clear(&table->early);
    map_clear(&table->asked);
}
