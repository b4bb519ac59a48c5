/*
 * The rules of a job's two matrices: the strategy C and the workload A. What needs the numbers of a computed
 * matrix (singular, negative where amplification needs none) is left to the strategy.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/job_check.h"
#include "lib/sampling/sampling.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_DENSE 4096 /* rows of a dense matrix that is computed, not given */
#define MAX_BUFFERS 16 /* of a BLT, given or optimised: beyond, doubles have nothing to add at any length */
#define MAX_LISTED 16  /* offenders named per array */

static void check_finite(struct eps__check *check, const char *pointer, const double *values, size_t len,
                         size_t columns)
{
    size_t listed = 0;

    for (size_t i = 0; i < len && listed < MAX_LISTED; i++) {
        char where[96];
        if (isfinite(values[i]))
            continue;
        listed++;
        if (columns > 0)
            snprintf(where, sizeof where, "%s/%zu/%zu", pointer, i / columns, i % columns);
        else
            snprintf(where, sizeof where, "%s/%zu", pointer, i);
        eps__check_fail(check, where, "must be a finite number");
    }
}

static void check_first_column(struct eps__check *check, const char *pointer, const double *values, size_t len,
                               size_t most)
{
    if (len == 0 || !values)
        eps__check_fail(check, pointer, "is required: a list of numbers, the first column of a Toeplitz matrix");
    else if (most > 0 && len > most)
        eps__check_fail(check, pointer, "has %zu numbers, but the matrix has %zu rows: give 1 to %zu, the rest are 0",
                        len, most, most);
    else
        check_finite(check, pointer, values, len, 0);
}

static void check_rows(struct eps__check *check, const struct eps_matrix *matrix)
{
    if (matrix->rows_n == 0 || !matrix->rows)
        eps__check_fail(check, "/matrix/rows", "is required: the rows of C");
    else if (check->block > 0 && matrix->rows_n != check->block)
        eps__check_fail(check, "/matrix/rows", "has %zu rows, but C has n/stamps = %zu", matrix->rows_n, check->block);
    else
        check_finite(check, "/matrix/rows", matrix->rows, matrix->rows_n * matrix->rows_n, matrix->rows_n);
}

static void check_bands(struct eps__check *check, const struct eps_matrix *matrix)
{
    if (matrix->bands == 0)
        eps__check_fail(check, "/matrix/bands", "is required: an integer of at least 1");
    else if (check->block > 0 && matrix->bands > check->block)
        eps__check_fail(check, "/matrix/bands", "must lie in [1, %zu], the number of rows of C (n/stamps)",
                        check->block);
}

static void check_blt(struct eps__check *check, const struct eps_matrix *matrix)
{
    bool given = matrix->blt_len > 0;

    if (given == (matrix->buffers > 0))
        eps__check_fail(check, "/matrix/buffers", "give either buffers (optimised) or decay with scale (given), %s",
                        given ? "not both" : "one of them");
    if (matrix->buffers > MAX_BUFFERS)
        eps__check_fail(check, "/matrix/buffers", "must lie in [1, %d]: more bring nothing", MAX_BUFFERS);
    else if (check->block > 0 && matrix->buffers > check->block)
        eps__check_fail(check, "/matrix/buffers", "must lie in [1, %zu], the number of rows of C (n/stamps)",
                        check->block);
    if (!given)
        return;
    if (!matrix->decay || !matrix->scale) {
        eps__check_fail(check, matrix->decay ? "/matrix/scale" : "/matrix/decay",
                        "is required beside the other of the two");
        return;
    }
    if (matrix->blt_len > MAX_BUFFERS)
        eps__check_fail(check, "/matrix/decay", "must have at most %d numbers, not %zu: more buffers bring nothing",
                        MAX_BUFFERS, matrix->blt_len);
    for (size_t i = 0, listed = 0; i < matrix->blt_len && listed < MAX_LISTED; i++) {
        char where[96];
        if (matrix->decay[i] > 0.0 && matrix->decay[i] < 1.0)
            continue;
        listed++;
        snprintf(where, sizeof where, "/matrix/decay/%zu", i);
        eps__check_fail(check, where, "must lie in (0, 1)");
    }
    check_finite(check, "/matrix/scale", matrix->scale, matrix->blt_len, 0);
}

static void check_target(struct eps__check *check, const struct eps_matrix *matrix)
{
    size_t epochs = matrix->epochs, separation = matrix->separation, block = check->block;

    if (eps_objective_name(matrix->objective) == NULL)
        eps__check_fail(check, "/matrix/objective", "must be mean_squared or max_squared");
    if (!(matrix->gap > 0.0 && matrix->gap < 1.0))
        eps__check_fail(check, "/matrix/gap", "must lie in (0, 1)");
    if (block == 0)
        return;
    if (epochs == 0 || epochs > block)
        eps__check_fail(check, "/matrix/epochs", "must lie in [1, %zu], the number of rows of C (n/stamps)", block);
    else if (separation == 0)
        eps__check_fail(check, "/matrix/separation", "must be an integer of at least 1");
    else if (epochs > 1 && separation > (block - 1) / (epochs - 1))
        eps__check_fail(check, "/matrix/separation",
                        "%zu epochs do not fit: (epochs-1) * separation + 1 <= n/stamps = %zu allows "
                        "at most %zu",
                        epochs, block, (block - 1) / (epochs - 1));
}

static void check_toeplitz_workload(struct eps__check *check, const char *what)
{
    const struct eps_workload *workload = &check->job->mechanism.workload;

    if (workload->type == EPS_WORKLOAD_MOMENTUM && workload->cooldown)
        eps__check_fail(check, "/workload/cooldown",
                        "makes the workload not Toeplitz, and %s needs a Toeplitz one: leave the cooldown out or name "
                        "another family",
                        what);
}

static void check_dense_size(struct eps__check *check, const char *what)
{
    if (check->block > MAX_DENSE)
        eps__check_fail(check, "/n", "%s is computed densely, for n/stamps of at most %d, not %zu", what, MAX_DENSE,
                        check->block);
}

static void check_id(struct eps__check *check, const char *id)
{
    if (strspn(id, "0123456789abcdef") != 64 || id[64] != '\0')
        eps__check_fail(check, "/matrix/id",
                        "must be 64 lower-case hexadecimal digits: a factorization.id of an earlier result");
}

static void check_family(struct eps__check *check, const struct eps_matrix *matrix)
{
    bool online = matrix->decoder == EPS_DECODER_ONLINE, full = matrix->decoder == EPS_DECODER_FULL;

    switch (matrix->family) {
    case EPS_FAMILY_TOEPLITZ:
        check_first_column(check, "/matrix/coefficients", matrix->coefficients, matrix->coefficients_len, check->block);
        break;
    case EPS_FAMILY_DENSE:
        check_rows(check, matrix);
        break;
    case EPS_FAMILY_BANDED:
        check_bands(check, matrix);
        check_target(check, matrix);
        if (!matrix->toeplitz)
            check_dense_size(check, "banded with toeplitz: false");
        if (!matrix->toeplitz && matrix->epochs > 1 && matrix->bands > matrix->separation)
            eps__check_fail(check, "/matrix/bands",
                            "with toeplitz: false must be at most matrix.separation = %zu, so that the columns of one "
                            "pattern do not overlap",
                            matrix->separation);
        if (matrix->toeplitz)
            check_toeplitz_workload(check, "banded with toeplitz: true");
        if (!matrix->toeplitz && matrix->column_normalize)
            eps__check_fail(check, "/matrix/column_normalize",
                            "goes with toeplitz: true; without it the columns are equal as is");
        break;
    case EPS_FAMILY_BANDED_INVERSE:
        check_bands(check, matrix);
        check_target(check, matrix);
        check_toeplitz_workload(check, "banded_inverse");
        break;
    case EPS_FAMILY_SQUARE_ROOT:
    case EPS_FAMILY_INVERSE_SQUARE_ROOT:
        check_bands(check, matrix);
        check_toeplitz_workload(check, eps_family_name(matrix->family));
        break;
    case EPS_FAMILY_BLT:
        check_blt(check, matrix);
        if (matrix->blt_len == 0) {
            check_target(check, matrix);
            check_toeplitz_workload(check, "blt with buffers");
        }
        break;
    case EPS_FAMILY_OPTIMAL:
        check_target(check, matrix);
        check_dense_size(check, "family optimal");
        break;
    case EPS_FAMILY_TREE:
        if (!online && !full)
            eps__check_fail(check, "/matrix/decoder", "must be online or full");
        break;
    case EPS_FAMILY_FOURIER:
        if (matrix->decoder != EPS_DECODER_OPTIMAL && matrix->decoder != EPS_DECODER_STANDARD)
            eps__check_fail(check, "/matrix/decoder", "must be optimal or standard");
        if (eps__sampling_random(&check->job->mechanism))
            eps__check_fail(check, "/matrix/family", "fourier goes with sampling.scheme none only");
        break;
    case EPS_FAMILY_STORED:
        check_id(check, matrix->stored_id);
        break;
    case EPS_FAMILY_IDENTITY:
    case EPS_FAMILY_COUNT:
        break;
    }
}

void eps__check_matrix(struct eps__check *check)
{
    const struct eps_matrix *matrix = &check->job->mechanism.matrix;

    if (matrix->stamps == 0)
        eps__check_fail(check, "/matrix/stamps", "must be an integer of at least 1");
    else if (check->n > 0 && check->n % matrix->stamps != 0)
        eps__check_fail(check, "/matrix/stamps", "must divide n: %zu is no multiple of %zu", check->n, matrix->stamps);
    else
        check->block = check->n / matrix->stamps;

    if (eps_family_name(matrix->family) == NULL)
        eps__check_fail(check, "/matrix/family", "is no family");
    else
        check_family(check, matrix);
    if (eps_normalization_name(matrix->normalization) == NULL)
        eps__check_fail(check, "/matrix/normalization", "must be max_column, none or sensitivity");
    else if (matrix->normalization == EPS_NORMALIZATION_SENSITIVITY && eps__sampling_random(&check->job->mechanism))
        eps__check_fail(check, "/matrix/normalization",
                        "sensitivity goes with sampling.scheme none only: amplified analyses need "
                        "max_column or none");
}

void eps__check_workload(struct eps__check *check)
{
    const struct eps_workload *workload = &check->job->mechanism.workload;

    if (eps_workload_name(workload->type) == NULL)
        eps__check_fail(check, "/workload/type", "must be prefix_sum, momentum or toeplitz");
    if (workload->type == EPS_WORKLOAD_TOEPLITZ)
        check_first_column(check, "/workload/coefficients", workload->coefficients, workload->coefficients_len,
                           check->n);
    if (workload->type != EPS_WORKLOAD_MOMENTUM)
        return;
    if (!(workload->momentum >= 0.0 && workload->momentum < 1.0))
        eps__check_fail(check, "/workload/momentum", "must lie in [0, 1)");
    if (!(workload->decay > 0.0 && workload->decay <= 1.0))
        eps__check_fail(check, "/workload/decay", "must lie in (0, 1]");
    if (workload->cooldown && !(workload->cooldown_from >= 0.0 && workload->cooldown_from <= 1.0))
        eps__check_fail(check, "/workload/cooldown/from", "must lie in [0, 1]: a fraction of n");
    if (workload->cooldown && !(workload->cooldown_to >= 0.0 && workload->cooldown_to <= 1.0))
        eps__check_fail(check, "/workload/cooldown/to", "must lie in [0, 1]: a fraction of the first learning rate");
}
