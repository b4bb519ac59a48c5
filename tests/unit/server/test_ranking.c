/*
 * A plan's ranking: its order, what it shows of each candidate, and that it reads each row once. Linked with
 * --wrap=store_each_child.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <semaphore.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/ops/memory.h"
#include "server/routes/groups/ranking.h"
#include "tests/unit/service.h"
#include "tests/unit/test.h"

static size_t asked, rows; /* rows read from the store so far */

enum store_status __real_store_each_child(struct store *store, const struct children_filter *filter,
                                          void (*each)(void *user, const struct child_record *record), void *user);
enum store_status __wrap_store_each_child(struct store *store, const struct children_filter *filter,
                                          void (*each)(void *user, const struct child_record *record), void *user);

struct passing {
    void (*each)(void *user, const struct child_record *record);
    void *user;
};

static void pass(void *user, const struct child_record *record)
{
    const struct passing *passing = user;
    rows++;
    passing->each(passing->user, record);
}

enum store_status __wrap_store_each_child(struct store *store, const struct children_filter *filter,
                                          void (*each)(void *user, const struct child_record *record), void *user)
{
    struct passing passing = {each, user};
    asked++;
    return __real_store_each_child(store, filter, pass, &passing);
}

/* ---------------------------------------------------------------- rows */

struct ended {
    struct store_child_insert insert; /* first */
    sem_t done;
};

static void landed(struct store_write *write, enum store_status status)
{
    assert_int_equal(status, STORE_OK);
    sem_post(&((struct ended *)write)->done);
}

/* A candidate with an answer, or (NAN) a skipped one. core: of the result. */
static void end_with(struct service *service, const struct group_record *plan, size_t number, double mean_squared,
                     const char *core)
{
    struct job_record job = {.status = JOB_SUCCEEDED, .version = EPS_ACCOUNTING_VERSION, .from_cache = true};
    struct result_record result = {
        .version = EPS_ACCOUNTING_VERSION,
        .core = (char *)(uintptr_t)core,
        .cache = (char *)(uintptr_t) "{}",
        .figures = {
            .mean_squared = mean_squared, .max_squared = 2 * mean_squared, .noise_multiplier = 1, .accountant = "pld"}};
    struct ended ended = {.insert = {.write.done = landed, .number = number}};
    memcpy(ended.insert.parent, plan->id, UUID_SIZE);
    if (isnan(mean_squared)) {
        ended.insert.status = JOB_CANCELED;
        ended.insert.detail = "why not";
    } else {
        uuid_next(job.id);
        memset(job.hash, 'a' + (int)number, HASH_SIZE - 1);
        memset(result.hash, 'a' + (int)number, HASH_SIZE - 1);
        job.job = (char *)(uintptr_t)(number < 5 ? "{}" : "{\"verifies\":\"it\"}");
        memcpy(job.parent, plan->id, UUID_SIZE);
        job.child = (int)number;
        struct store_update update = {.result = &result};
        assert_int_equal(store_update_jobs_wait(service->server.store, &update), STORE_OK);
        ended.insert.record = &job;
        ended.insert.result = &result;
    }
    sem_init(&ended.done, 0, 0);
    store_insert_child(service->server.store, &ended.insert);
    sem_wait(&ended.done);
    sem_destroy(&ended.done);
}

static void end(struct service *service, const struct group_record *plan, size_t number, double mean_squared)
{
    end_with(service, plan, number, mean_squared, "{");
}

#define CANDIDATE(family, batch, reference)                                                                         \
    "{\"family\":\"" family "\",\"bands\":null,\"scheme\":\"none\",\"n\":4,\"batch_size\":" batch ",\"buffers\":3," \
    "\"pair\":0,\"bounded\":false,\"reference\":" reference ",\"reason\":null,\"job\":{\"n\":4}}"

static void plan(struct service *service, struct group_record *record, const char *objective)
{
    static char request[2048];
    snprintf(request, sizeof request, "{\"asked\":{\"objective\":\"%s\",\"n\":4},\"candidates\":[%s,%s,%s,%s,%s]}",
             objective, CANDIDATE("a", "1", "false"), CANDIDATE("b", "10", "false"), CANDIDATE("c", "1", "false"),
             CANDIDATE("d", "1", "true"), CANDIDATE("e", "1", "false"));
    *record = (struct group_record){.kind = GROUP_PLAN, .status = JOB_RUNNING, .total = 5, .request = request};
    uuid_next(record->id);
    service_insert(service, record);
}

/* ---------------------------------------------------------------- what is shown */

/* The plan's members, for the caller to release. */
static json_t *written(struct service *service, const struct group_record *record, bool brief)
{
    struct text text = {0};
    struct ranking *ranking = ranking_open(&service->server, record);
    assert_non_null(ranking);
    text_puts(&text, "{\"n\":4");
    ranking_write(&service->server, &text, ranking, record, brief);
    text_puts(&text, "}");
    ranking_release(ranking);
    assert_false(text.failed);
    json_t *json = json_loads(text.data, 0, NULL);
    assert_non_null(json);
    text_clear(&text);
    return json;
}

/* Families in order, each with its rank (or "-") and its status's first letter. */
static void shown(struct service *service, const struct group_record *record, const char *expected)
{
    char summary[128] = "";
    json_t *json = written(service, record, false), *candidate;
    const json_t *list = json_object_get(json, "candidates");
    size_t i;
    assert_int_equal(json_array_size(list), 5);
    json_array_foreach (list, i, candidate) {
        const json_t *rank = json_object_get(candidate, "rank");
        char of_rank[24] = "-";
        size_t len = strlen(summary);
        if (json_is_integer(rank))
            snprintf(of_rank, sizeof of_rank, "%lld", (long long)json_integer_value(rank));
        snprintf(summary + len, sizeof summary - len, "%s%s%s%c", i ? " " : "",
                 json_string_value(json_object_get(candidate, "family")), of_rank,
                 json_string_value(json_object_get(candidate, "status"))[0]);
    }
    assert_string_equal(summary, expected);
    json_decref(json);
}

TEST(each_row_is_read_once)
{
    struct service *service = service_start();
    struct group_record record;
    plan(service, &record, "mean_squared");
    asked = rows = 0;
    shown(service, &record, "a-q b-q c-q d-q e-q");
    end(service, &record, 2, 5);
    end(service, &record, 0, 7);
    shown(service, &record, "c1s a2s b-q d-q e-q");
    assert_int_equal(rows, 2);
    end(service, &record, 1, 200); /* over 100: the best */
    end(service, &record, 3, NAN);
    shown(service, &record, "b1s c2s a3s d-s e-q");
    assert_int_equal(rows, 4);
    end(service, &record, 4, 5); /* as good as c, which was tried first */
    shown(service, &record, "b1s c2s e3s a4s d-s");
    shown(service, &record, "b1s c2s e3s a4s d-s");
    assert_int_equal(rows, 5);
    assert_int_equal(asked, 5);
    /* After it was dropped from memory it is the same. */
    memory_drop(service->server.rankings, record.id);
    shown(service, &record, "b1s c2s e3s a4s d-s");
    assert_int_equal(rows, 10);
    service_stop(service);
}

TEST(the_largest_error_ranks_where_it_was_asked_for)
{
    struct service *service = service_start();
    struct group_record record;
    plan(service, &record, "max_squared");
    end(service, &record, 4, 1);
    end(service, &record, 2, INFINITY); /* NaN in the database, and without a rank */
    record.status = JOB_CANCELED;
    shown(service, &record, "e1s a-c b-c c-s d-c");
    service_stop(service);
}

struct told {
    struct service *service;
    const struct group_record *record;
    size_t ranks[5];
    double gains[5]; /* 0: null */
};

static void tell(void *user, const struct child_record *child)
{
    struct told *told = user;
    struct text text = {0};
    struct ranking *ranking = ranking_open(&told->service->server, told->record);
    ranking_write_ended(&told->service->server, &text, ranking, told->record, child);
    ranking_release(ranking);
    assert_false(text.failed);
    json_t *candidate = json_loads(text.data, 0, NULL);
    told->ranks[child->number % 5] = (size_t)json_integer_value(json_object_get(candidate, "rank"));
    told->gains[child->number % 5] = json_number_value(json_object_get(candidate, "gain"));
    json_decref(candidate);
    text_clear(&text);
}

TEST(a_rank_so_far_is_among_those_before)
{
    struct service *service = service_start();
    struct group_record record;
    const double errors[] = {3, 5, NAN, 1, 4};
    const size_t ranks[] = {1, 1, 0, 2, 4};
    plan(service, &record, "mean_squared");
    for (size_t i = 0; i < 5; i++) /* b's 5 is over 100 */
        end(service, &record, i, errors[i]);
    struct told told = {.service = service, .record = &record};
    const struct children_filter news = {.parent = record.id, .by_end = true};
    rows = 0;
    assert_int_equal(store_each_child(service->server.store, &news, tell, &told), STORE_OK);
    assert_memory_equal(told.ranks, ranks, sizeof ranks);
    assert_int_equal(rows, 10); /* the events' own, and those of the ranking */
    service_stop(service);
}

/* d is DP-SGD: a candidate that ended before it has no gain yet; by the objective, and by the average gradient. */
TEST(a_gain_is_over_dp_sgd)
{
    struct service *service = service_start();
    struct group_record record;
    const double errors[] = {3, 600, NAN, 2, 8}, later[] = {0, 0, 0, 1, 0.25};
    const double final[] = {1, 2 / 3., 1 / 3., 0.25};
    plan(service, &record, "max_squared");
    for (size_t i = 0; i < 5; i++) {
        end(service, &record, i, errors[i]);
        json_t *json = written(service, &record, true);
        assert_null(json_object_get(json, "candidates"));
        assert_int_equal(json_array_size(json_object_get(json, "best")), i < 2 ? i + 1 : i);
        json_decref(json);
    }
    struct told told = {.service = service, .record = &record};
    const struct children_filter news = {.parent = record.id, .by_end = true};
    assert_int_equal(store_each_child(service->server.store, &news, tell, &told), STORE_OK);
    for (size_t i = 0; i < 5; i++)
        assert_true(fabs(told.gains[i] - later[i]) < 1e-12);
    json_t *json = written(service, &record, true), *best;
    size_t i;
    json_array_foreach (json_object_get(json, "best"), i, best)
        assert_true(fabs(json_number_value(json_object_get(best, "gain")) - final[i]) < 1e-12);
    assert_int_equal(i, 4);
    json_decref(json);
    service_stop(service);
}

#define ESTIMATED(value) "{\"noise_multiplier\":1,\"unproven_estimate\":{\"value\":" value ",\"samples\":9}"

static void assert_estimate(const json_t *json, size_t i, const char *family, double noise, double error,
                            json_int_t rank)
{
    const json_t *one = json_array_get(json_object_get(json, "candidates"), i),
                 *estimate = json_object_get(one, "estimate"), *found = json_object_get(estimate, "noise_multiplier");
    assert_string_equal(json_string_value(json_object_get(one, "family")), family);
    assert_true(isnan(noise) ? json_is_null(found) : json_number_value(found) == noise);
    assert_true(fabs(json_number_value(json_object_get(estimate, "error")) - error) <= 1e-12 * error);
    assert_int_equal(json_integer_value(json_object_get(estimate, "rank")), rank);
}

/* What is proven decides the rank; the order by estimates stands beside, and a hint where it promises less. */
TEST(an_estimate_promises_and_does_not_rank)
{
    struct service *service = service_start();
    struct group_record record;
    plan(service, &record, "mean_squared");
    end(service, &record, 0, 7);
    json_t *json = written(service, &record, false);
    assert_true(json_is_null(json_object_get(json, "hint")));
    assert_true(json_is_null(json_object_get(json_array_get(json_object_get(json, "candidates"), 1), "estimate")));
    json_decref(json);
    end_with(service, &record, 2, 8, ESTIMATED("0.5"));
    end_with(service, &record, 3, 9, ESTIMATED("1.5")); /* more than is proven: no news */
    end_with(service, &record, 4, 10, ESTIMATED("\"x\""));
    shown(service, &record, "a1s c2s d3s e4s b-q");
    json = written(service, &record, false);
    assert_estimate(json, 0, "a", NAN, 7, 2);
    assert_estimate(json, 1, "c", 0.5, 2, 1);
    assert_estimate(json, 2, "d", NAN, 9, 3);
    assert_estimate(json, 3, "e", NAN, 10, 4);
    const char *hint = json_string_value(json_object_get(json, "hint"));
    assert_non_null(strstr(hint, "c under none would have an error of about 2 at a noise multiplier of about 0.5"));
    assert_non_null(strstr(hint, "guarantees nothing"));
    json_decref(json);
    service_stop(service);
}

/* A share of 2% less is not worth a hint. */
TEST(what_promises_little_is_not_said)
{
    struct service *service = service_start();
    struct group_record record;
    plan(service, &record, "mean_squared");
    end_with(service, &record, 0, 7, ESTIMATED("0.995"));
    json_t *json = written(service, &record, false);
    assert_estimate(json, 0, "a", 0.995, 7 * 0.995 * 0.995, 1);
    assert_true(json_is_null(json_object_get(json, "hint")));
    json_decref(json);
    service_stop(service);
}

#define VERIFIED                                                                                                      \
    "{\"noise_multiplier\":1,\"guarantee\":\"estimate_verify_release\",\"monte_carlo\":{\"remove\":{\"samples\":3}}," \
    "\"assumptions\":[\"one\"]"

static const json_t *candidate_of(const json_t *json, const char *family)
{
    size_t i;
    json_t *one;
    json_array_foreach (json_object_get(json, "candidates"), i, one)
        if (!strcmp(json_string_value(json_object_get(one, "family")), family))
            return one;
    fail_msg("%s", family);
    return NULL;
}

/* Whether its figures are those of its verification, what is proven, and why it is not verified (NULL: no reason). */
static void assert_verification(const json_t *json, const char *family, bool verified, double error, const char *why)
{
    const json_t *one = candidate_of(json, family), *verification = json_object_get(one, "verification");
    const json_t *shown_error = json_object_get(json_object_get(one, "error"), "mean_squared");
    const char *reason = json_string_value(json_object_get(verification, "reason"));
    assert_int_equal(json_is_true(json_object_get(one, "verified")), verified);
    assert_true(json_number_value(shown_error) == error);
    assert_int_equal(json_is_object(json_object_get(one, "proven")), verified);
    assert_int_equal(json_is_string(json_object_get(json_object_get(one, "job"), "verifies")), verified);
    assert_string_equal(json_string_value(json_object_get(one, "guarantee")),
                        verified ? "estimate_verify_release" : "deterministic");
    assert_int_equal(reason != NULL, why != NULL);
    if (why)
        assert_non_null(strstr(reason, why));
}

/* a: 7, and draws verify 2. c: 5, and they verify 5, no less. d: 9, and its verification was skipped. e: 10, and the
 * result of its verification is gone. */
TEST(what_draws_verify_is_ranked_by_that)
{
    struct service *service = service_start();
    struct group_record record;
    sqlite3 *db = NULL;
    plan(service, &record, "mean_squared");
    end_with(service, &record, 0, 7, ESTIMATED("0.5"));
    end_with(service, &record, 2, 5, ESTIMATED("0.6"));
    end_with(service, &record, 3, 9, ESTIMATED("0.9"));
    end_with(service, &record, 4, 10, ESTIMATED("0.9"));
    shown(service, &record, "c1s a2s d3s e4s b-q");
    end_with(service, &record, 5, 2, VERIFIED);
    shown(service, &record, "a1s c2s d3s e4s b-q");
    end_with(service, &record, 7, 5, VERIFIED);
    end_with(service, &record, 8, NAN, "");
    end_with(service, &record, 9, 1, VERIFIED);
    assert_int_equal(sqlite3_open(service->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "DELETE FROM jobs WHERE child = 9", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    for (int known = 1; known >= 0; known--) {
        shown(service, &record, "a1s c2s d3s e4s b-q");
        json_t *json = written(service, &record, false);
        assert_verification(json, "a", true, 2, NULL);
        assert_verification(json, "c", false, 5, "no less error");
        assert_verification(json, "d", false, 9, "why not");
        assert_verification(json, "e", false, 10, "has been deleted");
        const json_t *best = candidate_of(json, "a"), *verification = json_object_get(best, "verification");
        assert_true(json_number_value(json_object_get(json_object_get(json_object_get(best, "proven"), "error"),
                                                      "mean_squared")) == 7);
        assert_int_equal(json_integer_value(json_object_get(json_object_get(best, "estimate"), "rank")), 1);
        assert_string_equal(json_string_value(json_array_get(json_object_get(verification, "assumptions"), 0)), "one");
        assert_true(json_is_null(json_object_get(candidate_of(json, "b"), "verification")));
        json_decref(json);
        memory_drop(service->server.rankings, record.id); /* and as a process sees it that reads all at once */
    }
    service_stop(service);
}

/* An event shows what was known when it happened. */
TEST(an_event_knows_nothing_of_later_verifications)
{
    struct service *service = service_start();
    struct group_record record;
    plan(service, &record, "mean_squared");
    end_with(service, &record, 0, 7, ESTIMATED("0.5"));
    end_with(service, &record, 3, 9, "{");
    end_with(service, &record, 2, 8, ESTIMATED("0.6"));
    end_with(service, &record, 4, 10, ESTIMATED("0.6"));
    end_with(service, &record, 7, 2, VERIFIED);
    end_with(service, &record, 5, 1, VERIFIED);
    struct told told = {.service = service, .record = &record};
    struct children_filter news = {.parent = record.id, .by_end = true, .limit = 4};
    assert_int_equal(store_each_child(service->server.store, &news, tell, &told), STORE_OK);
    assert_int_equal(told.ranks[0], 1);
    assert_int_equal(told.ranks[3], 2);
    assert_int_equal(told.ranks[2], 2);
    assert_int_equal(told.ranks[4], 4);
    assert_true(fabs(told.gains[0] - 0) < 1e-12 && fabs(told.gains[2] - 9 / 8.) < 1e-12);
    news.after = 4;
    assert_int_equal(store_each_child(service->server.store, &news, tell, &told), STORE_OK);
    assert_int_equal(told.ranks[2], 1); /* before a was verified */
    assert_int_equal(told.ranks[0], 1);
    assert_true(fabs(told.gains[2] - 9 / 2.) < 1e-12 && fabs(told.gains[0] - 9) < 1e-12);
    service_stop(service);
}

TEST(a_damaged_row_is_told_as_failed)
{
    struct service *service = service_start();
    struct group_record record;
    sqlite3 *db = NULL;
    plan(service, &record, "mean_squared");
    end(service, &record, 0, 3);
    end(service, &record, 3, 2);
    assert_int_equal(sqlite3_open(service->path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "UPDATE children SET mean_squared = 1, ended = 9 WHERE number = 0", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    shown(service, &record, "d1s a-f b-q c-q e-q");
    end(service, &record, 4, 1); /* it ends before the end that the damage made up */
    shown(service, &record, "e1s d2s a-f b-q c-q");
    service_stop(service);
}
