/*
 * Fills in errors in one line where a call fails, and polls whether a computation should continue.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_BASE_ERROR_H
#define EPS_BASE_ERROR_H

#include "lib/epsilon.h"

/* Writes the status, the JSON Pointer of the member and a message that tells the user what to change to *error,
 * unless error is NULL. Returns the status. */
enum eps_status eps__error(struct eps_error *error, enum eps_status status, const char *pointer, const char *format,
                           ...) __attribute__((format(printf, 4, 5)));

/* Writes EPS_UNSUPPORTED and the reason why an accountant does not serve a job to *error. Returns false. */
bool eps__decline(struct eps_error *error, const char *pointer, const char *message);

/* Returns EPS_CANCELED or EPS_TIMEOUT if the context says so, else EPS_OK. context may be NULL. */
enum eps_status eps__poll(const struct eps_context *context);

/*
 * The state of a long computation whose functions do not return a status. They poll the context about every second and
 * record in `status` why they stopped. Once it is set, every function that is passed this work returns at once and its
 * results must not be used. NULL in place of a work disables polling.
 */
struct eps__work {
    const struct eps_context *context;
    enum eps_status status; /* EPS_OK, EPS_CANCELED, EPS_TIMEOUT, EPS_NO_MEMORY */
};

/* Polls the context. Returns whether to continue. */
bool eps__goes_on(struct eps__work *work);
/* Returns whether the work has stopped, without polling. */
bool eps__stopped(const struct eps__work *work);

#endif
