/*
 * Encodes results as JSON and CSV. A figure that is unknown or undefined is null. Members that only some accountants or
 * families have (order, moments, bad_event_share, monte_carlo, audit, blt) are present if they were set. For a training
 * of phases, the members that belong to one mechanism are null; each phase has its own.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/codec/codec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json/number.h"

/* Objects under construction. One flag replaces an error check after every member. */
struct encoder {
    bool failed;
};

static void set(struct encoder *encoder, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new_nocheck(object, key, value) != 0)
        encoder->failed = true;
}

static void append(struct encoder *encoder, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0)
        encoder->failed = true;
}

static json_t *finish(const struct encoder *encoder, json_t *json)
{
    if (!encoder->failed)
        return json;
    json_decref(json);
    return NULL;
}

/* The parameters that an accountant used for its value. */
static void set_details(struct encoder *encoder, json_t *json, const struct eps_candidate *candidate)
{
    if (candidate->order > 0)
        set(encoder, json, "order", json_integer(candidate->order));
    if (candidate->moments > 0)
        set(encoder, json, "moments", json_integer(candidate->moments));
    if (!isnan(candidate->bad_event_share))
        set(encoder, json, "bad_event_share", api_number(candidate->bad_event_share));
}

static json_t *encode_directions(struct encoder *encoder, const struct eps_result *result)
{
    json_t *json = json_object();

    for (int direction = 0; direction < EPS_DIRECTIONS; direction++) {
        const struct eps_candidate *best = &result->directions[direction];
        json_t *entry = json_object();
        set(encoder, entry, "value", api_number(best->value));
        set(encoder, entry, "accountant", json_string(eps_accountant_name(best->accountant)));
        set_details(encoder, entry, best);
        set(encoder, json, eps_direction_name((enum eps_direction)direction), entry);
    }
    return json;
}

static json_t *encode_candidates(struct encoder *encoder, const struct eps_result *result)
{
    json_t *json = json_array();

    for (size_t i = 0; i < result->candidates_len; i++) {
        const struct eps_candidate *candidate = &result->candidates[i];
        json_t *entry = json_object();
        set(encoder, entry, "accountant", json_string(eps_accountant_name(candidate->accountant)));
        set(encoder, entry, "direction", json_string(eps_direction_name(candidate->direction)));
        set(encoder, entry, "value", api_number(candidate->value));
        set_details(encoder, entry, candidate);
        append(encoder, json, entry);
    }
    return json;
}

/* The draws of each direction; null for a direction answered without draws. */
static json_t *encode_draws(struct encoder *encoder, const struct eps_result *result)
{
    json_t *json = json_object();

    for (int direction = 0; direction < EPS_DIRECTIONS; direction++) {
        const struct eps_draws *draws = &result->draws[direction];
        json_t *entry = draws->samples > 0 ? json_object() : json_null();
        if (draws->samples > 0) {
            set(encoder, entry, "samples", json_integer((json_int_t)draws->samples));
            set(encoder, entry, "threshold", api_number(draws->threshold));
            set(encoder, entry, "estimate", api_number(draws->estimate));
            set(encoder, entry, "standard_error", api_number(draws->standard_error));
            set(encoder, entry, "failure_probability", api_number(draws->failure_probability));
            set(encoder, entry, "seed", json_integer((json_int_t)draws->seed));
            set(encoder, entry, "estimator", json_string(eps_estimator_name(draws->estimator)));
            set(encoder, entry, "bound", api_number(draws->bound));
            set(encoder, entry, "plain_samples", api_number(draws->plain_samples));
        }
        set(encoder, json, eps_direction_name((enum eps_direction)direction), entry);
    }
    return json;
}

static json_t *encode_audit(struct encoder *encoder, const struct eps_result *result)
{
    json_t *json = json_object();

    for (int direction = 0; direction < EPS_DIRECTIONS; direction++) {
        const struct eps_audit *audit = &result->audit[direction];
        json_t *entry = audit->samples > 0 ? json_object() : json_null();
        if (audit->samples > 0) {
            set(encoder, entry, "samples", json_integer((json_int_t)audit->samples));
            set(encoder, entry, "lower", api_number(audit->lower));
            set(encoder, entry, "ratio", api_number(audit->ratio));
        }
        set(encoder, json, eps_direction_name((enum eps_direction)direction), entry);
    }
    return json;
}

/* The members of results that used draws. */
static void set_sampled(struct encoder *encoder, json_t *json, const struct eps_result *result)
{
    if (result->draws[EPS_REMOVE].samples > 0 || result->draws[EPS_ADD].samples > 0)
        set(encoder, json, "monte_carlo", encode_draws(encoder, result));
    if (result->audit[EPS_REMOVE].samples > 0 || result->audit[EPS_ADD].samples > 0)
        set(encoder, json, "audit", encode_audit(encoder, result));
}

static json_t *encode_sentences(struct encoder *encoder, char *const *sentences, size_t len)
{
    json_t *json = json_array();

    for (size_t i = 0; i < len; i++)
        append(encoder, json, json_string(sentences[i]));
    return json;
}

static json_t *encode_sampling(struct encoder *encoder, const struct eps_result *result)
{
    json_t *json = json_object();

    set(encoder, json, "p", api_number(result->p));
    if (result->bins > 0)
        set(encoder, json, "bins", json_integer((json_int_t)result->bins));
    set(encoder, json, "expected_batch_size", api_number(result->expected_batch_size));
    return json;
}

static json_t *encode_sensitivity(struct encoder *encoder, const struct eps_result *result)
{
    if (!result->sensitivity_rule)
        return json_null();
    json_t *json = json_object();
    set(encoder, json, "value", api_number(result->sensitivity));
    set(encoder, json, "rule", json_string(result->sensitivity_rule));
    set(encoder, json, "exact", json_boolean(result->sensitivity_exact));
    return json;
}

static json_t *encode_numbers(struct encoder *encoder, const double *numbers, size_t len)
{
    json_t *json = json_array();

    for (size_t i = 0; i < len; i++)
        append(encoder, json, api_number(numbers[i]));
    return json;
}

static json_t *encode_factorization(struct encoder *encoder, const struct eps_result *result)
{
    if (result->factorization_id[0] == '\0')
        return json_null();
    json_t *json = json_object();
    set(encoder, json, "id", json_string(result->factorization_id));
    set(encoder, json, "iterations", json_integer((json_int_t)result->iterations));
    set(encoder, json, "optimality_gap", api_number(result->optimality_gap));
    if (result->blt_len > 0) {
        json_t *blt = json_object();
        set(encoder, blt, "decay", encode_numbers(encoder, result->blt_decay, result->blt_len));
        set(encoder, blt, "scale", encode_numbers(encoder, result->blt_scale, result->blt_len));
        set(encoder, json, "blt", blt);
    }
    return json;
}

static json_t *encode_error(struct encoder *encoder, const struct eps_result *result)
{
    if (isnan(result->error_mean_squared) && isnan(result->error_max_squared) && isnan(result->error_last_squared))
        return json_null();
    json_t *json = json_object();
    set(encoder, json, "mean_squared", api_number(result->error_mean_squared));
    set(encoder, json, "max_squared", api_number(result->error_max_squared));
    set(encoder, json, "last_squared", api_number(result->error_last_squared));
    return json;
}

static const char *cache_name(enum eps_cache_state state)
{
    return state == EPS_CACHE_HIT ? "hit" : state == EPS_CACHE_MISS ? "miss" : "unused";
}

/* One phase. Values that refer to the phase alone cover all its runs, as if they were a job of their own. */
static json_t *encode_phase(struct encoder *encoder, const struct eps_phase_result *phase)
{
    json_t *json = json_object(), *directions = json_object();
    const struct eps_result *alone = phase->alone;

    for (int direction = 0; direction < EPS_DIRECTIONS; direction++) {
        json_t *entry = json_object();
        set(encoder, entry, "value", api_number(alone ? alone->directions[direction].value : NAN));
        enum eps_accountant composed = phase->composed[direction];
        set(encoder, entry, "accountant",
            json_string(eps_accountant_name(alone ? alone->directions[direction].accountant : composed)));
        set(encoder, entry, "composed", json_string(eps_accountant_name(composed)));
        set(encoder, directions, eps_direction_name((enum eps_direction)direction), entry);
    }
    set(encoder, json, "count", json_integer((json_int_t)phase->count));
    set(encoder, json, "noise_multiplier", api_number(alone ? alone->noise_multiplier : NAN));
    set(encoder, json, "epsilon", api_number(alone ? alone->epsilon : NAN));
    set(encoder, json, "share", api_number(phase->share));
    set(encoder, json, "directions", directions);
    set(encoder, json, "sampling", alone ? encode_sampling(encoder, alone) : json_null());
    set(encoder, json, "sensitivity", alone ? encode_sensitivity(encoder, alone) : json_null());
    set(encoder, json, "factorization", alone ? encode_factorization(encoder, alone) : json_null());
    set(encoder, json, "error", alone ? encode_error(encoder, alone) : json_null());
    set(encoder, json, "adaptive", alone ? json_boolean(alone->adaptive) : json_null());
    return json;
}

static json_t *encode_phases(struct encoder *encoder, const struct eps_result *result)
{
    json_t *json = json_array();

    for (size_t i = 0; i < result->phases_len; i++)
        append(encoder, json, encode_phase(encoder, &result->phases[i]));
    return json;
}

/* The three scalars and the bracket; all null for a curve. */
static void set_values(struct encoder *encoder, json_t *json, const struct eps_result *result)
{
    bool curve = result->solved_for == EPS_SOLVE_CURVE;

    set(encoder, json, "solved_for", json_string(eps_unknown_name(result->solved_for)));
    set(encoder, json, "epsilon", api_number(curve ? NAN : result->epsilon));
    set(encoder, json, "delta", api_number(curve ? NAN : result->delta));
    set(encoder, json, "noise_multiplier", api_number(curve ? NAN : result->noise_multiplier));
    if (result->solved_for == EPS_SOLVE_N || result->solved_for == EPS_SOLVE_RUNS)
        set(encoder, json, eps_unknown_name(result->solved_for), json_integer((json_int_t)result->largest));
    if (curve || isnan(result->bracket_lower) || isnan(result->bracket_upper)) {
        set(encoder, json, "bracket", json_null());
        set(encoder, json, "least", api_number(curve ? NAN : result->least));
        return;
    }
    json_t *bracket = json_object();
    set(encoder, bracket, "lower", api_number(result->bracket_lower));
    set(encoder, bracket, "upper", api_number(result->bracket_upper));
    set(encoder, bracket, "exact", json_boolean(result->bracket_exact));
    set(encoder, json, "bracket", bracket);
    set(encoder, json, "least", api_number(result->least));
}

static json_t *encode_points(struct encoder *encoder, const struct eps_curve_point *points, size_t len)
{
    json_t *json = json_array();

    for (size_t i = 0; i < len && !encoder->failed; i++) {
        json_t *point = json_object();
        set(encoder, point, "epsilon", api_number(points[i].epsilon));
        set(encoder, point, "delta", api_number(points[i].delta));
        set(encoder, point, "lower", api_number(points[i].lower));
        set(encoder, point, "remove", api_number(points[i].remove));
        set(encoder, point, "add", api_number(points[i].add));
        append(encoder, json, point);
    }
    return json;
}

json_t *api_result_encode(const struct eps_result *result)
{
    struct encoder encoder = {0};
    json_t *json = json_object(), *cache = json_object();

    set_values(&encoder, json, result);
    set(&encoder, json, "guarantee", json_string(eps_guarantee_name(result->guarantee)));
    set(&encoder, json, "accountant", json_string(eps_accountant_name(result->accountant)));
    set(&encoder, json, "directions", encode_directions(&encoder, result));
    set(&encoder, json, "candidates", encode_candidates(&encoder, result));
    set_sampled(&encoder, json, result);
    set(&encoder, json, "adjacency", json_string(eps_adjacency_name(result->adjacency)));
    set(&encoder, json, "adaptive", json_boolean(result->adaptive));
    set(&encoder, json, "sampling", result->phases_len ? json_null() : encode_sampling(&encoder, result));
    set(&encoder, json, "sensitivity", encode_sensitivity(&encoder, result));
    set(&encoder, json, "factorization", encode_factorization(&encoder, result));
    set(&encoder, json, "error", encode_error(&encoder, result));
    set(&encoder, json, "assumptions", encode_sentences(&encoder, result->assumptions, result->assumptions_len));
    set(&encoder, json, "hints", encode_sentences(&encoder, result->hints, result->hints_len));
    if (result->phases_len > 0)
        set(&encoder, json, "phases", encode_phases(&encoder, result));
    if (result->solved_for == EPS_SOLVE_CURVE)
        set(&encoder, json, "curve", encode_points(&encoder, result->curve, result->curve_len));
    set(&encoder, cache, "factorization", json_string(cache_name(result->cache_factorization)));
    set(&encoder, cache, "pld", json_string(cache_name(result->cache_pld)));
    set(&encoder, json, "cache", cache);
    return finish(&encoder, json);
}

int api_result_stamp(json_t *result, const char *result_cache, double elapsed_seconds, double compute_seconds)
{
    struct encoder encoder = {0};
    json_t *cache = json_object_get(result, "cache");

    if (!cache)
        return -1;
    set(&encoder, cache, "result", json_string(result_cache));
    set(&encoder, result, "version", json_string(EPS_VERSION));
    set(&encoder, result, "accounting_version", json_integer(EPS_ACCOUNTING_VERSION));
    set(&encoder, result, "compute_seconds", api_number(compute_seconds));
    set(&encoder, result, "elapsed_seconds", api_number(elapsed_seconds));
    return encoder.failed ? -1 : 0;
}

json_t *api_curve_encode(const struct eps_curve_point *points, size_t len)
{
    struct encoder encoder = {0};
    json_t *json = json_object();

    set(&encoder, json, "points", encode_points(&encoder, points, len));
    return finish(&encoder, json);
}

char *api_curve_csv(const struct eps_curve_point *points, size_t len)
{
    static const char header[] = "epsilon,delta,lower,remove,add\n";
    size_t used = sizeof header - 1;
    char *text = malloc(sizeof header + len * 5 * API_NUMBER_TEXT);

    if (!text)
        return NULL;
    memcpy(text, header, sizeof header);
    for (size_t i = 0; i < len; i++) {
        const double columns[] = {points[i].epsilon, points[i].delta, points[i].lower, points[i].remove, points[i].add};
        for (size_t j = 0; j < 5; j++) {
            if (isfinite(columns[j])) /* otherwise an empty cell, which is null in CSV */
                used += api__number_text(text + used, columns[j]);
            text[used++] = j < 4 ? ',' : '\n';
        }
    }
    text[used] = '\0';
    return text;
}
