/*
 * Makes jansson safe when memory runs out. The lexer of jansson keeps the current token in a buffer that doubles, and
 * does not check whether the allocation succeeded: a number then loses a digit, or a failed assertion ends the process.
 * Therefore allocation failures are counted, so that the caller can discard what was built meanwhile, and during
 * parsing the buffer of a token of up to RESERVE_MOST bytes doubles into reserved memory. Longer tokens, which no valid
 * job contains, are not protected. Internal to api/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_JSON_MEMORY_H
#define API_JSON_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* The number of allocation failures of jansson on this thread. Values built while it does not change are complete. */
size_t api__json_failures(void);

/* Call api__json_reserve() before a text of `len` bytes is parsed; it returns false if the reserve cannot be allocated.
 * Call api__json_release() afterwards, and after the result has been freed if failures were counted. */
bool api__json_reserve(size_t len);
void api__json_release(void);

#endif
