/*
 * The SQL function digest(...): 16 bytes of BLAKE2b over its arguments, each with its type and length. Rows are stored
 * with digests of their columns, and statements that read a row also compare them. Both use the same expression, so no
 * column can be forgotten on one side.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <sodium.h>
#include <string.h>

#include "server/store/internal.h"

enum { DIGEST_BYTES = 16 };

static void digest_value(crypto_generichash_state *state, sqlite3_value *value)
{
    unsigned char head[9];
    union {
        sqlite3_int64 integer;
        double real;
    } number;
    const void *bytes = &number;
    int type = sqlite3_value_type(value);
    sqlite3_int64 len = sizeof number;
    switch (type) {
    case SQLITE_INTEGER:
        number.integer = sqlite3_value_int64(value);
        break;
    case SQLITE_FLOAT:
        number.real = sqlite3_value_double(value);
        break;
    case SQLITE_NULL:
        len = 0;
        break;
    default:
        bytes = sqlite3_value_blob(value); /* for a text, its UTF-8 */
        len = sqlite3_value_bytes(value);
    }
    head[0] = (unsigned char)type;
    memcpy(head + 1, &len, sizeof len);
    crypto_generichash_update(state, head, sizeof head);
    if (len)
        crypto_generichash_update(state, bytes, (unsigned long long)len);
}

static void digest(sqlite3_context *context, int values_len, sqlite3_value **values)
{
    unsigned char out[DIGEST_BYTES];
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof out);
    for (int i = 0; i < values_len; i++)
        digest_value(&state, values[i]);
    crypto_generichash_final(&state, out, sizeof out);
    sqlite3_result_blob(context, out, sizeof out, SQLITE_TRANSIENT);
}

bool store__digest_register(sqlite3 *db)
{
    int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    return sqlite3_create_function_v2(db, "digest", -1, flags, NULL, digest, NULL, NULL, NULL) == SQLITE_OK;
}
