/*
 * A parallel_for for contexts of tests.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_THREADS_H
#define TESTS_UNIT_THREADS_H

#include <stddef.h>

/* Runs the bodies of even indices on this thread and those of odd ones on another. May be nested. */
void two_threads(void *user, size_t count, void (*body)(void *arg, size_t index), void *arg);

#endif
