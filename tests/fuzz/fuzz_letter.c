/*
 * Letters from a broker, from arbitrary bytes: each is read as every letter, and the questions that a server has asked
 * take what it says. A question that was answered stays so.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/broker/asked.h"
#include "server/broker/roll.h"
#include "tests/fuzz/fuzz.h"

static struct asked_table table;
static struct asked asked;

static void read_questions(const struct unpack *payload)
{
    struct unpack copy = *payload;
    struct letter_question question;
    struct letter_speech speech;
    struct letter_answer answer;
    struct asked *whose = NULL;
    bool answered = asked.state == ASKED_ANSWERED;
    if (letter_read_question(&copy, &question)) {
        DEMAND(question.server[0] && question.seconds >= 0 && question.frame.len >= FRAME_HEAD);
        DEMAND(asked_dead(&table, &question, &whose) != ASKED_TAKEN || whose == &asked);
    }
    copy = *payload;
    if (letter_read_speech(&copy, &speech))
        DEMAND(asked_speech(&table, &speech, &whose) != ASKED_TAKEN || (whose == &asked && !answered));
    copy = *payload;
    if (letter_read_answer(&copy, &answer))
        DEMAND(asked_answer(&table, &answer, &whose) != ASKED_TAKEN || (whose == &asked && !answered));
    DEMAND(asked.mails <= ASKED_MAILS_MOST + 1);
    DEMAND(!answered || asked.state == ASKED_ANSWERED);
}

static void read_workers(const struct unpack *payload)
{
    struct unpack copy = *payload;
    struct letter_status status;
    struct letter_held held;
    struct letter_call call;
    struct roll roll = {0};
    const struct roll_demand demand = {.max_bytes = 1};
    bool fresh;
    if (letter_read_status(&copy, &status)) {
        DEMAND(status.held_len <= LETTER_HELD_MOST && roll_note(&roll, &status, &demand, 1, &fresh));
        for (size_t i = 0; i < status.held_len; i++) {
            DEMAND(letter_read_held(&status.held, &held));
            asked_held(&table, &held.of, status.name);
        }
    }
    roll_clear(&roll);
    copy = *payload;
    DEMAND(!letter_read_call(&copy, &call) || (call.server[0] && call.verdict <= LETTER_REFUSED));
}

/* Letters one after the other. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const uint8_t id[32] = {1};
    struct intake intake = {0};
    size_t room;
    uint8_t kind;
    struct unpack payload;
    table = (struct asked_table){.generation = 7};
    DEMAND(asked_add(&table, &asked, id));
    asked.state = ASKED_KEPT;
    for (size_t at = 0; at < len;) {
        uint8_t *to = intake_room(&intake, &room);
        room = len - at < room ? len - at : room;
        memcpy(to, data + at, room);
        intake_filled(&intake, room);
        at += room;
    }
    while (len && intake_take(&intake, &kind, &payload) == INTAKE_FRAME) {
        read_questions(&payload);
        read_workers(&payload);
    }
    asked_remove(&table, &asked);
    asked_clear(&table);
    intake_clear(&intake);
    return 0;
}
