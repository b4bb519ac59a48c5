/*
 * Stopped trainings: only the counts of the phases differ (T6).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/training/stopped.h"

#include <assert.h>
#include <math.h>

#include "lib/training/whole.h"

static void set_counts(struct eps__training *training, const uint64_t *counts)
{
    uint64_t asked = 0, counted = 0;
    for (size_t k = 0; k < training->len; k++)
        training->phases[k].count = 0;
    for (size_t i = 0; i < training->job->phases_len; i++) {
        assert(counts[i] <= training->job->phases[i].count);
        training->phases[training->of[i]].count += counts[i];
        asked += counts[i];
    }
    for (size_t k = 0; k < training->len; k++)
        counted += training->phases[k].count;
    assert(counted == asked && asked > 0); /* (T1): every run must be counted */
}

enum eps_status eps__stopped_epsilon(struct eps__training *training, const uint64_t *counts, bool *chosen,
                                     double *epsilon, struct eps_error *error)
{
    const struct eps_query *query = &training->job->query;
    enum eps_status status = EPS_OK;
    set_counts(training, counts);
    if (!*chosen) {
        bool changed;
        status = eps__training_begin(training, error);
        if (status == EPS_OK)
            status = eps__training_choose(training, error, query->noise_multiplier, log(query->delta), query->epsilon,
                                          &changed);
        *chosen = status == EPS_OK;
    }
    return status == EPS_OK ? eps__whole_epsilon(epsilon, error, training, NULL, query, false) : status;
}
