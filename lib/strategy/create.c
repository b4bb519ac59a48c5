/*
 * Making a strategy: the steps that all families share.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>

#include "lib/base/sentences.h"
#include "lib/strategy/failures.h"
#include "lib/strategy/making.h"

static enum eps_status unserved(struct eps_error *error, enum eps_family family)
{
    const char *names[EPS_FAMILY_COUNT];
    char served[200];
    size_t len = 0;
    for (int i = 0; i < EPS_FAMILY_COUNT; i++)
        if (eps_serves_family((enum eps_family)i))
            names[len++] = eps_family_name((enum eps_family)i);
    eps__list(served, sizeof served, names, len);
    const char *name = eps_family_name(family);
    return eps__error(error, EPS_UNSUPPORTED, "/matrix/family", "%s is not computed by this build; choose one of: %s",
                      name ? name : "this family", served);
}

/* Checks that squares of entries neither overflow nor lose their last bits to underflow. */
static enum eps_status check_range(const struct eps_strategy *s, struct eps_error *error,
                                   const struct eps_matrix *matrix)
{
    const struct eps__family *family = eps__family_of(matrix);
    const char *pointer = family->source ? family->source(matrix) : "/workload";
    double largest = 0;
    for (size_t i = 0; i < s->entries_len; i++) {
        if (!isfinite(s->entries[i]))
            return eps__error(error, EPS_INVALID, pointer, "entry %zu of C is not finite", i);
        largest = fmax(largest, fabs(s->entries[i]));
    }
    if (largest > 1e100 || (largest > 0 && largest < 1e-100))
        return eps__error(error, EPS_INVALID, pointer,
                          "the largest entry of C is %g; scale C so that it lies between 1e-100 and 1e100", largest);
    return EPS_OK;
}

enum eps_status eps__strategy_check_cost(const struct eps_context *context, struct eps_error *error,
                                         const struct eps_mechanism *mechanism)
{
    double operations, bytes;
    eps__strategy_cost(mechanism, &operations, &bytes);
    if (!context || ((context->max_operations <= 0 || operations <= context->max_operations) &&
                     (context->max_bytes <= 0 || bytes <= context->max_bytes)))
        return EPS_OK;
    eps__error(error, EPS_TOO_COSTLY, "/n",
               "the strategy takes about %.2g operations and %.2g bytes; use fewer steps or bands, or "
               "raise the limits",
               operations, bytes);
    if (error) {
        error->operations = operations;
        error->bytes = bytes;
    }
    return EPS_TOO_COSTLY;
}

struct eps_mechanism eps__strategy_stand_in(const struct eps_mechanism *mechanism)
{
    struct eps_mechanism other = *mechanism;
    other.workload = eps__workload_default();
    /* The stand-in is the identity only for an identity workload and one participation, where it is the optimum: with X
     * = C^T C and X_ii <= 1, each (X^-1)_ii is at least 1/X_ii, and only a diagonal X attains that. */
    bool diagonal = mechanism->workload.type == EPS_WORKLOAD_TOEPLITZ && mechanism->workload.coefficients_len == 1 &&
                    mechanism->matrix.epochs == 1;
    other.matrix = eps__matrix_of_bands(diagonal ? 1 : (size_t)eps__strategy_forecast(mechanism).bands);
    other.matrix.stamps = mechanism->matrix.stamps;
    /* Optimised families scale C so that its largest column norm is about 1. */
    other.matrix.normalization = mechanism->matrix.normalization == EPS_NORMALIZATION_NONE
                                     ? EPS_NORMALIZATION_MAX_COLUMN
                                     : mechanism->matrix.normalization;
    return other;
}

enum eps_status eps__strategy_base(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                                   const struct eps_mechanism *mechanism, const uint8_t *key, bool probe)
{
    uint8_t derived[EPS__HASH_BYTES] = {0};
    bool optimised = eps__strategy_is_optimised(&mechanism->matrix);
    struct eps_mechanism other;
    if (optimised && probe) {
        other = eps__strategy_stand_in(mechanism);
        mechanism = &other;
        optimised = false;
    }
    eps__builder *builder = eps__family_of(&mechanism->matrix)->build;
    if (optimised && !key && !eps__factorization_key(derived, mechanism))
        return eps__strategy_no_memory(error);
    if (!eps__stored_begin(s, mechanism, key ? key : derived))
        return eps__strategy_no_memory(error);
    enum eps_status status = eps__workload_init(&s->workload, error, mechanism);
    if (status == EPS_OK && optimised)
        status = eps__factorization_obtain(context, s, error, mechanism, key ? key : derived, builder);
    else if (status == EPS_OK)
        status = builder(context, s, error, mechanism);
    if (status != EPS_OK)
        return status;
    status = check_range(s, error, &mechanism->matrix);
    if (status == EPS_OK && !s->kind->measure(s))
        status = eps__strategy_no_memory(error);
    return status;
}

static enum eps_status build(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                             const struct eps_mechanism *mechanism, bool probe)
{
    enum eps_status status = eps__family_of(&mechanism->matrix)->kept
                                 ? eps__build_stored(context, s, error, mechanism, probe)
                                 : eps__strategy_base(context, s, error, mechanism, NULL, probe);
    if (status == EPS_OK)
        status = eps__strategy_normalise(context, s, error, mechanism);
    if (status == EPS_OK)
        status = eps__strategy_poll(context, error);
    if (status == EPS_OK && !probe) {
        eps__strategy_identify(s);
        eps__stored_offer(context, s);
    }
    return status;
}

/* probe: as in eps__strategy_base(). */
static enum eps_status create(const struct eps_context *context, struct eps_strategy **strategy,
                              struct eps_error *error, const struct eps_mechanism *mechanism, bool probe)
{
    size_t n = mechanism->n, stamps = mechanism->matrix.stamps ? mechanism->matrix.stamps : 1;
    if (!eps_serves_family(mechanism->matrix.family))
        return unserved(error, mechanism->matrix.family);
    if (!n)
        return eps__error(error, EPS_INVALID, "/n", "must be at least 1");
    if (mechanism->matrix.optimize_for != EPS_OPTIMIZE_FOR_ERROR && !probe)
        return eps__error(error, EPS_UNSUPPORTED, "/matrix/optimize_for",
                          "the strategy depends on the whole job: solve the job, and use the factorization.id of its "
                          "result");
    if (n % stamps)
        return eps__error(error, EPS_INVALID, "/matrix/stamps", "must divide n = %zu", n);
    enum eps_status status = eps__strategy_check_cost(context, error, mechanism);
    if (status != EPS_OK)
        return status;
    struct eps_strategy *s = calloc(1, sizeof *s);
    if (!s)
        return eps__strategy_no_memory(error);
    eps__strategy_size(s, n, stamps);
    s->optimality_gap = NAN;
    if (pthread_mutex_init(&s->lock, NULL) != 0)
        status = eps__strategy_no_memory(error);
    else
        s->lock_made = true;
    if (status == EPS_OK)
        status = build(context, s, error, mechanism, probe);
    if (status != EPS_OK) {
        eps_strategy_destroy(s);
        return status;
    }
    *strategy = s;
    return EPS_OK;
}

enum eps_status eps_strategy_create(const struct eps_context *context, struct eps_strategy **strategy,
                                    struct eps_error *error, const struct eps_mechanism *mechanism)
{
    return create(context, strategy, error, mechanism, false);
}

enum eps_status eps__strategy_probe(const struct eps_context *context, struct eps_strategy **strategy,
                                    struct eps_error *error, const struct eps_mechanism *mechanism)
{
    return create(context, strategy, error, mechanism, true);
}
