/*
 * Copies of one user's examples under b-min-sep sampling that differ in nothing but how long each still sits out, and
 * by how many examples it was drawn: its stage. A state is a multiset of stages of which one waits at least; when none
 * does, nothing happens until the first one waits again, and that step is jumped to (M23).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_B_MIN_SEP_LAYOUT_H
#define EPS_MOMENTS_LAWS_B_MIN_SEP_LAYOUT_H

#include <stdint.h>

#include "lib/moments/laws/b_min_sep.h"

enum { EPS__B_MIN_SEP_COPIES_MAX = 64 };

/*
 * Stage 0 waits. Then those that sit out r more steps and meet nobody any more, by r <= b - width; then those that were
 * drawn d < width steps ago, by d and by how many of the user's examples were; last those that a process before the
 * first step made sit out for longer than b - width, which meet nobody either, and of which there are none after b
 * steps.
 */
struct eps__b_min_sep_stages {
    size_t separation, width, examples;
    size_t meeting, virtual_, len; /* where the second, the third group begin; all */
};

/* Copies that meet at a distance (0: are drawn together): so many pairs of examples. */
struct eps__b_min_sep_meeting {
    uint32_t distance, times;
};

struct eps__b_min_sep_transition {
    uint32_t from, to, jump;
};

/* What a transition weighs. */
struct eps__b_min_sep_cause {
    eps__quad base; /* the probability of who is drawn */
    size_t meetings;
};

struct eps__b_min_sep_begin {
    size_t step, state;
    eps__quad weight;
};

struct eps__b_min_sep_layout {
    const struct eps__b_min_sep *b_min_sep;
    struct eps__b_min_sep_stages stages;
    unsigned copies;
    size_t states;           /* all but one copy's stages: the one waits */
    size_t len, lasting_len; /* transitions; those without a history before the first step come first */
    struct eps__b_min_sep_transition *items;
    struct eps__b_min_sep_cause *causes;
    struct eps__b_min_sep_meeting *meetings; /* `stride` for each */
    size_t stride;                           /* copies */
    size_t *places;                          /* [stage][j]: C(stage + j, j + 1) */
    eps__quad *chance;                       /* [j]: of being drawn by j of the examples */
    size_t reach, most,
        entries; /* the largest times; the largest sum of one transition's; transitions into one state */
    struct eps__b_min_sep_begin *begins;
    size_t begins_len;
};

struct eps__b_min_sep_stages eps__b_min_sep_stages_of(const struct eps__b_min_sep *b_min_sep);

/* How many transitions there are from states whose copies have so many stages. */
double eps__b_min_sep_transitions(double stages, unsigned examples, unsigned copies);

/*
 * Of so many copies, 1 <= copies < EPS__B_MIN_SEP_COPIES_MAX, of a warm start or of k examples; of *b_min_sep, which is
 * kept, the matrix is not read. EPS_NO_MEMORY; to be cleared in any case.
 */
enum eps_status eps__b_min_sep_layout_make(struct eps__b_min_sep_layout *layout, const struct eps__b_min_sep *b_min_sep,
                                           unsigned copies);
void eps__b_min_sep_layout_clear(struct eps__b_min_sep_layout *layout);

#endif
