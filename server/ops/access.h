/*
 * Who may do what. A client proves who it is by a key, which it sends as a bearer token (RFC 6750). The service knows
 * the keys only by their hashes. A key is 32 random bytes, so a fast hash protects it as well as a slow one would.
 *
 * Keys are lines of a file or of an option:
 *
 *     ID SCOPE GROUP HASH [QUOTA ...] [NAME]
 *
 * ID is the first part of the key, HASH its BLAKE2b-256 in hexadecimal digits, and NAME is for the operator. A QUOTA
 * has an equals sign (see quota.h), and a NAME has none. The keys
 * of a GROUP see the jobs, sweeps and plans that one of them posted, and those of scope admin see all. A line that is
 * empty or begins with # is ignored.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_ACCESS_H
#define SERVER_OPS_ACCESS_H

#include <stdbool.h>
#include <stddef.h>

#include "server/ops/config.h"
#include "server/ops/quota.h"

/* Each scope includes those before it. */
enum access_scope {
    ACCESS_ANYONE, /* needs no key */
    ACCESS_READ,   /* what is stored, and what follows from it */
    ACCESS_SUBMIT, /* and jobs, sweeps, plans, noise and batches; canceling and deleting them */
    ACCESS_ADMIN,  /* and what concerns the service as a whole: metrics */
    ACCESS_SCOPES
};

enum access_verdict {
    ACCESS_GRANTED,
    ACCESS_NO_KEY,     /* the request has none */
    ACCESS_MALFORMED,  /* not "Bearer KEY" */
    ACCESS_WRONG_KEY,  /* no line has it */
    ACCESS_TOO_NARROW, /* its scope does not include this */
};

#define ACCESS_ID_SIZE 9   /* 8 hexadecimal digits and NUL */
#define ACCESS_KEY_SIZE 64 /* "epsk_ID_SECRET" and NUL */
#define ACCESS_LINE_SIZE 512
#define ACCESS_NAME_MOST 64 /* bytes of a name, and of that of a group */
#define ACCESS_GROUP_SIZE (ACCESS_NAME_MOST + 1)

/* Whose request it is. */
struct access_client {
    char id[ACCESS_ID_SIZE];       /* of its key; "": it has none */
    char group[ACCESS_GROUP_SIZE]; /* of its key; "": none */
    bool sees_all;                 /* a key of scope admin, or keys are not required */
    struct quota quota;            /* of its key */
};

/* What may be told of a key. */
struct access_entry {
    char id[ACCESS_ID_SIZE];
    enum access_scope scope;
    char group[ACCESS_GROUP_SIZE];
    struct quota quota;
};

struct access;

const char *access_scope_name(enum access_scope scope);
/* The scope with that name other than ACCESS_ANYONE; ACCESS_ANYONE: there is none. */
enum access_scope access_scope_named(const char *name);

/* Reads the keys of config->keys and config->key_lines. If neither is given, everyone may do everything. NULL with a
 * message: out of memory, or the keys cannot be read. */
struct access *access_create(const struct config *config, char *message, size_t message_size);
void access_destroy(struct access *access);

/* Reads them again, and replaces the keys at once. False with a message: the former keys stay. Thread-safe, as is
 * access_judge(). */
bool access_reload(struct access *access, char *message, size_t message_size);

/* Whether keys are required, and how many there are. */
bool access_required(const struct access *access);
size_t access_count(struct access *access);
/* The keys, by id; an allocated array of *len. NULL: out of memory. */
struct access_entry *access_list(struct access *access, size_t *len);

/* Judges a request by its Authorization header (NULL: it has none). The client is that of the key if its secret is
 * right, else nobody. */
enum access_verdict access_judge(struct access *access, const char *authorization, enum access_scope needed,
                                 struct access_client *client);

/* Whether this may be the name of a group or of a key: one word of 1 to ACCESS_NAME_MOST visible ASCII characters
 * without a comma or an equals sign. */
bool access_is_name(const char *name);

/* Draws a key with what the entry tells except for its id, and writes its line. name: or "". */
void access_draw(char key[ACCESS_KEY_SIZE], char line[ACCESS_LINE_SIZE], const struct access_entry *entry,
                 const char *name);

#endif
