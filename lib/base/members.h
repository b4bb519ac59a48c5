/*
 * The members of a job: one table for each struct of a job in epsilon.h, one row for each member. Everything that
 * treats members uniformly is driven by these rows: defaults, ranges, equality, the canonical bytes behind seeds and
 * cache keys, the JSON codec, and the random jobs of the tests. A member without a row does not compile (members.c).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_BASE_MEMBERS_H
#define EPS_BASE_MEMBERS_H

#include "lib/base/check.h"

enum eps__member_type {
    EPS__REAL,    /* double; absent: NAN */
    EPS__SHARE,   /* double, or "auto" in JSON, which is NAN */
    EPS__INTEGER, /* integer of `size` bytes, in [least, most]; absent: `absent` */
    EPS__BOOL,
    EPS__NAME,    /* enum value, one of `allowed` */
    EPS__ID,      /* char[65], lower-case hexadecimal; absent: "" */
    EPS__NUMBERS, /* const double *, with its length at len_offset */
    EPS__ROWS,    /* const double *, a square matrix with its side at len_offset */
    EPS__LENGTH,  /* the length or side of such an array */
    EPS__GROUP,   /* bool: whether the following rows with `inside` are given; a nested object in JSON */
    EPS__OBJECT,  /* a struct with a table of its own */
    EPS__NOTE,    /* records how a job was written; not part of the job */
    EPS__MEMBER_TYPES
};

/* The enums that an EPS__NAME may have. Their names are those of the functions of epsilon.h. */
enum eps__vocabulary {
    EPS__FAMILIES,
    EPS__NORMALIZATIONS,
    EPS__DECODERS,
    EPS__OBJECTIVES,
    EPS__OPTIMIZE_FORS,
    EPS__WORKLOADS,
    EPS__SCHEMES,
    EPS__SCHEMAS,
    EPS__ADJACENCIES,
    EPS__ACCOUNTANTS,
    EPS__ESTIMATORS,
    EPS__VOCABULARIES
};

#define EPS__ALL UINT32_MAX
#define EPS__EXACT_MOST ((int64_t)1 << 53) /* every integer up to this is exactly a double */

struct eps__object;

struct eps__member {
    const char *name; /* name in JSON; NULL: not in JSON */
    unsigned type;    /* enum eps__member_type, or a type that the codec adds */
    size_t offset, size;
    size_t len_offset; /* EPS__NUMBERS, EPS__ROWS: offset of the length */
    double initial;    /* default set by eps_job_init(): for EPS__NAME the enum value, for EPS__BOOL 0 or 1 */
    uint32_t variants; /* variants that have the member, as bits 1u << family, scheme, workload type or accountant */
    uint32_t required; /* variants that require it */
    bool ranged;       /* EPS__REAL, EPS__SHARE: `quantity` is the range */
    enum eps__quantity quantity;
    int64_t least, most; /* EPS__INTEGER: range; most 0: the service's limit on n */
    int64_t absent;      /* EPS__INTEGER: the value that means absent */
    bool largest;        /* EPS__INTEGER of type size_t: also allows "max", which is EPS_LARGEST */
    enum eps__vocabulary vocabulary;
    /* names to use in place of the vocabulary, for requests that are not jobs */
    const char *(*name_at)(unsigned index);
    uint32_t allowed; /* EPS__NAME: allowed values, as bits 1u << value */
    bool again;       /* a second row of the same member, for other variants; used for JSON only */
    bool inside;      /* belongs to the preceding group */
    bool undrawn;     /* does not affect the samples that monte_carlo draws */
    bool unwritten;   /* left out of canonical JSON, where another member implies it */
    /* An EPS__NAME that was added when keys were already stored: canonical bytes and canonical JSON leave it out at its
     * default, so that the keys of jobs without it stay the same. The bytes are not read back. */
    bool later;
    size_t given_offset;              /* offset of the mask that records which members a request gave */
    uint32_t given;                   /* its bit in that mask; 0: not recorded */
    const struct eps__object *object; /* EPS__OBJECT, EPS__GROUP: its members */
    unsigned settles;                 /* arrays: if the array is given, the variant becomes this one; 0: no effect */
    const char *unless;               /* name of a member that suppresses this effect, or NULL */
};

/* The members of one struct. If members depend on a name, the first member is that name. */
struct eps__object {
    const struct eps__member *members;
    size_t len;
    size_t size;         /* size of the struct in bytes */
    const char *pointer; /* JSON Pointer of the object in a job, such as "/sampling" */
    bool group;          /* the object consists of the rows of a group, which have `inside` */
    bool has_variants;
    bool named;          /* the first member's value is the variant, unless `settles` of another member changes it */
    const char *without; /* name of a member that this object lacks, or NULL */
    const char *const *misplaced; /* by variant: message for a member that only another variant has; or NULL */
};

extern const struct eps__object eps__matrix_object;
extern const struct eps__object eps__workload_object;
extern const struct eps__object eps__sampling_object;
/* The sampling of a phase, without examples_per_user, which is given once for the whole training. */
extern const struct eps__object eps__phase_sampling_object;
extern const struct eps__object eps__tuning_object;
extern const struct eps__object eps__query_object;
extern const struct eps__object eps__mechanism_object;
extern const struct eps__object eps__phase_object;
extern const struct eps__object eps__truncation_object;
extern const struct eps__object eps__cooldown_object;

/* The variant of a blt with decay and scale given. It is not optimised, and has other members than a blt with
 * buffers. */
#define EPS__BLT_GIVEN ((unsigned)EPS_FAMILY_COUNT)

/* Sets every member of *base, a struct of object->size bytes, to its default. */
void eps__members_init(const struct eps__object *object, void *base);

/* Returns whether one member is equal in two structs, as in eps__members_equal(). */
bool eps__member_equal(const struct eps__member *member, const void *a, const void *b);

/* Returns whether two structs are equal, member by member. Arrays are compared by their entries. NAN equals NAN.
 * EPS__NOTE members are ignored. */
bool eps__members_equal(const struct eps__object *object, const void *a, const void *b);

/* Whether canonical bytes and canonical JSON leave out the member of this struct: it is `later` and at its default. */
bool eps__member_omitted(const struct eps__member *member, const void *base);

/* Consumes bytes, to write or hash them. */
typedef void eps__members_sink(void *to, const void *bytes, size_t len);

/* Passes the canonical bytes of a struct to the sink. Two structs have the same bytes if and only if
 * eps__members_equal() holds. An array is written as its length and its entries. drawn: leave out members that do
 * not affect what monte_carlo draws. */
void eps__members_put(const struct eps__object *object, const void *base, bool drawn, eps__members_sink *sink,
                      void *to);

/* Provides len bytes, or returns false if fewer are left. With bytes NULL it only reports whether len bytes are
 * left. */
typedef bool eps__members_source(void *from, void *bytes, size_t len);

/* Reads the bytes that eps__members_put(..., false, ...) wrote. Arrays are malloc'ed and owned by the caller, also
 * on failure; release them with eps__members_free(). Returns false if the bytes are invalid or memory is out; every
 * member then still has a valid value of its type. */
bool eps__members_get(const struct eps__object *object, void *base, eps__members_source *source, void *from);
/* Frees the arrays of a struct that eps__members_get() filled in. */
void eps__members_free(const struct eps__object *object, void *base);

/* Returns whether a variant has the member at this offset. */
bool eps__members_has(const struct eps__object *object, size_t offset, unsigned variant);

/* Returns the variant of a struct: the value of its first member, unless a given array changes it (`settles`). 0 for
 * an object without variants. */
unsigned eps__members_variant(const struct eps__object *object, const void *base);

/* Checks every given number that the variant has against its range. */
void eps__check_members(struct eps__check *check, const struct eps__object *object, const void *base);

#endif
