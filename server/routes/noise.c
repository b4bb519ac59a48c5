/*
 * POST /v1/noise: rows of C^-1 z or of B z, in the NumPy format or as one line per step; a client that accepts only
 * JSON (such as curl --json) gets an array of these lines. C is the matrix for which a job was answered, by its
 * factorization.id, or a stored factorisation. The request cannot give a family, so the noise always belongs to a
 * matrix that was accounted for.
 *
 * Each stream has its own random key. The key is kept in memory (server/ops/keys.h), so that the same request can
 * resume the stream, and is used for no other request. It is never logged or stored.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs/compute.h"
#include "server/jobs/realm.h"
#include "server/routes/jobs/accounted.h"
#include "server/routes/rows.h"

static bool on_canceled(void *user)
{
    return streaming_unwanted(user);
}

/* ---------------------------------------------------------------- reading */

static bool refuse_errors(struct streaming *streaming, struct api_errors *errors)
{
    enum api_problem kind = errors->out_of_memory ? API_PROBLEM_INTERNAL : API_PROBLEM_INVALID_JOB;
    streaming_refuse(streaming, api_problem_encode(kind, NULL, streaming->request->path, errors));
    return false;
}

/* Returns true if there was no error. Pointers refer to the request; a pointer to a member that the request does not
 * have is dropped. */
static bool passes(struct streaming *streaming, enum eps_status status, struct eps_error *error)
{
    if (status == EPS_OK)
        return true;
    if (strncmp(error->pointer, "/matrix", strlen("/matrix")) == 0 || strcmp(error->pointer, "/n") == 0)
        error->pointer[0] = '\0';
    if (status == EPS_CANCELED) /* or the client has disconnected and reads no reply */
        streaming_fail(streaming, API_PROBLEM_QUEUE_FULL, "the service is stopping; try again after the restart");
    else
        streaming_refuse(streaming, api_problem_of_error(error, streaming->request->path));
    return false;
}

static struct api_noise *read_request(struct streaming *streaming)
{
    const struct request *request = streaming->request;
    char message[256];
    struct api_errors errors = {0};
    json_t *json = api_json_parse(request->body ? request->body : "", request->body_len, message, sizeof message);
    struct api_noise *noise = json ? api_noise_decode(&errors, json) : NULL;
    if (!json) {
        streaming_fail(streaming, message[0] ? API_PROBLEM_MALFORMED_JSON : API_PROBLEM_INTERNAL,
                       message[0] ? message : "out of memory");
    } else if (!noise) {
        refuse_errors(streaming, &errors);
    }
    api_errors_clear(&errors);
    json_decref(json);
    return noise;
}

static bool first_row_exists(struct streaming *streaming, const struct api_noise *asked, size_t n)
{
    struct api_errors errors = {0};
    if (asked->first_row < 0 || (size_t)asked->first_row < n)
        return true;
    api_errors_add(&errors, "/first_row", "must be in [0, %zu]; there are %zu rows", n - 1, n);
    refuse_errors(streaming, &errors);
    api_errors_clear(&errors);
    return false;
}

/* ---------------------------------------------------------------- finding C */

static bool find_factorization(struct streaming *streaming, const struct eps_context *context, struct accounted *source,
                               const struct api_noise *noise)
{
    struct api_errors errors = {0};
    struct eps_job job;
    struct eps_mechanism *mechanism = &job.mechanism;
    if (request_phase(streaming->request) != NO_PHASE) {
        api_errors_add(&errors, "?phase", "is allowed for a job with phases, not with factorization; remove it");
        refuse_errors(streaming, &errors);
        api_errors_clear(&errors);
        return false;
    }
    eps_job_init(&job);
    mechanism->workload = noise->workload;
    if (eps_stored_mechanism(context, mechanism, NULL, noise->factorization) != EPS_OK) {
        streaming_fail(streaming, API_PROBLEM_NOT_FOUND,
                       "no factorisation with this id is stored; use the factorization.id of a job that is");
        return false;
    }
    eps_job_defaults(&job);
    source->answered = (struct answered){.mechanism = *mechanism, .noise_multiplier = NAN, .count = 1};
    memcpy(source->answered.factorization, noise->factorization, sizeof source->answered.factorization);
    bool right = api_noise_check_workload(&errors, noise, mechanism->n) || refuse_errors(streaming, &errors);
    api_errors_clear(&errors);
    return right;
}

/* Creates exactly the C that was accounted for; fails if it is not available. */
static bool create_strategy(struct streaming *streaming, const struct eps_context *context, struct rows *rows,
                            const struct accounted *source)
{
    struct eps_error error = {0};
    if (!passes(streaming,
                computation_strategy(context, &rows->strategy, &error, &source->answered.mechanism,
                                     source->answered.factorization),
                &error))
        return false;
    if (strcmp(eps_strategy_id(rows->strategy), source->answered.factorization) != 0) {
        streaming_fail(streaming, API_PROBLEM_CONFLICT,
                       "the factorisation used by this job is no longer stored, and recomputing it gives a different "
                       "one; post the job again, and draw for the new one");
        return false;
    }
    rows->n = eps_strategy_columns(rows->strategy);
    return true;
}

/* ---------------------------------------------------------------- opening */

/* The memory of a stream with this many coordinates; INFINITY if there is no such stream. */
static double bytes_of(const struct eps_context *context, const struct rows *rows, const struct api_noise *asked,
                       size_t dimensions)
{
    double bytes;
    struct eps_error error;
    enum eps_status status = eps_noise_cost(context, &error, rows->strategy, asked->part, dimensions, NULL, &bytes);
    return status == EPS_OK ? bytes + (double)sizeof *rows + (double)dimensions * sizeof(double) : INFINITY;
}

/* Writes how to split a request that is too large: the largest number of coordinates, within a sixteenth, that all
 * limits allow. */
static void name_part(char *part, size_t size, const struct streaming *streaming, const struct eps_context *context,
                      const struct rows *rows, const struct api_noise *asked)
{
    size_t fits = 0, above = asked->dimensions;
    while (above - fits > 1 && above - fits > fits / 16) {
        size_t middle = fits + (above - fits) / 2;
        *(streaming_fits(streaming, bytes_of(context, rows, asked, middle)) ? &fits : &above) = middle;
    }
    if (fits) {
        snprintf(part, size,
                 "request %zu dimensions at a time; coordinates are independent, so several requests are equivalent",
                 fits);
    } else {
        snprintf(part, size, "no part of it is small enough");
    }
}

/* Whether the request is within --max-operations and --max-bytes. */
static bool affordable(struct streaming *streaming, const struct eps_context *context, const struct rows *rows,
                       const struct api_noise *asked)
{
    char part[160];
    struct eps_error error = {0};
    enum eps_status status =
        eps_noise_cost(context, &error, rows->strategy, asked->part, asked->dimensions, NULL, NULL);
    if (status == EPS_TOO_COSTLY) {
        name_part(part, sizeof part, streaming, context, rows, asked);
        snprintf(
            error.message, sizeof error.message,
            "drawing this noise takes about %.3g operations and %.4g MiB of memory, but the limits are %.3g operations "
            "(--max-operations) and %.4g MiB (--max-bytes); %s",
            error.operations, error.bytes / 0x1p20, context->max_operations, context->max_bytes / 0x1p20, part);
    }
    return passes(streaming, status, &error);
}

/* Counts the memory of the stream and of its row. */
static bool reserve(struct streaming *streaming, const struct eps_context *context, const struct rows *rows,
                    const struct api_noise *asked)
{
    double bytes = bytes_of(context, rows, asked, asked->dimensions);
    char part[160] = "";
    if (!streaming_fits(streaming, bytes))
        name_part(part, sizeof part, streaming, context, rows, asked);
    return streaming_reserve(streaming, bytes, part);
}

static bool allocate(struct streaming *streaming, const struct eps_context *context, struct rows *rows,
                     const struct api_noise *asked)
{
    if (!reserve(streaming, context, rows, asked))
        return false;
    rows->values = malloc(asked->dimensions * sizeof(double));
    if (!rows->values)
        streaming_fail(streaming, API_PROBLEM_INTERNAL, "out of memory");
    return rows->values != NULL;
}

/* ---------------------------------------------------------------- resuming */

static void mix(crypto_generichash_state *state, const void *data, size_t len)
{
    crypto_generichash_update(state, data, len);
}

#define MIX(state, value) mix(state, &(value), sizeof(value))

/* The digest of everything that determines the noise except its key. */
static void digest_asked(uint8_t digest[KEYS_DIGEST], const struct rows *rows, const struct api_noise *asked,
                         const struct answered *answered, double noise_multiplier)
{
    crypto_generichash_state state;
    const struct eps_workload *w = &answered->mechanism.workload;
    const size_t phase = request_phase(rows->streaming->request);
    const char *strategy = eps_strategy_id(rows->strategy);
    crypto_generichash_init(&state, NULL, 0, KEYS_DIGEST);
    mix(&state, strategy, strlen(strategy));
    MIX(&state, asked->job);
    MIX(&state, asked->factorization);
    MIX(&state, asked->dimensions);
    MIX(&state, asked->part);
    MIX(&state, asked->dtype);
    MIX(&state, asked->seed);
    MIX(&state, noise_multiplier);
    MIX(&state, phase);
    MIX(&state, w->type);
    MIX(&state, w->momentum);
    MIX(&state, w->decay);
    MIX(&state, w->cooldown);
    MIX(&state, w->cooldown_from);
    MIX(&state, w->cooldown_to);
    mix(&state, w->coefficients, w->coefficients_len * sizeof *w->coefficients);
    crypto_generichash_final(&state, digest, KEYS_DIGEST);
}

/* Takes the key of the stream to be resumed. A connection that still reads it is closed, because two trainings with the
 * same noise would reveal their difference. */
static bool take_key(struct streaming *streaming, struct rows *rows, const char *id, uint8_t key[KEYS_KEY],
                     const uint8_t digest[KEYS_DIGEST])
{
    const struct request *request = streaming->request;
    uint64_t own = request->place->serial, before;
    snprintf(rows->hold.id, sizeof rows->hold.id, "%s", id);
    switch (keys_take(streaming->server->keys, &rows->hold, key, digest, own, &before)) {
    case KEYS_UNKNOWN:
        streaming_fail(
            streaming, API_PROBLEM_NOT_FOUND,
            "no stream with this id is stored: it was not read for --keep-streams, or the service was restarted, which "
            "deletes every key. Its noise cannot be recovered, and the noise of a new stream does not cancel it. "
            "Restart the training, or account for the completed and the remaining steps as two phases, the second with "
            "its own stream");
        return false;
    case KEYS_DIFFERENT:
        streaming_fail(
            streaming, API_PROBLEM_CONFLICT,
            "this stream was started by a different request, and its noise is for that request only; repeat the "
            "request, including ?phase, and add only stream and first_row");
        return false;
    case KEYS_FOUND:
        break;
    }
    if (before && before != own) {
        log_event(LOG_LEVEL_WARN, "noise",
                  "request=%s detail=\"resumes a stream that another connection was still reading\"", request->id);
        connections_cut(request->context->connections, before);
    }
    return true;
}

/* ---------------------------------------------------------------- the stream */

static bool create_keyed(struct streaming *streaming, const struct eps_context *context, struct rows *rows,
                         const struct api_noise *asked, double noise_multiplier, uint8_t key[KEYS_KEY],
                         const uint8_t digest[KEYS_DIGEST])
{
    const struct connection *place = streaming->request->place;
    struct eps_error error = {0};
    bool again = asked->stream[0];
    streaming_key(streaming, key, asked->seed, "noise");
    if ((again && !take_key(streaming, rows, asked->stream, key, digest)) ||
        !allocate(streaming, context, rows, asked) ||
        !passes(streaming,
                eps_noise_create(context, &rows->noise, &error, rows->strategy, asked->part, noise_multiplier,
                                 asked->dimensions, key),
                &error) ||
        !passes(streaming, rows_begin(rows, asked->first_row < 0 ? 0 : (size_t)asked->first_row, &error), &error))
        return false;
    if (!again)
        keys_keep(streaming->server->keys, &rows->hold, key, digest, place->client, place->serial);
    return true;
}

static bool create_noise(struct streaming *streaming, const struct eps_context *context, struct rows *rows,
                         const struct api_noise *asked, const struct answered *answered)
{
    double multiplier = isnan(asked->noise_multiplier) ? answered->noise_multiplier : asked->noise_multiplier;
    uint8_t key[KEYS_KEY], digest[KEYS_DIGEST];
    if (!first_row_exists(streaming, asked, rows->n) || !affordable(streaming, context, rows, asked))
        return false;
    digest_asked(digest, rows, asked, answered, multiplier);
    bool created = create_keyed(streaming, context, rows, asked, multiplier, key, digest);
    sodium_memzero(key, sizeof key);
    if (created && rows->hold.turn)
        reply_header(streaming->request, "X-Stream", "%s", rows->hold.id);
    return created;
}

static struct rows *rows_create(struct streaming *streaming, const struct api_noise *asked)
{
    struct rows *rows = calloc(1, sizeof *rows);
    if (!rows) {
        streaming_fail(streaming, API_PROBLEM_INTERNAL, "out of memory");
        return NULL;
    }
    rows->streaming = streaming;
    rows->dtype = asked->dtype;
    rows->dimensions = asked->dimensions;
    rows->form = (enum form)streaming->request->offer;
    return rows;
}

/* Does everything that needs the database and the library. */
static bool rows_fill(struct streaming *streaming, struct computation *computation, struct rows *rows,
                      const struct api_noise *asked)
{
    struct eps_context context = computation_context(computation);
    struct accounted source = {.decoded = NULL, .poster = request_poster(streaming->request)};
    computation->realm = realm_of(streaming->server->config, &source.poster); /* that of the job, once it is found */
    bool found = asked->job[0] ? accounted_find(streaming, &source, asked->job, "noise")
                               : find_factorization(streaming, &context, &source, asked);
    bool filled = found && create_strategy(streaming, &context, rows, &source) &&
                  create_noise(streaming, &context, rows, asked, &source.answered);
    accounted_clear(&source);
    computation->realm = "";
    return filled;
}

/* On the side pool. */
static void *rows_open(struct streaming *streaming)
{
    const struct config *config = streaming->server->config;
    struct api_noise *asked = read_request(streaming);
    struct rows *rows = asked ? rows_create(streaming, asked) : NULL;
    if (rows) {
        struct computation computation;
        computation_open(&computation, streaming->server, NULL,
                         config->max_seconds > 0 ? fmin(config->max_seconds, WAIT_MAX_SECONDS) : WAIT_MAX_SECONDS);
        computation.account = streaming->account;
        computation.canceled = on_canceled;
        computation.user = streaming;
        computation.job = asked->job[0] ? asked->job : NULL;
        if (!rows_fill(streaming, &computation, rows, asked)) {
            rows_close(rows);
            rows = NULL;
        }
        computation_close(&computation);
    }
    api_noise_destroy(asked);
    return rows;
}

enum handled handle_noise_post(struct request *request)
{
    static const struct streaming_kind kind = {rows_open, rows_make, rows_close};
    return streaming_start(request, &kind);
}
