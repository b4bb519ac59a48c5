/*
 * Groups by themselves: what happens to a child for which there is no memory, and the request id that children carry.
 * Linked with --wrap=jobs_admit.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/requests/sweep.h"
#include "server/jobs/internal.h"
#include "tests/unit/service.h"
#include "tests/unit/test.h"

enum { POINTS = 5 };

static atomic_int refused; /* bits: the number of a child that is not admitted */

bool __real_jobs_admit(struct jobs *jobs, struct job_record *record, double alone_seconds);
bool __wrap_jobs_admit(struct jobs *jobs, struct job_record *record, double alone_seconds);

bool __wrap_jobs_admit(struct jobs *jobs, struct job_record *record, double alone_seconds)
{
    return !(atomic_load(&refused) >> record->child & 1) && __real_jobs_admit(jobs, record, alone_seconds);
}

/* Posts a sweep, and waits for its end. */
static void sweep(struct service *service, struct group_record *record)
{
    static char request[] = "{\"base\":{\"n\":4,\"sampling\":{\"scheme\":\"none\"},\"delta\":1e-6},"
                            "\"grid\":{\"/noise_multiplier\":[1,2,3,4,5]}}";
    struct groups *groups = service->server.groups;
    *record = (struct group_record){.kind = GROUP_SWEEP,
                                    .total = POINTS,
                                    .created_at = clock_now_ms(),
                                    .request = request,
                                    .request_id = "brought",
                                    .client = "::1"};
    uuid_next(record->id);
    struct api_sweep *asked = api_sweep_read(request);
    assert_non_null(asked);
    struct quota_refusal refusal;
    assert_int_equal(groups_reserve(groups, record, &(struct quota){0}, &refusal), JOBS_ROOM);
    service_insert(service, record);
    assert_true(groups_admit(groups, record, asked));
    for (int i = 0; i < 60000 && groups_is_live(groups, GROUP_SWEEP, record->id); i++) {
        struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
    }
    assert_false(groups_is_live(groups, GROUP_SWEEP, record->id));
}

struct table {
    struct service *service;
    size_t len;
};

static void see_row(void *user, const struct child_record *child)
{
    struct table *table = user;
    struct job_record job = {0};
    bool lost = atomic_load(&refused) >> child->number & 1;
    table->len++;
    assert_int_equal(child->status, lost ? JOB_FAILED : JOB_SUCCEEDED);
    assert_true(child->ended > 0);
    assert_int_equal(child->detail != NULL, lost);
    assert_int_equal(store_read_job(table->service->server.store, child->job, &job), STORE_OK);
    assert_int_equal(job.status, child->status);
    assert_string_equal(job.request, "brought");
    if (lost) {
        json_t *problem = json_loads(job.error, 0, NULL);
        assert_string_equal(json_string_value(json_object_get(problem, "type")), "/problems/internal");
        assert_string_equal(json_string_value(json_object_get(problem, "detail")), child->detail);
        assert_non_null(strstr(child->detail, "ran out of memory"));
        assert_non_null(strstr(json_string_value(json_object_get(problem, "instance")), child->job));
        json_decref(problem);
    }
    job_record_clear(&job);
}

static void check_sweep(struct service *service, size_t failed)
{
    struct group_record record, read;
    struct table table = {.service = service};
    struct jobs *jobs = service->server.jobs;
    sweep(service, &record);
    assert_int_equal(groups_read(service->server.groups, GROUP_SWEEP, record.id, &read), STORE_OK);
    assert_int_equal(read.status, JOB_SUCCEEDED);
    assert_int_equal(read.done, POINTS);
    assert_int_equal(read.failed, failed);
    assert_string_equal(read.request_id, "brought");
    group_record_clear(&read);
    struct children_filter all = {.parent = record.id};
    assert_int_equal(store_each_child(service->server.store, &all, see_row, &table), STORE_OK);
    assert_int_equal(table.len, POINTS);
    /* Their resources are released. */
    pthread_mutex_lock(&jobs->mutex);
    assert_int_equal(jobs->children + jobs->queued + jobs->running + jobs->places, 0);
    assert_int_equal(jobs->bytes, 0);
    pthread_mutex_unlock(&jobs->mutex);
}

TEST(a_child_without_memory_fails_and_its_group_ends)
{
    struct service *service = service_start();
    atomic_store(&refused, 1 << 1 | 1 << 4);
    check_sweep(service, 2);
    service_stop(service);
}

TEST(a_group_of_such_children_alone_ends_too)
{
    struct service *service = service_start();
    atomic_store(&refused, (1 << POINTS) - 1);
    check_sweep(service, POINTS);
    atomic_store(&refused, 0);
    check_sweep(service, 0);
    service_stop(service);
}
