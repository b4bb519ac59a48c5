/*
 * Formats a double as a decimal, for JSON and CSV. Internal to api/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_JSON_NUMBER_H
#define API_JSON_NUMBER_H

#include <stddef.h>

#define API_NUMBER_TEXT 32

/* Writes the shortest decimal that decodes to the value, or "null" if it is not finite. Returns its length. */
size_t api__number_text(char text[API_NUMBER_TEXT], double value);

#endif
