/*
 * Every row of reference.json's group "balls_in_bins": renyi needs no more noise than the paper's accountant, in each
 * direction alone no more than single orders need for it, and never less than the truth, which an independent Fourier
 * transform or importance sampling found. And epsilons of random allocation computed by others.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/epsilon.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

/* The file lies beside this source; tests run from the repository root. */
static const char path[] = "tests/paper/reference.json";

#define MC_ERROR 0.02  /* of a sampled sigma */
#define LOOSEST 1.14   /* over the true sigma: the aims are 1.07 to 1.35 */
#define TOLERANCE 1e-3 /* of both */

enum { COLUMN_MAX = 8 };

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static struct eps_job config_job(const json_t *config, double column[COLUMN_MAX])
{
    struct eps_job job;
    const json_t *numbers = json_object_get(config, "c_col");
    eps_job_init(&job);
    job.mechanism.n = (size_t)number(config, "N");
    job.mechanism.matrix.family = EPS_FAMILY_TOEPLITZ;
    job.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    job.mechanism.matrix.coefficients = column;
    job.mechanism.matrix.coefficients_len = json_array_size(numbers);
    assert_true(json_array_size(numbers) <= COLUMN_MAX);
    for (size_t i = 0; i < json_array_size(numbers); i++)
        column[i] = json_number_value(json_array_get(numbers, i));
    job.mechanism.sampling.scheme = EPS_SCHEME_BALLS_IN_BINS;
    job.mechanism.sampling.bins = (size_t)number(config, "b");
    job.query.accountant.method = EPS_ACCOUNTANT_RENYI;
    eps_job_defaults(&job);
    return job;
}

/* The deltas at the true sigma of this row, where both were found. */
static void check_deltas(struct eps_job job, const json_t *exact, double eps)
{
    job.query.epsilon = eps;
    job.query.noise_multiplier = number(exact, "sigma");
    job.query.delta = NAN;
    struct eps_result *result = solved(NULL, job);
    assert_true(result->directions[EPS_REMOVE].value >= number(exact, "delta_remove") * (1 - 1e-6));
    assert_true(result->directions[EPS_ADD].value >= number(exact, "delta_add") * (1 - 1e-3));
    eps_result_destroy(result);
}

static void check_row(struct eps_job job, const char *name, double eps, const json_t *row)
{
    const json_t *exact = json_object_get(row, "exact_fft"), *sampled = json_object_get(row, "monte_carlo");
    double truth = exact ? number(exact, "sigma") : number(sampled, "sigma") * (1 - MC_ERROR);
    assert_true(truth > 0);
    job.query.epsilon = eps;
    job.query.delta = 1e-5;
    struct eps_result *result = solved(NULL, job);
    double sigma = result->noise_multiplier, remove = result->directions[EPS_REMOVE].value;
    print_message("# %s, epsilon %g: %.4f, %.3f times the truth; add %.4f\n", name, eps, sigma,
                  sigma / number(exact ? exact : sampled, "sigma"), result->directions[EPS_ADD].value);
    assert_true(sigma >= truth * (1 - 1e-6));
    assert_true(sigma <= LOOSEST * number(exact ? exact : sampled, "sigma"));
    assert_true(sigma <= number(json_object_get(row, "renyi_paper"), "sigma") * (1 + TOLERANCE));
    assert_true(remove <= number(json_object_get(row, "renyi_remove_only_NOT_A_GUARANTEE"), "sigma") * (1 + TOLERANCE));
    eps_result_destroy(result);
    if (exact)
        check_deltas(job, exact, eps);
}

static json_t *load(void)
{
    json_error_t failure;
    json_t *file = json_load_file(path, 0, &failure);
    if (!file)
        fail_msg("%s: %s", path, failure.text);
    return file;
}

TEST(sigmas_are_between_the_truth_and_the_papers)
{
    json_t *file = load(), *config, *row;
    const char *name, *eps;
    int rows = 0;
    json_object_foreach (json_object_get(json_object_get(file, "balls_in_bins"), "configs"), name, config) {
        double column[COLUMN_MAX];
        struct eps_job job = config_job(config, column);
        json_object_foreach (json_object_get(config, "by_eps"), eps, row) {
            check_row(job, name, strtod(eps, NULL), row);
            rows++;
        }
    }
    assert_int_equal(rows, 10);
    json_decref(file);
}

TEST(epsilons_of_random_allocation_are_not_under_others)
{
    json_t *file = load(), *row;
    json_t *golden = json_array_get(json_object_get(json_object_get(file, "balls_in_bins"), "golden"), 0);
    size_t i;
    assert_true(json_array_size(json_object_get(golden, "value")) > 0);
    json_array_foreach (json_object_get(golden, "value"), i, row) {
        struct eps_job job;
        eps_job_init(&job);
        job.mechanism.n = job.mechanism.sampling.bins = (size_t)number(row, "t");
        job.mechanism.sampling.scheme = EPS_SCHEME_BALLS_IN_BINS;
        job.query.accountant.method = EPS_ACCOUNTANT_RENYI;
        job.query.noise_multiplier = number(row, "sigma");
        job.query.delta = 1e-8;
        eps_job_defaults(&job);
        struct eps_result *result = solved(NULL, job);
        double exact = number(row, "own_exact");
        print_message("# %zu bins, sigma %g: epsilon %.4f, %.3f times the truth\n", job.mechanism.n,
                      number(row, "sigma"), result->epsilon, result->epsilon / exact);
        assert_true(result->epsilon >= exact * (1 - 1e-5) && result->epsilon <= 1.4 * exact);
        eps_result_destroy(result);
    }
    json_decref(file);
}
