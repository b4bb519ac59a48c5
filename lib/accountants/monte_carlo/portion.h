/*
 * Portions: blocks of a run that another process may draw. What it must know of them is a few numbers: how the law is
 * opened, and what is drawn from it. It opens the law from these and the same job, and draws only if the hash of all
 * that the draws depend on is the one that it was sent.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_PORTION_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_PORTION_H

#include "lib/accountants/monte_carlo/estimator.h"
#include "lib/numerics/hash.h"

struct eps__mc_portion {
    struct eps__mc_aim aim;
    struct eps__mc_grid grid;
    enum eps__estimate estimate;
    uint64_t seed, candidate, samples; /* of the run */
    uint64_t first, blocks;            /* the first block, and how many */
    uint8_t run[EPS__HASH_BYTES];      /* the hash of all that the draws depend on */
};

void eps__mc_portion_write(uint8_t bytes[EPS_PORTION_BYTES], const struct eps__mc_portion *portion);
/* Returns false if the bytes are not those of a portion. */
bool eps__mc_portion_read(struct eps__mc_portion *portion, const uint8_t bytes[EPS_PORTION_BYTES]);

#endif
