/*
 * Encodes results as JSON and CSV. A figure that is unknown or undefined is null. Members that only some accountants or
 * families have (order, moments, bad_event_share, monte_carlo, audit, unproven_estimate, blt) are present if they were
 * set. For a training of phases, the members that belong to one mechanism are null; each phase has its own.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/codec/codec.h"

#include <math.h>

#include "api/codec/figures.h"
#include "api/json/build.h"

static void set_figure(struct api_build *build, json_t *object, const struct api_figure *figure,
                       const struct eps_result *result)
{
    switch (figure->type) {
    case API_FIGURE_REAL:
    case API_FIGURE_VALUE:
        api__set(build, object, figure->name, api_number(api_figure_number_of(figure, result)));
        return;
    case API_FIGURE_COUNT:
    case API_FIGURE_POSITIVE:
        if (figure->type == API_FIGURE_COUNT || api_figure_count_of(figure, result) > 0)
            api__set(build, object, figure->name, json_integer((json_int_t)api_figure_count_of(figure, result)));
        return;
    case API_FIGURE_TRUTH:
        api__set(build, object, figure->name, json_boolean(api_figure_truth_of(figure, result)));
        return;
    case API_FIGURE_TEXT:
    case API_FIGURE_ID:
    case API_FIGURE_UNKNOWN:
    case API_FIGURE_GUARANTEE:
    case API_FIGURE_ACCOUNTANT:
    case API_FIGURE_ADJACENCY:
        api__set(build, object, figure->name, json_string(api_figure_text_of(figure, result)));
    }
}

/* Sets the figures of a place as members of the object. */
static void set_figures(struct api_build *build, json_t *object, enum api_place place, const struct eps_result *result)
{
    for (const struct api_figure *figure = api_figures; figure->name; figure++)
        if (figure->place == place)
            set_figure(build, object, figure, result);
}

static json_t *encode_figures(struct api_build *build, enum api_place place, const struct eps_result *result)
{
    json_t *json = json_object();

    set_figures(build, json, place, result);
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
static void set_details(struct api_build *build, json_t *json, const struct eps_candidate *candidate)
{
    if (candidate->order > 0)
        api__set(build, json, "order", json_integer(candidate->order));
    if (candidate->moments > 0)
        api__set(build, json, "moments", json_integer(candidate->moments));
    if (!isnan(candidate->bad_event_share))
        api__set(build, json, "bad_event_share", api_number(candidate->bad_event_share));
}

static json_t *encode_directions(struct api_build *build, const struct eps_result *result)
{
    json_t *json = json_object();

    for (int direction = 0; direction < EPS_DIRECTIONS; direction++) {
        const struct eps_candidate *best = &result->directions[direction];
        json_t *entry = json_object();
        api__set(build, entry, "value", api_number(best->value));
        api__set(build, entry, "accountant", json_string(eps_accountant_name(best->accountant)));
        set_details(build, entry, best);
        api__set(build, json, eps_direction_name((enum eps_direction)direction), entry);
    }
    return json;
}

static json_t *encode_candidates(struct api_build *build, const struct eps_result *result)
{
    json_t *json = json_array();

    for (size_t i = 0; i < result->candidates_len; i++) {
        const struct eps_candidate *candidate = &result->candidates[i];
        json_t *entry = json_object();
        api__set(build, entry, "accountant", json_string(eps_accountant_name(candidate->accountant)));
        api__set(build, entry, "direction", json_string(eps_direction_name(candidate->direction)));
        api__set(build, entry, "value", api_number(candidate->value));
        set_details(build, entry, candidate);
        api__append(build, json, entry);
    }
    return json;
}

/* The draws of each direction; null for a direction answered without draws. */
static json_t *encode_draws(struct api_build *build, const struct eps_result *result)
{
    json_t *json = json_object();

    for (int direction = 0; direction < EPS_DIRECTIONS; direction++) {
        const struct eps_draws *draws = &result->draws[direction];
        json_t *entry = draws->samples > 0 ? json_object() : json_null();
        if (draws->samples > 0) {
            api__set(build, entry, "samples", json_integer((json_int_t)draws->samples));
            api__set(build, entry, "threshold", api_number(draws->threshold));
            api__set(build, entry, "estimate", api_number(draws->estimate));
            api__set(build, entry, "standard_error", api_number(draws->standard_error));
            api__set(build, entry, "failure_probability", api_number(draws->failure_probability));
            api__set(build, entry, "seed", json_integer((json_int_t)draws->seed));
            api__set(build, entry, "estimator", json_string(eps_estimator_name(draws->estimator)));
            api__set(build, entry, "bound", api_number(draws->bound));
            api__set(build, entry, "plain_samples", api_number(draws->plain_samples));
        }
        api__set(build, json, eps_direction_name((enum eps_direction)direction), entry);
    }
    return json;
}

static json_t *encode_audit(struct api_build *build, const struct eps_result *result)
{
    json_t *json = json_object();

    for (int direction = 0; direction < EPS_DIRECTIONS; direction++) {
        const struct eps_audit *audit = &result->audit[direction];
        json_t *entry = audit->samples > 0 ? json_object() : json_null();
        if (audit->samples > 0) {
            api__set(build, entry, "samples", json_integer((json_int_t)audit->samples));
            api__set(build, entry, "lower", api_number(audit->lower));
            api__set(build, entry, "ratio", api_number(audit->ratio));
        }
        api__set(build, json, eps_direction_name((enum eps_direction)direction), entry);
    }
    return json;
}

static json_t *encode_unproven(struct api_build *build, const struct eps_unproven_estimate *estimate)
{
    json_t *json = json_object();

    api__set(build, json, "value", api_number(estimate->value));
    api__set(build, json, "standard_error", api_number(estimate->standard_error));
    api__set(build, json, "samples", json_integer((json_int_t)estimate->samples));
    api__set(build, json, "direction", json_string(eps_direction_name(estimate->direction)));
    return json;
}

/* The members of results that used draws. */
static void set_sampled(struct api_build *build, json_t *json, const struct eps_result *result)
{
    if (result->draws[EPS_REMOVE].samples > 0 || result->draws[EPS_ADD].samples > 0)
        api__set(build, json, "monte_carlo", encode_draws(build, result));
    if (result->audit[EPS_REMOVE].samples > 0 || result->audit[EPS_ADD].samples > 0)
        api__set(build, json, "audit", encode_audit(build, result));
    if (result->unproven_estimate.samples > 0)
        api__set(build, json, "unproven_estimate", encode_unproven(build, &result->unproven_estimate));
}

static json_t *encode_sentences(struct api_build *build, char *const *sentences, size_t len)
{
    json_t *json = json_array();

    for (size_t i = 0; i < len; i++)
        api__append(build, json, json_string(sentences[i]));
    return json;
}

static json_t *encode_sensitivity(struct api_build *build, const struct eps_result *result)
{
    return result->sensitivity_rule ? encode_figures(build, API_SENSITIVITY, result) : json_null();
}

static json_t *encode_numbers(struct api_build *build, const double *numbers, size_t len)
{
    json_t *json = json_array();

    for (size_t i = 0; i < len; i++)
        api__append(build, json, api_number(numbers[i]));
    return json;
}

static json_t *encode_factorization(struct api_build *build, const struct eps_result *result)
{
    if (result->factorization_id[0] == '\0')
        return json_null();
    json_t *json = encode_figures(build, API_FACTORIZATION, result);
    if (result->blt_len > 0) {
        json_t *blt = json_object();
        api__set(build, blt, "decay", encode_numbers(build, result->blt_decay, result->blt_len));
        api__set(build, blt, "scale", encode_numbers(build, result->blt_scale, result->blt_len));
        api__set(build, json, "blt", blt);
    }
    return json;
}

static json_t *encode_error(struct api_build *build, const struct eps_result *result)
{
    return count_numbers(API_ERROR, result, true) ? encode_figures(build, API_ERROR, result) : json_null();
}

static const char *cache_name(enum eps_cache_state state)
{
    return state == EPS_CACHE_HIT ? "hit" : state == EPS_CACHE_MISS ? "miss" : "unused";
}

/* One phase. Values that refer to the phase alone cover all its runs, as if they were a job of their own. */
static json_t *encode_phase(struct api_build *build, const struct eps_phase_result *phase)
{
    json_t *json = json_object(), *directions = json_object();
    const struct eps_result *alone = phase->alone;

    for (int direction = 0; direction < EPS_DIRECTIONS; direction++) {
        json_t *entry = json_object();
        api__set(build, entry, "value", api_number(alone ? alone->directions[direction].value : NAN));
        enum eps_accountant composed = phase->composed[direction];
        api__set(build, entry, "accountant",
                 json_string(eps_accountant_name(alone ? alone->directions[direction].accountant : composed)));
        api__set(build, entry, "composed", json_string(eps_accountant_name(composed)));
        api__set(build, directions, eps_direction_name((enum eps_direction)direction), entry);
    }
    api__set(build, json, "count", json_integer((json_int_t)phase->count));
    api__set(build, json, "noise_multiplier", api_number(alone ? alone->noise_multiplier : NAN));
    api__set(build, json, "epsilon", api_number(alone ? alone->epsilon : NAN));
    api__set(build, json, "share", api_number(phase->share));
    api__set(build, json, "directions", directions);
    api__set(build, json, "sampling", alone ? encode_figures(build, API_SAMPLING, alone) : json_null());
    api__set(build, json, "sensitivity", alone ? encode_sensitivity(build, alone) : json_null());
    api__set(build, json, "factorization", alone ? encode_factorization(build, alone) : json_null());
    api__set(build, json, "error", alone ? encode_error(build, alone) : json_null());
    api__set(build, json, "adaptive", alone ? json_boolean(alone->adaptive) : json_null());
    return json;
}

static json_t *encode_phases(struct api_build *build, const struct eps_result *result)
{
    json_t *json = json_array();

    for (size_t i = 0; i < result->phases_len; i++)
        api__append(build, json, encode_phase(build, &result->phases[i]));
    return json;
}

/* The values, the count that was asked for (if any), and the bracket; null for a curve. */
static void set_values(struct api_build *build, json_t *json, const struct eps_result *result)
{
    bool bracketed = count_numbers(API_BRACKET, result, false) == 0;

    set_figures(build, json, API_VALUES, result);
    if (result->solved_for == EPS_SOLVE_N || result->solved_for == EPS_SOLVE_RUNS)
        api__set(build, json, eps_unknown_name(result->solved_for), json_integer((json_int_t)result->largest));
    api__set(build, json, "bracket", bracketed ? encode_figures(build, API_BRACKET, result) : json_null());
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

static json_t *encode_points(struct api_build *build, const struct eps_curve_point *points, size_t len)
{
    json_t *json = json_array();

    for (size_t i = 0; i < len && !build->failed; i++) {
        json_t *point = json_object();
        for (size_t j = 0; j < CURVE_COLUMNS; j++)
            api__set(build, point, curve_columns[j].name, api_number(curve_number(&points[i], j)));
        api__append(build, json, point);
    }
    return json;
}

/* ---------------------------------------------------------------- results */

json_t *api_result_encode(const struct eps_result *result)
{
    struct api_build build = {0};
    json_t *json = json_object(), *cache = json_object();

    set_values(&build, json, result);
    set_figures(&build, json, API_SOURCE, result);
    api__set(&build, json, "directions", encode_directions(&build, result));
    api__set(&build, json, "candidates", encode_candidates(&build, result));
    set_sampled(&build, json, result);
    set_figures(&build, json, API_BASIS, result);
    api__set(&build, json, "sampling", result->phases_len ? json_null() : encode_figures(&build, API_SAMPLING, result));
    api__set(&build, json, "sensitivity", encode_sensitivity(&build, result));
    api__set(&build, json, "factorization", encode_factorization(&build, result));
    api__set(&build, json, "error", encode_error(&build, result));
    api__set(&build, json, "assumptions", encode_sentences(&build, result->assumptions, result->assumptions_len));
    api__set(&build, json, "hints", encode_sentences(&build, result->hints, result->hints_len));
    if (result->phases_len > 0)
        api__set(&build, json, "phases", encode_phases(&build, result));
    if (result->solved_for == EPS_SOLVE_CURVE)
        api__set(&build, json, "curve", encode_points(&build, result->curve, result->curve_len));
    api__set(&build, cache, "factorization", json_string(cache_name(result->cache_factorization)));
    api__set(&build, cache, "pld", json_string(cache_name(result->cache_pld)));
    api__set(&build, json, "cache", cache);
    return api__built(&build, json);
}

int api_result_stamp(json_t *result, const char *result_cache, double elapsed_seconds, double compute_seconds)
{
    struct api_build build = {0};
    json_t *cache = json_object_get(result, "cache");

    if (!cache)
        return -1;
    api__set(&build, cache, "result", json_string(result_cache));
    api__set(&build, result, "version", json_string(EPS_VERSION));
    api__set(&build, result, "accounting_version", json_integer(EPS_ACCOUNTING_VERSION));
    api__set(&build, result, "compute_seconds", api_number(compute_seconds));
    api__set(&build, result, "elapsed_seconds", api_number(elapsed_seconds));
    return build.failed ? -1 : 0;
}

json_t *api_curve_encode(const struct eps_curve_point *points, size_t len)
{
    struct api_build build = {0};
    json_t *json = json_object();

    api__set(&build, json, "points", encode_points(&build, points, len));
    return api__built(&build, json);
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
