/*
 * A pairing heap (Fredman, Sedgewick, Sleator, Tarjan 1986): insertion takes constant time, removal amortised
 * logarithmic time. It uses no recursion, so its shape cannot exhaust the stack.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/heap.h"

/* Joins two roots; either may be NULL. */
static struct heap_node *meld(struct heap_node *a, struct heap_node *b)
{
    if (!a || !b)
        return a ? a : b;
    if (heap_before(b, a)) {
        struct heap_node *least = b;
        b = a;
        a = least;
    }
    b->next = a->child;
    b->prev = a;
    if (a->child)
        a->child->prev = b;
    a->child = b;
    a->next = a->prev = NULL;
    return a;
}

/* Joins siblings: in pairs from the left, then the pairs from the right. */
static struct heap_node *meld_siblings(struct heap_node *first)
{
    struct heap_node *pairs = NULL; /* the last one first, linked by next */
    while (first) {
        struct heap_node *a = first;
        struct heap_node *b = a->next;
        first = b ? b->next : NULL;
        a->next = a->prev = NULL;
        if (b)
            b->next = b->prev = NULL;
        a = meld(a, b);
        a->next = pairs;
        pairs = a;
    }
    struct heap_node *root = NULL;
    while (pairs) {
        struct heap_node *next = pairs->next;
        pairs->next = NULL;
        root = meld(root, pairs);
        pairs = next;
    }
    return root;
}

void heap_insert(struct heap *heap, struct heap_node *node, double rank)
{
    *node = (struct heap_node){.rank = rank, .number = heap->number++};
    heap->root = meld(heap->root, node);
    heap->len++;
}

void heap_remove(struct heap *heap, struct heap_node *node)
{
    struct heap_node *below = meld_siblings(node->child);
    if (node == heap->root) {
        heap->root = below;
    } else {
        if (node->prev->child == node)
            node->prev->child = node->next;
        else
            node->prev->next = node->next;
        if (node->next)
            node->next->prev = node->prev;
        heap->root = meld(heap->root, below);
    }
    heap->len--;
    *node = (struct heap_node){0};
}
