/*
 * The groups that own resources, in memory: of every request with a key, except those of admins, the owner is asked.
 * An id has one owner for ever, so nothing is dropped; what was deleted is not found later.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_OWNERS_H
#define SERVER_ROUTES_OWNERS_H

#include "server/store/records.h"

struct owners;

struct owners *owners_create(void);
void owners_destroy(struct owners *owners);

/* Returns false if the owner is not in memory. The id is valid. Thread-safe, like the next. */
bool owners_find(struct owners *owners, const char *id, char owner[OWNER_SIZE]);
void owners_keep(struct owners *owners, const char *id, const char owner[OWNER_SIZE]);

#endif
