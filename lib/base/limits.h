/*
 * Limits that several rooms share. A limit of one room stands in that room.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_BASE_LIMITS_H
#define EPS_BASE_LIMITS_H

#include <stddef.h>

/* The most steps of a mechanism where the caller sets no limit. */
#define EPS__N_MOST ((size_t)1 << 24)

/* No search for an epsilon goes further. */
#define EPS__EPSILON_MOST 1e9

/* ln of the smallest delta that a job may ask for, 1e-300: no part of delta is aimed lower. */
#define EPS__LOG_DELTA_LEAST (-690.0)
/* ln delta below which no search and no composition goes. */
#define EPS__LOG_DELTA_FLOOR (-700.0)
/* ln delta about which a composition is made where nothing is known of delta yet: about 1e-6. */
#define EPS__LOG_DELTA_ABOUT (-14.0)

#endif
