/*
 * The acceptance of a job: from the bytes of a request to a committed row. In steps, so that each runs where
 * it may: reading (quick for small bodies), with the question whether its key was used in between, checking whether an accountant serves the job (may take a second for
 * n in the millions: the gate's thread), storing (the writer's thread).
 *
 * Thread-compatible; owned by one request.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_JOBS_SUBMIT_H
#define SERVER_JOBS_SUBMIT_H

#include "api/problem.h"
#include "server/jobs/jobs.h"

enum submit_outcome {
    SUBMIT_PENDING,  /* not decided yet */
    SUBMIT_REFUSED,  /* problem: the document */
    SUBMIT_KEY_USED, /* insert.key: how, by what was first posted with it */
    SUBMIT_ACCEPTED, /* id: queued or joined */
    SUBMIT_FINISHED  /* id: answered by a cached result; see submission_document() */
};

struct submission {
    struct store_insert insert; /* first; its key is the caller's to fill in, but for the request */
    struct jobs *jobs;
    const char *instance;                        /* path of the request, borrowed, as are the next two */
    const char *request;                         /* its id */
    const char *client;                          /* the address it came from */
    void (*done)(struct submission *submission); /* after the commit, on the writer thread */
    void *user;
    /* Out. */
    enum submit_outcome outcome;
    json_t *problem; /* owned until taken */
    char id[UUID_SIZE];
    /* Private. */
    struct job_record record;
    struct api_job *decoded;
    struct result_record *result;
    size_t reserved;
    uint64_t mark;
};

/* Parses and decodes: then it is known which request the key came with. Afterwards PENDING or REFUSED. */
void submission_read(struct submission *submission, const char *body, size_t body_len);
/* Where the key is free: looks for a cached result. Afterwards PENDING or REFUSED; PENDING with *cached: nothing is left to
 * check. */
void submission_begin(struct submission *submission, const char *body, size_t body_len, bool *cached);
/* Whether the job is served at its cost and the queue has room: PENDING or REFUSED. Not where a result is cached. */
void submission_check(struct submission *submission);
/* Stores it, unless the key is used by now, and calls done(). */
void submission_store(struct submission *submission);
/* SUBMIT_FINISHED: the document, the caller's; NULL: out of memory. */
struct document *submission_document(struct submission *submission);
void submission_clear(struct submission *submission);

/*
 * A job that the service makes itself, of a group: the record as it would be stored, finished where a result is cached
 * (*result, the caller's; else NULL). False with the error: no accountant serves it at its cost, or there is no memory.
 */
bool submission_propose(struct jobs *jobs, struct api_job *decoded, struct job_record *record,
                        struct result_record **result, struct eps_error *error);

#endif
