/*
 * Plans are made with FFTW_ESTIMATE, which does not measure, so that a length always gets the same plan and the same
 * bits. They are kept in a table for the life of the process, under the planner's lock, and executed on new arrays,
 * which FFTW allows from any thread.
 *
 * The error of a plan is computed from the output of fftw_sprint_plan(): see fft_error.c.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/fft/fft.h"

#include <fftw3.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"

static pthread_mutex_t planner = PTHREAD_MUTEX_INITIALIZER;

enum {
    PLANS_MAX = 256,
    SHORT = 1 << 17 /* up to here a plan takes as long as ten transforms or more */
};

static struct plan_pair {
    size_t n;
    fftw_plan forward, backward;
    double error; /* the larger of the two plans' errors */
} plans[PLANS_MAX];
static size_t plans_len;

void eps__fftw_lock(void)
{
    pthread_mutex_lock(&planner);
}

void eps__fftw_unlock(void)
{
    pthread_mutex_unlock(&planner);
}

/* The least length >= n that is a power of 2 times one of the first `len` odd numbers. */
static size_t length_of(size_t n, size_t len)
{
    static const size_t odd[] = {1, 3, 5};
    size_t best = 0;
    for (size_t i = 0; i < len; i++) {
        size_t length = 2 * odd[i];
        while (length < n)
            length *= 2;
        if (!best || length < best)
            best = length;
    }
    return best;
}

size_t eps__fft_length(size_t n)
{
    return length_of(n, 3);
}

size_t eps__fft_length_seldom(size_t n)
{
    return length_of(n, n <= SHORT ? 1 : 3);
}

double *eps__fft_alloc_real(size_t n)
{
    return fftw_alloc_real(n);
}

double complex *eps__fft_alloc_complex(size_t n)
{
    return fftw_alloc_complex(n);
}

void eps__fft_free(void *array)
{
    fftw_free(array);
}

/* NAN if out of memory. */
static double plan_error(fftw_plan plan)
{
    char *text = plan ? fftw_sprint_plan(plan) : NULL;
    double error = text ? eps__fft_printed_error(text) : NAN;
    free(text);
    return error;
}

static void destroy_plans(struct plan_pair *pair)
{
    if (pair->forward)
        fftw_destroy_plan(pair->forward);
    if (pair->backward)
        fftw_destroy_plan(pair->backward);
    pair->forward = pair->backward = NULL;
}

/* Both plans and their error. If out of memory, no plans and an error of NAN. */
static struct plan_pair make_plans(size_t n)
{
    struct plan_pair pair = {.n = n};
    double *real = fftw_alloc_real(n);
    fftw_complex *spectrum = fftw_alloc_complex(n / 2 + 1);
    if (real && spectrum) {
        pair.forward = fftw_plan_dft_r2c_1d((int)n, real, spectrum, FFTW_ESTIMATE | FFTW_DESTROY_INPUT);
        pair.backward = fftw_plan_dft_c2r_1d((int)n, spectrum, real, FFTW_ESTIMATE | FFTW_DESTROY_INPUT);
    }
    fftw_free(real);
    fftw_free(spectrum);
    double forward = plan_error(pair.forward), backward = plan_error(pair.backward);
    pair.error = isnan(forward) || isnan(backward) ? NAN : fmax(forward, backward);
    if (isnan(pair.error))
        destroy_plans(&pair);
    return pair;
}

/* The plans of length n. If the table is full, a new pair that the caller owns (*owned = 1): no entry can be evicted,
 * because another thread may be executing it. */
static struct plan_pair plans_of(size_t n, int *owned)
{
    struct plan_pair pair = {0};
    *owned = 0;
    eps__fftw_lock();
    for (size_t i = 0; i < plans_len && !pair.n; i++)
        if (plans[i].n == n)
            pair = plans[i];
    if (!pair.n) {
        pair = make_plans(n);
        if (pair.forward && plans_len < PLANS_MAX)
            plans[plans_len++] = pair;
        else
            *owned = 1;
    }
    eps__fftw_unlock();
    return pair;
}

static void release(struct plan_pair pair, int owned)
{
    if (!owned)
        return;
    eps__fftw_lock();
    destroy_plans(&pair);
    eps__fftw_unlock();
}

int eps__fft_forward(double complex *out, double *in, size_t n)
{
    int owned;
    struct plan_pair pair = plans_of(n, &owned);
    if (pair.forward)
        fftw_execute_dft_r2c(pair.forward, in, out);
    release(pair, owned);
    return pair.forward ? 0 : -1;
}

int eps__fft_backward(double *out, double complex *in, size_t n)
{
    int owned;
    struct plan_pair pair = plans_of(n, &owned);
    if (pair.backward)
        fftw_execute_dft_c2r(pair.backward, in, out);
    release(pair, owned);
    return pair.backward ? 0 : -1;
}

double eps__fft_error(size_t n)
{
    int owned;
    struct plan_pair pair = plans_of(n, &owned);
    release(pair, owned);
    return pair.error;
}
