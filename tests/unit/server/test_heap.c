/*
 * The priority queue compared with a plain array, for any sequence of insertions and removals at any place.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>
#include <stdlib.h>

#include "server/ops/heap.h"
#include "tests/unit/test.h"

enum { ITEMS = 300, STEPS = 20000 };

struct item {
    struct heap_node node;
    bool in;
    double rank;
    unsigned number;
};

static unsigned seed = 20261121;

static unsigned draw(unsigned bound)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % bound;
}

static struct item *least(struct item *items)
{
    struct item *best = NULL;
    for (struct item *item = items; item < items + ITEMS; item++)
        if (item->in && (!best || item->rank < best->rank || (item->rank == best->rank && item->number < best->number)))
            best = item;
    return best;
}

/* Few ranks, so that many are equal; removals from the top and from anywhere. */
TEST(the_least_comes_first)
{
    static struct item items[ITEMS];
    struct heap heap = {0};
    unsigned number = 0;
    size_t len = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        struct item *item = &items[draw(ITEMS)];
        unsigned what = draw(8);
        if (!item->in && what < 4) {
            item->in = true;
            item->rank = draw(10);
            item->number = number++;
            heap_insert(&heap, &item->node, item->rank);
            len++;
        } else if (item->in && what == 4) {
            heap_remove(&heap, &item->node);
            item->in = false;
            len--;
        } else if (what == 5 && heap.root) {
            item = HEAP_ENTRY(heap.root, struct item, node);
            heap_remove(&heap, &item->node);
            item->in = false;
            len--;
        }
        struct item *first = least(items);
        assert_int_equal(heap.len, len);
        assert_ptr_equal(heap.root, first ? &first->node : NULL);
    }
}

/* A million siblings below one root: no recursion, and each leaves once. */
TEST(a_long_row_of_siblings_is_no_danger)
{
    enum { MANY = 1000000 };
    struct heap heap = {0};
    struct heap_node *nodes = calloc(MANY, sizeof *nodes);
    assert_non_null(nodes);
    for (unsigned i = 0; i < MANY; i++)
        heap_insert(&heap, &nodes[i], i);
    for (unsigned i = 0; i < MANY; i++) {
        assert_ptr_equal(heap.root, &nodes[i]);
        heap_remove(&heap, heap.root);
    }
    assert_null(heap.root);
    free(nodes);
}
