/*
 * Messages between the service and a process that computes, from arbitrary bytes: frames come out of a stream in
 * whatever pieces it arrives, and each is read as every message. What is read as an answer is what the store may keep.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/cells/message.h"
#include "tests/fuzz/fuzz.h"

static void read_answers(const struct unpack *payload)
{
    for (int kind = 0; kind < QUESTION_KINDS; kind++) {
        struct unpack copy = *payload;
        struct answer answer;
        bool whole = message_read_answer(&copy, (enum question_kind)kind, &answer);
        bool solved = whole && kind == QUESTION_SOLVE && answer.error.status == EPS_OK;
        DEMAND(!solved || (answer.result && answer.result->core && answer.result->cache && unpack_done(&copy)));
        answer_clear(&answer);
    }
}

static void read_question(const struct unpack *payload)
{
    struct unpack copy = *payload;
    struct lent lent;
    struct api_job *job;
    struct answer answer;
    bool whole = message_read_question(&copy, &lent, &job, &answer);
    DEMAND(!whole || job || answer.error.message[0]);
    DEMAND(whole || !job);
    api_job_destroy(job);
    answer_clear(&answer);
}

static void read_others(const struct unpack *payload)
{
    struct unpack copy = *payload;
    struct hello hello;
    struct message_progress progress;
    struct message_blob blob;
    struct eps_portion portion;
    enum stop stop;
    size_t threads, blob_len;
    void *found_bytes;
    bool found;
    DEMAND(!message_read_hello(&copy, &hello) || hello.accounting > 0);
    copy = *payload;
    DEMAND(!message_read_threads(&copy, &threads) || threads > 0);
    copy = *payload;
    DEMAND(!message_read_stop(&copy, &stop) || stop != STOP_NONE);
    copy = *payload;
    DEMAND(!message_read_progress(&copy, &progress) || (progress.fraction >= 0 && progress.fraction <= 1));
    copy = *payload;
    DEMAND(!message_read_lookup(&copy, &blob) || blob.kind < EPS_CACHE_KINDS);
    copy = *payload;
    DEMAND(!message_read_keep(&copy, &blob) || blob.kind < EPS_CACHE_KINDS);
    copy = *payload;
    DEMAND(!message_read_ahead(&copy, &portion) || portion.chunks <= EPS_PORTION_CHUNKS);
    copy = *payload;
    DEMAND(!message_read_found(&copy, &found, &found_bytes, &blob_len) || !found || found_bytes);
    free(found_bytes);
}

/* The first byte is the length of the pieces. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct intake intake = {0};
    size_t piece = len ? data[0] + 1u : 1;
    enum intake_next next = INTAKE_MORE;
    for (size_t at = 1; at < len && next != INTAKE_MALFORMED; at += piece) {
        size_t room, more = len - at < piece ? len - at : piece;
        uint8_t *to = intake_room(&intake, &room);
        if (!to)
            break;
        memcpy(to, data + at, more);
        intake_filled(&intake, more);
        uint8_t kind;
        struct unpack payload;
        while ((next = intake_take(&intake, &kind, &payload)) == INTAKE_FRAME) {
            read_answers(&payload);
            read_question(&payload);
            read_others(&payload);
        }
    }
    intake_clear(&intake);
    return 0;
}
