/*
 * See participations.h. The waiting time of a user is geometric: floor(ln u / ln (1-p)^k).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/sampling/participations.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include <sleef.h>

void eps__b_min_sep_steps_fill(struct eps__b_min_sep_steps *steps)
{
    double k = steps->examples, p = steps->p;
    assert(steps->examples >= 1 && steps->examples <= EPS__TOGETHER_MAX && steps->separation >= 1 && p > 0 && p <= 1);
    /* negative for every p < 1, because waits divide by it */
    steps->log_keep = p < 1 ? fmin(k * Sleef_cinz_log1pd1_u10purec(-p), -DBL_MIN) : -INFINITY;
    double log_p = Sleef_cinz_logd1_u10purec(p), log_q = steps->log_keep / k, ways = 1;
    for (unsigned j = 1; j <= steps->examples; j++) {
        ways *= (k - j + 1) / j;
        double log_rest = j < steps->examples ? (k - j) * log_q : 0;
        steps->pick[j - 1] = ways * Sleef_cinz_expd1_u10purec(j * log_p + log_rest);
        steps->log_pick[j - 1] = Sleef_cinz_logd1_u10purec(ways) + (j * log_p + log_rest);
    }
}

size_t eps__b_min_sep_steps_most(const struct eps__b_min_sep_steps *steps)
{
    return (steps->n - 1) / steps->separation + 1;
}

/* The step from which the user waits: 0 after a cold start, else a draw from the steady state. */
static size_t first_waiting(const struct eps__b_min_sep_steps *steps, double u)
{
    if (!steps->warm || steps->separation == 1)
        return 0;
    double barred = (double)(steps->separation - 1), waits = 1 / (1 + barred * steps->p);
    if (u < waits)
        return 0;
    size_t step = (size_t)((u - waits) / (1 - waits) * barred);
    return 1 + (step < steps->separation - 2 ? step : steps->separation - 2);
}

/* The number of examples drawn together, given that at least one is. */
static uint32_t together(const struct eps__b_min_sep_steps *steps, double u)
{
    double any = 0;
    for (unsigned j = 0; j < steps->examples; j++)
        any += steps->pick[j];
    double left = u * any;
    for (uint32_t j = 1; j < steps->examples; j++) {
        left -= steps->pick[j - 1];
        if (left < 0)
            return j;
    }
    return steps->examples;
}

size_t eps__b_min_sep_draw(struct eps__participated *out, const struct eps__b_min_sep_steps *steps,
                           const struct eps__stream *stream, uint32_t draw)
{
    size_t len = 0, used = 0, step = first_waiting(steps, steps->warm ? eps__uniform(stream, draw, used++) : 0);
    for (;; step += steps->separation) {
        if (steps->p < 1) {
            double wait = floor(Sleef_cinz_logd1_u10purec(eps__uniform(stream, draw, used++)) / steps->log_keep);
            if (!(wait < (double)steps->n))
                return len;
            step += (size_t)wait;
        }
        if (step >= steps->n)
            return len;
        uint32_t examples = steps->examples > 1 ? together(steps, eps__uniform(stream, draw, used++)) : 1;
        assert(len < eps__b_min_sep_steps_most(steps));
        out[len++] = (struct eps__participated){(uint32_t)step, examples};
    }
}

/* The common case: each wait takes one uniform, and only a warm start takes one more, first. Draws a few waits for all
 * lanes at a time. */
static void draw_waits(struct eps__participated *out, size_t most, size_t *len,
                       const struct eps__b_min_sep_steps *steps, const struct eps__stream *stream, uint32_t draw)
{
    enum { BATCH = 4 };
    double wait[BATCH * EPS__LANES], step[EPS__LANES] = {0}, n = (double)steps->n;
    bool waiting = true;
    memset(len, 0, EPS__LANES * sizeof *len);
    for (size_t used = 0; waiting; used += BATCH) {
        size_t skipped = steps->warm && used == 0 ? 1 : 0;
        eps__uniforms(wait, stream, draw, used, BATCH);
        for (size_t lane = 0; skipped && lane < EPS__LANES; lane++)
            step[lane] = (double)first_waiting(steps, wait[lane]);
        eps__log_lanes(wait, BATCH);
        waiting = false;
        for (size_t lane = 0; lane < EPS__LANES; lane++) {
            for (size_t i = skipped; i < BATCH && step[lane] < n; i++) {
                step[lane] += floor(wait[i * EPS__LANES + lane] / steps->log_keep);
                if (!(step[lane] < n))
                    break;
                assert(len[lane] < most);
                out[lane * most + len[lane]++] = (struct eps__participated){(uint32_t)step[lane], 1};
                step[lane] += (double)steps->separation;
            }
            waiting |= step[lane] < n;
        }
    }
}

void eps__b_min_sep_draw_lanes(struct eps__participated *out, size_t most, size_t *len,
                               const struct eps__b_min_sep_steps *steps, const struct eps__stream *stream,
                               uint32_t draw)
{
    assert(most >= eps__b_min_sep_steps_most(steps));
    if (steps->p < 1 && steps->examples == 1)
        draw_waits(out, most, len, steps, stream, draw);
    else
        for (uint32_t lane = 0; lane < EPS__LANES; lane++)
            len[lane] = eps__b_min_sep_draw(out + lane * most, steps, stream, draw + lane);
}
