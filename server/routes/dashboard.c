/*
 * The dashboard: a page and its files, which are part of the binary. It uses only this service: its
 * Content-Security-Policy allows no other site and no inline script.
 *
 * One file is not embedded but generated: members.js, the table of a job's members (lib/base/members.h) for the form.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <string.h>

#include "api/codec/codec.h"
#include "server/embedded.h"
#include "server/routes/routes.h"

#define FOLDER "server/dashboard/"
#define MEMBERS "members.js"

static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'";

/* The media types of the files by their suffix. */
static const struct {
    const char *suffix;
    const char *type;
} types[] = {
    {".html", "text/html; charset=utf-8"},     {".css", "text/css; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"}, {".svg", "image/svg+xml"},
    {".txt", "text/plain; charset=utf-8"},
};

static const char *type_of(const char *name)
{
    const char *suffix = strrchr(name, '.');
    for (size_t i = 0; suffix && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].suffix, suffix) == 0)
            return types[i].type;
    return "application/octet-stream";
}

static const struct embedded_file *file_named(const char *name)
{
    for (const struct embedded_file *file = embedded_files; file->name; file++)
        if (strncmp(file->name, FOLDER, strlen(FOLDER)) == 0 && strcmp(file->name + strlen(FOLDER), name) == 0)
            return file;
    return NULL;
}

/* Browsers may store the file, but must revalidate it each time. */
static void write_headers(struct request *request)
{
    reply_header(request, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    reply_header(request, CONTENT_POLICY, "%s", policy);
}

static enum handled reply_embedded(struct request *request, const struct embedded_file *file)
{
    char tag[ETAG_SIZE];
    text_etag(tag, (const char *)file->data, file->len);
    reply_header(request, MHD_HTTP_HEADER_ETAG, "%s", tag);
    write_headers(request);
    if (request_has_etag(request, tag))
        return reply_empty(request, 304);
    return reply_static(request, type_of(file->name), file->data, file->len);
}

static enum handled reply_members(struct request *request)
{
    struct text text = {0};
    text_puts(&text, "export const members = ");
    text_value_new(&text, api_members_encode());
    text_puts(&text, ";\n");
    write_headers(request);
    return reply_text(request, 200, type_of(MEMBERS), &text, true);
}

enum handled handle_dashboard_get(struct request *request)
{
    const struct embedded_file *file = file_named("index.html");
    if (!file)
        return reply_problem(request, API_PROBLEM_INTERNAL, "this build does not contain the dashboard");
    return reply_embedded(request, file);
}

enum handled handle_dashboard_file_get(struct request *request)
{
    if (strcmp(request->param, MEMBERS) == 0)
        return reply_members(request);
    const struct embedded_file *file = file_named(request->param);
    if (!file)
        return reply_problem(request, API_PROBLEM_NOT_FOUND, "the dashboard has no file with this name");
    return reply_embedded(request, file);
}
