/*
 * Reporting a violation.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/check.h"

#include <stdarg.h>
#include <stdio.h>

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
