/*
 * The errors that all strategies share; see failures.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/failures.h"

enum eps_status eps__strategy_no_memory(struct eps_error *error)
{
    return eps__error(error, EPS_NO_MEMORY, "", "out of memory; use fewer steps or bands");
}

enum eps_status eps__strategy_stopped(struct eps_error *error, enum eps_status status)
{
    switch (status) {
    case EPS_OK:
        return EPS_OK;
    case EPS_CANCELED:
        return eps__error(error, EPS_CANCELED, "", "canceled");
    case EPS_TIMEOUT:
        return eps__error(error, EPS_TIMEOUT, "", "the time limit was reached while computing the strategy");
    default:
        return eps__strategy_no_memory(error);
    }
}

enum eps_status eps__strategy_poll(const struct eps_context *context, struct eps_error *error)
{
    return eps__strategy_stopped(error, eps__poll(context));
}
