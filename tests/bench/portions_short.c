/*
 * Portions of draws of about 0.1 s, for tests/bench/broker.py.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#define PORTION_OPERATIONS 1.8e9

#include "lib/accountants/monte_carlo/draws.c"
