/*
 * blt: buffered linear Toeplitz strategies, c_0 = 1 and c_t = sum over buffers of scale decay^(t-1), given or
 * optimised (blt_optimise.c). Noise needs one number a buffer and coordinate, whatever the stream's length, and so do
 * the first columns here: both C and C^-1 are streamed from the buffers, O(n buffers).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/internal.h"

/* Steps after which the running powers of the decays are set anew, and between two polls. */
enum { REFRESH = 256, POLL = 1 << 16 };

struct blt {
    const double *decay, *scale;
    size_t len;
};

static enum eps_status stream_c(const struct eps_context *context, double *out, struct eps_error *error,
                                const struct blt *blt, double *terms, size_t n)
{
    out[0] = 1;
    for (size_t t = 1; t < n; t++) {
        double sum = 0;
        if ((t - 1) % REFRESH == 0)
            for (size_t i = 0; i < blt->len; i++)
                terms[i] = blt->scale[i] * pow(blt->decay[i], (double)(t - 1));
        for (size_t i = 0; i < blt->len; i++) {
            sum += terms[i];
            terms[i] *= blt->decay[i];
        }
        out[t] = sum;
        enum eps_status status = t % POLL == 0 ? eps__strategy_poll(context, error) : EPS_OK;
        if (status)
            return status;
    }
    return EPS_OK;
}

/* x_t = y_t - sum of scale times buffer for the unit impulse y; then each buffer decays and takes x_t. */
static enum eps_status stream_inverse(const struct eps_context *context, double *out, struct eps_error *error,
                                      const struct blt *blt, double *buffers, size_t n)
{
    memset(buffers, 0, blt->len * sizeof *buffers);
    for (size_t t = 0; t < n; t++) {
        double x = t == 0;
        for (size_t i = 0; i < blt->len; i++)
            x -= blt->scale[i] * buffers[i];
        for (size_t i = 0; i < blt->len; i++)
            buffers[i] = blt->decay[i] * buffers[i] + x;
        out[t] = x;
        enum eps_status status = t % POLL == 0 ? eps__strategy_poll(context, error) : EPS_OK;
        if (status)
            return status;
    }
    return EPS_OK;
}

static enum eps_status fill(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                            const struct blt *blt)
{
    size_t n = s->block;
    double *c = malloc(n * sizeof *c), *inverse = malloc(n * sizeof *inverse);
    double *state = malloc(blt->len * sizeof *state);
    s->blt = malloc(2 * blt->len * sizeof *s->blt);
    enum eps_status status = c && inverse && state && s->blt ? EPS_OK : eps__strategy_no_memory(error);
    if (!status)
        status = stream_c(context, c, error, blt, state, n);
    if (!status)
        status = stream_inverse(context, inverse, error, blt, state, n);
    free(state);
    if (status || !eps__all_finite(inverse, n)) {
        /* An inverse that grows beyond what doubles hold is left to the kind to find undefined. */
        free(inverse);
        inverse = NULL;
    }
    if (status) {
        free(c);
        return status;
    }
    memcpy(s->blt, blt->decay, blt->len * sizeof *s->blt);
    memcpy(s->blt + blt->len, blt->scale, blt->len * sizeof *s->blt);
    s->blt_len = blt->len;
    eps__toeplitz_steal(s, c, n);
    s->known_inverse = inverse;
    s->known_inverse_len = inverse ? n : 0;
    return EPS_OK;
}

size_t eps_strategy_blt(const struct eps_strategy *strategy, const double **decay, const double **scale)
{
    if (decay)
        *decay = strategy->blt;
    if (scale)
        *scale = strategy->blt ? strategy->blt + strategy->blt_len : NULL;
    return strategy->blt_len;
}

void eps__blt_save(const struct eps_strategy *s, struct eps__record *out)
{
    eps__record_put_doubles(out, s->blt, 2 * s->blt_len);
}

void eps__blt_load(struct eps_strategy *s, struct eps__record *from)
{
    size_t len;
    eps__record_get_doubles(from, &s->blt, &len);
    s->blt_len = len / 2;
    if (len % 2)
        from->bad = true;
}

static enum eps_status given(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                             const struct eps_matrix *matrix)
{
    const struct blt blt = {matrix->decay, matrix->scale, matrix->blt_len};
    if (!blt.decay || !blt.scale || !blt.len)
        return eps__error(error, EPS_INVALID, "/matrix/buffers",
                          "give buffers (optimised), or decay with scale (given)");
    for (size_t i = 0; i < blt.len; i++) {
        char where[64];
        snprintf(where, sizeof where, "/matrix/decay/%zu", i);
        if (!(blt.decay[i] > 0 && blt.decay[i] < 1))
            return eps__error(error, EPS_INVALID, where, "must lie in (0, 1)");
    }
    return fill(context, s, error, &blt);
}

enum eps_status eps__build_blt(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                               const struct eps_mechanism *mechanism)
{
    const struct eps_matrix *matrix = &mechanism->matrix;
    double decay[EPS__BLT_BUFFERS_MAX], scale[EPS__BLT_BUFFERS_MAX];
    const struct blt blt = {decay, scale, matrix->buffers};
    if (!matrix->buffers)
        return given(context, s, error, matrix);
    if (matrix->buffers > EPS__BLT_BUFFERS_MAX || matrix->buffers > s->block)
        return eps__error(error, EPS_INVALID, "/matrix/buffers",
                          "must lie in [1, %d], and be no more than the number of rows of C (n/stamps)",
                          EPS__BLT_BUFFERS_MAX);
    enum eps_status status = eps__blt_optimise(context, decay, scale, s, error, mechanism);
    return status ? status : fill(context, s, error, &blt);
}
