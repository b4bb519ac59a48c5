/*
 * A job and other requests as tables of members (lib/base/members.h). Decoder and encoder walk the same rows, so that
 * what is written is what is read, and a new member is one row. Internal to the codec.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_CODEC_FIELDS_H
#define API_CODEC_FIELDS_H

#include "api/codec/codec.h"
#include "lib/base/members.h"

/* Types of members that only requests have, in addition to enum eps__member_type. */
enum {
    API_JOB_ID = EPS__MEMBER_TYPES, /* char[API_JOB_ID_SIZE]; absent: "" */
    API_ACCOUNTANT,                 /* EPS__OBJECT, or its first member alone as a string */
    API_PHASES,                     /* struct eps_phase *, an array of objects; the length is at len_offset */
    API_LABEL                       /* the label, which is not part of struct eps_job */
};

#define API_JOB_ID_SIZE 37 /* the text of a UUID and NUL */

/* A job; its struct is struct eps_job. Variant 0 has one mechanism, the other has phases. */
extern const struct eps__object api__job_object;
/* A phase of a job; its struct is struct eps_phase. */
extern const struct eps__object api__phase_object;
/* A request for batches; its struct is struct api_batches. */
extern const struct eps__object api__batches_object;

/* The name in JSON of a value of an EPS__NAME; NULL out of range. */
const char *api__name_at(const struct eps__member *field, unsigned value);

/* The name of a variant of an object whose first member names it, for messages. */
const char *api__variant_name(const struct eps__object *object, unsigned variant);

/* The variant of an object: the value of its first member, unless another member selects it. Used for both directions;
 * json is NULL when a struct is encoded. */
unsigned api__variant(const struct eps__object *object, const void *base, const json_t *json);

/* Whether the variant with this bit has the field as a member. */
bool api__has(const struct eps__object *object, const struct eps__member *field, uint32_t variant_bit);
bool api__has_named(const struct eps__object *object, const char *name, uint32_t variant_bit);

/* The place of a field in the struct of its object. */
static inline void *api__at(void *base, size_t offset)
{
    return (char *)base + offset;
}

static inline const void *api__at_const(const void *base, size_t offset)
{
    return (const char *)base + offset;
}

#endif
