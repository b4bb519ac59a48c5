/*
 * See realm.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/jobs/realm.h"

#include <sodium.h>
#include <string.h>

const char *realm_of(const struct config *config, const struct poster *poster)
{
    return config->private_cache ? poster->group : "";
}

/* The length of the realm ends with its NUL, so that no two pairs have the same text. */
static void digest(const char *realm, uint8_t own[32], const void *of, size_t len)
{
    static const char purpose[] = "epsilond realm";
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, 32);
    crypto_generichash_update(&state, (const unsigned char *)purpose, sizeof purpose);
    crypto_generichash_update(&state, (const unsigned char *)realm, strlen(realm) + 1);
    crypto_generichash_update(&state, of, len);
    crypto_generichash_final(&state, own, 32);
}

void realm_hash(const char *realm, char hash[HASH_SIZE])
{
    uint8_t own[(HASH_SIZE - 1) / 2];
    if (!realm[0] || !hash[0])
        return;
    digest(realm, own, hash, HASH_SIZE - 1);
    sodium_bin2hex(hash, HASH_SIZE, own, sizeof own);
}

void realm_key(const char *realm, uint8_t own[32], const uint8_t key[32])
{
    if (realm[0])
        digest(realm, own, key, 32);
    else
        memcpy(own, key, 32);
}
