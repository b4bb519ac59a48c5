/*
 * Every row of reference.json's strategies that a Toeplitz family covers: the optimal banded matrices, the banded
 * inverse square roots, the optimised banded inverses and the BLTs, compared with what others computed. Losses are
 * compared, not parameters: the optima of the last two are not unique, and where the reference is only the best of
 * several restarts, or counts a majorant that one participation does not need, ours may be lower.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/strategy.h"
#include "tests/unit/matrices.h"
#include "tests/unit/test.h"

/* The file lies beside this source; tests run from the repository root. */
static const char path[] = "tests/paper/reference.json";

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("a row without %s", key);
    return json_number_value(value);
}

static size_t count(const json_t *object, const char *key)
{
    return (size_t)number(object, key);
}

typedef void visit_fn(const json_t *row);

static size_t for_each(const char *group, visit_fn *visit)
{
    json_error_t error;
    json_t *file = json_load_file(path, 0, &error);
    if (!file)
        fail_msg("%s: %s", path, error.text);
    json_t *rows = json_object_get(json_object_get(file, "strategies"), group), *row;
    size_t index, visited = 0;
    json_array_foreach (rows, index, row) {
        visit(row);
        visited++;
    }
    json_decref(file);
    return visited;
}

static struct eps_mechanism mechanism_of(enum eps_family family, const json_t *row)
{
    struct eps_mechanism m = mechanism_new(family, count(row, "n"));
    m.matrix.toeplitz = true;
    m.matrix.gap = 1e-4;
    if (strcmp(json_string_value(json_object_get(row, "objective")), "max") == 0)
        m.matrix.objective = EPS_OBJECTIVE_MAX_SQUARED;
    return m;
}

static void set_participation(struct eps_mechanism *m, const json_t *row)
{
    m->sampling.schema = EPS_SCHEMA_MIN_SEPARATION;
    m->sampling.epochs = m->matrix.epochs = count(row, "k");
    m->sampling.separation = m->matrix.separation = count(row, "min_sep");
}

/* The root of error times squared sensitivity; *square: the latter. */
static double root_loss(const struct eps_strategy *s, const struct eps_mechanism *m, double *square)
{
    double mean, max, last;
    struct eps_sensitivity sensitivity;
    assert_int_equal(eps__strategy_error(NULL, s, m, &mean, &max, &last), EPS_OK);
    assert_int_equal(eps__strategy_sensitivity(NULL, &sensitivity, NULL, s, m), EPS_OK);
    *square = sensitivity.value * sensitivity.value;
    return sqrt(m->matrix.objective == EPS_OBJECTIVE_MAX_SQUARED ? max : mean) * sensitivity.value;
}

static void assert_between(const json_t *row, double got, double low, double high)
{
    if (got >= low && got <= high)
        return;
    char *text = json_dumps(row, JSON_COMPACT | JSON_REAL_PRECISION(8));
    print_error("%.300s\n", text);
    free(text);
    fail_msg("%.12g is not in [%.12g, %.12g]", got, low, high);
}

static void assert_close(const json_t *row, double got, double wanted, double relative)
{
    assert_between(row, got, wanted * (1 - relative), wanted * (1 + relative));
}

static void assert_column_starts(const struct eps_strategy *s, enum eps_part part, const json_t *row, const char *key,
                                 double tolerance)
{
    const json_t *wanted = json_object_get(row, key), *item;
    double got[16];
    size_t index, len = json_array_size(wanted);
    assert_true(len > 0 && len <= 16);
    assert_int_equal(eps_strategy_coefficients(s, got, NULL, part, len), EPS_OK);
    json_array_foreach (wanted, index, item)
        assert_true(fabs(got[index] - json_number_value(item)) <= tolerance);
}

static void check_banded(const json_t *row)
{
    struct eps_mechanism m = mechanism_of(EPS_FAMILY_BANDED, row);
    const json_t *multiple = json_object_get(row, "multi_bisb");
    double square;
    m.matrix.bands = count(row, "bands");
    struct eps_strategy *s = strategy_new(&m);
    assert_close(row, root_loss(s, &m, &square), number(row, "sqrt_loss"), 1e-7);
    assert_column_starts(s, EPS_PART_ENCODER, row, "coef_unit_norm_first8", 1e-4);
    eps_strategy_destroy(s);
    set_participation(&m, multiple);
    s = strategy_new(&m);
    assert_close(row, root_loss(s, &m, &square), number(multiple, "sqrt_loss"), 1e-7);
    assert_close(row, square, number(multiple, "sens2"), 1e-9);
    eps_strategy_destroy(s);
}

static void check_inverse_root(const json_t *row)
{
    struct eps_mechanism m = mechanism_of(EPS_FAMILY_INVERSE_SQUARE_ROOT, row);
    double square;
    m.matrix.bands = count(row, "bands");
    set_participation(&m, row);
    struct eps_strategy *s = strategy_new(&m);
    assert_close(row, root_loss(s, &m, &square), number(row, "sqrt_loss"), 1e-12);
    assert_close(row, square, number(row, "sens2"), 1e-12);
    assert_column_starts(s, EPS_PART_NOISE, row, "noising_coef_first8", 1e-15);
    eps_strategy_destroy(s);
}

static void check_inverse(const json_t *row)
{
    struct eps_mechanism m = mechanism_of(EPS_FAMILY_BANDED_INVERSE, row);
    double square, wanted = number(row, "sqrt_loss");
    m.matrix.bands = count(row, "bands");
    set_participation(&m, row);
    struct eps_strategy *s = strategy_new(&m);
    bool smooth = json_is_true(json_object_get(row, "converged"));
    assert_between(row, root_loss(s, &m, &square), wanted * (smooth ? 1 - 1e-6 : 0.96), wanted * (1 + 1e-5));
    eps_strategy_destroy(s);
    m.sampling.schema = EPS_SCHEMA_FIXED_ORDER; /* fewer patterns, and no majorant */
    s = strategy_new(&m);
    assert_between(row, root_loss(s, &m, &square), wanted * 0.96, wanted * (1 + 1e-5));
    eps_strategy_destroy(s);
}

static void check_blt(const json_t *row)
{
    struct eps_mechanism m = mechanism_of(EPS_FAMILY_BLT, row);
    double square, wanted = number(row, "sqrt_loss"), decay[8], scale[8];
    set_participation(&m, row);
    m.matrix.buffers = count(row, "num_buffers");
    struct eps_strategy *s = strategy_new(&m);
    /* The reference is the best of several starts. */
    assert_between(row, root_loss(s, &m, &square), wanted * (1 - 1e-4), wanted * (1 + 2e-6));
    eps_strategy_destroy(s);

    const json_t *decays = json_object_get(row, "buf_decay"), *scales = json_object_get(row, "output_scale");
    m.matrix.blt_len = json_array_size(decays);
    assert_true(m.matrix.blt_len == m.matrix.buffers && m.matrix.buffers <= 8);
    m.matrix.buffers = 0;
    for (size_t i = 0; i < m.matrix.blt_len; i++) {
        decay[i] = json_number_value(json_array_get(decays, i));
        scale[i] = json_number_value(json_array_get(scales, i));
        if (decay[i] >= 1) /* a buffer of the reference that reached the end of its range */
            return;
    }
    m.matrix.decay = decay;
    m.matrix.scale = scale;
    s = strategy_new(&m);
    assert_close(row, root_loss(s, &m, &square), wanted, 1e-9);
    if (json_object_get(row, "sens2"))
        assert_close(row, square, number(row, "sens2"), 1e-9);
    eps_strategy_destroy(s);
}

TEST(banded_matrices_reach_the_optimum_of_others)
{
    assert_int_equal(for_each("banded_toeplitz", check_banded), 24);
}

TEST(inverse_square_roots_are_those_of_others)
{
    assert_int_equal(for_each("banded_inverse_BISR", check_inverse_root), 30);
}

TEST(banded_inverses_are_no_worse_than_those_of_others)
{
    assert_int_equal(for_each("banded_inverse_opt", check_inverse), 26);
}

TEST(blts_are_no_worse_than_those_of_others)
{
    assert_int_equal(for_each("blt", check_blt), 16);
}
