/*
 * The request of POST /v1/noise.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_REQUESTS_NOISE_H
#define API_REQUESTS_NOISE_H

#include "api/codec/codec.h"

enum api_dtype { API_FLOAT32, API_FLOAT64, API_DTYPE_COUNT };

const char *api_dtype_name(enum api_dtype dtype);

/* Which noise is asked for: of a job, or of a stored factorisation. */
struct api_noise {
    char job[37];            /* its id; "": none */
    char factorization[65];  /* its id; "": none */
    double noise_multiplier; /* in [1e-9, 1e9]; NAN: the job's */
    uint64_t dimensions;
    enum eps_part part; /* noise or decoder */
    enum api_dtype dtype;
    int64_t seed;                 /* in [0, 2^53]; -1: the operating system's randomness */
    char stream[65];              /* the id of the stream that is taken up again; "": none */
    int64_t first_row;            /* the first one that is asked for; -1: it is not said, and 0 */
    struct eps_workload workload; /* of part decoder with a factorisation; default prefix sums */
    uint32_t given;               /* not 0: the workload was */
    struct api_job kept;          /* the workload's coefficients */
};

/* Decodes and checks what can be told from the request alone. NULL with at least one error. Release with
 * api_noise_destroy(). */
struct api_noise *api_noise_decode(struct api_errors *errors, const json_t *json);
/* The rules of the workload for n steps. False with at least one error. */
bool api_noise_check_workload(struct api_errors *errors, const struct api_noise *noise, size_t n);
void api_noise_destroy(struct api_noise *noise);

#endif
