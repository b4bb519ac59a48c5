/*
 * Questions and what arrives for them: the first answer counts, whatever arrives in whatever order; answers to an
 * earlier process find their question; copies of a question are stopped; what is kept is bounded.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/broker/asked.h"

#include <stdlib.h>
#include <string.h>

#include "server/broker/roll.h"
#include "server/cells/message.h"
#include "tests/unit/test.h"

static const uint8_t ids[3][32] = {{1}, {2}, {3}};
#define EARLIER ((uint64_t)1 << 32 | 5) /* a nonce of an earlier process */

static struct asked_table table; /* of 800 KiB, so not on the stack */

static void begin(void)
{
    table = (struct asked_table){.generation = 7};
}

static const struct letter_frame *frame(enum message kind)
{
    static struct packet packet;
    static struct letter_frame it;
    packet_begin(&packet, (uint8_t)kind);
    packet_count(&packet, 1);
    assert_true(packet_end(&packet));
    it = (struct letter_frame){packet.bytes, packet.len};
    return &it;
}

static enum asked_verdict say(const uint8_t *id, uint64_t nonce, const char *from, enum message kind, uint64_t number)
{
    struct letter_speech speech = {.of = {.nonce = nonce}, .number = number, .frame = *frame(kind)};
    struct asked *whose = NULL;
    memcpy(speech.of.id, id, 32);
    strcpy(speech.from, from);
    enum asked_verdict verdict = asked_speech(&table, &speech, &whose);
    assert_true((verdict == ASKED_TAKEN) == (whose != NULL));
    return verdict;
}

static enum asked_verdict answer(const uint8_t *id, uint64_t nonce, const char *from)
{
    struct letter_answer letter = {.of = {.nonce = nonce}, .frame = *frame(MESSAGE_ANSWER)};
    struct asked *whose = NULL;
    memcpy(letter.of.id, id, 32);
    strcpy(letter.from, from);
    return asked_answer(&table, &letter, &whose);
}

static enum asked_verdict dead(const struct letter_of *of)
{
    struct letter_question letter = {.of = *of};
    struct asked *whose = NULL;
    return asked_dead(&table, &letter, &whose);
}

/* The kind of its next mail; -1: none. */
static int next(struct asked *asked)
{
    struct asked_mail *mail = asked_take(&table, asked);
    int kind = mail ? (int)mail->kind : -1;
    free(mail);
    return kind;
}

TEST(a_question_is_asked_and_answered)
{
    struct asked asked;
    begin();
    assert_true(asked_add(&table, &asked, ids[0]));
    assert_int_equal(asked.state, ASKED_UNSENT);
    asked.state = ASKED_SENT;
    asked_settled(&table, asked.of.nonce + 1, true);
    assert_int_equal(asked.state, ASKED_SENT);
    asked_settled(&table, asked.of.nonce, true);
    assert_int_equal(asked.state, ASKED_KEPT);
    assert_int_equal(say(ids[0], asked.of.nonce, "a", MESSAGE_PROGRESS, 0), ASKED_TAKEN);
    assert_string_equal(asked.worker, "a");
    assert_int_equal(answer(ids[0], asked.of.nonce, "a"), ASKED_TAKEN);
    assert_int_equal(answer(ids[0], asked.of.nonce, "b"), ASKED_DROPPED);
    assert_int_equal(next(&asked), MAIL_SPEECH);
    assert_int_equal(next(&asked), MAIL_ANSWER);
    assert_int_equal(next(&asked), -1);
    asked_remove(&table, &asked);
    assert_int_equal(answer(ids[0], asked.of.nonce, "b"), ASKED_DROPPED);
    assert_int_equal(say(ids[0], asked.of.nonce, "b", MESSAGE_PROGRESS, 0), ASKED_UNWANTED);
    asked_clear(&table);
}

TEST(a_question_is_not_asked_twice_at_a_time)
{
    struct asked asked, other;
    begin();
    assert_false(asked_already(&table, ids[0]));
    assert_true(asked_add(&table, &asked, ids[0]));
    assert_true(asked_already(&table, ids[0]) && !asked_already(&table, ids[1]));
    assert_true(asked_add(&table, &other, ids[1]));
    assert_true(other.of.nonce != asked.of.nonce);
    asked_remove(&table, &asked);
    assert_false(asked_already(&table, ids[0]));
    asked_remove(&table, &other);
    asked_clear(&table);
}

/* Its worker stops, so a question that is asked again must not be taken for the one that this worker has. */
TEST(an_asking_that_was_given_up_does_not_count)
{
    struct asked asked;
    begin();
    assert_true(asked_add(&table, &asked, ids[0]));
    struct letter_of before = asked.of;
    asked.state = ASKED_KEPT;
    assert_int_equal(say(ids[0], before.nonce, "a", MESSAGE_PROGRESS, 0), ASKED_TAKEN);
    asked_remove(&table, &asked);
    assert_true(asked_add(&table, &asked, ids[0]));
    assert_int_equal(say(ids[0], before.nonce, "a", MESSAGE_PROGRESS, 0), ASKED_UNWANTED);
    assert_true(asked.state == ASKED_UNSENT && asked.of.nonce != before.nonce && !asked.worker[0]);
    asked.state = ASKED_KEPT;
    assert_int_equal(say(ids[0], asked.of.nonce, "b", MESSAGE_PROGRESS, 0), ASKED_TAKEN);
    assert_int_equal(answer(ids[0], before.nonce, "a"), ASKED_TAKEN); /* it was as good as ready */
    asked_remove(&table, &asked);
    asked_clear(&table);
}

TEST(what_the_broker_may_not_have_is_sent_again)
{
    struct asked sent, kept;
    begin();
    assert_true(asked_add(&table, &sent, ids[0]) && asked_add(&table, &kept, ids[1]));
    uint64_t nonce = sent.of.nonce;
    sent.state = ASKED_SENT;
    kept.state = ASKED_KEPT;
    asked_disconnected(&table);
    assert_true(sent.state == ASKED_UNSENT && sent.of.nonce != nonce && kept.state == ASKED_KEPT);
    /* It had it after all, and a worker is faster than the second copy. */
    assert_int_equal(say(ids[0], nonce, "a", MESSAGE_PROGRESS, 0), ASKED_TAKEN);
    assert_true(sent.state == ASKED_KEPT && sent.of.nonce == nonce);
    asked_lost(&table);
    assert_true(kept.state == ASKED_UNSENT && sent.state == ASKED_UNSENT);
    sent.state = ASKED_SENT;
    asked_settled(&table, sent.of.nonce, false);
    assert_int_equal(sent.state, ASKED_UNSENT);
    asked_remove(&table, &sent);
    asked_remove(&table, &kept);
    asked_clear(&table);
}

TEST(answers_to_an_earlier_process_wait_for_their_question)
{
    struct asked asked;
    begin();
    assert_int_equal(answer(ids[0], EARLIER, "a"), ASKED_DROPPED);
    assert_int_equal(answer(ids[0], EARLIER, "b"), ASKED_DROPPED);
    assert_int_equal(answer(ids[1], (uint64_t)7 << 32 | 99, "a"), ASKED_DROPPED); /* ours, and nobody waits */
    assert_int_equal(table.early_len, 1);
    assert_true(asked_add(&table, &asked, ids[0]));
    assert_true(asked.state == ASKED_ANSWERED && table.early_len == 0 && table.early_bytes == 0);
    assert_int_equal(next(&asked), MAIL_ANSWER);
    asked_remove(&table, &asked);
    assert_int_equal(answer(ids[0], EARLIER, "b"), ASKED_DROPPED); /* and does not wait for the next one */
    assert_int_equal(table.early_len, 0);
    asked_clear(&table);
}

TEST(what_a_worker_computes_for_an_earlier_process_is_not_asked_again)
{
    struct asked asked;
    const struct letter_of of = {.id = {1}, .nonce = EARLIER};
    begin();
    assert_int_equal(say(ids[0], EARLIER, "a", MESSAGE_PROGRESS, 0), ASKED_DROPPED); /* it goes on */
    asked_held(&table, &of, "a");
    asked_held(&table, &of, "a");
    assert_int_equal(table.early_len, 1);
    assert_true(asked_add(&table, &asked, ids[0]));
    assert_true(asked.state == ASKED_KEPT && asked.of.nonce == EARLIER);
    assert_int_equal(dead(&of), ASKED_TAKEN); /* what the earlier process knew of it is not known: once more */
    assert_int_equal(asked.state, ASKED_UNSENT);
    assert_int_equal(answer(ids[0], EARLIER, "a"), ASKED_TAKEN);
    asked_remove(&table, &asked);
    asked_clear(&table);
}

TEST(the_second_worker_with_a_copy_is_stopped)
{
    struct asked asked;
    begin();
    assert_true(asked_add(&table, &asked, ids[0]));
    uint64_t own = asked.of.nonce;
    asked.state = ASKED_KEPT;
    assert_int_equal(say(ids[0], EARLIER, "a", MESSAGE_PROGRESS, 0), ASKED_TAKEN); /* a copy in the queue was faster */
    assert_int_equal(say(ids[0], own, "b", MESSAGE_PROGRESS, 0), ASKED_UNWANTED);
    assert_int_equal(say(ids[0], EARLIER, "c", MESSAGE_PROGRESS, 0), ASKED_TAKEN); /* the same, delivered again */
    assert_string_equal(asked.worker, "c");
    assert_int_equal(answer(ids[0], own, "b"), ASKED_TAKEN); /* answers are equal */
    asked_remove(&table, &asked);
    asked_clear(&table);
}

TEST(a_question_that_no_worker_lives_to_answer)
{
    struct asked asked;
    begin();
    assert_true(asked_add(&table, &asked, ids[0]));
    struct letter_of of = asked.of;
    asked.state = ASKED_KEPT;
    asked_disconnected(&table);
    assert_int_equal(dead(&of), ASKED_TAKEN); /* it may be for the connection: once more */
    assert_true(asked.state == ASKED_UNSENT && asked.of.nonce != of.nonce);
    assert_int_equal(dead(&of), ASKED_DROPPED);
    of = asked.of;
    asked.state = ASKED_KEPT;
    assert_int_equal(dead(&of), ASKED_TAKEN);
    assert_int_equal(next(&asked), MAIL_DEAD);
    assert_int_equal(answer(ids[0], of.nonce, "a"), ASKED_DROPPED);
    asked_remove(&table, &asked);
    asked_clear(&table);
}

TEST(mail_is_bounded)
{
    struct asked asked;
    begin();
    assert_true(asked_add(&table, &asked, ids[0]));
    for (int i = 0; i < 1000; i++) { /* progress that was not read is replaced, and a lookup is kept once */
        assert_int_equal(say(ids[0], asked.of.nonce, "a", MESSAGE_PROGRESS, 0), ASKED_TAKEN);
        assert_int_equal(say(ids[0], asked.of.nonce, "a", MESSAGE_LOOKUP, 3), ASKED_TAKEN);
    }
    assert_int_equal(asked.mails, 2);
    asked_drop(&table, &asked, "a", 3);
    for (int i = 0; i < 1000; i++)
        (void)say(ids[0], asked.of.nonce, "a", MESSAGE_KEEP, 0);
    assert_int_equal(asked.mails, ASKED_MAILS_MOST);
    assert_int_equal(answer(ids[0], asked.of.nonce, "a"), ASKED_TAKEN); /* there is always room for the answer */
    assert_int_equal(say(ids[0], asked.of.nonce, "a", MESSAGE_FOUND, 0), ASKED_UNWANTED);
    asked_remove(&table, &asked);
    assert_int_equal(table.bytes, 0);
    asked_clear(&table);
}

TEST(early_answers_are_bounded)
{
    uint8_t id[32] = {0};
    begin();
    for (unsigned i = 0; i < ASKED_EARLY_MOST + 100; i++) {
        memcpy(id, &i, sizeof i);
        (void)answer(id, EARLIER, "a");
    }
    assert_int_equal(table.early_len, ASKED_EARLY_MOST);
    asked_clear(&table);
}

static unsigned seed = 20261128;

static unsigned draw(unsigned bound)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % bound;
}

/* Whatever arrives, a question has at most one answer, and an answered one stays so until it is asked again. */
TEST(any_order_of_events)
{
    static const enum message kinds[] = {MESSAGE_PROGRESS, MESSAGE_LOOKUP, MESSAGE_KEEP, MESSAGE_STOP};
    static const char *const workers[] = {"a", "b", "c"};
    struct asked asked[3];
    bool there[3] = {false}, answered[3] = {false};
    begin();
    for (int step = 0; step < 200000; step++) {
        unsigned i = draw(3);
        uint64_t nonce = draw(2) && there[i] ? asked[i].of.nonce : draw(2) ? EARLIER : (uint64_t)7 << 32 | draw(9);
        const struct letter_of of = {.id = {(uint8_t)(i + 1)}, .nonce = nonce};
        switch (draw(9)) {
        case 0:
            if (!there[i]) {
                assert_true(asked_add(&table, &asked[i], ids[i]));
                answered[i] = asked[i].state == ASKED_ANSWERED;
                there[i] = true;
            }
            break;
        case 1:
            if (there[i] && (answered[i] || draw(4) == 0)) {
                asked_remove(&table, &asked[i]);
                there[i] = false;
            }
            break;
        case 2:
            if (answer(ids[i], nonce, workers[draw(3)]) == ASKED_TAKEN) {
                assert_true(there[i] && !answered[i]);
                answered[i] = true;
            }
            break;
        case 3:
            (void)say(ids[i], nonce, workers[draw(3)], kinds[draw(4)], draw(3));
            break;
        case 4:
            if (dead(&of) == ASKED_TAKEN)
                answered[i] = asked[i].state == ASKED_ANSWERED;
            break;
        case 5:
            if (there[i] && asked[i].state == ASKED_UNSENT)
                asked[i].state = ASKED_SENT;
            break;
        case 6:
            asked_settled(&table, nonce, draw(4) > 0);
            break;
        case 7:
            if (draw(20) == 0)
                asked_disconnected(&table);
            else if (draw(20) == 0)
                asked_lost(&table);
            asked_held(&table, &of, workers[draw(3)]);
            break;
        default:
            if (there[i])
                free(asked_take(&table, &asked[i]));
        }
        for (i = 0; i < 3; i++)
            assert_true(!there[i] || (asked[i].state == ASKED_ANSWERED) == answered[i]);
    }
    for (unsigned i = 0; i < 3; i++)
        if (there[i])
            asked_remove(&table, &asked[i]);
    asked_clear(&table);
}

TEST(workers_are_accepted_refused_and_lost)
{
    struct roll roll = {0};
    struct roll_demand demand = {.max_bytes = 100};
    struct letter_status status = {.name = "a", .max_bytes = 100, .threads = 3};
    bool fresh;
    build_own(&demand.build);
    status.build = demand.build;
    assert_string_equal(roll_note(&roll, &status, &demand, 1, &fresh)->why, "");
    assert_true(fresh && roll_ready(&roll, 2) == 1);
    assert_int_equal(roll_threads(&roll, 2), 3);
    status.threads = UINT64_MAX;
    roll_note(&roll, &status, &demand, 3, &fresh);
    assert_false(fresh);
    strcpy(status.name, "b");
    status.max_bytes = 99;
    assert_non_null(strstr(roll_note(&roll, &status, &demand, 3, &fresh)->why, "--max-bytes"));
    status.max_bytes = 100;
    status.build.accounting++;
    assert_non_null(strstr(roll_note(&roll, &status, &demand, 3, &fresh)->why, "accounting version"));
    assert_int_equal(roll_state(&roll.workers[1], 4), WORKER_REFUSED);
    assert_true(roll.len == 2 && roll_ready(&roll, 4) == 1);
    assert_int_equal(roll_threads(&roll, 4), ROLL_THREADS_MOST); /* of the one that is ready */
    assert_int_equal(roll_state(&roll.workers[0], 4 + ROLL_SILENT_SECONDS), WORKER_LOST);
    assert_int_equal(roll_ready(&roll, 4 + ROLL_SILENT_SECONDS), 0);
    roll_forget(&roll, 4 + ROLL_GONE_SECONDS);
    assert_int_equal(roll.len, 0);
    roll_clear(&roll);
}
