/*
 * `epsilond solve`: solves one job without a server. It decodes, computes and encodes like the service, with its own
 * worker threads. With --db it uses and fills the caches and results of that database, but stores no job.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/problem.h"
#include "server/commands.h"
#include "server/jobs/compute.h"
#include "server/jobs/decode.h"
#include "server/jobs/document.h"
#include "server/ops/log.h"
#include "server/ops/signals.h"

#define READ_PIECE 65536
#define GRACE_SECONDS 4.0 /* the time in which a computation must stop after a signal */

struct solving {
    struct config config;
    struct text input;
    struct api_job *job;
    struct job_record record;
    struct server server; /* only the parts needed for computing */
    struct computation computation;
    bool from_cache;
};

static bool read_input(const char *path, struct text *input, char *message, size_t message_size)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "r");
    char piece[READ_PIECE];
    size_t len;
    if (!file) {
        snprintf(message, message_size, "cannot read %.200s", path);
        return false;
    }
    while ((len = fread(piece, 1, sizeof piece, file)) > 0)
        text_append(input, piece, len);
    bool ok = !ferror(file) && !input->failed;
    if (!ok)
        snprintf(message, message_size, "cannot read %.200s", path);
    if (!standard)
        fclose(file);
    return ok;
}

/* Prints a problem document, of which it takes ownership. */
static int print_problem(json_t *problem)
{
    char *text = api_json_text_new(problem);
    puts(text ? text : "{\"type\":\"/problems/internal\",\"title\":\"Internal error\",\"status\":500}");
    free(text);
    return 1;
}

static bool solve_canceled(void *user)
{
    (void)user;
    return signals_asked();
}

static void solve_progress(void *user, double fraction, const char *stage, double remaining_seconds)
{
    (void)user;
    fprintf(stderr, "\r%3.0f%% %-16s", 100 * fraction, stage ? stage : "");
    if (isfinite(remaining_seconds))
        fprintf(stderr, " %.0f s left ", remaining_seconds);
    fflush(stderr);
}

static void fill_record(struct solving *solving)
{
    solving->record.job = api_json_text_new(api_job_encode(solving->job, true));
    api_job_hash(solving->record.hash, solving->job);
    solving->record.label = solving->job->label ? strdup(solving->job->label) : NULL;
    uuid_next(solving->record.id);
    solving->record.created_at = clock_now_ms();
    solving->record.started_at = solving->record.created_at;
    solving->record.attempts = 1;
}

/* Stores the result for the next solve or serve with this database. */
static void keep_result(struct store *store, const struct computation *computation)
{
    struct store_update update = {
        .result = computation->result,
        .uses = (const uint8_t(*)[32])computation->uses,
        .uses_len = computation->uses_len,
    };
    store_update_jobs_wait(store, &update);
}

static void compute(struct solving *solving)
{
    struct computation *computation = &solving->computation;
    const struct config *config = &solving->config;
    struct store *store = solving->server.store;
    struct checks limits = {config, store, ""};
    struct eps_context checks = computation_checks(&limits);
    solving->from_cache = store && store_read_result(store, solving->record.hash, EPS_ACCOUNTING_VERSION,
                                                     &computation->result) == STORE_OK;
    if (solving->from_cache)
        return;
    bool terminal = isatty(STDERR_FILENO);
    computation->status = eps_job_serves(&checks, &computation->error, &solving->job->job, NULL, NULL);
    if (computation->status != EPS_OK)
        return;
    computation_open(computation, &solving->server, NULL, config->max_seconds);
    computation->canceled = solve_canceled;
    computation->progress = terminal ? solve_progress : NULL;
    computation_run(computation, solving->job, solving->record.hash);
    if (terminal)
        fputs("\r\033[K", stderr);
    if (store && computation->result)
        keep_result(store, computation);
    computation_close(computation);
}

static int print_answer(struct solving *solving)
{
    struct computation *computation = &solving->computation;
    struct text text = {0};
    if (computation->status != EPS_OK) {
        api_job_locate(solving->job, &computation->error);
        return print_problem(api_problem_of_error(&computation->error, NULL));
    }
    solving->record.status = JOB_SUCCEEDED;
    solving->record.from_cache = solving->from_cache;
    solving->record.finished_at = clock_now_ms();
    document_write(&text, &solving->record, computation->result, NULL, false, false);
    if (text.failed) {
        text_clear(&text);
        return print_problem(NULL);
    }
    puts(text.data);
    text_clear(&text);
    return 0;
}

static int solve_one(struct solving *solving, char *message, size_t message_size)
{
    json_t *problem = NULL;
    struct server *server = &solving->server;
    server->config = &solving->config;
    const struct text *input = &solving->input;
    solving->job = decode_request(input->data ? input->data : "", input->len, solving->config.max_n, NULL, &problem);
    if (!solving->job)
        return print_problem(problem);
    fill_record(solving);
    if (!solving->record.job || !solving->record.hash[0])
        return print_problem(NULL);
    if (solving->config.db) {
        struct store_options options = {.path = solving->config.db,
                                        .guest = true,
                                        .cache_bytes = solving->config.cache_bytes,
                                        .chunk_bytes = solving->config.chunk_bytes};
        server->store = store_open(&options, message, message_size);
        if (!server->store)
            return 2;
    }
    server->pool = pool_create((size_t)solving->config.workers, 0, METRIC_COUNT);
    if (!server->pool) {
        snprintf(message, message_size, "cannot start %llu threads", (unsigned long long)solving->config.workers);
        return 2;
    }
    compute(solving);
    return print_answer(solving);
}

/* On the signal thread: the computation did not stop in time; it may be in an eigendecomposition. */
static int overdue(void *unused)
{
    (void)unused;
    int status = print_problem(api_problem_encode(API_PROBLEM_CANCELED, "the computation was stopped", NULL, NULL));
    fflush(stdout);
    return status;
}

int command_solve(int argc, char **argv)
{
    struct solving solving = {0};
    char message[512] = "out of threads";
    int status = 2;

    int operand = config_read(&solving.config, CONFIG_SOLVE, argc, argv, message, sizeof message);
    if (operand == -2) {
        print_help();
        return 0;
    }
    if (operand >= 0 && argc - operand > 1) {
        snprintf(message, sizeof message, "solve takes at most one file");
        operand = -1;
    }
    if (operand >= 0) {
        log_start(solving.config.log_level > LOG_LEVEL_INFO ? solving.config.log_level : LOG_LEVEL_WARN);
        if (read_input(operand < argc ? argv[operand] : "-", &solving.input, message, sizeof message)) {
            signals_start(); /* only now, so that reading from the terminal can be interrupted as usual */
            status = signals_watch(GRACE_SECONDS, overdue, NULL) ? solve_one(&solving, message, sizeof message) : 2;
        }
    }
    if (status == 2)
        fprintf(stderr, "epsilond: %s\n", message);
    pool_destroy(solving.server.pool);
    store_close(solving.server.store);
    result_record_release(solving.computation.result);
    job_record_clear(&solving.record);
    api_job_destroy(solving.job);
    text_clear(&solving.input);
    return status;
}
