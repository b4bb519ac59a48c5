/*
 * The users of the examples. A user is named by an integer or a string, and gets a number on first occurrence from a
 * hash table that grows by doubling.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "api/requests/batches.h"
#include "api/codec/values.h"

#define NAME_MAX_BYTES 200

/* Grows an array by doubling; *capacity counts items. Returns false if memory runs out. */
static bool grow(void *array, size_t *capacity, size_t len, size_t size)
{
    void *items;
    if (len <= *capacity)
        return true;
    size_t wanted = *capacity ? 2 * *capacity : 64;
    wanted = wanted < len ? len : wanted;
    memcpy(&items, array, sizeof items);
    items = realloc(items, wanted * size);
    if (!items)
        return false;
    memcpy(array, &items, sizeof items);
    *capacity = wanted;
    return true;
}

struct api_users {
    struct eps_users users;
    uint64_t *begin;
    uint32_t *user;
    size_t examples, begin_capacity, user_capacity;
    char *names; /* user u has the bytes from name[u] to name[u + 1]; the first byte distinguishes integers from
                  * strings */
    size_t *name;
    size_t len, names_capacity, name_capacity;
    uint32_t *slots;                        /* user number + 1, by hash; 0: free */
    size_t slots_len;                       /* a power of two, at least twice len */
    uint8_t key[crypto_shorthash_KEYBYTES]; /* random, so that no client can choose names that collide */
};

void api_users_destroy(struct api_users *users)
{
    if (!users)
        return;
    free(users->begin);
    free(users->user);
    free(users->names);
    free(users->name);
    free(users->slots);
    free(users);
}

const struct eps_users *api_users_get(const struct api_users *users)
{
    return &users->users;
}

uint64_t api_users_examples(const struct api_users *users)
{
    return users->examples;
}

/* ---------------------------------------------------------------- names */

/* The slot of a name, or the free slot where it belongs. */
static uint32_t *find_slot(const struct api_users *users, const char *name, size_t len)
{
    uint8_t hash[crypto_shorthash_BYTES];
    size_t at;
    crypto_shorthash(hash, (const unsigned char *)name, len, users->key);
    memcpy(&at, hash, sizeof at);
    for (;; at++) {
        uint32_t *slot = &users->slots[at & (users->slots_len - 1)];
        size_t u = *slot;
        if (u == 0 ||
            (users->name[u] - users->name[u - 1] == len && memcmp(users->names + users->name[u - 1], name, len) == 0))
            return slot;
    }
}

static bool make_room(struct api_users *users)
{
    if (2 * (users->len + 1) <= users->slots_len)
        return true;
    free(users->slots);
    users->slots_len = users->slots_len ? 2 * users->slots_len : 256;
    users->slots = calloc(users->slots_len, sizeof *users->slots);
    if (!users->slots)
        return false;
    for (size_t u = 0; u < users->len; u++)
        *find_slot(users, users->names + users->name[u], users->name[u + 1] - users->name[u]) = (uint32_t)u + 1;
    return true;
}

/* The number of the user with this name, which is added if it is new. Returns false if memory runs out. */
static bool number_of(struct api_users *users, uint32_t *number, const char *name, size_t len)
{
    if (!make_room(users))
        return false;
    uint32_t *slot = find_slot(users, name, len);
    if (*slot == 0) {
        size_t from = users->name[users->len];
        if (!grow(&users->names, &users->names_capacity, from + len, 1) ||
            !grow(&users->name, &users->name_capacity, users->len + 2, sizeof *users->name))
            return false;
        memcpy(users->names + from, name, len);
        users->name[++users->len] = from + len;
        *slot = (uint32_t)users->len;
    }
    *number = *slot - 1;
    return true;
}

/* ---------------------------------------------------------------- lines */

static bool add(struct api_users *users, struct api_errors *errors, const char *name, size_t len)
{
    uint32_t number;
    if (!number_of(users, &number, name, len) ||
        !grow(&users->user, &users->user_capacity, users->begin[users->examples] + 1, sizeof *users->user)) {
        errors->out_of_memory = true;
        return false;
    }
    users->user[users->begin[users->examples]++] = number;
    return true;
}

static bool add_integer(struct api_users *users, struct api_errors *errors, double value)
{
    char name[32];
    int len = snprintf(name, sizeof name, "i%.0f", value);
    return add(users, errors, name, (size_t)len);
}

/* Adds one user of a list. Returns false if the value is not a user, or if memory runs out. */
static bool add_user(struct api_users *users, struct api_errors *errors, const json_t *json)
{
    char name[NAME_MAX_BYTES + 1] = "t";
    if (json_is_integer(json) && json_integer_value(json) >= 0 && json_integer_value(json) <= EPS__EXACT_MOST)
        return add_integer(users, errors, (double)json_integer_value(json));
    double real = json_is_real(json) ? json_real_value(json) : -1;
    if (real >= 0 && real < (double)EPS__EXACT_MOST && real == floor(real)) /* 7.0 is 7, as in all requests */
        return add_integer(users, errors, real);
    size_t len = api__is_string(json) ? json_string_length(json) : 0;
    if (len == 0 || len > NAME_MAX_BYTES)
        return false;
    memcpy(name + 1, json_string_value(json), len);
    return add(users, errors, name, len + 1);
}

/* Adds the users of a packed array of numbers. */
static bool add_numbers(struct api_users *users, struct api_errors *errors, const double *values, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!(values[i] >= 0 && values[i] <= (double)EPS__EXACT_MOST && values[i] == floor(values[i])) ||
            !add_integer(users, errors, values[i]))
            return false;
    return true;
}

static bool add_list(struct api_users *users, struct api_errors *errors, const json_t *list)
{
    size_t len;
    const double *numbers = api__packed(list, &len);
    if (numbers)
        return add_numbers(users, errors, numbers, len);
    len = json_array_size(list);
    for (size_t i = 0; i < len; i++)
        if (!add_user(users, errors, json_array_get(list, i)))
            return false;
    return len > 0;
}

static void read_line(struct api_users *users, struct api_errors *errors, const json_t *json, size_t line)
{
    char pointer[40];
    users->begin[users->examples + 1] = users->begin[users->examples];
    users->examples++;
    if (json_object_size(json) == 1 && add_list(users, errors, json_object_get(json, "users")))
        return;
    snprintf(pointer, sizeof pointer, "/users/%zu", users->examples - 1);
    if (!errors->out_of_memory)
        api_errors_add(
            errors, pointer,
            "line %zu must be {\"users\": [...]}, the users of example %zu: at least one, each an integer of at least "
            "0 (and at most 2^53) or a string of 1 to %d bytes",
            line, users->examples - 1, NAME_MAX_BYTES);
}

/* Returns false if a line is not JSON, with a message, or if memory runs out. */
static bool read_text(struct api_users *users, struct api_errors *errors, char *message, size_t message_size,
                      const char *text, size_t len, size_t line)
{
    char why[200];
    json_t *json = api_json_parse(text, len, why, sizeof why);
    if (!json || !grow(&users->begin, &users->begin_capacity, users->examples + 2, sizeof *users->begin)) {
        if (!json && why[0])
            snprintf(message, message_size, "line %zu of the body: %s", line, why);
        json_decref(json);
        return false;
    }
    read_line(users, errors, json, line);
    json_decref(json);
    return !errors->out_of_memory;
}

struct api_users *api_users_read(struct api_errors *errors, char *message, size_t message_size, const char *text,
                                 size_t len, size_t first_line)
{
    struct api_users *users = calloc(1, sizeof *users);
    size_t before = errors->len;
    message[0] = '\0';
    bool read = users && grow(&users->begin, &users->begin_capacity, 1, sizeof *users->begin) &&
                grow(&users->name, &users->name_capacity, 1, sizeof *users->name);
    if (read) {
        crypto_shorthash_keygen(users->key);
        users->begin[0] = 0;
        users->name[0] = 0;
    }
    for (size_t at = 0, line = first_line; read && at < len; line++) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t line_len = end ? (size_t)(end - (text + at)) : len - at;
        read = read_text(users, errors, message, message_size, text + at, line_len, line);
        at += line_len + 1;
    }
    if (!read || errors->len > before || errors->out_of_memory) {
        api_users_destroy(users);
        return NULL;
    }
    users->users = (struct eps_users){users->begin, users->user, users->len};
    return users;
}
