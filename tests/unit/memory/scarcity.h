/*
 * An allocator that fails when it is told to, for the calls of our own code: programs that are linked with the --wrap
 * options of the Makefile (SCARCE) ask here for memory wherever lib/, api/ and server/ ask. Libraries that hand a
 * failure on are asked in our name (jansson, which api/json/memory.c serves, and SQLite by its hook; GSL, LAPACKE and
 * FFTW's planner by the call that would have allocated). What FFTW and OpenBLAS allocate within is left out: FFTW
 * exits the process and OpenBLAS waits for ever or reads through NULL, and neither can be told to do otherwise.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_SCARCITY_H
#define TESTS_UNIT_SCARCITY_H

#include <stdbool.h>
#include <stddef.h>

/* From now on allocations count, and the nth of them fails (0: none), and all after it if `for_ever`. */
void scarcity_begin(size_t nth, bool for_ever);
/* Allocations are given again. Returns how many were asked for. */
size_t scarcity_end(void);
/* Whether one of them failed. */
bool scarcity_struck(void);

/* Frames by which two stacks are told apart. */
#define SCARCITY_WHOLE 40

/*
 * Runs body() twice with all the memory it asks for, and then with an allocation that fails: for each stack from
 * which one is asked for the first, the second and the last (all, if the environment has SCARCITY_ALL); or, where
 * stacks are told apart by their innermost `depth` frames alone, the first; alone and then with all that follow it.
 * check() sees each of these runs end, with allocations given, and whether one failed. Blocks that a run leaves
 * behind, but for the first, are a failure of the test. Returns the number of runs in which one failed.
 */
size_t scarcity_each(void (*body)(void *user), void (*check)(void *user, bool struck), void *user, size_t depth);

/* Where the last allocation that failed (the first of them, if more did) was asked for, innermost first: lines for a
 * message. */
void scarcity_explain(char *text, size_t size);

/* Memory for the test's own hooks, which never fails and is given back by our own code's free(). */
void *scarcity_give(size_t size);

/* SQLite's memory, too: once a program, before anything uses it. */
void scarcity_hook_sqlite(void);

/* A line of ours that asks for memory and need not be struck, and why. */
struct scarcity_exception {
    const char *file, *text, *why;
};

/* The lines under `folder` that ask for memory and whose asking has never failed so far, but for the exceptions; prints
 * them. Exceptions that fit no line are printed and counted, too. *total: all such lines. */
size_t scarcity_unstruck(const char *folder, const struct scarcity_exception *exceptions, size_t len, size_t *total);

#endif
