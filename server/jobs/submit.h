/*
 * The acceptance of a job, from the bytes of a request to a committed row. It has steps so that each runs on the right
 * thread: reading (fast for small bodies), with a lookup of its key in between; checking whether an accountant serves
 * the job (up to a second for n in the millions; on the gate thread); storing (on the writer thread).
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
    SUBMIT_OVER,     /* refusal: the quota that is used up */
    SUBMIT_KEY_USED, /* insert.key: the key was used; it refers to the first request */
    SUBMIT_ACCEPTED, /* id: queued, or joined to an equal job */
    SUBMIT_FINISHED  /* id: answered from the cache; see submission_document() */
};

struct submission {
    struct store_insert insert; /* the first member; the caller fills in its key, except for the request */
    struct jobs *jobs;
    const char *instance; /* path of the request; borrowed, like the next two */
    const char *request;  /* its id */
    const char *client;   /* the address of the client */
    struct poster poster;
    const struct quota *quota;                   /* of the key; borrowed */
    void (*done)(struct submission *submission); /* after the commit, on the writer thread */
    void *user;
    /* Out. */
    enum submit_outcome outcome;
    json_t *problem; /* owned until taken */
    struct quota_refusal refusal;
    char id[UUID_SIZE];
    /* Private. */
    struct job_record record;
    struct api_job *decoded;
    struct result_record *result;
    struct reservation reserved;
    uint64_t mark;
};

/* Parses and decodes, after which the request that belongs to the key is known. Then PENDING or REFUSED. */
void submission_read(struct submission *submission, const char *body, size_t body_len);
/* Call if the key is free: looks for a cached result. Then PENDING or REFUSED; PENDING with *cached: nothing is left to
 * check. */
void submission_begin(struct submission *submission, const char *body, size_t body_len, bool *cached);
/* Checks whether the job is served within the limits and the queue has room. Then PENDING or REFUSED. Not needed if a
 * result is cached. */
void submission_check(struct submission *submission);
/* Stores the job, unless the key has been used meanwhile, and calls done(). */
void submission_store(struct submission *submission);
/* SUBMIT_FINISHED: the document, owned by the caller; NULL: out of memory. */
struct document *submission_document(struct submission *submission);
void submission_clear(struct submission *submission);

/*
 * A job that the service creates for a group: fills in the record as it would be stored, finished if a result is cached
 * (*result, owned by the caller; otherwise NULL). Returns false with the error if no accountant serves it within the
 * limits, or if memory runs out.
 */
bool submission_propose(struct jobs *jobs, struct api_job *decoded, const struct poster *poster,
                        struct job_record *record, struct result_record **result, struct eps_error *error);

#endif
