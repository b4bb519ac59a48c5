/*
 * Every row of reference.json's group "pld" that this build serves, within what its "how" says: exact epsilons lie
 * inside our brackets; dp_accounting's are approximate, and more so under delta = 1e-10. What no job can express, free
 * mixtures, goes through the library's parts.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/epsilon.h"
#include "lib/numerics/binomial.h"
#include "lib/pld/pld.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"
#include "tests/unit/test.h"

enum { ATOMS_MAX = 160 };

/* The file lies beside this source; tests run from the repository root. */
static const char path[] = "tests/paper/reference.json";

struct row {
    const char *id, *mechanism, *adjacency;
    double delta, epsilon, exact; /* exact: NAN if not given */
    const json_t *params;
};

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

typedef size_t visit_fn(const struct row *row); /* returns the number of failures */

/* Visits each row of the mechanism; returns the number visited. */
static size_t for_each(const char *mechanism, visit_fn *visit, size_t *wrong)
{
    json_error_t error;
    json_t *file = json_load_file(path, 0, &error);
    if (!file)
        fail_msg("%s: %s", path, error.text);
    json_t *rows = json_object_get(json_object_get(file, "pld"), "rows"), *item;
    size_t index, visited = 0;
    json_array_foreach (rows, index, item) {
        struct row row = {json_string_value(json_object_get(item, "id")),
                          json_string_value(json_object_get(item, "mechanism")),
                          json_string_value(json_object_get(item, "adjacency")),
                          number(item, "delta"),
                          number(item, "epsilon"),
                          number(item, "epsilon_exact"),
                          json_object_get(item, "params")};
        if (strcmp(row.mechanism, mechanism) != 0)
            continue;
        *wrong += visit(&row);
        visited++;
    }
    json_decref(file);
    return visited;
}

/* The possible error of dp_accounting's epsilon: its grid of 1e-4 a step, and its rounding. */
static double slack(const struct row *row)
{
    return (row->delta <= 1e-10 ? 2e-4 : 5e-5) * fmax(1, row->epsilon);
}

static double worst_distance;

static size_t compare(const struct row *row, const char *what, double lower, double upper)
{
    double distance = fmax(fmax(lower - row->epsilon, row->epsilon - upper), 0) / fmax(1, row->epsilon);
    bool close = lower <= row->epsilon + slack(row) && upper >= row->epsilon - slack(row);
    bool exact = isnan(row->exact) || (lower <= row->exact * (1 + 1e-13) && upper >= row->exact * (1 - 1e-13));
    worst_distance = fmax(worst_distance, distance);
    if (close && exact)
        return 0;
    print_error("%s, %s: [%.12g, %.12g], theirs %.12g, exact %.17g\n", row->id, what, lower, upper, row->epsilon,
                row->exact);
    return 1;
}

/* ------------------------------------------------------------ rows that are jobs */

static struct eps_job job_of(const struct row *row, double tolerance)
{
    struct eps_job job;
    double steps = number(row->params, "steps"), q = number(row->params, "q");
    double effective = number(row->params, "sigma_effective");
    eps_job_init(&job);
    job.mechanism.n = isnan(effective) ? (size_t)steps : 1;
    job.query.noise_multiplier = isnan(effective) ? number(row->params, "sigma") : effective;
    if (isnan(q) || !isnan(effective))
        job.mechanism.sampling.scheme = EPS_SCHEME_NONE;
    else
        job.mechanism.sampling.p = q;
    job.query.delta = row->delta;
    job.query.accountant.tolerance = tolerance;
    eps_job_defaults(&job);
    return job;
}

static size_t check_job(const struct row *row, enum eps_accountant method, double tolerance)
{
    struct eps_job job = job_of(row, tolerance);
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    char what[64];
    snprintf(what, sizeof what, "%s at %g", eps_accountant_name(method), tolerance);
    job.query.accountant.method = method;
    if (eps_solve(NULL, &result, &error, &job) != EPS_OK) {
        print_error("%s, %s: %s: %s\n", row->id, what, error.pointer, error.message);
        return 1;
    }
    /* The bracket is that of the worse direction; the other one has the width of the tolerance, too. */
    double upper = result->bracket_upper, lower = result->bracket_lower;
    size_t wrong = 0;
    if (upper - lower > tolerance * upper) {
        print_error("%s, %s: [%.12g, %.12g] is wide\n", row->id, what, lower, upper);
        wrong++;
    }
    if (strcmp(row->adjacency, "REMOVE") == 0 || strcmp(row->adjacency, "ADD") == 0) {
        upper = result->directions[strcmp(row->adjacency, "ADD") == 0 ? EPS_ADD : EPS_REMOVE].value;
        lower = upper * (1 - tolerance);
    }
    wrong += compare(row, what, lower, upper);
    eps_result_destroy(result);
    return wrong;
}

static size_t check_gaussian(const struct row *row)
{
    size_t wrong = check_job(row, EPS_ACCOUNTANT_PLD, 1e-3) + check_job(row, EPS_ACCOUNTANT_PLD, 1e-6);
    struct eps_job job = job_of(row, 1e-3);
    if (job.mechanism.sampling.scheme == EPS_SCHEME_NONE)
        wrong += check_job(row, EPS_ACCOUNTANT_GAUSSIAN, 1e-3) + check_job(row, EPS_ACCOUNTANT_AUTO, 1e-6);
    return wrong;
}

static size_t check_poisson(const struct row *row)
{
    return check_job(row, EPS_ACCOUNTANT_PLD, 1e-3) + check_job(row, EPS_ACCOUNTANT_AUTO, 1e-4);
}

TEST(gaussians)
{
    size_t wrong = 0;
    worst_distance = 0;
    size_t visited = for_each("gaussian", check_gaussian, &wrong);
    print_message("# %zu rows, farthest %.2g, relative\n", visited, worst_distance);
    assert_int_equal(wrong, 0);
    assert_int_equal(visited, 34);
}

TEST(poisson_sampling)
{
    size_t wrong = 0;
    worst_distance = 0;
    size_t visited = for_each("poisson_gaussian", check_poisson, &wrong);
    print_message("# %zu rows, farthest %.2g, relative\n", visited, worst_distance);
    assert_int_equal(wrong, 0);
    assert_int_equal(visited, 38);
}

/* ------------------------------------------------------------ free mixtures */

struct mixture_pair {
    double weight[ATOMS_MAX], shift[ATOMS_MAX], one, zero;
    struct eps__pair pair;
};

static void read_mixture(struct mixture_pair *mixed, const struct row *row)
{
    double sigma = number(row->params, "sigma");
    const json_t *sens = json_object_get(row->params, "sens"), *probs = json_object_get(row->params, "probs");
    size_t len = json_is_array(sens) ? json_array_size(sens) : 129;
    assert_true(len <= ATOMS_MAX);
    for (size_t i = 0; i < len; i++) {
        mixed->shift[i] = (json_is_array(sens) ? json_number_value(json_array_get(sens, i)) : (double)i) / sigma;
        mixed->weight[i] = json_is_array(probs) ? json_number_value(json_array_get(probs, i))
                                                : exp(eps__binomial_log_pmf(128, 1.0 / 128, i));
    }
    mixed->one = 1;
    mixed->zero = 0;
    const struct eps__mixture with = {.weight = mixed->weight, .shift = mixed->shift, .len = len},
                              without = {.weight = &mixed->one, .shift = &mixed->zero, .len = 1};
    bool add = strcmp(row->adjacency, "ADD") == 0;
    mixed->pair = (struct eps__pair){.numerator = add ? without : with, .denominator = add ? with : without};
}

struct curve {
    struct eps__pld pld;
    struct eps__panel panel;
    bool composed;
};

static double curve_at(const struct curve *curve, double eps)
{
    return curve->composed ? eps__panel_log_delta(&curve->panel, eps) : eps__pld_log_delta(&curve->pld, eps);
}

/* The epsilon at which the estimate crosses delta. */
static double crossing(const struct curve *curve, double log_delta, double around)
{
    double low = 0, high = 2 * around;
    while (high - low > 1e-12 * around) {
        double middle = 0.5 * (low + high);
        *(curve_at(curve, middle) > log_delta ? &low : &high) = middle;
    }
    return high;
}

static size_t check_mixture(const struct row *row)
{
    static struct mixture_pair mixed;
    read_mixture(&mixed, row);
    uint64_t steps = isnan(number(row->params, "steps")) ? 1 : (uint64_t)number(row->params, "steps");
    const struct exact_power power = {&mixed.pair, steps};
    struct exact_saddle saddle = exact_saddle(&power, 1, row->epsilon);
    struct eps__pld_plan plan;
    double bracket[2];
    if (steps == 1) /* near the end of a bounded loss it runs away, and one step needs none */
        saddle.tilt = fmin(saddle.tilt, 100);
    plan_for(&plan, &mixed.pair, saddle.tilt, (double)steps, steps > 1 ? 0.01 : 5e-4);
    if (steps == 1)
        plan.spacing = fmax(fmin(plan.spacing, 1e-4 * row->epsilon), 1e-5 * row->epsilon);
    for (enum eps__estimate e = EPS__UPPER; e <= EPS__LOWER; e++) {
        struct curve curve = {.composed = steps > 1};
        assert_int_equal(build_pair(&curve.pld, &mixed.pair, &plan, e), EPS_OK);
        if (steps > 1) {
            const struct eps__pld_power one = {&curve.pld, steps};
            const struct eps__compose_plan how = {.tilt = saddle.tilt, .tail_mass = 1e-12, .max_len = (size_t)1 << 22};
            assert_int_equal(eps__compose(NULL, &curve.panel, &one, 1, &how), EPS_OK);
        }
        bracket[e] = crossing(&curve, log(row->delta), row->epsilon);
        eps__pld_clear(&curve.pld);
        eps__panel_clear(&curve.panel);
    }
    size_t wrong = compare(row, "mixture", bracket[EPS__LOWER], bracket[EPS__UPPER]);
    if (steps == 1 && !(exact_delta(&mixed.pair, bracket[EPS__LOWER]) >= row->delta &&
                        exact_delta(&mixed.pair, bracket[EPS__UPPER]) <= row->delta)) {
        print_error("%s: the curve crosses outside [%.17g, %.17g]\n", row->id, bracket[EPS__LOWER],
                    bracket[EPS__UPPER]);
        wrong++;
    }
    if (!(bracket[EPS__UPPER] - bracket[EPS__LOWER] <
          5e-3 * bracket[EPS__UPPER])) { /* near a ceiling the grid converges slowly */
        print_error("%s: [%.12g, %.12g] is wide\n", row->id, bracket[EPS__LOWER], bracket[EPS__UPPER]);
        wrong++;
    }
    /* The one that was computed exactly agrees with our own reference. */
    if (strstr(row->id, "exact_mpmath") && !(exact_delta(&mixed.pair, row->epsilon - 1e-11) > row->delta &&
                                             exact_delta(&mixed.pair, row->epsilon + 1e-11) < row->delta))
        wrong++;
    return wrong;
}

TEST(free_mixtures)
{
    size_t wrong = 0;
    worst_distance = 0;
    size_t visited = for_each("mixture_gaussian", check_mixture, &wrong);
    print_message("# %zu rows, farthest %.2g, relative\n", visited, worst_distance);
    assert_int_equal(wrong, 0);
    assert_int_equal(visited, 27);
}

/* ------------------------------------------------------------ truncated batches */

/* dp_accounting's pair is ours for replace_one. For add_remove it uses the same pair for full batches, which is looser:
 * ours are at or below it, and far below in the add direction, where an absent example has little effect. */
static size_t check_truncated(const struct row *row)
{
    struct eps_job job;
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    bool replace = strcmp(json_string_value(json_object_get(row->params, "neighboring_relation")), "REPLACE_ONE") == 0;
    eps_job_init(&job);
    job.mechanism.n = (size_t)number(row->params, "steps");
    job.mechanism.adjacency = replace ? EPS_ADJACENCY_REPLACE_ONE : EPS_ADJACENCY_ADD_REMOVE;
    job.mechanism.sampling.p = number(row->params, "sampling_probability");
    job.mechanism.sampling.dataset_size = (uint64_t)number(row->params, "dataset_size");
    job.mechanism.sampling.truncation = true;
    job.mechanism.sampling.max_batch_size = (uint64_t)number(row->params, "truncated_batch_size");
    job.query.noise_multiplier = number(row->params, "sigma");
    job.query.delta = row->delta;
    eps_job_defaults(&job);
    if (eps_solve(NULL, &result, &error, &job) != EPS_OK) {
        print_error("%s: %s: %s\n", row->id, error.pointer, error.message);
        return 1;
    }
    double ours = result->directions[strcmp(row->adjacency, "ADD") == 0 ? EPS_ADD : EPS_REMOVE].value;
    double tolerance = job.query.accountant.tolerance, scatter = 1e-3 * row->epsilon + 1e-4;
    size_t wrong = ours > row->epsilon * (1 + tolerance) + scatter;
    wrong += replace && ours < row->epsilon - scatter;
    wrong += !replace && strcmp(row->adjacency, "ADD") != 0 && ours < 0.85 * row->epsilon - scatter;
    wrong += result->accountant != EPS_ACCOUNTANT_PLD;
    wrong += result->bracket_upper - result->bracket_lower > 1.001 * tolerance * result->bracket_upper;
    if (wrong)
        print_error("%s: ours %.9g, theirs %.9g, bracket [%.9g, %.9g], %s\n", row->id, ours, row->epsilon,
                    result->bracket_lower, result->bracket_upper, eps_accountant_name(result->accountant));
    eps_result_destroy(result);
    return wrong;
}

TEST(truncated_batches)
{
    size_t wrong = 0;
    assert_int_equal(for_each("truncated_subsampled_gaussian", check_truncated, &wrong), 104);
    assert_int_equal(wrong, 0);
}
