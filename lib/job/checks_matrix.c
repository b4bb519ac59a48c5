/*
 * The rules of a job's two matrices: the strategy C, whose family has rules of its own, and the workload A. Rules that
 * need the entries of a computed matrix (singular, or negative although amplification needs it non-negative) are
 * checked when the strategy is built.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/job/checks.h"

#include "lib/base/members.h"
#include "lib/sampling/sampling.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/strategy.h"

/* A strategy can be optimised for a job that says what its noise must reach, under a sampling that makes noise cheaper
 * than the sensitivity tells. */
static void check_optimize_for(struct eps__check *check, const struct eps_matrix *matrix)
{
    static const char at[] = "/matrix/optimize_for";
    const struct eps__family_search *search = eps__family_of(matrix)->search;
    if (matrix->optimize_for == EPS_OPTIMIZE_FOR_ERROR)
        return;
    if (eps_optimize_for_name(matrix->optimize_for) == NULL)
        eps__check_fail(check, at, "must be error or job");
    else if (!search)
        eps__check_fail(check, at, "job is not available for family %s: choose error, or another family",
                        eps_family_name(matrix->family));
    else if (!eps__strategy_is_optimised(matrix))
        eps__check_fail(check, at, "job is only allowed where C is optimised: leave out the numbers of C");
    else if (*check->prefix)
        eps__check_fail(check, at, "job is only allowed in a job without phases: choose error");
    else if (!eps__sampling_random(&check->job->mechanism))
        eps__check_fail(check, at,
                        "job needs a scheme that samples: without sampling, choose error, which is the same");
    else if (eps_job_unknown(check->job) != EPS_SOLVE_NOISE_MULTIPLIER)
        eps__check_fail(check, at,
                        "job needs a job that gives epsilon and delta and solves for the noise multiplier: give these "
                        "two, or choose error");
    if (search && search->refusal(matrix))
        eps__check_fail(check, at, "job %s", search->refusal(matrix));
}

static void check_family(struct eps__check *check, const struct eps_matrix *matrix)
{
    const struct eps__family *family = eps__family_of(matrix);

    eps__check_members(check, &eps__matrix_object, matrix);
    check_optimize_for(check, matrix);
    if (family->check)
        family->check(check, matrix);
    if (family->unsampled && eps__sampling_random(&check->job->mechanism))
        eps__check_fail(check, "/matrix/family", "%s is only allowed with sampling.scheme none",
                        eps_family_name(matrix->family));
}

void eps__check_matrix(struct eps__check *check)
{
    const struct eps_matrix *matrix = &check->job->mechanism.matrix;

    if (matrix->stamps == 0)
        eps__check_fail(check, "/matrix/stamps", "must be an integer of at least 1");
    else if (check->n > 0 && check->n % matrix->stamps != 0)
        eps__check_fail(check, "/matrix/stamps",
                        "must divide n: %zu is not a multiple of %zu; the nearest n that is one is %zu", check->n,
                        matrix->stamps, eps__check_nearest_multiple(check, matrix->stamps));
    else
        check->block = check->n / matrix->stamps;

    if (eps_family_name(matrix->family) == NULL)
        eps__check_fail(check, "/matrix/family", "is not a known family");
    else
        check_family(check, matrix);
    if (eps_normalization_name(matrix->normalization) == NULL)
        eps__check_fail(check, "/matrix/normalization", "must be max_column, none or sensitivity");
    else if (matrix->normalization == EPS_NORMALIZATION_SENSITIVITY && eps__sampling_random(&check->job->mechanism))
        eps__check_fail(
            check, "/matrix/normalization",
            "sensitivity is only allowed with sampling.scheme none: amplification needs max_column or none");
}

void eps__check_workload(struct eps__check *check)
{
    const struct eps_workload *workload = &check->job->mechanism.workload;

    if (eps_workload_name(workload->type) == NULL)
        eps__check_fail(check, "/workload/type", "must be prefix_sum, momentum or toeplitz");
    else
        eps__check_members(check, &eps__workload_object, workload);
    if (workload->type == EPS_WORKLOAD_TOEPLITZ)
        eps__check_first_column(check, "/workload/coefficients", workload->coefficients, workload->coefficients_len,
                                check->n);
}
