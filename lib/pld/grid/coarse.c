/*
 * Coarse copies of distributions. Each run of knots becomes one knot with the run's mass at its mean.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/grid/coarse.h"

#include <stdlib.h>

static bool coarsen(struct eps__pld *made, const struct eps__pld *pld)
{
    size_t run = (pld->len + EPS__COARSE_MAX - 1) / EPS__COARSE_MAX;
    *made = *pld;
    made->len = 0;
    made->index = malloc(EPS__COARSE_MAX * sizeof *made->index);
    made->mass = malloc(EPS__COARSE_MAX * sizeof *made->mass);
    if (!made->index || !made->mass)
        return false;
    for (size_t from = 0; from < pld->len; from += run) {
        double mass = 0, moment = 0;
        for (size_t j = from; j < pld->len && j < from + run; j++) {
            mass += pld->mass[j];
            moment += pld->mass[j] * (double)(pld->index[j] - pld->index[from]);
        }
        made->index[made->len] = pld->index[from] + (mass > 0 ? (int64_t)(moment / mass) : 0);
        made->mass[made->len++] = mass;
    }
    return true;
}

enum eps_status eps__coarse_make(struct eps__coarse *coarse, const struct eps__pld_power *powers, size_t len)
{
    *coarse = (struct eps__coarse){.powers = calloc(len, sizeof *powers), .own = calloc(len, sizeof *coarse->own)};
    if (!coarse->powers || !coarse->own)
        goto fail;
    for (; coarse->len < len; coarse->len++) {
        size_t i = coarse->len;
        coarse->powers[i] = powers[i];
        if (powers[i].pld->len <= EPS__COARSE_MAX)
            continue;
        coarse->powers[i].pld = &coarse->own[i];
        if (!coarsen(&coarse->own[i], powers[i].pld)) {
            coarse->len++;
            goto fail;
        }
    }
    return EPS_OK;
fail:
    eps__coarse_clear(coarse);
    return EPS_NO_MEMORY;
}

void eps__coarse_clear(struct eps__coarse *coarse)
{
    for (size_t i = 0; i < coarse->len; i++)
        eps__pld_clear(&coarse->own[i]);
    free(coarse->powers);
    free(coarse->own);
    *coarse = (struct eps__coarse){0};
}
