/*
 * What a key may use at most. A quota is a word, NAME=NUMBER[UNIT], such as requests=50/s; a list of them is separated
 * by commas (--quota) or blanks (the line of a key).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_QUOTA_H
#define SERVER_OPS_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum quota_kind {
    QUOTA_REQUESTS, /* that need a key, a second */
    QUOTA_QUEUED,   /* waiting jobs, sweeps and plans */
    QUOTA_SECONDS,  /* of computing, an hour */
    QUOTA_STREAMS,  /* of noise, batches and events, at a time */
    QUOTA_BYTES,    /* kept: see job_record_kept() */
    QUOTA_KINDS
};

#define QUOTA_MOST UINT64_C(1000000000000000) /* the largest number, which a double and a header field represent */
#define QUOTA_TEXT_SIZE 160                   /* all quotas as text, and NUL */

struct quota {
    uint64_t most[QUOTA_KINDS]; /* 0: unlimited */
};

/* How a quota is refused: the fields of draft-ietf-httpapi-ratelimit-headers, and of the detail. */
struct quota_refusal {
    enum quota_kind kind;
    uint64_t most;
    uint64_t left;    /* of that */
    unsigned seconds; /* after which a request may succeed: at least 1 */
};

const char *quota_name(enum quota_kind kind);
/* What is counted, in the singular: "request". */
const char *quota_unit(enum quota_kind kind);
/* The seconds to which the quota applies; 0: it is a level. */
unsigned quota_window(enum quota_kind kind);

/* Adds one word. Returns what is wrong with it, or NULL. */
const char *quota_add(struct quota *quota, const char *word, size_t len);
/* Reads a list separated by commas. Returns what is wrong with it, or NULL. */
const char *quota_read(struct quota *quota, const char *list);
/* Writes the quotas, separated by blanks. */
void quota_write(char text[QUOTA_TEXT_SIZE], const struct quota *quota);

#endif
