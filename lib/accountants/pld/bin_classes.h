/*
 * A partition of the bins into classes such that no two bins of a class share a row of C (A22).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_PLD_BIN_CLASSES_H
#define EPS_ACCOUNTANTS_PLD_BIN_CLASSES_H

#include "lib/strategy/strategy.h"

struct eps__bin_classes {
    size_t bins, apart;       /* the number of bins; the least distance between two bins of one class */
    bool around;              /* the distance is cyclic: the last rows of an epoch reach into the next one */
    size_t len;               /* the number of classes; `bins` if every bin is a class */
    size_t arc, arcs, longer; /* `arcs` runs of bins of different classes: the first `longer` of them have arc + 1 bins,
                               * the others `arc` */
};

/* The partition into as few classes as possible. C is lower triangular, and `bins` divides its number of columns. The
 * second function takes the least distance and whether it is cyclic instead of the strategy. */
struct eps__bin_classes eps__bin_classes(const struct eps_strategy *strategy, size_t bins);
struct eps__bin_classes eps__bin_classes_make(size_t bins, size_t apart, bool around);

/* The class of a bin, in [0, len). */
size_t eps__bin_class(const struct eps__bin_classes *classes, size_t bin);

/* counts[0] classes have sizes[0] bins, and counts[1] classes (possibly 0) have sizes[1] = sizes[0] + 1 bins. */
struct eps__class_sizes {
    size_t sizes[2], counts[2];
};

/* Counts the bins of every class, one bin at a time, and asserts the distances within the classes. EPS_NO_MEMORY,
 * EPS_CANCELED, EPS_TIMEOUT. */
EPS_MUST_USE enum eps_status eps__bin_class_sizes(const struct eps_context *context, struct eps__class_sizes *out,
                                                  const struct eps__bin_classes *classes);

#endif
