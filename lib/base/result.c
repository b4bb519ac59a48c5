/*
 * Releases results.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>

#include "lib/epsilon.h"

void eps_result_destroy(struct eps_result *result)
{
    if (!result)
        return;
    for (size_t i = 0; i < result->assumptions_len; i++)
        free(result->assumptions[i]);
    for (size_t i = 0; i < result->hints_len; i++)
        free(result->hints[i]);
    free(result->assumptions);
    free(result->hints);
    free(result->candidates);
    free(result->blt_decay); /* blt_scale is in the same block */
    free(result->curve);
    for (size_t i = 0; i < result->alone_len; i++)
        eps_result_destroy(result->alone[i]);
    free(result->alone);
    free(result->phases);
    free(result);
}
