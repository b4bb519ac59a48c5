/*
 * Checks of a matrix that several families share.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/base/error.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/workload.h"

#define MAX_DENSE 4096 /* rows of a dense matrix that is computed rather than given */

void eps__check_bands(struct eps__check *check, const struct eps_matrix *matrix)
{
    if (matrix->bands == 0)
        eps__check_fail(check, "/matrix/bands", "is required: an integer of at least 1");
    else if (check->block > 0 && matrix->bands > check->block)
        eps__check_fail(check, "/matrix/bands", "must lie in [1, %zu], the number of rows of C (n/stamps)",
                        check->block);
}

void eps__check_target(struct eps__check *check, const struct eps_matrix *matrix)
{
    size_t epochs = matrix->epochs, separation = matrix->separation, block = check->block;

    if (eps_objective_name(matrix->objective) == NULL)
        eps__check_fail(check, "/matrix/objective", "must be mean_squared or max_squared");
    if (block == 0)
        return;
    if (epochs == 0 || epochs > block)
        eps__check_fail(check, "/matrix/epochs", "must lie in [1, %zu], the number of rows of C (n/stamps)", block);
    else if (separation == 0)
        eps__check_fail(check, "/matrix/separation", "must be an integer of at least 1");
    else if (epochs > 1 && separation > (block - 1) / (epochs - 1))
        eps__check_fail(check, "/matrix/separation",
                        "%zu epochs do not fit: (epochs-1) * separation + 1 <= n/stamps = %zu allows at most %zu",
                        epochs, block, (block - 1) / (epochs - 1));
}

void eps__check_toeplitz_workload(struct eps__check *check, const char *what)
{
    const struct eps_workload *workload = &check->job->mechanism.workload;

    if (workload->type == EPS_WORKLOAD_MOMENTUM && workload->cooldown)
        eps__check_fail(check, "/workload/cooldown",
                        "makes the workload non-Toeplitz, but %s needs a Toeplitz workload: omit the cooldown or name "
                        "another family",
                        what);
}

enum eps_status eps__need_toeplitz_workload(struct eps_error *error, const struct eps__workload *workload,
                                            const char *name)
{
    if (eps__workload_is_toeplitz(workload))
        return EPS_OK;
    return eps__error(error, EPS_INVALID, "/workload/cooldown",
                      "%s needs a Toeplitz workload: omit the cooldown, or choose another family", name);
}

void eps__check_dense_size(struct eps__check *check, const char *what)
{
    if (check->block > MAX_DENSE)
        eps__check_fail(check, "/n", "%s is computed densely, for n/stamps of at most %d, not %zu", what, MAX_DENSE,
                        check->block);
}
