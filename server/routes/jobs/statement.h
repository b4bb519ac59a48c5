/*
 * The privacy statement of a training for a model card. Its facts are collected once from the stored job and result,
 * and shown as JSON or Markdown. Nothing is recomputed.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_JOBS_STATEMENT_H
#define SERVER_ROUTES_JOBS_STATEMENT_H

#include <jansson.h>

#include "api/json/text.h"
#include "server/store/records.h"

/* The members of the statement except `job`. Returns a new reference; NULL: out of memory, or the stored data cannot be
 * read. */
json_t *statement_facts(const struct job_record *record, const struct result_record *result);
/* Writes a page of Markdown from the facts. job: canonical JSON on one line; whole: with its arrays. */
void statement_markdown(struct text *out, const json_t *facts, const char *job, bool whole);

#endif
