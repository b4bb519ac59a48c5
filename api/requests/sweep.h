/*
 * A sweep: a job and lists of values for some of its members, named by JSON pointers. Its points are the product of the
 * lists, the last pointer fastest; each is the job with one value of every list in its place.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_REQUESTS_SWEEP_H
#define API_REQUESTS_SWEEP_H

#include "api/codec/codec.h"

#define API_SWEEP_POINTS 10000
#define API_SWEEP_BASE_BYTES 65536
#define API_SWEEP_GRID_BYTES 1048576

/* Immutable after decoding; many threads may read it. */
struct api_sweep {
    json_t *base;
    json_t *grid;  /* pointer -> array of values, in the order of the request */
    size_t total;  /* points */
    char *label;   /* UTF-8, or NULL; not part of the request's identity */
    char *request; /* {"base":...,"grid":...} as text, which api_sweep_read() reads */
};

/*
 * Decodes the body of a POST. It is wrong where a list or a pointer is, or where none of the points tried is a valid job
 * and the first one's errors are not the grid's values alone. Returns the sweep, or NULL with at least one error.
 */
struct api_sweep *api_sweep_decode(struct api_errors *errors, const json_t *json, size_t max_n);
/* From its `request`; NULL: damaged, or out of memory. */
struct api_sweep *api_sweep_read(const char *request);
void api_sweep_destroy(struct api_sweep *sweep);

/* The k-th pointer's value at a point; borrowed. k below json_object_size(grid). */
json_t *api_sweep_value(const struct api_sweep *sweep, size_t k, size_t point);
/* A point's job; NULL with errors, whose pointers are those of the job. */
struct api_job *api_sweep_point(const struct api_sweep *sweep, struct api_errors *errors, size_t point, size_t max_n);

#endif
