/*
 * What tests ask of the draws of coins.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MC_POISSON_H
#define EPS_ACCOUNTANTS_MC_POISSON_H

#include "lib/accountants/mc_law.h"

/* The same losses with an exponent for each number. */
void eps__mc_poisson_exponents(const struct eps__mc_law *law, const struct eps__stream *stream, uint32_t first,
                               double *scratch, double *loss);

#endif
