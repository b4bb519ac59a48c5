/*
 * The mechanisms that a plan tries. Rows of families and schemes say what is worth trying; the checks of jobs and the
 * accountants say which combinations are valid. Nothing is optimised or solved here.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/accountant.h"
#include "lib/accountants/least.h"
#include "lib/accountants/monte_carlo/guarantee.h"
#include "lib/ask/plan_choose.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/sampling/scheme.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/strategy.h"
#include "lib/tuned/tuned.h"

#define OPERATIONS 6e11       /* for the accounting of all candidates, most of which take little */
#define LONG 3e10             /* operations of a strategy from which a candidate comes last */
#define LITTLE 3e8            /* operations up to which a candidate is cheap: a few tenths of a second */
#define TUNED_AMONG 24        /* plain candidates up to which some are optimised for the job, */
#define TUNED_OPERATIONS 2e11 /* where that takes no more than this */
#define NEAR 20               /* n may change by a fraction 1/NEAR to fill whole epochs */

void eps_plan_init(struct eps_plan *plan)
{
    struct eps_job job;
    eps_job_init(&job);
    *plan = (struct eps_plan){.epsilon = NAN,
                              .delta = NAN,
                              .workload = job.mechanism.workload,
                              .objective = job.mechanism.matrix.objective,
                              .adjacency = job.mechanism.adjacency};
}

/* ---------------------------------------------------------------- rules */

static bool wanted(uint32_t bits, int value)
{
    return bits == 0 || (bits >> value & 1);
}

static size_t lengths_of(const struct eps_plan *plan)
{
    return plan->n_len > 0 ? plan->n_len : plan->epochs_len;
}

/* Writes the pointer of entry i of a list of len entries. A list of one entry is written as a scalar. */
static void point(char *out, size_t size, const char *name, size_t i, size_t len)
{
    snprintf(out, size, len > 1 ? "/%s/%zu" : "/%s", name, i);
}

static struct eps_job job_of(const struct eps_plan *plan, size_t batch, size_t length)
{
    struct eps_job job;
    eps_job_init(&job);
    if (plan->n_len > 0)
        job.mechanism.n = plan->n[length];
    else
        job.mechanism.epochs = plan->epochs[length];
    job.mechanism.workload = plan->workload;
    job.mechanism.adjacency = plan->adjacency;
    job.mechanism.sampling.batch_size = plan->batch_sizes[batch];
    job.mechanism.sampling.dataset_size = plan->dataset_size;
    job.query.epsilon = plan->epsilon;
    job.query.delta = plan->verified > 0 ? eps__mc_choice_delta(plan->delta, plan->verified) : plan->delta; /* (A53) */
    return job;
}

/* Reports violations of a job under the plan's own pointers. */
struct forward {
    struct eps__check *check;
    const char *length, *batch; /* pointers of the length and of the batch size */
};

static void forward(void *user, const char *pointer, const char *message)
{
    const struct forward *to = user;
    if (!strcmp(pointer, "/n") || !strcmp(pointer, "/epochs"))
        pointer = to->length;
    else if (!strcmp(pointer, "/sampling/batch_size"))
        pointer = to->batch;
    eps__check_fail(to->check, pointer, "%s", message);
}

/* Checks the rules of DP-SGD with these sizes. Returns false if one is violated. */
static bool check_job(struct eps__check *check, const struct eps_plan *plan, size_t batch, size_t length)
{
    char at_length[40], at_batch[40];
    struct eps_job job = job_of(plan, batch, length);
    const struct forward to = {check, at_length, at_batch};
    point(at_length, sizeof at_length, plan->n_len > 0 ? "n" : "epochs", length, lengths_of(plan));
    point(at_batch, sizeof at_batch, "batch_size", batch, plan->batch_sizes_len);
    eps_job_defaults(&job);
    return eps_job_check(&job, check->max_n, forward, (void *)&to) == 0;
}

static void check_lists(struct eps__check *check, const struct eps_plan *plan)
{
    size_t before = check->violations, lengths = lengths_of(plan);
    if ((plan->n_len > 0) + (plan->epochs_len > 0) != 1)
        eps__check_fail(check, "/n", "give either n or epochs: a number, or a list of numbers");
    if (plan->batch_sizes_len == 0)
        eps__check_fail(check, "/batch_size", "is required: the expected batch size, or a list of them");
    for (size_t i = 0; i < plan->batch_sizes_len; i++) {
        char at[40];
        point(at, sizeof at, "batch_size", i, plan->batch_sizes_len);
        if (plan->batch_sizes[i] == 0)
            eps__check_fail(check, at, "must be an integer of at least 1");
    }
    if (plan->dataset_size == 0)
        eps__check_fail(check, "/dataset_size", "is required: an integer of at least 1");
    if (lengths > EPS_PLAN_PAIRS_MAX || plan->batch_sizes_len > EPS_PLAN_PAIRS_MAX ||
        lengths * plan->batch_sizes_len > EPS_PLAN_PAIRS_MAX)
        eps__check_fail(check, "/batch_size", "combined with %s gives %zu times %zu pairs, but at most %d are allowed",
                        plan->n_len > 0 ? "n" : "epochs", plan->batch_sizes_len, lengths, EPS_PLAN_PAIRS_MAX);
    if (check->violations > before)
        return;
    for (size_t batch = 0; batch < plan->batch_sizes_len; batch++)
        for (size_t length = 0; length < lengths; length++)
            if (!check_job(check, plan, batch, length))
                return; /* most violations would be repeated for every pair */
}

static bool plannable(enum eps_family family)
{
    const struct eps_matrix matrix = {.family = family};
    return eps__family_of(&matrix)->planned;
}

static void check_choice(struct eps__check *check, const struct eps_plan *plan)
{
    const char *names[EPS_FAMILY_COUNT];
    char list[200];
    size_t len = 0;
    for (int f = 0; f < EPS_FAMILY_COUNT; f++)
        if (plannable((enum eps_family)f))
            names[len++] = eps_family_name((enum eps_family)f);
    eps__list(list, sizeof list, names, len);
    for (int f = 0; f < 32; f++)
        if ((plan->families >> f & 1) && !plannable((enum eps_family)f))
            eps__check_fail(check, "/families",
                            "%s cannot be planned, because its numbers must be given: choose from %s",
                            f < EPS_FAMILY_COUNT ? eps_family_name((enum eps_family)f) : "an unknown family", list);
    if (plan->schemes >> EPS_SCHEME_COUNT)
        eps__check_fail(check, "/schemes", "contains an unknown scheme");
    if (plan->verified > EPS_PLAN_VERIFIED_MOST)
        eps__check_fail(check, "/verify", "asks for %u verified candidates, but at most %d are verified",
                        plan->verified, EPS_PLAN_VERIFIED_MOST);
    if (eps_objective_name(plan->objective) == NULL)
        eps__check_fail(check, "/objective", "must be mean_squared or max_squared");
    if (isnan(plan->epsilon))
        eps__check_fail(check, "/epsilon", "is required");
    if (isnan(plan->delta))
        eps__check_fail(check, "/delta", "is required");
}

size_t eps_plan_check(const struct eps_plan *plan, size_t max_n, eps_report_fn *report, void *user)
{
    struct eps__check check = {.prefix = "", .max_n = max_n > 0 ? max_n : EPS__N_MOST, .report = report, .user = user};
    check_choice(&check, plan);
    if (!isnan(plan->epsilon) && !isnan(plan->delta))
        check_lists(&check, plan);
    return check.violations;
}

/* ---------------------------------------------------------------- the candidates */

struct list {
    const struct eps_context *context;
    struct eps_plan_candidate *items;
    size_t len, size;
    size_t pair; /* the current pair of sizes */
    /* for this pair: schemes and families with a served candidate, and their first candidate that is not */
    bool scheme_served[EPS_SCHEME_COUNT], family_served[EPS_FAMILY_COUNT];
    struct eps_plan_candidate *scheme_refused[EPS_SCHEME_COUNT], *family_refused[EPS_FAMILY_COUNT];
};

static enum eps_status append(struct list *list, const struct eps_plan_candidate *candidate)
{
    if (list->len == list->size) {
        size_t size = 2 * list->size + 64;
        struct eps_plan_candidate *items = realloc(list->items, size * sizeof *items);
        if (!items)
            return EPS_NO_MEMORY;
        list->items = items;
        list->size = size;
    }
    list->items[list->len] = *candidate;
    list->items[list->len++].pair = list->pair;
    return EPS_OK;
}

static void keep_first(void *user, const char *pointer, const char *message)
{
    struct eps_plan_candidate *candidate = user;
    if (!candidate->reason[0])
        snprintf(candidate->reason, sizeof candidate->reason, "%s %s", pointer, message);
}

/* Sets the status of a candidate: whether its job is valid and served. */
static void judge(const struct eps_context *context, struct eps_plan_candidate *candidate, size_t max_n)
{
    const struct eps_mechanism *mechanism = &candidate->job.mechanism;
    struct eps_error error = {0};
    if (eps_job_check(&candidate->job, max_n, keep_first, candidate) > 0) {
        candidate->status = EPS_INVALID;
        return;
    }
    if (eps__sampling_random(mechanism) && eps__strategy_is_optimised(&mechanism->matrix) &&
        !eps__strategy_forecast(mechanism).nonnegative) {
        candidate->status = EPS_UNSUPPORTED;
        snprintf(candidate->reason, sizeof candidate->reason,
                 "amplification by sampling needs a strategy with all entries >= 0, which %s does not guarantee",
                 eps_family_name(mechanism->matrix.family));
        return;
    }
    candidate->status = eps__plan_serves(context, &error, &candidate->job);
    if (candidate->status != EPS_OK)
        snprintf(candidate->reason, sizeof candidate->reason, "%s", error.message);
}

static enum eps_status remember_refused(struct eps_plan_candidate **place, const struct eps_plan_candidate *candidate)
{
    if (*place)
        return EPS_OK;
    *place = malloc(sizeof **place);
    if (!*place)
        return EPS_NO_MEMORY;
    **place = *candidate;
    return EPS_OK;
}

static enum eps_status consider(struct list *list, struct eps_plan_candidate *candidate, size_t max_n)
{
    enum eps_scheme scheme = candidate->job.mechanism.sampling.scheme;
    enum eps_family family = candidate->job.mechanism.matrix.family;
    judge(list->context, candidate, max_n);
    switch (candidate->status) {
    case EPS_CANCELED:
    case EPS_TIMEOUT:
    case EPS_NO_MEMORY:
        return candidate->status;
    case EPS_OK:
        list->scheme_served[scheme] = list->family_served[family] = true;
        return append(list, candidate);
    default: {
        enum eps_status status = remember_refused(&list->scheme_refused[scheme], candidate);
        return status != EPS_OK ? status : remember_refused(&list->family_refused[family], candidate);
    }
    }
}

/* Whether the mechanism is DP-SGD, the default of eps_job_init(). */
static bool is_reference(const struct eps_mechanism *mechanism)
{
    struct eps_job plain;
    eps_job_init(&plain);
    return mechanism->sampling.scheme == plain.mechanism.sampling.scheme &&
           mechanism->matrix.family == plain.mechanism.matrix.family;
}

/* Whether a matrix is also tried optimised for the whole job. Nothing is gained where the rows of one round share no
 * column with those of the next: then each round costs what the norms of columns say. */
static bool worth_tuning(const struct eps_mechanism *mechanism)
{
    const struct eps__family_search *search = eps__family_of(&mechanism->matrix)->search;
    bool apart = eps__sampling_independent_rounds(mechanism) &&
                 (double)eps__sampling_groups(mechanism) >= eps__strategy_forecast(mechanism).bands;
    return search && search->planned(&mechanism->matrix) && eps__sampling_random(mechanism) && !apart;
}

/* Adds the candidates of one family under one scheme. */
static enum eps_status add_family(struct list *list, const struct eps_plan *plan, const struct eps_job *base,
                                  enum eps_family family, size_t max_n)
{
    struct eps_plan_candidate candidate = {.job = *base};
    struct eps_mechanism *mechanism = &candidate.job.mechanism;
    mechanism->matrix.family = family;
    const struct eps__family *row = eps__family_of(&mechanism->matrix);
    enum eps_status status = EPS_OK;
    for (size_t i = 0; status == EPS_OK; i++) {
        candidate.job = *base;
        candidate.reason[0] = '\0';
        mechanism->matrix.family = family;
        if (!row->planned(&mechanism->matrix, mechanism->n, i))
            break;
        candidate.bands = mechanism->matrix.bands;
        candidate.bounded = eps__least_noise_concerns(mechanism);
        candidate.reference = is_reference(mechanism);
        candidate.buffers = row->buffers ? row->buffers(&mechanism->matrix, mechanism->n) : mechanism->n - 1;
        if (plan->max_bands > 0 && candidate.buffers >= plan->max_bands)
            continue;
        if (eps__strategy_is_optimised(&mechanism->matrix))
            mechanism->matrix.objective = plan->objective;
        eps_job_defaults(&candidate.job);
        struct eps_plan_candidate tuned = candidate;
        status = eps__poll(list->context);
        if (status == EPS_OK)
            status = consider(list, &candidate, max_n);
        tuned.job.mechanism.matrix.optimize_for = EPS_OPTIMIZE_FOR_JOB;
        if (status == EPS_OK && candidate.status == EPS_OK && worth_tuning(mechanism))
            status = append(list, &tuned);
    }
    return status;
}

/* The nearest number of steps that fills whole epochs, if it is close to n; else n, which is then refused. */
static size_t whole_epochs(const struct eps_mechanism *mechanism, size_t max_n)
{
    size_t n = mechanism->n, bins = eps__sampling_bins(mechanism);
    if (bins == 0)
        return n;
    size_t below = n - n % bins, more = bins - n % bins;
    bool down = below > 0 && (n - below <= more || more > max_n - n);
    return (down ? n - below : more) <= n / NEAR ? (down ? below : n + more) : n;
}

static enum eps_status add_scheme(struct list *list, const struct eps_plan *plan, struct eps_job base,
                                  enum eps_scheme scheme, size_t max_n)
{
    enum eps_status status = EPS_OK;
    base.mechanism.sampling.scheme = scheme;
    const struct eps__scheme *row = eps__scheme_of(&base.mechanism);
    if (row->planned)
        row->planned(&base.mechanism.sampling);
    if (base.mechanism.n == 0)
        base.mechanism.n = eps__sampling_steps(&base.mechanism);
    else
        base.mechanism.n = whole_epochs(&base.mechanism, max_n > 0 ? max_n : EPS__N_MOST);
    base.mechanism.epochs = NAN;
    for (int family = 0; family < EPS_FAMILY_COUNT && status == EPS_OK; family++)
        if (wanted(plan->families, family) && plannable((enum eps_family)family))
            status = add_family(list, plan, &base, (enum eps_family)family, max_n);
    return status;
}

/* Adds one refused candidate for each scheme or family without a served one, with the reason. */
static enum eps_status add_refused(struct list *list)
{
    enum eps_status status = EPS_OK;
    for (int scheme = 0; scheme < EPS_SCHEME_COUNT; scheme++)
        if (!list->scheme_served[scheme] && list->scheme_refused[scheme] && status == EPS_OK)
            status = append(list, list->scheme_refused[scheme]);
    for (int family = 0; family < EPS_FAMILY_COUNT; family++) {
        struct eps_plan_candidate *refused = list->family_refused[family];
        bool told = refused && list->scheme_refused[refused->job.mechanism.sampling.scheme] &&
                    !list->scheme_served[refused->job.mechanism.sampling.scheme];
        if (!list->family_served[family] && refused && !told && status == EPS_OK)
            status = append(list, refused);
    }
    return status;
}

/* Resets the list for the next pair of sizes. */
static void forget(struct list *list)
{
    for (int scheme = 0; scheme < EPS_SCHEME_COUNT; scheme++) {
        free(list->scheme_refused[scheme]);
        list->scheme_refused[scheme] = NULL;
        list->scheme_served[scheme] = false;
    }
    for (int family = 0; family < EPS_FAMILY_COUNT; family++) {
        free(list->family_refused[family]);
        list->family_refused[family] = NULL;
        list->family_served[family] = false;
    }
}

static enum eps_status add_pair(struct list *list, const struct eps_plan *plan, size_t batch, size_t length,
                                size_t max_n)
{
    enum eps_status status = EPS_OK;
    for (int scheme = 0; scheme < EPS_SCHEME_COUNT && status == EPS_OK; scheme++)
        if (wanted(plan->schemes, scheme))
            status = add_scheme(list, plan, job_of(plan, batch, length), (enum eps_scheme)scheme, max_n);
    if (status == EPS_OK)
        status = add_refused(list);
    forget(list);
    list->pair++;
    return status;
}

/* ---------------------------------------------------------------- order */

/* The order of candidates: DP-SGD, cheap ones, the others, and last those with a strategy that is expensive or
 * optimised for the job. Those that may be ruled out come last among the cheap ones and among the others. Amplified
 * ones come first, because they are likely to be better. */
enum turn { REFERENCE, CHEAP_AMPLIFIED, CHEAP, CHEAP_BOUNDED, COSTLY, COSTLY_BOUNDED, LAST };

struct place {
    size_t index; /* index in the original list */
    enum turn turn;
    double operations;
};

static enum turn turn_of(const struct eps_plan_candidate *candidate, double strategy, double accounting)
{
    bool served = candidate->status == EPS_OK;
    bool little = served ? strategy + accounting < LITTLE : candidate->status != EPS_TOO_COSTLY;
    if (served && (strategy > LONG || eps__is_tuned(&candidate->job)))
        return LAST;
    if (served && candidate->reference)
        return REFERENCE;
    if (candidate->bounded)
        return little ? CHEAP_BOUNDED : COSTLY_BOUNDED;
    if (!little)
        return COSTLY;
    return served && eps__sampling_random(&candidate->job.mechanism) ? CHEAP_AMPLIFIED : CHEAP;
}

static int by_turn(const void *x, const void *y)
{
    const struct place *a = x, *b = y;
    if (a->turn != b->turn)
        return a->turn < b->turn ? -1 : 1;
    if (a->operations < b->operations || a->operations > b->operations)
        return a->operations < b->operations ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

/* Leaves out the candidates that are optimised for the job, each of which takes up to a minute, unless the others are
 * few. */
static enum eps_status drop_dear(struct list *list)
{
    size_t kept = 0, plain = 0;
    for (size_t i = 0; i < list->len; i++)
        plain += list->items[i].status == EPS_OK && !eps__is_tuned(&list->items[i].job);
    for (size_t i = 0; i < list->len; i++) {
        double operations = 0;
        bool tuned = eps__is_tuned(&list->items[i].job);
        if (tuned && plain > TUNED_AMONG)
            continue;
        enum eps_status status =
            tuned ? eps__tuned_cost(list->context, &operations, NULL, &list->items[i].job) : EPS_OK;
        if (status == EPS_CANCELED || status == EPS_TIMEOUT || status == EPS_NO_MEMORY)
            return status;
        if (!tuned || (status == EPS_OK && operations <= TUNED_OPERATIONS))
            list->items[kept++] = list->items[i];
    }
    list->len = kept;
    return EPS_OK;
}

/* Chooses the accountant of a candidate, of at most `most` operations, and its place. *left is reduced by what it
 * takes. *needs: the operations that it needs if `most` is too little, else INFINITY. */
static enum eps_status choose_accountant(struct place *place, double *left, double *needs, const struct list *list,
                                         double most)
{
    struct eps_plan_candidate *candidate = &list->items[place->index];
    struct eps_error error = {0};
    double strategy, tuning = 0, accounting = 0, bytes;
    eps__strategy_cost(&candidate->job.mechanism, &strategy, &bytes);
    candidate->status = eps__plan_choose(list->context, &accounting, &error, &candidate->job, most);
    *needs = candidate->status == EPS_TOO_COSTLY ? error.operations : INFINITY;
    if (candidate->status == EPS_OK)
        candidate->status = eps__tuned_cost(list->context, &tuning, &error, &candidate->job);
    if (candidate->status == EPS_CANCELED || candidate->status == EPS_TIMEOUT || candidate->status == EPS_NO_MEMORY)
        return candidate->status;
    assert(accounting <= most);
    *left -= accounting;
    snprintf(candidate->reason, sizeof candidate->reason, "%s", candidate->status == EPS_OK ? "" : error.message);
    place->turn = turn_of(candidate, strategy + tuning, accounting);
    place->operations = strategy + tuning + accounting;
    return EPS_OK;
}

/* Chooses the accountants of the candidates. Each gets an equal share of OPERATIONS. What they leave goes to those for
 * which that is too little, the cheapest first. */
static enum eps_status choose_accountants(struct list *list, struct place *places)
{
    double left = OPERATIONS, *needs = malloc((list->len + 1) * sizeof *needs);
    enum eps_status status = needs ? EPS_OK : EPS_NO_MEMORY;
    for (size_t i = 0; i < list->len && status == EPS_OK; i++) {
        places[i] = (struct place){i, turn_of(&list->items[i], 0, 0), 0};
        needs[i] = INFINITY;
        if (list->items[i].status == EPS_OK)
            status = choose_accountant(&places[i], &left, &needs[i], list, OPERATIONS / (double)list->len);
    }
    while (list->len > 0 && status == EPS_OK) {
        size_t next = 0;
        for (size_t i = 1; i < list->len; i++)
            next = needs[i] < needs[next] ? i : next;
        if (needs[next] > left)
            break;
        status = choose_accountant(&places[next], &left, &needs[next], list, needs[next]);
        needs[next] = INFINITY;
    }
    free(needs);
    return status;
}

static enum eps_status put_in_turn(struct list *list)
{
    size_t len = list->len ? list->len : 1;
    struct place *places = calloc(len, sizeof *places);
    struct eps_plan_candidate *ordered = malloc(len * sizeof *ordered);
    enum eps_status status = places && ordered ? choose_accountants(list, places) : EPS_NO_MEMORY;
    if (status == EPS_OK) {
        qsort(places, list->len, sizeof *places, by_turn);
        for (size_t i = 0; i < list->len; i++)
            ordered[i] = list->items[places[i].index];
        free(list->items);
        list->items = ordered;
        list->size = list->len;
        ordered = NULL;
    }
    free(ordered);
    free(places);
    return status;
}

/* ---------------------------------------------------------------- verification */

/* The accountant that draws: the one that solves by itself. */
static enum eps_accountant drawing(void)
{
    size_t i = 0;
    while (!eps__accountants[i]->solve)
        i++;
    return eps__accountants[i]->method;
}

void eps_plan_verification(struct eps_job *job, double max_seconds)
{
    struct eps_job plain;
    eps_job_init(&plain);
    job->query.accountant = plain.query.accountant;
    job->query.accountant.method = drawing();
    job->query.accountant.max_seconds = max_seconds;
    job->query.accountant.given = 1u << EPS_TUNING_MAX_SECONDS;
}

/* Refuses a plan whose candidates are to be verified, but of which none can be. */
static enum eps_status check_verifiable(const struct list *list, struct eps_error *error)
{
    struct eps_error reason = {0};
    for (size_t i = 0; i < list->len; i++) {
        const struct eps_plan_candidate *candidate = &list->items[i];
        struct eps_error own = {0};
        if (candidate->status != EPS_OK || !eps__sampling_random(&candidate->job.mechanism))
            continue;
        enum eps_status status = eps__plan_verifiable(list->context, &own, &candidate->job);
        if (status == EPS_OK || status == EPS_CANCELED || status == EPS_TIMEOUT || status == EPS_NO_MEMORY)
            return status;
        reason = own;
    }
    return eps__error(error, EPS_UNSUPPORTED, "/verify",
                      "is for a plan with a candidate whose noise draws can reduce, and there is none%s%s: leave it "
                      "out, or allow more schemes and families",
                      reason.message[0] ? ", because for the last one " : "", reason.message);
}

static void first_violation(void *user, const char *pointer, const char *message)
{
    struct eps_error *error = user;
    if (error && error->status == EPS_OK)
        eps__error(error, EPS_INVALID, pointer, "%s", message);
}

enum eps_status eps_plan_candidates(const struct eps_context *context, struct eps_plan_candidate **candidates,
                                    size_t *len, struct eps_error *error, const struct eps_plan *plan, size_t max_n)
{
    struct list list = {.context = context};
    struct eps_error first = {0};
    if (eps_plan_check(plan, max_n, first_violation, &first) > 0) {
        if (error)
            *error = first;
        return EPS_INVALID;
    }
    enum eps_status status = EPS_OK;
    for (size_t batch = 0; batch < plan->batch_sizes_len && status == EPS_OK; batch++)
        for (size_t length = 0; length < lengths_of(plan) && status == EPS_OK; length++)
            status = add_pair(&list, plan, batch, length, max_n);
    if (status == EPS_OK)
        status = drop_dear(&list);
    if (status == EPS_OK)
        status = put_in_turn(&list);
    if (status == EPS_OK && plan->verified > 0)
        status = check_verifiable(&list, &first);
    if (status != EPS_OK) {
        free(list.items);
        if (status == EPS_UNSUPPORTED)
            return eps__error(error, status, first.pointer, "%s", first.message);
        return eps__error(error, status, "", status == EPS_NO_MEMORY ? "out of memory" : "the plan did not finish");
    }
    *candidates = list.items;
    *len = list.len;
    return EPS_OK;
}
