/*
 * blt: buffered linear Toeplitz strategies, c_0 = 1 and c_t = sum over buffers of scale decay^(t-1), given or optimised
 * (optimise/blt.c). Noise needs one number per buffer and coordinate, whatever the length of the stream. The first
 * columns of C and C^-1 are computed from the buffers as well, in O(n buffers).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/decoder.h"
#include "lib/strategy/failures.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/kinds/kinds.h"
#include "lib/strategy/optimise/blt.h"

/* The steps after which the running powers of the decays are recomputed; the steps between two polls. */
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
        if (status != EPS_OK)
            return status;
    }
    return EPS_OK;
}

/* x_t = y_t - the sum of scale times buffer, for the unit impulse y; then each buffer decays and adds x_t. */
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
        if (status != EPS_OK)
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
    if (status == EPS_OK)
        status = stream_c(context, c, error, blt, state, n);
    if (status == EPS_OK)
        status = stream_inverse(context, inverse, error, blt, state, n);
    free(state);
    if (status != EPS_OK || !eps__all_finite(inverse, n)) {
        /* If the inverse overflows, the kind finds that it is undefined. */
        free(inverse);
        inverse = NULL;
    }
    if (status != EPS_OK) {
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

static enum eps_status build(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                             const struct eps_mechanism *mechanism)
{
    const struct eps_matrix *matrix = &mechanism->matrix;
    double decay[EPS__BLT_BUFFERS_MAX], scale[EPS__BLT_BUFFERS_MAX];
    const struct blt blt = {decay, scale, matrix->buffers};
    if (!matrix->buffers)
        return given(context, s, error, matrix);
    if (matrix->buffers > EPS__BLT_BUFFERS_MAX || matrix->buffers > s->block)
        return eps__error(error, EPS_INVALID, "/matrix/buffers",
                          "must lie in [1, %d] and not exceed the number of rows of C (n/stamps)",
                          EPS__BLT_BUFFERS_MAX);
    enum eps_status status = eps__need_toeplitz_workload(error, &s->workload, "blt");
    if (status != EPS_OK)
        return status;
    status = eps__blt_optimise(context, decay, scale, s, error, mechanism);
    return status != EPS_OK ? status : fill(context, s, error, &blt);
}

static void check_buffers(struct eps__check *check, const struct eps_matrix *matrix)
{
    bool given = matrix->blt_len > 0;

    if (given == (matrix->buffers > 0))
        eps__check_fail(check, "/matrix/buffers", "give either buffers (optimised) or decay with scale (given), %s",
                        given ? "not both" : "one of them");
    if (matrix->buffers > EPS__BLT_BUFFERS_MAX)
        eps__check_fail(check, "/matrix/buffers", "must lie in [1, %d]: more do not reduce the error",
                        EPS__BLT_BUFFERS_MAX);
    else if (check->block > 0 && matrix->buffers > check->block)
        eps__check_fail(check, "/matrix/buffers", "must lie in [1, %zu], the number of rows of C (n/stamps)",
                        check->block);
    if (!given)
        return;
    if (!matrix->decay || !matrix->scale) {
        eps__check_fail(check, matrix->decay ? "/matrix/scale" : "/matrix/decay",
                        "is required: decay and scale go together");
        return;
    }
    if (matrix->blt_len > EPS__BLT_BUFFERS_MAX)
        eps__check_fail(check, "/matrix/decay",
                        "must have at most %d numbers, not %zu: more buffers do not reduce the error",
                        EPS__BLT_BUFFERS_MAX, matrix->blt_len);
    for (size_t i = 0, listed = 0; i < matrix->blt_len && listed < EPS__LISTED_MAX; i++) {
        char where[96];
        if (matrix->decay[i] > 0.0 && matrix->decay[i] < 1.0)
            continue;
        listed++;
        snprintf(where, sizeof where, "/matrix/decay/%zu", i);
        eps__check_fail(check, where, "must lie in (0, 1)");
    }
    eps__check_entries(check, "/matrix/scale", matrix->scale, matrix->blt_len, 0);
}

static bool optimised(const struct eps_matrix *matrix)
{
    return matrix->blt_len == 0;
}

static void check(struct eps__check *check, const struct eps_matrix *matrix)
{
    check_buffers(check, matrix);
    if (optimised(matrix)) {
        eps__check_target(check, matrix);
        eps__check_toeplitz_workload(check, "blt with buffers");
    }
}

static const char *source(const struct eps_matrix *matrix)
{
    return matrix->buffers ? "/matrix/buffers" : "/matrix/scale";
}

static void forecast(struct eps__forecast *c, const struct eps_mechanism *mechanism)
{
    (void)mechanism;
    c->bands = c->block;
    c->inverse_known = true;
}

/* A few hundred evaluations of the loss and its gradient, over all starting points. */
static void cost(struct eps__cost *cost, const struct eps__forecast *c, const struct eps_mechanism *mechanism)
{
    const struct eps_matrix *matrix = &mechanism->matrix;
    double m = c->block;

    cost->operations +=
        m * (matrix->buffers ? 500.0 * (30 * (double)matrix->buffers + 30) : 10 * (double)matrix->blt_len);
    cost->bytes += 8 * 8 * m;
}

/* More buffers gain almost nothing. */
static bool planned(struct eps_matrix *matrix, size_t n, size_t index)
{
    matrix->buffers = (size_t)1 << index;
    return index < 4 && matrix->buffers < n;
}

static size_t buffers(const struct eps_matrix *matrix, size_t n)
{
    (void)n;
    return matrix->buffers ? matrix->buffers : matrix->blt_len;
}

/* ------------------------------------------------------------ searches for a whole job */

/* A search changes ln(-ln decay) and ln scale of each buffer, so that C stays positive. */

enum { SEARCHED_MAX = EPS__SEARCH_VARIABLES_MAX / 2 };

static const char *search_refusal(const struct eps_matrix *matrix)
{
    _Static_assert(SEARCHED_MAX == 6, "the message below");
    return matrix->buffers <= SEARCHED_MAX ? NULL : "is available for at most 6 buffers, because more gain nothing";
}

static size_t search_numbers(const struct eps_matrix *matrix)
{
    return 2 * matrix->buffers;
}

/* The best C for error alone, and the best one for a single participation. */
static bool search_start(struct eps_matrix *start, const struct eps_matrix *matrix, size_t index)
{
    *start = *matrix;
    start->optimize_for = EPS_OPTIMIZE_FOR_ERROR;
    if (index == 1)
        start->epochs = 1;
    return index < (matrix->epochs > 1 ? 2 : 1);
}

/* The decays, then the scales. */
static enum eps_status search_read(double *numbers, const struct eps_matrix *matrix, const struct eps_strategy *start)
{
    const double *decay, *scale;
    size_t len = matrix->buffers;
    if (eps_strategy_blt(start, &decay, &scale) != len)
        return EPS_UNSUPPORTED;
    memcpy(numbers, decay, len * sizeof *decay);
    memcpy(numbers + len, scale, len * sizeof *scale);
    return EPS_OK;
}

static bool search_move(double *numbers, const struct eps_matrix *matrix, const double *start, const double *changes)
{
    size_t len = matrix->buffers;
    for (size_t i = 0; i < len; i++) {
        double rate = -log(start[i]) * exp(changes[i]);
        numbers[i] = changes[i] < 0 || changes[i] > 0 ? exp(-rate) : start[i];
        numbers[len + i] = start[len + i] * exp(changes[len + i]);
        if (!(numbers[i] > 0 && numbers[i] < 1 && numbers[len + i] <= 1e100))
            return false;
    }
    return true;
}

static bool search_holds(const double *numbers, const struct eps_matrix *matrix)
{
    bool holds = true;
    for (size_t i = 0; i < matrix->buffers; i++)
        holds = holds && numbers[i] > 0 && numbers[i] < 1 && numbers[matrix->buffers + i] >= 0 &&
                numbers[matrix->buffers + i] <= 1e100;
    return holds;
}

static struct eps_matrix search_given(const struct eps_matrix *matrix, const double *numbers)
{
    struct eps_matrix given = eps__matrix_default();
    given.family = matrix->family;
    given.decay = numbers;
    given.scale = numbers + matrix->buffers;
    given.blt_len = matrix->buffers;
    return given;
}

/* More buffers gain almost nothing here. */
static bool search_planned(const struct eps_matrix *matrix)
{
    return matrix->buffers == 2;
}

static const struct eps__family_search search = {
    .refusal = search_refusal,
    .numbers = search_numbers,
    .variables = search_numbers,
    .start = search_start,
    .read = search_read,
    .move = search_move,
    .holds = search_holds,
    .given = search_given,
    .planned = search_planned,
};

const struct eps__family eps__family_blt = {
    .family = EPS_FAMILY_BLT,
    .name = "blt",
    .check = check,
    .optimised = optimised,
    .build = build,
    .search = &search,
    .planned = planned,
    .buffers = buffers,
    .source = source,
    .forecast = forecast,
    .cost = cost,
};
