/*
 * Ranks candidates and writes them. The rank is by what is guaranteed, because that is what a trainer pays today: the
 * best candidate by an estimate may be worse by its proof. The estimates and the order by them stand beside. What is
 * guaranteed is what is proven or, if a verification found less error, what draws verified; then the candidate shows
 * the figures and the job of the verification, together with what it assumes: a verified value never stands alone.
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
#include "server/groups/plan.h"
#include "server/ops/memory.h"
#include "server/routes/groups/figures.h"

#define DETAIL_BYTES 640 /* limit on the reason of a candidate */
#define DRAWN_BYTES 8192 /* approximate limit on what is kept of a verification, besides the job */
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
    struct verification {
        struct child_record row; /* number PLAN_NOTHING: there is none, or none yet; `detail` is owned */
        char *job;               /* or NULL: it has not succeeded */
        char *drawn;             /* members of its result, each preceded by a comma; or NULL likewise */
        char guarantee[32];
        bool holds; /* it has less error than what is proven */
    } verification;
};

struct ranking {
    atomic_int references;
    enum eps_objective objective;
    bool verifies;
    char *asked; /* an object */
    struct text texts;
    size_t len;
    pthread_mutex_t mutex; /* for the following members and the rows */
    struct candidate *candidates;
    size_t *order; /* the candidates with a result, by rank */
    size_t answered;
    bool read;    /* whether the rows have been read, */
    size_t ended; /* up to this end of a child */
};

/* ---------------------------------------------------------------- creation */

static void ranking_free(struct ranking *ranking)
{
    for (size_t i = 0; ranking->candidates && i < ranking->len; i++) {
        struct candidate *candidate = &ranking->candidates[i];
        free((char *)(uintptr_t)candidate->row.detail);
        free((char *)(uintptr_t)candidate->verification.row.detail);
        free(candidate->verification.job);
        free(candidate->verification.drawn);
    }
    pthread_mutex_destroy(&ranking->mutex);
    free(ranking->asked);
    text_clear(&ranking->texts);
    free(ranking->candidates);
    free(ranking->order);
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
    candidate->verification.row = child_record_new(PLAN_NOTHING);
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
    ranking->verifies = api_plan_verified(plan) > 0;
    bool made = ranking->asked && ranking->candidates && ranking->order;
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
                       ranking->len * (sizeof(struct candidate) + sizeof(size_t) + DETAIL_BYTES) +
                       (ranking->verifies ? EPS_PLAN_VERIFIED_MOST * DRAWN_BYTES : 0);
        memory_put(server->rankings, record->id, ranking, bytes, mark);
    }
    return ranking;
}

/* ---------------------------------------------------------------- the order */

/* Whether the candidate shows a verification, considering the first `until` children that ended. */
static bool is_verified(const struct candidate *candidate, size_t until)
{
    return candidate->verification.holds && candidate->verification.row.ended <= until;
}

/* The row whose figures the candidate shows. */
static const struct child_record *shown(const struct candidate *candidate, size_t until)
{
    return is_verified(candidate, until) ? &candidate->verification.row : &candidate->row;
}

static double key_of(const struct ranking *ranking, size_t i, const struct child_record *row)
{
    double batch = ranking->candidates[i].batch;
    return api_plan_error(ranking->objective, &row->figures) / (batch * batch);
}

static double key_at(const struct ranking *ranking, size_t i, size_t until)
{
    return key_of(ranking, i, shown(&ranking->candidates[i], until));
}

/* The key that the estimate promises: the proven one if there is none. */
static double hope_at(const struct ranking *ranking, size_t i, size_t until)
{
    const struct candidate *candidate = &ranking->candidates[i];
    (void)until;
    return plan_hope(candidate->estimate, &candidate->row, key_of(ranking, i, &candidate->row));
}

/* The place of a candidate with a result among those that had ended by then, by ascending keys. Ties go to the
 * candidate that was tried first. */
static size_t place_of(const struct ranking *ranking, size_t number, size_t until,
                       double (*key)(const struct ranking *ranking, size_t i, size_t until))
{
    double own = key(ranking, number, until);
    size_t place = 1;
    for (size_t k = 0; k < ranking->answered; k++) {
        size_t i = ranking->order[k];
        double other = key(ranking, i, until);
        place += ranking->candidates[i].row.ended <= until && (other < own || (other == own && i < number));
    }
    return place;
}

/* The candidate with the least hope; there is one with a result. */
static size_t most_hopeful(const struct ranking *ranking)
{
    size_t found = ranking->order[0];
    for (size_t k = 1; k < ranking->answered; k++)
        if (hope_at(ranking, ranking->order[k], SIZE_MAX) < hope_at(ranking, found, SIZE_MAX))
            found = ranking->order[k];
    return found;
}

static void put_in_order(struct ranking *ranking, size_t i)
{
    double own = key_at(ranking, i, SIZE_MAX);
    size_t at = ranking->answered++;
    for (; at > 0; at--) {
        double other = key_at(ranking, ranking->order[at - 1], SIZE_MAX);
        if (other < own || (other == own && ranking->order[at - 1] < i))
            break;
        ranking->order[at] = ranking->order[at - 1];
    }
    ranking->order[at] = i;
}

static void take_out_of_order(struct ranking *ranking, size_t i)
{
    size_t at = 0;
    while (ranking->order[at] != i)
        at++;
    ranking->answered--;
    memmove(&ranking->order[at], &ranking->order[at + 1], (ranking->answered - at) * sizeof *ranking->order);
}

/* ---------------------------------------------------------------- reading rows */

/* A result that has been deleted has no estimate. */
static double read_estimate(struct server *server, const struct child_record *row)
{
    struct job_record job;
    json_t *result;
    if (!plan_read_result(server->store, row, &job, &result))
        return NAN;
    double estimate = plan_estimate(result, row);
    json_decref(result);
    job_record_clear(&job);
    return estimate;
}

struct reading {
    struct ranking *ranking;
    bool failed;
};

/* The place of a child's row; NULL: its turn found nothing to verify, or it is damaged. */
static struct child_record *row_of(struct ranking *ranking, size_t number)
{
    size_t verified = plan_verified_by(ranking->len, number);
    return number < ranking->len      ? &ranking->candidates[number].row
           : verified != PLAN_NOTHING ? &ranking->candidates[verified].verification.row
                                      : NULL;
}

static void take_row(void *user, const struct child_record *child)
{
    struct reading *reading = user;
    struct ranking *ranking = reading->ranking;
    struct child_record *row = row_of(ranking, child->number);
    if (!child->damaged)
        ranking->ended = child->ended > ranking->ended ? child->ended : ranking->ended;
    if (!row || row->ended)
        return;
    char *detail = child->detail ? strdup(child->detail) : NULL;
    free((char *)(uintptr_t)row->detail);
    reading->failed = reading->failed || !detail != !child->detail;
    *row = *child;
    row->detail = detail;
}

/* Keeps what a verification found, with what it assumes. Without that, because the job has been deleted, it does not
 * count. */
static void read_verification(struct server *server, struct verification *verification)
{
    static const char *const members[] = {"guarantee", "monte_carlo", "assumptions"};
    struct job_record job;
    struct text text = {0};
    json_t *result;
    if (!plan_read_result(server->store, &verification->row, &job, &result))
        return;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const json_t *value = json_object_get(result, members[i]);
        text_printf(&text, ",\"%s\":", members[i]);
        if (value)
            text_value(&text, value);
        else
            text_puts(&text, "null");
    }
    const char *guarantee = json_string_value(json_object_get(result, "guarantee"));
    snprintf(verification->guarantee, sizeof verification->guarantee, "%s", guarantee ? guarantee : "");
    json_decref(result);
    verification->drawn = text_steal(&text);
    if (verification->drawn) {
        verification->job = job.job;
        job.job = NULL;
    }
    job_record_clear(&job);
}

/* Whether the row of a candidate, or of a verification, can be ranked. */
static bool is_ranked(const struct ranking *ranking, size_t i, const struct child_record *row)
{
    return row->status == JOB_SUCCEEDED && !row->damaged && isfinite(key_of(ranking, i, row));
}

/* Ranks the candidates whose rows have been read since, and again those whose verifications have. */
static void rank_new(struct server *server, struct ranking *ranking)
{
    for (size_t i = 0; i < ranking->len; i++) {
        struct candidate *candidate = &ranking->candidates[i];
        struct verification *verification = &candidate->verification;
        if (!candidate->answered && is_ranked(ranking, i, &candidate->row)) {
            candidate->estimate = read_estimate(server, &candidate->row);
            candidate->answered = true;
            put_in_order(ranking, i);
        }
        if (!candidate->answered || verification->drawn || !is_ranked(ranking, i, &verification->row))
            continue;
        read_verification(server, verification);
        if (verification->drawn && key_of(ranking, i, &verification->row) < key_of(ranking, i, &candidate->row)) {
            take_out_of_order(ranking, i);
            verification->holds = true;
            put_in_order(ranking, i);
        }
    }
}

/* Of the candidates of an ended plan, those without a row have lost it. */
static void take_absent(struct store *store, struct reading *reading, const struct group_record *record)
{
    for (size_t i = 0; i < reading->ranking->len; i++) {
        struct child_record *row = &reading->ranking->candidates[i].row;
        if (!row->ended && !row->damaged) {
            struct child_record absent = store_child_absent(store, record, i);
            take_row(reading, &absent);
        }
    }
}

/* Records a child whose job is queued or running. */
static void take_under_way(void *user, size_t number, const char *job)
{
    struct child_record *row = row_of(user, number);
    if (!row || row->ended)
        return;
    row->number = number;
    memcpy(row->job, job, UUID_SIZE);
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
        take_absent(server->store, &reading, record);
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

/* The error of DP-SGD with the same sizes divided by that of the candidate, considering the first `until` children that
 * ended. NAN: one of the two has no result, or none yet. */
static double gain_of(const struct ranking *ranking, size_t number, size_t until)
{
    size_t reference = ranking->candidates[number].reference;
    if (reference == NO_REFERENCE || !ranking->candidates[reference].answered ||
        ranking->candidates[reference].row.ended > until || !ranking->candidates[number].answered)
        return NAN;
    return key_at(ranking, reference, until) / key_at(ranking, number, until);
}

/* What the candidate would have without a proof. */
static void write_estimate(struct text *out, const struct ranking *ranking, size_t number, size_t until)
{
    const struct candidate *candidate = &ranking->candidates[number];
    const struct child_record *row = &candidate->row;
    if (!candidate->answered) {
        text_puts(out, ",\"estimate\":null");
        return;
    }
    text_puts(out, ",\"estimate\":{\"noise_multiplier\":");
    text_number(out, candidate->estimate);
    text_puts(out, ",\"error\":");
    text_number(out, plan_hope(candidate->estimate, row, api_plan_error(ranking->objective, &row->figures)));
    text_printf(out, ",\"rank\":%zu}", place_of(ranking, number, until, hope_at));
}

/* Why a final verification does not decide the rank; NULL: it does, or it is not final. */
static const char *why_not(const struct verification *verification)
{
    if (verification->row.detail || verification->row.status != JOB_SUCCEEDED || verification->holds)
        return verification->row.detail;
    return verification->drawn ? "the draws verified no less error than is proven; with more max_seconds they may"
                               : "its job has been deleted, and what it assumed with it";
}

/* Names the candidate that is the best by its estimate, if that promises noticeably less than what is guaranteed. */
static void write_hint(struct text *out, const struct ranking *ranking)
{
    char hint[1280], next[800];
    text_puts(out, ",\"hint\":");
    const struct candidate *hope = ranking->answered ? &ranking->candidates[most_hopeful(ranking)] : NULL;
    if (!hope || hope->verification.holds ||
        hope_at(ranking, (size_t)(hope - ranking->candidates), SIZE_MAX) >
            (1 - WORTH_SAYING) * key_at(ranking, ranking->order[0], SIZE_MAX)) {
        text_puts(out, "null");
        return;
    }
    double error = api_plan_error(ranking->objective, &hope->row.figures);
    const char *why = why_not(&hope->verification);
    if (why)
        snprintf(next, sizeof next, "it was not verified: %s", why);
    else if (ranking->verifies)
        snprintf(next, sizeof next, "train with what is proven unless it is verified");
    else
        snprintf(next, sizeof next,
                 "train with what is proven, or first post its job with the accountant monte_carlo, or the plan with "
                 "\"verify\": \"draws\"");
    snprintf(hint, sizeof hint,
             "%s would have an error of about %.4g at a noise multiplier of about %.4g, where %.4g and %.4g are "
             "proven. An estimate guarantees nothing: %s",
             ranking->texts.data + hope->name, plan_hope(hope->estimate, &hope->row, error), hope->estimate, error,
             hope->row.figures.noise_multiplier, next);
    text_json(out, hint);
}

/* The members of every row of a ranking. at: 0: it has no rank, or none yet. */
static void write_figures(struct text *out, const struct ranking *ranking, size_t number, size_t at, size_t until)
{
    const struct candidate *candidate = &ranking->candidates[number];
    const struct child_record *row = shown(candidate, until);
    text_printf(out, at ? "{\"rank\":%zu," : "{\"rank\":null,", at);
    text_puts(out, ranking->texts.data + candidate->about);
    figures_write(out, &row->figures, API_IN_BEST, ",");
    text_puts(out, ",\"error\":");
    write_error(out, row);
    text_printf(out, ",\"verified\":%s", is_verified(candidate, until) ? "true" : "false");
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

/* What is proven of a candidate that shows a verification. */
static void write_proven(struct text *out, const struct candidate *candidate, size_t until)
{
    text_puts(out, ",\"proven\":");
    if (!is_verified(candidate, until)) {
        text_puts(out, "null");
        return;
    }
    figures_write(out, &candidate->row.figures, API_IN_BEST, "{");
    text_puts(out, ",\"error\":");
    write_error(out, &candidate->row);
    figures_write(out, &candidate->row.figures, API_IN_CANDIDATE, ",");
    text_puts(out, "}");
}

static void write_verification(struct server *server, struct text *out, const struct candidate *candidate,
                               const struct group_record *group, size_t until)
{
    const struct verification *verification = &candidate->verification;
    const struct child_record *row = &verification->row;
    text_puts(out, ",\"verification\":");
    if (row->number == PLAN_NOTHING || (until != SIZE_MAX && (!row->ended || row->ended > until))) {
        text_puts(out, "null");
        return;
    }
    text_printf(out, "{\"status\":\"%s\",\"reason\":", status_name(server, group, row));
    text_json(out, why_not(verification));
    text_puts(out, ",\"job\":");
    text_json(out, row->job[0] ? row->job : NULL);
    figures_write(out, &row->figures, API_IN_BEST, ",");
    text_puts(out, ",\"error\":");
    write_error(out, row);
    text_puts(out, verification->drawn ? verification->drawn
                                       : ",\"guarantee\":null,\"monte_carlo\":null,\"assumptions\":null");
    text_puts(out, "}");
}

static void write_candidate(struct server *server, struct text *out, const struct ranking *ranking,
                            const struct group_record *group, size_t number, size_t at, size_t until)
{
    const struct candidate *candidate = &ranking->candidates[number];
    bool verified = is_verified(candidate, until), succeeded = candidate->row.status == JOB_SUCCEEDED;
    write_figures(out, ranking, number, at, until);
    text_puts(out, ",\"guarantee\":");
    text_json(out, verified    ? candidate->verification.guarantee
                   : succeeded ? eps_guarantee_name(EPS_GUARANTEE_DETERMINISTIC) /* auto never draws */
                               : NULL);
    figures_write(out, &shown(candidate, until)->figures, API_IN_CANDIDATE, ",");
    text_printf(out, ",\"status\":\"%s\",\"reason\":", status_name(server, group, &candidate->row));
    text_json(out, candidate->row.detail);
    write_proven(out, candidate, until);
    write_verification(server, out, candidate, group, until);
    text_puts(out, ",");
    if (verified) {
        text_puts(out, "\"job\":");
        text_puts(out, candidate->verification.job);
    } else {
        text_puts(out, ranking->texts.data + candidate->job);
    }
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

bool ranking_tells(const struct ranking *ranking, const struct child_record *child)
{
    return child->number < 2 * ranking->len;
}

void ranking_write_ended(struct server *server, struct text *out, struct ranking *ranking,
                         const struct group_record *record, const struct child_record *child)
{
    pthread_mutex_lock(&ranking->mutex);
    const struct child_record *row = row_of(ranking, child->number);
    bool known = row && (row->ended >= child->ended || read_locked(server, ranking, record));
    if (known) {
        size_t number = child->number % ranking->len;
        bool answered = ranking->candidates[number].answered;
        write_candidate(server, out, ranking, record, number,
                        answered ? place_of(ranking, number, child->ended, key_at) : 0, child->ended);
    } else {
        out->failed = true;
    }
    pthread_mutex_unlock(&ranking->mutex);
}
