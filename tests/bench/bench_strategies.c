/*
 * Times strategies in process for the bench, one core, no caches: best of several runs of an optimiser, of the noise
 * coefficients of a banded matrix, or of one loss under two minimisers, ours and GSL's. Prints one JSON line.
 *
 *     bench_strategies banded|banded_inverse|blt|optimal n size epochs separation mean_squared|max_squared repeat
 *     bench_strategies noise n bands repeat
 *     bench_strategies minimisers n bands
 *
 * For optimal, size is minus the decimal logarithm of the gap. root_loss is the root of the error times the squared
 * sensitivity. Noise coefficients are those of the banded square root, whose C^-1 takes the recursion; `norm` is their
 * norm.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multimin.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/numerics/fft/convolve.h"
#include "lib/strategy/optimise/toeplitz_loss.h"

static double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void stop(const struct eps_error *error)
{
    fprintf(stderr, "bench_strategies: %s: %s\n", error->pointer, error->message);
    exit(1);
}

static struct eps_job job_new(size_t n, size_t epochs, size_t separation)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    job.mechanism.sampling.scheme = EPS_SCHEME_NONE;
    job.mechanism.sampling.epochs = epochs;
    job.mechanism.sampling.separation = separation;
    return job;
}

static struct eps_strategy *strategy_new(const struct eps_mechanism *mechanism)
{
    struct eps_strategy *s = NULL;
    struct eps_error error = {0};
    if (eps_strategy_create(NULL, &s, &error, mechanism) != EPS_OK)
        stop(&error);
    return s;
}

static double root_loss(const struct eps_strategy *s, const struct eps_mechanism *m)
{
    double mean, max, last;
    struct eps_sensitivity sensitivity;
    struct eps_error error = {0};
    if (eps__strategy_error(NULL, s, m, &mean, &max, &last) != EPS_OK ||
        eps__strategy_sensitivity(NULL, &sensitivity, &error, s, m) != EPS_OK)
        stop(&error);
    return sqrt(m->matrix.objective == EPS_OBJECTIVE_MAX_SQUARED ? max : mean) * sensitivity.value;
}

static void time_optimiser(const char *family, char **arguments)
{
    struct eps_job job =
        job_new(strtoul(arguments[0], NULL, 10), strtoul(arguments[2], NULL, 10), strtoul(arguments[3], NULL, 10));
    struct eps_matrix *matrix = &job.mechanism.matrix;
    size_t size = strtoul(arguments[1], NULL, 10), iterations = 0;
    double best = INFINITY, loss = NAN;
    bool columns = strcmp(family, "banded_columns") == 0; /* not Toeplitz */
    matrix->toeplitz = !columns;
    matrix->family = columns || strcmp(family, "banded") == 0 ? EPS_FAMILY_BANDED
                     : strcmp(family, "blt") == 0             ? EPS_FAMILY_BLT
                     : strcmp(family, "optimal") == 0         ? EPS_FAMILY_OPTIMAL
                                                              : EPS_FAMILY_BANDED_INVERSE;
    if (matrix->family == EPS_FAMILY_OPTIMAL)
        matrix->gap = pow(10, -(double)size);
    else
        *(matrix->family == EPS_FAMILY_BLT ? &matrix->buffers : &matrix->bands) = size;
    matrix->objective =
        strcmp(arguments[4], "max_squared") == 0 ? EPS_OBJECTIVE_MAX_SQUARED : EPS_OBJECTIVE_MEAN_SQUARED;
    eps_job_defaults(&job);
    for (long i = strtol(arguments[5], NULL, 10); i > 0; i--) {
        double start = now_seconds();
        struct eps_strategy *s = strategy_new(&job.mechanism);
        best = fmin(best, now_seconds() - start);
        loss = root_loss(s, &job.mechanism);
        iterations = eps_strategy_iterations(s);
        eps_strategy_destroy(s);
    }
    printf("{\"root_loss\": %.12g, \"iterations\": %zu, \"seconds\": %.6g}\n", loss, iterations, best);
}

static void time_noise(char **arguments)
{
    struct eps_job job = job_new(strtoul(arguments[0], NULL, 10), 1, 0);
    size_t n = job.mechanism.n;
    double best = INFINITY, *noise = malloc(n * sizeof *noise);
    struct eps_error error = {0};
    job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    job.mechanism.matrix.bands = strtoul(arguments[1], NULL, 10);
    eps_job_defaults(&job);
    for (long i = strtol(arguments[2], NULL, 10); noise && i > 0; i--) {
        double start = now_seconds();
        struct eps_strategy *s = strategy_new(&job.mechanism);
        if (eps_strategy_coefficients(s, noise, &error, EPS_PART_NOISE, n) != EPS_OK)
            stop(&error);
        best = fmin(best, now_seconds() - start);
        eps_strategy_destroy(s);
    }
    double square = 0;
    for (size_t t = 0; noise && t < n; t++)
        square += noise[t] * noise[t];
    printf("{\"norm\": %.12g, \"seconds\": %.6g}\n", sqrt(square), best);
    free(noise);
}

/* ---- one loss, two minimisers ---- */

/* The banded inverse's loss, as lib/strategy/families/banded_inverse.c has it, one participation. */
struct problem {
    struct eps__toeplitz_loss loss;
    size_t bands, evaluations;
    double *filter, *gradient, *b, *b_adjoint, *c, *c_adjoint;
};

static bool objective(void *user, double *value, double *gradient, const double *x)
{
    struct problem *p = user;
    struct eps__toeplitz_loss *loss = &p->loss;
    size_t n = loss->n, bands = p->bands;
    p->evaluations++;
    p->filter[0] = 1;
    memcpy(p->filter + 1, x, (bands - 1) * sizeof *x);
    if (!eps__convolve(p->b, n, p->filter, bands, loss->workload, n) ||
        !eps__toeplitz_loss_quotient(loss, p->c, NULL, p->filter, bands))
        return false;
    *value = eps__toeplitz_log_error(loss, p->b_adjoint, p->b) + eps__toeplitz_log_square(loss, p->c_adjoint, p->c, n);
    if (!isfinite(*value))
        return true;
    memset(p->gradient, 0, bands * sizeof *p->gradient);
    eps__toeplitz_correlate(p->gradient, bands, p->b_adjoint, loss->workload, n);
    if (!eps__toeplitz_quotient_gradient(loss, p->gradient, p->c_adjoint, p->c, p->filter, bands))
        return false;
    memcpy(gradient, p->gradient + 1, (bands - 1) * sizeof *gradient);
    return true;
}

static double gsl_value(const gsl_vector *x, void *user)
{
    double value = NAN, scratch[256];
    objective(user, &value, scratch, x->data);
    return value;
}

static void gsl_gradient(const gsl_vector *x, void *user, gsl_vector *gradient)
{
    double value;
    objective(user, &value, gradient->data, x->data);
}

static void gsl_both(const gsl_vector *x, void *user, double *value, gsl_vector *gradient)
{
    objective(user, value, gradient->data, x->data);
}

/* How GSL ends: at the target, by its own criterion, or after 2000 steps. */
static double run_gsl(struct problem *p, const double *start, double target, const char **end)
{
    size_t len = p->bands - 1;
    gsl_multimin_function_fdf function = {gsl_value, gsl_gradient, gsl_both, len, p};
    gsl_multimin_fdfminimizer *m = gsl_multimin_fdfminimizer_alloc(gsl_multimin_fdfminimizer_vector_bfgs2, len);
    gsl_vector *x = gsl_vector_alloc(len);
    memcpy(x->data, start, len * sizeof *start);
    gsl_multimin_fdfminimizer_set(m, &function, x, 0.01, 0.1);
    *end = "limit";
    for (int i = 0; i < 2000; i++) {
        if (gsl_multimin_fdfminimizer_iterate(m)) {
            *end = "no progress";
            break;
        }
        if (gsl_multimin_fdfminimizer_minimum(m) <= target) {
            *end = "target";
            break;
        }
    }
    double value = gsl_multimin_fdfminimizer_minimum(m);
    gsl_multimin_fdfminimizer_free(m);
    gsl_vector_free(x);
    return value;
}

static void compare_minimisers(char **arguments)
{
    struct eps_job job = job_new(strtoul(arguments[0], NULL, 10), 1, 0);
    size_t n = job.mechanism.n, bands = strtoul(arguments[1], NULL, 10), iterations;
    struct eps_error error = {0};
    struct problem p = {.bands = bands};
    double *all = malloc((2 * bands + 4 * n + 2 * bands) * sizeof *all), value, start_value, scratch[256];
    const char *end;
    if (!all || bands < 2 || bands > 256)
        exit(2);
    p.filter = all;
    p.gradient = all + bands;
    p.b = all + 4 * bands;
    p.b_adjoint = p.b + n;
    p.c = p.b + 2 * n;
    p.c_adjoint = p.b + 3 * n;
    double *start = all + 2 * bands, *x = all + 3 * bands;
    job.mechanism.matrix.family = EPS_FAMILY_INVERSE_SQUARE_ROOT;
    job.mechanism.matrix.bands = bands;
    struct eps_strategy *s = strategy_new(&job.mechanism);
    if (eps__toeplitz_loss_init(&p.loss, NULL, &error, s, &job.mechanism, (struct eps__target){0}) != EPS_OK)
        stop(&error);
    eps__workload_power(&s->workload, start, bands, 0.5);
    memmove(start, start + 1, (bands - 1) * sizeof *start);
    memcpy(x, start, (bands - 1) * sizeof *x);
    objective(&p, &start_value, scratch, x);
    const struct eps__lbfgs options = {.memory = 30, .tolerance = 1e-6};
    p.evaluations = 0;
    eps__lbfgs_minimise(&options, x, &value, &iterations, bands - 1, objective, &p);
    size_t ours = p.evaluations;
    p.evaluations = 0;
    double theirs = run_gsl(&p, start, value + 1e-6, &end);
    printf("{\"evaluations\": %zu, \"gsl_evaluations\": %zu, \"gsl_end\": \"%s\", \"gsl_excess\": %.3g}\n", ours,
           p.evaluations, end, theirs - value);
    eps__toeplitz_loss_clear(&p.loss);
    eps_strategy_destroy(s);
    free(all);
}

int main(int argc, char **argv)
{
    gsl_set_error_handler_off();
    if (argc == 8)
        time_optimiser(argv[1], argv + 2);
    else if (argc == 5 && strcmp(argv[1], "noise") == 0)
        time_noise(argv + 2);
    else if (argc == 4 && strcmp(argv[1], "minimisers") == 0)
        compare_minimisers(argv + 2);
    else
        return 2;
    return 0;
}
