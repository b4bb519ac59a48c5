/*
 * The codec converts between JSON and the structs of libepsilon. It knows the whole vocabulary of openapi.yaml,
 * including what the library does not serve yet. Decoding collects every error with its JSON pointer. Encoding is
 * canonical: every default is filled in, the order of members is fixed, and each number is the double that it decodes
 * to.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_CODEC_CODEC_H
#define API_CODEC_CODEC_H

#include <jansson.h>

#include "api/json/text.h"
#include "lib/epsilon.h"

#define API_LABEL_MAX 200 /* characters, not bytes */

/* The number of characters of a UTF-8 text. */
size_t api_text_characters(const char *text, size_t len);

/* One error: its place (a JSON pointer) and the rule that is violated. The list owns both strings. */
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

/* A decoded job and the arrays that it uses. Immutable after decoding, so threads may share it. */
struct api_job {
    struct eps_job job; /* its arrays and phases belong to this object */
    char *label;        /* UTF-8, or NULL; not part of the identity */
    double **arrays;    /* arrays of numbers; the capacity is the next power of two */
    size_t arrays_len;
    bool method_alone; /* the accountant was written as a name, not as an object */
};

/*
 * Parses JSON text by the rules of the service: one value, UTF-8, no repeated members, nesting of at most 64 levels,
 * and no more values than fit into 16 MiB, not counting numbers in long arrays. Integers are exact: an integer that is
 * not a double, such as 20000000000000000001, is malformed. Uses at most about ten times the memory of the text.
 * Returns a new reference, or NULL with a message that states line and column (from 1); the message is empty if memory
 * ran out. Long arrays of numbers become a special kind of node, which api_job_decode() and api_json_text() recognise.
 */
json_t *api_json_parse(const char *text, size_t len, char *message, size_t message_size);

/*
 * Decodes and checks one job, including eps_job_defaults() and eps_job_check(). max_n: see eps_job_check(). Returns the
 * job, to be released with api_job_destroy(), or NULL with at least one error.
 */
struct api_job *api_job_decode(struct api_errors *errors, const json_t *json, size_t max_n);
void api_job_destroy(struct api_job *job);

/* Rewrites the pointer of a library error to the place where the client wrote the member: "/accountant" if that is a
 * name, "/epochs" instead of "/n", "/examples_per_user" for that of a phase. */
void api_job_locate(const struct api_job *job, struct eps_error *error);

/* The canonical form, with every default filled in. It contains the label if with_label is set and there is one.
 * Returns a new reference. */
json_t *api_job_encode(const struct api_job *job, bool with_label);
/* The form used in lists: with the label and without arrays. If arrays_len is not 0, it is therefore not the same
 * job. */
json_t *api_job_encode_brief(const struct api_job *job);

/* The hash of the canonical form without the label: 64 hex digits and NUL, or "" if memory runs out. Equal jobs have
 * equal hashes. */
void api_job_hash(char hash[65], const struct api_job *job);

/* Compact text of a value. Numbers are written as the shortest decimal that decodes to the same double. The caller
 * frees the text. NULL: of NULL, or memory runs out. api_json_text_new() takes ownership of the reference. */
char *api_json_text(const json_t *json);
char *api_json_text_new(json_t *json);

/*
 * The members of a job, from the tables of lib/base/members.h: an array of objects, as a new reference. NULL: out of
 * memory. The members of each object:
 *   pointer   the JSON pointer of the member; a member whose form depends on the variant has one object per form
 *   type      real, integer, boolean, name, id, numbers, rows, phases or label
 *   of        the pointer of the member that selects the variant; absent if every job has the member
 *   variants  the values of `of` for which the job has the member
 *   names     for a name, the allowed values
 *   initial   the default; absent if the member is required or its default depends on other members
 *   range     the range of a number, as messages show it
 */
json_t *api_members_encode(void);

/* A double as JSON: null for NAN and infinities. */
json_t *api_number(double value);

/* The `result` member of a finished job, without cache.result and the times; api_result_stamp() adds these and the
 * versions. Returns a new reference. */
json_t *api_result_encode(const struct eps_result *result);
int api_result_stamp(json_t *result, const char *result_cache, double elapsed_seconds, double compute_seconds);

/* The curve as {"points": [...]} (new reference), and as CSV with a header line. */
json_t *api_curve_encode(const struct eps_curve_point *points, size_t len);
void api_curve_csv(struct text *out, const struct eps_curve_point *points, size_t len);

#endif
