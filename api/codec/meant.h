/*
 * "Did you mean": the known name that an unknown one stands for. Of members, their values, and queries.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_CODEC_MEANT_H
#define API_CODEC_MEANT_H

#include <stddef.h>

/* The first of the known names that others call so, or that is least misspelt; NULL: none is near. */
const char *api_meant(const char *name, const char *const *known, size_t known_len);

#endif
