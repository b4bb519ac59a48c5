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

/* The requested noise: of a job, or of a stored factorisation. */
struct api_noise {
    char job[37];            /* the id of the job; "": none */
    char factorization[65];  /* the id of the factorisation; "": none */
    double noise_multiplier; /* in [1e-9, 1e9]; NAN: that of the job */
    uint64_t dimensions;
    enum eps_part part; /* noise or decoder */
    enum api_dtype dtype;
    int64_t seed;                 /* in [0, 2^53]; -1: use the randomness of the operating system */
    char stream[65];              /* the id of the stream to resume; "": none */
    int64_t first_row;            /* the first row to send; -1: not given, which means 0 */
    struct eps_workload workload; /* for part decoder with a factorisation; default prefix sums */
    uint32_t given;               /* not 0 if the workload was given */
    struct api_job kept;          /* owns the coefficients of the workload */
};

/* Decodes the request and checks what does not depend on the job. Returns NULL with at least one error. Release with
 * api_noise_destroy(). */
struct api_noise *api_noise_decode(struct api_errors *errors, const json_t *json);
/* Checks the workload for n steps. Returns false with at least one error. */
bool api_noise_check_workload(struct api_errors *errors, const struct api_noise *noise, size_t n);
void api_noise_destroy(struct api_noise *noise);

#endif
