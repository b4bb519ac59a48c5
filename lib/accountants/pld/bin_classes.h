/*
 * Bins of balls in bins in classes, so that no two of a class share a row of C (A22).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_PLD_BIN_CLASSES_H
#define EPS_ACCOUNTANTS_PLD_BIN_CLASSES_H

#include "lib/strategy/strategy.h"

struct eps__bin_classes {
    size_t bins, apart;       /* two bins of one class are so far apart, or farther */
    bool around;              /* also from the last bins on to the first: an epoch's last rows reach into the next */
    size_t len;               /* classes, bins of them where no two may be in one */
    size_t arc, arcs, longer; /* runs of bins of different classes, `arc` long, the first `longer` by one bin more */
};

/* As few classes as there can be. C lower triangular, bins a divisor of its columns. */
struct eps__bin_classes eps__bin_classes(const struct eps_strategy *strategy, size_t bins);
struct eps__bin_classes eps__bin_classes_make(size_t bins, size_t apart, bool around);

/* The class of a bin, < len. */
size_t eps__bin_class(const struct eps__bin_classes *classes, size_t bin);

/* So many classes have so many bins: counts[0] of sizes[0], and counts[1] (0: none) of one bin more. They are counted bin by
 * bin, and that bins of a class are as far apart as said is asserted. EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
struct eps__class_sizes {
    size_t sizes[2], counts[2];
};
EPS_MUST_USE enum eps_status eps__bin_class_sizes(const struct eps_context *context, struct eps__class_sizes *out,
                                                  const struct eps__bin_classes *classes);

#endif
