/*
 * The partition of bins into classes (A22). If the distance is not cyclic, bin i is in class i mod `apart`. If it is
 * cyclic, the cycle of bins is cut into as many arcs as possible, of two lengths. Along a longer arc the classes follow
 * in order. A shorter arc skips one class, a different one each time, so that the sizes of the classes differ by at
 * most one.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/pld/bin_classes.h"

#include <assert.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/strategy/merged.h"

enum { POLL = 1 << 16 };

struct eps__bin_classes eps__bin_classes_make(size_t bins, size_t apart, bool around)
{
    struct eps__bin_classes made = {.bins = bins, .apart = apart, .around = around};
    assert(bins > 0 && apart > 0);
    if (!around) {
        made.len = made.arc = apart < bins ? apart : bins;
        return made;
    }
    made.arcs = bins / apart > 0 ? bins / apart : 1;
    made.arc = bins / made.arcs;
    made.longer = bins % made.arcs;
    made.len = made.arc + (made.longer > 0);
    return made;
}

struct eps__bin_classes eps__bin_classes(const struct eps_strategy *strategy, size_t bins)
{
    bool around = eps_strategy_columns(strategy) > bins && !eps__merged_repeats(strategy, bins);
    return eps__bin_classes_make(bins, eps_strategy_bands(strategy), around);
}

/* The class that shorter arc `index` of `shorter` skips. It descends from the last class, by at most one from arc to
 * arc. */
static size_t missing(const struct eps__bin_classes *classes, size_t index, size_t shorter)
{
    size_t down = shorter < classes->len ? index : index * classes->len / shorter;
    assert(down < classes->len);
    return classes->len - 1 - down;
}

size_t eps__bin_class(const struct eps__bin_classes *classes, size_t bin)
{
    size_t arc = classes->arc, before = classes->longer * (arc + 1);
    assert(bin < classes->bins);
    if (bin < before)
        return bin % (arc + 1);
    size_t at = (bin - before) % arc;
    if (classes->longer == 0)
        return at;
    return at + (at >= missing(classes, (bin - before) / arc, classes->arcs - classes->longer));
}

/* What is known of a class after counting some of the bins. */
struct found {
    size_t count, first, last;
};

/* Counts the classes of each of the two sizes. */
static void count_sizes(struct eps__class_sizes *out, const struct eps__bin_classes *classes, const struct found *found)
{
    size_t least = classes->bins / classes->len, counted = 0;
    *out = (struct eps__class_sizes){.sizes = {least, least + 1}};
    for (size_t c = 0; c < classes->len; c++) {
        assert(found[c].count == least || found[c].count == least + 1);
        assert(!classes->around || found[c].count == 1 ||
               found[c].first + classes->bins - found[c].last >= classes->apart);
        out->counts[found[c].count - least]++;
        counted += found[c].count;
    }
    assert(counted == classes->bins); /* every bin is in one class */
}

enum eps_status eps__bin_class_sizes(const struct eps_context *context, struct eps__class_sizes *out,
                                     const struct eps__bin_classes *classes)
{
    struct found *found = calloc(classes->len, sizeof *found);
    enum eps_status status = found ? EPS_OK : EPS_NO_MEMORY;
    for (size_t bin = 0; bin < classes->bins && status == EPS_OK; bin++) {
        struct found *own = &found[eps__bin_class(classes, bin)];
        assert(own->count == 0 || bin - own->last >= classes->apart);
        if (own->count++ == 0)
            own->first = bin;
        own->last = bin;
        if (bin % POLL == 0)
            status = eps__poll(context);
    }
    if (status == EPS_OK)
        count_sizes(out, classes, found);
    free(found);
    return status;
}
