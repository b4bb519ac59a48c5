/*
 * The decimal of a double, for JSON and CSV alike. Internal to api/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_JSON_NUMBER_H
#define API_JSON_NUMBER_H

#include <stddef.h>

#define API_NUMBER_TEXT 32

/* Writes the shortest decimal that decodes to the value ("null" if it is not finite); returns its length. */
size_t api__number_text(char text[API_NUMBER_TEXT], double value);

#endif
