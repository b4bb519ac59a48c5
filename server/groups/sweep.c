/*
 * Sweeps as groups: the children are the points.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>

#include "api/requests/sweep.h"
#include "server/groups/groups.h"

static void *open_sweep(const struct group_record *record)
{
    return api_sweep_read(record->request);
}

static void close_sweep(void *asked)
{
    api_sweep_destroy(asked);
}

static enum child_kind point(const struct server *server, const struct group_record *record, void *asked,
                             size_t *number, struct api_job **job, char *detail, size_t detail_size)
{
    struct api_errors errors = {0};
    (void)record;
    *job = api_sweep_point(asked, &errors, *number, (size_t)server->config->max_n);
    if (!*job && errors.len) {
        snprintf(detail, detail_size, "%s%s%s", errors.items[0].pointer, errors.items[0].pointer[0] ? ": " : "",
                 errors.items[0].detail);
    }
    if (!*job && !errors.len)
        snprintf(detail, detail_size, "out of memory");
    api_errors_clear(&errors);
    return *job ? CHILD_JOB : CHILD_WRONG;
}

const struct group_kind sweep_kind = {
    .open = open_sweep,
    .close = close_sweep,
    .child = point,
};
