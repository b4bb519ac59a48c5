/*
 * Error values and polling: see error.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/base/error.h"

#include <stdarg.h>
#include <stdio.h>

enum eps_status eps__error(struct eps_error *error, enum eps_status status, const char *pointer, const char *format,
                           ...)
{
    if (error) {
        va_list arguments;
        *error = (struct eps_error){.status = status};
        snprintf(error->pointer, sizeof error->pointer, "%s", pointer);
        va_start(arguments, format);
        vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
    }
    return status;
}

bool eps__decline(struct eps_error *error, const char *pointer, const char *message)
{
    eps__error(error, EPS_UNSUPPORTED, pointer, "%s", message);
    return false;
}

enum eps_status eps__poll(const struct eps_context *context)
{
    if (context && context->canceled && context->canceled(context->user))
        return EPS_CANCELED;
    if (context && context->expired && context->expired(context->user))
        return EPS_TIMEOUT;
    return EPS_OK;
}

bool eps__goes_on(struct eps__work *work)
{
    if (work && work->status == EPS_OK)
        work->status = eps__poll(work->context);
    return !eps__stopped(work);
}

bool eps__stopped(const struct eps__work *work)
{
    return work && work->status;
}
