/*
 * How a scheme's batches are formed: what fills in this contract draws them step by step, each with the law that is accounted
 * (S9). Which one a scheme has is said by its row (sampling/scheme.h); lib/ask/batches.c drives it, and truncates. Internal to lib/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SAMPLING_FORMING_BATCHES_H
#define EPS_SAMPLING_FORMING_BATCHES_H

#include "lib/epsilon.h"
#include "lib/numerics/random/chacha.h"

#define EPS__BATCHED_MAX ((uint64_t)UINT32_MAX) /* examples: each has a number of 32 bits */

/* Examples by number. */
struct eps__examples {
    uint32_t *items;
    size_t len, capacity;
};

/* Batches under way. */
struct eps__forming {
    struct eps_sampling sampling;
    size_t n;
    uint32_t examples; /* of the data set, >= 1 */
    double p;          /* NAN where the scheme has none */
    size_t bins;       /* 0 where it has none */
    struct eps__chacha chacha;
    const struct eps_users *users; /* NULL: each example is somebody's of its own */
    struct eps__examples batch;    /* of this step */
    void *state;                   /* the former's */
};

struct eps__former {
    bool users; /* it needs to know whose the examples are */
    /* Draws what is drawn before the first step, and sets forming->state. False: no memory. */
    bool (*open)(struct eps__forming *forming);
    /* Adds who is in the batch of this step to forming->batch, which is empty, ascending. Steps come in order. False: no
     * memory. */
    bool (*step)(struct eps__forming *forming, size_t step);
    /* Half-built states too. */
    void (*close)(void *state);
    /* Memory of the state at most, in bytes; and how many are in a batch, about. */
    double (*bytes)(const struct eps__forming *forming);
    double (*mean)(const struct eps__forming *forming);
};

extern const struct eps__former eps__former_poisson;         /* each example at each step */
extern const struct eps__former eps__former_cyclic_poisson;  /* the same, of the group whose turn it is */
extern const struct eps__former eps__former_balls_in_bins;   /* a bin for each example */
extern const struct eps__former eps__former_loader;          /* batches that go round, shuffled or not */
extern const struct eps__former eps__former_b_min_sep;       /* who was drawn sits out */
extern const struct eps__former eps__former_b_min_sep_users; /* and so do those who share a user */

/* False: no memory. */
bool eps__examples_reserve(struct eps__examples *examples, size_t len);
static inline bool eps__examples_add(struct eps__examples *examples, uint32_t example)
{
    if (examples->len == examples->capacity && !eps__examples_reserve(examples, examples->len + 1))
        return false;
    examples->items[examples->len++] = example;
    return true;
}
bool eps__examples_append(struct eps__examples *examples, const uint32_t *items, size_t len);
/* Ascending, in the time of a few passes. False: no memory. */
bool eps__examples_sort(struct eps__examples *examples);

/* All orders equally likely. */
void eps__shuffle(uint32_t *items, struct eps__chacha *chacha, uint32_t len);

/* ---------------------------------------------------------------- parts (sampling/parts.c) */

/* The data set in parts: those of part i are order[begin[i]] .. order[begin[i + 1] - 1], ascending. */
struct eps__parts {
    uint32_t *order;
    uint32_t *begin; /* len + 1 */
    size_t len;
};

/* Each example in a part of its own drawing, uniform and independent of all others. Draws anew where there are parts already.
 * False: no memory. */
bool eps__parts_draw(struct eps__parts *parts, struct eps__chacha *chacha, uint32_t examples, size_t len);
/* Parts of floor and ceil of their share, all such splits equally likely: part i has those examples that get the places from
 * floor(i examples/len) on. */
bool eps__parts_deal(struct eps__parts *parts, struct eps__chacha *chacha, uint32_t examples, size_t len);
void eps__parts_clear(struct eps__parts *parts);
/* While they are drawn. */
double eps__parts_bytes(uint32_t examples, size_t len);

#endif
