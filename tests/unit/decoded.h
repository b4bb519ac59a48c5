/*
 * Requests for tests of the codec: text that must decode, or the test fails with the reason.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_DECODED_H
#define TESTS_UNIT_DECODED_H

#include "api/codec/codec.h"

/* The caller's. */
json_t *parsed(const char *text);
struct api_job *decoded(const char *text);
void decoded_hash(char hash[65], const char *text);

/* The values of a file with one a line, at least one in all. */
json_t *lines_of(const char *path);

#endif
