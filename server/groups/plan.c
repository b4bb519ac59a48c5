/*
 * Plans as groups: the children are the candidates. If a lower bound on the error of a candidate is known, it is
 * compared with the results for the same sizes that are available when its turn comes. If one of them is no worse than
 * the candidate could be at best, and keeps no more noise rows, the candidate is skipped. This requires the strategy,
 * which solving the candidate then finds in the cache.
 *
 * If the plan verifies, further children follow when all candidates are final. Each verifies the candidate whose
 * estimate promises the least error, among those that no other child verifies. This is decided by stored rows and
 * results alone, so a plan that is continued after a crash decides the same.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdio.h>

#include <stdlib.h>

#include "api/requests/plan.h"
#include "server/groups/groups.h"
#include "server/groups/plan.h"
#include "server/jobs/compute.h"
#include "server/jobs/realm.h"
#include "server/jobs/jobs.h"

static void *open_plan(const struct group_record *record)
{
    return api_plan_read(record->request);
}

static void close_plan(void *asked)
{
    api_plan_destroy(asked);
}

static double number_of(const struct api_plan *plan, size_t i, const char *name)
{
    return (double)json_integer_value(api_plan_member(plan, i, name));
}

/* ---------------------------------------------------------------- skipping */

struct rivals {
    const struct api_plan *plan;
    size_t number;
    double least; /* of the candidate, in the unit of api_plan_rank() */
    size_t better;
    bool found;
};

/* Compares the candidate with a result for the same sizes. Another pair of sizes is a different training: with fewer
 * steps it has less error and achieves less. */
static void hold_against(void *user, const struct child_record *child)
{
    struct rivals *rivals = user;
    const struct api_plan *plan = rivals->plan;
    if (rivals->found || child->status != JOB_SUCCEEDED || child->number >= api_plan_len(plan) ||
        number_of(plan, child->number, "pair") != number_of(plan, rivals->number, "pair"))
        return;
    double error = api_plan_error(plan->objective, &child->figures);
    rivals->found = api_plan_rank(plan, child->number, error) <= rivals->least &&
                    number_of(plan, child->number, "buffers") <= number_of(plan, rivals->number, "buffers");
    rivals->better = child->number;
}

static bool stopping(void *user)
{
    return jobs_stopping(user);
}

/* A lower bound on its error; 0: none is known, or it could not be determined. */
static double least_error(const struct server *server, const struct group_record *record, const struct api_plan *plan,
                          const struct api_job *job)
{
    struct computation computation;
    struct answer answer;
    computation_open(&computation, server, NULL, server->config->max_seconds);
    computation.realm = realm_of(server->config, &record->poster);
    computation.account = ledger_account(server->ledger, record->poster.key);
    computation.canceled = stopping;
    computation.user = server->jobs;
    computation.job = record->id;
    const struct question question = {.kind = QUESTION_LEAST, .job = job, .objective = plan->objective};
    computation_ask(&computation, &question, &answer);
    computation_close(&computation);
    double least = answer.error.status == EPS_OK ? answer.least : 0;
    answer_clear(&answer);
    return least;
}

/* Whether another candidate is certainly better; writes the reason in words. */
static bool is_hopeless(const struct server *server, const struct group_record *record, const struct api_plan *plan,
                        size_t number, const struct api_job *job, char *detail, size_t detail_size)
{
    double least = least_error(server, record, plan, job);
    struct rivals rivals = {.plan = plan, .number = number, .least = api_plan_rank(plan, number, least)};
    struct children_filter all = {.parent = record->id};
    if (!(least > 0) || store_each_child(server->store, &all, hold_against, &rivals) != STORE_OK || !rivals.found)
        return false;
    const json_t *bands = api_plan_member(plan, rivals.better, "bands");
    char of_bands[48] = "";
    if (json_is_integer(bands))
        snprintf(of_bands, sizeof of_bands, " of %lld bands", (long long)json_integer_value(bands));
    snprintf(detail, detail_size,
             "its error is at least %.6g with any accountant: %s%s under %s is better and keeps no more noise", least,
             json_string_value(api_plan_member(plan, rivals.better, "family")), of_bands,
             json_string_value(api_plan_member(plan, rivals.better, "scheme")));
    return true;
}

/* ---------------------------------------------------------------- verification */

bool plan_read_result(struct store *store, const struct child_record *child, struct job_record *job, json_t **result)
{
    struct result_record *record = NULL;
    struct text text = {0};
    char message[64];
    *result = NULL;
    *job = (struct job_record){0};
    enum store_status status = child->job[0] ? store_read_job(store, child->job, job) : STORE_NONE;
    if (status == STORE_OK)
        status = store_read_result(store, job->hash, job->version, &record);
    if (status == STORE_OK && record) { /* `core` lacks its closing brace, see records.h */
        text_puts(&text, record->core);
        text_puts(&text, "}");
        if (!text.failed)
            *result = api_json_parse(text.data, text.len, message, sizeof message);
        text_clear(&text);
    }
    result_record_release(record);
    if (!*result)
        job_record_clear(job);
    return *result != NULL;
}

double plan_estimate(const json_t *result, const struct child_record *child)
{
    const json_t *value = json_object_get(json_object_get(result, "unproven_estimate"), "value");
    bool less = json_is_number(value) && json_number_value(value) < child->figures.noise_multiplier;
    return less ? json_number_value(value) : NAN;
}

double plan_hope(double estimate, const struct child_record *child, double error)
{
    double share = estimate / child->figures.noise_multiplier;
    return isnan(share) ? error : error * share * share;
}

/* What the rows of a plan say of one of its candidates. */
struct standing {
    struct child_record row; /* without its detail */
    bool verified;           /* a child verifies it, or was to verify it */
};

struct survey {
    const struct api_plan *plan;
    struct standing *standings;
};

static void take_standing(void *user, const struct child_record *child)
{
    struct survey *survey = user;
    size_t len = api_plan_len(survey->plan), verified = plan_verified_by(len, child->number);
    if (verified != PLAN_NOTHING) {
        survey->standings[verified].verified = true;
    } else if (child->number < len && child->status == JOB_SUCCEEDED && !child->damaged) {
        survey->standings[child->number].row = *child;
        survey->standings[child->number].row.detail = NULL;
    }
}

/* The candidate to verify next, or PLAN_NOTHING. Ties go to the candidate that was tried first. */
static size_t choose(struct store *store, const struct survey *survey)
{
    const struct api_plan *plan = survey->plan;
    size_t chosen = PLAN_NOTHING;
    double least = INFINITY;
    for (size_t i = 0; i < api_plan_len(plan); i++) {
        const struct child_record *row = &survey->standings[i].row;
        struct job_record job;
        json_t *result;
        if (survey->standings[i].verified || row->status != JOB_SUCCEEDED ||
            !plan_read_result(store, row, &job, &result))
            continue;
        double estimate = plan_estimate(result, row), error = api_plan_error(plan->objective, &row->figures);
        double hope = api_plan_rank(plan, i, plan_hope(estimate, row, error));
        if (!isnan(estimate) && hope < least) {
            least = hope;
            chosen = i;
        }
        json_decref(result);
        job_record_clear(&job);
    }
    return chosen;
}

static struct api_job *decode(const struct server *server, const struct api_plan *plan, size_t i, char *detail,
                              size_t detail_size)
{
    struct api_errors errors = {0};
    struct api_job *job = api_job_decode(&errors, api_plan_member(plan, i, "job"), (size_t)server->config->max_n);
    if (!job)
        snprintf(detail, detail_size, "%s", errors.len ? errors.items[0].detail : "out of memory");
    api_errors_clear(&errors);
    return job;
}

/* *number: in: the turn. */
static enum child_kind verification(const struct server *server, const struct group_record *record,
                                    const struct api_plan *plan, size_t *number, struct api_job **job, char *detail,
                                    size_t detail_size)
{
    size_t len = api_plan_len(plan), chosen = PLAN_NOTHING;
    struct survey survey = {plan, calloc(len + 1, sizeof *survey.standings)};
    const struct children_filter all = {.parent = record->id};
    bool read = survey.standings && store_each_child(server->store, &all, take_standing, &survey) == STORE_OK;
    if (read)
        chosen = choose(server->store, &survey);
    free(survey.standings);
    if (chosen == PLAN_NOTHING) {
        *number += len; /* 2 len or more, and not that of another turn */
        snprintf(detail, detail_size, "%s",
                 read ? "no other candidate has an estimate of less than what is proven for it"
                      : "the candidates could not be read");
        return CHILD_SKIPPED;
    }
    *number = len + chosen;
    *job = decode(server, plan, chosen, detail, detail_size);
    if (!*job)
        return CHILD_WRONG;
    eps_plan_verification(&(*job)->job, plan->max_seconds);
    (*job)->method_alone = false;
    return CHILD_TRIED;
}

/* ---------------------------------------------------------------- the children */

static size_t candidates_of(const void *asked)
{
    return api_plan_len(asked);
}

static enum child_kind candidate(const struct server *server, const struct group_record *record, void *asked,
                                 size_t *number, struct api_job **job, char *detail, size_t detail_size)
{
    const struct api_plan *plan = asked;
    if (*number >= api_plan_len(plan))
        return verification(server, record, plan, number, job, detail, detail_size);
    const char *reason = json_string_value(api_plan_member(plan, *number, "reason"));
    bool bounded = json_is_true(api_plan_member(plan, *number, "bounded"));
    if (reason)
        snprintf(detail, detail_size, "%s", reason);
    if (reason && !(bounded && json_is_object(api_plan_member(plan, *number, "job"))))
        return CHILD_SKIPPED;
    *job = decode(server, plan, *number, detail, detail_size);
    if (!*job)
        return CHILD_WRONG;
    /* Also checked for a candidate that is too costly, because being no better is the more useful reason. */
    bool hopeless = bounded && is_hopeless(server, record, plan, *number, *job, detail, detail_size);
    return hopeless || reason ? CHILD_SKIPPED : CHILD_JOB;
}

const struct group_kind plan_kind = {
    .open = open_plan,
    .close = close_plan,
    .barrier = candidates_of,
    .child = candidate,
    .computes = true,
};
