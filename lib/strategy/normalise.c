/*
 * The scaling of C. The noise multiplier refers to the scaled C.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/failures.h"
#include "lib/strategy/making.h"
#include "lib/strategy/sensitivity/sensitivity.h"

static enum eps_status divide_by(struct eps_strategy *s, struct eps_error *error, double norm)
{
    if (!(norm > 0))
        return eps__error(error, EPS_INVALID, "/matrix",
                          "every entry of C is zero, so it cannot be normalised: give at least one nonzero "
                          "number, or normalization none");
    if (norm == 1)
        return EPS_OK;
    return eps__strategy_divide(s, error, norm);
}

/* A stored C whose largest column norm is 1 already is left unchanged: a second division would change its last bits and
 * so its id. */
static bool scaled_before(const struct eps_mechanism *mechanism, double largest)
{
    return eps__family_of(&mechanism->matrix)->kept && fabs(largest - 1) < 1e-12;
}

enum eps_status eps__strategy_divide(struct eps_strategy *s, struct eps_error *error, double divisor)
{
    if (s->divisors_len == EPS__DIVISORS_MAX)
        return eps__error(error, EPS_INVALID, "/matrix/normalization",
                          "the stored factorisation has been scaled %d times already: use none", EPS__DIVISORS_MAX);
    s->divisors[s->divisors_len++] = divisor;
    s->kind->divide(s, divisor);
    return s->kind->measure(s) ? EPS_OK : eps__strategy_no_memory(error);
}

enum eps_status eps__strategy_normalise(const struct eps_context *context, struct eps_strategy *s,
                                        struct eps_error *error, const struct eps_mechanism *mechanism)
{
    double largest = 0;
    struct eps__participation participation;
    struct eps__square square;
    enum eps_status status;
    switch (mechanism->matrix.normalization) {
    case EPS_NORMALIZATION_NONE:
        return EPS_OK;
    case EPS_NORMALIZATION_SENSITIVITY:
        if (eps__sampling_random(mechanism))
            return eps__error(error, EPS_INVALID, "/matrix/normalization",
                              "sensitivity requires sampling.scheme none; use max_column");
        participation = eps__sampling_worst(mechanism);
        status = eps__participation_square(context, &square, error, s, &participation);
        return status != EPS_OK ? status : divide_by(s, error, eps__sqrt_up(square.value.upper));
    case EPS_NORMALIZATION_MAX_COLUMN:
    case EPS_NORMALIZATION_COUNT:
        break;
    }
    for (size_t i = 0; i < s->squares_len; i++)
        largest = s->squares[i].upper > largest ? s->squares[i].upper : largest;
    return scaled_before(mechanism, largest) ? EPS_OK : divide_by(s, error, eps__sqrt_up(largest));
}
