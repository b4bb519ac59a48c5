/*
 * See bin_gram.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/bin_gram.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/bound.h"

void eps__bin_gram_clear(struct eps__bin_gram *bins)
{
    free(bins->diagonal);
    free(bins->gram);
    free(bins->count);
    free(bins->own);
    *bins = (struct eps__bin_gram){0};
}

/* Sets `most`, `open` and the least width that the zeros allow. */
static void measure(struct eps__bin_gram *bins)
{
    size_t len = bins->len, cyclic = 0, plain = 0;
    for (size_t i = 0; i < len; i++) {
        bins->most = fmax(bins->most, bins->diagonal[i]);
        for (size_t j = 0; bins->gram && j < i; j++)
            if (bins->gram[i * len + j] > 0) {
                size_t around = eps__bin_distance(len, i, j);
                cyclic = around > cyclic ? around : cyclic;
                plain = i - j > plain ? i - j : plain;
                bins->most = fmax(bins->most, bins->gram[i * len + j]);
            }
    }
    bins->width = cyclic + 1;
    bins->open = plain == cyclic;
    assert(bins->width <= len / 2 + 1);
}

enum eps_status eps__bin_gram_make(struct eps__bin_gram *bins, const double *gram, const double *diagonal, size_t len,
                                   double error, double sigma)
{
    assert(len > 0 && (gram || diagonal) && sigma > 0);
    /* the error, the two roundings of the quotient, and a margin for the proof of M9 */
    double square = sigma * sigma, units = error / EPS__UNIT_ROUNDOFF + 12;
    *bins = (struct eps__bin_gram){.len = len,
                                   .total = len,
                                   .diagonal = malloc(len * sizeof *bins->diagonal),
                                   .excess = 8 * units * EPS__UNIT_ROUNDOFF};
    if (gram)
        bins->gram = malloc(len * len * sizeof *bins->gram);
    if (!bins->diagonal || (gram && !bins->gram)) {
        eps__bin_gram_clear(bins);
        return EPS_NO_MEMORY;
    }
    for (size_t i = 0; i < len; i++) {
        double beside = 0;
        for (size_t j = 0; gram && j < len; j++) {
            double raised = eps__raise(gram[i * len + j] / square, units);
            bins->gram[i * len + j] = raised;
            beside += i == j ? 0 : raised;
        }
        /* Twice what all entries beside it were raised by, at most: the matrix stays positive semidefinite (M9). */
        double own = eps__raise((diagonal ? diagonal[i] : gram[i * len + i]) / square, units);
        bins->diagonal[i] = eps__raise(own + 4 * units * EPS__UNIT_ROUNDOFF * beside, 4);
        if (gram)
            bins->gram[i * len + i] = bins->diagonal[i];
    }
    measure(bins);
    return EPS_OK;
}

/* The largest entry between two different bins, one of first .. end - 1 and one of from .. to - 1. */
static double largest_between(const struct eps__bin_gram *bins, size_t first, size_t end, size_t from, size_t to)
{
    double largest = 0;
    for (size_t i = first; i < end; i++)
        for (size_t j = from; j < to; j++)
            if (i != j)
                largest = fmax(largest, eps__bin_gram_entry(bins, i, j));
    return largest;
}

enum eps_status eps__bin_gram_gather(struct eps__bin_gram *gathered, const struct eps__bin_gram *bins, size_t size)
{
    size_t len = (bins->len + size - 1) / size, counted = 0;
    assert(size >= 2 && bins->gram && !bins->count);
    *gathered = (struct eps__bin_gram){.len = len,
                                       .total = bins->total,
                                       .diagonal = malloc(len * sizeof *gathered->diagonal),
                                       .gram = malloc(len * len * sizeof *gathered->gram),
                                       .count = malloc(len * sizeof *gathered->count),
                                       .own = malloc(len * sizeof *gathered->own)};
    if (!gathered->diagonal || !gathered->gram || !gathered->count || !gathered->own) {
        eps__bin_gram_clear(gathered);
        return EPS_NO_MEMORY;
    }
    for (size_t k = 0; k < len; k++) {
        size_t first = k * bins->len / len, end = (k + 1) * bins->len / len;
        double longest = 0;
        for (size_t l = 0; l < len; l++)
            gathered->gram[k * len + l] =
                largest_between(bins, first, end, l * bins->len / len, (l + 1) * bins->len / len);
        for (size_t i = first; i < end; i++)
            longest = fmax(longest, bins->diagonal[i]);
        gathered->diagonal[k] = gathered->gram[k * len + k];
        gathered->own[k] = fmax(eps__add_up(longest, -gathered->diagonal[k]), 0);
        gathered->count[k] = end - first;
        counted += end - first;
    }
    assert(counted == bins->len);
    measure(gathered);
    gathered->most = fmax(gathered->most, bins->most);
    return EPS_OK;
}
