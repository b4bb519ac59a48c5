/*
 * Accepts jobs.
 *
 * The decoded form of a request depends only on its bytes, so it is cached by the hash of the bytes: a repeated request
 * is answered without parsing.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/jobs/submit.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs/compute.h"
#include "server/jobs/decode.h"
#include "server/jobs/internal.h"
#include "server/jobs/realm.h"
#include "server/ops/metrics.h"

static void refuse(struct submission *submission, json_t *problem)
{
    submission->outcome = SUBMIT_REFUSED;
    submission->problem = problem;
}

static void refuse_with(struct submission *submission, enum api_problem problem, const char *detail)
{
    refuse(submission, api_problem_encode(problem, detail, submission->instance, NULL));
}

/* ---------------------------------------------------------------- reading */

/* The canonical text and, if the job has arrays, the text without them for lists. */
static bool encode_texts(struct job_record *record, const struct api_job *decoded)
{
    record->job = api_json_text_new(api_job_encode(decoded, true));
    record->brief = decoded->arrays_len ? api_json_text_new(api_job_encode_brief(decoded)) : NULL;
    return record->job && !record->brief == !decoded->arrays_len;
}

static struct api_job *decode(struct submission *submission, const char *body, size_t body_len)
{
    json_t *problem = NULL;
    uint64_t max_n = submission->jobs->server->config->max_n;
    struct api_job *decoded = decode_request(body, body_len, max_n, submission->instance, &problem);
    if (!decoded)
        refuse(submission, problem);
    return decoded;
}

/* The decoded form of some bytes: hash, label and texts. Immutable and reference-counted. */
struct prototype {
    atomic_int references;
    struct job_record record;
};

void jobs__prototype_retain(void *value)
{
    struct prototype *prototype = value;
    atomic_fetch_add_explicit(&prototype->references, 1, memory_order_relaxed);
}

void jobs__prototype_release(void *value)
{
    struct prototype *prototype = value;
    if (atomic_fetch_sub_explicit(&prototype->references, 1, memory_order_acq_rel) == 1) {
        job_record_clear(&prototype->record);
        free(prototype);
    }
}

/* Copies hash, label and texts. */
static bool record_copy(struct job_record *to, const struct job_record *from)
{
    memcpy(to->hash, from->hash, HASH_SIZE);
    to->label = from->label ? strdup(from->label) : NULL;
    to->job = strdup(from->job);
    to->brief = from->brief ? strdup(from->brief) : NULL;
    return to->job && !to->label == !from->label && !to->brief == !from->brief;
}

static void remember_prototype(struct submission *submission, const char *key)
{
    struct memory *requests = submission->jobs->requests;
    struct prototype *prototype = calloc(1, sizeof *prototype);
    if (!prototype)
        return;
    atomic_init(&prototype->references, 1);
    if (record_copy(&prototype->record, &submission->record))
        memory_put(requests, key, prototype, job_record_bytes(&prototype->record), memory_mark(requests));
    jobs__prototype_release(prototype);
}

static bool record_decoded(struct job_record *record, const struct api_job *decoded, const char *realm)
{
    api_job_hash(record->hash, decoded);
    realm_hash(realm, record->hash);
    record->label = decoded->label ? strdup(decoded->label) : NULL;
    return record->hash[0] && !record->label == !decoded->label && encode_texts(record, decoded);
}

/* Fills in the record, from memory or by decoding. Returns false if the request is rejected. */
static bool fill_record(struct submission *submission, const char *body, size_t body_len)
{
    struct job_record *record = &submission->record;
    const char *realm = realm_of(submission->jobs->server->config, &submission->poster);
    unsigned char digest[32];
    char key[HASH_SIZE];
    crypto_generichash(digest, sizeof digest, (const unsigned char *)body, body_len, NULL, 0);
    sodium_bin2hex(key, sizeof key, digest, sizeof digest);
    realm_hash(realm, key);
    struct prototype *prototype = memory_get(submission->jobs->requests, key);
    bool ok;
    if (prototype) {
        ok = record_copy(record, &prototype->record);
        jobs__prototype_release(prototype);
    } else {
        submission->decoded = decode(submission, body, body_len);
        if (!submission->decoded)
            return false;
        ok = record_decoded(record, submission->decoded, realm);
        if (ok)
            remember_prototype(submission, key);
    }
    if (!ok) {
        refuse_with(submission, API_PROBLEM_INTERNAL, "out of memory");
        return false;
    }
    uuid_next(record->id);
    snprintf(record->request, sizeof record->request, "%s", submission->request);
    snprintf(record->client, sizeof record->client, "%s", submission->client);
    record->poster = submission->poster;
    record->created_at = clock_now_ms();
    memcpy(submission->id, record->id, UUID_SIZE);
    return true;
}

/* The job is finished before it is stored. */
static void finish_record(struct job_record *record)
{
    record->status = JOB_SUCCEEDED;
    record->from_cache = true;
    record->version = EPS_ACCOUNTING_VERSION;
    record->started_at = record->created_at;
    record->finished_at = record->created_at;
}

void submission_read(struct submission *submission, const char *body, size_t body_len)
{
    if (fill_record(submission, body, body_len))
        store_key_request(&submission->insert.key, submission->record.hash, submission->record.label);
}

void submission_begin(struct submission *submission, const char *body, size_t body_len, bool *cached)
{
    *cached = false;
    if (store_full(submission->jobs->server->store)) {
        refuse_with(submission, API_PROBLEM_QUEUE_FULL,
                    "the database has reached its size limit (--max-db); deleted and expired jobs make room");
        return;
    }
    submission->mark = jobs_mark(submission->jobs);
    *cached =
        jobs_result(submission->jobs, submission->record.hash, EPS_ACCOUNTING_VERSION, &submission->result) == STORE_OK;
    if (*cached) {
        metric_add(METRIC_RESULT_HITS, 1);
        finish_record(&submission->record);
    } else if (!submission->decoded) {
        submission->decoded = decode(submission, body, body_len);
    }
}

/* ---------------------------------------------------------------- checking */

void submission_check(struct submission *submission)
{
    const struct config *config = submission->jobs->server->config;
    struct eps_error error = {0};
    struct checks checks = {config, submission->jobs->server->store, realm_of(config, &submission->poster)};
    struct eps_context context = computation_checks(&checks);
    double *operations = &submission->record.operations;
    if (eps_job_serves(&context, &error, &submission->decoded->job, operations, NULL) != EPS_OK) {
        api_job_locate(submission->decoded, &error);
        refuse(submission, api_problem_of_error(&error, submission->instance));
        return;
    }
    api_job_destroy(submission->decoded); /* the worker decodes the text again: a decoded matrix is larger */
    submission->decoded = NULL;
    struct reservation reservation = jobs_reservation(submission->jobs, &submission->record);
    switch (jobs_reserve(submission->jobs, &reservation, submission->quota, &submission->refusal)) {
    case JOBS_ROOM:
        submission->reserved = reservation;
        break;
    case JOBS_FULL:
        refuse_with(submission, API_PROBLEM_QUEUE_FULL,
                    "the queue is full, in number (--queue) or bytes (--queue-bytes); post it again later");
        break;
    case JOBS_OVER:
        submission->outcome = SUBMIT_OVER;
        break;
    }
}

/* ---------------------------------------------------------------- storing */

static void accept_stored(struct submission *submission)
{
    metric_add(METRIC_JOBS_ACCEPTED, 1);
    for (size_t i = 0; i < submission->insert.replaced_len; i++)
        jobs_forget(submission->jobs, submission->insert.replaced[i]);
    if (submission->insert.unanswered) {
        result_record_release(submission->result);
        submission->result = NULL;
        job_record_restart(&submission->record);
        submission->reserved = jobs_reservation(submission->jobs, &submission->record);
        jobs_reserve_anyway(submission->jobs, &submission->record);
    }
    if (submission->result) {
        metric_add(METRIC_JOBS_SUCCEEDED, 1);
        jobs_log_end(&submission->record, submission->result);
        submission->outcome = SUBMIT_FINISHED;
        return;
    }
    if (jobs_admit(submission->jobs, &submission->record, 0)) {
        submission->reserved.account = NULL;
        submission->outcome = SUBMIT_ACCEPTED;
    } else { /* the row is stored: it runs after a restart */
        refuse_with(submission, API_PROBLEM_INTERNAL, "out of memory");
    }
}

static void insert_done(struct store_write *write, enum store_status status)
{
    struct submission *submission = (struct submission *)write;
    struct store_insert *insert = &submission->insert;
    bool answered = status == STORE_OK || status == STORE_CORRUPT;
    if (answered && insert->key.use != KEY_FREE) {
        submission->outcome = SUBMIT_KEY_USED;
    } else if (status == STORE_OK && insert->allowance.exceeded) {
        submission->outcome = SUBMIT_OVER;
        submission->refusal = store_allowance_refusal(&insert->allowance);
    } else if (status == STORE_OK) {
        accept_stored(submission);
    } else {
        refuse_with(submission, API_PROBLEM_QUEUE_FULL,
                    "the database could not be written and nothing was accepted; post it again later");
    }
    jobs_unreserve(submission->jobs, &submission->reserved);
    submission->done(submission);
}

void submission_store(struct submission *submission)
{
    struct store_insert *insert = &submission->insert;
    insert->write.done = insert_done;
    insert->record = &submission->record;
    insert->allowance.most = submission->quota->most[QUOTA_BYTES];
    store_insert_job(submission->jobs->server->store, insert);
}

struct document *submission_document(struct submission *submission)
{
    struct document *document = document_create(&submission->record, submission->result, NULL);
    if (document)
        jobs_remember(submission->jobs, document, submission->mark);
    return document;
}

void submission_clear(struct submission *submission)
{
    jobs_unreserve(submission->jobs, &submission->reserved);
    json_decref(submission->problem);
    api_job_destroy(submission->decoded);
    result_record_release(submission->result);
    job_record_clear(&submission->record);
}

/* ---------------------------------------------------------------- jobs created by the service */

bool submission_propose(struct jobs *jobs, struct api_job *decoded, const struct poster *poster,
                        struct job_record *record, struct result_record **result, struct eps_error *error)
{
    struct server *server = jobs->server;
    struct checks checks = {server->config, server->store, realm_of(server->config, poster)};
    struct eps_context context = computation_checks(&checks);
    *record = (struct job_record){.created_at = clock_now_ms(), .poster = *poster};
    *result = NULL;
    *error = (struct eps_error){0};
    if (!record_decoded(record, decoded, checks.realm)) {
        *error = (struct eps_error){.status = EPS_NO_MEMORY, .message = "out of memory"};
    } else if (jobs_result(jobs, record->hash, EPS_ACCOUNTING_VERSION, result) == STORE_OK) {
        metric_add(METRIC_RESULT_HITS, 1);
        finish_record(record);
    } else if (eps_job_serves(&context, error, &decoded->job, &record->operations, NULL) != EPS_OK) {
        api_job_locate(decoded, error);
    }
    if (error->status != EPS_OK) {
        job_record_clear(record);
        return false;
    }
    uuid_next(record->id);
    return true;
}
