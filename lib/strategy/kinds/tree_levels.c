/*
 * See tree_levels.h; tree_decoder.c derives the formulas.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/kinds/tree_levels.h"

#include <math.h>

static void full_levels(struct eps__tree_levels *v)
{
    for (size_t l = 0; l <= v->height; l++) {
        double beta = l ? 2 * v->alpha[l - 1] : 0, partial = 0;
        v->tau[l] = l ? 1 / (1 + beta) : 1;
        v->alpha[l] = l ? beta * v->tau[l] : 1;
        v->partial_tau[l] = 1;
        v->partial_alpha[l] = 0;
        if (eps__tree_remainder(v, l) == 0)
            continue;
        partial = v->partial_alpha[l - 1] + (v->m >> (l - 1) & 1 ? v->alpha[l - 1] : 0);
        v->partial_tau[l] = 1 / (1 + partial);
        v->partial_alpha[l] = partial * v->partial_tau[l];
    }
}

/* The squared norm of the estimate from the partial node of height l, without the nodes that contain no step. */
static double partial_square(const struct eps__tree_levels *v, size_t l)
{
    double sum = 0, rest = (double)eps__tree_remainder(v, l);
    for (size_t j = 0; j <= l; j++)
        sum += ceil(ldexp(rest, -(int)j)) * ldexp(1, 2 * (int)j);
    return sum / (v->width[l] * v->width[l]);
}

static void online_levels(struct eps__tree_levels *v)
{
    double best = INFINITY, above = 0;
    for (size_t l = 0; l <= v->height; l++) {
        v->width[l] = ldexp(2, (int)l) - 1;
        v->delta[l] = l ? 1 / v->width[l] - 1 / v->width[l - 1] : 0;
        double own = ldexp(1, (int)l) / v->width[l];
        v->square[l] = own * own + (l ? v->delta[l] * v->delta[l] * ldexp(1, (int)l) * v->width[l - 1] : 0);
    }
    /* From the root down: the nodes above height l of the binary representation of m, then the partial node of height
     * l. */
    v->completion = 0;
    for (size_t l = v->height + 1; l-- > 0;) {
        bool partial = eps__tree_remainder(v, l) != 0;
        above += v->m >> l & 1 ? ldexp(1, (int)l) / v->width[l] : 0;
        double candidate = above + (partial ? partial_square(v, l) : 0);
        if (candidate < best) {
            best = candidate;
            v->completion = partial ? l : 0;
        }
        if (!partial)
            break;
    }
    /* The difference of its row of N and the row without completion: changed weights for the estimates that it
     * replaces, and new nodes. */
    size_t top = v->completion;
    for (size_t j = 0; j <= top && top; j++) {
        double change = 1 / v->width[top] - 1 / v->width[j];
        if (eps__tree_remainder(v, j) != 0)
            v->completion_square += ldexp(1, 2 * (int)j) / (v->width[top] * v->width[top]);
        if (j < top && (v->m >> j & 1))
            v->completion_square += change * change * ldexp(1, (int)j) * v->width[j];
    }
}

void eps__tree_levels_init(struct eps__tree_levels *v, const struct eps_strategy *s)
{
    *v = (struct eps__tree_levels){.full = s->decoder == EPS_DECODER_FULL, .m = s->block, .height = s->height};
    if (v->full)
        full_levels(v);
    else
        online_levels(v);
}
