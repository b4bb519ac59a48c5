/*
 * GET /v1/usage: what the key of the request has used, and its quotas; for a key of scope admin, those of every key.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/wait.h"
#include "server/routes/routes.h"

/* The document, while it is written. */
struct usage {
    struct pool_task task; /* first */
    struct request *request;
    bool begun;
    enum store_status status;
    struct text text;
};

static void usage_free(void *state)
{
    struct usage *usage = state;
    text_clear(&usage->text);
    free(usage);
}

/* A key that has not asked for anything yet has an account from here on. Returns STORE_FAILED if memory runs out. */
static enum store_status write_key(struct usage *usage, const struct access_entry *entry)
{
    struct server *server = usage->request->server;
    struct account *account = ledger_account(server->ledger, entry->id);
    struct account_usage used;
    uint64_t bytes, items;
    enum store_status status = store_read_kept(server->store, entry->id, &bytes, &items);
    if (!account || status != STORE_OK)
        return STORE_FAILED;
    account_read(account, &entry->quota, clock_monotonic(), &used);
    used.used[QUOTA_BYTES] = (double)bytes;
    struct text *out = &usage->text;
    text_puts(out, "{\"id\":");
    text_json(out, entry->id[0] ? entry->id : NULL);
    text_puts(out, ",\"scope\":");
    text_json(out, entry->id[0] ? access_scope_name(entry->scope) : NULL);
    text_puts(out, ",\"group\":");
    text_json(out, entry->id[0] ? entry->group : NULL);
    text_puts(out, ",\"quotas\":{");
    for (enum quota_kind kind = QUOTA_REQUESTS; kind < QUOTA_KINDS; kind++) {
        uint64_t most = entry->quota.most[kind];
        text_printf(out, "%s\"%s\":{\"limit\":", kind ? "," : "", quota_name(kind));
        if (most)
            text_integer(out, (int64_t)most);
        else
            text_puts(out, "null");
        text_puts(out, ",\"used\":");
        text_number(out, most || !quota_window(kind) ? used.used[kind] : NAN); /* a level needs a rate */
        text_puts(out, "}");
    }
    text_printf(out, "},\"total\":{\"requests\":%llu,\"seconds\":", (unsigned long long)used.requests);
    text_number(out, used.seconds);
    text_printf(out, ",\"kept\":%llu}}", (unsigned long long)items);
    return STORE_OK;
}

static enum store_status write_keys(struct usage *usage)
{
    const struct access_client *client = &usage->request->client;
    struct access *access = usage->request->server->access;
    struct access_entry nobody = {.id = ""};
    if (!access_required(access))
        return write_key(usage, &nobody);
    size_t len, written = 0;
    struct access_entry *list = access_list(access, &len);
    enum store_status status = list ? STORE_OK : STORE_FAILED;
    for (size_t i = 0; i < len && status == STORE_OK; i++) {
        if (client->sees_all || strcmp(list[i].id, client->id) == 0) {
            text_puts(&usage->text, written++ ? "," : "");
            status = write_key(usage, &list[i]);
        }
    }
    free(list);
    return status;
}

/* On the lists thread. */
static void usage_task(struct pool_task *task)
{
    struct usage *usage = (struct usage *)task;
    usage->begun = true;
    text_puts(&usage->text, "{\"keys\":[");
    usage->status = write_keys(usage);
    text_puts(&usage->text, "]}\n");
    request_resume(usage->request);
}

static enum handled usage_resume(struct request *request)
{
    struct usage *usage = request->state;
    if (!usage->begun)
        return reply_gone(request);
    if (usage->status != STORE_OK)
        return reply_problem(request, API_PROBLEM_INTERNAL, "the database could not be read");
    reply_header(request, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    return reply_text(request, 200, "application/json", &usage->text, false);
}

static bool usage_give(void *user)
{
    struct usage *usage = user;
    pool_submit(usage->request->server->lists, &usage->task);
    return true;
}

static bool usage_take_back(void *user)
{
    struct usage *usage = user;
    return pool_withdraw(usage->request->server->lists, &usage->task);
}

enum handled handle_usage_get(struct request *request)
{
    static const struct holder holder = {usage_give, usage_take_back};
    struct usage *usage = calloc(1, sizeof *usage);
    if (!usage)
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    request->state = usage;
    request->state_free = usage_free;
    usage->task = request_task(request, usage_task);
    usage->request = request;
    if (!request_suspend(request, usage_resume))
        return reply_stopping(request);
    request_give(request, &holder, usage, INFINITY);
    return HANDLED_SUSPENDED;
}
