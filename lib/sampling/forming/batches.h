/*
 * How the batches of a scheme are formed. An implementation of this contract draws them step by step, with the law that
 * is accounted (S9). The scheme's row (sampling/scheme.h) names it; lib/ask/batches.c calls it and truncates the
 * batches. Internal to lib/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SAMPLING_FORMING_BATCHES_H
#define EPS_SAMPLING_FORMING_BATCHES_H

#include "lib/epsilon.h"
#include "lib/numerics/random/chacha.h"

#define EPS__BATCHED_MAX ((uint64_t)UINT32_MAX) /* examples, which are numbered with 32 bits */

/* A list of examples, by their numbers. */
struct eps__examples {
    uint32_t *items;
    size_t len, capacity;
};

/* The state of a stream of batches. */
struct eps__forming {
    struct eps_sampling sampling;
    size_t n;
    uint32_t examples; /* size of the data set, >= 1 */
    double p;          /* NAN if the scheme has no p */
    size_t bins;       /* 0 if the scheme has no bins */
    struct eps__chacha chacha;
    const struct eps_users *users; /* NULL: each example has a user of its own */
    struct eps__examples batch;    /* the batch of this step */
    void *state;                   /* owned by the former */
};

struct eps__former {
    bool users; /* it needs the users of the examples */
    /* Makes the draws before the first step, and sets forming->state. False: no memory. */
    bool (*open)(struct eps__forming *forming);
    /* Adds the examples of this step's batch to forming->batch, which is empty on entry, in ascending order. Steps come
     * in order. False: no memory. */
    bool (*step)(struct eps__forming *forming, size_t step);
    /* Frees the state, also one that open() left incomplete. */
    void (*close)(void *state);
    /* An upper bound on the memory of the state, in bytes; and an approximate batch size. */
    double (*bytes)(const struct eps__forming *forming);
    double (*mean)(const struct eps__forming *forming);
};

extern const struct eps__former eps__former_poisson;         /* each example at each step */
extern const struct eps__former eps__former_cyclic_poisson;  /* the same, for the group whose turn it is */
extern const struct eps__former eps__former_balls_in_bins;   /* a bin for each example */
extern const struct eps__former eps__former_loader;          /* cyclic batches or shuffled epochs */
extern const struct eps__former eps__former_b_min_sep;       /* drawn examples sit out */
extern const struct eps__former eps__former_b_min_sep_users; /* and so do examples that share a user */

/* Makes room for len examples. False: no memory. */
bool eps__examples_reserve(struct eps__examples *examples, size_t len);
static inline bool eps__examples_add(struct eps__examples *examples, uint32_t example)
{
    if (examples->len == examples->capacity && !eps__examples_reserve(examples, examples->len + 1))
        return false;
    examples->items[examples->len++] = example;
    return true;
}
/* Appends len examples. False: no memory. */
bool eps__examples_append(struct eps__examples *examples, const uint32_t *items, size_t len);
/* Sorts the examples in ascending order, in linear time. False: no memory. */
bool eps__examples_sort(struct eps__examples *examples);

/* Shuffles the items: all orders are equally likely. */
void eps__shuffle(uint32_t *items, struct eps__chacha *chacha, uint32_t len);

/* ---------------------------------------------------------------- parts (sampling/parts.c) */

/* A partition of the data set: part i holds order[begin[i]] .. order[begin[i + 1] - 1], in ascending order. */
struct eps__parts {
    uint32_t *order;
    uint32_t *begin; /* len + 1 numbers */
    size_t len;
};

/* Draws a part for each example, uniformly and independently. Draws anew if there are parts already. False: no
 * memory. */
bool eps__parts_draw(struct eps__parts *parts, struct eps__chacha *chacha, uint32_t examples, size_t len);
/* Splits the data set into parts whose sizes are the floor or the ceiling of an equal share; all such splits are
 * equally likely. Part i gets the examples at the places from floor(i examples/len) on. False: no memory. */
bool eps__parts_deal(struct eps__parts *parts, struct eps__chacha *chacha, uint32_t examples, size_t len);
void eps__parts_clear(struct eps__parts *parts);
/* Memory in bytes, at most, while they are drawn. */
double eps__parts_bytes(uint32_t examples, size_t len);

#endif
