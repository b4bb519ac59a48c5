/*
 * See access.h. A table of keys is immutable; reloading replaces it. Keys are found by their ids, which are no secrets,
 * and then compared in constant time.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/access.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "epsk_"
#define SCHEME "Bearer"
#define SECRET_BYTES 32
#define SECRET_LEN 43 /* of its Base64 without padding */
#define HASH_BYTES 32
#define FILE_MOST ((size_t)1 << 20)
#define BLANKS " \t\r"

_Static_assert(sizeof PREFIX - 1 + ACCESS_ID_SIZE - 1 + 1 + SECRET_LEN + 1 <= ACCESS_KEY_SIZE, "a key fits");

struct entry {
    struct access_entry told;
    uint8_t hash[HASH_BYTES];
};

struct table {
    struct entry *items; /* by id, ascending */
    size_t len, capacity;
};

struct access {
    const struct config *config;
    pthread_rwlock_t lock; /* of the table */
    struct table table;
};

static const char *const names[ACCESS_SCOPES] = {"anyone", "read", "submit", "admin"};

const char *access_scope_name(enum access_scope scope)
{
    return names[scope];
}

enum access_scope access_scope_named(const char *name)
{
    for (enum access_scope scope = ACCESS_READ; scope < ACCESS_SCOPES; scope++)
        if (strcmp(name, names[scope]) == 0)
            return scope;
    return ACCESS_ANYONE;
}

static void hash_key(uint8_t hash[HASH_BYTES], const char *key, size_t len)
{
    crypto_generichash(hash, HASH_BYTES, (const uint8_t *)key, len, NULL, 0);
}

/* ---------------------------------------------------------------- lines */

static bool is_id(const char *text, size_t len)
{
    return len == ACCESS_ID_SIZE - 1 && strspn(text, "0123456789abcdef") >= len;
}

/* The next word of the line; its length is 0 at the end. */
static const char *next_word(const char **line, size_t *len)
{
    const char *word = *line + strspn(*line, BLANKS);
    *len = strcspn(word, BLANKS);
    *line = word + *len;
    return word;
}

bool access_is_name(const char *name)
{
    size_t len = 0;
    for (; name[len]; len++)
        if (name[len] <= ' ' || name[len] > '~' || name[len] == ',' || name[len] == '=')
            return false;
    return len > 0 && len <= ACCESS_NAME_MOST;
}

/* Reads what follows the hash: quotas, and then the name. */
static const char *read_rest(struct access_entry *told, const char *line)
{
    size_t len;
    const char *word = next_word(&line, &len), *wrong = NULL;
    for (; !wrong && memchr(word, '=', len); word = next_word(&line, &len))
        wrong = quota_add(&told->quota, word, len);
    if (wrong)
        return wrong;
    if (len > ACCESS_NAME_MOST)
        return "it has a name of at most 64 characters";
    (void)next_word(&line, &len);
    return len > 0 ? "its last word is the name, without an equals sign" : NULL;
}

/* Reads one line. Returns what is wrong with it, or NULL. */
static const char *read_line(struct entry *entry, const char *line)
{
    struct access_entry *told = &entry->told;
    char scope[16] = "";
    size_t len, hash_len;
    *entry = (struct entry){.told.scope = ACCESS_ANYONE};
    const char *id = next_word(&line, &len);
    if (!is_id(id, len))
        return "it begins with the id of a key, which is 8 hexadecimal digits";
    memcpy(told->id, id, len);
    const char *name = next_word(&line, &len);
    memcpy(scope, name, len < sizeof scope ? len : sizeof scope - 1);
    told->scope = access_scope_named(scope);
    if (told->scope == ACCESS_ANYONE)
        return "it has a scope after the id: read, submit or admin";
    const char *group = next_word(&line, &len);
    snprintf(told->group, sizeof told->group, "%.*s", (int)(len < sizeof told->group ? len : 0), group);
    if (!access_is_name(told->group))
        return "it has a group after the scope, of at most 64 visible characters";
    const char *hash = next_word(&line, &len);
    if (len != 2 * HASH_BYTES || sodium_hex2bin(entry->hash, HASH_BYTES, hash, len, NULL, &hash_len, NULL) != 0 ||
        hash_len != HASH_BYTES)
        return "it has the hash of the key after the group, which is 64 hexadecimal digits";
    return read_rest(told, line);
}

/* The position of an id, or where it belongs. */
static size_t find(const struct table *table, const char *id, bool *found)
{
    size_t low = 0, high = table->len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(table->items[middle].told.id, id);
        if (order == 0) {
            *found = true;
            return middle;
        }
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    *found = false;
    return low;
}

/* Adds a line of `where`, unless it is a comment. */
static bool add_line(struct table *table, const char *line, const char *where, size_t number, char *message,
                     size_t message_size)
{
    struct entry entry;
    bool found;
    const char *start = line + strspn(line, BLANKS);
    if (*start == '\0' || *start == '#')
        return true;
    const char *wrong = read_line(&entry, start);
    if (wrong) {
        snprintf(message, message_size, "line %zu of %s is not that of a key: %s; epsilond key new prints one", number,
                 where, wrong);
        return false;
    }
    size_t at = find(table, entry.told.id, &found);
    if (found) {
        snprintf(message, message_size, "line %zu of %s repeats the id %s", number, where, entry.told.id);
        return false;
    }
    if (table->len == table->capacity) {
        size_t capacity = table->capacity ? 2 * table->capacity : 16;
        struct entry *items = realloc(table->items, capacity * sizeof *items);
        if (!items) {
            snprintf(message, message_size, "out of memory");
            return false;
        }
        table->items = items;
        table->capacity = capacity;
    }
    memmove(table->items + at + 1, table->items + at, (table->len - at) * sizeof *table->items);
    table->items[at] = entry;
    table->len++;
    return true;
}

/* Adds the lines of a text, which are changed. */
static bool add_lines(struct table *table, char *text, const char *separators, const char *where, char *message,
                      size_t message_size)
{
    size_t number = 1;
    for (char *line = text; line; number++) {
        char *rest = strpbrk(line, separators);
        if (rest)
            *rest++ = '\0';
        if (!add_line(table, line, where, number, message, message_size))
            return false;
        line = rest;
    }
    return true;
}

/* The text of a file that only its owner may change. NULL with a message. */
static char *read_file(const char *path, char *message, size_t message_size)
{
    struct stat status;
    char *text = NULL;
    size_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* a FIFO must not block the signal thread */
    if (fd < 0 || fstat(fd, &status) != 0) {
        snprintf(message, message_size, "cannot read the keys of %s: %s", path, strerror(errno));
    } else if (!S_ISREG(status.st_mode) || (size_t)status.st_size > FILE_MOST) {
        snprintf(message, message_size, "%s is not a file of keys: it is no regular file, or has over 1 MiB", path);
    } else if (status.st_mode & (S_IWGRP | S_IWOTH)) {
        snprintf(message, message_size, "others than its owner may write to %s: chmod go-w it", path);
    } else if (!(text = malloc((size_t)status.st_size + 1))) {
        snprintf(message, message_size, "out of memory");
    } else {
        ssize_t got;
        while (len < (size_t)status.st_size && (got = read(fd, text + len, (size_t)status.st_size - len)) > 0)
            len += (size_t)got;
        text[len] = '\0';
        if (len < (size_t)status.st_size || memchr(text, '\0', len)) {
            snprintf(message, message_size, "%s could not be read as text", path);
            free(text);
            text = NULL;
        }
    }
    if (fd >= 0)
        close(fd);
    return text;
}

static bool read_keys(struct table *table, const struct config *config, char *message, size_t message_size)
{
    *table = (struct table){0};
    bool good = true;
    char *text = config->keys ? read_file(config->keys, message, message_size) : NULL;
    if (config->keys)
        good = text && add_lines(table, text, "\n", config->keys, message, message_size);
    free(text);
    for (size_t i = 0; good && i < config->key_lines.len; i++) {
        text = strdup(config->key_lines.values[i]);
        if (!text)
            snprintf(message, message_size, "out of memory");
        good = text && add_lines(table, text, ",\n", "--key-lines", message, message_size);
        free(text);
    }
    if (good && table->len == 0 && config_keyed(config)) {
        snprintf(message, message_size, "%s has no key: epsilond key new prints one, and its line",
                 config->keys ? config->keys : "--key-lines");
        good = false;
    }
    if (!good) {
        free(table->items);
        *table = (struct table){0};
    }
    return good;
}

/* ---------------------------------------------------------------- the interface */

struct access *access_create(const struct config *config, char *message, size_t message_size)
{
    struct access *access = calloc(1, sizeof *access);
    if (!access || pthread_rwlock_init(&access->lock, NULL) != 0) {
        free(access);
        snprintf(message, message_size, "out of memory");
        return NULL;
    }
    access->config = config;
    if (read_keys(&access->table, config, message, message_size))
        return access;
    access_destroy(access);
    return NULL;
}

void access_destroy(struct access *access)
{
    if (!access)
        return;
    pthread_rwlock_destroy(&access->lock);
    free(access->table.items);
    free(access);
}

bool access_reload(struct access *access, char *message, size_t message_size)
{
    struct table fresh;
    if (!read_keys(&fresh, access->config, message, message_size))
        return false;
    pthread_rwlock_wrlock(&access->lock);
    struct table former = access->table;
    access->table = fresh;
    pthread_rwlock_unlock(&access->lock);
    free(former.items);
    return true;
}

bool access_required(const struct access *access)
{
    return config_keyed(access->config);
}

size_t access_count(struct access *access)
{
    pthread_rwlock_rdlock(&access->lock);
    size_t len = access->table.len;
    pthread_rwlock_unlock(&access->lock);
    return len;
}

struct access_entry *access_list(struct access *access, size_t *len)
{
    pthread_rwlock_rdlock(&access->lock);
    *len = access->table.len;
    struct access_entry *list = malloc((*len ? *len : 1) * sizeof *list);
    for (size_t i = 0; list && i < *len; i++)
        list[i] = access->table.items[i].told;
    pthread_rwlock_unlock(&access->lock);
    return list;
}

/* The key of "Bearer KEY", or NULL. */
static const char *token_of(const char *authorization)
{
    size_t len = strlen(SCHEME);
    if (strncasecmp(authorization, SCHEME, len) != 0 || authorization[len] != ' ')
        return NULL;
    const char *token = authorization + len;
    return token + strspn(token, " ");
}

enum access_verdict access_judge(struct access *access, const char *authorization, enum access_scope needed,
                                 struct access_client *client)
{
    uint8_t hash[HASH_BYTES];
    bool found = false, right = false;
    struct entry entry = {.told.scope = ACCESS_ANYONE};
    *client = (struct access_client){.sees_all = false};
    if (needed == ACCESS_ANYONE)
        return ACCESS_GRANTED;
    client->sees_all = !access_required(access);
    if (client->sees_all)
        return ACCESS_GRANTED;
    if (!authorization)
        return ACCESS_NO_KEY;
    const char *key = token_of(authorization);
    if (!key)
        return ACCESS_MALFORMED;
    size_t prefix = strlen(PREFIX), len = strlen(key);
    if (len < prefix + ACCESS_ID_SIZE || len >= ACCESS_KEY_SIZE || memcmp(key, PREFIX, prefix) != 0 ||
        !is_id(key + prefix, ACCESS_ID_SIZE - 1))
        return ACCESS_WRONG_KEY;
    char wanted[ACCESS_ID_SIZE];
    memcpy(wanted, key + prefix, ACCESS_ID_SIZE - 1);
    wanted[ACCESS_ID_SIZE - 1] = '\0';
    hash_key(hash, key, len);
    pthread_rwlock_rdlock(&access->lock);
    size_t at = find(&access->table, wanted, &found);
    if (found)
        entry = access->table.items[at];
    pthread_rwlock_unlock(&access->lock);
    right = found && sodium_memcmp(hash, entry.hash, HASH_BYTES) == 0;
    if (!right)
        return ACCESS_WRONG_KEY;
    memcpy(client->id, entry.told.id, sizeof client->id);
    memcpy(client->group, entry.told.group, sizeof client->group);
    client->sees_all = entry.told.scope == ACCESS_ADMIN;
    client->quota = entry.told.quota;
    return entry.told.scope >= needed ? ACCESS_GRANTED : ACCESS_TOO_NARROW;
}

void access_draw(char key[ACCESS_KEY_SIZE], char line[ACCESS_LINE_SIZE], const struct access_entry *entry,
                 const char *name)
{
    char quotas[QUOTA_TEXT_SIZE];
    uint8_t id[(ACCESS_ID_SIZE - 1) / 2], secret[SECRET_BYTES], hash[HASH_BYTES];
    char id_text[ACCESS_ID_SIZE], secret_text[SECRET_LEN + 1], hash_text[2 * HASH_BYTES + 1];
    randombytes_buf(id, sizeof id);
    randombytes_buf(secret, sizeof secret);
    sodium_bin2hex(id_text, sizeof id_text, id, sizeof id);
    sodium_bin2base64(secret_text, sizeof secret_text, secret, sizeof secret, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    snprintf(key, ACCESS_KEY_SIZE, "%s%s_%s", PREFIX, id_text, secret_text);
    hash_key(hash, key, strlen(key));
    sodium_bin2hex(hash_text, sizeof hash_text, hash, sizeof hash);
    quota_write(quotas, &entry->quota);
    snprintf(line, ACCESS_LINE_SIZE, "%s %s %s %s%s%s%s%.*s", id_text, access_scope_name(entry->scope), entry->group,
             hash_text, *quotas ? " " : "", quotas, *name ? " " : "", ACCESS_NAME_MOST, name);
    sodium_memzero(secret, sizeof secret);
    sodium_memzero(secret_text, sizeof secret_text);
}
