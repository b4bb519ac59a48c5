/*
 * Plans as groups: the children are the candidates. If a lower bound on the error of a candidate is known, it is
 * compared with the results for the same sizes that are available when its turn comes. If one of them is no worse than
 * the candidate could be at best, and keeps no more noise rows, the candidate is skipped. This requires the strategy,
 * which solving the candidate then finds in the cache.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdio.h>

#include "api/requests/plan.h"
#include "server/groups/groups.h"
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

/* ---------------------------------------------------------------- the children */

static enum child_kind candidate(const struct server *server, const struct group_record *record, void *asked,
                                 size_t number, struct api_job **job, char *detail, size_t detail_size)
{
    const struct api_plan *plan = asked;
    const char *reason = json_string_value(api_plan_member(plan, number, "reason"));
    bool bounded = json_is_true(api_plan_member(plan, number, "bounded"));
    struct api_errors errors = {0};
    if (reason)
        snprintf(detail, detail_size, "%s", reason);
    if (reason && !(bounded && json_is_object(api_plan_member(plan, number, "job"))))
        return CHILD_SKIPPED;
    *job = api_job_decode(&errors, api_plan_member(plan, number, "job"), (size_t)server->config->max_n);
    if (!*job)
        snprintf(detail, detail_size, "%s", errors.len ? errors.items[0].detail : "out of memory");
    api_errors_clear(&errors);
    if (!*job)
        return CHILD_WRONG;
    /* Also checked for a candidate that is too costly, because being no better is the more useful reason. */
    bool hopeless = bounded && is_hopeless(server, record, plan, number, *job, detail, detail_size);
    return hopeless || reason ? CHILD_SKIPPED : CHILD_JOB;
}

const struct group_kind plan_kind = {
    .open = open_plan,
    .close = close_plan,
    .child = candidate,
    .computes = true,
};
