/*
 * Reading single values of a request: what the objects' decoder calls for each member. Internal to the codec.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_CODEC_VALUES_H
#define API_CODEC_VALUES_H

#include "api/codec/fields.h"
#include "api/json/numbers.h"

#define API_MAX_PATH 256
#define API_UNJUDGED_MAX 256 /* each has its error, and no more of them are listed */

struct api_decoder {
    struct api_errors *errors;
    struct api_job *job;          /* NULL: the document is no job */
    const struct eps__object *top; /* what the document is */
    const json_t *root;
    size_t max_n;
    size_t read_errors;                  /* how many errors were found before the rules between members were checked */
    char unjudged[API_UNJUDGED_MAX][32]; /* objects whose variant is unknown, so that none of their members was read */
    size_t unjudged_len;
};

/* A JSON null says no more than no member. */
static inline bool api__is_absent(const json_t *json)
{
    return json == NULL || json_is_null(json);
}

/* "an object", "a string"... for messages. */
const char *api__kind_of(const json_t *json);

/* The pointer of an array's element. */
void api__element_path(char out[API_MAX_PATH], const char *path, size_t index);

/* Writes the names a field allows, comma separated. */
void api__list_names(const struct eps__member *field, char *list, size_t size);

/* Each reads one value to its place, or adds an error at path and leaves the place as it was. */
void api__read_real(struct api_decoder *decoder, const char *path, const json_t *json, const char *wanted, double *out);
void api__read_integer(struct api_decoder *decoder, const char *path, const json_t *json, const struct eps__member *field,
                       void *place);
bool api__read_name(struct api_decoder *decoder, const char *path, const json_t *json, const struct eps__member *field,
                    void *place);
void api__read_id(struct api_decoder *decoder, const char *path, const json_t *json, char *place);
void api__read_job_id(struct api_decoder *decoder, const char *path, const json_t *json, char *place);
void api__read_label(struct api_decoder *decoder, const char *path, const json_t *json);
/* base: the struct that holds both the array and its length. */
void api__read_numbers(struct api_decoder *decoder, const char *path, const json_t *json, const struct eps__member *field,
                       void *base);
void api__read_rows(struct api_decoder *decoder, const char *path, const json_t *json, const struct eps__member *field,
                    void *base);

/* ---- decode.c */

/* Reads the members of an object to their places in `base`. */
void api__read_object(struct api_decoder *decoder, const char *path, const json_t *json,
                      const struct eps__object *object, void *base);

#endif
