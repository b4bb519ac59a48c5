/*
 * The decoders of the Fourier mechanism, as operations of its kind.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_KINDS_FOURIER_H
#define EPS_STRATEGY_KINDS_FOURIER_H

#include "lib/strategy/kind.h"

enum eps_status eps__fourier_invert(const struct eps_context *context, double **inverse, bool *defined,
                                    struct eps_error *error, const struct eps_strategy *s);
enum eps_status eps__fourier_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                      const struct eps_strategy *s, const double *inverse);
enum eps_status eps__fourier_decoder_row(const struct eps_strategy *s, double *out, struct eps_error *error,
                                         const double *inverse, size_t row);
enum eps_status eps__fourier_noise_row(const struct eps_strategy *s, double *out, struct eps_error *error,
                                       const double *inverse, size_t row);
/* The Gram matrix X of a block, which depends on the distance: out[e], e < block, is X_ij for |i - j| = e, within
 * *error. False: no memory. */
bool eps__fourier_lags(double *out, double *error, const struct eps_strategy *s);

#endif
