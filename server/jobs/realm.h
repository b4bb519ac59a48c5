/*
 * The part of the caches that a job uses. With --private-cache every group of keys has its own realm, and nothing that
 * one group computes is found by another: not by its answer, its `cache` member, nor by the time that it takes.
 * Otherwise there is one realm.
 *
 * What finds something by what was asked, and how it is kept apart:
 * - results, their curves and spends, in memory and in the database, and runs in progress, which equal jobs join: by
 *   the hash of a record, which realm_hash() makes one of the realm as soon as the record is filled in (submit.c). So
 *   are the points of sweeps and the candidates of plans, which are jobs;
 * - decoded requests in memory: by the hash of their bytes, likewise;
 * - factorisations, PLDs and chunks of draws, in the database, and those in progress: by their keys, which the
 *   callbacks of a computation replace by realm_key() (compute.c);
 * - idempotency keys: by the group in any case.
 * Everything else is found by an id that the service has drawn, and is hidden from other groups.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_JOBS_REALM_H
#define SERVER_JOBS_REALM_H

#include "server/ops/config.h"
#include "server/store/records.h"

/* The realm of what this key has posted; "": the one of all. Borrowed from the poster. */
const char *realm_of(const struct config *config, const struct poster *poster);
/* Replaces a hash by that of the same job in the realm; nothing changes in "". */
void realm_hash(const char *realm, char hash[HASH_SIZE]);
/* The same for the key of a blob. */
void realm_key(const char *realm, uint8_t own[32], const uint8_t key[32]);

#endif
