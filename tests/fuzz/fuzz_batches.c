/*
 * Requests for batches, followed by lists of users, from arbitrary bytes: every refusal has a reason, and a small
 * accepted request is formed to its end, with batches that satisfy their guarantees.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/requests/batches.h"
#include "tests/fuzz/fuzz.h"

static void form(const struct api_batches *batches, const struct eps_users *users)
{
    const struct eps_mechanism *mechanism = &batches->mechanism;
    const struct eps_sampling *sampling = &mechanism->sampling;
    uint64_t dataset = batches->dataset_size ? batches->dataset_size : sampling->dataset_size;
    struct eps_batcher *batcher;
    struct eps_error error = {0};
    uint8_t key[32] = {1};
    double operations, bytes;
    eps_batches_cost(mechanism, batches->dataset_size, users, &operations, &bytes);
    if (!(operations < 1e5 && bytes < 1e7))
        return;
    enum eps_status status = eps_batcher_create(&batcher, &error, mechanism, batches->dataset_size, users, key);
    DEMAND(status == EPS_OK || (status == EPS_INVALID && error.message[0])); /* users that are missing, or too many */
    for (size_t t = 0; status == EPS_OK && t < mechanism->n; t++) {
        struct eps_batch batch;
        DEMAND(eps_batcher_next(batcher, &batch, &error) == EPS_OK && batch.step == t);
        for (size_t i = 0; i < batch.len; i++)
            DEMAND(batch.indices[i] < (i + 1 < batch.len ? batch.indices[i + 1] : dataset));
        DEMAND(!batch.truncated || batch.len == sampling->max_batch_size);
    }
    if (status == EPS_OK)
        eps_batcher_destroy(batcher);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const char *text = (const char *)data, *end = memchr(text, '\n', len);
    size_t first = end ? (size_t)(end - text) : len;
    char message[300] = "";
    struct api_errors errors = {0};
    struct api_users *users = NULL;
    if (end && first + 1 < len) {
        users = api_users_read(&errors, message, sizeof message, end + 1, len - first - 1, 2);
        DEMAND(users || errors.len > 0 || message[0]);
    }
    json_t *json = api_json_parse(text, first, message, sizeof message);
    if (json) {
        struct api_batches batches;
        struct api_errors wrong = {0};
        bool read = api_batches_decode(&batches, &wrong, json, users ? api_users_examples(users) : 0, 0);
        DEMAND(read == (wrong.len == 0));
        if (read)
            form(&batches, users ? api_users_get(users) : NULL);
        api_errors_clear(&wrong);
    }
    json_decref(json);
    api_users_destroy(users);
    api_errors_clear(&errors);
    return 0;
}
