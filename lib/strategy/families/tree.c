/*
 * tree: the sums of all nodes of a binary tree, each with independent noise.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/families/family.h"
#include "lib/strategy/kinds/kinds.h"

static enum eps_status build(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                             const struct eps_mechanism *mechanism)
{
    (void)context;
    (void)error;
    s->decoder = mechanism->matrix.decoder == EPS_DECODER_FULL ? EPS_DECODER_FULL : EPS_DECODER_ONLINE;
    while (((size_t)1 << s->height) < s->block)
        s->height++;
    s->kind = &eps__strategy_tree;
    s->block_rows = ((size_t)2 << s->height) - 1;
    s->scale = 1;
    return EPS_OK;
}

static void defaults(struct eps_matrix *matrix, size_t block)
{
    (void)block;
    if (matrix->decoder == EPS_DECODER_DEFAULT)
        matrix->decoder = EPS_DECODER_ONLINE;
}

static void check(struct eps__check *check, const struct eps_matrix *matrix)
{
    if (matrix->decoder != EPS_DECODER_ONLINE && matrix->decoder != EPS_DECODER_FULL)
        eps__check_fail(check, "/matrix/decoder", "must be online or full");
}

static void forecast(struct eps__forecast *c, const struct eps_mechanism *mechanism)
{
    (void)mechanism;
    c->kind = &eps__strategy_tree;
    c->bands = c->block;
}

static bool planned(struct eps_matrix *matrix, size_t n, size_t index)
{
    (void)n;
    matrix->decoder = index ? EPS_DECODER_FULL : EPS_DECODER_ONLINE;
    return index < 2;
}

/* The online decoder needs one estimate for each level and its last row; the full decoder needs every node. */
static size_t buffers(const struct eps_matrix *matrix, size_t n)
{
    size_t height = 0;
    while (((size_t)1 << height) < n)
        height++;
    return matrix->decoder == EPS_DECODER_ONLINE && height + 1 < n ? height + 1 : n - 1;
}

const struct eps__family eps__family_tree = {
    .family = EPS_FAMILY_TREE,
    .name = "tree",
    .defaults = defaults,
    .check = check,
    .build = build,
    .planned = planned,
    .buffers = buffers,
    .forecast = forecast,
};
