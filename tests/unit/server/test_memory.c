/*
 * The server's small containers and texts: the hash map compared with a list, the bounded cache with its rules, times
 * with strftime(), numbers with their parser, and ids with their order.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/json/text.h"
#include "server/http/request.h"
#include "server/ops/memory.h"
#include "server/ops/clock.h"
#include "server/ops/map.h"
#include "tests/unit/test.h"

enum { KEYS = 300, STEPS = 20000 };

static unsigned long long state_of_random = 1;

static unsigned draw(unsigned bound)
{
    state_of_random = state_of_random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(state_of_random >> 33) % bound;
}

struct item {
    struct map_node node;
    char key[16];
    bool in;
};

TEST(a_map_is_a_map)
{
    static struct item items[KEYS];
    struct map map = {0};
    size_t len = 0;
    for (size_t i = 0; i < KEYS; i++)
        snprintf(items[i].key, sizeof items[i].key, "key %zu", i);
    for (int step = 0; step < STEPS; step++) {
        struct item *item = &items[draw(KEYS)];
        struct map_node *found = map_find(&map, item->key);
        assert_ptr_equal(found, item->in ? &item->node : NULL);
        if (item->in)
            map_remove(&map, &item->node);
        else
            assert_true(map_insert(&map, &item->node, item->key));
        item->in = !item->in;
        len = item->in ? len + 1 : len - 1;
        assert_int_equal(map.len, len);
    }
    assert_null(map_find(&map, "no key"));
    map_clear(&map);
}

/* ---------------------------------------------------------------- the bounded cache */

struct value {
    int references;
};

static void retain(void *value)
{
    ((struct value *)value)->references++;
}

static void release(void *value)
{
    ((struct value *)value)->references--;
}

static bool holds(struct memory *memory, const char *key, struct value *value)
{
    struct value *found = memory_get(memory, key);
    if (found)
        release(found);
    assert_true(!found || found == value);
    return found;
}

TEST(least_recently_used_goes_first)
{
    static struct value values[4];
    static const char *const keys[] = {"a", "b", "c", "d"};
    /* Room for three of about 10,000 bytes, whatever the overhead. */
    struct memory *memory = memory_create(35000, retain, release);
    assert_non_null(memory);
    for (int i = 0; i < 3; i++)
        memory_put(memory, keys[i], &values[i], 10000, memory_mark(memory));
    assert_true(holds(memory, "a", &values[0])); /* now b is the oldest */
    memory_put(memory, keys[3], &values[3], 10000, memory_mark(memory));
    assert_false(holds(memory, "b", &values[1]));
    assert_true(holds(memory, "a", &values[0]));
    assert_true(holds(memory, "c", &values[2]));
    assert_true(holds(memory, "d", &values[3]));
    assert_int_equal(values[1].references, 0);
    assert_int_equal(values[0].references, 1);
    memory_put(memory, "e", &values[1], 40000, memory_mark(memory)); /* larger than the whole cache */
    assert_false(holds(memory, "e", &values[1]));
    assert_true(holds(memory, "d", &values[3]));
    memory_destroy(memory);
    for (int i = 0; i < 4; i++)
        assert_int_equal(values[i].references, 0);
}

TEST(what_was_dropped_does_not_come_back)
{
    struct value old = {0}, fresh = {0};
    struct memory *memory = memory_create(100000, retain, release);
    assert_non_null(memory);
    uint64_t mark = memory_mark(memory); /* someone reads the row... */
    memory_drop(memory, "id");           /* ...it is deleted... */
    memory_put(memory, "id", &old, 10, mark);
    assert_false(holds(memory, "id", &old));
    memory_put(memory, "id", &fresh, 10, memory_mark(memory));
    assert_true(holds(memory, "id", &fresh));
    memory_put(memory, "id", &old, 10, memory_mark(memory)); /* what is there stays */
    assert_true(holds(memory, "id", &fresh));
    memory_drop(memory, "id");
    assert_int_equal(fresh.references, 0);
    memory_destroy(memory);
}

/* ---------------------------------------------------------------- texts */

TEST(times_are_those_of_strftime)
{
    for (int i = 0; i < 2000; i++) {
        char got[25], wanted[40];
        int64_t ms = (int64_t)draw(4000000) * 1000000 + (int64_t)draw(1000000);
        time_t seconds = (time_t)(ms / 1000);
        struct tm parts;
        gmtime_r(&seconds, &parts);
        size_t len = strftime(wanted, sizeof wanted, "%Y-%m-%dT%H:%M:%S", &parts);
        snprintf(wanted + len, sizeof wanted - len, ".%03dZ", (int)(ms % 1000));
        clock_rfc3339(got, ms);
        assert_string_equal(got, wanted);
    }
}

TEST(numbers_read_back)
{
    struct text text = {0};
    for (int i = 0; i < 5000; i++) {
        double value = ldexp((double)draw(1u << 30) + draw(1000) / 1000.0, (int)draw(600) - 300);
        text.len = 0;
        text_number(&text, i % 2 ? value : -value);
        assert_true(strtod(text.data, NULL) == (i % 2 ? value : -value));
        assert_true(text.len < 26);
    }
    text.len = 0;
    text_number(&text, NAN);
    assert_string_equal(text.data, "null");
    text.len = 0;
    text_json(&text, "a\"b\\c\n\x01\xc3\xa9");
    assert_string_equal(text.data, "\"a\\\"b\\\\c\\u000a\\u0001\xc3\xa9\"");
    text_clear(&text);
}

TEST(ids_count_up)
{
    char previous[UUID_SIZE], next[UUID_SIZE];
    uuid_next(previous);
    for (int i = 0; i < 10000; i++) { /* more than one millisecond has numbers for */
        uuid_next(next);
        assert_true(uuid_valid(next));
        assert_int_equal(next[14], '7');
        assert_true(strcmp(previous, next) < 0);
        memcpy(previous, next, UUID_SIZE);
    }
    uuid_floor(next, clock_now_ms() - 60000);
    assert_true(strcmp(next, previous) < 0);
    assert_false(uuid_valid("01234567-0000-7000-8000-00000000000"));
    assert_false(uuid_valid("01234567-0000-7000-8000-00000000000G"));
    assert_false(uuid_valid("0123456700000-7000-8000-000000000000"));
}

TEST(accept_is_negotiated)
{
    static const char *const offers[] = {"application/json", "text/csv", NULL};
    static const struct {
        const char *accept;
        int offer;
    } rows[] = {
        {NULL, 0},
        {"", 0},
        {"*/*", 0},
        {"text/csv", 1},
        {"text/*", 1},
        {"TEXT/CSV", 1},
        {"text/csv;q=0.5, application/json;q=0.4", 1},
        {"text/csv;q=0.5, application/json", 0},
        {"text/csv;q=0, */*", 0},
        {"application/json;q=0, */*;q=0.1", 1},
        {"image/png", -1},
        {"application/json;q=0", -1},
        {"image/png, */*;q=0.1", 0},
        {"text/csv; header=present", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (negotiate(rows[i].accept, offers) != rows[i].offer)
            fail_msg("Accept: %s: got %d", rows[i].accept ? rows[i].accept : "(none)",
                     negotiate(rows[i].accept, offers));
}
