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

/* The pointers at which a body is refused, in order, separated by spaces; "-" is the whole job. "": it is accepted. */
void refused_at(char *pointers, size_t size, const char *text);

#endif
