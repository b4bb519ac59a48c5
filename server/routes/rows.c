/*
 * A row is drawn when it is started, and written as space becomes available.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/routes/npy.h"

enum {
    TOKEN = 64,  /* bytes: a number with its comma, or the start or end of a line */
    BEATS = 8127 /* the largest number of spaces sent while rows are skipped: numpy.load() accepts headers up to 10,000
              * bytes */
};

void rows_close(void *drawn)
{
    struct rows *rows = drawn;
    keys_leave(rows->streaming->server->keys, &rows->hold);
    eps_noise_destroy(rows->noise);
    eps_strategy_destroy(rows->strategy);
    free(rows->values);
    free(rows);
}

enum eps_status rows_begin(struct rows *rows, size_t first, struct eps_error *error)
{
    enum eps_status status = eps_noise_skip(rows->noise, first, &rows->row, error);
    rows->first = first;
    rows->beat = (first - rows->row) / BEATS + 1;
    return status;
}

/* ---------------------------------------------------------------- writing */

static bool on_canceled(void *user)
{
    return streaming_unwanted(user);
}

static bool draw_row(struct rows *rows)
{
    struct eps_context context = {.user = rows->streaming, .canceled = on_canceled};
    struct eps_error error = {0};
    enum eps_status status = eps_noise_row(&context, rows->noise, rows->values, &error);
    if (status != EPS_OK && status != EPS_CANCELED)
        log_event(LOG_LEVEL_ERROR, "noise", "request=%s detail=\"%s\"", rows->streaming->id, error.message);
    return status == EPS_OK;
}

/* Draws the next row and rounds its numbers to the dtype. */
static bool begin_row(struct rows *rows)
{
    bool drawn = draw_row(rows), finite = true;
    for (size_t i = 0; i < rows->dimensions && drawn; i++)
        finite = finite && isfinite(rows->dtype == API_FLOAT32 ? (double)(float)rows->values[i] : rows->values[i]);
    if (!finite) {
        log_event(LOG_LEVEL_ERROR, "noise", "request=%s detail=\"step %zu exceeds the range of %s\"",
                  rows->streaming->id, rows->row, api_dtype_name(rows->dtype));
    }
    rows->at = 0;
    rows->row++;
    rows->under_way = true;
    return drawn && finite;
}

static size_t put_binary(struct rows *rows, char *out, size_t size)
{
    size_t bytes = rows->dtype == API_FLOAT32 ? sizeof(float) : sizeof(double);
    size_t left = rows->dimensions - rows->at, count = size / bytes < left ? size / bytes : left;
    for (size_t i = 0; i < count; i++) {
        double value = rows->values[rows->at + i];
        float narrow = (float)value;
        memcpy(out + i * bytes, rows->dtype == API_FLOAT32 ? (const void *)&narrow : &value, bytes);
    }
    rows->at += count;
    rows->under_way = rows->at < rows->dimensions;
    return count * bytes;
}

/* Writes decimals that read back as the same number of the dtype. */
static size_t put_text(struct rows *rows, char *out, size_t size)
{
    size_t len = 0;
    if (rows->at == 0) {
        const char *before = rows->form == FORM_LINES ? "" : rows->row == rows->first + 1 ? "[" : ",";
        len += (size_t)snprintf(out, TOKEN, "%s{\"step\":%zu,\"values\":[", before, rows->row - 1);
    }
    for (; rows->at < rows->dimensions && size - len >= TOKEN; rows->at++) {
        double value = rows->values[rows->at];
        len += (size_t)snprintf(out + len, TOKEN, "%s%.*g", rows->at ? "," : "", rows->dtype == API_FLOAT32 ? 9 : 17,
                                rows->dtype == API_FLOAT32 ? (double)(float)value : value);
    }
    if (rows->at == rows->dimensions && size - len >= TOKEN) {
        const char *after = rows->form == FORM_ARRAY && rows->row == rows->n ? "]" : "";
        len += (size_t)snprintf(out + len, TOKEN, "]}%s\n", after);
        rows->under_way = false;
    }
    return len;
}

/* Writes the header if rows are skipped, except for `padding` bytes. */
static size_t put_header(struct rows *rows, char *out)
{
    rows->header = true;
    if (rows->form != FORM_NPY)
        return 0;
    size_t left_out = rows->first - rows->row;
    if (left_out)
        rows->padding = (((left_out - 1) / rows->beat + 1) / 64 + 1) * 64; /* one byte more than there are beats */
    npy_header(out, NPY_HEADER + rows->padding, rows->dtype == API_FLOAT32 ? "<f4" : "<f8", rows->n - rows->first,
               rows->dimensions);
    return NPY_HEADER;
}

/* Skips some rows and writes what is sent for them. Returns false if no row is left to skip. */
static bool leave_out(struct rows *rows, char *out, size_t *len)
{
    for (size_t i = 0; i < rows->beat && rows->row < rows->first; i++, rows->row++)
        if (!draw_row(rows))
            return false;
    size_t count = rows->row == rows->first && rows->padding ? rows->padding : 1;
    memset(out, ' ', count);
    if (rows->padding) {
        rows->padding -= count;
        out[count - 1] = rows->padding ? ' ' : '\n';
    }
    *len += count;
    return true;
}

ptrdiff_t rows_make(void *drawn, char *buffer, size_t size)
{
    struct rows *rows = drawn;
    size_t len = rows->header ? 0 : put_header(rows, buffer);
    if (rows->row < rows->first)
        return leave_out(rows, buffer + len, &len) ? (ptrdiff_t)len : STREAM_FAILED;
    while (size - len >= 2 * TOKEN && (rows->under_way || rows->row < rows->n)) {
        if (!rows->under_way && !begin_row(rows))
            return STREAM_FAILED;
        len += (rows->form == FORM_NPY ? put_binary : put_text)(rows, buffer + len, size - len);
    }
    return (ptrdiff_t)len;
}
