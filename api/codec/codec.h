/*
 * The codec: JSON <-> the structs of libepsilon. It knows the whole vocabulary of openapi.yaml, whatever the
 * library serves today. Decoding collects every error with its JSON pointer; encoding is canonical: every
 * default filled in, members in one order, each number as the double it decodes to.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_CODEC_CODEC_H
#define API_CODEC_CODEC_H

#include <jansson.h>

#include "lib/epsilon.h"

#define API_LABEL_MAX 200 /* characters, not bytes */

/* Of UTF-8. */
size_t api_text_characters(const char *text, size_t len);

/* One violation: where (a JSON pointer) and what must hold. Both owned by the list. */
struct api_violation {
    char *pointer;
    char *detail;
};

/* Zero-initialise; release with api_errors_clear(). */
struct api_errors {
    struct api_violation *items;
    size_t len;
    size_t capacity;
    bool out_of_memory;
};

void api_errors_add(struct api_errors *errors, const char *pointer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void api_errors_clear(struct api_errors *errors);

/* A decoded job with the arrays it borrows. Immutable after decoding; many threads may read it. */
struct api_job {
    struct eps_job job; /* its arrays, the phases too, belong to this object */
    char *label;        /* UTF-8, or NULL; not part of the identity */
    double **arrays;    /* of numbers, with room for the next power of two */
    size_t arrays_len;
    bool method_alone; /* how it was written: the accountant as a name */
};

/*
 * Parses JSON text as the service accepts it: one value, UTF-8, no member twice, nesting of at most 64, no more
 * values than fit into 16 MiB, numbers in long arrays apart; integers exact (a double's worth; 20000000000000000001
 * is kept apart as malformed). Takes memory of about ten times the text at most.
 * Returns the value (the caller's), or NULL with a message that gives line and column (1-based), or with an empty one
 * without memory. Long arrays of numbers are nodes of another kind: api_job_decode() and api_json_text() know them.
 */
json_t *api_json_parse(const char *text, size_t len, char *message, size_t message_size);

/*
 * Decodes and checks one job (eps_job_defaults() and eps_job_check() included). max_n: see eps_job_check().
 * Returns the job, to be released with api_job_destroy(); or NULL with at least one error.
 */
struct api_job *api_job_decode(struct api_errors *errors, const json_t *json, size_t max_n);
void api_job_destroy(struct api_job *job);

/* The error with its pointer to where the client wrote the member that the library means: "/accountant" where it was a
 * name, "/epochs" in the place of "/n", "/examples_per_user" for that of a phase. */
void api_job_locate(const struct api_job *job, struct eps_error *error);

/* The canonical form: every default filled in; label included only if with_label and there is one. New ref. */
json_t *api_job_encode(const struct api_job *job, bool with_label);
/* The same for lists, with the label and without arrays: another job than this one where arrays_len is not 0. */
json_t *api_job_encode_brief(const struct api_job *job);

/* Hash of the canonical form without the label: 64 hex digits and NUL; "" without memory. Equal jobs have equal
 * hashes. */
void api_job_hash(char hash[65], const struct api_job *job);

/* Compact text of a value, numbers as the shortest decimal that decodes to the same double; malloc'ed. */
char *api_json_text(const json_t *json);

/*
 * The members of a job, from the tables of lib/base/members.h: an array of objects, new reference; NULL without memory.
 *   pointer   where it stands in a job; a member that is written differently by variant comes once for each way
 *   type      real, integer, boolean, name, id, numbers, rows, phases or label
 *   of        the pointer of the member that says whether there is this one; absent: it is there in every job
 *   variants  the values of that member with which it is there
 *   names     of a name, those that it takes
 *   initial   the default; absent: the member is required, or its default depends on other members
 *   range     what a number must lie in, as messages write it
 */
json_t *api_members_encode(void);

/* A double as JSON: null for NAN and infinities. */
json_t *api_number(double value);

/* The `result` member of a finished job, without cache.result and the seconds, which the caller knows: it sets
 * them with api_result_stamp(), which adds the versions. New reference. */
json_t *api_result_encode(const struct eps_result *result);
int api_result_stamp(json_t *result, const char *result_cache, double elapsed_seconds, double compute_seconds);

/* The curve as {"points": [...]} (new reference) and as CSV with its header (malloc'ed). */
json_t *api_curve_encode(const struct eps_curve_point *points, size_t len);
char *api_curve_csv(const struct eps_curve_point *points, size_t len);

#endif
