/*
 * The store's cache of blobs keeps its bound, its order, its pins and its checksums.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/ops/metrics.h"
#include "server/store/store.h"
#include "tests/unit/opened_store.h"
#include "tests/unit/test.h"
static void key_of(uint8_t key[32], enum eps_cache_kind kind, unsigned number)
{
    memset(key, 0, 32);
    key[0] = (uint8_t)kind;
    key[1] = (uint8_t)number;
}

static void put(struct store *store, enum eps_cache_kind kind, unsigned number)
{
    uint8_t key[32], data[BLOB];
    key_of(key, kind, number);
    memset(data, (int)number, sizeof data);
    store_blob_put(store, kind, key, data, sizeof data);
    struct store_update nothing = {0};
    assert_int_equal(store_update_jobs_wait(store, &nothing), STORE_OK); /* after it in the writer's queue */
}

static bool kept(struct store *store, enum eps_cache_kind kind, unsigned number)
{
    uint8_t key[32];
    void *data = NULL;
    size_t len = 0;
    key_of(key, kind, number);
    if (!store_blob_get(store, kind, key, &data, &len))
        return false;
    assert_int_equal(len, BLOB);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(((uint8_t *)data)[i], number);
    free(data);
    return true;
}

/* Names factorisation `number` in a result. */
static void pin(struct store *store, unsigned number)
{
    uint8_t keys[1][32];
    char hash[HASH_SIZE];
    snprintf(hash, sizeof hash, "%064u", number);
    key_of(keys[0], EPS_CACHE_FACTORIZATION, number);
    struct result_record *result = result_record_create(hash);
    assert_non_null(result);
    result->finished_at = clock_now_ms();
    result->core = strdup("{\"epsilon\":1");
    result->cache = strdup("{}");
    struct store_update update = {.result = result, .uses = (const uint8_t(*)[32])keys, .uses_len = 1};
    assert_int_equal(store_update_jobs_wait(store, &update), STORE_OK);
    struct result_record *read = NULL;
    assert_int_equal(store_read_result(store, hash, EPS_ACCOUNTING_VERSION, &read), STORE_OK);
    assert_string_equal(read->core, result->core);
    result_record_release(read);
    result_record_release(result);
}

TEST_WITH(the_cache_evicts_in_its_order, set_up, tear_down)
{
    struct store *store = open_store(*state, 5 * BLOB, 0);
    put(store, EPS_CACHE_FACTORIZATION, 1);
    pin(store, 1);
    put(store, EPS_CACHE_FACTORIZATION, 2);
    put(store, EPS_CACHE_PLD, 3);
    put(store, EPS_CACHE_PLD, 4);
    put(store, EPS_CACHE_PLD, 5);
    put(store, EPS_CACHE_PLD, 6); /* one must go: a loss distribution, the oldest */
    assert_false(kept(store, EPS_CACHE_PLD, 3));
    assert_true(kept(store, EPS_CACHE_PLD, 4));
    for (unsigned number = 7; number < 10; number++)
        put(store, EPS_CACHE_FACTORIZATION, number); /* three must go: all loss distributions */
    for (unsigned number = 4; number < 7; number++)
        assert_false(kept(store, EPS_CACHE_PLD, number));
    assert_true(kept(store, EPS_CACHE_FACTORIZATION, 2));
    put(store, EPS_CACHE_FACTORIZATION, 10); /* the oldest factorisation that no result names */
    assert_false(kept(store, EPS_CACHE_FACTORIZATION, 2));
    assert_true(kept(store, EPS_CACHE_FACTORIZATION, 1));
    assert_true(kept(store, EPS_CACHE_FACTORIZATION, 10));
    for (unsigned number = 7; number < 11; number++)
        pin(store, number);
    put(store, EPS_CACHE_PLD, 11); /* all are named: no room */
    assert_false(kept(store, EPS_CACHE_PLD, 11));
    assert_true(kept(store, EPS_CACHE_FACTORIZATION, 1));
    store_close(store);
}

/* Draws drive no loss distribution out, nor the other way round, and the draws that were used last stay. */
TEST_WITH(chunks_have_a_bound_of_their_own, set_up, tear_down)
{
    struct store *store = open_store(*state, 4 * BLOB, 0);
    put(store, EPS_CACHE_PLD, 1);
    for (unsigned number = 1; number <= 4; number++)
        put(store, EPS_CACHE_CHUNK, number);
    assert_int_equal(edit(*state, "UPDATE blobs SET used_at = used_at + 1000 WHERE kind = 2 AND key < x'0202'"), 1);
    put(store, EPS_CACHE_CHUNK, 5); /* the second goes, which is now the oldest */
    assert_true(kept(store, EPS_CACHE_CHUNK, 1));
    assert_false(kept(store, EPS_CACHE_CHUNK, 2));
    assert_true(kept(store, EPS_CACHE_PLD, 1));
    assert_int_equal(metric_get(METRIC_CHUNK_BYTES), 4 * BLOB);
    assert_int_equal(metric_get(METRIC_CACHE_BYTES), BLOB);
    for (unsigned number = 2; number <= 6; number++)
        put(store, EPS_CACHE_PLD, number);
    assert_false(kept(store, EPS_CACHE_PLD, 1));
    store_close(store);
    store = open_store(*state, 4 * BLOB, 0);
    for (unsigned number = 3; number <= 5; number++)
        assert_true(kept(store, EPS_CACHE_CHUNK, number));
    assert_int_equal(metric_get(METRIC_CHUNK_BYTES), 4 * BLOB);
    put(store, EPS_CACHE_CHUNK, 6);
    assert_int_equal(metric_get(METRIC_CHUNK_BYTES), 4 * BLOB);
    assert_int_equal(metric_get(METRIC_CACHE_BYTES), 4 * BLOB);
    store_close(store);
    assert_int_equal(edit(*state, "DELETE FROM blobs WHERE kind = 2"), 4);
}

/* A lookup counts for its kind, and a chunk that is damaged or of another accounting version is drawn again. */
TEST_WITH(a_chunk_that_is_no_good_is_not_found, set_up, tear_down)
{
    struct store *store = open_store(*state, 1 << 20, 0);
    int64_t hits = metric_get(METRIC_CHUNK_HITS), misses = metric_get(METRIC_CHUNK_MISSES);
    int64_t failures = metric_get(METRIC_CHECKSUM_FAILURES), others = metric_get(METRIC_PLD_MISSES);
    put(store, EPS_CACHE_CHUNK, 1);
    put(store, EPS_CACHE_CHUNK, 2);
    assert_false(kept(store, EPS_CACHE_CHUNK, 3));
    assert_int_equal(edit(*state, "UPDATE blobs SET data = zeroblob(1000) WHERE key < x'0202'"), 1);
    assert_false(kept(store, EPS_CACHE_CHUNK, 1));
    assert_true(kept(store, EPS_CACHE_CHUNK, 2));
    put(store, EPS_CACHE_CHUNK, 1);
    assert_true(kept(store, EPS_CACHE_CHUNK, 1)); /* the bad row went, a good one came */
    assert_int_equal(metric_get(METRIC_CHUNK_HITS), hits + 2);
    assert_int_equal(metric_get(METRIC_CHUNK_MISSES), misses + 2);
    assert_int_equal(metric_get(METRIC_PLD_MISSES), others);
    assert_int_equal(metric_get(METRIC_CHECKSUM_FAILURES), failures + 1);
    store_close(store);
    assert_int_equal(edit(*state, "UPDATE blobs SET version = version - 1"), 2);
    store = open_store(*state, 1 << 20, 0);
    assert_int_equal(metric_get(METRIC_CHUNK_BYTES), 0);
    assert_false(kept(store, EPS_CACHE_CHUNK, 2));
    store_close(store);
}

/* A result that was cut short: the cache does not have it, and each stays what it was. */
TEST_WITH(a_parted_result_is_of_its_own_jobs, set_up, tear_down)
{
    struct store *store = open_store(*state, 1 << 20, 0);
    struct result_record *results[3], *read = NULL;
    char hash[HASH_SIZE];
    snprintf(hash, sizeof hash, "%064u", 7);
    for (int i = 0; i < 3; i++) {
        char core[32];
        results[i] = result_record_create(hash);
        assert_non_null(results[i]);
        assert_true(result_record_cached(results[i]));
        snprintf(core, sizeof core, "{\"epsilon\":%d", i);
        results[i]->core = strdup(core);
        results[i]->cache = strdup("{}");
        if (i < 2) {
            result_record_part(results[i]);
            assert_true(results[i]->version < 0);
            assert_false(result_record_cached(results[i]));
        }
        struct store_update update = {.result = results[i]};
        assert_int_equal(store_update_jobs_wait(store, &update), STORE_OK);
        assert_int_equal(store_read_result(store, hash, EPS_ACCOUNTING_VERSION, &read), i < 2 ? STORE_NONE : STORE_OK);
        result_record_release(read);
        read = NULL;
    }
    assert_int_not_equal(results[0]->version, results[1]->version);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(store_read_result(store, hash, results[i]->version, &read), STORE_OK);
        assert_string_equal(read->core, results[i]->core);
        result_record_release(read);
        result_record_release(results[i]);
    }
    store_close(store);
}

TEST_WITH(a_damaged_blob_is_not_found, set_up, tear_down)
{
    struct store *store = open_store(*state, 1 << 20, 0);
    put(store, EPS_CACHE_PLD, 1);
    put(store, EPS_CACHE_PLD, 2);
    assert_int_equal(edit(*state, "UPDATE blobs SET data = zeroblob(1000) WHERE substr(key, 2, 1) = x'01'"), 1);
    assert_false(kept(store, EPS_CACHE_PLD, 1));
    assert_true(kept(store, EPS_CACHE_PLD, 2));
    put(store, EPS_CACHE_PLD, 1);
    assert_true(kept(store, EPS_CACHE_PLD, 1)); /* the bad row went, a good one came */
    store_close(store);
}

/* Whatever is wrong with its row, a blob can go: the cache neither grows nor stops taking. */
TEST_WITH(damaged_blobs_are_evicted, set_up, tear_down)
{
    struct store *store = open_store(*state, 4 * BLOB, 0);
    for (unsigned number = 1; number <= 4; number++)
        put(store, EPS_CACHE_PLD, number);
    edit(*state, "UPDATE blobs SET key = x'00' WHERE substr(key, 2, 1) = x'01';"
                 "UPDATE blobs SET size = 7 WHERE substr(key, 2, 1) = x'02';"
                 "UPDATE blobs SET kind = 99 WHERE substr(key, 2, 1) = x'03'");
    for (unsigned number = 5; number <= 9; number++) {
        put(store, EPS_CACHE_PLD, number);
        assert_true(kept(store, EPS_CACHE_PLD, number));
    }
    store_close(store);
    assert_int_equal(edit(*state, "DELETE FROM blobs"), 4);
}

/* A new accounting version forgets loss distributions, and of factorisations those that no result names. */
TEST_WITH(an_older_version_keeps_its_named_factorisations, set_up, tear_down)
{
    struct store *store = open_store(*state, 1 << 20, 0);
    put(store, EPS_CACHE_FACTORIZATION, 1);
    put(store, EPS_CACHE_FACTORIZATION, 2);
    put(store, EPS_CACHE_PLD, 3);
    pin(store, 1);
    store_close(store);
    edit(*state, "UPDATE blobs SET version = version - 1; UPDATE uses SET version = version - 1;"
                 "UPDATE results SET version = version - 1");
    store = open_store(*state, 1 << 20, 0);
    assert_true(kept(store, EPS_CACHE_FACTORIZATION, 1));
    assert_false(kept(store, EPS_CACHE_FACTORIZATION, 2));
    assert_false(kept(store, EPS_CACHE_PLD, 3));
    store_close(store);
}

TEST_WITH(a_newer_schema_is_refused, set_up, tear_down)
{
    struct place *place = *state;
    store_close(open_store(place, 1 << 20, 0));
    edit(place, "PRAGMA user_version = 1000");
    char message[256] = "";
    struct store_options options = {.path = place->path, .cache_bytes = 1 << 20};
    assert_null(store_open(&options, message, sizeof message));
    assert_non_null(strstr(message, "newer epsilond"));
}
