/*
 * What draws prove about the truth: the least noise that a mechanism needs, by the library's own audits.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_PAPER_DRAWN_H
#define TESTS_PAPER_DRAWN_H

#include "lib/epsilon.h"

/*
 * A sigma at which the mechanism of the job does not keep the job's (epsilon, delta) when an example is removed, with
 * probability at least 0.999: the mechanism needs more. Within 1% of the largest one that this number of draws proves.
 * The search begins at half of `enough`; a sigma above `enough`, which is proven to suffice, is a contradiction. NAN,
 * and a message, where there is none.
 */
double drawn_sigma(const struct eps_job *job, double enough);

#endif
