/*
 * fourier: prefix sums as the upper left corner of a circulant of twice the size, factorised by its square root (MEMF
 * section 4, appendix K). With v = (1 x m, 0 x m) and its unnormalised transform Sigma = DFT v, a block is the first m
 * columns of the real circulant F* Sigma^(1/2) F: column j is the kernel y = IDFT(sqrt(DFT v)) shifted down cyclically
 * by j places.
 *
 * DFT v is m at frequency 0, 0 at the other even frequencies, and 1 - i cot(pi k / 2m) at odd k. The principal root of
 * the latter has modulus sin(pi k / 2m)^(-1/2) and angle pi k / 4m - pi / 4, which involves no difference of nearly
 * equal numbers. The computed kernel defines the strategy: sensitivities are those of the stored numbers, so its
 * rounding does not matter.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>

#include "lib/numerics/fft/fft.h"
#include "lib/strategy/failures.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/kinds/kinds.h"

static bool make_kernel(double *y, size_t m)
{
    double *out = eps__fft_alloc_real(2 * m);
    double complex *spectrum = eps__fft_alloc_complex(m + 1);
    bool ok = out && spectrum;
    for (size_t k = 0; ok && k <= m; k++) {
        double x = M_PI * (double)k / (double)m, root = 1 / sqrt(sin(x / 2)), angle = x / 4 - M_PI_4;
        spectrum[k] = k % 2 ? root * cos(angle) + I * (root * sin(angle)) : 0;
    }
    if (ok) {
        spectrum[0] = sqrt((double)m);
        ok = eps__fft_backward(out, spectrum, 2 * m) == 0;
    }
    for (size_t i = 0; ok && i < 2 * m; i++)
        y[i] = out[i] / (double)(2 * m);
    eps__fft_free(out);
    eps__fft_free(spectrum);
    return ok;
}

static enum eps_status build(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                             const struct eps_mechanism *mechanism)
{
    (void)context;
    size_t m = s->block;
    if (eps__sampling_random(mechanism))
        return eps__error(error, EPS_INVALID, "/matrix/family",
                          "fourier requires sampling.scheme none: it has negative entries and is not causal");
    s->entries = malloc(2 * m * sizeof *s->entries);
    if (!s->entries || !make_kernel(s->entries, m))
        return eps__strategy_no_memory(error);
    s->entries_len = s->block_rows = 2 * m;
    s->kind = &eps__strategy_fourier;
    s->scale = 1;
    s->decoder = mechanism->matrix.decoder == EPS_DECODER_STANDARD ? EPS_DECODER_STANDARD : EPS_DECODER_OPTIMAL;
    return EPS_OK;
}

static void defaults(struct eps_matrix *matrix, size_t block)
{
    (void)block;
    if (matrix->decoder == EPS_DECODER_DEFAULT)
        matrix->decoder = EPS_DECODER_OPTIMAL;
}

static void check(struct eps__check *check, const struct eps_matrix *matrix)
{
    if (matrix->decoder != EPS_DECODER_OPTIMAL && matrix->decoder != EPS_DECODER_STANDARD)
        eps__check_fail(check, "/matrix/decoder", "must be optimal or standard");
}

static void forecast(struct eps__forecast *c, const struct eps_mechanism *mechanism)
{
    (void)mechanism;
    c->kind = &eps__strategy_fourier;
    c->bands = c->block;
    c->nonnegative = false;
}

const struct eps__family eps__family_fourier = {
    .family = EPS_FAMILY_FOURIER,
    .name = "fourier",
    .unsampled = true,
    .defaults = defaults,
    .check = check,
    .build = build,
    .planned = eps__planned_once,
    .forecast = forecast,
};
