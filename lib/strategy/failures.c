/*
 * How a strategy fails, in words.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/failures.h"

enum eps_status eps__strategy_no_memory(struct eps_error *error)
{
    return eps__error(error, EPS_NO_MEMORY, "", "out of memory; ask for fewer steps or bands");
}

enum eps_status eps__strategy_poll(const struct eps_context *context, struct eps_error *error)
{
    if (context && context->canceled && context->canceled(context->user))
        return eps__error(error, EPS_CANCELED, "", "canceled");
    if (context && context->expired && context->expired(context->user))
        return eps__error(error, EPS_TIMEOUT, "", "the time limit passed while computing the strategy");
    return EPS_OK;
}
