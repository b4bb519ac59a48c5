/*
 * Wild jobs: whatever is asked, the answer is a sound document or an error that says what to change; the hooks are
 * polled, and a call ends soon after one of them says so; limits hold; a number out of its range is refused, and told
 * the range; and so it is with all that is asked of a job once it is answered (follow.h). Under the sanitizers, in
 * `make soak`, a hundred thousand extreme ones and as many others (soak_jobs.py); some thousands in every `make
 * test`.
 *
 *   SOAK_FIRST, SOAK_COUNT   which seeds   SOAK_SECONDS             of processor time, after which a job's deadline
 * has passed   SOAK_HANG                seconds after which a job that polls nothing is aborted, with its seed
 * SOAK_VERBOSE             every job before it runs, and how it ended   SOAK_AT                  a file that always
 * holds the seed at work
 *
 * Time is that of this thread's processor, so that a loaded machine changes nothing.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/codec.h"
#include "tests/generate/job.h"
#include "tests/soak/follow.h"
#include "tests/unit/draw.h"
#include "tests/unit/patience.h"
#include "tests/unit/test.h"

enum { JOBS = 3000, EXTREMES = 20000, KEPT = 32, HANG_SECONDS = 300 };

/* Of the deadline: what may pass between two polls, and between the last one and the end. Plain loops between polls
 * take milliseconds; this is what tells them from a hang, sanitizers or not. */
#define GAP_MOST 20.0

static double setting(const char *name, double otherwise)
{
    const char *text = getenv(name);
    return text ? strtod(text, NULL) : otherwise;
}

/* ------------------------------------------------------------ the context */

struct kept {
    enum eps_cache_kind kind;
    uint8_t key[32];
    void *blob;
    size_t len;
};

struct lent {
    double started, deadline, allowed, last_poll, longest_gap, fraction;
    uint64_t polls, cancel_at; /* the poll that says canceled; 0: none */
    bool ended, backwards, fell;
    const char *call, *gap_call; /* the one under way; that of the longest gap */
    struct kept kept[KEPT];
    size_t kept_len;
};

static void polled(struct lent *lent)
{
    double now = patience_clock();
    if (now - lent->last_poll > lent->longest_gap) {
        lent->longest_gap = now - lent->last_poll;
        lent->gap_call = lent->call;
    }
    lent->last_poll = now;
    lent->polls++;
}

static bool canceled(void *user)
{
    struct lent *lent = user;
    polled(lent);
    lent->ended |= lent->cancel_at > 0 && lent->polls >= lent->cancel_at;
    return lent->cancel_at > 0 && lent->polls >= lent->cancel_at;
}

static bool expired(void *user)
{
    struct lent *lent = user;
    polled(lent);
    bool over = lent->last_poll > lent->deadline;
    lent->ended |= over;
    return over;
}

static void progress(void *user, double fraction, const char *stage, double remaining)
{
    struct lent *lent = user;
    lent->fell |= !(fraction >= lent->fraction - 1e-12 && fraction <= 1) || !stage || remaining < 0;
    lent->fraction = fraction;
}

/* Backwards, for no order is promised. */
static void parallel_for(void *user, size_t count, void (*body)(void *arg, size_t index), void *arg)
{
    bool backwards = ((struct lent *)user)->backwards;
    for (size_t i = 0; i < count; i++)
        body(arg, backwards ? count - 1 - i : i);
}

static bool cache_get(void *user, enum eps_cache_kind kind, const uint8_t key[32], void **blob, size_t *blob_len)
{
    struct lent *lent = user;
    for (size_t i = 0; i < lent->kept_len; i++) {
        struct kept *kept = &lent->kept[i];
        if (kept->kind != kind || memcmp(kept->key, key, 32) != 0)
            continue;
        *blob = malloc(kept->len + 1);
        if (!*blob)
            return false;
        memcpy(*blob, kept->blob, kept->len);
        *blob_len = kept->len;
        return true;
    }
    return false;
}

static void cache_put(void *user, enum eps_cache_kind kind, const uint8_t key[32], const void *blob, size_t blob_len)
{
    struct lent *lent = user;
    struct kept *kept = &lent->kept[lent->kept_len < KEPT ? lent->kept_len++ : lent->polls % KEPT];
    free(kept->blob);
    *kept = (struct kept){.kind = kind, .blob = malloc(blob_len + 1), .len = blob_len};
    assert_non_null(kept->blob);
    memcpy(kept->key, key, 32);
    memcpy(kept->blob, blob, blob_len);
}

/* ------------------------------------------------------------ one job */

static bool is_sound(const struct eps_result *result)
{
    bool found = true;
    if (result->solved_for == EPS_SOLVE_CURVE) {
        for (size_t i = 0; i < result->curve_len; i++) {
            const struct eps_curve_point *point = &result->curve[i];
            found = found && point->epsilon >= 0 && point->delta >= 0 && point->delta <= 1 && point->lower >= 0 &&
                    point->lower <= point->delta && (i == 0 || point->epsilon >= point[-1].epsilon);
        }
        return found && result->curve_len > 0;
    }
    for (int d = 0; d < EPS_DIRECTIONS; d++)
        found = found && isfinite(result->directions[d].value) && result->directions[d].value >= 0;
    bool largest = result->solved_for == EPS_SOLVE_N || result->solved_for == EPS_SOLVE_RUNS;
    double value = largest                                   ? (double)result->largest
                   : result->solved_for == EPS_SOLVE_EPSILON ? result->epsilon
                   : result->solved_for == EPS_SOLVE_DELTA   ? result->delta
                                                             : result->noise_multiplier;
    double lower = result->bracket_lower, upper = result->bracket_upper;
    if (isnan(upper)) /* drawn: none */
        found = found && isnan(lower) && !result->bracket_exact && result->guarantee != EPS_GUARANTEE_DETERMINISTIC;
    else
        found = found && lower >= 0 && lower <= upper && value == (largest ? lower : upper);
    found =
        found && !(result->least < 0 || result->least > value) && (!result->bracket_exact || result->least >= lower);
    return found && (result->solved_for != EPS_SOLVE_DELTA || (value > 0 && value <= 1)) &&
           (result->solved_for != EPS_SOLVE_NOISE_MULTIPLIER || value <= 1.01e9);
}

/* The document has no NaN or infinity in it: the codec would have refused to write one, or written null. */
static bool is_document(const struct eps_result *result)
{
    json_t *json = api_result_encode(result);
    char *text = json ? api_json_text(json) : NULL;
    bool whole = text && !strstr(text, "nan") && !strstr(text, "inf");
    free(text);
    json_decref(json);
    return whole;
}

static char *text_of(const struct eps_job *job)
{
    const struct api_job encoded = {.job = *job};
    json_t *json = api_job_encode(&encoded, false);
    char *text = json ? api_json_text(json) : NULL;
    json_decref(json);
    return text;
}

struct run {
    enum eps_status status;
    double seconds;
    struct eps_error error;
};

/* What the optimum will be nobody knows beforehand, nor what a stored one was: another one of its bands stands in. */
static bool is_optimised(const struct eps_matrix *matrix)
{
    return matrix->family == EPS_FAMILY_BANDED || matrix->family == EPS_FAMILY_BANDED_INVERSE ||
           matrix->family == EPS_FAMILY_OPTIMAL || matrix->family == EPS_FAMILY_STORED ||
           (matrix->family == EPS_FAMILY_BLT && matrix->buffers > 0);
}

static bool has_optimised(const struct eps_job *job)
{
    bool found = is_optimised(&job->mechanism.matrix);
    for (size_t i = 0; i < job->phases_len; i++)
        found = found || is_optimised(&job->phases[i].mechanism.matrix);
    return found;
}

/* ------------------------------------------------------------ what follows it */

/* A call begins: its time, and its polls. */
static void call_begin(void *user, const char *call)
{
    struct lent *lent = user;
    lent->call = call;
    lent->started = lent->last_poll = patience_clock();
    lent->deadline = lent->started + lent->allowed;
    lent->fraction = 0;
    lent->polls = 0;
    lent->ended = lent->fell = false;
}

static const char *call_end(void *user)
{
    struct lent *lent = user;
    polled(lent);
    return lent->longest_gap > GAP_MOST ? "the hooks were not polled for too long"
           : lent->fell                 ? "progress fell, or left [0, 1]"
                                        : NULL;
}

static bool call_ended(void *user)
{
    return ((struct lent *)user)->ended;
}

static void note_violation(void *user, const char *pointer, const char *message)
{
    struct violations *violations = user;
    size_t i = violations->len++;
    if (i >= sizeof violations->pointer / sizeof *violations->pointer)
        return;
    snprintf(violations->pointer[i], sizeof violations->pointer[i], "%s", pointer);
    snprintf(violations->message[i], sizeof violations->message[i], "%s", message);
}

/* Its ranges, as they are told. */
static const char *judge_ranges(const struct eps_job *job)
{
    static struct violations violations;
    violations.len = 0;
    eps_job_check(job, 0, note_violation, &violations);
    return members_judge(job, &violations);
}

/* ------------------------------------------------------------ a job and what follows it */

/* What is wrong with how the job ended, or NULL. */
static const char *run_job(const struct eps_job *job, struct lent *lent, const struct eps_context *context,
                           struct run *run)
{
    struct eps_result *result = NULL;
    struct eps_error error = {0}, before = {0};
    double operations = NAN, bytes = NAN;
    call_begin(lent, "solve");
    enum eps_status serves = eps_job_serves(context, &before, job, &operations, &bytes);
    run->status = eps_solve(context, &result, &error, job);
    double end = patience_clock();
    run->seconds = end - lent->started;
    polled(lent);
    bool ended = lent->ended, ok = run->status == EPS_OK;
    run->error = error;
    const char *wrong = NULL;
    if (ok != (result != NULL))
        wrong = "a result without EPS_OK, or EPS_OK without a result";
    else if (lent->longest_gap > GAP_MOST)
        wrong = "the hooks were not polled for too long";
    else if (lent->fell)
        wrong = "progress fell, or left [0, 1]";
    else if (!ok && (!error.message[0] || error.status != run->status))
        wrong = "no message, or one of another status";
    else if (run->status == EPS_INTERNAL || run->status == EPS_NO_MEMORY)
        wrong = "internal, or out of memory";
    else if ((run->status == EPS_CANCELED || run->status == EPS_TIMEOUT) && !ended)
        wrong = "stopped though no hook said so";
    else if (!ended && serves == EPS_OK && run->status == EPS_INVALID && !has_optimised(job))
        wrong = "accepted beforehand, then found invalid";
    else if (!ended && (serves == EPS_INVALID || serves == EPS_UNSUPPORTED) && run->status != serves &&
             !(serves == EPS_UNSUPPORTED && has_optimised(job)))
        wrong = "refused beforehand, but not when solved";
    else if (serves == EPS_OK && !(operations >= 0 && bytes >= 0 && isfinite(operations) && isfinite(bytes)))
        wrong = "estimates that are no numbers";
    else if (ok && !is_sound(result))
        wrong = "a result that cannot be";
    else if (ok && !is_document(result))
        wrong = "a result that is no document";
    if (!wrong)
        wrong = judge_ranges(job);
    if (!wrong && ok) {
        struct following following = {context, call_begin, call_end, call_ended, lent};
        wrong = follow(&following, job, result);
    }
    eps_result_destroy(result);
    return wrong;
}

/* Those of odd seeds are extreme. */
static void draw_seed(struct generated *wild, uint64_t seed)
{
    uint64_t state = generate_state(seed);
    generate_job(wild, seed % 2 ? &generate_extreme : &generate_wild, &state);
    eps_job_defaults(&wild->job);
}

/* Computes the matrix, and names it instead. */
static void store(struct generated *wild, const struct eps_context *lent)
{
    struct eps_strategy *strategy = NULL;
    struct eps_context own = *lent, *context = &own;
    own.progress = NULL; /* of the job that follows */
    struct eps_matrix *matrix = &wild->job.mechanism.matrix;
    if (eps_job_check(&wild->job, 0, NULL, NULL) > 0 ||
        eps_strategy_create(context, &strategy, NULL, &wild->job.mechanism) != EPS_OK)
        return;
    const enum eps_normalization normalization = matrix->normalization;
    eps__members_free(&eps__matrix_object, matrix);
    *matrix = (struct eps_matrix){
        .family = EPS_FAMILY_STORED, .stamps = 1, .normalization = normalization, .nonnegative = true};
    snprintf(matrix->stored_id, sizeof matrix->stored_id, "%s", eps_strategy_id(strategy));
    eps_strategy_destroy(strategy);
    eps_job_defaults(&wild->job);
}

static struct eps_context context_of(struct lent *lent, uint64_t seed, double seconds)
{
    uint64_t state = ~seed;
    lent->allowed = draw_below(&state, 20) ? seconds : 0;
    lent->longest_gap = 0;
    lent->gap_call = "";
    lent->cancel_at = draw_below(&state, 12) ? 0 : 1 + draw_below(&state, (uint64_t)1 << draw_below(&state, 14));
    call_begin(lent, "strategy");
    lent->backwards = draw_below(&state, 2);
    struct eps_context context = {.user = lent,
                                  .progress = progress,
                                  .canceled = canceled,
                                  .expired = expired,
                                  .cache_get = cache_get,
                                  .cache_put = cache_put,
                                  .max_operations = 1e13,
                                  .max_bytes = 0x1p31};
    if (draw_below(&state, 3) == 0)
        context.parallel_for = parallel_for;
    if (draw_below(&state, 4) == 0) {
        context.max_operations = draw_log(&state, 1e3, 1e13);
        context.max_bytes = draw_log(&state, 1e4, 0x1p31);
    }
    return context;
}

/* ------------------------------------------------------------ all of them */

/* So that whoever finds this program dead knows where. */
static void note_seed(const char *path, uint64_t seed)
{
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    fprintf(file, "%llu", (unsigned long long)seed);
    fclose(file);
}

static void tell_missed(const char *name)
{
    print_error("# %s is not drawn out to its ends by tests/generate/members.c\n", name);
}

/* So that a new number of the wire's, which nobody draws, is found here. */
TEST(every_number_is_drawn)
{
    for (uint64_t seed = 1; seed < 2 * EXTREMES; seed += 2) {
        struct generated wild;
        draw_seed(&wild, seed);
        generated_free(&wild);
    }
    assert_int_equal(members_missed(tell_missed), 0);
}

TEST(wild_jobs_end_well)
{
    uint64_t first = (uint64_t)setting("SOAK_FIRST", 0), count = (uint64_t)setting("SOAK_COUNT", JOBS);
    double seconds = setting("SOAK_SECONDS", 0.02), longest = 0, gap = 0, started = patience_clock();
    uint64_t longest_seed = first, gap_seed = first;
    bool verbose = getenv("SOAK_VERBOSE") != NULL;
    size_t statuses[EPS_STATUS_COUNT] = {0}, failures = 0;
    struct lent *lent = calloc(1, sizeof *lent);
    assert_non_null(lent);
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct generated wild;
        struct run run = {0};
        note_seed(getenv("SOAK_AT"), seed);
        patience_begin("seed", seed, (unsigned)setting("SOAK_HANG", HANG_SECONDS));
        double began = patience_clock();
        draw_seed(&wild, seed);
        if (verbose) {
            char *text = text_of(&wild.job);
            print_message("# seed %llu: %s\n", (unsigned long long)seed, text ? text : "no text");
            free(text);
        }
        struct eps_context context = context_of(lent, seed, seconds);
        if (wild.stored)
            store(&wild, &context);
        const char *wrong = run_job(&wild.job, lent, &context, &run);
        statuses[run.status]++;
        double took = patience_clock() - began;
        longest_seed = took > longest ? seed : longest_seed;
        longest = fmax(longest, took);
        gap_seed = lent->longest_gap > gap ? seed : gap_seed;
        gap = fmax(gap, lent->longest_gap);
        if (verbose)
            print_message("#   -> %d, %.3f s, with what follows %.3f s, gap %.3f s in %s, %s %s\n", (int)run.status,
                          run.seconds, took, lent->longest_gap, lent->gap_call, run.error.pointer, run.error.message);
        if (wrong) {
            char *text = text_of(&wild.job);
            print_error("# seed %llu: %s: %s (status %d, %.2f s, gap %.2f s): %s\n", (unsigned long long)seed,
                        lent->call, wrong, (int)run.status, run.seconds, lent->longest_gap, text ? text : "no text");
            free(text);
            failures++;
        }
        generated_free(&wild);
    }
    patience_end();
    for (size_t i = 0; i < lent->kept_len; i++)
        free(lent->kept[i].blob);
    free(lent);
    print_message(
        "# %llu jobs in %.0f s: %zu answered, %zu invalid, %zu unsupported, %zu too costly, %zu unattainable, "
        "%zu canceled, %zu timed out; the longest %.2f s (seed %llu), the longest gap between polls %.2f s (seed "
        "%llu)\n",
        (unsigned long long)count, patience_clock() - started, statuses[EPS_OK], statuses[EPS_INVALID],
        statuses[EPS_UNSUPPORTED], statuses[EPS_TOO_COSTLY], statuses[EPS_UNATTAINABLE], statuses[EPS_CANCELED],
        statuses[EPS_TIMEOUT], longest, (unsigned long long)longest_seed, gap, (unsigned long long)gap_seed);
    assert_int_equal(failures, 0);
}

BEFORE_TESTS
{
    gsl_set_error_handler_off();
}
