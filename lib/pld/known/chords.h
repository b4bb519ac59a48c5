/*
 * A curve that is expensive to evaluate: it is evaluated at few points, which are kept, and chords give the values
 * between them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_KNOWN_CHORDS_H
#define EPS_PLD_KNOWN_CHORDS_H

#include "lib/pld/known/curve_points.h"

/*
 * Wraps a curve and takes ownership of it, also on failure. Between points at which the curve was evaluated, the result
 * uses chords, which are bounds (P22), within the tolerance of the curve, or within three times the tolerance if that
 * is above 1e-2, as in searches. Returns NULL if out of memory or if `curve` is NULL. Requires eps >= 0. Released by
 * its class's destroy().
 */
struct eps__curve *eps__curve_chords(struct eps__curve *curve);

#endif
