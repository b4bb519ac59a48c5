/*
 * Ranks candidates and writes them. The rank is by what is proven, because that is what a trainer pays today: the best
 * candidate by an estimate may be worse by its proof. The estimates and the order by them stand beside.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/groups/ranking.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api/requests/plan.h"
#include "server/groups/groups.h"
#include "server/ops/memory.h"
#include "server/routes/groups/figures.h"

#define DETAIL_BYTES 640 /* limit on the reason of a candidate */
#define BEST 10          /* number of candidates in a summary */
#define NO_REFERENCE SIZE_MAX
#define WORTH_SAYING 0.02 /* an estimated error is mentioned if it is lower by this share than the least proven one */

/* The constant parts of a candidate are its name in a sentence, and three texts, which hold consecutive members of its
 * object. */
struct candidate {
    size_t name, about, buffers, job; /* positions in texts */
    double batch;
    size_t reference;        /* the candidate that is DP-SGD with the same sizes, or NO_REFERENCE */
    struct child_record row; /* as of the last read; `detail` is owned */
    bool answered;           /* and it can be ranked */
    double estimate;         /* the noise multiplier without a proof; NAN: none, or the proven one is not larger */
};

struct ranking {
    atomic_int references;
    enum eps_objective objective;
    char *asked; /* an object */
    struct text texts;
    size_t len;
    pthread_mutex_t mutex; /* for the following members and the rows */
    struct candidate *candidates;
    size_t *order; /* the candidates with a result, by rank, */
    size_t *hopes; /* and by the error that their estimates promise */
    size_t answered;
    bool read;    /* whether the rows have been read, */
    size_t ended; /* up to this end of a child */
};

/* ---------------------------------------------------------------- creation */

static void ranking_free(struct ranking *ranking)
{
    for (size_t i = 0; ranking->candidates && i < ranking->len; i++)
        free((char *)(uintptr_t)ranking->candidates[i].row.detail);
    pthread_mutex_destroy(&ranking->mutex);
    free(ranking->asked);
    text_clear(&ranking->texts);
    free(ranking->candidates);
    free(ranking->order);
    free(ranking->hopes);
    free(ranking);
}

void ranking_release(struct ranking *ranking)
{
    if (ranking && atomic_fetch_sub_explicit(&ranking->references, 1, memory_order_acq_rel) == 1)
        ranking_free(ranking);
}

static void retain(void *value)
{
    atomic_fetch_add_explicit(&((struct ranking *)value)->references, 1, memory_order_relaxed);
}

static void release(void *value)
{
    ranking_release(value);
}

struct memory *rankings_create(size_t max_bytes)
{
    return memory_create(max_bytes, retain, release);
}

static void put_member(struct text *out, const struct api_plan *plan, size_t i, const char *name)
{
    const json_t *value = api_plan_member(plan, i, name);
    text_printf(out, "\"%s\":", name);
    if (value)
        text_value(out, value);
    else
        text_puts(out, "null");
}

static void put_candidate(struct ranking *ranking, const struct api_plan *plan, size_t i)
{
    static const char *const about[] = {"family", "bands", "scheme", "n", "batch_size"};
    struct candidate *candidate = &ranking->candidates[i];
    struct text *texts = &ranking->texts;
    candidate->row = child_record_new(i);
    candidate->batch = (double)json_integer_value(api_plan_member(plan, i, "batch_size"));
    const json_t *bands = api_plan_member(plan, i, "bands");
    candidate->name = texts->len;
    text_puts(texts, json_string_value(api_plan_member(plan, i, "family")));
    if (json_is_integer(bands))
        text_printf(texts, " of %lld bands", (long long)json_integer_value(bands));
    text_printf(texts, " under %s", json_string_value(api_plan_member(plan, i, "scheme")));
    text_append(texts, "", 1);
    candidate->about = texts->len;
    for (size_t k = 0; k < sizeof about / sizeof *about; k++) {
        text_puts(texts, k ? "," : "");
        put_member(texts, plan, i, about[k]);
    }
    text_append(texts, "", 1);
    candidate->buffers = texts->len;
    put_member(texts, plan, i, "buffers");
    text_append(texts, "", 1);
    candidate->job = texts->len;
    put_member(texts, plan, i, "job");
    text_append(texts, "", 1);
}

static size_t pair_of(const struct api_plan *plan, size_t i)
{
    json_int_t pair = json_integer_value(api_plan_member(plan, i, "pair"));
    return pair >= 0 && pair < EPS_PLAN_PAIRS_MAX ? (size_t)pair : 0;
}

/* Finds the candidate that is DP-SGD for each pair of sizes. Plans of earlier versions do not record it. */
static void find_references(size_t references[EPS_PLAN_PAIRS_MAX], const struct api_plan *plan)
{
    for (size_t pair = 0; pair < EPS_PLAN_PAIRS_MAX; pair++)
        references[pair] = NO_REFERENCE;
    for (size_t i = 0; i < api_plan_len(plan); i++)
        if (json_is_true(api_plan_member(plan, i, "reference")))
            references[pair_of(plan, i)] = i;
}

/* NULL: damaged, or out of memory. */
static struct ranking *make(const char *request)
{
    struct api_plan *plan = api_plan_read(request);
    struct ranking *ranking = plan ? calloc(1, sizeof *ranking) : NULL;
    size_t references[EPS_PLAN_PAIRS_MAX];
    if (!ranking) {
        api_plan_destroy(plan);
        return NULL;
    }
    atomic_init(&ranking->references, 1);
    pthread_mutex_init(&ranking->mutex, NULL);
    ranking->objective = plan->objective;
    ranking->len = api_plan_len(plan);
    ranking->asked = api_json_text(plan->asked);
    ranking->candidates = calloc(ranking->len + 1, sizeof *ranking->candidates);
    ranking->order = calloc(ranking->len + 1, sizeof *ranking->order);
    ranking->hopes = calloc(ranking->len + 1, sizeof *ranking->hopes);
    bool made = ranking->asked && ranking->candidates && ranking->order && ranking->hopes;
    text_expect(&ranking->texts, strlen(request));
    find_references(references, plan);
    for (size_t i = 0; made && i < ranking->len; i++) {
        put_candidate(ranking, plan, i);
        ranking->candidates[i].reference = references[pair_of(plan, i)];
    }
    api_plan_destroy(plan);
    if (!made || ranking->texts.failed) {
        ranking_free(ranking);
        return NULL;
    }
    return ranking;
}

struct ranking *ranking_open(struct server *server, const struct group_record *record)
{
    uint64_t mark = memory_mark(server->rankings);
    struct ranking *ranking = memory_get(server->rankings, record->id);
    if (!ranking && (ranking = make(record->request)) != NULL) {
        size_t bytes = sizeof *ranking + strlen(ranking->asked) + ranking->texts.capacity +
                       ranking->len * (sizeof(struct candidate) + 2 * sizeof(size_t) + DETAIL_BYTES);
        memory_put(server->rankings, record->id, ranking, bytes, mark);
    }
    return ranking;
}

/* ---------------------------------------------------------------- reading rows */

static double key_of(const struct ranking *ranking, size_t i)
{
    const struct candidate *candidate = &ranking->candidates[i];
    return api_plan_error(ranking->objective, &candidate->row.figures) / (candidate->batch * candidate->batch);
}

/* What an error would be at the estimated noise multiplier; the error itself if there is no estimate. */
static double hoped(const struct candidate *candidate, double error)
{
    double share = candidate->estimate / candidate->row.figures.noise_multiplier;
    return isnan(share) ? error : error * share * share;
}

static double hope_of(const struct ranking *ranking, size_t i)
{
    return hoped(&ranking->candidates[i], key_of(ranking, i));
}

/* Inserts candidate i into an order of `len` ones by ascending keys. Ties go to the candidate that was tried first. */
static void insert(const struct ranking *ranking, size_t *order, size_t len, size_t i,
                   double (*key)(const struct ranking *ranking, size_t i))
{
    double own = key(ranking, i);
    size_t at = len;
    for (; at > 0; at--) {
        double other = key(ranking, order[at - 1]);
        if (other < own || (other == own && order[at - 1] < i))
            break;
        order[at] = order[at - 1];
    }
    order[at] = i;
}

static void rank(struct ranking *ranking, size_t i)
{
    insert(ranking, ranking->order, ranking->answered, i, key_of);
    insert(ranking, ranking->hopes, ranking->answered, i, hope_of);
    ranking->answered++;
    ranking->candidates[i].answered = true;
}

/* The estimate in the result of a child, if it is less than what is proven. A result that has been deleted has none. */
static double read_estimate(struct server *server, const struct child_record *row)
{
    struct job_record job;
    struct result_record *result = NULL;
    char message[64];
    json_t *core = NULL;
    double estimate = NAN;
    enum store_status status = store_read_job(server->store, row->job, &job);
    if (status == STORE_OK)
        status = store_read_result(server->store, job.hash, job.version, &result);
    if (status == STORE_OK && result) { /* `core` lacks its closing brace, see records.h */
        struct text text = {0};
        text_puts(&text, result->core);
        text_puts(&text, "}");
        if (!text.failed)
            core = api_json_parse(text.data, text.len, message, sizeof message);
        text_clear(&text);
    }
    const json_t *value = json_object_get(json_object_get(core, "unproven_estimate"), "value");
    if (json_is_number(value) && json_number_value(value) < row->figures.noise_multiplier)
        estimate = json_number_value(value);
    json_decref(core);
    result_record_release(result);
    if (status != STORE_NONE)
        job_record_clear(&job);
    return estimate;
}

struct reading {
    struct ranking *ranking;
    bool failed;
};

static void take_row(void *user, const struct child_record *child)
{
    struct reading *reading = user;
    struct ranking *ranking = reading->ranking;
    if (child->number >= ranking->len || ranking->candidates[child->number].row.ended)
        return;
    struct candidate *candidate = &ranking->candidates[child->number];
    char *detail = child->detail ? strdup(child->detail) : NULL;
    free((char *)(uintptr_t)candidate->row.detail);
    reading->failed = reading->failed || !detail != !child->detail;
    candidate->row = *child;
    candidate->row.detail = detail;
    if (child->damaged)
        return;
    ranking->ended = child->ended > ranking->ended ? child->ended : ranking->ended;
}

/* Ranks the candidates whose rows have been read since. */
static void rank_new(struct server *server, struct ranking *ranking)
{
    for (size_t i = 0; i < ranking->len; i++) {
        struct candidate *candidate = &ranking->candidates[i];
        if (candidate->answered || candidate->row.damaged || candidate->row.status != JOB_SUCCEEDED ||
            !isfinite(key_of(ranking, i)))
            continue;
        candidate->estimate = read_estimate(server, &candidate->row);
        rank(ranking, i);
    }
}

/* Of the candidates of an ended plan, those without a row have lost it. */
static void take_absent(struct reading *reading, const struct group_record *record)
{
    for (size_t i = 0; i < reading->ranking->len; i++) {
        struct child_record *row = &reading->ranking->candidates[i].row;
        if (!row->ended && !row->damaged) {
            struct child_record absent = store_child_absent(record, i);
            take_row(reading, &absent);
        }
    }
}

/* Records a candidate whose job is queued or running. */
static void take_under_way(void *user, size_t number, const char *job)
{
    struct ranking *ranking = user;
    if (number < ranking->len && !ranking->candidates[number].row.ended)
        memcpy(ranking->candidates[number].row.job, job, UUID_SIZE);
}

/* Reads all rows the first time, damaged ones included; later those that have ended since. */
static bool read_locked(struct server *server, struct ranking *ranking, const struct group_record *record)
{
    struct children_filter news = {.parent = record->id, .by_end = ranking->read, .after = ranking->ended};
    struct reading reading = {.ranking = ranking};
    if (!job_status_final(record->status)) /* before the rows, so that a child that ends in between is among them */
        groups_each_under_way(server->groups, record->id, take_under_way, ranking);
    ranking->read = store_each_child(server->store, &news, take_row, &reading) == STORE_OK && !reading.failed;
    if (ranking->read && record->status == JOB_SUCCEEDED) {
        take_absent(&reading, record);
        ranking->read = !reading.failed;
    }
    rank_new(server, ranking);
    return ranking->read;
}

/* ---------------------------------------------------------------- writing */

/* A candidate without a job is shown as skipped. */
static const char *status_name(struct server *server, const struct group_record *group,
                               const struct child_record *child)
{
    bool skipped = child->status == JOB_CANCELED && !child->job[0] && child->detail;
    return skipped ? "skipped" : job_status_name(groups_child_status(server->groups, group, child));
}

static void write_error(struct text *out, const struct child_record *child)
{
    if (child->status != JOB_SUCCEEDED) {
        text_puts(out, "null");
        return;
    }
    figures_write(out, &child->figures, API_IN_CANDIDATE_ERROR, "{");
    text_puts(out, "}");
}

/* The error of DP-SGD with the same sizes divided by that of the candidate, considering the first `until` candidates
 * that ended. NAN: one of the two has no result, or none yet. */
static double gain_of(const struct ranking *ranking, size_t number, size_t until)
{
    size_t reference = ranking->candidates[number].reference;
    if (reference == NO_REFERENCE || !ranking->candidates[reference].answered ||
        ranking->candidates[reference].row.ended > until || !ranking->candidates[number].answered)
        return NAN;
    return key_of(ranking, reference) / key_of(ranking, number);
}

/* The place of a candidate in an order, among those that had ended by then; 0: it has none. */
static size_t place_of(const struct ranking *ranking, const size_t *order, size_t number, size_t until)
{
    size_t at = 0;
    for (size_t i = 0; i < ranking->answered; i++) {
        at += ranking->candidates[order[i]].row.ended <= until;
        if (order[i] == number)
            return at;
    }
    return 0;
}

/* What the candidate would have without a proof. */
static void write_estimate(struct text *out, const struct ranking *ranking, size_t number, size_t until)
{
    const struct candidate *candidate = &ranking->candidates[number];
    if (!candidate->answered) {
        text_puts(out, ",\"estimate\":null");
        return;
    }
    text_puts(out, ",\"estimate\":{\"noise_multiplier\":");
    text_number(out, candidate->estimate);
    text_puts(out, ",\"error\":");
    text_number(out, hoped(candidate, api_plan_error(ranking->objective, &candidate->row.figures)));
    text_printf(out, ",\"rank\":%zu}", place_of(ranking, ranking->hopes, number, until));
}

/* Names the candidate that is the best by its estimate, if that promises noticeably less than what is proven. */
static void write_hint(struct text *out, const struct ranking *ranking)
{
    char hint[480];
    text_puts(out, ",\"hint\":");
    if (ranking->answered == 0 ||
        hope_of(ranking, ranking->hopes[0]) > (1 - WORTH_SAYING) * key_of(ranking, ranking->order[0])) {
        text_puts(out, "null");
        return;
    }
    const struct candidate *hope = &ranking->candidates[ranking->hopes[0]];
    double error = api_plan_error(ranking->objective, &hope->row.figures);
    snprintf(
        hint, sizeof hint,
        "%s would have an error of about %.4g at a noise multiplier of about %.4g, where %.4g and %.4g are proven. "
        "An estimate guarantees nothing: train with what is proven, or first post its job with the accountant "
        "monte_carlo",
        ranking->texts.data + hope->name, hoped(hope, error), hope->estimate, error,
        hope->row.figures.noise_multiplier);
    text_json(out, hint);
}

/* The members of every row of a ranking. at: 0: it has no rank, or none yet. */
static void write_figures(struct text *out, const struct ranking *ranking, size_t number, size_t at, size_t until)
{
    const struct candidate *candidate = &ranking->candidates[number];
    text_printf(out, at ? "{\"rank\":%zu," : "{\"rank\":null,", at);
    text_puts(out, ranking->texts.data + candidate->about);
    figures_write(out, &candidate->row.figures, API_IN_BEST, ",");
    text_puts(out, ",\"error\":");
    write_error(out, &candidate->row);
    write_estimate(out, ranking, number, until);
    text_puts(out, ",\"gain\":");
    text_number(out, gain_of(ranking, number, until));
    text_puts(out, ",");
    text_puts(out, ranking->texts.data + candidate->buffers);
}

/* The ten best candidates. */
static void write_best(struct text *out, const struct ranking *ranking)
{
    text_puts(out, ",\"best\":[");
    for (size_t i = 0; i < ranking->answered && i < BEST; i++) {
        text_puts(out, i ? "," : "");
        write_figures(out, ranking, ranking->order[i], i + 1, SIZE_MAX);
        text_puts(out, "}");
    }
    text_puts(out, "]");
}

static void write_candidate(struct server *server, struct text *out, const struct ranking *ranking,
                            const struct group_record *group, size_t number, size_t at, size_t until)
{
    const struct candidate *candidate = &ranking->candidates[number];
    const struct child_record *row = &candidate->row;
    const char *texts = ranking->texts.data;
    bool succeeded = row->status == JOB_SUCCEEDED;
    write_figures(out, ranking, number, at, until);
    text_puts(out, ",\"guarantee\":");
    text_json(out, succeeded ? eps_guarantee_name(EPS_GUARANTEE_DETERMINISTIC) : NULL); /* auto never draws */
    figures_write(out, &row->figures, API_IN_CANDIDATE, ",");
    text_printf(out, ",\"status\":\"%s\",\"reason\":", status_name(server, group, row));
    text_json(out, row->detail);
    text_puts(out, ",");
    text_puts(out, texts + candidate->job);
    text_puts(out, "}");
}

/* The candidates with a result by rank, then the others in the order in which they are tried. */
static void write_candidates(struct server *server, struct text *out, const struct ranking *ranking,
                             const struct group_record *record)
{
    text_expect(out, ranking->texts.len + 512 * ranking->len);
    text_puts(out, ",\"candidates\":[");
    for (size_t i = 0; i < ranking->answered; i++) {
        text_puts(out, i ? "," : "");
        write_candidate(server, out, ranking, record, ranking->order[i], i + 1, SIZE_MAX);
    }
    bool first = ranking->answered == 0;
    for (size_t i = 0; i < ranking->len; i++) {
        if (!ranking->candidates[i].answered) {
            text_puts(out, first ? "" : ",");
            write_candidate(server, out, ranking, record, i, 0, SIZE_MAX);
            first = false;
        }
    }
    text_puts(out, "]");
}

void ranking_write_asked(struct text *out, const struct ranking *ranking)
{
    if (ranking->asked[1] != '}') {
        text_puts(out, ",");
        text_append(out, ranking->asked + 1, strlen(ranking->asked) - 2);
    }
}

void ranking_write(struct server *server, struct text *out, struct ranking *ranking, const struct group_record *record,
                   bool brief)
{
    pthread_mutex_lock(&ranking->mutex);
    out->failed = !read_locked(server, ranking, record) || out->failed;
    write_hint(out, ranking);
    write_best(out, ranking);
    if (!brief)
        write_candidates(server, out, ranking, record);
    pthread_mutex_unlock(&ranking->mutex);
}

void ranking_write_ended(struct server *server, struct text *out, struct ranking *ranking,
                         const struct group_record *record, const struct child_record *child)
{
    pthread_mutex_lock(&ranking->mutex);
    bool known = child->number < ranking->len;
    if (known && ranking->candidates[child->number].row.ended < child->ended)
        known = read_locked(server, ranking, record);
    if (known) {
        write_candidate(server, out, ranking, record, child->number,
                        place_of(ranking, ranking->order, child->number, child->ended), child->ended);
    } else {
        out->failed = true;
    }
    pthread_mutex_unlock(&ranking->mutex);
}
