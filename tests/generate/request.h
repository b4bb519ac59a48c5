/*
 * Random jobs as clients write them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_GENERATE_REQUEST_H
#define TESTS_GENERATE_REQUEST_H

#include <jansson.h>

#include "tests/generate/job.h"

/* The canonical text. The caller frees it. */
char *generated_text(const struct eps_job *job);

/* A request for the job that is not its canonical form: integers with a point, matrices as squares, members that have
 * their default left out or null, an accountant by its name alone, a label. A new reference. */
json_t *generated_request(const struct eps_job *job, uint64_t *state);

#endif
