/*
 * Lists of examples, and partitions of a data set. Each example gets the number of its part, and a counting sort by
 * that number orders the examples by part: a few passes, and ascending order within each part.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "lib/sampling/forming/batches.h"

enum { DIGIT = 11, DIGITS = 1 << DIGIT, FEW = 48 };

bool eps__examples_reserve(struct eps__examples *examples, size_t len)
{
    size_t capacity = examples->capacity ? examples->capacity : 64;
    while (capacity < len)
        capacity *= 2;
    if (capacity == examples->capacity)
        return true;
    uint32_t *items = realloc(examples->items, capacity * sizeof *items);
    if (!items)
        return false;
    examples->items = items;
    examples->capacity = capacity;
    return true;
}

bool eps__examples_append(struct eps__examples *examples, const uint32_t *items, size_t len)
{
    if (!eps__examples_reserve(examples, examples->len + len))
        return false;
    memcpy(examples->items + examples->len, items, len * sizeof *items);
    examples->len += len;
    return true;
}

static void insert_in_order(uint32_t *items, size_t len)
{
    for (size_t i = 1; i < len; i++) {
        uint32_t item = items[i];
        size_t at = i;
        for (; at > 0 && items[at - 1] > item; at--)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

/* One pass of a radix sort, by one digit; stable. */
static void pass(uint32_t *out, const uint32_t *items, size_t len, unsigned shift)
{
    size_t begin[DIGITS + 1] = {0};
    for (size_t i = 0; i < len; i++)
        begin[(items[i] >> shift & (DIGITS - 1)) + 1]++;
    for (size_t d = 0; d < DIGITS; d++)
        begin[d + 1] += begin[d];
    for (size_t i = 0; i < len; i++)
        out[begin[items[i] >> shift & (DIGITS - 1)]++] = items[i];
}

bool eps__examples_sort(struct eps__examples *examples)
{
    if (examples->len <= FEW) {
        insert_in_order(examples->items, examples->len);
        return true;
    }
    size_t bytes = examples->len * sizeof *examples->items;
    uint32_t *other = malloc(bytes);
    if (!other)
        return false;
    pass(other, examples->items, examples->len, 0);
    pass(examples->items, other, examples->len, DIGIT);
    pass(other, examples->items, examples->len, 2 * DIGIT);
    memcpy(examples->items, other, bytes);
    free(other);
    return true;
}

/* ---------------------------------------------------------------- parts */

void eps__parts_clear(struct eps__parts *parts)
{
    free(parts->order);
    free(parts->begin);
    *parts = (struct eps__parts){0};
}

double eps__parts_bytes(uint32_t examples, size_t len)
{
    return 8.0 * examples + 4.0 * (double)len + 4;
}

static bool reserve(struct eps__parts *parts, uint32_t **of, uint32_t examples, size_t len)
{
    *of = malloc(examples * sizeof **of);
    if (!parts->order)
        parts->order = malloc(examples * sizeof *parts->order);
    if (!parts->begin)
        parts->begin = malloc((len + 1) * sizeof *parts->begin);
    parts->len = len;
    if (*of && parts->order && parts->begin)
        return true;
    free(*of);
    return false;
}

/* Counting sort by the number of each example's part. Takes ownership of `of`. */
static void sort(struct eps__parts *parts, uint32_t *of, uint32_t examples)
{
    memset(parts->begin, 0, (parts->len + 1) * sizeof *parts->begin);
    for (uint32_t j = 0; j < examples; j++)
        parts->begin[of[j] + 1]++;
    for (size_t i = 0; i < parts->len; i++)
        parts->begin[i + 1] += parts->begin[i];
    /* begin[i] advances to the end of part i, which is where part i + 1 began. */
    for (uint32_t j = 0; j < examples; j++)
        parts->order[parts->begin[of[j]]++] = j;
    memmove(parts->begin + 1, parts->begin, parts->len * sizeof *parts->begin);
    parts->begin[0] = 0;
    free(of);
}

bool eps__parts_draw(struct eps__parts *parts, struct eps__chacha *chacha, uint32_t examples, size_t len)
{
    uint32_t *of;
    if (!reserve(parts, &of, examples, len))
        return false;
    for (uint32_t j = 0; j < examples; j++)
        of[j] = (uint32_t)eps__chacha_below(chacha, len);
    sort(parts, of, examples);
    return true;
}

void eps__shuffle(uint32_t *items, struct eps__chacha *chacha, uint32_t len)
{
    for (uint32_t i = len; i > 1; i--) {
        uint32_t other = (uint32_t)eps__chacha_below(chacha, i), item = items[i - 1];
        items[i - 1] = items[other];
        items[other] = item;
    }
}

bool eps__parts_deal(struct eps__parts *parts, struct eps__chacha *chacha, uint32_t examples, size_t len)
{
    uint32_t *of;
    if (!reserve(parts, &of, examples, len))
        return false;
    for (uint32_t i = 0, j = 0; i < len; i++)
        for (uint64_t end = ((uint64_t)i + 1) * examples / len; j < end; j++)
            of[j] = i;
    eps__shuffle(of, chacha, examples);
    sort(parts, of, examples);
    return true;
}
