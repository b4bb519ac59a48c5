/*
 * Reads single values of a request; the decoder of objects calls these functions for each member. Internal to the
 * codec.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_CODEC_VALUES_H
#define API_CODEC_VALUES_H

#include "api/codec/fields.h"
#include "api/json/numbers.h"

#define API_MAX_PATH 256
#define API_UNJUDGED_MAX 256 /* the number of unjudged objects that are recorded; each has an error of its own */

struct api_decoder {
    struct api_errors *errors;
    struct api_job *job;           /* NULL: the document is not a job */
    const struct eps__object *top; /* the type of the document */
    const json_t *root;
    size_t max_n;
    size_t read_errors;                  /* the number of errors found before the rules between members were checked */
    char unjudged[API_UNJUDGED_MAX][32]; /* objects of unknown variant, whose members were not read */
    size_t unjudged_len;
};

/* A member that is null counts as absent. */
static inline bool api__is_absent(const json_t *json)
{
    return json == NULL || json_is_null(json);
}

/* The type of a value for messages: "an object", "a string"... */
const char *api__kind_of(const json_t *json);

/* The pointer of an element of an array. */
void api__element_path(char out[API_MAX_PATH], const char *path, size_t index);

/* Writes the names that a field allows, separated by commas. */
void api__list_names(const struct eps__member *field, char *list, size_t size);

/* Each function reads one value into its place. On failure it adds an error at `path` and leaves the place
 * unchanged. */
void api__read_real(struct api_decoder *decoder, const char *path, const json_t *json, const char *wanted, double *out);
void api__read_integer(struct api_decoder *decoder, const char *path, const json_t *json,
                       const struct eps__member *field, void *place);
bool api__read_name(struct api_decoder *decoder, const char *path, const json_t *json, const struct eps__member *field,
                    void *place);
void api__read_id(struct api_decoder *decoder, const char *path, const json_t *json, char *place);
void api__read_job_id(struct api_decoder *decoder, const char *path, const json_t *json, char *place);
void api__read_label(struct api_decoder *decoder, const char *path, const json_t *json);
/* The label of a sweep or a plan; NULL: absent, or wrong, or memory runs out, which the errors tell. */
char *api__group_label(struct api_errors *errors, const json_t *json);
/* base: the struct that holds the array and its length. */
void api__read_numbers(struct api_decoder *decoder, const char *path, const json_t *json,
                       const struct eps__member *field, void *base);
void api__read_rows(struct api_decoder *decoder, const char *path, const json_t *json, const struct eps__member *field,
                    void *base);

/* ---- decode.c */

/* Reads the members of an object into their places in `base`. */
void api__read_object(struct api_decoder *decoder, const char *path, const json_t *json,
                      const struct eps__object *object, void *base);

#endif
