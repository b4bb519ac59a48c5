/*
 * The content of a statement follows the advice on reporting in "How to DP-fy ML" (Ponomareva et al. 2023, arXiv
 * 2303.00654, section 5.3.3): the setting, what is protected and what is released, which accesses to the data are
 * accounted for, the formal guarantee with how it was found and what it assumes, and how to check it.
 *
 * For schemes, families and accountants it repeats the job and the result, whose assumptions are already sentences, so
 * a new scheme, family or accountant needs no change here.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/codec.h"
#include "server/routes/jobs/answered.h"
#include "server/routes/jobs/statement.h"

struct parts {
    json_t *job;    /* canonical, without long arrays */
    json_t *result; /* as in the document of the job */
    const struct result_record *record;
};

/* ---------------------------------------------------------------- reading */

static const json_t *member(const json_t *object, const char *outer, const char *inner)
{
    return json_object_get(json_object_get(object, outer), inner);
}

/* The number of phases; 1 for a job without phases. */
static size_t phases_of(const struct parts *parts)
{
    const json_t *phases = json_object_get(parts->job, "phases");
    return json_is_array(phases) ? json_array_size(phases) : 1;
}

/* What the job or the result contains about a phase. */
static const json_t *phase_of(const json_t *whole, size_t phase)
{
    const json_t *phases = json_object_get(whole, "phases");
    return json_is_array(phases) ? json_array_get(phases, phase) : whole;
}

static const char *name_in(const json_t *object, const char *key)
{
    const char *name = json_string_value(json_object_get(object, key));
    return name ? name : "";
}

static json_int_t examples_per_user(const struct parts *parts)
{
    json_int_t most = (json_int_t)json_number_value(json_object_get(parts->job, "examples_per_user"));
    most = most > 1 ? most : 1;
    for (size_t i = 0; i < phases_of(parts); i++) {
        json_int_t examples =
            (json_int_t)json_number_value(member(phase_of(parts->job, i), "sampling", "examples_per_user"));
        most = examples > most ? examples : most;
    }
    return most;
}

/* Appends the item, or frees the whole array if memory runs out, so that no sentence is left out silently. */
static json_t *with(json_t *array, json_t *item)
{
    if (json_array_append_new(array, item) == 0)
        return array;
    json_decref(array);
    return NULL;
}

/* ---------------------------------------------------------------- the guarantee */

/* A bound rounded up to four digits. */
static void round_up(char text[32], double value)
{
    double about = value;
    snprintf(text, 32, "%.4g", about);
    while (strtod(text, NULL) < value) {
        about += fmax(fabs(value) * 1e-4, DBL_TRUE_MIN); /* a ten-thousandth of a denormal may be 0 */
        snprintf(text, 32, "%.4g", about);
    }
}

/* The probability that the result of the draws does not hold, for both directions together. NAN: the guarantee is not
 * probabilistic. */
static double failure_probability(const struct parts *parts)
{
    const json_t *draws = json_object_get(parts->result, "monte_carlo");
    if (strcmp(name_in(parts->result, "guarantee"), eps_guarantee_name(EPS_GUARANTEE_HIGH_PROBABILITY)) != 0)
        return NAN;
    return fmin(1, json_number_value(member(draws, "remove", "failure_probability")) +
                       json_number_value(member(draws, "add", "failure_probability")));
}

static const char *const guarantee_sentences[EPS_GUARANTEE_COUNT] = {
    [EPS_GUARANTEE_DETERMINISTIC] = "The bound is proven; no part of it depends on random draws.",
    [EPS_GUARANTEE_ESTIMATE_VERIFY_RELEASE] =
        "Epsilon and delta were fixed beforehand, and the noise multiplier was verified by random draws before it was "
        "released; the probability that the verification errs is part of delta, so this is an ordinary (epsilon, "
        "delta) guarantee.",
    [EPS_GUARANTEE_HIGH_PROBABILITY] =
        "The value was estimated from random draws of the privacy loss, and may be too small with the failure "
        "probability given here. Before publication, fix epsilon and delta and solve for the noise multiplier instead; "
        "that answer has no such reservation.",
};

static const char *guarantee_sentence(const char *name)
{
    for (int i = 0; i < EPS_GUARANTEE_COUNT; i++)
        if (strcmp(name, eps_guarantee_name((enum eps_guarantee)i)) == 0)
            return guarantee_sentences[i];
    return "";
}

/* For a curve: at some usual values of delta, the smallest epsilon among its points with at most that delta. */
static json_t *pairs_of_curve(const struct result_record *record)
{
    static const double deltas[] = {1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12};
    json_t *pairs = json_array();
    size_t at = 0;
    for (size_t i = 0; i < sizeof deltas / sizeof deltas[0]; i++) {
        while (at < record->points_len && !(record->points[at].delta <= deltas[i]))
            at++;
        if (at < record->points_len) {
            pairs = with(pairs, json_pack("{s:o, s:o}", "epsilon", api_number(record->points[at].epsilon), "delta",
                                          api_number(deltas[i])));
        }
    }
    return pairs;
}

/* Reservations are part of the first sentence, because that is the one that is quoted. */
static void write_reservations(struct text *out, const struct parts *parts)
{
    char luck[32];
    double failure = failure_probability(parts);
    if (json_is_true(member(parts->job, "sampling", "last_iterate")))
        text_puts(out, " Only the last iterate may be released.");
    if (json_is_false(json_object_get(parts->result, "adaptive")))
        text_puts(out, " It holds only if no input depends on an earlier output.");
    if (!isnan(failure)) {
        round_up(luck, failure);
        text_printf(out, " This was estimated from random draws and is wrong with probability at most %s.", luck);
    }
}

static json_t *summary(const struct parts *parts)
{
    char epsilon[32], delta[32];
    struct text text = {0};
    const json_t *value = json_object_get(parts->result, "epsilon");
    text_printf(&text, "The training is (epsilon, delta)-differentially private, per %s and under %s adjacency, ",
                examples_per_user(parts) > 1 ? "user" : "example", name_in(parts->result, "adjacency"));
    if (json_is_number(value)) {
        round_up(epsilon, json_number_value(value));
        round_up(delta, json_number_value(json_object_get(parts->result, "delta")));
        text_printf(&text, "with epsilon = %s and delta = %s.", epsilon, delta);
    } else {
        text_puts(&text, "for every pair of epsilon and delta on its privacy curve.");
    }
    write_reservations(&text, parts);
    json_t *sentence = text.failed ? NULL : json_string(text.data);
    text_clear(&text);
    return sentence;
}

static json_t *guarantee(const struct parts *parts)
{
    const json_t *result = parts->result;
    const char *kind = name_in(result, "guarantee");
    bool curve = !json_is_number(json_object_get(result, "epsilon"));
    return json_pack("{s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:s, s:o, s:o, s:s, s:s}", "epsilon",
                     json_object_get(result, "epsilon"), "delta", json_object_get(result, "delta"), "solved_for",
                     json_object_get(result, "solved_for"), "bracket", json_object_get(result, "bracket"), "directions",
                     json_object_get(result, "directions"), "accountant", json_object_get(result, "accountant"), "kind",
                     kind, "failure_probability", api_number(failure_probability(parts)), "pairs",
                     curve ? pairs_of_curve(parts->record) : json_null(), "meaning", guarantee_sentence(kind),
                     "definition",
                     "For neighbouring data sets D and D', in both orders, and every set S of outputs: Pr[M(D) in S] "
                     "<= e^epsilon Pr[M(D') in S] + delta. Epsilon is in nats.");
}

/* ---------------------------------------------------------------- what is protected */

static json_t *unit_of_privacy(const struct parts *parts)
{
    json_int_t examples = examples_per_user(parts);
    json_t *meaning =
        examples > 1
            ? json_sprintf("One user, with at most %" JSON_INTEGER_FORMAT " examples, all protected together.",
                           examples)
            : json_string("One example: what adds one clipped vector to the sum of a step. A person with several "
                          "examples has weaker protection than one with a single example.");
    return json_pack("{s:s, s:I, s:o}", "unit", examples > 1 ? "user" : "example", "examples", examples, "meaning",
                     meaning);
}

static const char *const adjacency_sentences[EPS_ADJACENCY_COUNT] = {
    [EPS_ADJACENCY_ZERO_OUT] =
        "Two data sets are neighbours if one is the other with the contributions of one unit set to zero. The size of "
        "the data set is not secret.",
    [EPS_ADJACENCY_ADD_REMOVE] = "Two data sets are neighbours if one is the other with one unit added or removed.",
    [EPS_ADJACENCY_REPLACE_ONE] =
        "Two data sets are neighbours if one is the other with one unit replaced by any other. The size of the data "
        "set is not secret.",
};

static json_t *adjacency(const struct parts *parts)
{
    const char *name = name_in(parts->result, "adjacency"), *meaning = "";
    for (int i = 0; i < EPS_ADJACENCY_COUNT; i++)
        if (strcmp(name, eps_adjacency_name((enum eps_adjacency)i)) == 0)
            meaning = adjacency_sentences[i];
    return json_pack("{s:s, s:s}", "name", name, "meaning", meaning);
}

static json_t *released(const struct parts *parts)
{
    if (json_is_true(member(parts->job, "sampling", "last_iterate"))) {
        return json_string("Only the last iterate may be released: there is no guarantee if an earlier iterate, or "
                           "anything computed from one, is released too.");
    }
    return json_string(
        json_is_true(json_object_get(parts->result, "adaptive"))
            ? "The noisy outputs of all steps may be released, and anything computed from them alone: every "
              "intermediate model as well as the last one. Later inputs may depend on them, as gradients do."
            : "The noisy outputs of all steps may be released, and anything computed from them alone. But no input may "
              "depend on an earlier output: gradients at models that were trained from these outputs do, and are not "
              "covered.");
}

/* ---------------------------------------------------------------- lists */

/* The list ends with NULL. */
static json_t *list(const char *const *sentences)
{
    json_t *array = json_array();
    for (; *sentences; sentences++)
        array = with(array, json_string(*sentences));
    return array;
}

static const char *const not_covered[] = {
    "Other uses of the same data: hyperparameter tuning, the selection of this run among several, early stopping, "
    "evaluation, and preprocessing that was learned from it (vocabularies, normalisation, deduplication). If they used "
    "this data, their privacy loss must be composed with this guarantee.",
    "Other releases from the same data, earlier or later; and the data of a model from which this training started.",
    "Whether the training satisfied the assumptions above: how examples were sampled, that the contribution of each "
    "one was clipped separately, and how the noise was generated.",
    "The difference between the exact Gaussians of this analysis and floating-point ones (Mironov 2012).",
    NULL,
};

static const char *const to_complete[] = {
    "What one example is, whose data it contains, and how many examples one person may have.",
    "Who has access to the raw data and adds the noise, and who sees the outputs.",
    "What other uses of the data there were, and the guarantee for all of them together.",
    "That the loader forms batches as assumed, how contributions are clipped, and which random generator is used.",
    "Where the code is available for inspection.",
    NULL,
};

/* ---------------------------------------------------------------- all of it */

/* A number of the job, or the answer if the job asks for the largest one. */
static const json_t *number(const json_t *job, const json_t *result, const char *key)
{
    const json_t *asked = json_object_get(job, key);
    return json_is_string(asked) ? json_object_get(result, key) : asked;
}

static json_t *phase(const json_t *job, const json_t *result)
{
    return json_pack("{s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?}", "steps", number(job, result, "n"), "count",
                     number(job, result, "count"), "noise_scale", json_object_get(job, "noise_scale"), "matrix",
                     json_object_get(job, "matrix"), "factorization", json_object_get(result, "factorization"),
                     "sensitivity", json_object_get(result, "sensitivity"), "sampling",
                     json_object_get(job, "sampling"), "derived", json_object_get(result, "sampling"));
}

static json_t *mechanism(const struct parts *parts)
{
    const json_t *noise = json_object_get(parts->result, "noise_multiplier");
    json_t *phases = json_array();
    for (size_t i = 0; i < phases_of(parts); i++)
        phases = with(phases, phase(phase_of(parts->job, i), phase_of(parts->result, i)));
    /* For a curve, the noise multiplier of the request. */
    noise = json_is_number(noise) ? noise : json_object_get(parts->job, "noise_multiplier");
    return json_pack("{s:O?, s:i, s:o}", "noise_multiplier", noise, "clip_norm", 1, "phases", phases);
}

static json_t *gather(const struct parts *parts, const struct job_record *record)
{
    char finished[25];
    const json_t *result = parts->result;
    clock_rfc3339(finished, record->finished_at);
    return json_pack(
        "{s:s, s:s?, s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:O?, s:o, s:O?, s:o, s:O?, s:O?}", "id", record->id,
        "label", record->label, "finished_at", finished, "summary", summary(parts), "guarantee", guarantee(parts),
        "setting",
        "Central: the trainer has access to the raw data, clips, and adds the noise to sums; the guarantee holds "
        "against everyone who sees the outputs.",
        "unit_of_privacy", unit_of_privacy(parts), "adjacency", adjacency(parts), "released", released(parts),
        "mechanism", mechanism(parts), "assumptions", json_object_get(result, "assumptions"), "not_covered",
        list(not_covered), "hints", json_object_get(result, "hints"), "to_complete", list(to_complete), "version",
        json_object_get(result, "version"), "accounting_version", json_object_get(result, "accounting_version"));
}

json_t *statement_facts(const struct job_record *record, const struct result_record *result)
{
    struct parts parts = {.job = job_members(record), .result = result_members(result), .record = result};
    json_t *facts = parts.job && parts.result ? gather(&parts, record) : NULL;
    json_decref(parts.job);
    json_decref(parts.result);
    return facts;
}
