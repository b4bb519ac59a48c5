/*
 * Checks of batch_size and dataset_size, from which schemes derive p or the number of bins.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdio.h>

#include "lib/sampling/scheme.h"

bool eps__check_sizes(struct eps__check *check, const struct eps_sampling *sampling, const char *instead, bool given)
{
    char pointer[32];

    snprintf(pointer, sizeof pointer, "/sampling/%s", instead);
    if (sampling->batch_size == 0) {
        if (!given)
            eps__check_fail(check, pointer, "is required, or batch_size with dataset_size, from which it is derived");
        return false;
    }
    if (given) {
        eps__check_fail(check, pointer, "give %s, or batch_size with dataset_size, not both", instead);
        return false;
    }
    if (sampling->dataset_size == 0) {
        eps__check_fail(check, "/sampling/dataset_size", "is required with batch_size: %s is derived from the two",
                        instead);
        return false;
    }
    if (sampling->batch_size > sampling->dataset_size) {
        eps__check_fail(check, "/sampling/batch_size", "must be at most dataset_size, %llu",
                        (unsigned long long)sampling->dataset_size);
        return false;
    }
    return true;
}

bool eps__check_probability(struct eps__check *check, const struct eps_sampling *sampling)
{
    return eps__check_sizes(check, sampling, "p", !isnan(sampling->p));
}
