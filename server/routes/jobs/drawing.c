/*
 * The strategy is that of the factorization.id of the result, if the store still has it (computation_strategy()), so
 * that the matrix shown is the one that was used. In a job with phases, each phase has its own.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/jobs/drawing.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/http/wait.h"
#include "server/jobs/compute.h"
#include "server/jobs/decode.h"
#include "server/jobs/jobs.h"
#include "server/jobs/realm.h"
#include "server/routes/jobs/answered.h"

static void drawing_free(void *state)
{
    struct drawing *drawing = state;
    if (drawing->fd >= 0)
        close(drawing->fd);
    jobs_unreserve(drawing->request->server->jobs, &drawing->waiting);
    if (drawing->len)
        budget_give(&drawing->request->server->spool, drawing->len);
    json_decref(drawing->problem);
    job_record_clear(&drawing->record);
    result_record_release(drawing->result);
    free(drawing);
}

void drawing_fail(struct drawing *drawing, enum api_problem problem, const char *detail)
{
    if (!drawing->problem)
        drawing->problem = api_problem_encode(problem, detail, drawing->request->path, NULL);
}

bool drawing_ok(struct drawing *drawing, enum eps_status status, const struct eps_error *error)
{
    if (status == EPS_OK)
        return true;
    if (!drawing->problem)
        drawing->problem = api_problem_of_error(error, drawing->request->path);
    return false;
}

bool drawing_stopping(struct drawing *drawing)
{
    return work_unwanted(&drawing->work);
}

void drawing_numbers(FILE *file, const double *values, size_t len)
{
    struct text text = {0};
    fputc('[', file);
    for (size_t i = 0; i < len; i++) {
        text.len = 0;
        text_puts(&text, i ? "," : "");
        text_number(&text, values[i]);
        fwrite(text.data, 1, text.len, file);
    }
    fputc(']', file);
    text_clear(&text);
}

/* ---------------------------------------------------------------- the file */

/* The callback with which the stream writes; a result of 0 signals an error to it. */
static ssize_t spool_write(void *cookie, const char *data, size_t len)
{
    struct drawing *drawing = cookie;
    struct budget *spool = &drawing->request->server->spool;
    if (!budget_take(spool, len, spool->most)) {
        drawing_fail(drawing, API_PROBLEM_QUEUE_FULL, "the disk space for matrix files is in use (--spool-bytes)");
        return 0;
    }
    drawing->len += len;
    for (size_t done = 0; done < len;) {
        ssize_t wrote = write(drawing->fd, data + done, len - done);
        if (wrote <= 0)
            return 0;
        done += (size_t)wrote;
    }
    return (ssize_t)len;
}

/* Creates the file with mode 0600 and unlinks it. */
static bool spool_open(struct drawing *drawing, const char *database)
{
    struct text name = {0};
    text_printf(&name, "%s.XXXXXX", database);
    drawing->fd = name.failed ? -1 : mkostemp(name.data, O_CLOEXEC);
    if (drawing->fd >= 0) {
        unlink(name.data);
        drawing->file = fopencookie(drawing, "w", (cookie_io_functions_t){.write = spool_write});
    }
    text_clear(&name);
    return drawing->file != NULL;
}

static void spool_close(struct drawing *drawing)
{
    if (drawing->file && fclose(drawing->file) != 0)
        drawing_fail(drawing, API_PROBLEM_INTERNAL, "the temporary file could not be written");
    drawing->file = NULL;
}

/* ---------------------------------------------------------------- on the side pool */

static void draw(struct drawing *drawing, struct api_job *job)
{
    struct server *server = drawing->request->server;
    const struct config *config = server->config;
    struct eps_strategy *strategy = NULL;
    struct eps_error error = {0};
    double longest = config->max_seconds > 0 ? fmin(config->max_seconds, WAIT_MAX_SECONDS) : WAIT_MAX_SECONDS;
    struct computation computation;
    struct answered answered;
    if (!answered_read(&answered, &job->job, drawing->result, drawing->phase, true, drawing->request->path,
                       &drawing->problem))
        return;
    drawing->noise_multiplier = answered.noise_multiplier;
    computation_open(&computation, server, &drawing->work, longest);
    computation.realm = realm_of(config, &drawing->record.poster);
    computation.account = drawing->request->account;
    computation.deadline = drawing->request->started + longest;
    computation.job = drawing->record.id;
    computation.request = drawing->record.request;
    struct eps_context context = computation_context(&computation);
    if (drawing_ok(drawing,
                   computation_strategy(&context, &strategy, &error, &answered.mechanism, answered.factorization),
                   &error))
        drawing->write(drawing, &context, strategy);
    computation_close(&computation);
    eps_strategy_destroy(strategy);
}

static void draw_task(struct pool_task *task)
{
    struct drawing *drawing = (struct drawing *)task;
    struct server *server = drawing->request->server;
    struct eps_error error;
    jobs_unreserve(server->jobs, &drawing->waiting);
    struct api_job *job = decode_stored(&drawing->record, server->config, &error);
    if (drawing_stopping(drawing))
        drawing_fail(drawing, API_PROBLEM_QUEUE_FULL, "the service is stopping");
    else if (!spool_open(drawing, server->config->db))
        drawing_fail(drawing, API_PROBLEM_INTERNAL, "no temporary file could be created next to the database");
    else if (!job)
        drawing_fail(drawing, API_PROBLEM_INTERNAL, error.message);
    else
        draw(drawing, job);
    spool_close(drawing);
    api_job_destroy(job);
    job_record_clear(&drawing->record);
    request_resume(drawing->request);
}

/* ---------------------------------------------------------------- the request */

static enum handled drawing_resume(struct request *request)
{
    struct drawing *drawing = request->state;
    if (drawing->problem) {
        json_t *problem = drawing->problem;
        drawing->problem = NULL;
        return reply_problem_json(request, problem);
    }
    if (drawing->fd < 0) /* no thread had started it */
        return reply_gone(request);
    int fd = drawing->fd;
    drawing->fd = -1; /* the reply owns it */
    reply_header(request, MHD_HTTP_HEADER_VARY, "Accept");
    return reply_file(request, request->route->produces[request->offer], fd, drawing->len);
}

static bool drawing_give(void *user)
{
    struct drawing *drawing = user;
    pool_submit(drawing->request->server->side, &drawing->work.task);
    return true;
}

/* A drawing that a thread has started is abandoned soon. */
static bool drawing_take_back(void *user)
{
    struct drawing *drawing = user;
    work_cancel(&drawing->work);
    return pool_withdraw(drawing->request->server->side, &drawing->work.task);
}

enum handled drawing_start(struct request *request, drawing_write *write, enum eps_part part)
{
    static const struct holder holder = {drawing_give, drawing_take_back};
    struct job_record record;
    struct result_record *result;
    enum handled handled;
    if (!read_succeeded(request, &record, &result, &handled))
        return handled;
    memcpy(request->job, record.id, UUID_SIZE);
    struct drawing *drawing = calloc(1, sizeof *drawing);
    if (!drawing) {
        result_record_release(result);
        job_record_clear(&record);
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    }
    request->state = drawing;
    request->state_free = drawing_free;
    drawing->request = request;
    drawing->fd = -1;
    work_init(&drawing->work, request->server->works, WORK_DRAWING, NULL);
    drawing->work.task = request_task(request, draw_task);
    drawing->write = write;
    drawing->work.task.background = true;
    drawing->part = part;
    drawing->phase = request_phase(request);
    drawing->result = result;
    drawing->record = record;
    struct quota_refusal refusal;
    struct reservation waiting = {.account = request->account,
                                  .bytes = sizeof *drawing + job_record_bytes(&record) + result_record_bytes(result)};
    enum jobs_room room = jobs_reserve(request->server->jobs, &waiting, &request->client.quota, &refusal);
    if (room == JOBS_OVER)
        return reply_quota(request, &refusal);
    if (room == JOBS_FULL)
        return reply_problem(request, API_PROBLEM_QUEUE_FULL, "the queue is full; try again later");
    drawing->waiting = waiting;
    if (!request_suspend(request, drawing_resume))
        return reply_stopping(request);
    request_give(request, &holder, drawing, INFINITY);
    return HANDLED_SUSPENDED;
}
