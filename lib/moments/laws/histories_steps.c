/*
 * See histories_steps.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/histories_steps.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/moments/laws/poisson.h"

/* ------------------------------------------------------------ histories */

void eps__codes_free(struct eps__codes *codes)
{
    free(codes->items);
}

double eps__subsets(size_t width, size_t separation)
{
    double count[EPS__CODES_WIDTH_MOST + 1] = {1};
    assert(width <= EPS__CODES_WIDTH_MOST);
    for (size_t w = 1; w <= width; w++)
        count[w] = count[w - 1] + (w >= separation ? count[w - separation] : 1);
    return count[width];
}

/* Writes the subsets in ascending order. */
static size_t list_subsets(uint64_t *list, size_t width, size_t separation)
{
    size_t len = 1;
    list[0] = 0;
    for (size_t w = 0; w < width; w++) { /* those whose earliest step is w steps ago */
        uint64_t own = UINT64_C(1) << w, later = w < separation ? 1 : UINT64_C(1) << (w - separation + 1);
        for (size_t i = 0; list[i] < later && list[i] < own; i++)
            list[len++] = own | list[i];
    }
    return len;
}

/* The rank of a history among all of them. */
static unsigned rank_of(const uint64_t *histories, size_t len, uint64_t history)
{
    size_t low = 0, high = len;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(histories[middle] <= history ? &low : &high) = middle;
    }
    assert(histories[low] == history);
    return (unsigned)low;
}

bool eps__codes_make(struct eps__codes *codes, size_t width, size_t separation)
{
    size_t len = (size_t)eps__subsets(width, separation), histories = (size_t)eps__subsets(width - 1, separation);
    uint64_t recent = separation > 1 ? (UINT64_C(1) << (separation < width ? separation : width)) - 2 : 0;
    uint64_t *lists = malloc((len + histories) * sizeof *lists), *before = lists + len;
    *codes = (struct eps__codes){.items = malloc(len * sizeof *codes->items), .len = len, .histories = histories};
    if (!lists || !codes->items) {
        free(lists);
        eps__codes_free(codes);
        codes->items = NULL;
        return false;
    }
    size_t listed = list_subsets(lists, width, separation), known = list_subsets(before, width - 1, separation);
    assert(listed == len && known == histories);
    for (size_t i = 0; i < len; i++) {
        uint64_t steps = lists[i], kept = steps & ~(UINT64_C(1) << (width - 1));
        codes->items[i] = (struct eps__code){.steps = steps,
                                             .old = rank_of(before, histories, steps >> 1),
                                             .young = rank_of(before, histories, kept),
                                             .waits = (steps & recent) == 0};
    }
    free(lists);
    return true;
}

/* ------------------------------------------------------------ steps */

size_t eps__histories_lead(const struct eps__histories *law)
{
    return law->warm ? law->separation - 1 : 0;
}

size_t eps__histories_steps(const struct eps__histories *law)
{
    return law->banded->len + eps__histories_lead(law);
}

void eps__histories_row(double *row, const struct eps__histories *law, size_t i)
{
    size_t lead = eps__histories_lead(law), width = law->banded->width;
    for (size_t d = 0; d < width; d++)
        row[d] = lead == 0 || i >= lead + d ? eps__banded_entry(law->banded, i - lead, d) : 0;
}

eps__quad eps__histories_tilt(const struct eps__histories *law, size_t i)
{
    size_t lead = eps__histories_lead(law);
    return law->tilt && i >= lead ? law->tilt[i - lead] : 0;
}

void eps__histories_probability(eps__quad *p, eps__quad *never, const struct eps__histories *law, size_t i)
{
    size_t lead = eps__histories_lead(law);
    eps__quad own = law->banded->p, j = i < lead ? lead - i : 0;
    *p = j > 0 ? own / (1 + j * own) : own;
    *never = j > 0 ? (1 + (j - 1) * own) / (1 + j * own) : 1 - own;
}

bool eps__histories_alike(const struct eps__histories *law, size_t i)
{
    const struct eps__banded_gram *banded = law->banded;
    size_t lead = eps__histories_lead(law), width = banded->width;
    assert(i > 0 && i < eps__histories_steps(law));
    if (lead > 0 && i < lead + width) /* leading steps differ in p, and the first rows in what they share with these */
        return false;
    if (eps__histories_tilt(law, i) != eps__histories_tilt(law, i - 1))
        return false;
    return memcmp(banded->gram + (i - lead) * width, banded->gram + (i - lead - 1) * width,
                  width * sizeof *banded->gram) == 0;
}
