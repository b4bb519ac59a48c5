/*
 * The members of a job: one table for each struct of a job in epsilon.h, one row for each member. Everything that treats all
 * members alike goes by these rows: defaults, ranges, equality, the canonical bytes behind seeds and cache keys, the codec,
 * and the random jobs of the tests. A member without a row does not compile (members.c).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_BASE_MEMBERS_H
#define EPS_BASE_MEMBERS_H

#include "lib/base/check.h"

enum eps__member_type {
    EPS__REAL,    /* double; absent: NAN */
    EPS__SHARE,   /* EPS__REAL, or "auto", which is NAN */
    EPS__INTEGER, /* of `size` bytes, in [least, most]; absent: `absent` */
    EPS__BOOL,
    EPS__NAME,    /* an enum, of those in `allowed` */
    EPS__ID,      /* char[65], lower-case hexadecimal; absent: "" */
    EPS__NUMBERS, /* const double *, its length at len_offset */
    EPS__ROWS,    /* const double *, square, its side at len_offset */
    EPS__LENGTH,  /* the length or side of these */
    EPS__GROUP,   /* bool: whether the members that follow with `inside` are given; in JSON, an object of these */
    EPS__OBJECT,  /* a struct with a table of its own */
    EPS__NOTE,    /* says how a job was written, and is no part of it */
    EPS__MEMBER_TYPES
};

/* Which names an EPS__NAME takes; the names are functions of epsilon.h. */
enum eps__vocabulary {
    EPS__FAMILIES,
    EPS__NORMALIZATIONS,
    EPS__DECODERS,
    EPS__OBJECTIVES,
    EPS__WORKLOADS,
    EPS__SCHEMES,
    EPS__SCHEMAS,
    EPS__ADJACENCIES,
    EPS__ACCOUNTANTS,
    EPS__ESTIMATORS,
    EPS__VOCABULARIES
};

#define EPS__ALL UINT32_MAX
#define EPS__EXACT_MOST ((int64_t)1 << 53) /* every integer up to here is a double */

struct eps__object;

struct eps__member {
    const char *name; /* in JSON; NULL: not in JSON */
    unsigned type;    /* enum eps__member_type, or one that the codec adds */
    size_t offset, size;
    size_t len_offset; /* EPS__NUMBERS, EPS__ROWS */
    double initial;    /* the default that eps_job_init() sets: of an EPS__NAME the value, of an EPS__BOOL 0 or 1 */
    uint32_t variants; /* bits 1u << family, scheme, workload or accountant: those that have the member */
    uint32_t required; /* those that need it */
    bool ranged;       /* of a real: `quantity` is its range */
    enum eps__quantity quantity;
    int64_t least, most; /* of an integer; most 0: the service's limit of n */
    int64_t absent;
    bool largest; /* an integer of type size_t: or "max", which is EPS_LARGEST */
    enum eps__vocabulary vocabulary;
    const char *(*name_at)(unsigned index); /* in the place of the vocabulary, for requests that are no job */
    uint32_t allowed;                       /* EPS__NAME: bits 1u << value */
    bool again;                             /* a second row of one member, for other variants: in JSON alone */
    bool inside;                            /* a member of the group before it */
    bool undrawn;                           /* does not change what Monte Carlo draws */
    bool unwritten;                         /* the canonical JSON says it by another member */
    size_t given_offset;                    /* of the mask that notes that a request has the member */
    uint32_t given;                         /* its bit there; 0: not noted */
    const struct eps__object *object;       /* EPS__OBJECT, EPS__GROUP: of its members */
    unsigned settles;   /* an array: given, it makes the variants that have it this one; 0: it does not */
    const char *unless; /* the member beside which it does not */
};

/* The members of one struct. Where members depend on a name, the first member is that name. */
struct eps__object {
    const struct eps__member *members;
    size_t len;
    size_t size;         /* of the struct */
    const char *pointer; /* of the object in a job: "/sampling" */
    bool group;          /* the members of a group, whose rows have `inside` */
    bool has_variants;
    bool named;                   /* the first member's value is the variant, unless another member settles it */
    const char *without;          /* of the members, one that this object lacks; or NULL */
    const char *const *misplaced; /* by variant: what is said of a member that only another variant has; or NULL */
};

extern const struct eps__object eps__matrix_object;
extern const struct eps__object eps__workload_object;
extern const struct eps__object eps__sampling_object;
/* Of a phase: how many examples a user has is said once, for all of the training. */
extern const struct eps__object eps__phase_sampling_object;
extern const struct eps__object eps__tuning_object;
extern const struct eps__object eps__query_object;
extern const struct eps__object eps__mechanism_object;
extern const struct eps__object eps__phase_object;
extern const struct eps__object eps__truncation_object;
extern const struct eps__object eps__cooldown_object;

/* A blt with decay and scale given is not optimised: it takes other members than one with buffers. */
#define EPS__BLT_GIVEN ((unsigned)EPS_FAMILY_COUNT)

/* Sets every member to its default; the caller's struct is of the object's size. */
void eps__members_init(const struct eps__object *object, void *base);

/* Whether one member of two structs is the same, as in eps__members_equal(). */
bool eps__member_equal(const struct eps__member *member, const void *a, const void *b);

/* Whether two structs are the same member by member, arrays by their numbers. NAN equals NAN. Notes do not count. */
bool eps__members_equal(const struct eps__object *object, const void *a, const void *b);

/* Takes bytes; writes or hashes them. */
typedef void eps__members_sink(void *to, const void *bytes, size_t len);

/* The canonical bytes of a struct: those of two structs are equal where eps__members_equal() holds, and only there. An array is
 * its length and its numbers. drawn: leaves out members that do not change what Monte Carlo draws. */
void eps__members_put(const struct eps__object *object, const void *base, bool drawn, eps__members_sink *sink,
                      void *to);

/* Where bytes come from: false where there are not as many. bytes NULL: whether there are, and none is taken. */
typedef bool eps__members_source(void *from, void *bytes, size_t len);

/* Reads what eps__members_put(..., false, ...) wrote. Arrays are malloc'ed, and belong to the caller, also on failure:
 * eps__members_free(). False: no such bytes, or no memory; every member has a value of its type all the same. */
bool eps__members_get(const struct eps__object *object, void *base, eps__members_source *source, void *from);
/* Frees the arrays of a struct that eps__members_get() filled in. */
void eps__members_free(const struct eps__object *object, void *base);

/* Whether a variant has the member at this offset. */
bool eps__members_has(const struct eps__object *object, size_t offset, unsigned variant);

/* The variant of a struct: the value of its first member, unless an array that is given settles it. 0 for an object without
 * variants. */
unsigned eps__members_variant(const struct eps__object *object, const void *base);

/* Checks every number that is given, and that the variant has, against its row's range. */
void eps__check_members(struct eps__check *check, const struct eps__object *object, const void *base);

#endif
