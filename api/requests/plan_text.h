/*
 * Writes a decoded plan as text. Internal to api/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_REQUESTS_PLAN_TEXT_H
#define API_REQUESTS_PLAN_TEXT_H

#include "api/requests/plan.h"

/* The members that the body of a POST may have; ends with NULL. */
extern const char *const api__plan_members[];

/* Builds the plan from the body and the candidates, without the label. max_seconds: of a verification; NAN: there is
 * none. Returns NULL if memory runs out. */
struct api_plan *api__plan_write(const json_t *json, enum eps_objective objective, double max_seconds,
                                 const struct eps_plan_candidate *candidates, size_t len);

#endif
