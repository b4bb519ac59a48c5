/*
 * Limits shared by several folders of lib/. A limit used by one folder is defined there.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_BASE_LIMITS_H
#define EPS_BASE_LIMITS_H

#include <stddef.h>

/* The largest number of steps of a mechanism if the caller sets no limit. */
#define EPS__N_MOST ((size_t)1 << 24)

/* The largest epsilon that searches try. */
#define EPS__EPSILON_MOST 1e9

/* About ln 1e-300, the smallest delta that a job may ask for. No part of delta is aimed lower. */
#define EPS__LOG_DELTA_LEAST (-690.0)
/* The smallest ln delta that searches and compositions consider. */
#define EPS__LOG_DELTA_FLOOR (-700.0)
/* The ln delta that a composition is made for if delta is unknown: about 1e-6. */
#define EPS__LOG_DELTA_ABOUT (-14.0)

#endif
