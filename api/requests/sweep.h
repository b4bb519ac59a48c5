/*
 * A sweep: a job, and lists of values for some of its members, which are named by JSON pointers. The points are the
 * product of the lists, with the last pointer varying fastest; each is the job with one value of every list.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_REQUESTS_SWEEP_H
#define API_REQUESTS_SWEEP_H

#include "api/codec/codec.h"

#define API_SWEEP_POINTS 10000
#define API_SWEEP_BASE_BYTES 65536
#define API_SWEEP_GRID_BYTES 1048576

/* Immutable after decoding, so threads may share it. */
struct api_sweep {
    json_t *base;
    json_t *grid;  /* pointer -> array of values, in the order of the request */
    size_t total;  /* points */
    char *label;   /* UTF-8, or NULL; not part of the request's identity */
    char *request; /* {"base":...,"grid":...} as text, for api_sweep_read() */
};

/*
 * Decodes the body of a POST. It is an error if a list or a pointer is wrong, or if none of the points tried is a valid
 * job and the errors of the first one do not all concern values of the grid. Returns the sweep, or NULL with at least
 * one error.
 */
struct api_sweep *api_sweep_decode(struct api_errors *errors, const json_t *json, size_t max_n);
/* Restores a sweep from its `request`. Returns NULL if the text is damaged or memory runs out. */
struct api_sweep *api_sweep_read(const char *request);
void api_sweep_destroy(struct api_sweep *sweep);

/* The value of the k-th pointer at a point (borrowed). k < json_object_size(grid). */
json_t *api_sweep_value(const struct api_sweep *sweep, size_t k, size_t point);
/* The job of a point; NULL with errors, whose pointers refer to the job. */
struct api_job *api_sweep_point(const struct api_sweep *sweep, struct api_errors *errors, size_t point, size_t max_n);

#endif
