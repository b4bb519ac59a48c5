/*
 * "Did you mean": finds the known name that an unknown one probably means. Used for members, values and query
 * parameters.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_CODEC_MEANT_H
#define API_CODEC_MEANT_H

#include <stddef.h>

/* The first known name of which `name` is a synonym, or else the one with the fewest misspelt letters; NULL if none is
 * near. */
const char *api_meant(const char *name, const char *const *known, size_t known_len);

#endif
