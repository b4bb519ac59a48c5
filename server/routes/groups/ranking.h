/*
 * The ranking of the candidates of a plan: by the error of the objective or, if several batch sizes are compared, by
 * that error divided by the square of the batch size, which is the error of the average gradient. A candidate that was
 * verified by draws with less error than is proven for it is ranked by that.
 *
 * A ranking reads its candidates and rows once and is kept in memory, subject to --memory-bytes; later it reads only
 * the rows that have ended since. Reference-counted. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_GROUPS_RANKING_H
#define SERVER_ROUTES_GROUPS_RANKING_H

#include "api/json/text.h"
#include "server/server.h"
#include "server/store/store.h"

struct ranking;

/* The cache of rankings: server->rankings. NULL: out of memory. */
struct memory *rankings_create(size_t max_bytes);

/* The ranking of the plan, to be released by the caller; NULL: damaged, or out of memory. */
struct ranking *ranking_open(struct server *server, const struct group_record *record);
void ranking_release(struct ranking *ranking);

/* Writes the request as members, each preceded by a comma. */
void ranking_write_asked(struct text *out, const struct ranking *ranking);
/* Writes members, each preceded by a comma: `best` and, unless brief, `candidates` in their current state, those with a
 * result first, by rank. Sets out->failed if they cannot be read. */
void ranking_write(struct server *server, struct text *out, struct ranking *ranking, const struct group_record *record,
                   bool brief);
/* Whether there is a candidate of which the end of this child tells something. */
bool ranking_tells(const struct ranking *ranking, const struct child_record *child);
/* Writes a candidate that has ended, or whose verification has, as it was at that time: with its rank and gain among
 * those that had a result then. */
void ranking_write_ended(struct server *server, struct text *out, struct ranking *ranking,
                         const struct group_record *record, const struct child_record *child);

#endif
