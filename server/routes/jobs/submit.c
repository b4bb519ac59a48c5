/*
 * POST /v1/jobs. A small body is parsed on the HTTP thread, and a job whose result is cached goes directly to the
 * writer. The gate thread checks whether a job is served; the bulk thread parses large bodies. From then on the
 * connection is suspended until the row is committed or, with a wait, until the job is final.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "server/jobs/submit.h"
#include "server/ops/clock.h"
#include "server/routes/resource.h"
#include "server/routes/waiting.h"

#define SMALL_BODY 65536 /* bytes; parsed in less than a millisecond */

struct posting {
    struct submission submission; /* first */
    struct pool_task task;
    struct watching watching;
    struct request *request;
    double wait_seconds;
    bool preferred;
    bool read;
};

static enum handled post_resume(struct request *request);

static void posting_free(void *state)
{
    struct posting *posting = state;
    submission_clear(&posting->submission);
    free(posting);
}

/* The job that was accepted, or that its key refers to. */
static const char *id_of(const struct submission *submission)
{
    return submission->outcome == SUBMIT_KEY_USED ? submission->insert.key.id : submission->id;
}

/* Whether the request waits for the end of that job. */
static bool waits(const struct posting *posting)
{
    const struct submission *submission = &posting->submission;
    bool replays = submission->outcome == SUBMIT_KEY_USED && submission->insert.key.use == KEY_REPLAYED;
    return posting->wait_seconds > 0 && (submission->outcome == SUBMIT_ACCEPTED || replays);
}

/* Waits for the end if the request asked for it, and otherwise resumes. The caller must not use the request
 * afterwards. */
static void wait_or_resume(struct posting *posting)
{
    struct request *request = posting->request;
    if (waits(posting)) {
        const char *id = id_of(&posting->submission);
        watch_end(&posting->watching, request, id, clock_monotonic() + posting->wait_seconds);
    } else {
        request_resume(request);
    }
}

static void post_stored(struct submission *submission)
{
    wait_or_resume((struct posting *)submission);
}

/* Reads the body, up to the point where a check is needed, or not: *cached. */
static void read_body(struct posting *posting, bool *cached)
{
    struct request *request = posting->request;
    struct submission *submission = &posting->submission;
    const char *body = request->body ? request->body : "";
    submission_read(submission, body, request->body_len);
    if (submission->outcome == SUBMIT_PENDING && resource_key_used(request->server, &submission->insert.key))
        submission->outcome = SUBMIT_KEY_USED;
    if (submission->outcome == SUBMIT_PENDING)
        submission_begin(submission, body, request->body_len, cached);
    request_drop_body(request);
}

/* On the gate or bulk thread. */
static void post_decide(struct pool_task *task)
{
    struct posting *posting = (struct posting *)(void *)((char *)task - offsetof(struct posting, task));
    struct submission *submission = &posting->submission;
    bool cached = false;
    if (!posting->read)
        read_body(posting, &cached);
    if (submission->outcome == SUBMIT_PENDING && !cached)
        submission_check(submission);
    if (submission->outcome == SUBMIT_PENDING)
        submission_store(submission);
    else
        wait_or_resume(posting);
}

static enum handled reply_job(struct request *request, struct posting *posting, struct document *document)
{
    reply_header(request, MHD_HTTP_HEADER_LOCATION, "/v1/jobs/%s", document->id);
    if (posting->preferred)
        reply_header(request, "Preference-Applied", "wait=%.0f", posting->wait_seconds);
    return reply_document(request, document->final ? 200 : 202, document, false);
}

static enum handled post_resume(struct request *request)
{
    struct posting *posting = request->state;
    struct submission *submission = &posting->submission;
    struct document *document = NULL;
    enum store_status status = STORE_FAILED;
    enum handled handled;

    if (submission->outcome == SUBMIT_REFUSED) {
        json_t *problem = submission->problem;
        submission->problem = NULL;
        return reply_problem_json(request, problem);
    }
    if (submission->outcome == SUBMIT_OVER)
        return reply_quota(request, &submission->refusal);
    if (submission->outcome == SUBMIT_KEY_USED && !resource_replays(request, &submission->insert.key, &handled))
        return handled;
    if (submission->outcome == SUBMIT_FINISHED) {
        document = submission_document(submission);
        status = document ? STORE_OK : STORE_FAILED;
    } else {
        status = jobs_get(request->server->jobs, id_of(submission), &document);
    }
    return status == STORE_OK ? reply_job(request, posting, document) : reply_unreadable(request, status);
}

/* From here on the request belongs to another thread. */
static enum handled post_suspended(struct request *request, struct posting *posting, bool cached)
{
    if (!request_suspend(request, post_resume))
        return reply_stopping(request);
    if (posting->submission.outcome != SUBMIT_PENDING)
        wait_or_resume(posting);
    else if (cached)
        submission_store(&posting->submission);
    else
        pool_submit(posting->read ? request->server->gate : request->server->bulk, &posting->task);
    return HANDLED_SUSPENDED;
}

enum handled handle_jobs_post(struct request *request)
{
    bool cached = false;
    struct posting *posting = calloc(1, sizeof *posting);
    if (!posting)
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    request->state = posting;
    request->state_free = posting_free;
    posting->request = request;
    posting->task = request_task(request, post_decide);
    posting->submission.poster = request_poster(request);
    posting->submission.quota = &request->client.quota;
    posting->submission.jobs = request->server->jobs;
    posting->submission.instance = request->path;
    posting->submission.request = request->id;
    posting->submission.client = request->place->client;
    posting->submission.done = post_stored;
    posting->wait_seconds = request_wait_seconds(request, &posting->preferred);
    enum handled handled;
    if (!resource_key(request, &posting->submission.insert.key, &handled))
        return handled;
    if (request->body_len <= SMALL_BODY) {
        posting->read = true;
        read_body(posting, &cached);
        if (posting->submission.outcome != SUBMIT_PENDING && !waits(posting))
            return post_resume(request);
    }
    return post_suspended(request, posting, cached);
}
