/*
 * Encodes results as JSON and CSV. A figure that is unknown or undefined is null. Members that only some accountants or
 * families have (order, moments, bad_event_share, monte_carlo, audit, blt) are present if they were set. For a training
 * of phases, the members that belong to one mechanism are null; each phase has its own.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/codec/codec.h"

#include <math.h>

#include "api/codec/figures.h"

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

static void set_figure(struct encoder *encoder, json_t *object, const struct api_figure *figure,
                       const struct eps_result *result)
{
    switch (figure->type) {
    case API_FIGURE_REAL:
    case API_FIGURE_VALUE:
        set(encoder, object, figure->name, api_number(api_figure_number_of(figure, result)));
        return;
    case API_FIGURE_COUNT:
    case API_FIGURE_POSITIVE:
        if (figure->type == API_FIGURE_COUNT || api_figure_count_of(figure, result) > 0)
            set(encoder, object, figure->name, json_integer((json_int_t)api_figure_count_of(figure, result)));
        return;
    case API_FIGURE_TRUTH:
        set(encoder, object, figure->name, json_boolean(api_figure_truth_of(figure, result)));
        return;
    case API_FIGURE_TEXT:
    case API_FIGURE_ID:
    case API_FIGURE_UNKNOWN:
    case API_FIGURE_GUARANTEE:
    case API_FIGURE_ACCOUNTANT:
    case API_FIGURE_ADJACENCY:
        set(encoder, object, figure->name, json_string(api_figure_text_of(figure, result)));
    }
}

/* Sets the figures of a place as members of the object. */
static void set_figures(struct encoder *encoder, json_t *object, enum api_place place, const struct eps_result *result)
{
    for (const struct api_figure *figure = api_figures; figure->name; figure++)
        if (figure->place == place)
            set_figure(encoder, object, figure, result);
}

static json_t *encode_figures(struct encoder *encoder, enum api_place place, const struct eps_result *result)
{
    json_t *json = json_object();

    set_figures(encoder, json, place, result);
    return json;
}

/* The number of numeric figures of a place that are known, or that are unknown. */
static size_t count_numbers(enum api_place place, const struct eps_result *result, bool known)
{
    size_t count = 0;

    for (const struct api_figure *figure = api_figures; figure->name; figure++)
        if (figure->place == place && api_figure_is_number(figure))
            count += known == !isnan(api_figure_number_of(figure, result));
    return count;
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

static json_t *encode_sensitivity(struct encoder *encoder, const struct eps_result *result)
{
    return result->sensitivity_rule ? encode_figures(encoder, API_SENSITIVITY, result) : json_null();
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
    json_t *json = encode_figures(encoder, API_FACTORIZATION, result);
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
    return count_numbers(API_ERROR, result, true) ? encode_figures(encoder, API_ERROR, result) : json_null();
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
    set(encoder, json, "sampling", alone ? encode_figures(encoder, API_SAMPLING, alone) : json_null());
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

/* The values, the count that was asked for (if any), and the bracket; null for a curve. */
static void set_values(struct encoder *encoder, json_t *json, const struct eps_result *result)
{
    bool bracketed = count_numbers(API_BRACKET, result, false) == 0;

    set_figures(encoder, json, API_VALUES, result);
    if (result->solved_for == EPS_SOLVE_N || result->solved_for == EPS_SOLVE_RUNS)
        set(encoder, json, eps_unknown_name(result->solved_for), json_integer((json_int_t)result->largest));
    set(encoder, json, "bracket", bracketed ? encode_figures(encoder, API_BRACKET, result) : json_null());
}

/* ---------------------------------------------------------------- curves */

static const struct {
    const char *name;
    size_t offset;
} curve_columns[] = {{"epsilon", offsetof(struct eps_curve_point, epsilon)},
                     {"delta", offsetof(struct eps_curve_point, delta)},
                     {"lower", offsetof(struct eps_curve_point, lower)},
                     {"remove", offsetof(struct eps_curve_point, remove)},
                     {"add", offsetof(struct eps_curve_point, add)}};

enum { CURVE_COLUMNS = sizeof curve_columns / sizeof *curve_columns };

static double curve_number(const struct eps_curve_point *point, size_t column)
{
    return *(const double *)(const void *)((const char *)point + curve_columns[column].offset);
}

static json_t *encode_points(struct encoder *encoder, const struct eps_curve_point *points, size_t len)
{
    json_t *json = json_array();

    for (size_t i = 0; i < len && !encoder->failed; i++) {
        json_t *point = json_object();
        for (size_t j = 0; j < CURVE_COLUMNS; j++)
            set(encoder, point, curve_columns[j].name, api_number(curve_number(&points[i], j)));
        append(encoder, json, point);
    }
    return json;
}

/* ---------------------------------------------------------------- results */

json_t *api_result_encode(const struct eps_result *result)
{
    struct encoder encoder = {0};
    json_t *json = json_object(), *cache = json_object();

    set_values(&encoder, json, result);
    set_figures(&encoder, json, API_SOURCE, result);
    set(&encoder, json, "directions", encode_directions(&encoder, result));
    set(&encoder, json, "candidates", encode_candidates(&encoder, result));
    set_sampled(&encoder, json, result);
    set_figures(&encoder, json, API_BASIS, result);
    set(&encoder, json, "sampling", result->phases_len ? json_null() : encode_figures(&encoder, API_SAMPLING, result));
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

void api_curve_csv(struct text *out, const struct eps_curve_point *points, size_t len)
{
    for (size_t j = 0; j < CURVE_COLUMNS; j++)
        text_printf(out, j ? ",%s" : "%s", curve_columns[j].name);
    text_puts(out, "\n");
    for (size_t i = 0; i < len; i++) {
        for (size_t j = 0; j < CURVE_COLUMNS; j++) {
            double number = curve_number(&points[i], j);
            text_puts(out, j ? "," : "");
            if (isfinite(number)) /* otherwise an empty cell, which is null in CSV */
                text_decimal(out, number);
        }
        text_puts(out, "\n");
    }
}
