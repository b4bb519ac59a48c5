/*
 * The rules of a job that need no computation: ranges, and dependences between members.
 *
 * All violations are reported, not only the first, so that a client can correct them together. A rule is skipped if its
 * premise is itself violated, for example rules that depend on n if n is invalid. A job that no accountant serves is
 * not a violation. Matrix and workload are checked in checks_matrix.c.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/job/checks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/accountants/accountant.h"
#include "lib/base/limits.h"
#include "lib/base/members.h"
#include "lib/sampling/forming/batches.h"
#include "lib/sampling/scheme.h"
#include "lib/strategy/families/family.h"

#define SAMPLES_MOST (UINT64_C(1) << 40) /* of monte_carlo and of an audit */

/* ---------------------------------------------------------------- the sampling */

static const struct {
    const char *pointer, *name;
} additions[EPS__ADDITIONS] = {
    [EPS__TRUNCATION] = {"/sampling/truncation", "truncation"},
    [EPS__EXAMPLES_PER_USER] = {"/sampling/examples_per_user", "examples_per_user"},
    [EPS__LAST_ITERATE] = {"/sampling/last_iterate", "last_iterate"},
};

static void refuse_addition(struct eps__check *check, enum eps__addition addition)
{
    char names[120];
    eps__scheme_names(names, sizeof names, eps__scheme_takes, (int)addition);
    eps__check_fail(check, additions[addition].pointer, "is only allowed with the scheme%s %s",
                    strchr(names, ' ') ? "s" : "", names);
}

/* Refuses additions that the scheme does not support, alone or combined: an accountant that serves one of two would
 * ignore the other. */
static void check_combinations(struct eps__check *check, const struct eps__scheme *scheme,
                               const struct eps_sampling *sampling)
{
    bool given[EPS__ADDITIONS] = {[EPS__TRUNCATION] = sampling->truncation,
                                  [EPS__EXAMPLES_PER_USER] = sampling->examples_per_user > 1,
                                  [EPS__LAST_ITERATE] = sampling->last_iterate};

    for (enum eps__addition a = 0; a < EPS__ADDITIONS; a++) {
        if (!given[a] || eps__scheme_takes(scheme, (int)a))
            continue;
        refuse_addition(check, a);
        given[a] = false;
    }
    for (enum eps__addition a = 0; a < EPS__ADDITIONS; a++)
        for (enum eps__addition b = a + 1; b < EPS__ADDITIONS; b++)
            if (given[a] && given[b] && !(scheme->together >> a & scheme->together >> b & 1))
                eps__check_fail(
                    check, additions[a].pointer,
                    "cannot be combined with sampling.%s, because no dominating pair is known for both; leave out "
                    "one of them",
                    additions[b].name);
}

/* Largest number of trials of a binomial distribution: exact doubles. */
#define TRIALS_MAX 0x1p52
/* Largest data set with truncation. Tails of the batch size are summed over a number of terms proportional to its
 * standard deviation: millions at this size. */
#define TRUNCATED_DATASET_MOST UINT64_C(1000000000000)

/* The number of steps; the largest number tried, if the job solves for n. */
static double trials_of(const struct eps__check *check)
{
    return eps_job_unknown(check->job) == EPS_SOLVE_N ? (double)EPS__N_MOST : fmax((double)check->n, 1);
}

static void check_additions(struct eps__check *check, const struct eps__scheme *scheme,
                            const struct eps_sampling *sampling)
{
    check_combinations(check, scheme, sampling);
    if (sampling->truncation) {
        if (sampling->dataset_size == 0 && eps__scheme_takes(scheme, EPS__TRUNCATION))
            eps__check_fail(check, "/sampling/dataset_size", "is required with truncation: the bound depends on it");
        if (sampling->dataset_size > TRUNCATED_DATASET_MOST && eps__scheme_takes(scheme, EPS__TRUNCATION))
            eps__check_fail(check, "/sampling/dataset_size", "must be at most 1e12 with truncation");
        if (sampling->max_batch_size == 0)
            eps__check_fail(check, "/sampling/truncation/max_batch_size", "must be an integer of at least 1");
    }
    if (sampling->examples_per_user == 0)
        eps__check_fail(check, "/sampling/examples_per_user", "must be an integer of at least 1");
    else if ((double)sampling->examples_per_user * trials_of(check) > TRIALS_MAX)
        eps__check_fail(check, "/sampling/examples_per_user", "times n must be at most 2^52%s",
                        eps_job_unknown(check->job) == EPS_SOLVE_N ? "; n: \"max\" counts as 2^24" : "");
    if (sampling->last_iterate && !eps__family_of(&check->job->mechanism.matrix)->diagonal)
        eps__check_fail(check, "/sampling/last_iterate", "is only allowed with matrix.family identity");
}

static void check_sampling(struct eps__check *check)
{
    const struct eps_sampling *sampling = &check->job->mechanism.sampling;
    const struct eps__scheme *scheme = eps__scheme_find(sampling->scheme);

    if (!scheme) {
        eps__check_fail(check, "/sampling/scheme", "is not a known scheme");
        return;
    }
    eps__check_members(check, &eps__sampling_object, sampling);
    scheme->check(check, sampling);
    check_additions(check, scheme, sampling);
}

/* ---------------------------------------------------------------- the query */

/* If the job solves for a number of steps or runs, epsilon, delta and the noise multiplier are all given. */
static void check_asked(struct eps__check *check, const char *pointer, int given)
{
    if (given != 3)
        eps__check_fail(
            check, pointer,
            "\"max\" solves for the largest number that satisfies epsilon and delta: give all of epsilon, delta "
            "and noise_multiplier (got %d)",
            given);
}

static void check_query(struct eps__check *check)
{
    const struct eps_query *query = &check->job->query;
    enum eps_unknown unknown = eps_job_unknown(check->job);
    bool epsilon = !isnan(query->epsilon), delta = !isnan(query->delta), noise = !isnan(query->noise_multiplier);

    eps__check_members(check, &eps__query_object, query);
    if (query->curve) {
        if (!noise)
            eps__check_fail(check, "/noise_multiplier", "is required with curve: true");
        if (epsilon)
            eps__check_fail(check, "/epsilon", "must be left out with curve: true, which takes only noise_multiplier");
        if (delta)
            eps__check_fail(check, "/delta", "must be left out with curve: true, which takes only noise_multiplier");
    } else if (unknown == EPS_SOLVE_N || unknown == EPS_SOLVE_RUNS) {
        check_asked(check, unknown == EPS_SOLVE_N ? "/n" : "/phases", epsilon + delta + noise);
    } else if (epsilon + delta + noise != 2) {
        eps__check_fail(
            check, "", "give exactly two of epsilon, delta and noise_multiplier (got %d): the job solves for the third",
            epsilon + delta + noise);
    }
}

/* Refuses tuning that the accountant does not accept, even at its default value. Every accountant accepts an audit. */
static void check_tuning_taken(struct eps__check *check, const struct eps_tuning *tuning,
                               const struct eps__accountant *accountant)
{
    struct eps_tuning fresh;
    eps__members_init(&eps__tuning_object, &fresh);
    for (size_t i = 0; i < eps__tuning_object.len; i++) {
        const struct eps__member *member = &eps__tuning_object.members[i];
        bool given = (tuning->given & member->given) || !eps__member_equal(member, tuning, &fresh);
        char pointer[64];
        if (!member->name || !given || member->variants >> accountant->method & 1)
            continue;
        snprintf(pointer, sizeof pointer, "/accountant/%s", member->name);
        eps__check_fail(check, pointer, "is not accepted by %s: leave it out, or use auto, which accepts all tuning",
                        accountant->name);
    }
}

static void refuse_curve(struct eps__check *check, enum eps_accountant name)
{
    char names[120];
    eps__accountant_names_curves(names, sizeof names);
    eps__check_fail(check, "/accountant/method", "%s has no curve; use one of %s", eps_accountant_name(name), names);
}

static void check_tuning(struct eps__check *check)
{
    const struct eps_tuning *tuning = &check->job->query.accountant;
    const struct eps__accountant *accountant = eps__accountant_find(tuning->method);

    if (!accountant) {
        eps__check_fail(check, "/accountant/method", "is not a known accountant");
        return;
    }
    check_tuning_taken(check, tuning, accountant);
    if (check->job->query.curve && !accountant->curves)
        refuse_curve(check, accountant->method);
    eps__check_members(check, &eps__tuning_object, tuning);
    if (tuning->samples > 0 && tuning->threshold_share != 0.5)
        eps__check_fail(check, "/accountant/threshold_share",
                        "cannot be combined with samples, which determine it: leave out one of the two");
    if (tuning->audit > SAMPLES_MOST)
        eps__check_fail(check, "/accountant/audit", "must be at most 2^40");
    if (tuning->audit > 0 && check->job->query.curve)
        eps__check_fail(check, "/accountant/audit", "cannot be combined with curve: true: leave out one of the two");
    if (tuning->samples > SAMPLES_MOST)
        eps__check_fail(check, "/accountant/samples", "must be at most 2^40");
    if (eps_estimator_name(tuning->estimator) == NULL)
        eps__check_fail(check, "/accountant/estimator", "must be auto, plain or tilted");
}

/* n: "max" needs identical, independently sampled steps. */
static void check_largest(struct eps__check *check)
{
    const struct eps_mechanism *mechanism = &check->job->mechanism;
    const struct eps__scheme *scheme = eps__scheme_find(mechanism->sampling.scheme);

    if (*check->prefix)
        eps__check_fail(check, "/n", "\"max\" is only allowed in a job without phases; in a phase, use count: \"max\"");
    else if (check->job->query.curve)
        eps__check_fail(check, "/n", "\"max\" cannot be combined with curve: true");
    else if (!eps__family_of(&mechanism->matrix)->diagonal || mechanism->matrix.stamps != 1)
        eps__check_fail(check, "/n", "\"max\" is only allowed with matrix.family identity and one stamp");
    else if (scheme && (!scheme->independent_rounds || mechanism->sampling.last_iterate))
        eps__check_fail(check, "/n",
                        "\"max\" is only allowed with the schemes poisson and cyclic_poisson, without last_iterate");
    else if (eps__sampling_groups(mechanism) > check->max_n)
        eps__check_fail(check, "/sampling/groups",
                        "must be at most %zu with n: \"max\", which finds a multiple of groups up to that limit",
                        check->max_n);
}

/* Checks the number of steps, given as n or by epochs. False, with a violation, if it is unknown or over the limit. */
static bool check_steps(struct eps__check *check)
{
    const struct eps_mechanism *mechanism = &check->job->mechanism;
    const struct eps_sampling *sampling = &mechanism->sampling;
    size_t before = check->violations, n = mechanism->n;

    if (n == EPS_LARGEST && isnan(mechanism->epochs)) {
        check_largest(check);
        return false;
    }
    if (isnan(mechanism->epochs)) {
        if (n == 0 || n > check->max_n)
            eps__check_fail(check, "/n", "must be an integer in [1, %zu]: the number of steps", check->max_n);
        return check->violations == before;
    }
    size_t steps = eps__sampling_steps(mechanism);
    if (!(mechanism->epochs > 0 && isfinite(mechanism->epochs)))
        eps__check_fail(check, "/epochs", "must be greater than 0");
    else if (sampling->batch_size == 0 || sampling->dataset_size == 0)
        eps__check_fail(check, "/epochs",
                        "needs sampling.batch_size and sampling.dataset_size in place of p or bins, because n = "
                        "ceil(epochs dataset_size/batch_size): give both, or give n");
    else if (steps > check->max_n)
        eps__check_fail(check, "/epochs",
                        "gives n = ceil(epochs dataset_size/batch_size) = %zu, which exceeds the limit of %zu", steps,
                        check->max_n);
    else if (steps > 0 && n != steps)
        eps__check_fail(check, "/epochs", "gives n = %zu, but n is %zu: give only one of the two", steps, n);
    return check->violations == before && steps > 0;
}

/* Checks all members of one mechanism. */
static void check_mechanism(struct eps__check *check)
{
    if (check_steps(check))
        check->n = check->job->mechanism.n;
    eps__check_matrix(check);
    eps__check_workload(check);
    check_sampling(check);
}

/* ---------------------------------------------------------------- phases */

#define RUNS_MOST 0x1p52 /* largest number of steps of all phases together: exact doubles */

/* The phase's noise multiplier must be in the range of a job's. */
static void check_scale(struct eps__check *check, const struct eps_phase *phase)
{
    double noise = check->job->query.noise_multiplier;

    if (eps__in_range(EPS__NOISE_SCALE, phase->noise_scale) && eps__in_range(EPS__NOISE_MULTIPLIER, noise) &&
        !eps__in_range(EPS__NOISE_MULTIPLIER, noise * phase->noise_scale))
        eps__check_fail(check, "/noise_scale",
                        "times noise_multiplier must lie in [1e-9, 1e9], but is %.3g: change one of the two",
                        noise * phase->noise_scale);
}

static void check_phase(struct eps__check *check, const struct eps_phase *phase, size_t index, double *steps)
{
    char prefix[32];
    struct eps_job job = {.mechanism = phase->mechanism, .query = check->job->query};
    struct eps__check own = *check;

    snprintf(prefix, sizeof prefix, "/phases/%zu", index);
    own.job = &job;
    own.prefix = prefix;
    own.n = own.block = 0;
    check_mechanism(&own);
    eps__check_members(&own, &eps__phase_object, phase);
    check_scale(&own, phase);
    if (phase->count == 0)
        eps__check_fail(&own, "/count", "must be an integer of at least 1, or \"max\"");
    if (phase->mechanism.adjacency != check->job->mechanism.adjacency)
        eps__check_fail(&own, "/adjacency", "must be that of the job: leave it out of phases");
    if (phase->mechanism.sampling.examples_per_user != check->job->mechanism.sampling.examples_per_user)
        eps__check_fail(&own, "/sampling/examples_per_user",
                        "must be that of the job: give it next to phases, not inside");
    if (phase->count != EPS_LARGEST)
        *steps += (double)phase->count * (double)own.n;
    check->violations = own.violations;
}

static void check_phases(struct eps__check *check)
{
    const struct eps_job *job = check->job;
    const struct eps_tuning *tuning = &job->query.accountant;
    size_t asked = 0;
    double steps = 0;

    if (job->phases_len > EPS_PHASES_MAX || !job->phases) {
        eps__check_fail(check, "/phases", "must be a list of 1 to %d phases", EPS_PHASES_MAX);
        return;
    }
    if (job->mechanism.n != 0 || !isnan(job->mechanism.epochs))
        eps__check_fail(check, "/phases", "replaces n, epochs, matrix, sampling and workload: leave those out");
    for (size_t i = 0; i < job->phases_len; i++) {
        check_phase(check, &job->phases[i], i, &steps);
        asked += job->phases[i].count == EPS_LARGEST;
    }
    if (steps > RUNS_MOST)
        eps__check_fail(check, "/phases", "must have at most 2^52 steps in total");
    if (asked > 1)
        eps__check_fail(check, "/phases", "count: \"max\" is allowed in one phase only, but is in %zu", asked);
    else if (asked > 0 && job->query.curve)
        eps__check_fail(check, "/phases", "count: \"max\" cannot be combined with curve: true");
    if (tuning->audit > 0)
        eps__check_fail(check, "/accountant/audit", "is not available for phases: leave it out");
}

/* ---------------------------------------------------------------- batches */

static bool forms(const struct eps__scheme *scheme, int unused)
{
    (void)unused;
    return scheme->former;
}

static void check_former(struct eps__check *check)
{
    const struct eps__scheme *scheme = eps__scheme_find(check->job->mechanism.sampling.scheme);
    char names[120];
    if (!scheme || scheme->former)
        return;
    eps__scheme_names(names, sizeof names, forms, 0);
    eps__check_fail(check, "/sampling/scheme", "batches can only be formed for %s", names);
}

/* Checks the size of the data set that batches are formed from. */
static void check_dataset(struct eps__check *check, uint64_t dataset)
{
    const struct eps_sampling *sampling = &check->job->mechanism.sampling;
    if (dataset == 0 && sampling->dataset_size == 0)
        eps__check_fail(check, "/dataset_size", "is required: the number of examples, which are numbered from 0");
    else if (dataset > 0 && sampling->dataset_size > 0 && dataset != sampling->dataset_size)
        eps__check_fail(check, "/dataset_size", "must equal sampling.dataset_size, %llu: leave out one of the two",
                        (unsigned long long)sampling->dataset_size);
    else if ((dataset > 0 ? dataset : sampling->dataset_size) > EPS__BATCHED_MAX)
        eps__check_fail(check, dataset > 0 ? "/dataset_size" : "/sampling/dataset_size",
                        "must be at most %llu: example indices have 32 bits", (unsigned long long)EPS__BATCHED_MAX);
    if (sampling->groups > EPS__BATCHED_MAX)
        eps__check_fail(check, "/sampling/groups", "must be at most %llu", (unsigned long long)EPS__BATCHED_MAX);
}

size_t eps_batches_check(const struct eps_mechanism *mechanism, uint64_t dataset_size, size_t max_n,
                         eps_report_fn *report, void *user)
{
    struct eps_job job;
    struct eps__check check = {
        .job = &job, .prefix = "", .max_n = max_n > 0 ? max_n : EPS__N_MOST, .report = report, .user = user};

    eps_job_init(&job); /* the other members of a job are not checked */
    job.mechanism.n = mechanism->n;
    job.mechanism.sampling = mechanism->sampling;
    if (check_steps(&check))
        check.n = job.mechanism.n;
    check_sampling(&check);
    check_former(&check);
    check_dataset(&check, dataset_size);
    return check.violations;
}

/* ---------------------------------------------------------------- the job */

size_t eps_job_check(const struct eps_job *job, size_t max_n, eps_report_fn *report, void *user)
{
    struct eps__check check = {
        .job = job, .prefix = "", .max_n = max_n > 0 ? max_n : EPS__N_MOST, .report = report, .user = user};

    if (job->phases_len > 0)
        check_phases(&check);
    else
        check_mechanism(&check);
    if (eps_adjacency_name(job->mechanism.adjacency) == NULL)
        eps__check_fail(&check, "/adjacency", "must be zero_out, add_remove or replace_one");
    check_query(&check);
    check_tuning(&check);
    return check.violations;
}
