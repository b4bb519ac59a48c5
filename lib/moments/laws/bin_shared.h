/*
 * The part of the Gram matrix that all bins share: the largest s^2 such that G less s^2 in every entry is still
 * positive semidefinite. Then X = e^(s Z - s^2/2) Y with a standard normal Z that is independent of Y (M28).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_BIN_SHARED_H
#define EPS_MOMENTS_LAWS_BIN_SHARED_H

#include "lib/moments/laws/bin_gram.h"

/* Raises the diagonal a little and sets bins->shared, a lower bound on that s^2 for the raised matrix; 0 for a diagonal
 * matrix or groups. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__bin_gram_share(const struct eps_context *context, struct eps__bin_gram *bins);

#endif
