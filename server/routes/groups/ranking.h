/*
 * The candidates of a plan, ranked: by the error that was asked to be small, over the square of the batch size, where
 * several batch sizes are compared: that of the average gradients.
 *
 * A ranking is read once, candidates and rows, and kept in memory, as many as --memory-bytes allows; from then on it reads the
 * rows that ended since. Counted by reference. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_GROUPS_RANKING_H
#define SERVER_ROUTES_GROUPS_RANKING_H

#include "server/ops/text.h"
#include "server/server.h"
#include "server/store/store.h"

struct ranking;

/* What is kept of them: server->rankings. NULL: out of memory. */
struct memory *rankings_create(size_t max_bytes);

/* Of the plan, for the caller to release; NULL: damaged, or out of memory. */
struct ranking *ranking_open(struct server *server, const struct group_record *record);
void ranking_release(struct ranking *ranking);

/* What was asked, as members with a comma before. */
void ranking_write_asked(struct text *out, const struct ranking *ranking);
/* As members with a comma before: `best`, and unless it is brief `candidates` as they are now, those with an answer first, by
 * rank. Where that cannot be read, out->failed. */
void ranking_write(struct server *server, struct text *out, struct ranking *ranking, const struct group_record *record,
                   bool brief);
/* One that has ended, with its rank and its gain among those that had an answer by then. */
void ranking_write_ended(struct server *server, struct text *out, struct ranking *ranking,
                         const struct group_record *record, const struct child_record *child);

#endif
