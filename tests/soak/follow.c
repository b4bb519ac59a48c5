/*
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/soak/follow.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/codec.h"
#include "server/routes/jobs/statement.h"

enum { ROWS = 4, DIMENSIONS = 3, STEPS = 3, EXAMPLES = 50 };
/* Of batches, which are formed at once and poll nothing: the service has limits of its own. */
#define OPERATIONS_MOST 1e6
#define BYTES_MOST 0x1p26

/* A call ended: *wrong says how, unless it could not have been better. True: it has an answer. */
static bool answered(struct following *following, const char **wrong, enum eps_status status,
                     const struct eps_error *error)
{
    bool stopped = status == EPS_CANCELED || status == EPS_TIMEOUT;
    *wrong = following->end(following->user);
    if (*wrong)
        return status == EPS_OK;
    if (status == EPS_INTERNAL || status == EPS_NO_MEMORY)
        *wrong = "internal, or out of memory";
    else if (stopped && !following->ended(following->user))
        *wrong = "stopped though no hook said so";
    else if (status != EPS_OK && (!error->message[0] || error->status != status))
        *wrong = "no message, or one of another status";
    return status == EPS_OK;
}

static void begin(struct following *following, const char *call)
{
    following->begin(following->user, call);
}

/* ------------------------------------------------------------ the curve */

static bool is_curve(const struct eps_curve_point *points, size_t len)
{
    bool sound = len > 0;
    for (size_t i = 0; i < len; i++) {
        const struct eps_curve_point *point = &points[i];
        sound = sound && isfinite(point->epsilon) && point->epsilon >= 0 && point->lower >= 0 && point->remove >= 0 &&
                point->add >= 0 && point->lower <= point->delta && point->delta <= 1 &&
                point->delta == fmax(point->remove, point->add);
        sound = sound && (i == 0 || (point->epsilon >= point[-1].epsilon && point->delta <= point[-1].delta));
    }
    return sound;
}

static const char *follow_curve(struct following *following, const struct eps_job *job, const struct eps_result *result)
{
    struct eps_curve_point *points = NULL;
    struct eps_error error = {0};
    const char *wrong;
    size_t len = 0;
    if (result->solved_for == EPS_SOLVE_CURVE || !(result->noise_multiplier > 0) ||
        result->guarantee != EPS_GUARANTEE_DETERMINISTIC)
        return NULL;
    begin(following, "curve");
    enum eps_status status =
        eps_privacy_curve(following->context, &points, &len, &error, job, result->noise_multiplier);
    if (answered(following, &wrong, status, &error) && !wrong && !is_curve(points, len))
        wrong = "a curve that cannot be";
    free(points);
    return wrong;
}

/* ------------------------------------------------------------ what was spent */

/* Of a job without phases or of them, whether one releases its last iterate alone: which may cost less than one
 * before it. */
static bool is_last_iterate(const struct eps_job *job)
{
    bool last = job->mechanism.sampling.last_iterate;
    for (size_t i = 0; i < job->phases_len; i++)
        last = last || job->phases[i].mechanism.sampling.last_iterate;
    return last;
}

/* least: of the whole; NAN: nothing is known. rising: no point says less than the one before. */
static bool is_spent(const struct eps_spend_point *points, size_t len, double least, bool rising)
{
    bool sound = len > 0;
    for (size_t i = 0; i < len; i++)
        sound = sound && isfinite(points[i].epsilon) && points[i].epsilon >= 0 &&
                (i == 0 ||
                 (points[i].step > points[i - 1].step && (!rising || points[i].epsilon >= points[i - 1].epsilon)));
    return sound && !(points[len - 1].epsilon < least * (1 - 1e-12));
}

static const char *follow_spend(struct following *following, const struct eps_job *job, const struct eps_result *result)
{
    struct eps_spend_point *points = NULL;
    struct eps_error error = {0};
    const char *wrong;
    size_t len = 0;
    if (result->solved_for == EPS_SOLVE_CURVE || !(result->noise_multiplier > 0))
        return NULL;
    begin(following, "spend");
    enum eps_status status =
        eps_spend(following->context, &points, &len, &error, job, result->noise_multiplier, result->delta);
    bool proven = result->solved_for == EPS_SOLVE_EPSILON && job->query.accountant.audit == 0;
    if (answered(following, &wrong, status, &error) && !wrong &&
        !is_spent(points, len, proven ? result->least : NAN, !is_last_iterate(job)))
        wrong = "a spend that cannot be";
    free(points);
    return wrong;
}

/* ------------------------------------------------------------ the strategy */

/* Whether the numbers are such as a reply can have: it says null of what is not finite. */
static bool are_numbers(const double *values, size_t len)
{
    bool finite = true;
    for (size_t i = 0; i < len; i++)
        finite = finite && isfinite(values[i]);
    return finite;
}

static const char *follow_row(struct following *following, const struct eps_strategy *strategy, enum eps_part part,
                              size_t row, size_t columns)
{
    struct eps_error error = {0};
    double *values = malloc((columns + 1) * sizeof *values);
    const char *wrong = NULL;
    begin(following, "row");
    enum eps_status status = values ? eps_strategy_row(strategy, values, &error, part, row) : EPS_NO_MEMORY;
    if (answered(following, &wrong, status, &error) && !wrong && !are_numbers(values, columns))
        wrong = "a row that is not finite";
    free(values);
    return wrong;
}

static const char *follow_part(struct following *following, const struct eps_strategy *strategy, enum eps_part part)
{
    struct eps_error error = {0};
    const char *wrong = NULL;
    size_t rows, columns, n = eps_strategy_columns(strategy);
    begin(following, "shape");
    enum eps_status status = eps_strategy_shape(strategy, &error, part, &rows, &columns);
    if (!answered(following, &wrong, status, &error) || wrong)
        return wrong;
    if (eps_strategy_is_toeplitz(strategy)) {
        double *column = malloc(n * sizeof *column);
        begin(following, "coefficients");
        status = column ? eps_strategy_coefficients(strategy, column, &error, part, n) : EPS_NO_MEMORY;
        if (answered(following, &wrong, status, &error) && !wrong && !are_numbers(column, n))
            wrong = "coefficients that are not finite";
        free(column);
    }
    for (size_t i = 0; i < ROWS && i < rows && !wrong; i++)
        wrong = follow_row(following, strategy, part, i * (rows - 1) / (ROWS - 1), columns);
    return wrong;
}

static const char *follow_bands(struct following *following, const struct eps_strategy *strategy)
{
    struct eps_error error = {0};
    const char *wrong = NULL;
    size_t bands = eps_strategy_bands(strategy), n = eps_strategy_columns(strategy);
    double *values = malloc((bands + 1) * sizeof *values);
    begin(following, "bands");
    enum eps_status status = values ? eps_strategy_band_row(strategy, values, &error, n - 1) : EPS_NO_MEMORY;
    if (answered(following, &wrong, status, &error) && !wrong && !are_numbers(values, bands))
        wrong = "bands that are not finite";
    free(values);
    return wrong;
}

/* The service refuses what is not finite; what is no number or under 0 never may be. */
static const char *follow_error(struct following *following, const struct eps_strategy *strategy)
{
    struct eps_error error = {0};
    const char *wrong = NULL;
    size_t n = eps_strategy_columns(strategy);
    double *variance = malloc(n * sizeof *variance);
    begin(following, "error");
    enum eps_status status =
        variance ? eps_strategy_variance(following->context, strategy, variance, &error) : EPS_NO_MEMORY;
    if (answered(following, &wrong, status, &error) && !wrong)
        for (size_t i = 0; i < n; i++)
            if (!(variance[i] >= 0))
                wrong = "a variance that cannot be";
    free(variance);
    return wrong;
}

static const char *follow_noise(struct following *following, const struct eps_strategy *strategy, enum eps_part part,
                                double sigma)
{
    static const uint8_t key[32] = {1};
    struct eps_noise *noise = NULL;
    struct eps_error error = {0};
    double row[DIMENSIONS], operations, bytes;
    const char *wrong;
    begin(following, "noise");
    enum eps_status status =
        eps_noise_cost(following->context, &error, strategy, part, DIMENSIONS, &operations, &bytes);
    if (!answered(following, &wrong, status, &error) || wrong)
        return wrong;
    if (!(isfinite(operations) && isfinite(bytes) && operations >= 0 && bytes >= 0))
        return "estimates that are no numbers";
    status = eps_noise_create(following->context, &noise, &error, strategy, part, sigma, DIMENSIONS, key);
    for (size_t i = 0; i < STEPS && i < eps_strategy_columns(strategy) && status == EPS_OK; i++) {
        status = eps_noise_row(following->context, noise, row, &error);
        if (status == EPS_OK && !are_numbers(row, DIMENSIONS))
            wrong = "noise that is not finite";
    }
    eps_noise_destroy(noise);
    const char *ended = NULL;
    answered(following, &ended, status, &error);
    return ended ? ended : wrong;
}

/* By its id where the context's cache has it, as the service does. */
static const char *follow_strategy(struct following *following, const struct eps_mechanism *mechanism, const char *id,
                                   double sigma)
{
    struct eps_strategy *strategy = NULL;
    struct eps_error error = {0};
    struct eps_mechanism used = *mechanism;
    const char *wrong = NULL;
    begin(following, "strategy");
    eps_matrix_stored(&used.matrix, id);
    enum eps_status status = eps_strategy_create(following->context, &strategy, &error, &used);
    if (status == EPS_INVALID)
        status = eps_strategy_create(following->context, &strategy, &error, mechanism);
    if (!answered(following, &wrong, status, &error) || wrong)
        return wrong;
    if (strcmp(eps_strategy_id(strategy), id) != 0)
        wrong = "another strategy than the one that was accounted";
    for (int part = 0; part < EPS_PART_COUNT && !wrong; part++) {
        wrong = follow_part(following, strategy, (enum eps_part)part);
        if (part != EPS_PART_ENCODER && !wrong)
            wrong = follow_noise(following, strategy, (enum eps_part)part, sigma);
    }
    wrong = wrong ? wrong : follow_bands(following, strategy);
    wrong = wrong ? wrong : follow_error(following, strategy);
    eps_strategy_destroy(strategy);
    return wrong;
}

/* ------------------------------------------------------------ batches */

static bool is_batch(const struct eps_batch *batch, uint64_t dataset)
{
    bool sound = true;
    for (size_t i = 0; i < batch->len; i++)
        sound = sound && batch->indices[i] < dataset && (i == 0 || batch->indices[i] > batch->indices[i - 1]);
    return sound;
}

static const char *follow_batches(struct following *following, const struct eps_mechanism *mechanism)
{
    struct eps_mechanism used = *mechanism;
    struct eps_batcher *batcher = NULL;
    struct eps_error error = {0};
    static const uint8_t key[32] = {2};
    uint64_t dataset = used.sampling.dataset_size > 0 ? used.sampling.dataset_size : EXAMPLES;
    double operations, bytes;
    struct eps_batch batch;
    const char *wrong;
    begin(following, "batches");
    eps_batches_defaults(&used, dataset);
    if (eps_batches_check(&used, dataset, 0, NULL, NULL) > 0)
        return NULL;
    eps_batches_cost(&used, dataset, NULL, &operations, &bytes);
    if (!(isfinite(operations) && isfinite(bytes) && operations >= 0 && bytes >= 0))
        return "estimates that are no numbers";
    if (operations > OPERATIONS_MOST || bytes > BYTES_MOST)
        return NULL;
    enum eps_status status = eps_batcher_create(&batcher, &error, &used, dataset, NULL, key);
    bool sound = true;
    for (size_t i = 0; i < STEPS && i < used.n && status == EPS_OK; i++) {
        status = eps_batcher_next(batcher, &batch, &error);
        sound = sound && (status != EPS_OK || is_batch(&batch, dataset));
    }
    eps_batcher_destroy(batcher);
    answered(following, &wrong, status, &error);
    return wrong || sound ? wrong : "a batch that cannot be";
}

/* ------------------------------------------------------------ the statement */

static char *core_of(const struct eps_result *result)
{
    json_t *object = api_result_encode(result);
    char *core = object ? api_json_text(object) : NULL;
    json_decref(object);
    if (core)
        core[strlen(core) - 1] = '\0'; /* without its brace, as it is kept */
    return core;
}

static const char *follow_statement(struct following *following, const struct eps_job *job,
                                    const struct eps_result *result)
{
    const struct api_job asked = {.job = *job};
    json_t *json = api_job_encode(&asked, false);
    struct job_record record = {.status = JOB_SUCCEEDED, .job = json ? api_json_text(json) : NULL};
    struct result_record kept = {.core = core_of(result)};
    struct text text = {0};
    begin(following, "statement");
    json_t *facts = record.job && kept.core ? statement_facts(&record, &kept) : NULL;
    if (facts)
        statement_markdown(&text, facts, record.job, true);
    const char *wrong = !facts || text.failed || text.len == 0 ? "no statement" : following->end(following->user);
    if (!wrong && (strstr(text.data, "nan") || strstr(text.data, "inf ")))
        wrong = "a statement of what is no number";
    text_clear(&text);
    json_decref(facts);
    json_decref(json);
    free(kept.core);
    free(record.job);
    return wrong;
}

/* ------------------------------------------------------------ all of it */

/* As it was answered: the largest number in its place, and phases that are never run left out. False: nothing is
 * left. */
static bool settle(struct eps_job *job, struct eps_phase *phases, const struct eps_result *result)
{
    size_t kept = 0;
    if (job->mechanism.n == EPS_LARGEST)
        job->mechanism.n = result->largest;
    for (size_t i = 0; i < job->phases_len; i++) {
        struct eps_phase phase = job->phases[i];
        if (phase.count == EPS_LARGEST)
            phase.count = result->largest;
        if (phase.count > 0)
            phases[kept++] = phase;
    }
    bool whole = job->phases_len == 0;
    job->phases = phases;
    job->phases_len = kept;
    return whole ? job->mechanism.n > 0 : kept > 0;
}

static const char *follow_mechanisms(struct following *following, const struct eps_job *job,
                                     const struct eps_result *result)
{
    const char *wrong = NULL;
    double sigma = result->noise_multiplier;
    if (job->phases_len == 0) {
        wrong = follow_strategy(following, &job->mechanism, result->factorization_id, sigma);
        return wrong ? wrong : follow_batches(following, &job->mechanism);
    }
    for (size_t i = 0; i < job->phases_len && !wrong; i++) {
        const struct eps_phase *phase = &job->phases[i];
        const struct eps_result *alone = result->phases_len == job->phases_len ? result->phases[i].alone : NULL;
        if (alone)
            wrong = follow_strategy(following, &phase->mechanism, alone->factorization_id, sigma * phase->noise_scale);
        wrong = wrong ? wrong : follow_batches(following, &phase->mechanism);
    }
    return wrong;
}

const char *follow(struct following *following, const struct eps_job *job, const struct eps_result *result)
{
    struct eps_job settled = *job;
    struct eps_phase *phases = calloc(job->phases_len + 1, sizeof *phases);
    const char *wrong = phases ? follow_statement(following, job, result) : "out of memory";
    wrong = wrong ? wrong : follow_curve(following, job, result);
    if (!wrong && settle(&settled, phases, result)) {
        wrong = follow_spend(following, &settled, result);
        wrong = wrong ? wrong : follow_mechanisms(following, &settled, result);
    }
    free(phases);
    return wrong;
}
