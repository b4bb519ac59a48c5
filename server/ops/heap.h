/*
 * A priority queue of structs that embed its node: there is no allocation per entry, so insertion cannot fail. The
 * smallest comes out first; equal ones come out in insertion order. Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_HEAP_H
#define SERVER_OPS_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    double rank;
    uint64_t number; /* order of insertion */
    struct heap_node *child;
    struct heap_node *next; /* sibling */
    struct heap_node *prev; /* the sibling, or, for a first child, the parent; NULL: the root, or in no heap */
};

/* Zero-initialise. */
struct heap {
    struct heap_node *root; /* the smallest; NULL: empty */
    uint64_t number;
    size_t len;
};

void heap_insert(struct heap *heap, struct heap_node *node, double rank);
/* Removes a node from the heap. */
void heap_remove(struct heap *heap, struct heap_node *node);
/* Whether the node comes before the other. */
static inline bool heap_before(const struct heap_node *node, const struct heap_node *other)
{
    return node->rank < other->rank || (node->rank == other->rank && node->number < other->number);
}

#define HEAP_ENTRY(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

#endif
