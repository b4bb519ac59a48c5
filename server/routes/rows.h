/*
 * The rows of a reply of POST /v1/noise, and how they are written: in NumPy's format, as lines, as an array of them.
 *
 * A stream that is taken up again draws what its first row depends on once more, from the start if need be. Meanwhile a space is sent now
 * and then, so that nobody takes the connection for dead: before the first line, or within the header of NumPy's format, which is
 * so much longer.
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

enum form { FORM_NPY, FORM_LINES, FORM_ARRAY }; /* in the order of the route's media types */

/* Made by who opens the stream. */
struct rows {
    struct streaming *streaming;
    struct eps_strategy *strategy;
    struct eps_noise *noise;
    enum api_dtype dtype;
    enum form form;
    struct keys_hold hold;
    size_t n, dimensions;
    size_t first;   /* the row that is sent first */
    size_t beat;    /* rows left out for each space */
    size_t padding; /* bytes of the header that are still to be sent */
    size_t row;     /* rows begun */
    size_t at;      /* coordinates written of the one under way */
    bool header;    /* is written */
    bool under_way; /* a row is: its end is not written */
    double *values; /* of the row, `dimensions` numbers */
};

/* Has them begin with row `first`, under n, once `noise` is there. Returns as eps_noise_skip(). */
enum eps_status rows_begin(struct rows *rows, size_t first, struct eps_error *error);
/* As streaming_kind.make and .close. */
ptrdiff_t rows_make(void *drawn, char *buffer, size_t size);
void rows_close(void *drawn);

#endif
