/*
 * GET /v1/jobs/{id}/mechanism: what a trainer needs to train without the service: the noise multiplier, the sampling,
 * and how x = C^-1 z is computed, with its numbers. A part too large for JSON is a link. See drawing.h for threads and
 * files.
 *
 * The hash is that of the text of the members that say what is drawn, so that a client can check it, and so that equal
 * mechanisms of different jobs have the same.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>

#include "api/codec/codec.h"
#include "lib/numerics/hash.h"
#include "server/routes/jobs/answered.h"
#include "server/routes/jobs/drawing.h"

#define NUMBER_BYTES 25 /* at most, including a comma */

/* What the job and the result contain about the mechanism. */
struct about {
    json_t *job, *result;           /* owned: whole */
    const json_t *asked, *answered; /* the phase of them, or the whole; borrowed */
};

/* False: out of memory. Release it with about_clear(), also then. */
static bool about_read(struct about *about, const struct drawing *drawing)
{
    about->job = job_members(&drawing->record);
    about->result = result_members(drawing->result);
    about->asked = about->job;
    about->answered = about->result;
    if (drawing->phase != NO_PHASE) {
        about->asked = json_array_get(json_object_get(about->job, "phases"), drawing->phase);
        about->answered = json_array_get(json_object_get(about->result, "phases"), drawing->phase);
    }
    return about->asked && about->answered;
}

static void about_clear(struct about *about)
{
    json_decref(about->job);
    json_decref(about->result);
}

/* The number of runs of the phase; 1 for a job without phases. */
static json_int_t runs(const struct about *about)
{
    const json_t *count = json_object_get(about->answered, "count");
    return json_is_number(count) ? (json_int_t)json_number_value(count) : 1;
}

/* ---------------------------------------------------------------- the members */

static void write_member(struct text *out, const char *name, const json_t *value)
{
    text_printf(out, ",\"%s\":", name);
    if (value)
        text_value(out, value);
    else
        text_puts(out, "null");
}

/* As the job asks, with what follows from it. */
static void write_sampling(struct text *out, const struct about *about)
{
    const char *key;
    json_t *value;
    json_t *sampling = json_copy(json_object_get(about->asked, "sampling"));
    json_object_foreach (json_object_get(about->answered, "sampling"), key, value)
        if (!json_is_null(value) && json_object_set(sampling, key, value) != 0)
            out->failed = true;
    out->failed = out->failed || !sampling;
    write_member(out, "sampling", sampling);
    json_decref(sampling);
}

static void write_numbers(struct text *out, const char *name, const double *values, size_t len)
{
    text_printf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < len; i++) {
        text_puts(out, i ? "," : "");
        text_number(out, values[i]);
    }
    text_puts(out, "]");
}

static void write_divisor(struct text *out, double divisor)
{
    text_puts(out, ",\"divisor\":");
    text_number(out, divisor);
}

static void write_recurrence(struct text *out, const struct eps_recurrence *r)
{
    text_printf(out, ",\"noise\":{\"kind\":\"%s\",\"block\":%zu,\"block_rows\":%zu", eps_recurrence_name(r->kind),
                r->block, r->block_rows);
    switch (r->kind) {
    case EPS_RECURRENCE_IDENTITY:
        write_divisor(out, r->divisor);
        break;
    case EPS_RECURRENCE_BLT:
        write_divisor(out, r->divisor);
        write_numbers(out, "decay", r->decay, r->buffers);
        write_numbers(out, "scale", r->scale, r->buffers);
        break;
    case EPS_RECURRENCE_TOEPLITZ:
    case EPS_RECURRENCE_INVERSE:
        write_numbers(out, "coefficients", r->numbers, r->len);
        break;
    case EPS_RECURRENCE_COLUMNS:
        text_printf(out, ",\"width\":%zu", r->width);
        write_numbers(out, "columns", r->numbers, r->len);
        break;
    case EPS_RECURRENCE_ROWS:
    case EPS_RECURRENCE_COUNT:
        break;
    }
    text_puts(out, "}");
}

/* What is drawn, from "n" on, without the braces. */
static void write_content(struct text *out, const struct drawing *drawing, const struct eps_strategy *strategy,
                          const struct about *about, const struct eps_recurrence *recurrence)
{
    const json_t *matrix = json_object_get(about->asked, "matrix");
    text_printf(out, "\"n\":%zu,\"count\":%lld,\"noise_multiplier\":", eps_strategy_columns(strategy),
                (long long)runs(about));
    text_number(out, drawing->noise_multiplier);
    write_member(out, "adjacency", json_object_get(about->result, "adjacency"));
    write_sampling(out, about);
    text_printf(out, ",\"strategy\":{\"factorization\":\"%s\"", eps_strategy_id(strategy));
    write_member(out, "family", json_object_get(matrix, "family"));
    text_printf(out, ",\"bands\":%zu,\"stamps\":%zu,\"rows\":%zu}", eps_strategy_bands(strategy),
                eps_strategy_columns(strategy) / recurrence->block, eps_strategy_rows(strategy));
    write_recurrence(out, recurrence);
}

static void write_links(struct text *out, const struct drawing *drawing, const struct eps_recurrence *recurrence)
{
    const char *id = drawing->record.id;
    char phase[32] = "";
    if (drawing->phase != NO_PHASE)
        snprintf(phase, sizeof phase, "phase=%zu", drawing->phase);
    const char *question = *phase ? "?" : "";
    text_printf(out, ",\"links\":{\"self\":\"/v1/jobs/%s/mechanism%s%s\",\"job\":\"/v1/jobs/%s\",", id, question, phase,
                id);
    text_printf(out, "\"statement\":\"/v1/jobs/%s/statement\",\"spend\":\"/v1/jobs/%s/spend\",", id, id);
    text_printf(out, "\"batches\":\"/v1/batches%s%s\",\"noise\":\"/v1/noise%s%s\"", question, phase, question, phase);
    if (recurrence->kind == EPS_RECURRENCE_ROWS)
        text_printf(out, ",\"rows\":\"/v1/jobs/%s/matrix?part=noise%s%s\"", id, *phase ? "&" : "", phase);
    text_puts(out, "}");
}

static void write_document(struct drawing *drawing, const char *content, size_t len, const struct text *links)
{
    uint8_t digest[EPS__HASH_BYTES];
    char hex[EPS__HASH_HEX];
    crypto_generichash(digest, sizeof digest, (const unsigned char *)content, len, NULL, 0);
    eps__hash_hex(hex, digest);
    fprintf(drawing->file, "{\"job\":\"%s\",\"phase\":", drawing->record.id);
    if (drawing->phase == NO_PHASE)
        fputs("null", drawing->file);
    else
        fprintf(drawing->file, "%zu", drawing->phase);
    fprintf(drawing->file, ",\"hash\":\"%s\",", hex);
    fwrite(content, 1, len, drawing->file);
    fwrite(links->data, 1, links->len, drawing->file);
    fputs("}\n", drawing->file);
}

/* On the side pool. */
static void write_mechanism(struct drawing *drawing, const struct eps_context *context,
                            const struct eps_strategy *strategy)
{
    (void)context;
    struct eps_error error = {0};
    struct eps_recurrence recurrence;
    struct text content = {0}, links = {0};
    struct about about = {0};
    if (!drawing_ok(drawing, eps_strategy_recurrence(strategy, &recurrence, &error), &error))
        return;
    if ((double)recurrence.len * NUMBER_BYTES > (double)drawing->request->server->config->max_bytes) {
        drawing_fail(drawing, API_PROBLEM_TOO_COSTLY, "the size of the document exceeds --max-bytes");
        return;
    }
    bool read = about_read(&about, drawing);
    if (read && runs(&about) == 0) {
        drawing_fail(drawing, API_PROBLEM_CONFLICT,
                     "the answer is that this phase is never run (count is 0), so there is no noise to draw");
    } else if (read) {
        write_content(&content, drawing, strategy, &about, &recurrence);
        write_links(&links, drawing, &recurrence);
        if (!content.failed && !links.failed)
            write_document(drawing, content.data, content.len, &links);
    }
    if (!read || content.failed || links.failed)
        drawing_fail(drawing, API_PROBLEM_INTERNAL, "out of memory");
    about_clear(&about);
    text_clear(&content);
    text_clear(&links);
}

enum handled handle_job_mechanism(struct request *request)
{
    return drawing_start(request, write_mechanism, EPS_PART_NOISE);
}
