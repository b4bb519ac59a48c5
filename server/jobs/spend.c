/*
 * Stores epsilon in the course of a training: in memory, and in the database together with the cached loss
 * distributions, whose size is limited. An error that is not caused by the job, such as a limit of this server, is kept
 * in memory only.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs/figure.h"
#include "server/jobs/internal.h"

struct spend *spend_create(const struct eps_spend_point *points, size_t len, const struct eps_error *error)
{
    struct spend *spend = calloc(1, sizeof *spend + len * sizeof *points);
    if (spend) {
        atomic_init(&spend->references, 1);
        spend->error = *error;
        spend->len = len;
        if (len)
            memcpy(spend->points, points, len * sizeof *points);
    }
    return spend;
}

void jobs__spend_retain(void *value)
{
    struct spend *spend = value;
    atomic_fetch_add_explicit(&spend->references, 1, memory_order_relaxed);
}

void jobs__spend_release(void *value)
{
    struct spend *spend = value;
    if (atomic_fetch_sub_explicit(&spend->references, 1, memory_order_acq_rel) == 1)
        free(spend);
}

void spend_release(struct spend *spend)
{
    if (spend)
        jobs__spend_release(spend);
}

/* Results with the same hash differ by their version, and by what cut them short. */
static void key_of(const struct result_record *result, uint8_t key[32], char text[HASH_SIZE])
{
    char name[HASH_SIZE + 40];
    snprintf(name, sizeof name, "spend %s %d", result->hash, result->version);
    crypto_generichash(key, 32, (const unsigned char *)name, strlen(name), NULL, 0);
    sodium_bin2hex(text, HASH_SIZE, key, 32);
}

/* In the database: the status, followed by the points or the message. */
struct kept {
    int64_t status;
    char rest[];
};

static struct spend *spend_of_blob(const struct kept *kept, size_t len)
{
    struct eps_error error = {0};
    size_t rest = len < sizeof *kept ? 0 : len - sizeof *kept;
    if (len < sizeof *kept)
        return NULL;
    if (kept->status == EPS_OK) {
        size_t points_len = rest / sizeof(struct eps_spend_point);
        struct spend *spend = spend_create(NULL, 0, &error);
        struct spend *grown = spend ? realloc(spend, sizeof *spend + rest) : NULL;
        if (!grown) {
            free(spend);
            return NULL;
        }
        grown->len = points_len;
        memcpy(grown->points, kept->rest, points_len * sizeof *grown->points);
        return grown;
    }
    error.status = EPS_UNSUPPORTED;
    snprintf(error.message, sizeof error.message, "%.*s", (int)rest, kept->rest);
    return spend_create(NULL, 0, &error);
}

static void remember(struct jobs *jobs, const char *name, struct spend *spend)
{
    memory_put(jobs->spends, name, spend, sizeof *spend + spend->len * sizeof *spend->points,
               memory_mark(jobs->spends));
}

struct spend *jobs_spend(struct jobs *jobs, const struct result_record *result)
{
    uint8_t key[32];
    char name[HASH_SIZE];
    void *blob = NULL;
    size_t len;
    key_of(result, key, name);
    struct spend *spend = memory_get(jobs->spends, name);
    if (!spend && store_blob_get(jobs->server->store, STORE_SPEND, key, &blob, &len)) {
        spend = spend_of_blob(blob, len);
        free(blob);
        if (spend)
            remember(jobs, name, spend);
    }
    return spend;
}

void jobs_spend_keep(struct jobs *jobs, const struct result_record *result, struct spend *spend)
{
    uint8_t key[32];
    char name[HASH_SIZE];
    enum eps_status status = spend->error.status;
    bool found = status == EPS_OK;
    const void *rest = found ? (const void *)spend->points : spend->error.message;
    size_t len = found ? spend->len * sizeof *spend->points : strlen(spend->error.message);
    struct kept *kept = found || status == EPS_UNSUPPORTED ? malloc(sizeof *kept + len) : NULL;
    key_of(result, key, name);
    remember(jobs, name, spend);
    if (kept) {
        kept->status = status;
        memcpy(kept->rest, rest, len);
        store_blob_put(jobs->server->store, STORE_SPEND, key, kept, sizeof *kept + len);
        free(kept);
    }
}
