/*
 * Progress of a computation: work done divided by work expected, both in the operations that cost estimates count.
 * Because estimates may be too low, work beyond them approaches the end without reaching it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_BASE_PROGRESS_H
#define EPS_BASE_PROGRESS_H

#include <stdatomic.h>

#include "lib/epsilon.h"

/*
 * A context for one part of a computation: its progress in [0, 1] is reported as [from, to] of another context's. Its
 * other hooks are those of that context, which must outlive this struct. This struct must outlive the context made from
 * it.
 */
struct eps__context_part {
    const struct eps_context *whole;
    double from, to;
    struct eps_context context;
};

/* Fills in *part and returns the context to use for the part; NULL if `whole` is NULL. */
const struct eps_context *eps__context_part(struct eps__context_part *part, const struct eps_context *whole,
                                            double from, double to);

/* Calls body(arg, index) for index < count: by the context's parallel_for, if it has one. context may be NULL. */
void eps__for_all(const struct eps_context *context, size_t count, void (*body)(void *arg, size_t index), void *arg);

struct eps__meters;

/* The progress of one task of a computation. Thread-safe. */
struct eps__meter {
    struct eps__meters *all;
    double expected;           /* expected operations, > 0 */
    atomic_uint_fast64_t done; /* work done, in units of 2^-40 of `expected` */
    atomic_uint_fast64_t more; /* work expected in addition, in the same units */
    atomic_bool told; /* `done` is a fraction reported by eps__meter_tell(); `expected` only weights the task */
};

/* All tasks of a computation. The context is notified whenever another hundredth is done. */
struct eps__meters {
    const struct eps_context *context;
    struct eps__meter *items;
    size_t len;
    size_t stride;          /* distance between meters in bytes */
    atomic_uint hundredths; /* last reported */
};

/* Adds operations to the work done. meter may be NULL. */
void eps__meter_add(struct eps__meter *meter, double operations);

/* Raises the estimated work by `operations`. meter may be NULL. */
void eps__meter_expect(struct eps__meter *meter, double operations);

/* Reports that the task has done this fraction, in [0, 1], of its work; a lower fraction than before is ignored. A
 * task that calls this does not call eps__meter_add(). meter may be NULL. */
void eps__meter_tell(struct eps__meter *meter, double fraction);

/* Marks the task as ended, regardless of the work counted so far. */
void eps__meter_end(struct eps__meter *meter);

#endif
