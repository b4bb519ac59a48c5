/*
 * Jansson without memory. Its lexer keeps the token at hand in a buffer that doubles, and does not look whether it did: a
 * number then lacks a digit, or an assertion of its own ends the process. So failures are counted, that what was made
 * meanwhile can be thrown away; and while it parses, the buffer of a token of up to RESERVE_MOST bytes doubles into a
 * reserve. Longer tokens, which no job needs, are left to jansson. Internal to api/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_JSON_MEMORY_H
#define API_JSON_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* How many times on this thread jansson got no memory: what it made while it stayed the same is whole. */
size_t api__json_failures(void);

/* Before and after a text of so many bytes is parsed, and what came of it, if failures were counted, is freed. False: no
 * memory for the reserve. */
bool api__json_reserve(size_t len);
void api__json_release(void);

#endif
