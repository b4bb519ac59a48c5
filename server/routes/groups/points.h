/*
 * Writes points of sweeps for tables and events.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_GROUPS_POINTS_H
#define SERVER_ROUTES_GROUPS_POINTS_H

#include "api/json/text.h"
#include "api/requests/sweep.h"
#include "server/server.h"
#include "server/store/records.h"

/* Appends the current state of a point as an object. */
void point_write(struct server *server, struct text *out, const struct group_record *record,
                 const struct api_sweep *sweep, const struct child_record *child);

#endif
