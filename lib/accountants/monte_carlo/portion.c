/*
 * See portion.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/portion.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { GRID_MOST = 1 << 16 }; /* points */

#define SAMPLES_MOST (UINT64_C(1) << 41)

/* The bytes: both processes are of one build, so numbers are as they are in memory. */
struct recipe {
    double sigma, eps, operations, least, first, step;
    uint64_t direction, tilted, exact, points, estimate, seed, candidate, samples, block, blocks;
    uint8_t run[EPS__HASH_BYTES];
};

static_assert(sizeof(struct recipe) == EPS_PORTION_BYTES, "there is no padding, and all fits");

void eps__mc_portion_write(uint8_t bytes[EPS_PORTION_BYTES], const struct eps__mc_portion *portion)
{
    struct recipe recipe = {
        .sigma = portion->aim.sigma,
        .eps = portion->aim.eps,
        .operations = portion->aim.operations,
        .least = portion->aim.least,
        .first = portion->grid.first,
        .step = portion->grid.step,
        .direction = portion->aim.direction,
        .tilted = portion->aim.tilted,
        .exact = portion->aim.exact,
        .points = portion->grid.len,
        .estimate = portion->estimate,
        .seed = portion->seed,
        .candidate = portion->candidate,
        .samples = portion->samples,
        .block = portion->first,
        .blocks = portion->blocks,
    };
    memcpy(recipe.run, portion->run, sizeof recipe.run);
    memcpy(bytes, &recipe, sizeof recipe);
}

static bool is_whole(const struct recipe *recipe)
{
    const double numbers[] = {recipe->eps, recipe->operations, recipe->least, recipe->first, recipe->step};
    bool finite = recipe->sigma > 0 && !isinf(recipe->sigma);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        finite = finite && isfinite(numbers[i]);
    return finite && recipe->direction < EPS_DIRECTIONS && recipe->tilted <= 1 && recipe->exact <= 1 &&
           recipe->points >= 1 && recipe->points <= GRID_MOST && (recipe->points == 1 || recipe->step > 0) &&
           recipe->estimate <= EPS__LOWER && recipe->samples >= 1 && recipe->samples <= SAMPLES_MOST &&
           recipe->block <= SAMPLES_MOST && recipe->blocks >= 1 && recipe->blocks <= EPS_PORTION_CHUNKS;
}

bool eps__mc_portion_read(struct eps__mc_portion *portion, const uint8_t bytes[EPS_PORTION_BYTES])
{
    struct recipe recipe;
    memcpy(&recipe, bytes, sizeof recipe);
    if (!is_whole(&recipe))
        return false;
    *portion = (struct eps__mc_portion){
        .aim = {.sigma = recipe.sigma,
                .direction = (enum eps_direction)recipe.direction,
                .tilted = recipe.tilted,
                .eps = recipe.eps,
                .operations = recipe.operations,
                .least = recipe.least,
                .exact = recipe.exact},
        .grid = {recipe.first, recipe.step, (size_t)recipe.points},
        .estimate = (enum eps__estimate)recipe.estimate,
        .seed = recipe.seed,
        .candidate = recipe.candidate,
        .samples = recipe.samples,
        .first = recipe.block,
        .blocks = recipe.blocks,
    };
    memcpy(portion->run, recipe.run, sizeof portion->run);
    return true;
}
