/*
 * The vocabulary of a job as tables: one row a member, with its kind, its range and its place in libepsilon's
 * structs. Decoder and encoder walk the same rows, so that what is written is by construction what is read, and
 * a new member is one row. Internal to the codec.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_CODEC_FIELDS_H
#define API_CODEC_FIELDS_H

#include "api/codec/codec.h"

enum api_kind {
    API_REAL,    /* double; absent: NAN */
    API_INTEGER, /* of `size` bytes, in [least, most]; absent: `absent` */
    API_BOOL,
    API_NAME,       /* an enum, by its wire name, of those in `allowed` */
    API_SHARE,      /* double or "auto", which is NAN */
    API_ID,         /* char[65]; absent: "" */
    API_JOB_ID,     /* char[API_JOB_ID_SIZE]; absent: "" */
    API_NUMBERS,    /* const double *, with its length at len_offset */
    API_ROWS,       /* const double *, square, with its side at len_offset */
    API_GROUP,      /* an object whose members live in the same struct; offset: the bool that says it is there */
    API_OBJECT,     /* an object with a struct of its own at offset */
    API_ACCOUNTANT, /* API_OBJECT, or its discriminator alone as a string */
    API_PHASES,     /* struct eps_phase *, with its length at len_offset: a list of objects */
    API_LABEL       /* the label, which is no part of struct eps_job */
};

#define API_ALL UINT32_MAX
#define API_JOB_ID_SIZE 37               /* a UUID's text and NUL */
#define API_MAX_EXACT ((int64_t)1 << 53) /* every integer up to here is a double */

struct api_object;

struct api_field {
    const char *name;
    enum api_kind kind;
    bool required;
    bool unwritten;    /* read only: the canonical form says it by another member */
    uint32_t variants; /* bit (1u << variant): which variants of the object have this member */
    size_t offset;     /* within the object's struct */
    size_t size;
    size_t len_offset;   /* API_NUMBERS, API_ROWS, API_PHASES */
    size_t given_offset; /* of the mask that notes that the client wrote it */
    uint32_t given;      /* its bit there; 0: not noted */
    int64_t least;
    int64_t most; /* 0: the service's limit of n */
    int64_t absent;
    bool largest; /* API_INTEGER of a size_t: or "max", which is EPS_LARGEST */
    const char *(*name_at)(unsigned index);
    uint32_t allowed;                /* API_NAME: bit (1u << value) */
    const struct api_object *object; /* API_GROUP, API_OBJECT, API_ACCOUNTANT, API_PHASES: of each */
    unsigned settles;                /* an array: given, it makes the variants that have it this one; 0: it does not */
    const char *unless;              /* the member beside which a request's does not */
};

/* Its variants are those of a name, its first field; or, from 0 on, those that its members settle. */
struct api_object {
    const struct api_field *fields;
    size_t len;
    const char *without; /* of the fields: no member here; or NULL */
    bool has_variants;
    const char *(*variant_name)(unsigned variant); /* NULL: no name chooses */
    const char *const *misplaced; /* then, by variant: what is said of a member that only another has */
};

/* The whole job; its struct is struct eps_job. One mechanism is variant 0, phases are another. */
extern const struct api_object api__job_object;
/* One of its phases: struct eps_phase. */
extern const struct api_object api__phase_object;
/* A request for batches; its struct is struct api_batches. */
extern const struct api_object api__batches_object;
/* Its struct is struct eps_workload. */
extern const struct api_object api__workload_object;

/* The variant in force: the chosen name's value, unless a member settles it. One function for both directions: json is NULL
 * when a struct is encoded. */
unsigned api__variant(const struct api_object *object, const void *base, const json_t *json);

/* Whether a variant of the object, by its bit, has the field as a member. */
bool api__has(const struct api_object *object, const struct api_field *field, uint32_t variant_bit);
bool api__has_named(const struct api_object *object, const char *name, uint32_t variant_bit);

/* A value by kind, at a field's place in the object's struct. */
static inline void *api__at(void *base, size_t offset)
{
    return (char *)base + offset;
}

static inline const void *api__at_const(const void *base, size_t offset)
{
    return (const char *)base + offset;
}

#endif
