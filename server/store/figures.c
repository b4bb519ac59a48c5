/*
 * The figures in rows of the database. The table of api/codec/figures.h says which figures are columns.
 *
 * The SQL function figure(core, member...) returns the number or text at that place in the object of a stored result,
 * or NULL. Migrations fill new columns with it. An UPDATE requests one member after another, so the last parsed text is
 * cached.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/codec.h"
#include "api/json/text.h"
#include "server/store/internal.h"

/* ---------------------------------------------------------------- columns */

static bool is_column(const struct api_figure *figure, bool listed)
{
    return listed ? figure->listed : figure->column != NULL;
}

void store__bind_figures(sqlite3_stmt *statement, const struct api_figures *figures, bool listed)
{
    for (const struct api_figure *figure = api_figures; figure->name; figure++) {
        if (!is_column(figure, listed))
            continue;
        char name[64];
        snprintf(name, sizeof name, ":%s", figure->column);
        int index = sqlite3_bind_parameter_index(statement, name);
        const char *text = api_figure_text(figure, figures);
        if (api_figure_is_number(figure))
            store__bind_number(statement, index, api_figure_number(figure, figures));
        else if (text[0]) /* an absent name is NULL */
            sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC);
    }
}

void store__read_figures(struct api_figures *figures, sqlite3_stmt *row, int first, bool listed)
{
    api_figures_none(figures);
    for (const struct api_figure *figure = api_figures; figure->name; figure++) {
        if (!is_column(figure, listed))
            continue;
        if (api_figure_is_number(figure)) {
            api_figure_set_number(figure, figures, store__column_number(row, first++));
            continue;
        }
        const char *text = (const char *)sqlite3_column_text(row, first++);
        if (text)
            api_figure_set_text(figure, figures, text);
    }
}

/* ---------------------------------------------------------------- figure() */

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
    if (parsed->core && strcmp(parsed->core, core) == 0)
        return true;
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
    for (int i = 1; i < values_len && json; i++)
        json = json_object_get(json, (const char *)sqlite3_value_text(values[i]));
    if (json_is_number(json))
        sqlite3_result_double(context, json_number_value(json) + 0.0); /* as SQLite stores it: there is no -0 */
    else if (json_is_string(json))
        sqlite3_result_text(context, json_string_value(json), -1, SQLITE_TRANSIENT);
}

bool store__figure_register(sqlite3 *db)
{
    struct parsed *parsed = calloc(1, sizeof *parsed);
    return parsed && sqlite3_create_function_v2(db, "figure", -1, SQLITE_UTF8, parsed, figure, NULL, NULL,
                                                parsed_free) == SQLITE_OK;
}
