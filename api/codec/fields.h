/*
 * The vocabulary of a job as tables. A row describes one member: its kind, its range and its place in the structs of
 * libepsilon. The decoder and the encoder use the same rows, so they cannot disagree, and a new member is one new row.
 * Internal to the codec.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_CODEC_FIELDS_H
#define API_CODEC_FIELDS_H

#include "api/codec/codec.h"

enum api_kind {
    API_REAL,    /* double; absent: NAN */
    API_INTEGER, /* an integer of `size` bytes in [least, most]; absent: `absent` */
    API_BOOL,
    API_NAME,       /* an enum by its wire name; `allowed` selects the values */
    API_SHARE,      /* a double, or "auto" as NAN */
    API_ID,         /* char[65]; absent: "" */
    API_JOB_ID,     /* char[API_JOB_ID_SIZE]; absent: "" */
    API_NUMBERS,    /* const double *; the length is at len_offset */
    API_ROWS,       /* const double *, a square matrix; the side is at len_offset */
    API_GROUP,      /* an object whose members are in the same struct; offset: the bool that says whether it is
                     * present */
    API_OBJECT,     /* an object with its own struct at offset */
    API_ACCOUNTANT, /* an API_OBJECT, or only its discriminator as a string */
    API_PHASES,     /* struct eps_phase *, an array of objects; the length is at len_offset */
    API_LABEL       /* the label, which is not part of struct eps_job */
};

#define API_ALL UINT32_MAX
#define API_JOB_ID_SIZE 37               /* the text of a UUID and NUL */
#define API_MAX_EXACT ((int64_t)1 << 53) /* all integers up to this are doubles */

struct api_object;

struct api_field {
    const char *name;
    enum api_kind kind;
    bool required;
    bool unwritten;    /* only read: the canonical form expresses it by another member */
    uint32_t variants; /* bit (1u << variant): the variants of the object that have this member */
    size_t offset;     /* of the member in the struct of the object */
    size_t size;
    size_t len_offset;   /* API_NUMBERS, API_ROWS, API_PHASES: of the length */
    size_t given_offset; /* of the mask that records which members the client wrote */
    uint32_t given;      /* the bit of this member in that mask; 0: not recorded */
    int64_t least;
    int64_t most; /* 0: the limit of the service on n */
    int64_t absent;
    bool largest; /* API_INTEGER of a size_t: "max" is allowed and means EPS_LARGEST */
    const char *(*name_at)(unsigned index);
    uint32_t allowed;                /* API_NAME: bit (1u << value) */
    const struct api_object *object; /* API_GROUP, API_OBJECT, API_ACCOUNTANT, API_PHASES: the members of each */
    unsigned settles;                /* an array: if given, it selects this variant; 0: it selects none */
    const char *unless;              /* in a request, this member is absent if the named one is present */
};

/* The variant of an object is selected by a name, its first field, or by the members that are given. */
struct api_object {
    const struct api_field *fields;
    size_t len;
    const char *without; /* a field that does not exist in this object, or NULL */
    bool has_variants;
    const char *(*variant_name)(unsigned variant); /* NULL: the variant is not selected by a name */
    const char *const *misplaced;                  /* if so: by variant, the error for a member that only another has */
};

/* A job; its struct is struct eps_job. Variant 0 has one mechanism, the other has phases. */
extern const struct api_object api__job_object;
/* A phase of a job; its struct is struct eps_phase. */
extern const struct api_object api__phase_object;
/* A request for batches; its struct is struct api_batches. */
extern const struct api_object api__batches_object;
/* A workload; its struct is struct eps_workload. */
extern const struct api_object api__workload_object;

/* The variant of an object: the value of the selecting name, unless a member selects it. Used for both directions; json
 * is NULL when a struct is encoded. */
unsigned api__variant(const struct api_object *object, const void *base, const json_t *json);

/* Whether the variant with this bit has the field as a member. */
bool api__has(const struct api_object *object, const struct api_field *field, uint32_t variant_bit);
bool api__has_named(const struct api_object *object, const char *name, uint32_t variant_bit);

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
