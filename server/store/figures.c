/*
 * The SQL function figure(core, member...), with which migration 7 fills the typed columns of results that were written
 * before these columns existed: the number or text at that place in the object of the result, or NULL. An UPDATE
 * requests one member after another, so the last parsed text is cached.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/codec.h"
#include "server/ops/text.h"
#include "server/store/internal.h"

struct parsed {
    char *core; /* as stored in the column: without its last brace */
    json_t *json;
};

static void parsed_clear(struct parsed *parsed)
{
    free(parsed->core);
    json_decref(parsed->json);
    *parsed = (struct parsed){0};
}

static void parsed_free(void *user)
{
    parsed_clear(user);
    free(user);
}

/* Parses a core, unless it is the cached one; the JSON is NULL if it is not an object. Returns false if memory runs
 * out. */
static bool parse(struct parsed *parsed, const char *core)
{
    if (parsed->core && strcmp(parsed->core, core) == 0) {
        return true;
    }
    struct text text = {0};
    char message[256] = "";
    parsed_clear(parsed);
    text_puts(&text, core);
    text_puts(&text, "}");
    parsed->json = text.failed ? NULL : api_json_parse(text.data, text.len, message, sizeof message);
    parsed->core = parsed->json || message[0] ? strdup(core) : NULL;
    text_clear(&text);
    return parsed->core != NULL;
}

static void figure(sqlite3_context *context, int values_len, sqlite3_value **values)
{
    struct parsed *parsed = sqlite3_user_data(context);
    const char *core = (const char *)sqlite3_value_text(values[0]);
    if (core && !parse(parsed, core)) {
        sqlite3_result_error_nomem(context); /* a NULL would be stored permanently */
        return;
    }
    const json_t *json = core ? parsed->json : NULL;
    for (int i = 1; i < values_len && json; i++) {
        json = json_object_get(json, (const char *)sqlite3_value_text(values[i]));
    }
    if (json_is_number(json)) {
        sqlite3_result_double(context, json_number_value(json) + 0.0); /* as SQLite stores it: there is no -0 */
    } else if (json_is_string(json)) {
        sqlite3_result_text(context, json_string_value(json), -1, SQLITE_TRANSIENT);
    }
}

bool store__figure_register(sqlite3 *db)
{
    struct parsed *parsed = calloc(1, sizeof *parsed);
    return parsed && sqlite3_create_function_v2(db, "figure", -1, SQLITE_UTF8, parsed, figure, NULL, NULL,
                                                parsed_free) == SQLITE_OK;
}
