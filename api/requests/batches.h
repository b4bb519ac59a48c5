/*
 * A request for batches and the lists of users that may accompany it. The sampling is decoded and checked like that of
 * a job, but what a job takes from its matrix must be given.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_REQUESTS_BATCHES_H
#define API_REQUESTS_BATCHES_H

#include "api/codec/codec.h"

struct api_batches {
    char job[37];                   /* the id of the job whose sampling is used; "": the request gives the sampling */
    struct eps_mechanism mechanism; /* n and the sampling, with every default filled in */
    uint64_t dataset_size;
    int64_t seed; /* -1: none */
};

/*
 * Decodes and checks a request. lists: the number of examples with a list of users, which is the dataset_size if none
 * is given; 0: there are no lists. max_n: see eps_job_check(). Returns false with at least one error. If the request
 * names a job, api_batches_of_job() fills in the mechanism.
 */
bool api_batches_decode(struct api_batches *batches, struct api_errors *errors, const json_t *json, uint64_t lists,
                        size_t max_n);

/* Copies n and the sampling of the job that the request names, and checks the rest of the request against them. lists
 * as above. Returns false with at least one error. */
bool api_batches_of_job(struct api_batches *batches, struct api_errors *errors, const struct eps_mechanism *mechanism,
                        uint64_t lists);

/* Lists of users. Release with api_users_destroy(). */
struct api_users;

/*
 * Reads lines of JSON {"users": [...]}, one per example. A user is an integer from 0 to 2^53 or a string of 1 to 200
 * bytes; 7 and "7" are different users. first_line: the number of the first line in messages. Uses at most about
 * API_USERS_BYTES times the memory of the text. Returns NULL with errors at "/users/I", where I is the example; or with
 * a message if a line is not JSON; or with neither if memory runs out.
 */
struct api_users *api_users_read(struct api_errors *errors, char *message, size_t message_size, const char *text,
                                 size_t len, size_t first_line);
void api_users_destroy(struct api_users *users);
const struct eps_users *api_users_get(const struct api_users *users);
uint64_t api_users_examples(const struct api_users *users);

#define API_USERS_BYTES 24

#endif
