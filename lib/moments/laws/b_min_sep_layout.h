/*
 * The states and transitions of copies of a user's examples under b-min-sep sampling. Copies differ only in their
 * stage: how long each still sits out, and how many of the user's examples were drawn. A state is a multiset of stages
 * in which at least one copy waits. If no copy waits, nothing happens until the first one waits again, so a transition
 * jumps to that step (M23).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_B_MIN_SEP_LAYOUT_H
#define EPS_MOMENTS_LAWS_B_MIN_SEP_LAYOUT_H

#include <stdint.h>

#include "lib/moments/laws/b_min_sep.h"

enum { EPS__B_MIN_SEP_COPIES_MAX = 64 };

/*
 * The numbering of stages:
 * - stage 0 waits;
 * - stages r <= b - width sit out r more steps, and meet no other copy any more;
 * - from `meeting` on, stages that were drawn d < width steps ago, by d and by the number of examples that were drawn;
 * - from `virtual_` on, after a warm start, stages that sit out more than b - width steps because of the history before
 *   the first step. They meet no other copy, and none are left after b steps.
 */
struct eps__b_min_sep_stages {
    size_t separation, width, examples;
    size_t meeting, virtual_, len;
};

/* The number of pairs of examples of different copies that meet at a distance; distance 0: drawn in the same step. */
struct eps__b_min_sep_meeting {
    uint32_t distance, times;
};

struct eps__b_min_sep_transition {
    uint32_t from, to; /* states */
    uint32_t jump;     /* steps */
};

/* What the weight of a transition consists of. */
struct eps__b_min_sep_cause {
    eps__quad base;  /* the probability of these drawings, with the number of their orders */
    size_t meetings; /* in use, of layout->stride */
};

/* A first state, the step at which it is entered, and its weight. */
struct eps__b_min_sep_begin {
    size_t step, state;
    eps__quad weight;
};

struct eps__b_min_sep_layout {
    const struct eps__b_min_sep *b_min_sep;
    struct eps__b_min_sep_stages stages;
    unsigned copies;
    size_t states;      /* multisets of copies - 1 stages; one more copy waits */
    size_t len;         /* transitions */
    size_t lasting_len; /* the first of them, from states without a history before the first step */
    struct eps__b_min_sep_transition *items;
    struct eps__b_min_sep_cause *causes;
    struct eps__b_min_sep_meeting *meetings; /* [transition][stride] */
    size_t stride;                           /* equal to copies */
    size_t *places;                          /* [stage][j]: C(stage + j, j + 1), for ranks of multisets */
    eps__quad *chance;                       /* [j]: the probability that j of the examples are drawn */
    size_t reach;                            /* the largest number of pairs in a meeting */
    size_t most;                             /* the largest sum of pairs in the meetings of a transition */
    size_t entries;                          /* the largest number of transitions into one state */
    struct eps__b_min_sep_begin *begins;
    size_t begins_len;
};

struct eps__b_min_sep_stages eps__b_min_sep_stages_of(const struct eps__b_min_sep *b_min_sep);

/* The number of transitions for this number of stages. */
double eps__b_min_sep_transitions(double stages, unsigned examples, unsigned copies);

/*
 * Makes the layout for 1 <= copies < EPS__B_MIN_SEP_COPIES_MAX. It keeps a reference to *b_min_sep, but does not read
 * the Gram matrix. The caller clears, whatever the status. EPS_OK, EPS_NO_MEMORY.
 */
enum eps_status eps__b_min_sep_layout_make(struct eps__b_min_sep_layout *layout, const struct eps__b_min_sep *b_min_sep,
                                           unsigned copies);
void eps__b_min_sep_layout_clear(struct eps__b_min_sep_layout *layout);

#endif
