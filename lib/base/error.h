/*
 * Filling in an error: one line where a call fails.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_BASE_ERROR_H
#define EPS_BASE_ERROR_H

#include "lib/epsilon.h"

/* Writes status, the member's path and the message (which tells the user what to change) into *error, if there is
 * one, and returns the status. */
enum eps_status eps__error(struct eps_error *error, enum eps_status status, const char *pointer, const char *format,
                           ...) __attribute__((format(printf, 4, 5)));

/* Why an accountant does not serve a job: EPS_UNSUPPORTED into *error. Returns false. */
bool eps__decline(struct eps_error *error, const char *pointer, const char *message);

/* EPS_OK, or EPS_CANCELED or EPS_TIMEOUT if the context says so. context may be NULL. */
enum eps_status eps__poll(const struct eps_context *context);

/*
 * For what computes for long without a name for its failures: whom to ask, every second or so, whether to go on, and why
 * it did not. Once there is a status, whatever is given this work returns at once, and its results are not to be used.
 * NULL in the place of a work: nobody asks.
 */
struct eps__work {
    const struct eps_context *context;
    enum eps_status status; /* EPS_OK, EPS_CANCELED, EPS_TIMEOUT, EPS_NO_MEMORY */
};

/* Polls; whether to go on. */
bool eps__goes_on(struct eps__work *work);
/* The same without polling. */
bool eps__stopped(const struct eps__work *work);

#endif
