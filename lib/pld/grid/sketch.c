/*
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/grid/sketch.h"

#include <stdlib.h>

/* Each run's mass at its mean. */
static bool draw(struct eps__pld *drawn, const struct eps__pld *pld)
{
    size_t run = (pld->len + EPS__SKETCH_MAX - 1) / EPS__SKETCH_MAX;
    *drawn = *pld;
    drawn->len = 0;
    drawn->index = malloc(EPS__SKETCH_MAX * sizeof *drawn->index);
    drawn->mass = malloc(EPS__SKETCH_MAX * sizeof *drawn->mass);
    if (!drawn->index || !drawn->mass)
        return false;
    for (size_t from = 0; from < pld->len; from += run) {
        double mass = 0, moment = 0;
        for (size_t j = from; j < pld->len && j < from + run; j++) {
            mass += pld->mass[j];
            moment += pld->mass[j] * (double)(pld->index[j] - pld->index[from]);
        }
        drawn->index[drawn->len] = pld->index[from] + (mass > 0 ? (int64_t)(moment / mass) : 0);
        drawn->mass[drawn->len++] = mass;
    }
    return true;
}

enum eps_status eps__sketch_make(struct eps__sketch *sketch, const struct eps__pld_power *powers, size_t len)
{
    *sketch = (struct eps__sketch){.powers = calloc(len, sizeof *powers), .own = calloc(len, sizeof *sketch->own)};
    if (!sketch->powers || !sketch->own)
        goto fail;
    for (; sketch->len < len; sketch->len++) {
        size_t i = sketch->len;
        sketch->powers[i] = powers[i];
        if (powers[i].pld->len <= EPS__SKETCH_MAX)
            continue;
        sketch->powers[i].pld = &sketch->own[i];
        if (!draw(&sketch->own[i], powers[i].pld)) {
            sketch->len++;
            goto fail;
        }
    }
    return EPS_OK;
fail:
    eps__sketch_clear(sketch);
    return EPS_NO_MEMORY;
}

void eps__sketch_clear(struct eps__sketch *sketch)
{
    for (size_t i = 0; i < sketch->len; i++)
        eps__pld_clear(&sketch->own[i]);
    free(sketch->powers);
    free(sketch->own);
    *sketch = (struct eps__sketch){0};
}
