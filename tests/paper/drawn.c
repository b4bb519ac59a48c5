/*
 * See drawn.h. A few draws find about where to look; fresh ones then prove it, from there upwards in steps until they fail once. As
 * delta falls with sigma, whatever is claimed wrongly was claimed at the first step that is enough, so that one test in a
 * thousand errs however many steps there are.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/paper/drawn.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

enum { PILOT = 1 << 16, PROOF = 1 << 20, HALVINGS = 8, STEPS_MAX = 40 };

#define STEP 1.01

/* Whether so many draws prove that delta at sigma is over the job's; a draw of another sigma is another draw. */
static enum eps_status falls_short(bool *short_of, const struct eps_job *asked, double sigma, uint64_t draws)
{
    struct eps_job job = *asked;
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    job.query.delta = NAN;
    job.query.noise_multiplier = sigma;
    job.query.accountant.method = EPS_ACCOUNTANT_GAUSSIAN; /* at once; the audit alone is wanted */
    job.query.accountant.audit = draws;
    enum eps_status status = eps_solve(NULL, &result, &error, &job);
    if (status != EPS_OK) {
        printf("not ok - an audit at sigma %g: %s %s\n", sigma, error.pointer, error.message);
        return status;
    }
    *short_of = result->audit[EPS_REMOVE].lower > asked->query.delta;
    eps_result_destroy(result);
    return EPS_OK;
}

double drawn_sigma(const struct eps_job *job, double enough)
{
    double low = 0.5 * enough, high = enough, proven = NAN;
    bool short_of;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = sqrt(low * high);
        if (falls_short(&short_of, job, middle, PILOT) != EPS_OK)
            return NAN;
        *(short_of ? &low : &high) = middle;
    }
    for (int i = 0; i < STEPS_MAX; i++) {
        double sigma = low * pow(STEP, i - 1.5); /* none that the pilot was at: other draws */
        if (falls_short(&short_of, job, sigma, PROOF) != EPS_OK)
            return NAN;
        if (!short_of)
            break;
        proven = sigma;
    }
    if (isnan(proven))
        printf("not ok - no draws prove that sigma %g is too little\n", low);
    return proven;
}
