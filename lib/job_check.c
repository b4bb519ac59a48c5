/*
 * The rules of a job that need no computing: ranges, and members that depend on each other.
 *
 * All violations are reported, not the first, because a client corrects a form in one go. A rule whose premise
 * is itself violated (everything measured in n, where n is wrong) is left out: it would only confuse. What an
 * accountant does not serve is no violation: a right job may find no one who answers it. The matrix and the
 * workload are in job_check_matrix.c.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/job_check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "lib/sampling/sampling.h"

#define DEFAULT_MAX_N ((size_t)1 << 24)
#define MAX_SEED ((int64_t)1 << 53)

void eps__check_fail(struct eps__check *check, const char *pointer, const char *format, ...)
{
    char message[320];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    check->violations++;
    if (check->report)
        check->report(check->user, pointer, message);
}

/* ---------------------------------------------------------------- the sampling */

/* Scheme none with batch_size and dataset_size: the participation is what follows from them, and nothing else. */
static void check_turns(struct eps__check *check, const struct eps_sampling *sampling)
{
    struct eps__turns turns;

    if (sampling->batch_size == 0 && sampling->dataset_size == 0)
        return;
    if (sampling->batch_size == 0 || sampling->dataset_size == 0) {
        eps__check_fail(check, sampling->batch_size ? "/sampling/dataset_size" : "/sampling/batch_size",
                        "is required with sampling.%s: epochs and separation follow from the two",
                        sampling->batch_size ? "batch_size" : "dataset_size");
        return;
    }
    if (sampling->batch_size > sampling->dataset_size) {
        eps__check_fail(check, "/sampling/batch_size", "must be at most dataset_size, %llu",
                        (unsigned long long)sampling->dataset_size);
        return;
    }
    if (check->n == 0 || !eps__sampling_turns(&turns, &check->job->mechanism))
        return;
    if (sampling->epochs != turns.times)
        eps__check_fail(
            check, "/sampling/epochs",
            "must be %zu, which is n batch_size/dataset_size rounded up: leave it out, or leave out the sizes",
            turns.times);
    if (sampling->separation != turns.apart)
        eps__check_fail(
            check, "/sampling/separation",
            "must be %zu, which is dataset_size/batch_size rounded down: leave it out, or leave out the sizes",
            turns.apart);
    if (!turns.even && turns.times > 1 && sampling->schema == EPS_SCHEMA_FIXED_ORDER)
        eps__check_fail(
            check, "/sampling/schema",
            "must be min_separation: dataset_size is no multiple of batch_size, and participations are %zu or "
            "%zu steps apart",
            turns.apart, turns.apart + 1);
}

static void check_participation(struct eps__check *check, const struct eps_sampling *sampling)
{
    size_t k = sampling->epochs, b = sampling->separation, n = check->n;

    if (eps_schema_name(sampling->schema) == NULL)
        eps__check_fail(check, "/sampling/schema", "must be fixed_order or min_separation");
    check_turns(check, sampling);
    if (n == 0)
        return;
    if (k == 0 || k > n)
        eps__check_fail(check, "/sampling/epochs", "must lie in [1, %zu]: an example takes part at most once a step",
                        n);
    else if (b == 0)
        eps__check_fail(check, "/sampling/separation", "must be an integer of at least 1");
    else if (k > 1 && b > (n - 1) / (k - 1))
        eps__check_fail(check, "/sampling/separation",
                        "%zu epochs do not fit: (epochs-1) * separation + 1 <= n = %zu allows at "
                        "most %zu",
                        k, n, (n - 1) / (k - 1));
}

/* batch_size and dataset_size, where p (or bins) is derived from them. True if both are there and sensible. */
static bool check_sizes(struct eps__check *check, const struct eps_sampling *sampling, const char *instead, bool given)
{
    char pointer[32];

    snprintf(pointer, sizeof pointer, "/sampling/%s", instead);
    if (sampling->batch_size == 0) {
        if (!given)
            eps__check_fail(check, pointer, "is required, or batch_size with dataset_size, from which it is derived");
        return false;
    }
    if (given) {
        eps__check_fail(check, pointer, "give %s, or batch_size with dataset_size, not both", instead);
        return false;
    }
    if (sampling->dataset_size == 0) {
        eps__check_fail(check, "/sampling/dataset_size", "is required with batch_size: %s is derived from the two",
                        instead);
        return false;
    }
    if (sampling->batch_size > sampling->dataset_size) {
        eps__check_fail(check, "/sampling/batch_size", "must be at most dataset_size, %llu",
                        (unsigned long long)sampling->dataset_size);
        return false;
    }
    return true;
}

static void check_probability(struct eps__check *check, const struct eps_sampling *sampling)
{
    bool given = !isnan(sampling->p);
    unsigned long long most = 0;

    if (given && !(sampling->p > 0.0 && sampling->p <= 1.0))
        eps__check_fail(check, "/sampling/p", "must lie in (0, 1]");
    if (!check_sizes(check, sampling, "p", given))
        return;
    /* p <= 1 exactly where the batch fits into dataset/groups, or dataset/separation: integers, no rounding */
    if (sampling->scheme == EPS_SCHEME_CYCLIC_POISSON && sampling->groups > 0) {
        most = sampling->dataset_size / sampling->groups;
        if (sampling->batch_size > most)
            eps__check_fail(check, "/sampling/batch_size",
                            "makes p = groups * batch_size/dataset_size = %.6g, over 1: at most "
                            "%llu with %zu groups",
                            eps__sampling_probability(&check->job->mechanism), most, sampling->groups);
    } else if (sampling->scheme == EPS_SCHEME_B_MIN_SEP && sampling->separation > 0) {
        most = sampling->dataset_size / sampling->separation;
        if (sampling->batch_size > most)
            eps__check_fail(check, "/sampling/batch_size",
                            "cannot be reached: with p0 = batch_size/dataset_size, p = p0/(1 - p0 "
                            "(separation-1)) leaves (0, 1]; at most %llu with separation %zu",
                            most, sampling->separation);
    }
}

static void check_bins(struct eps__check *check, const struct eps_sampling *sampling)
{
    size_t n = check->n, bins = eps__sampling_bins(&check->job->mechanism);
    bool derived = check_sizes(check, sampling, "bins", sampling->bins > 0);

    if (n == 0 || bins == 0 || n % bins == 0)
        return;
    size_t below = n / bins * bins, above = below + bins;
    size_t nearest = below == 0 || (above - n < n - below && above <= check->max_n) ? above : below;
    eps__check_fail(check, derived ? "/sampling/batch_size" : "/sampling/bins",
                    "%s %zu bins, which do not divide n = %zu; the nearest n that works is %zu",
                    derived ? "gives" : "asks for", bins, n, nearest);
}

static void check_groups(struct eps__check *check, const struct eps_sampling *sampling)
{
    if (sampling->groups == 0)
        eps__check_fail(check, "/sampling/groups", "is required: the matrix has no bandwidth under n to take it from");
    else if (sampling->dataset_size > 0 && sampling->groups > sampling->dataset_size)
        eps__check_fail(check, "/sampling/groups", "must be at most dataset_size, %llu",
                        (unsigned long long)sampling->dataset_size);
}

/* What may be added to some schemes, and which two of them may be added together: those for which a dominating pair is
 * derived (sampling/LEMMAS.md, L4). Every other pair is refused, because what serves one would ignore the other. */
enum addition { TRUNCATION, EXAMPLES_PER_USER, LAST_ITERATE, ADDITIONS };

static const struct {
    const char *pointer, *name;
    uint32_t schemes; /* bits (1u << enum eps_scheme) */
    const char *schemes_text;
    uint32_t with; /* bits (1u << enum addition) */
} additions[ADDITIONS] = {
    [TRUNCATION] = {"/sampling/truncation", "truncation",
                    1u << EPS_SCHEME_POISSON | 1u << EPS_SCHEME_CYCLIC_POISSON | 1u << EPS_SCHEME_B_MIN_SEP,
                    "poisson, cyclic_poisson and b_min_sep", 0},
    [EXAMPLES_PER_USER] = {"/sampling/examples_per_user", "examples_per_user",
                           1u << EPS_SCHEME_POISSON | 1u << EPS_SCHEME_B_MIN_SEP, "poisson and b_min_sep",
                           1u << LAST_ITERATE},
    [LAST_ITERATE] = {"/sampling/last_iterate", "last_iterate", 1u << EPS_SCHEME_POISSON, "poisson",
                      1u << EXAMPLES_PER_USER},
};

static void check_combinations(struct eps__check *check, const struct eps_sampling *sampling)
{
    bool given[ADDITIONS] = {[TRUNCATION] = sampling->truncation,
                             [EXAMPLES_PER_USER] = sampling->examples_per_user > 1,
                             [LAST_ITERATE] = sampling->last_iterate};

    for (enum addition a = 0; a < ADDITIONS; a++) {
        if (!given[a] || additions[a].schemes >> sampling->scheme & 1)
            continue;
        eps__check_fail(check, additions[a].pointer, "goes with the scheme%s %s only", a == LAST_ITERATE ? "" : "s",
                        additions[a].schemes_text);
        given[a] = false;
    }
    for (enum addition a = 0; a < ADDITIONS; a++)
        for (enum addition b = a + 1; b < ADDITIONS; b++)
            if (given[a] && given[b] && !(additions[a].with >> b & 1))
                eps__check_fail(
                    check, additions[a].pointer,
                    "does not go with sampling.%s: no dominating pair is known for both together; leave one of "
                    "them out",
                    additions[b].name);
}

/* Counts of a Binomial law must be exact doubles. */
#define TRIALS_MAX 0x1p52

static void check_additions(struct eps__check *check, const struct eps_sampling *sampling)
{
    check_combinations(check, sampling);
    if (sampling->truncation) {
        if (sampling->dataset_size == 0 && additions[TRUNCATION].schemes >> sampling->scheme & 1)
            eps__check_fail(check, "/sampling/dataset_size", "is required with truncation: the bound depends on it");
        if (sampling->max_batch_size == 0)
            eps__check_fail(check, "/sampling/truncation/max_batch_size", "must be an integer of at least 1");
    }
    if (sampling->examples_per_user == 0)
        eps__check_fail(check, "/sampling/examples_per_user", "must be an integer of at least 1");
    else if ((double)sampling->examples_per_user * fmax((double)check->n, 1) > TRIALS_MAX)
        eps__check_fail(check, "/sampling/examples_per_user", "times n must be at most 2^52");
    else if (sampling->examples_per_user > 1 && sampling->scheme == EPS_SCHEME_B_MIN_SEP && sampling->warm_start)
        eps__check_fail(check, "/sampling/warm_start",
                        "must be false with examples_per_user over 1: only the cold start is "
                        "analysed");
    if (sampling->last_iterate && check->job->mechanism.matrix.family != EPS_FAMILY_IDENTITY)
        eps__check_fail(check, "/sampling/last_iterate", "goes with matrix.family identity only");
}

static void check_sampling(struct eps__check *check)
{
    const struct eps_sampling *sampling = &check->job->mechanism.sampling;

    switch (sampling->scheme) {
    case EPS_SCHEME_NONE:
        check_participation(check, sampling);
        break;
    case EPS_SCHEME_POISSON:
        check_probability(check, sampling);
        break;
    case EPS_SCHEME_CYCLIC_POISSON:
        check_groups(check, sampling);
        check_probability(check, sampling);
        break;
    case EPS_SCHEME_BALLS_IN_BINS:
        check_bins(check, sampling);
        break;
    case EPS_SCHEME_B_MIN_SEP:
        if (sampling->separation == 0)
            eps__check_fail(check, "/sampling/separation",
                            "is required: the matrix has no bandwidth under n to take it from");
        check_probability(check, sampling);
        break;
    case EPS_SCHEME_COUNT:
    default:
        eps__check_fail(check, "/sampling/scheme", "is no scheme");
        return;
    }
    check_additions(check, sampling);
}

/* ---------------------------------------------------------------- the query */

static void check_query(struct eps__check *check)
{
    const struct eps_query *query = &check->job->query;
    bool epsilon = !isnan(query->epsilon), delta = !isnan(query->delta), noise = !isnan(query->noise_multiplier);

    if (epsilon && !(query->epsilon >= 0.0 && query->epsilon <= 1e4))
        eps__check_fail(check, "/epsilon", "must lie in [0, 10000]");
    if (delta && !(query->delta > 0.0 && query->delta < 1.0))
        eps__check_fail(check, "/delta", "must lie in (0, 1)");
    if (noise && !(query->noise_multiplier > 0.0 && query->noise_multiplier <= 1e9))
        eps__check_fail(check, "/noise_multiplier", "must lie in (0, 1e9]");

    if (query->curve) {
        if (!noise)
            eps__check_fail(check, "/noise_multiplier", "is required with curve: true");
        if (epsilon)
            eps__check_fail(check, "/epsilon", "leave it out with curve: true, which takes the noise multiplier alone");
        if (delta)
            eps__check_fail(check, "/delta", "leave it out with curve: true, which takes the noise multiplier alone");
    } else if (epsilon + delta + noise != 2) {
        eps__check_fail(check, "",
                        "give exactly two of epsilon, delta and noise_multiplier (here %d): the third is what is "
                        "solved for",
                        epsilon + delta + noise);
    }
}

static void check_tuning_taken(struct eps__check *check, const struct eps_tuning *tuning)
{
    enum eps_accountant method = tuning->method;
    const char *name = eps_accountant_name(method);
    bool automatic = method == EPS_ACCOUNTANT_AUTO;
    bool sampled = automatic || method == EPS_ACCOUNTANT_MONTE_CARLO;
    bool renyi = automatic || method == EPS_ACCOUNTANT_RENYI;
    bool shared = automatic || method == EPS_ACCOUNTANT_MMCC || method == EPS_ACCOUNTANT_CONDITIONAL_COMPOSITION;
    const struct {
        const char *pointer;
        bool given;
        bool taken;
    } rules[] = {
        {"/accountant/tolerance", tuning->tolerance_given, method != EPS_ACCOUNTANT_MONTE_CARLO},
        {"/accountant/bad_event_share", tuning->bad_event_share_given || !isnan(tuning->bad_event_share), shared},
        {"/accountant/max_order", tuning->max_order != 0, renyi},
        {"/accountant/bandwidth", tuning->bandwidth != 0, renyi},
        {"/accountant/samples", tuning->samples != 0, sampled},
        {"/accountant/seed", tuning->seed != -1, sampled},
        {"/accountant/threshold_share", tuning->threshold_share_given, sampled},
        {"/accountant/estimator", tuning->estimator_given, sampled},
        {"/accountant/max_seconds", !isnan(tuning->max_seconds), sampled},
    };

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].given && !rules[i].taken)
            eps__check_fail(check, rules[i].pointer,
                            "is no tuning of %s: leave it out, or ask for auto, which takes all", name);
    }
}

static void check_tuning(struct eps__check *check)
{
    const struct eps_tuning *tuning = &check->job->query.accountant;
    enum eps_accountant method = tuning->method;

    if (eps_accountant_name(method) == NULL) {
        eps__check_fail(check, "/accountant/method", "is no accountant");
        return;
    }
    check_tuning_taken(check, tuning);
    if (check->job->query.curve && method != EPS_ACCOUNTANT_AUTO && method != EPS_ACCOUNTANT_GAUSSIAN &&
        method != EPS_ACCOUNTANT_PLD && method != EPS_ACCOUNTANT_RENYI)
        eps__check_fail(check, "/accountant/method", "%s returns no curve: gaussian, pld, renyi and auto do",
                        eps_accountant_name(method));
    if (!(tuning->tolerance >= 1e-9 && tuning->tolerance <= 0.1))
        eps__check_fail(check, "/accountant/tolerance", "must lie in [1e-9, 0.1]");
    if (!isnan(tuning->bad_event_share) && !(tuning->bad_event_share > 0.0 && tuning->bad_event_share < 1.0))
        eps__check_fail(check, "/accountant/bad_event_share", "must lie in (0, 1), or be \"auto\"");
    if (tuning->max_order == 1)
        eps__check_fail(check, "/accountant/max_order", "must be an integer of at least 2");
    if (tuning->seed < -1 || tuning->seed > MAX_SEED)
        eps__check_fail(check, "/accountant/seed", "must lie in [0, 2^53]");
    if (!(tuning->threshold_share > 0.0 && tuning->threshold_share < 1.0))
        eps__check_fail(check, "/accountant/threshold_share", "must lie in (0, 1)");
    if (eps_estimator_name(tuning->estimator) == NULL)
        eps__check_fail(check, "/accountant/estimator", "must be auto, plain or tilted");
    if (!isnan(tuning->max_seconds) && !(tuning->max_seconds > 0.0 && isfinite(tuning->max_seconds)))
        eps__check_fail(check, "/accountant/max_seconds", "must be over 0");
}

/* The number of steps, given or by epochs. False, with a violation, where it is not known or over the limit. */
static bool check_steps(struct eps__check *check)
{
    const struct eps_mechanism *mechanism = &check->job->mechanism;
    const struct eps_sampling *sampling = &mechanism->sampling;
    size_t before = check->violations, n = mechanism->n;

    if (isnan(mechanism->epochs)) {
        if (n == 0 || n > check->max_n)
            eps__check_fail(check, "/n", "must be an integer in [1, %zu]: the number of steps", check->max_n);
        return check->violations == before;
    }
    size_t steps = eps__sampling_steps(mechanism);
    if (!(mechanism->epochs > 0 && isfinite(mechanism->epochs)))
        eps__check_fail(check, "/epochs", "must be over 0");
    else if (sampling->batch_size == 0 || sampling->dataset_size == 0)
        eps__check_fail(
            check, "/epochs",
            "needs sampling.batch_size and sampling.dataset_size (in the place of p, of bins), from which n = "
            "ceil(epochs dataset_size/batch_size): give both, or give n");
    else if (steps > check->max_n)
        eps__check_fail(check, "/epochs", "makes n = ceil(epochs dataset_size/batch_size) = %zu, over the limit of %zu",
                        steps, check->max_n);
    else if (steps > 0 && n != steps)
        eps__check_fail(check, "/epochs", "makes n = %zu, and n is %zu: give one of the two", steps, n);
    return check->violations == before && steps > 0;
}

size_t eps_job_check(const struct eps_job *job, size_t max_n, eps_report_fn *report, void *user)
{
    struct eps__check check = {.job = job, .max_n = max_n > 0 ? max_n : DEFAULT_MAX_N, .report = report, .user = user};

    if (check_steps(&check))
        check.n = job->mechanism.n;
    eps__check_matrix(&check);
    eps__check_workload(&check);
    check_sampling(&check);
    if (eps_adjacency_name(job->mechanism.adjacency) == NULL)
        eps__check_fail(&check, "/adjacency", "must be zero_out, add_remove or replace_one");
    check_query(&check);
    check_tuning(&check);
    return check.violations;
}
