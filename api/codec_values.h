/*
 * Reading single values of a request: what the objects' decoder calls for each member. Internal to the codec.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_CODEC_VALUES_H
#define API_CODEC_VALUES_H

#include "api/codec_fields.h"
#include "api/json_numbers.h"

#define API_MAX_PATH 256

struct api_decoder {
    struct api_errors *errors;
    struct api_job *job;          /* NULL: the document is no job */
    const struct api_object *top; /* what the document is */
    const json_t *root;
    size_t max_n;
    size_t read_errors;   /* how many errors were found before the rules between members were checked */
    char unjudged[4][32]; /* objects whose variant is unknown, so that none of their members was read */
    size_t unjudged_len;
};

/* "an object", "a string"... for messages. */
const char *api__kind_of(const json_t *json);

/* Writes the names a field allows, comma separated. */
void api__list_names(const struct api_field *field, char *list, size_t size);

/* Each reads one value to its place, or adds an error at path and leaves the place as it was. */
void api__read_real(struct api_decoder *decoder, const char *path, const json_t *json, const char *wanted, double *out);
void api__read_integer(struct api_decoder *decoder, const char *path, const json_t *json, const struct api_field *field,
                       void *place);
bool api__read_name(struct api_decoder *decoder, const char *path, const json_t *json, const struct api_field *field,
                    void *place);
void api__read_id(struct api_decoder *decoder, const char *path, const json_t *json, char *place);
void api__read_job_id(struct api_decoder *decoder, const char *path, const json_t *json, char *place);
void api__read_label(struct api_decoder *decoder, const char *path, const json_t *json);
/* base: the struct that holds both the array and its length. */
void api__read_numbers(struct api_decoder *decoder, const char *path, const json_t *json, const struct api_field *field,
                       void *base);
void api__read_rows(struct api_decoder *decoder, const char *path, const json_t *json, const struct api_field *field,
                    void *base);

/* ---- codec_decode.c */

/* Reads the members of an object to their places in `base`. */
void api__read_object(struct api_decoder *decoder, const char *path, const json_t *json,
                      const struct api_object *object, void *base);
/* What eps_job_check() and its kind report to; user: the decoder. After it, read_errors is set. */
void api__report_rule(void *user, const char *pointer, const char *message);
/* A warm start that was asked for is refused where the defaults took the cold one. */
void api__check_warm_start(struct api_decoder *decoder, const struct eps_sampling *sampling);

#endif
