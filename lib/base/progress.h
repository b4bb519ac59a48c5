/*
 * How far a computation is: work done over work expected, both in the operations that cost estimates count. Estimates
 * err, so what is done beyond them approaches the end without reaching it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_BASE_PROGRESS_H
#define EPS_BASE_PROGRESS_H

#include <stdatomic.h>

#include "lib/epsilon.h"

/*
 * A context whose reports fill [from, to] of another one's: for a part of a computation that knows only itself. Every
 * other hook is the other's, which must outlive this one, as this one the context that is made of it.
 */
struct eps__context_part {
    const struct eps_context *whole;
    double from, to;
    struct eps_context context;
};

/* The context to hand on: NULL where whole is. */
const struct eps_context *eps__context_part(struct eps__context_part *part, const struct eps_context *whole,
                                            double from, double to);

struct eps__meters;

/* One of the tasks that a computation consists of. Thread-safe. */
struct eps__meter {
    struct eps__meters *all;
    double expected;           /* operations, over 0 */
    atomic_uint_fast64_t done; /* of expected, in units of 2^-40 */
    atomic_uint_fast64_t more; /* expected beside that, in the same units */
    atomic_bool told;          /* done is what the task itself says, whatever was expected */
};

/* The tasks together: the context is told when another hundredth is done. */
struct eps__meters {
    const struct eps_context *context;
    struct eps__meter *items;
    size_t len;
    size_t stride; /* bytes from one meter to the next */
    atomic_uint hundredths;
};

/* So many more operations are done. meter may be NULL. */
void eps__meter_add(struct eps__meter *meter, double operations);

/* So many more operations are to be done than was thought before. meter may be NULL. */
void eps__meter_expect(struct eps__meter *meter, double operations);

/* The task knows better than what was expected of it: it has done this fraction, in [0, 1]. What was told stays the least; such a task does not
 * count operations. meter may be NULL. */
void eps__meter_tell(struct eps__meter *meter, double fraction);

/* The task has ended, however much it has done. */
void eps__meter_end(struct eps__meter *meter);

#endif
