/*
 * Keys of streams that may be resumed: for whom and for how long they are kept, and which of them make room.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/ops/keys.h"
#include "tests/unit/test.h"

static const uint8_t asked[KEYS_DIGEST] = {1, 2, 3}, other[KEYS_DIGEST] = {1, 2, 4};

static struct keys *keys_new(double seconds)
{
    assert_true(sodium_init() >= 0);
    struct keys *keys = keys_create(seconds);
    assert_non_null(keys);
    return keys;
}

static void key_of(uint8_t key[KEYS_KEY], uint64_t number)
{
    memset(key, 7, KEYS_KEY);
    memcpy(key, &number, sizeof number);
}

static struct keys_hold keep(struct keys *keys, uint64_t number, const char *address)
{
    struct keys_hold hold;
    uint8_t key[KEYS_KEY];
    key_of(key, number);
    keys_keep(keys, &hold, key, asked, address, number + 1);
    return hold;
}

static bool is_kept(struct keys *keys, struct keys_hold hold, uint64_t number)
{
    uint8_t key[KEYS_KEY], wanted[KEYS_KEY];
    uint64_t before;
    key_of(wanted, number);
    if (keys_take(keys, &hold, key, asked, 1, &before) != KEYS_FOUND) {
        return false;
    }
    assert_memory_equal(key, wanted, KEYS_KEY);
    keys_leave(keys, &hold);
    return true;
}

TEST(a_key_is_for_one_request_and_one_reader)
{
    struct keys *keys = keys_new(60);
    struct keys_hold first = keep(keys, 5, "a"), second = first, unknown = first;
    uint8_t key[KEYS_KEY] = {9}, wanted[KEYS_KEY];
    uint64_t before = 99;
    key_of(wanted, 5);
    assert_int_equal(first.turn, 1);
    assert_int_equal(strlen(first.id), KEYS_ID - 1);
    assert_string_not_equal(first.id, keep(keys, 5, "a").id);
    assert_int_equal(keys_take(keys, &second, key, other, 7, &before), KEYS_DIFFERENT);
    unknown.id[0] = unknown.id[0] == '0' ? '1' : '0';
    assert_int_equal(keys_take(keys, &unknown, key, asked, 7, &before), KEYS_UNKNOWN);
    snprintf(unknown.id, sizeof unknown.id, "no id");
    assert_int_equal(keys_take(keys, &unknown, key, asked, 7, &before), KEYS_UNKNOWN);
    assert_true(key[0] == 9 && before == 0 && second.turn == 0 && unknown.turn == 0);

    assert_int_equal(keys_take(keys, &second, key, asked, 7, &before), KEYS_FOUND);
    assert_memory_equal(key, wanted, KEYS_KEY);
    assert_true(before == 6 && second.turn == 2); /* its first reader still reads it */
    keys_leave(keys, &first);                     /* and leaves: the stream is no longer that reader's */
    assert_int_equal(keys_take(keys, &first, key, asked, 8, &before), KEYS_FOUND);
    assert_true(before == 7 && first.turn == 3);
    keys_leave(keys, &second);
    keys_leave(keys, &first);
    assert_int_equal(keys_take(keys, &second, key, asked, 9, &before), KEYS_FOUND);
    assert_int_equal(before, 0);
    keys_destroy(keys);
}

TEST(a_key_is_kept_for_a_while)
{
    struct keys *keys = keys_new(0.05);
    struct keys_hold read = keep(keys, 1, "a"), left = keep(keys, 2, "a");
    keys_leave(keys, &left);
    keys_expire(keys);
    assert_true(is_kept(keys, left, 2));
    nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
    assert_true(is_kept(keys, left, 2)); /* until it is dropped; then it begins anew */
    keys_expire(keys);
    assert_true(is_kept(keys, left, 2));
    nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
    keys_expire(keys);
    assert_false(is_kept(keys, left, 2));
    assert_true(is_kept(keys, read, 1));
    keys_destroy(keys);

    keys = keys_new(0);
    read = keep(keys, 1, "a");
    assert_true(read.turn == 0 && read.id[0] == '\0');
    keys_leave(keys, &read);
    keys_destroy(keys);
    keys_expire(NULL);
}

/* An address makes room among its own keys, the one that was left first going first; likewise all addresses together; a
 * key that is being read never goes. */
TEST(there_is_room_for_so_many)
{
    enum { ADDRESSES = KEYS_MOST / KEYS_OF_ONE };
    static struct keys_hold held[KEYS_MOST];
    struct keys *keys = keys_new(60);
    struct keys_hold read = keep(keys, 77, "a");
    size_t len = 0;
    for (size_t i = 0; i < KEYS_OF_ONE; i++) {
        held[len++] = keep(keys, i, "a");
        keys_leave(keys, &held[i]);
    }
    struct keys_hold more = keep(keys, 1000, "a");
    assert_true(more.turn && !is_kept(keys, held[0], 0) && is_kept(keys, held[1], 1) && is_kept(keys, read, 77));
    for (size_t a = 1; a < ADDRESSES; a++) {
        char address[8];
        snprintf(address, sizeof address, "%zu", a);
        for (size_t i = 0; i < KEYS_OF_ONE; i++, len++) {
            held[len] = keep(keys, len, address);
            keys_leave(keys, &held[len]);
        }
    }
    assert_false(is_kept(keys, held[2], 2)); /* the first address left its keys the longest time ago */
    assert_true(is_kept(keys, held[len - 1], len - 1) && is_kept(keys, more, 1000));
    keys_destroy(keys);

    keys = keys_new(60);
    for (size_t i = 0; i < KEYS_MOST; i++) {
        assert_true(keep(keys, i, "a").turn);
    }
    assert_int_equal(keep(keys, 1, "a").turn, 0);
    keys_destroy(keys);
}
