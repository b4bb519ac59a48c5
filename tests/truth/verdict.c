/*
 * What an answer claims: in each direction delta(eps) <= delta, at the epsilon and the noise multiplier that were
 * given or found for that direction. The lower end of a bracket that is exact, and `least`, claim that nothing under
 * it would do. And an answer of auto is never worse than the bound that needs no accountant: the unamplified Gaussian
 * of the worst pattern.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/truth/verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "tests/truth/mechanism.h"
#include "tests/unit/patience.h"

#define ROUNDING 1e-9L /* of the reported numbers and of the truth's closed forms */

struct clocked {
    double deadline;
};

static bool expired(void *user)
{
    return patience_clock() > ((const struct clocked *)user)->deadline;
}

static void fails(struct verdict *verdict, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void fails(struct verdict *verdict, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(verdict->message, sizeof verdict->message, format, arguments);
    va_end(arguments);
    verdict->outcome = VERDICT_FAILS;
}

/* A point that an answer speaks of. */
struct claim {
    double eps, delta, sigma;
};

/* The claim with `value` in the place of the unknown. */
static struct claim claim_of(const struct eps_result *result, double value)
{
    struct claim claim = {result->epsilon, result->delta, result->noise_multiplier};
    switch (result->solved_for) {
    case EPS_SOLVE_EPSILON:
        claim.eps = value;
        break;
    case EPS_SOLVE_DELTA:
        claim.delta = value;
        break;
    default:
        claim.sigma = value;
        break;
    }
    return claim;
}

/* delta(eps) at the claim's point, or its lower end alone; without noise it is the probability that outputs tell
 * the data sets apart. */
static struct enclosure truth_at(const struct truth *truth, enum eps_direction direction, const struct claim *claim,
                                 const struct effort *effort, bool lower_only)
{
    struct effort own = *effort;
    own.floor = 1e-3L * (long double)claim->delta;
    own.lower_only = lower_only;
    if (claim->sigma > 0)
        return truth_delta(truth, direction, claim->eps, claim->sigma, &own);
    /* The noise that tells all patterns apart for certain, to extended precision. */
    return truth_delta(truth, direction, claim->eps, 1e-3 * (double)truth->sensitivity_lower, &own);
}

/* No reported number is too low. */
static void check_direction(struct verdict *verdict, const struct truth *truth, const struct eps_result *result,
                            enum eps_direction direction, const struct effort *effort)
{
    struct claim claim = claim_of(result, result->directions[direction].value);
    struct enclosure found = truth_at(truth, direction, &claim, effort, true);
    if (found.lower > (long double)claim.delta * (1 + ROUNDING))
        fails(verdict,
              "too low: direction %s claims delta %.17g at epsilon %.17g, sigma %.17g; the truth is %.10Lg or more",
              eps_direction_name(direction), claim.delta, claim.eps, claim.sigma, found.lower);
    double looseness = (double)((long double)claim.delta / found.lower);
    if (result->solved_for == EPS_SOLVE_DELTA ||
        result->directions[direction].value > 0) { /* less than 0 is no answer */
        verdict->loose[direction] = looseness;
        verdict->claimed[direction] = claim.delta;
    }
    if (!(verdict->looseness >= looseness))
        verdict->looseness = looseness;
}

/* A value that is said not to be above the truth: at it, some direction's delta is at least what was asked. */
static void check_under(struct verdict *verdict, const struct truth *truth, const struct eps_result *result,
                        const char *name, double value, const struct effort *effort)
{
    if (!(value > 0))
        return;
    struct claim claim = claim_of(result, value);
    long double most = 0;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        most = fmaxl(most, truth_at(truth, direction, &claim, effort, false).upper);
    if (most < (long double)claim.delta * (1 - ROUNDING))
        fails(
            verdict,
            "%s of [%.17g, %.17g], %.17g, is above the truth: at epsilon %.17g, sigma %.17g delta is %.10Lg, not %.17g",
            name, result->bracket_lower, result->bracket_upper, value, claim.eps, claim.sigma, most, claim.delta);
}

/* The lower end where it is told, or known here, that the truth is inside; and what the truth is said to be at
 * least. */
static void check_lower_ends(struct verdict *verdict, const struct truth *truth, const struct eps_result *result,
                             bool tight, const struct effort *effort)
{
    verdict->exact = result->bracket_exact && result->bracket_lower > 0;
    verdict->least = result->least > 0;
    verdict->tight = (tight || verdict->exact) && result->bracket_lower > 0;
    if (verdict->tight)
        check_under(verdict, truth, result, "the lower end", result->bracket_lower, effort);
    if (verdict->outcome == VERDICT_HOLDS && (!verdict->tight || result->least > result->bracket_lower))
        check_under(verdict, truth, result, "the least", result->least, effort);
}

/* The direction's claim, a little too strong for it: no bound that holds for any such mechanism may prove that. */
static struct claim stronger(const struct eps_result *result, enum eps_direction direction, double tolerance)
{
    double value = result->directions[direction].value, slack = 2 * tolerance;
    struct claim claim = claim_of(result, value);
    if (result->solved_for == EPS_SOLVE_DELTA)
        claim.delta = claim.delta <= 1e-300 ? 0 : claim.delta * (1 - slack);
    else if (result->solved_for == EPS_SOLVE_EPSILON)
        claim.eps = fmax(value * (1 - slack) - 1e-6, 0);
    else
        claim.sigma *= 1 - slack;
    return claim;
}

/* No answer is worse than what is known without any noise; that of auto, than the Gaussian of the worst pattern. */
static void check_simple_bounds(struct verdict *verdict, const struct truth *truth, const struct eps_result *result,
                                enum eps_direction direction, const struct eps_query *query)
{
    struct claim claim = stronger(result, direction, query->accountant.tolerance);
    long double bound = truth_presence(truth, direction, claim.eps), gaussian = 1;
    if (result->directions[direction].value == 0)
        return;
    if (query->accountant.method == EPS_ACCOUNTANT_AUTO && claim.sigma > 1e-8)
        gaussian = truth_gaussian(truth_unamplified(truth) / (long double)claim.sigma, claim.eps);
    if (fminl(bound, gaussian) < (long double)claim.delta * (1 - ROUNDING))
        fails(
            verdict,
            "too loose: direction %s claims delta %.17g at epsilon %.17g, sigma %.17g, where the Gaussian of the worst "
            "pattern gives %.10Lg, and the probability of taking part %.10Lg",
            eps_direction_name(direction), claim.delta, claim.eps, claim.sigma, gaussian, bound);
}

/* What is reported is the worse direction's. */
static void check_worse(struct verdict *verdict, const struct eps_result *result)
{
    double worse = fmax(result->directions[EPS_REMOVE].value, result->directions[EPS_ADD].value);
    double reported = result->solved_for == EPS_SOLVE_EPSILON ? result->epsilon
                      : result->solved_for == EPS_SOLVE_DELTA ? result->delta
                                                              : result->noise_multiplier;
    bool bracketed = result->guarantee == EPS_GUARANTEE_DETERMINISTIC; /* the uncertainty of draws is not numerical */
    if (!(reported >= worse && (result->bracket_upper >= worse || !bracketed)))
        fails(verdict, "too low: %.17g is reported, the bracket ends at %.17g, and a direction needs %.17g", reported,
              result->bracket_upper, worse);
}

static bool expects_truth(const struct truth *truth, const struct eps_job *job, const struct eps_result *result)
{
    enum eps_accountant method = job->query.accountant.method;
    bool sampled = job->mechanism.sampling.scheme != EPS_SCHEME_NONE;
    if (!sampled)
        return result->sensitivity_exact;
    return truth_is_tight(truth) && (method == EPS_ACCOUNTANT_PLD || method == EPS_ACCOUNTANT_AUTO);
}

static void hold(struct verdict *verdict, const struct eps_job *job, const struct eps_result *result,
                 const struct effort *effort)
{
    struct truth truth = truth_open(&job->mechanism);
    verdict->accountant = result->accountant;
    if (truth.kind == TRUTH_NONE) {
        verdict->outcome = VERDICT_UNCHECKED;
        truth_close(&truth);
        return;
    }
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS && verdict->outcome == VERDICT_HOLDS;
         direction++) {
        check_direction(verdict, &truth, result, direction, effort);
        bool bounded = truth.kind == TRUTH_GAUSSIAN || job->mechanism.sampling.redraw ||
                       job->mechanism.sampling.scheme == EPS_SCHEME_B_MIN_SEP; /* their patterns, by rules */
        if (verdict->outcome == VERDICT_HOLDS && (!bounded || result->sensitivity_exact))
            check_simple_bounds(verdict, &truth, result, direction, &job->query);
    }
    if (verdict->outcome == VERDICT_HOLDS)
        check_worse(verdict, result);
    if (verdict->outcome == VERDICT_HOLDS)
        check_lower_ends(verdict, &truth, result, expects_truth(&truth, job, result), effort);
    truth_close(&truth);
}

struct verdict judge(const struct eps_job *job, const struct effort *effort, double seconds)
{
    struct verdict verdict = {.outcome = VERDICT_HOLDS, .looseness = NAN, .loose = {NAN, NAN}};
    double started = patience_clock();
    struct clocked clocked = {started + seconds};
    struct eps_context context = {.user = &clocked, .expired = expired};
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    enum eps_status status = eps_solve(&context, &result, &error, job);
    verdict.seconds = patience_clock() - started;
    switch (status) {
    case EPS_OK:
        hold(&verdict, job, result, effort);
        break;
    case EPS_UNSUPPORTED:
    case EPS_TOO_COSTLY:
    case EPS_INVALID: /* what only the computed matrix shows: it is singular, say */
        verdict.outcome = VERDICT_REFUSED;
        snprintf(verdict.message, sizeof verdict.message, "%s %s", error.pointer, error.message);
        break;
    case EPS_TIMEOUT:
        verdict.outcome = VERDICT_LATE;
        snprintf(verdict.message, sizeof verdict.message, "not over after %g s of processor time", seconds);
        break;
    case EPS_UNATTAINABLE:
        verdict.outcome = VERDICT_UNATTAINABLE;
        break;
    default:
        fails(&verdict, "status %d: %s %s", (int)status, error.pointer, error.message);
    }
    eps_result_destroy(result);
    return verdict;
}
