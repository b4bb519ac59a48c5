/*
 * What a model card has to say about the privacy of a training: gathered once, from what is stored of a job and its result,
 * and shown as JSON or as Markdown. Nothing is computed again.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_JOBS_STATEMENT_H
#define SERVER_ROUTES_JOBS_STATEMENT_H

#include <jansson.h>

#include "server/ops/text.h"
#include "server/store/records.h"

/* The statement's members but for `job`. New reference; NULL: out of memory, or what is stored cannot be read. */
json_t *statement_facts(const struct job_record *record, const struct result_record *result);
/* A page of Markdown from the facts. job: canonical JSON on one line; whole: with its arrays. */
void statement_markdown(struct text *out, const json_t *facts, const char *job, bool whole);

#endif
