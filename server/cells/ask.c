/*
 * A question and its cell. The thread that asks waits for messages of the cell and answers its lookups by the hooks of
 * the context; in between, it asks these hooks whether the answer is still wanted. So this thread responds,
 * whatever the cell does or does not do.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/cells/ask.h"
#include "server/cells/confine.h"
#include "server/cells/internal.h"
#include "server/ops/log.h"

#define TICK_MS 10        /* between two calls of canceled() and expired() */
#define SEND_SECONDS 30.0 /* for a cell that waits for a message to read it */
#define KILLED_MOST 2     /* a question is asked again after its cell was killed, until so many have been */
#define STAGES_MOST 64    /* different stages that are remembered */

/* One attempt. */
struct asking {
    struct cells *cells;
    struct cell *cell;
    const struct question *question;
    const struct eps_context *context;
    struct answer *answer;
    uint64_t max_n;
    size_t threads; /* as told to the cell */
    enum stop stop; /* likewise */
    double stopped_at;
    bool lost; /* the cell does not take what is sent to it */
};

/* The cell that this thread waits for. */
static _Thread_local struct cell *waited;

void cells_rest(void)
{
    if (waited)
        kill(waited->pid, SIGSTOP);
}

void cells_go_on(void)
{
    if (waited)
        kill(waited->pid, SIGCONT);
}

/* ---------------------------------------------------------------- its messages */

/* The same stage as a text that stays valid; NULL: none, or there are too many different ones. */
static const char *stage_of(const char *stage)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static char *stages[STAGES_MOST];
    size_t i = 0;
    if (!*stage)
        return NULL;
    pthread_mutex_lock(&mutex);
    while (i < STAGES_MOST && stages[i] && strcmp(stages[i], stage) != 0)
        i++;
    if (i < STAGES_MOST && !stages[i])
        stages[i] = strdup(stage);
    const char *kept = i < STAGES_MOST ? stages[i] : NULL;
    pthread_mutex_unlock(&mutex);
    return kept;
}

static bool on_progress(const struct eps_context *context, struct unpack *payload)
{
    struct message_progress progress;
    if (!message_read_progress(payload, &progress) || !context->progress)
        return false;
    context->progress(context->user, progress.fraction, stage_of(progress.stage), progress.remaining_seconds);
    return true;
}

static bool on_lookup(const struct eps_context *context, struct unpack *payload, struct packet *reply)
{
    struct message_blob blob;
    void *bytes = NULL;
    size_t len = 0;
    if (!message_read_lookup(payload, &blob) || !context->cache_get)
        return false;
    bool found = context->cache_get(context->user, blob.kind, blob.key, &bytes, &len);
    message_found(reply, found, bytes, len);
    if (reply->failed) /* out of memory: as if it were not there */
        message_found(reply, false, NULL, 0);
    free(bytes);
    return true;
}

static bool on_keep(const struct eps_context *context, struct unpack *payload)
{
    struct message_blob blob;
    if (!message_read_keep(payload, &blob) || !context->cache_put)
        return false;
    context->cache_put(context->user, blob.kind, blob.key, blob.bytes, blob.len);
    return true;
}

static bool on_ahead(const struct eps_context *context, struct unpack *payload)
{
    struct eps_portion portion;
    if (!message_read_ahead(payload, &portion) || !context->ahead)
        return false;
    context->ahead(context->user, &portion);
    return true;
}

bool ask_obey(const struct eps_context *context, uint8_t kind, struct unpack *payload, struct packet *reply)
{
    switch (kind) {
    case MESSAGE_PROGRESS:
        return on_progress(context, payload);
    case MESSAGE_LOOKUP:
        return on_lookup(context, payload, reply);
    case MESSAGE_KEEP:
        return on_keep(context, payload);
    case MESSAGE_AHEAD:
        return on_ahead(context, payload);
    default:
        return false;
    }
}

unsigned ask_hooks(const struct eps_context *context)
{
    return (context->progress ? HOOK_PROGRESS : 0u) | (context->canceled ? HOOK_CANCELED : 0u) |
           (context->expired ? HOOK_EXPIRED : 0u) | (context->cache_get ? HOOK_GET : 0u) |
           (context->cache_put ? HOOK_PUT : 0u) | (context->parallel_for ? HOOK_PARALLEL : 0u) |
           (context->ahead ? HOOK_AHEAD : 0u);
}

/* What the messages that have arrived lead to. */
enum heard { HEARD_NOTHING, HEARD_ANSWER, HEARD_NONSENSE };

static enum heard hear(struct asking *asking)
{
    uint8_t kind;
    struct unpack payload;
    enum intake_next next;
    while ((next = intake_take(&asking->cell->intake, &kind, &payload)) == INTAKE_FRAME) {
        if (kind == MESSAGE_ANSWER) {
            if (message_read_answer(&payload, asking->question->kind, asking->answer))
                return HEARD_ANSWER;
            answer_clear(asking->answer);
        }
        struct packet *reply = &asking->cell->packet;
        bool sense = ask_obey(asking->context, kind, &payload, reply);
        if (sense && kind == MESSAGE_LOOKUP)
            asking->lost = reply->failed || !cell__send(asking->cell, SEND_SECONDS);
        if (!sense)
            return HEARD_NONSENSE;
    }
    return next == INTAKE_MORE ? HEARD_NOTHING : HEARD_NONSENSE;
}

/* ---------------------------------------------------------------- waiting */

/* Tells the cell what has changed. Returns false if it should have ended long ago. */
static bool tick(struct asking *asking)
{
    const struct eps_context *context = asking->context;
    struct cell *cell = asking->cell;
    double now = clock_monotonic();
    bool canceled = context->canceled && context->canceled(context->user);
    bool expired = context->expired && context->expired(context->user);
    enum stop stop = canceled ? STOP_CANCELED : expired ? STOP_EXPIRED : STOP_NONE;
    size_t threads = cells__part(asking->cells);
    if (stop != STOP_NONE && asking->stop == STOP_NONE) {
        asking->stop = stop;
        asking->stopped_at = now;
    }
    if (stop != STOP_NONE) { /* again, because there may have been no room for it */
        message_stop(&cell->packet, asking->stop);
        cell__tell(cell);
    } else if (threads != asking->threads) {
        asking->threads = threads;
        message_threads(&cell->packet, threads);
        cell__tell(cell);
    }
    return asking->stop == STOP_NONE || now < asking->stopped_at + cells__config(asking->cells)->watchdog_seconds;
}

static bool send_question(struct asking *asking)
{
    const struct eps_context *context = asking->context;
    asking->threads = cells__part(asking->cells);
    const struct lent lent = {
        .question = *asking->question,
        .max_n = asking->max_n,
        .max_operations = context->max_operations,
        .max_bytes = context->max_bytes,
        .threads = asking->threads,
        .hooks = ask_hooks(context),
    };
    message_question(&asking->cell->packet, &lent);
    if (asking->cell->packet.failed)
        answer_fail(asking->answer, EPS_NO_MEMORY, "out of memory");
    return !asking->cell->packet.failed && cell__send(asking->cell, SEND_SECONDS);
}

/* Asks, and waits for the answer. CELL_ORDERLY: there is one. Otherwise the cell is to be ended in this way. */
static enum cell_end converse(struct asking *asking)
{
    enum heard heard = HEARD_NOTHING;
    double next = clock_monotonic() + TICK_MS * 1e-3;
    if (!send_question(asking))
        return asking->answer->error.status == EPS_OK ? CELL_KILLED : CELL_ORDERLY;
    while (heard == HEARD_NOTHING) {
        bool connected = cell__receive(asking->cell, TICK_MS);
        heard = hear(asking);
        if (heard != HEARD_ANSWER && (asking->lost || (heard == HEARD_NOTHING && !connected)))
            return CELL_KILLED; /* or in another way: its status says so */
        if (heard == HEARD_NOTHING && clock_monotonic() >= next) {
            if (!tick(asking))
                return CELL_OVERDUE;
            next = clock_monotonic() + TICK_MS * 1e-3;
        }
    }
    return heard == HEARD_ANSWER ? CELL_ORDERLY : CELL_MALFORMED;
}

/* ---------------------------------------------------------------- its end */

static const char *const ends[CELL_ENDS] = {
    [CELL_ORDERLY] = "orderly",     [CELL_CRASHED] = "crashed", [CELL_KILLED] = "killed",
    [CELL_FORBIDDEN] = "forbidden", [CELL_OVERDUE] = "overdue", [CELL_MALFORMED] = "malformed"};

static void log_death(const struct asker *asker, int pid, const struct cell_death *death, bool again)
{
    log_event(LOG_LEVEL_ERROR, "cell-died", "pid=%d reason=%s job=%s request=%s detail=\"%s\" action=\"%s\"", pid,
              ends[death->end], asker && asker->job ? asker->job : "-",
              asker && asker->request && *asker->request ? asker->request : "-", death->words,
              again ? "the computation starts again in another process" : "the computation fails");
}

/* What a client is told of a death. */
static void tell_death(struct answer *answer, const struct cell_death *death, const struct asking *asking)
{
    static const char report[] =
        "; nothing else was affected. A smaller job of the same kind may succeed; please report it as a bug";
    if (death->end == CELL_OVERDUE && asking->stop == STOP_CANCELED) {
        answer_fail(answer, EPS_CANCELED, "canceled");
        return;
    }
    answer->crashed = true;
    switch (death->end) {
    case CELL_OVERDUE:
        answer->crashed = false;
        answer_fail(answer, EPS_TIMEOUT,
                    "the computation exceeded the time limit of the service (--max-seconds) and did not stop, so its "
                    "process was ended, which is a bug in the service: please report it");
        break;
    case CELL_KILLED:
        answer_fail(answer, EPS_NO_MEMORY,
                    "the process of the computation was killed twice (%s), as the system does when memory runs out; "
                    "nothing else was affected. A smaller job, or a service with fewer workers, needs less memory",
                    death->words);
        break;
    case CELL_FORBIDDEN:
        answer_fail(answer, EPS_INTERNAL, "the computation made a system call that it must not make (%s)%s",
                    death->words, report);
        break;
    case CELL_MALFORMED:
        answer_fail(answer, EPS_INTERNAL, "the process of the computation sent messages that make no sense%s", report);
        break;
    case CELL_CRASHED:
    case CELL_ORDERLY:
    case CELL_ENDS:
        answer_fail(answer, EPS_INTERNAL, "the process of the computation ended without an answer (%s)%s", death->words,
                    report);
        break;
    }
}

/* Memory that a cell lacked is its own limit, more often than that of the machine. */
static void explain_memory(const struct cells *cells, struct answer *answer)
{
    const struct config *config = cells__config(cells);
    double most = (double)confine_address_space(config->max_bytes, config->workers) / 0x1p30;
    if (answer->error.status == EPS_NO_MEMORY) {
        answer_fail(answer, EPS_NO_MEMORY,
                    "the computation ran out of memory, of which its process may have %.1f GiB (more with a higher "
                    "--max-bytes); nothing else was affected. A smaller job of the same kind needs less",
                    most);
    }
}

void cells_ask(struct cells *cells, const struct question *question, const struct eps_context *context,
               const struct asker *asker, struct answer *answer)
{
    enum cell_end end = CELL_KILLED;
    *answer = (struct answer){0};
    for (int killed = 0; end == CELL_KILLED && killed < KILLED_MOST; killed++) {
        struct asking asking = {
            .cells = cells, .question = question, .context = context, .answer = answer, .stop = STOP_NONE};
        asking.max_n = asker && asker->max_n ? asker->max_n : cells__config(cells)->max_n;
        asking.cell = cells__take(cells, pool_prompt(), context, answer);
        if (!asking.cell)
            return;
        waited = asking.cell;
        end = converse(&asking);
        waited = NULL;
        if (end == CELL_ORDERLY) {
            explain_memory(cells, answer);
            cells__give(cells, asking.cell, answer->compute_seconds);
            continue;
        }
        int pid = (int)asking.cell->pid;
        struct cell_death death = cells__died(asking.cell, end);
        end = death.end;
        bool again = end == CELL_KILLED && killed + 1 < KILLED_MOST;
        log_death(asker, pid, &death, again);
        if (!again)
            tell_death(answer, &death, &asking);
    }
}
