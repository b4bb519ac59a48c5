/*
 * Composition of curves whose losses have very different sizes: one grid cannot represent both a phase and another of
 * ten thousand times its noise.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_TRAINING_SCALES_H
#define EPS_TRAINING_SCALES_H

#include "lib/pld/known/curves.h"

struct eps__scales;

/* As eps__curves_*() (lib/pld/known/curves.h), with identical results while one grid reaches all curves. Otherwise
 * the curves of smaller losses are composed separately and replaced by two losses and an added delta (T5). */
enum eps_status eps__scales_create(struct eps__scales **scales, const struct eps_context *context,
                                   const struct eps__accuracy *accuracy);
void eps__scales_destroy(struct eps__scales *scales);
enum eps_status eps__scales_add(struct eps__scales *scales, struct eps__curve *curve, uint64_t count);
enum eps_status eps__scales_log_delta(struct eps__scales *scales, enum eps__estimate estimate, double eps,
                                      double *log_delta);
enum eps_status eps__scales_approximate(struct eps__scales *scales, double eps, double *log_delta);
enum eps_status eps__scales_guess(struct eps__scales *scales, double log_delta, double *eps);
bool eps__scales_refine(struct eps__scales *scales, double factor);

#endif
