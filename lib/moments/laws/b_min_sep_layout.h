/*
 * The states and transitions of copies of a user's examples under b-min-sep sampling. Copies differ only in their
 * stage: how long each still sits out, and how many of the user's examples were drawn. A state is a multiset of stages
 * in which at least one copy waits. If no copy waits, nothing happens until the first one waits again, so a transition
 * jumps to that step.
 *
 * A warm start is a cold one b - 1 steps earlier: at these leading steps nothing meets, and copies are drawn with the
 * probabilities that leave them in the steady state (M23).
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
 * - from `meeting` on, stages that were drawn d < width steps ago, by d and by the number of examples that were drawn.
 */
struct eps__b_min_sep_stages {
    size_t separation, width, examples;
    size_t meeting, len;
};

/* What the copies that wait at a step draw: took[0] <= took[1] <= ... of their examples. */
struct eps__b_min_sep_drawing {
    uint32_t all;      /* examples */
    uint32_t together; /* pairs of examples of different copies */
};

struct eps__b_min_sep_transition {
    uint32_t to;   /* a state */
    uint32_t jump; /* steps */
};

struct eps__b_min_sep_layout {
    const struct eps__b_min_sep *b_min_sep;
    struct eps__b_min_sep_stages stages;
    unsigned copies;
    size_t lead;      /* steps before the first one: b - 1 after a warm start, else 0 */
    size_t steps;     /* with these */
    size_t states;    /* multisets of copies - 1 stages; one more copy waits. State 0: all wait */
    uint8_t *waiting; /* [state]: how many copies wait, 1 .. copies */
    uint32_t *others; /* [state][copies - 1]: the stages of the copies that do not wait, then 0 */
    size_t len;       /* transitions */
    uint32_t *first;  /* states + 1 numbers: where the transitions of each state begin */
    struct eps__b_min_sep_transition *items; /* of a state: one for each drawing of its waiting copies */
    struct eps__b_min_sep_drawing *drawings;
    uint32_t *took;                                    /* [drawing][copies] */
    size_t drawings_at[EPS__B_MIN_SEP_COPIES_MAX + 1]; /* [w]: where the drawings of w waiting copies begin */
    size_t drawings_len;
    eps__quad *chance; /* [j]: scratch space of eps__b_min_sep_bases() */
    size_t reach;      /* the largest number of examples of a drawing */
    size_t *places;    /* [stage][j]: C(stage + j, j + 1), for ranks of multisets */
};

struct eps__b_min_sep_stages eps__b_min_sep_stages_of(const struct eps__b_min_sep *b_min_sep);

/* The number of transitions for this number of stages. */
double eps__b_min_sep_transitions(double stages, unsigned examples, unsigned copies);

/* The number of steps, the leading ones included. */
size_t eps__b_min_sep_steps_of(const struct eps__b_min_sep *b_min_sep);

/*
 * Makes the layout for 1 <= copies < EPS__B_MIN_SEP_COPIES_MAX. It keeps a reference to *b_min_sep, but does not read
 * the Gram matrix. The caller clears, whatever the status. EPS_OK, EPS_NO_MEMORY.
 */
enum eps_status eps__b_min_sep_layout_make(struct eps__b_min_sep_layout *layout, const struct eps__b_min_sep *b_min_sep,
                                           unsigned copies);
void eps__b_min_sep_layout_clear(struct eps__b_min_sep_layout *layout);

/* Sets row[d], d < width: the entry of the Gram matrix of step i and of the step d before it, 0 if either is a leading
 * one. i counts from the first leading step on. */
void eps__b_min_sep_row(double *row, const struct eps__b_min_sep_layout *layout, size_t i);

/* ln of the factor of each example that is drawn at step i; 0 at a leading one. */
eps__quad eps__b_min_sep_tilt(const struct eps__b_min_sep_layout *layout, size_t i);

/* Whether steps i and i - 1 have the same row, the same tilt and the same probabilities. */
bool eps__b_min_sep_alike(const struct eps__b_min_sep_layout *layout, size_t i);

/* Sets base[drawing]: its probability at step i, with the number of different orders of took. It is the same at all
 * steps but the leading ones; two threads may not call this for one layout at once. It is within
 * eps__b_min_sep_base_units() units of quadruple roundoff. */
void eps__b_min_sep_bases(eps__quad *base, const struct eps__b_min_sep_layout *layout, size_t i);
double eps__b_min_sep_base_units(const struct eps__b_min_sep_layout *layout);

/* The examples that a copy in this stage was drawn by, and *distance: how many steps ago. 0 if it meets no other copy
 * any more. */
size_t eps__b_min_sep_last(const struct eps__b_min_sep_stages *stages, uint32_t stage, size_t *distance);

#endif
