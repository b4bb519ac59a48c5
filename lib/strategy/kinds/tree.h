/*
 * The decoders of a tree, as operations of its kind.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_KINDS_TREE_H
#define EPS_STRATEGY_KINDS_TREE_H

#include "lib/strategy/kind.h"

enum eps_status eps__tree_invert(const struct eps_context *context, double **inverse, bool *defined,
                                 struct eps_error *error, const struct eps_strategy *s);
enum eps_status eps__tree_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                   const struct eps_strategy *s, const double *inverse);
enum eps_status eps__tree_decoder_row(const struct eps_strategy *s, double *out, struct eps_error *error,
                                      const double *inverse, size_t row);
enum eps_status eps__tree_noise_row(const struct eps_strategy *s, double *out, struct eps_error *error,
                                    const double *inverse, size_t row);
extern const struct eps__noise_way *const eps__tree_noise[];

#endif
