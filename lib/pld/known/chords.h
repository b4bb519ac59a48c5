/*
 * A curve that is dear to ask: it is asked at few points, which are kept, and chords answer between them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_KNOWN_CHORDS_H
#define EPS_PLD_KNOWN_CHORDS_H

#include "lib/pld/known/curve_points.h"

/*
 * A curve that answers for this one, which it takes over, also on failure. Between points that it has asked it
 * answers by chords, which are bounds (P22) and within the tolerance of the curve; within three times the tolerance
 * where that is over 1e-2, as in searches. NULL without memory, and where the curve is NULL. Requires eps >= 0.
 */
struct eps__curve *eps__curve_chords(struct eps__curve *curve);

#endif
