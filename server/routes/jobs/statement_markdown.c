/*
 * A statement as a page of Markdown (CommonMark with tables), to be pasted into a model card. The label, the only
 * external text, is fully escaped, so it cannot introduce markup, a link or a new line.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "api/codec/codec.h"
#include "server/routes/jobs/statement.h"

/* The characters that need no escape in our own sentences, and those in a label. */
static const char marks[] = "\\`*<|~$";
static const char all_marks[] = "\\`*<|~$_[]>#&!\"%'()+,-./:;=?@^{}";

static void write_escaped(struct text *out, const char *string, const char *escaped)
{
    for (const char *at = string ? string : ""; *at; at++) {
        unsigned char c = (unsigned char)*at;
        if (c < ' ' || c == 0x7f) {
            text_puts(out, " ");
            continue;
        }
        if (strchr(escaped, *at))
            text_puts(out, "\\");
        text_append(out, at, 1);
    }
}

static void write_sentence(struct text *out, const json_t *sentence)
{
    write_escaped(out, json_string_value(sentence), marks);
}

static void write_sentences(struct text *out, const char *heading, const char *bullet, const json_t *sentences)
{
    size_t i;
    json_t *sentence;
    if (json_array_size(sentences) == 0)
        return;
    text_printf(out, "\n## %s\n\n", heading);
    json_array_foreach (sentences, i, sentence) {
        text_puts(out, bullet);
        write_sentence(out, sentence);
        text_puts(out, "\n");
    }
}

/* A value of a job: numbers and words as they are, anything else as JSON. */
static void write_value(struct text *out, const json_t *value)
{
    if (json_is_string(value)) {
        write_sentence(out, value);
    } else if (json_is_number(value)) {
        text_number(out, json_number_value(value));
    } else {
        char *text = api_json_text(value);
        write_escaped(out, text, marks);
        out->failed = out->failed || !text;
        free(text);
    }
}

/* Writes the members of an object in one line after a heading, except the one named `said`. Writes nothing if there are
 * no others. */
static bool write_members(struct text *out, const char *heading, const json_t *object, const char *said)
{
    const char *key, *mark = heading;
    json_t *value;
    json_object_foreach ((json_t *)object, key, value) {
        if (!json_is_null(value) && strcmp(key, said) != 0) {
            text_puts(out, mark);
            write_escaped(out, key, marks);
            text_puts(out, " = ");
            write_value(out, value);
            mark = ", ";
        }
    }
    return mark != heading;
}

/* ---------------------------------------------------------------- the guarantee */

static void write_row(struct text *out, const char *name, const json_t *value)
{
    if (json_is_null(value))
        return;
    text_printf(out, "| %s | ", name);
    write_value(out, value);
    text_puts(out, " |\n");
}

static void write_direction(struct text *out, const json_t *guarantee, const char *name)
{
    const json_t *direction = json_object_get(json_object_get(guarantee, "directions"), name);
    text_printf(out, "| %s | ", name);
    if (json_is_number(json_object_get(direction, "value"))) {
        write_value(out, json_object_get(direction, "value"));
        text_puts(out, ", ");
    }
    text_puts(out, "by the accountant ");
    write_value(out, json_object_get(direction, "accountant"));
    text_puts(out, " |\n");
}

static void write_bracket(struct text *out, const json_t *bracket)
{
    if (json_is_object(bracket)) {
        text_puts(out, "| its numerical bracket | ");
        write_value(out, json_object_get(bracket, "lower"));
        text_puts(out, " to ");
        write_value(out, json_object_get(bracket, "upper"));
        text_puts(out, json_is_true(json_object_get(bracket, "exact")) ? ", contains the exact value |\n"
                                                                       : ", of the bound of the accountant |\n");
    }
}

static void write_pairs(struct text *out, const json_t *pairs)
{
    size_t i;
    json_t *pair;
    if (json_array_size(pairs) > 0) {
        text_puts(out, "\nThe privacy curve at some values of delta (GET the curve of the job for all points):\n\n| "
                       "delta | epsilon at most |\n| --- | --- |\n");
    }
    json_array_foreach (pairs, i, pair) {
        text_puts(out, "| ");
        write_value(out, json_object_get(pair, "delta"));
        text_puts(out, " | ");
        write_value(out, json_object_get(pair, "epsilon"));
        text_puts(out, " |\n");
    }
}

static void write_guarantee(struct text *out, const json_t *guarantee, const json_t *mechanism)
{
    text_puts(out, "\n## Guarantee\n\n");
    write_sentence(out, json_object_get(guarantee, "definition"));
    text_puts(out, "\n\n| | |\n| --- | --- |\n");
    write_row(out, "epsilon", json_object_get(guarantee, "epsilon"));
    write_row(out, "delta", json_object_get(guarantee, "delta"));
    write_row(out, "noise multiplier", json_object_get(mechanism, "noise_multiplier"));
    write_row(out, "solved for", json_object_get(guarantee, "solved_for"));
    write_bracket(out, json_object_get(guarantee, "bracket"));
    write_direction(out, guarantee, "remove");
    write_direction(out, guarantee, "add");
    write_row(out, "kind of guarantee", json_object_get(guarantee, "kind"));
    write_row(out, "failure probability", json_object_get(guarantee, "failure_probability"));
    text_puts(out, "\n");
    write_sentence(out, json_object_get(guarantee, "meaning"));
    text_puts(out, "\n");
    write_pairs(out, json_object_get(guarantee, "pairs"));
}

/* ---------------------------------------------------------------- the rest */

static void write_point(struct text *out, const char *name, const json_t *sentence)
{
    text_printf(out, "- **%s.** ", name);
    write_sentence(out, sentence);
    text_puts(out, "\n");
}

static void write_protected(struct text *out, const json_t *facts)
{
    text_puts(out, "\n## Unit and scope of protection\n\n");
    write_point(out, "Setting", json_object_get(facts, "setting"));
    write_point(out, "Unit of privacy", json_object_get(json_object_get(facts, "unit_of_privacy"), "meaning"));
    write_point(out, "Neighbouring data sets", json_object_get(json_object_get(facts, "adjacency"), "meaning"));
    write_point(out, "May be released", json_object_get(facts, "released"));
}

/* Writes one member of an object and then the others; nothing if the object is absent. */
static void write_named(struct text *out, const char *title, const json_t *object, const char *key)
{
    if (json_is_object(object)) {
        text_printf(out, "- **%s.** ", title);
        write_value(out, json_object_get(object, key));
        write_members(out, ": ", object, key);
        text_puts(out, ".\n");
    }
}

static void write_phase(struct text *out, const json_t *phase)
{
    const json_t *count = json_object_get(phase, "count"), *scale = json_object_get(phase, "noise_scale");
    text_puts(out, "- **Steps.** ");
    write_value(out, json_object_get(phase, "steps"));
    if (json_is_number(count) && json_number_value(count) != 1) {
        text_puts(out, ", number of runs: ");
        write_value(out, count);
    }
    if (json_is_number(scale) && json_number_value(scale) != 1) {
        text_puts(out, ", with the noise multiplier times ");
        write_value(out, scale);
    }
    text_puts(out, ".\n");
    write_named(out, "Strategy C", json_object_get(phase, "matrix"), "family");
    write_named(out, "C as computed", json_object_get(phase, "factorization"), "id");
    write_named(out, "Sensitivity of C", json_object_get(phase, "sensitivity"), "value");
    write_named(out, "Sampling", json_object_get(phase, "sampling"), "scheme");
    if (write_members(out, "- **In force.** ", json_object_get(phase, "derived"), ""))
        text_puts(out, "\n");
}

static void write_mechanism(struct text *out, const json_t *mechanism)
{
    size_t i;
    json_t *phase;
    const json_t *phases = json_object_get(mechanism, "phases");
    text_puts(out,
              "\n## Mechanism\n\ny = C x + z, where x holds the sums of the clipped contributions of each step and z "
              "is Gaussian with standard deviation ");
    write_value(out, json_object_get(mechanism, "noise_multiplier"));
    text_puts(out, " times the clip norm (here 1).\n");
    json_array_foreach (phases, i, phase) {
        text_puts(out, "\n");
        if (json_array_size(phases) > 1)
            text_printf(out, "Phase %zu:\n\n", i);
        write_phase(out, phase);
    }
}

static bool names_stored(const json_t *mechanism)
{
    size_t i;
    json_t *phase;
    json_array_foreach (json_object_get(mechanism, "phases"), i, phase)
        if (json_object_get(json_object_get(phase, "matrix"), "id"))
            return true;
    return false;
}

static void write_check(struct text *out, const json_t *facts, const char *job, bool whole)
{
    text_puts(out, "\n## How to check it\n\nepsilond ");
    write_value(out, json_object_get(facts, "version"));
    text_puts(out, ", accounting version ");
    write_value(out, json_object_get(facts, "accounting_version"));
    text_printf(out, ", answered job %s at %s. ", json_string_value(json_object_get(facts, "id")),
                json_string_value(json_object_get(facts, "finished_at")));
    text_puts(out, "The job, to be saved as job.json");
    text_puts(out, whole ? ":" : " with its arrays, which are omitted here (see `GET /v1/jobs/{id}`):");
    text_printf(out, "\n\n```json\n%s\n```\n\n```sh\nepsilond solve job.json\n", job);
    text_puts(out, "curl --json @job.json 'http://localhost:8080/v1/jobs?wait=300'\n```\n");
    if (names_stored(json_object_get(facts, "mechanism"))) {
        text_puts(out, "\nThe job refers to a factorisation stored by its service: `solve` needs the database of that "
                       "service (`--db`).\n");
    }
}

void statement_markdown(struct text *out, const json_t *facts, const char *job, bool whole)
{
    const json_t *label = json_object_get(facts, "label");
    text_puts(out, "# Privacy statement\n\n");
    if (json_is_string(label)) {
        text_puts(out, "**Training:** ");
        write_escaped(out, json_string_value(label), all_marks);
        text_puts(out, "\n\n");
    }
    write_sentence(out, json_object_get(facts, "summary"));
    text_puts(out, "\n");
    write_guarantee(out, json_object_get(facts, "guarantee"), json_object_get(facts, "mechanism"));
    write_protected(out, facts);
    write_mechanism(out, json_object_get(facts, "mechanism"));
    write_sentences(out, "Assumptions", "- ", json_object_get(facts, "assumptions"));
    write_sentences(out, "Not covered", "- ", json_object_get(facts, "not_covered"));
    write_sentences(out, "Notes of the accountant", "- ", json_object_get(facts, "hints"));
    write_sentences(out, "To be completed by the publisher", "- [ ] ", json_object_get(facts, "to_complete"));
    write_check(out, facts, job, whole);
}
