/*
 * Products with the columns of a strategy, tile by tile: by FFT where columns are alike and wide, and directly
 * elsewhere. They equal the sums over all rows of y, which stays unchanged.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/monte_carlo/laws/columns.h"
#include "lib/job/setting.h"
#include "tests/unit/test.h"

static double *room(size_t len)
{
    double *made = aligned_alloc(64, (len * sizeof *made + 63) / 64 * 64);
    assert_non_null(made);
    return made;
}

/* Without participations y is z, and <h_i, y> is the sum over d of h[d] z[i + d], within the claimed error, which has a
 * sensible size. */
static void check(size_t n, size_t bands, bool by_fft)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    job.mechanism.matrix.bands = bands;
    job.mechanism.sampling.scheme = EPS_SCHEME_B_MIN_SEP;
    job.mechanism.sampling.separation = bands;
    job.mechanism.sampling.p = 0.01;
    job.query.noise_multiplier = 1;
    job.query.delta = 1e-5;
    eps_job_defaults(&job);
    struct eps_context context = {0};
    struct eps__setting setting;
    struct eps_error error;
    struct eps__mc_columns columns;
    assert_int_equal(eps__setting_open(&setting, &error, &context, &job), EPS_OK);
    assert_int_equal(eps__mc_columns_make(&columns, &setting, 0.7, bands, 1), EPS_OK);
    assert_int_equal(columns.width, bands);
    assert_int_equal(columns.spectrum.len > 0, by_fft);

    const struct eps__stream stream = {.key = {5, 6}, .chunk = 7};
    struct eps__participated slot[EPS__LANES];
    struct eps__mc_steps steps = {.slots = slot, .most = 1};
    double *y = room(eps__mc_columns_scratch(&columns)), *out = room(columns.tile * EPS__LANES),
           *z = room((n + 1) * EPS__LANES), bound = eps__mc_columns_error(&columns, 1), worst = 0;
    eps__normals(z, &stream, 32, 0, n + n % 2);
    for (size_t end = n, from; end > 0; end = from) {
        from = (end - 1) / columns.tile * columns.tile;
        eps__mc_columns_tile(y, &columns, &stream, 32, &steps, from, end);
        eps__mc_columns_correlate(out, y, &columns, from, end);
        for (size_t i = from; i < end; i++)
            for (size_t lane = i % 5; lane < EPS__LANES; lane += 5) {
                __float128 exact = 0;
                for (size_t d = 0; d < bands && i + d < n; d++)
                    exact += (__float128)columns.entries[d] * z[(i + d) * EPS__LANES + lane];
                double off = fabs((double)(exact - out[(i - from) * EPS__LANES + lane]));
                worst = fmax(worst, off);
                if (!(off <= bound))
                    fail_msg("n %zu, %zu bands, step %zu: off by %.3g, claimed %.3g", n, bands, i, off, bound);
            }
    }
    assert_true(bound < 1e-9 && worst > 0x1p-60);
    free(y);
    free(out);
    free(z);
    eps__mc_columns_clear(&columns);
    eps__setting_close(&setting);
}

TEST(products_are_those_of_all_rows)
{
    const size_t cases[][2] = {{1, 1},     {77, 5},     {640, 64},   {200, 96},  {97, 97},
                               {300, 100}, {1001, 129}, {1024, 256}, {2600, 700}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(cases[i][0], cases[i][1], cases[i][1] > 96);
}
