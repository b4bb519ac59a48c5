/*
 * Representations of the strategy of a finished job that must be computed: its matrix and its variance per step. A
 * thread of the side pool builds the strategy and writes to an unlinked file next to the database, while the connection
 * is suspended; the connection then gets the file. Memory is therefore bounded for any n, the length is known, and an
 * error in the middle still gives a problem document. The total size of these files is bounded too (--spool-bytes),
 * from the first byte written to the last one read. The side pool is separate from the workers, so a request about a
 * finished job does not wait for running jobs.
 *
 * Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_JOBS_DRAWING_H
#define SERVER_ROUTES_JOBS_DRAWING_H

#include <stdio.h>

#include "server/jobs/jobs.h"
#include "server/routes/routes.h"
#include "server/work/work.h"

struct drawing;

/* Writes to drawing->file, on the side pool; reports failures with drawing_fail() or drawing_ok(). */
typedef void drawing_write(struct drawing *drawing, const struct eps_context *context,
                           const struct eps_strategy *strategy);

struct drawing {
    struct work work; /* the first member; canceled: the client has disconnected */
    struct request *request;
    drawing_write *write;
    enum eps_part part; /* for a matrix */
    struct job_record record;
    struct result_record *result; /* its */
    size_t phase;                 /* the requested phase; NO_PHASE: none */
    double noise_multiplier;      /* of the mechanism; 0: none */
    FILE *file;                   /* counts the bytes written in server->spool */
    int fd;                       /* of the file, and of the reply; -1: none */
    uint64_t len;                 /* written */
    struct reservation waiting;   /* until a thread takes it */
    json_t *problem;
};

/* The handler: reads the succeeded job and starts the drawing; in a job with phases, of the phase in the query. */
enum handled drawing_start(struct request *request, drawing_write *write, enum eps_part part);

/* Records a failure; the first one becomes the reply. */
void drawing_fail(struct drawing *drawing, enum api_problem problem, const char *detail);
/* Records an error of the library; returns true if there was none. */
bool drawing_ok(struct drawing *drawing, enum eps_status status, const struct eps_error *error);
/* Whether to stop because the service is stopping or the client has disconnected. */
bool drawing_stopping(struct drawing *drawing);
/* Writes a JSON array. */
void drawing_numbers(FILE *file, const double *values, size_t len);

#endif
