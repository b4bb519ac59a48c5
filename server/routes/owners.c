/*
 * A table with one place for each id, by the end of the id, which is random. Who comes last has the place.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/owners.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "server/ops/clock.h"

enum { DIGITS = 3, PLACES = 1 << (4 * DIGITS) };

struct place {
    char id[UUID_SIZE]; /* "": free */
    char owner[OWNER_SIZE];
};

struct owners {
    pthread_mutex_t mutex;
    struct place places[PLACES];
};

struct owners *owners_create(void)
{
    struct owners *owners = calloc(1, sizeof *owners);
    if (owners)
        pthread_mutex_init(&owners->mutex, NULL);
    return owners;
}

void owners_destroy(struct owners *owners)
{
    if (!owners)
        return;
    pthread_mutex_destroy(&owners->mutex);
    free(owners);
}

static struct place *place_of(struct owners *owners, const char *id)
{
    return &owners->places[strtoul(id + UUID_SIZE - 1 - DIGITS, NULL, 16)];
}

bool owners_find(struct owners *owners, const char *id, char owner[OWNER_SIZE])
{
    struct place *place = place_of(owners, id);
    pthread_mutex_lock(&owners->mutex);
    bool found = memcmp(place->id, id, UUID_SIZE) == 0;
    if (found)
        memcpy(owner, place->owner, OWNER_SIZE);
    pthread_mutex_unlock(&owners->mutex);
    return found;
}

void owners_keep(struct owners *owners, const char *id, const char owner[OWNER_SIZE])
{
    struct place *place = place_of(owners, id);
    pthread_mutex_lock(&owners->mutex);
    memcpy(place->id, id, UUID_SIZE);
    memcpy(place->owner, owner, OWNER_SIZE);
    pthread_mutex_unlock(&owners->mutex);
}
