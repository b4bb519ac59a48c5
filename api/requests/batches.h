/*
 * A request for batches, and the lists of users that may come with it. The sampling is read and checked as a job's is; what
 * a job takes from its matrix must be given.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_REQUESTS_BATCHES_H
#define API_REQUESTS_BATCHES_H

#include "api/codec/codec.h"

struct api_batches {
    char job[37];                   /* the id of the job whose sampling it is; "": given here */
    struct eps_mechanism mechanism; /* its n and sampling, every default filled in */
    uint64_t dataset_size;
    int64_t seed; /* -1: none */
};

/*
 * Decodes and checks a request. lists: the examples whose users are listed beside it, which is its dataset_size where none
 * is given; 0: there are no lists. max_n: see eps_job_check(). False with at least one error. Where it names a job,
 * api_batches_of_job() fills in its mechanism.
 */
bool api_batches_decode(struct api_batches *batches, struct api_errors *errors, const json_t *json, uint64_t lists,
                        size_t max_n);

/* Takes n and the sampling of the job that the request names, and checks the rest of the request against them; lists as
 * above. False with at least one error. */
bool api_batches_of_job(struct api_batches *batches, struct api_errors *errors, const struct eps_mechanism *mechanism,
                        uint64_t lists);

/* Lists of users. Release with api_users_destroy(). */
struct api_users;

/*
 * Reads lines of JSON {"users": [...]}, one an example, whose users are integers from 0 to 2^53 or texts of 1 to 200
 * bytes; 7 and "7" are two. first_line: how the first one is counted in messages. Takes memory of about API_USERS_BYTES
 * times the text at most.
 * NULL with errors whose pointer is "/users/I", I the example; or, where a line is no JSON, with a message; or with
 * neither, without memory.
 */
struct api_users *api_users_read(struct api_errors *errors, char *message, size_t message_size, const char *text,
                                 size_t len, size_t first_line);
void api_users_destroy(struct api_users *users);
const struct eps_users *api_users_get(const struct api_users *users);
uint64_t api_users_examples(const struct api_users *users);

#define API_USERS_BYTES 24

#endif
