/*
 * Copies of one user's examples under b-min-sep sampling that differ in nothing but how long each still sits out, and by how many
 * examples it was drawn: its kind. A state is a multiset of kinds of which one waits at least; when none does, nothing happens until the
 * first one waits again, and that step is jumped to (M23).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_B_MIN_SEP_LAYOUT_H
#define EPS_MOMENTS_LAWS_B_MIN_SEP_LAYOUT_H

#include <stdint.h>

#include "lib/moments/laws/b_min_sep.h"

enum { EPS__SPACED_COPIES_MAX = 64 };

/*
 * Kind 0 waits. Then those that sit out r more steps and meet nobody any more, by r <= b - width; then those that were drawn d < width
 * steps ago, by d and by how many of the user's examples were; last those that a process before the first step made sit out for longer
 * than b - width, which meet nobody either, and of which there are none after b steps.
 */
struct eps__spaced_kinds {
    size_t separation, width, examples;
    size_t meeting, virtual_, len; /* where the second, the third group begin; all */
};

/* Copies that meet at a distance (0: are drawn together): so many pairs of examples. */
struct eps__spaced_meeting {
    uint32_t distance, times;
};

struct eps__spaced_transition {
    uint32_t from, to, jump;
};

/* What a transition weighs. */
struct eps__spaced_cause {
    eps__quad base; /* the coins alone */
    size_t meetings;
};

struct eps__spaced_begin {
    size_t step, state;
    eps__quad weight;
};

struct eps__spaced_layout {
    const struct eps__spaced *spaced;
    struct eps__spaced_kinds kinds;
    unsigned copies;
    size_t states;           /* all but one copy's kinds: the one waits */
    size_t len, lasting_len; /* transitions; those without a history before the first step come first */
    struct eps__spaced_transition *items;
    struct eps__spaced_cause *causes;
    struct eps__spaced_meeting *meetings; /* `stride` for each */
    size_t stride;                        /* copies */
    size_t *places;                       /* [kind][j]: C(kind + j, j + 1) */
    eps__quad *chance;                    /* [j]: of being drawn by j of the examples */
    size_t reach, most,
        entries; /* the largest times; the largest sum of one transition's; transitions into one state */
    struct eps__spaced_begin *begins;
    size_t begins_len;
};

struct eps__spaced_kinds eps__spaced_kinds_of(const struct eps__spaced *spaced);

/* How many transitions there are from states whose copies have so many kinds. */
double eps__spaced_transitions(double kinds, unsigned examples, unsigned copies);

/*
 * Of so many copies, 1 <= copies < EPS__SPACED_COPIES_MAX, of a warm start or of k examples; of *spaced, which is
 * kept, the matrix is not read. EPS_NO_MEMORY; to be cleared in any case.
 */
enum eps_status eps__spaced_layout_make(struct eps__spaced_layout *layout, const struct eps__spaced *spaced,
                                        unsigned copies);
void eps__spaced_layout_clear(struct eps__spaced_layout *layout);

#endif
