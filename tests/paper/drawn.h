/*
 * What draws say of the truth: the noise that a mechanism needs at least, by the library's own audits.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_PAPER_DRAWN_H
#define TESTS_PAPER_DRAWN_H

#include "lib/epsilon.h"

/*
 * A sigma at which the mechanism of the job does not keep the job's (epsilon, delta) when an example is removed, but
 * for one in a thousand: what is truly needed is more. Within 1% of the largest that so many draws prove. Looked for
 * from half of `enough` on; a sigma over `enough`, which was proven to be enough, is a contradiction. NAN, and a
 * message, where there is none.
 */
double drawn_sigma(const struct eps_job *job, double enough);

#endif
