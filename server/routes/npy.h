/*
 * The NumPy format, version 1: magic, the length of the header, the header padded with spaces, then the numbers by
 * rows, little-endian.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_NPY_H
#define SERVER_ROUTES_NPY_H

#include <stddef.h>

#define NPY_HEADER 128 /* bytes; a multiple of 64 as the format requires */

/* Writes `size` bytes, which is NPY_HEADER or a larger multiple of 64; padding is spaces before the final newline.
 * descr: "<f8" or "<f4". columns: 0: a one-dimensional array of `rows` numbers. */
void npy_header(char *out, size_t size, const char *descr, size_t rows, size_t columns);

#endif
