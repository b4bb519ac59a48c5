/*
 * Files of keys from arbitrary bytes, and an Authorization header before them, which is the first line. A file that is
 * refused has a reason. What another tells of its keys can be written and read again. Who is let in has sent a key
 * whose hash is in the file, beside its id and a scope that suffices.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <sodium.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/ops/access.h"
#include "tests/fuzz/fuzz.h"

#define HASH_BYTES 32

/* A file that only its owner may change. */
static int file_of(const char *text, size_t len)
{
    int fd = memfd_create("keys", MFD_CLOEXEC);
    DEMAND(fd >= 0 && fchmod(fd, 0600) == 0);
    DEMAND(write(fd, text, len) == (ssize_t)len);
    return fd;
}

/* The keys are ordered by id, each has a scope and a group, and its quotas are those that are written of it. */
static void look(struct access *access)
{
    size_t len;
    struct access_entry *list = access_list(access, &len);
    DEMAND(list && len == access_count(access) && len > 0);
    for (size_t i = 0; i < len; i++) {
        struct quota again = {0};
        char text[QUOTA_TEXT_SIZE], *rest = text;
        DEMAND(i == 0 || strcmp(list[i - 1].id, list[i].id) < 0);
        DEMAND(strlen(list[i].id) == ACCESS_ID_SIZE - 1 && access_is_name(list[i].group));
        DEMAND(list[i].scope > ACCESS_ANYONE && list[i].scope < ACCESS_SCOPES);
        quota_write(text, &list[i].quota);
        for (const char *word; (word = strtok_r(rest, " ", &rest));)
            DEMAND(!quota_add(&again, word, strlen(word)));
        DEMAND(memcmp(&again, &list[i].quota, sizeof again) == 0);
    }
    free(list);
}

/* Whether a line of the file has that id, that hash, and this scope or a wider one. */
static bool is_told(const char *text, const char *id, const char *hash, enum access_scope needed)
{
    bool told = false;
    char *copy = strdup(text), *rest = copy;
    DEMAND(copy);
    for (char *line; !told && (line = strtok_r(rest, "\n", &rest));) {
        char *word = line;
        const char *words[4];
        for (size_t i = 0; i < 4; i++)
            words[i] = strtok_r(word, " \t\r", &word);
        told = words[3] && strcmp(words[0], id) == 0 && strcasecmp(words[3], hash) == 0 &&
               access_scope_named(words[1]) >= needed;
    }
    free(copy);
    return told;
}

static void ask(struct access *access, const char *authorization, const char *text)
{
    for (enum access_scope needed = ACCESS_READ; needed < ACCESS_SCOPES; needed++) {
        struct access_client client;
        enum access_verdict verdict = access_judge(access, authorization, needed, &client);
        DEMAND(verdict != ACCESS_NO_KEY);
        if (verdict != ACCESS_GRANTED) {
            DEMAND(verdict == ACCESS_TOO_NARROW || !client.id[0]);
            continue;
        }
        DEMAND(strncasecmp(authorization, "Bearer ", 7) == 0);
        const char *key = authorization + 7 + strspn(authorization + 7, " ");
        uint8_t hash[HASH_BYTES];
        char digits[2 * HASH_BYTES + 1];
        crypto_generichash(hash, sizeof hash, (const uint8_t *)key, strlen(key), NULL, 0);
        sodium_bin2hex(digits, sizeof digits, hash, sizeof hash);
        DEMAND(strncmp(key, "epsk_", 5) == 0 && strncmp(key + 5, client.id, ACCESS_ID_SIZE - 1) == 0);
        DEMAND(is_told(text, client.id, digits, needed));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const uint8_t *end = len > 0 ? memchr(data, '\n', len) : NULL;
    size_t first = end ? (size_t)(end - data) : len, used = end ? first + 1 : len;
    char *authorization = fuzz_text(data, first), *text = fuzz_text(data + used, len - used);
    char path[32], message[512] = "";
    DEMAND(sodium_init() >= 0);
    int fd = file_of(text, len - used);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct config config = {.keys = path};
    struct access *access = access_create(&config, message, sizeof message);
    DEMAND(access || (message[0] && strstr(message, path)));
    if (access) {
        look(access);
        ask(access, authorization, text);
        DEMAND(access_reload(access, message, sizeof message));
    }
    access_destroy(access);
    close(fd);
    free(authorization);
    free(text);
    return 0;
}
