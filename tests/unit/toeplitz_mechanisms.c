/*
 * See toeplitz_mechanisms.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/unit/toeplitz_mechanisms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/test.h"

static const double decays[] = {0.97, 0.6, 0.2}, scales[] = {0.1, 0.25, 0.05};
static const double weights[] = {1.5, 0.75, 0.25, 0.5, 0, 0.125};

void assert_near(long double got, long double wanted, long double tolerance)
{
    if (!(fabsl(got - wanted) <= tolerance * fmaxl(1, fabsl(wanted))))
        fail_msg("got %.17Lg, wanted %.17Lg", got, wanted);
}

void set_workload(struct eps_mechanism *m, int which)
{
    if (which == 1)
        m->workload = (struct eps_workload){.type = EPS_WORKLOAD_MOMENTUM, .momentum = 0.9, .decay = 0.98};
    if (which == 2)
        m->workload = (struct eps_workload){
            .type = EPS_WORKLOAD_TOEPLITZ, .decay = 1, .coefficients = weights, .coefficients_len = 6};
}

struct eps_mechanism mechanism_of(enum which which, size_t n)
{
    static const enum eps_family families[FAMILIES] = {EPS_FAMILY_INVERSE_SQUARE_ROOT, EPS_FAMILY_BANDED,
                                                       EPS_FAMILY_BANDED_INVERSE, EPS_FAMILY_BLT, EPS_FAMILY_BLT};
    struct eps_mechanism m = mechanism_new(families[which], n);
    m.matrix.toeplitz = true;
    m.matrix.gap = 1e-3;
    if (which == BLT) {
        m.matrix.buffers = 2;
    } else if (which == BLT_GIVEN) {
        m.matrix.decay = decays;
        m.matrix.scale = scales;
        m.matrix.blt_len = 3;
    } else {
        m.matrix.bands = 4;
    }
    return m;
}

void set_participation(struct eps_mechanism *m, size_t epochs, size_t separation)
{
    m->sampling.epochs = m->matrix.epochs = epochs;
    m->sampling.separation = m->matrix.separation = separation;
}

double loss_of(const struct eps_strategy *s, const struct eps_mechanism *m)
{
    double mean, max, last;
    struct eps_sensitivity sensitivity;
    assert_int_equal(eps__strategy_error(NULL, s, m, &mean, &max, &last), EPS_OK);
    assert_int_equal(eps__strategy_sensitivity(NULL, &sensitivity, NULL, s, m), EPS_OK);
    return (m->matrix.objective == EPS_OBJECTIVE_MAX_SQUARED ? max : mean) * sensitivity.value * sensitivity.value;
}

double loss_of_mechanism(const struct eps_mechanism *m)
{
    struct eps_strategy *s = strategy_new(m);
    double loss = loss_of(s, m);
    eps_strategy_destroy(s);
    return loss;
}

void column(double *out, const struct eps_strategy *s, enum eps_part part, size_t len)
{
    assert_int_equal(eps_strategy_coefficients(s, out, NULL, part, len), EPS_OK);
}
