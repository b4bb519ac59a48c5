/*
 * The rows of a reply of POST /v1/noise, in the NumPy format, as lines, or as an array of lines.
 *
 * A resumed stream redraws the rows on which its first row depends, from the start if necessary. Meanwhile it sends a
 * space from time to time, so that the connection is not considered dead: before the first line, or within the NumPy
 * header, which is longer by that amount.
 *
 * Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_ROWS_H
#define SERVER_ROUTES_ROWS_H

#include "api/requests/noise.h"
#include "server/ops/keys.h"
#include "server/routes/streaming.h"

enum form { FORM_NPY, FORM_LINES, FORM_ARRAY }; /* in the order of the media types of the route */

/* Created by the code that opens the stream. */
struct rows {
    struct streaming *streaming;
    struct eps_strategy *strategy;
    struct eps_noise *noise;
    enum api_dtype dtype;
    enum form form;
    struct keys_hold hold;
    size_t n, dimensions;
    size_t first;   /* the first row to send */
    size_t beat;    /* the number of skipped rows per space */
    size_t padding; /* bytes of the header still to be sent */
    size_t row;     /* the number of rows started */
    size_t at;      /* the number of coordinates written of the current row */
    bool header;    /* the header has been written */
    bool under_way; /* a row has been started and not ended */
    double *values; /* of the row; `dimensions` numbers */
};

/* Starts with row `first` < n, once `noise` is set. Returns the result of eps_noise_skip(). */
enum eps_status rows_begin(struct rows *rows, size_t first, struct eps_error *error);
/* For streaming_kind.make and .close. */
ptrdiff_t rows_make(void *drawn, char *buffer, size_t size);
void rows_close(void *drawn);

#endif
