/*
 * A curve that is dear to ask: it is asked at few points, which are kept, and chords answer between them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_CHORDS_H
#define EPS_PLD_CHORDS_H

#include "lib/pld/dots.h"

/* The curve, which is taken over, also on failure; NULL without memory, and where the curve is NULL. Its answers are
 * as near to the curve as the tolerance (three times it, where that is over 1e-2: who asks so only looks around), and the points as near to
 * each other as that needs, however often it is asked (L28). */
struct eps__curve *eps__curve_chords(struct eps__curve *curve);

#endif
