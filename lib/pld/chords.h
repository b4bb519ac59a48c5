/*
 * A curve that is dear to ask: it is asked at few points, which are kept, and chords answer between them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_CHORDS_H
#define EPS_PLD_CHORDS_H

#include "lib/pld/dots.h"

/* The curve, which is taken over, also on failure; NULL without memory, and where the curve is NULL. Its answers are as near to the
 * curve's as the tolerance of who asks, and the points are as near to each other as that needs, whoever asks how often. */
struct eps__curve *eps__curve_chords(struct eps__curve *curve);

#endif
