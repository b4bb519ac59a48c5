/*
 * See drawn.h. A few draws find approximately where to look; others then prove values upwards from there, in steps,
 * until one fails. As delta falls with sigma, a wrong claim would already be made at the first sufficient step, so the
 * probability of an error is 1/1000 for any number of steps.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/paper/drawn.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "lib/accountants/monte_carlo/audit.h"
#include "lib/job/setting.h"

enum { PILOT = 1 << 15, PROOF = 1 << 19, HALVINGS = 8, STEPS_MAX = 40 };

#define STEP 1.01

/* A job whose setting is open, and the direction and epsilon of its draws. */
struct drawing {
    struct eps_job job;
    struct eps__setting setting;
};

static enum eps_status open_drawing(struct drawing *drawing, struct eps_error *error, const struct eps_job *job)
{
    double operations;
    drawing->job = *job;
    drawing->job.query.accountant.audit = PROOF;
    enum eps_status status = eps__setting_open(&drawing->setting, error, NULL, &drawing->job);
    if (status != EPS_OK || eps__mc_audits(&drawing->setting, &operations, error))
        return status;
    eps__setting_close(&drawing->setting);
    return EPS_UNSUPPORTED;
}

/* Whether this number of draws proves that delta at sigma exceeds the job's. Another seed gives other draws. */
static bool falls_short(struct drawing *drawing, double sigma, uint64_t draws, int64_t seed)
{
    struct eps_result result = {
        .solved_for = EPS_SOLVE_DELTA, .epsilon = drawing->job.query.epsilon, .noise_multiplier = sigma};
    struct eps_audit audit;
    drawing->job.query.accountant.audit = draws;
    drawing->job.query.accountant.seed = seed;
    return eps__mc_audit(&audit, &drawing->setting, EPS_REMOVE, &result) == EPS_OK &&
           audit.lower > drawing->job.query.delta;
}

double drawn_sigma(const struct eps_job *job, double enough)
{
    struct drawing drawing;
    struct eps_error error = {0};
    double low = 0.5 * enough, high = enough, proven = NAN;
    if (open_drawing(&drawing, &error, job) != EPS_OK) {
        printf("not ok - to be drawn: %s %s\n", error.pointer, error.message);
        return NAN;
    }
    for (int i = 0; i < HALVINGS; i++) {
        double middle = sqrt(low * high);
        *(falls_short(&drawing, middle, PILOT, 1) ? &low : &high) = middle;
    }
    double sigma = low / STEP;
    for (int i = 0; i < STEPS_MAX && falls_short(&drawing, sigma, PROOF, 2); i++, sigma *= STEP)
        proven = sigma;
    eps__setting_close(&drawing.setting);
    if (isnan(proven))
        printf("not ok - no draws prove that sigma %g is too little\n", sigma);
    return proven;
}
