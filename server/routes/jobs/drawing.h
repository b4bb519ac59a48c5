/*
 * Representations of a finished job's strategy that take computing: its matrix, its per-step variance. A thread of the side pool builds the strategy and writes to an unlinked file
 * beside the database; the connection, suspended meanwhile, then gets the file. So memory stays bounded whatever n is, the
 * length is known, and an error in the middle is still a problem document. What all these files take together is bounded
 * too (--spool-bytes), from the first byte that is written to the last that is read. The side pool is apart from the
 * workers: a question about a finished job does not wait for jobs that run.
 *
 * Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_JOBS_DRAWING_H
#define SERVER_ROUTES_JOBS_DRAWING_H

#include <stdio.h>

#include "server/routes/routes.h"
#include "server/work/work.h"

struct drawing;

/* Writes to drawing->file, on the side pool; failures through drawing_fail() or drawing_ok(). */
typedef void drawing_write(struct drawing *drawing, const struct eps_context *context,
                           const struct eps_strategy *strategy);

struct drawing {
    struct work work; /* first; canceled: the client is gone */
    struct request *request;
    drawing_write *write;
    enum eps_part part; /* of a matrix */
    struct job_record record;
    struct result_record *result; /* its */
    size_t phase;                 /* the one that was asked for; NO_PHASE: none was */
    double noise_multiplier;      /* of what is drawn; 0: none */
    FILE *file;                   /* counts what it writes in server->spool */
    int fd;                       /* beneath it, and behind the reply; -1: none */
    uint64_t len;                 /* written */
    size_t waiting;               /* bytes that are reserved in the queue; 0: none any more */
    json_t *problem;
};

/* The handler: reads the succeeded job and has it drawn; of a job of phases, the one that the query's member names. */
enum handled drawing_start(struct request *request, drawing_write *write, enum eps_part part);

/* The first failure is the reply. */
void drawing_fail(struct drawing *drawing, enum api_problem problem, const char *detail);
/* Turns an error of the library into the reply; true if there was none. */
bool drawing_ok(struct drawing *drawing, enum eps_status status, const struct eps_error *error);
/* The service is stopping, or the client is gone: give up. */
bool drawing_stopping(struct drawing *drawing);
/* A JSON array. */
void drawing_numbers(FILE *file, const double *values, size_t len);

#endif
