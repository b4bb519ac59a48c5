/*
 * Family stored: a factorisation by its id, which is the content hash of the scaled C. For each computed strategy, the
 * context's cache is offered a note under the id: the recipe of C before scaling, the key of the optimiser's result,
 * and the divisors since. A C that is rebuilt from a note must hash to the requested id, so a wrong or forged note
 * cannot make a job use another matrix.
 *
 * A note is smaller than C: the recipe of a square root of a million steps has a hundred bytes. The recipe of an
 * optimised matrix gives its cost before it is read, and recomputes it if the optimiser's result was lost. A stored
 * factorisation that is scaled again keeps the note of its source with one more divisor, so that it outlives the job
 * that first computed it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/failures.h"
#include "lib/strategy/kept/recipe.h"
#include "lib/strategy/making.h"

#define FORMAT 3 /* of notes */

struct note {
    struct eps__recipe recipe;
    uint8_t key[EPS__HASH_BYTES]; /* of the optimiser's result; zero if the family has no optimiser */
    size_t stamps;                /* copies of the recipe's C on the diagonal */
    double *divisors;
    size_t divisors_len;
};

static void note_clear(struct note *note)
{
    eps__recipe_clear(&note->recipe);
    free(note->divisors);
}

static void note_key(uint8_t key[EPS__HASH_BYTES], const char *id)
{
    struct eps__hash hash;
    eps__hash_init(&hash, "factorisation by id");
    eps__hash_bytes(&hash, id, strlen(id) + 1);
    eps__hash_final(&hash, key);
}

/* ---------------------------------------------------------------- writing */

bool eps__stored_begin(struct eps_strategy *s, const struct eps_mechanism *mechanism,
                       const uint8_t key[EPS__HASH_BYTES])
{
    struct eps__record *origin = &s->origin;
    eps__record_put_u64(origin, FORMAT);
    eps__recipe_write(origin, mechanism);
    eps__record_put(origin, key, EPS__HASH_BYTES);
    s->origin_stamps = 1;
    return !origin->bad;
}

void eps__stored_offer(const struct eps_context *context, const struct eps_strategy *s)
{
    struct eps__record note = {0};
    uint8_t key[EPS__HASH_BYTES];
    if (!context || !context->cache_put)
        return;
    eps__record_put(&note, s->origin.bytes, s->origin.len);
    eps__record_put_u64(&note, s->origin_stamps);
    eps__record_put_doubles(&note, s->divisors, s->divisors_len);
    note_key(key, s->id);
    if (!note.bad)
        context->cache_put(context->user, EPS_CACHE_FACTORIZATION, key, note.bytes, note.len);
    eps__record_clear(&note);
}

/* ---------------------------------------------------------------- reading */

static bool note_read(struct note *note, const void *blob, size_t blob_len)
{
    struct eps__record from = eps__record_over(blob, blob_len);
    *note = (struct note){0};
    if (eps__record_get_u64(&from) != FORMAT || !eps__recipe_read(&note->recipe, &from))
        return false;
    eps__record_get(&from, note->key, sizeof note->key);
    note->stamps = eps__record_get_u64(&from);
    eps__record_get_doubles(&from, &note->divisors, &note->divisors_len);
    for (size_t i = 0; i < note->divisors_len; i++)
        if (!(note->divisors[i] > 0))
            return false;
    return eps__record_done(&from) && note->stamps > 0 && note->divisors_len <= EPS__DIVISORS_MAX &&
           eps_serves_family(note->recipe.mechanism.matrix.family);
}

/* Reads the note of the id; EPS_INVALID if there is none. */
static enum eps_status find(const struct eps_context *context, struct note *note, struct eps_error *error,
                            const char *id)
{
    uint8_t key[EPS__HASH_BYTES];
    void *blob = NULL;
    size_t blob_len = 0;
    note_key(key, id);
    if (!context || !context->cache_get ||
        !context->cache_get(context->user, EPS_CACHE_FACTORIZATION, key, &blob, &blob_len))
        return eps__error(error, EPS_INVALID, "/matrix/id",
                          "no factorisation with this id is stored: use factorization.id of a stored job, or name "
                          "the family that computed it");
    bool whole = note_read(note, blob, blob_len);
    free(blob);
    if (whole)
        return EPS_OK;
    note_clear(note);
    return eps__error(error, EPS_INVALID, "/matrix/id",
                      "the stored record of this factorisation cannot be read: name the family that computed it");
}

/* The steps of the stored factorisation; 0 if they exceed a size_t. */
static size_t steps_of(const struct note *note)
{
    size_t steps;
    return __builtin_mul_overflow(note->recipe.mechanism.n, note->stamps, &steps) ? 0 : steps;
}

enum eps_status eps_stored_mechanism(const struct eps_context *context, struct eps_mechanism *mechanism,
                                     struct eps_error *error, const char *id)
{
    struct note note = {0};
    enum eps_status status = find(context, &note, error, id);
    if (status != EPS_OK)
        return status;
    size_t steps = steps_of(&note);
    note_clear(&note);
    if (!steps)
        return eps__error(error, EPS_INVALID, "/matrix/id", "the stored record of this factorisation is damaged");
    mechanism->n = steps;
    mechanism->epochs = NAN;
    eps_matrix_stored(&mechanism->matrix, id);
    mechanism->sampling = eps__sampling_like(false, true);
    return EPS_OK;
}

/* Checks that the job's own members fit the matrix of the note. */
static enum eps_status check_fits(const struct note *note, struct eps_error *error,
                                  const struct eps_mechanism *mechanism, size_t stamps)
{
    size_t steps = steps_of(note);
    if (!steps || steps > mechanism->n)
        return eps__error(error, EPS_INVALID, "/n", "the stored factorisation has more steps than n");
    if (steps != mechanism->n / stamps)
        return eps__error(error, EPS_INVALID, "/n", "must be %zu: the stored factorisation has %zu steps%s",
                          steps * stamps, steps, stamps > 1 ? ", times matrix.stamps" : "");
    const struct eps_matrix *source = &note->recipe.mechanism.matrix;
    if (eps__family_of(source)->unsampled && eps__sampling_random(mechanism))
        return eps__error(error, EPS_INVALID, "/matrix/id",
                          "is a factorisation of family %s, which requires sampling.scheme none",
                          eps_family_name(source->family));
    return EPS_OK;
}

/* Repeats the recorded divisions one by one, to reproduce the same bits. */
static enum eps_status scale_again(struct eps_strategy *s, struct eps_error *error, const struct note *note)
{
    for (size_t i = 0; i < note->divisors_len; i++) {
        enum eps_status status = eps__strategy_divide(s, error, note->divisors[i]);
        if (status != EPS_OK)
            return status;
    }
    return EPS_OK;
}

/* Repeats C down the diagonal. */
static enum eps_status stamp(struct eps_strategy *s, struct eps_error *error, size_t stamps)
{
    s->origin_stamps *= stamps;
    s->n *= stamps;
    s->stamps *= stamps;
    return s->kind->measure(s) ? EPS_OK : eps__strategy_no_memory(error);
}

static enum eps_status build_note(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                                  const struct note *note, const char *id, bool probe)
{
    const struct eps_mechanism *source = &note->recipe.mechanism;
    eps__strategy_size(s, source->n, source->matrix.stamps);
    bool stands_in = probe && eps__strategy_is_optimised(&source->matrix);
    enum eps_status status = eps__strategy_base(context, s, error, source, note->key, probe);
    if (status == EPS_OK && !stands_in)
        status = scale_again(s, error, note);
    if (status == EPS_OK && note->stamps > 1)
        status = stamp(s, error, note->stamps);
    if (status != EPS_OK || stands_in)
        return status;
    eps__strategy_identify(s);
    if (strcmp(s->id, id) != 0)
        return eps__error(error, EPS_INVALID, "/matrix/id",
                          "was computed by another version of this program, and this one does not reproduce its bits: "
                          "name the family that computed it");
    return EPS_OK;
}

enum eps_status eps__build_stored(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                                  const struct eps_mechanism *mechanism, bool probe)
{
    struct note note = {0};
    size_t stamps = mechanism->matrix.stamps ? mechanism->matrix.stamps : 1;
    enum eps_status status = find(context, &note, error, mechanism->matrix.stored_id);
    if (status != EPS_OK)
        return status;
    /* The cost is that of the recipe's family under the sampling of this job. */
    struct eps_mechanism priced = note.recipe.mechanism;
    priced.sampling = mechanism->sampling;
    priced.n = mechanism->n;
    priced.matrix.stamps *= stamps * note.stamps;
    status = check_fits(&note, error, mechanism, stamps);
    if (status == EPS_OK)
        status = eps__strategy_check_cost(context, error, &priced);
    if (status == EPS_OK)
        status = build_note(context, s, error, &note, mechanism->matrix.stored_id, probe);
    if (status == EPS_OK && stamps > 1)
        status = stamp(s, error, stamps);
    note_clear(&note);
    if (status != EPS_OK)
        return status;
    eps__workload_clear(&s->workload);
    return eps__workload_init(&s->workload, error, mechanism);
}
