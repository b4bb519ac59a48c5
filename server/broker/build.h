/*
 * What two processes must have in common to give the same answer to the last bit: the version of epsilond, and the
 * processor and libraries that numbers depend on.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_BROKER_BUILD_H
#define SERVER_BROKER_BUILD_H

#include <stdbool.h>
#include <stddef.h>

struct build {
    int accounting;     /* EPS_ACCOUNTING_VERSION */
    char version[32];   /* EPS_VERSION */
    char numerics[192]; /* of the processor and the libraries */
};

#define BUILD_KEY_SIZE 33

/* Of this process. */
void build_own(struct build *build);
/* Equal builds have equal keys: 32 hex digits. */
void build_key(char key[BUILD_KEY_SIZE], const struct build *build);
bool build_equal(const struct build *a, const struct build *b);
/* How they differ, in words that name both; "worker" and "server" are what they are called. */
void build_difference(char *out, size_t out_size, const struct build *worker, const struct build *server);

#endif
