/*
 * Every row of reference.json's group "mmcc": an independent implementation of the paper's figures 1 and 2 over
 * dp_accounting's mixtures, with half of delta for bad events. Our answer with the same half, and with the share that
 * it chooses, must not be above it in either direction; nor far below it, because both compute the same bound apart
 * from tails and grids.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/epsilon.h"
#include "tests/unit/test.h"

/* The file lies beside this source; tests run from the repository root. */
static const char path[] = "tests/paper/reference.json";

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* The row's strategy stands in its id: "toeplitz n=16 ...", "tree n=8 ...", "banded4 n=64 ...". */
static struct eps_job job_of(const json_t *row)
{
    struct eps_job job;
    const char *id = json_string_value(json_object_get(row, "id"));
    eps_job_init(&job);
    assert_non_null(strstr(id, "n="));
    job.mechanism.n = strtoul(strstr(id, "n=") + 2, NULL, 10);
    job.mechanism.matrix.family = strncmp(id, "tree", 4) == 0 ? EPS_FAMILY_TREE : EPS_FAMILY_SQUARE_ROOT;
    job.mechanism.matrix.bands = strncmp(id, "banded", 6) == 0 ? strtoul(id + 6, NULL, 10) : 0;
    job.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    job.mechanism.sampling.scheme = EPS_SCHEME_POISSON;
    job.mechanism.sampling.p = number(row, "p");
    job.query.noise_multiplier = number(row, "sigma");
    job.query.delta = number(row, "delta1") + number(row, "delta2");
    job.query.accountant.method = EPS_ACCOUNTANT_MMCC;
    return job;
}

/* The smallest share of the reference's epsilon that was found, with tails twice as close. */
#define LEAST 0.84

/* The larger of both directions at this share (NAN: chosen), over the reference's. */
static double over_reference(const json_t *row, double share)
{
    struct eps_job job = job_of(row);
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    job.query.accountant.bad_event_share = share;
    eps_job_defaults(&job);
    if (eps_solve(NULL, &result, &error, &job) != EPS_OK)
        fail_msg("%s: %s", json_string_value(json_object_get(row, "id")), error.message);
    double remove = result->directions[EPS_REMOVE].value / number(row, "eps_remove");
    double add = result->directions[EPS_ADD].value / number(row, "eps_add");
    /* In direction add no loss exceeds -ln of the probability of never taking part. The reference does not use that. */
    double most = -(double)job.mechanism.n * log1p(-job.mechanism.sampling.p);
    double known = result->directions[EPS_ADD].value / fmin(number(row, "eps_add"), most);
    eps_result_destroy(result);
    if (!(fmin(remove, known) >= LEAST))
        fail_msg("%s: %.4f and %.4f of the reference's epsilon", json_string_value(json_object_get(row, "id")), remove,
                 known);
    return fmax(remove, add);
}

TEST(no_epsilon_is_above_the_reference)
{
    json_error_t failure;
    json_t *file = json_load_file(path, 0, &failure), *row;
    if (!file)
        fail_msg("%s: %s", path, failure.text);
    size_t index, rows = 0;
    json_array_foreach (json_object_get(json_object_get(file, "mmcc"), "rows"), index, row) {
        double half = over_reference(row, 0.5), chosen = over_reference(row, NAN);
        print_message("# %-32s %s: %.4f of the reference's epsilon, %.4f with the share chosen\n",
                      json_string_value(json_object_get(row, "id")),
                      json_string_value(json_object_get(row, "s_method")), half, chosen);
        assert_true(half <= 1);
        assert_true(chosen <= half * (1 + 1e-3));
        rows++;
    }
    assert_int_equal(rows, 19);
    json_decref(file);
}
