/*
 * The names of enum values: one table per enum, in the order of the enum, so that the codec, error messages and the
 * service's index always agree; and the library's version. Families, schemes and accountants have their names in their
 * own rows.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/epsilon.h"

const char *eps_version(void)
{
    return EPS_VERSION;
}

/* Defines a function that returns the name of an enum value, or NULL if out of range. */
#define NAME_TABLE(function, type, count, ...)                                                          \
    const char *function(type value)                                                                    \
    {                                                                                                   \
        static const char *const names[] = {__VA_ARGS__};                                               \
        _Static_assert(sizeof names / sizeof names[0] == (count), "one name for each value of " #type); \
        return (size_t)value < (size_t)(count) ? names[value] : NULL;                                   \
    }

NAME_TABLE(eps_status_name, enum eps_status, EPS_STATUS_COUNT, "ok", "invalid", "unsupported", "too_costly",
           "unattainable", "canceled", "timeout", "no_memory", "internal")
NAME_TABLE(eps_normalization_name, enum eps_normalization, EPS_NORMALIZATION_COUNT, "max_column", "none", "sensitivity")
NAME_TABLE(eps_objective_name, enum eps_objective, EPS_OBJECTIVE_COUNT, "mean_squared", "max_squared")
NAME_TABLE(eps_optimize_for_name, enum eps_optimize_for, EPS_OPTIMIZE_FOR_COUNT, "error", "job")
NAME_TABLE(eps_decoder_name, enum eps_decoder, EPS_DECODER_COUNT, "default", "online", "full", "optimal", "standard")
NAME_TABLE(eps_workload_name, enum eps_workload_type, EPS_WORKLOAD_COUNT, "prefix_sum", "momentum", "toeplitz")
NAME_TABLE(eps_schema_name, enum eps_schema, EPS_SCHEMA_COUNT, "fixed_order", "min_separation", "shuffled")
NAME_TABLE(eps_adjacency_name, enum eps_adjacency, EPS_ADJACENCY_COUNT, "zero_out", "add_remove", "replace_one")
NAME_TABLE(eps_estimator_name, enum eps_estimator, EPS_ESTIMATOR_COUNT, "auto", "plain", "tilted")
NAME_TABLE(eps_direction_name, enum eps_direction, EPS_DIRECTIONS, "remove", "add")
NAME_TABLE(eps_unknown_name, enum eps_unknown, EPS_SOLVE_COUNT, "epsilon", "delta", "noise_multiplier", "curve", "n",
           "count")
NAME_TABLE(eps_guarantee_name, enum eps_guarantee, EPS_GUARANTEE_COUNT, "deterministic", "estimate_verify_release",
           "high_probability")
NAME_TABLE(eps_recurrence_name, enum eps_recurrence_kind, EPS_RECURRENCE_COUNT, "identity", "toeplitz", "columns",
           "blt", "inverse", "rows")
NAME_TABLE(eps_part_name, enum eps_part, EPS_PART_COUNT, "encoder", "decoder", "noise")
