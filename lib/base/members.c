/*
 * The tables of members.h. A row names its member once; offset, size and C type follow from the name. A struct in which
 * a member has no row, or two rows, does not compile.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/base/members.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(enum eps_family) == sizeof(unsigned), "enums are read and written as unsigned");
_Static_assert(sizeof(size_t) == sizeof(uint64_t), "integers are read and written as 64 bits, or as unsigned");

#define BIT(value) (1u << (value))
#define ABSENT NAN
#define ONLY(mask) .variants = (mask)
#define EVERY .variants = EPS__ALL
#define NEEDED .required = EPS__ALL
#define RANGE(of) .ranged = true, .quantity = (of)
#define COUNTED .least = 1, .most = EPS__EXACT_MOST
#define NAMES(of, mask) .vocabulary = (of), .allowed = (mask)
#define ALL_OF(count) (BIT(count) - 1)

/* ---------------------------------------------------------------- the variants that have a member */

#define FAMILY(name) BIT(EPS_FAMILY_##name)
#define BANDS_NEEDED (FAMILY(INVERSE_SQUARE_ROOT) | FAMILY(BANDED) | FAMILY(BANDED_INVERSE))
#define OPTIMISED (FAMILY(BANDED) | FAMILY(BANDED_INVERSE) | FAMILY(BLT) | FAMILY(OPTIMAL))
#define SEARCHED (FAMILY(BANDED) | FAMILY(BANDED_INVERSE) | FAMILY(BLT))
#define ANY_BLT (FAMILY(BLT) | BIT(EPS__BLT_GIVEN))

#define NONE BIT(EPS_SCHEME_NONE)
#define POISSON BIT(EPS_SCHEME_POISSON)
#define CYCLIC_POISSON BIT(EPS_SCHEME_CYCLIC_POISSON)
#define BALLS_IN_BINS BIT(EPS_SCHEME_BALLS_IN_BINS)
#define B_MIN_SEP BIT(EPS_SCHEME_B_MIN_SEP)

#define MOMENTUM BIT(EPS_WORKLOAD_MOMENTUM)

#define METHOD(name) BIT(EPS_ACCOUNTANT_##name)
#define BAD_EVENTS (METHOD(AUTO) | METHOD(MMCC) | METHOD(CONDITIONAL_COMPOSITION))
#define RENYI (METHOD(AUTO) | METHOD(RENYI))
#define MONTE_CARLO (METHOD(AUTO) | METHOD(MONTE_CARLO))
#define GIVEN(member) .given_offset = offsetof(struct eps_tuning, given), .given = BIT(EPS_TUNING_##member)

/* ---------------------------------------------------------------- the rows, in the order of the structs */

/* row(STRUCT, MEMBER, TYPE, JSON NAME, ...); also(...) is a second row of the same member, for other variants. */
/* clang-format off */
#define MATRIX_MEMBERS(row, also) \
    row(eps_matrix, family, EPS__NAME, "family", EVERY, NEEDED, .initial = EPS_FAMILY_IDENTITY, \
        NAMES(EPS__FAMILIES, ALL_OF(EPS_FAMILY_COUNT))) \
    row(eps_matrix, normalization, EPS__NAME, "normalization", EVERY, .initial = EPS_NORMALIZATION_MAX_COLUMN, \
        NAMES(EPS__NORMALIZATIONS, ALL_OF(EPS_NORMALIZATION_COUNT))) \
    row(eps_matrix, stamps, EPS__INTEGER, "stamps", EVERY, .initial = 1, COUNTED) \
    row(eps_matrix, coefficients, EPS__NUMBERS, "coefficients", ONLY(FAMILY(TOEPLITZ)), NEEDED, \
        .len_offset = offsetof(struct eps_matrix, coefficients_len)) \
    row(eps_matrix, coefficients_len, EPS__LENGTH, NULL, ONLY(0)) \
    row(eps_matrix, rows, EPS__ROWS, "rows", ONLY(FAMILY(DENSE)), NEEDED, \
        .len_offset = offsetof(struct eps_matrix, rows_n)) \
    row(eps_matrix, rows_n, EPS__LENGTH, NULL, ONLY(0)) \
    row(eps_matrix, bands, EPS__INTEGER, "bands", ONLY(FAMILY(SQUARE_ROOT) | BANDS_NEEDED), .required = BANDS_NEEDED, \
        COUNTED) \
    row(eps_matrix, toeplitz, EPS__BOOL, "toeplitz", ONLY(FAMILY(BANDED)), .initial = true) \
    row(eps_matrix, column_normalize, EPS__BOOL, "column_normalize", ONLY(FAMILY(BANDED))) \
    row(eps_matrix, buffers, EPS__INTEGER, "buffers", ONLY(ANY_BLT), COUNTED) \
    row(eps_matrix, decay, EPS__NUMBERS, "decay", ONLY(ANY_BLT), .len_offset = offsetof(struct eps_matrix, blt_len), \
        .settles = EPS__BLT_GIVEN, .unless = "buffers") \
    row(eps_matrix, scale, EPS__NUMBERS, "scale", ONLY(ANY_BLT), .len_offset = offsetof(struct eps_matrix, blt_len), \
        .settles = EPS__BLT_GIVEN, .unless = "buffers") \
    row(eps_matrix, blt_len, EPS__LENGTH, NULL, ONLY(0)) \
    row(eps_matrix, nonnegative, EPS__BOOL, "nonnegative", ONLY(FAMILY(OPTIMAL)), .initial = true) \
    row(eps_matrix, decoder, EPS__NAME, "decoder", ONLY(FAMILY(TREE)), .initial = EPS_DECODER_DEFAULT, \
        NAMES(EPS__DECODERS, BIT(EPS_DECODER_ONLINE) | BIT(EPS_DECODER_FULL))) \
    also(eps_matrix, decoder, EPS__NAME, "decoder", ONLY(FAMILY(FOURIER)), .initial = EPS_DECODER_DEFAULT, \
        NAMES(EPS__DECODERS, BIT(EPS_DECODER_OPTIMAL) | BIT(EPS_DECODER_STANDARD))) \
    row(eps_matrix, stored_id, EPS__ID, "id", ONLY(FAMILY(STORED)), NEEDED) \
    row(eps_matrix, objective, EPS__NAME, "objective", ONLY(OPTIMISED), .initial = EPS_OBJECTIVE_MEAN_SQUARED, \
        NAMES(EPS__OBJECTIVES, ALL_OF(EPS_OBJECTIVE_COUNT))) \
    row(eps_matrix, gap, EPS__REAL, "gap", ONLY(OPTIMISED), .initial = 1e-3, RANGE(EPS__GAP)) \
    row(eps_matrix, epochs, EPS__INTEGER, "epochs", ONLY(OPTIMISED), COUNTED) \
    row(eps_matrix, separation, EPS__INTEGER, "separation", ONLY(OPTIMISED), COUNTED) \
    row(eps_matrix, optimize_for, EPS__NAME, "optimize_for", ONLY(SEARCHED), .later = true, \
        .initial = EPS_OPTIMIZE_FOR_ERROR, NAMES(EPS__OPTIMIZE_FORS, ALL_OF(EPS_OPTIMIZE_FOR_COUNT)))

#define WORKLOAD_MEMBERS(row, also) \
    row(eps_workload, type, EPS__NAME, "type", EVERY, NEEDED, .initial = EPS_WORKLOAD_PREFIX_SUM, \
        NAMES(EPS__WORKLOADS, ALL_OF(EPS_WORKLOAD_COUNT))) \
    row(eps_workload, momentum, EPS__REAL, "momentum", ONLY(MOMENTUM), NEEDED, .initial = ABSENT, \
        RANGE(EPS__MOMENTUM)) \
    row(eps_workload, decay, EPS__REAL, "decay", ONLY(MOMENTUM), .initial = 1, RANGE(EPS__WEIGHT_DECAY)) \
    row(eps_workload, cooldown, EPS__GROUP, "cooldown", ONLY(MOMENTUM), .object = &eps__cooldown_object) \
    row(eps_workload, cooldown_from, EPS__REAL, "from", EVERY, NEEDED, .inside = true, RANGE(EPS__COOLDOWN_FROM)) \
    row(eps_workload, cooldown_to, EPS__REAL, "to", EVERY, NEEDED, .inside = true, RANGE(EPS__COOLDOWN_TO)) \
    row(eps_workload, coefficients, EPS__NUMBERS, "coefficients", ONLY(BIT(EPS_WORKLOAD_TOEPLITZ)), NEEDED, \
        .len_offset = offsetof(struct eps_workload, coefficients_len)) \
    row(eps_workload, coefficients_len, EPS__LENGTH, NULL, ONLY(0))

#define SAMPLING_MEMBERS(row, also) \
    row(eps_sampling, scheme, EPS__NAME, "scheme", EVERY, NEEDED, .initial = EPS_SCHEME_POISSON, \
        NAMES(EPS__SCHEMES, ALL_OF(EPS_SCHEME_COUNT))) \
    row(eps_sampling, p, EPS__REAL, "p", ONLY(POISSON | CYCLIC_POISSON | B_MIN_SEP), .initial = ABSENT, \
        RANGE(EPS__PROBABILITY)) \
    row(eps_sampling, bins, EPS__INTEGER, "bins", ONLY(BALLS_IN_BINS), COUNTED) \
    row(eps_sampling, batch_size, EPS__INTEGER, "batch_size", EVERY, COUNTED) \
    row(eps_sampling, dataset_size, EPS__INTEGER, "dataset_size", EVERY, COUNTED) \
    row(eps_sampling, epochs, EPS__INTEGER, "epochs", ONLY(NONE), COUNTED) \
    row(eps_sampling, separation, EPS__INTEGER, "separation", ONLY(NONE | B_MIN_SEP), COUNTED) \
    row(eps_sampling, schema, EPS__NAME, "schema", ONLY(NONE), .initial = EPS_SCHEMA_FIXED_ORDER, \
        NAMES(EPS__SCHEMAS, ALL_OF(EPS_SCHEMA_COUNT))) \
    row(eps_sampling, groups, EPS__INTEGER, "groups", ONLY(CYCLIC_POISSON), COUNTED) \
    row(eps_sampling, redraw, EPS__BOOL, "redraw", ONLY(BALLS_IN_BINS)) \
    row(eps_sampling, warm_start, EPS__BOOL, "warm_start", ONLY(B_MIN_SEP), .initial = true) \
    row(eps_sampling, truncation, EPS__GROUP, "truncation", ONLY(POISSON | CYCLIC_POISSON | B_MIN_SEP), \
        .object = &eps__truncation_object) \
    row(eps_sampling, max_batch_size, EPS__INTEGER, "max_batch_size", EVERY, NEEDED, .inside = true, COUNTED) \
    row(eps_sampling, examples_per_user, EPS__INTEGER, "examples_per_user", ONLY(POISSON | B_MIN_SEP), .initial = 1, \
        COUNTED) \
    row(eps_sampling, last_iterate, EPS__BOOL, "last_iterate", ONLY(POISSON))

#define TUNING_MEMBERS(row, also) \
    row(eps_tuning, method, EPS__NAME, "method", EVERY, NEEDED, .initial = EPS_ACCOUNTANT_AUTO, .undrawn = true, \
        NAMES(EPS__ACCOUNTANTS, ALL_OF(EPS_ACCOUNTANT_COUNT))) \
    row(eps_tuning, tolerance, EPS__REAL, "tolerance", ONLY(~METHOD(MONTE_CARLO)), .initial = 1e-3, .undrawn = true, \
        RANGE(EPS__TOLERANCE), GIVEN(TOLERANCE)) \
    row(eps_tuning, bad_event_share, EPS__SHARE, "bad_event_share", ONLY(BAD_EVENTS), .initial = ABSENT, \
        .undrawn = true, RANGE(EPS__BAD_EVENT_SHARE), GIVEN(BAD_EVENT_SHARE)) \
    row(eps_tuning, max_order, EPS__INTEGER, "max_order", ONLY(RENYI), .undrawn = true, .least = 2, .most = 1000000) \
    row(eps_tuning, bandwidth, EPS__INTEGER, "bandwidth", ONLY(RENYI), .undrawn = true, COUNTED) \
    row(eps_tuning, samples, EPS__INTEGER, "samples", ONLY(MONTE_CARLO), COUNTED) \
    row(eps_tuning, seed, EPS__INTEGER, "seed", ONLY(MONTE_CARLO), .initial = -1, .undrawn = true, .least = 0, \
        .most = EPS__EXACT_MOST, .absent = -1) \
    row(eps_tuning, threshold_share, EPS__REAL, "threshold_share", ONLY(MONTE_CARLO), .initial = 0.5, \
        RANGE(EPS__THRESHOLD_SHARE), GIVEN(THRESHOLD_SHARE)) \
    row(eps_tuning, estimator, EPS__NAME, "estimator", ONLY(MONTE_CARLO), .initial = EPS_ESTIMATOR_AUTO, \
        NAMES(EPS__ESTIMATORS, ALL_OF(EPS_ESTIMATOR_COUNT)), GIVEN(ESTIMATOR)) \
    row(eps_tuning, max_seconds, EPS__REAL, "max_seconds", ONLY(MONTE_CARLO), .initial = ABSENT, .undrawn = true, \
        RANGE(EPS__SECONDS)) \
    row(eps_tuning, audit, EPS__INTEGER, "audit", EVERY, .undrawn = true, COUNTED) \
    row(eps_tuning, given, EPS__NOTE, NULL, ONLY(0))

#define QUERY_MEMBERS(row, also) \
    row(eps_query, epsilon, EPS__REAL, "epsilon", EVERY, .initial = ABSENT, RANGE(EPS__EPSILON)) \
    row(eps_query, delta, EPS__REAL, "delta", EVERY, .initial = ABSENT, RANGE(EPS__DELTA)) \
    row(eps_query, noise_multiplier, EPS__REAL, "noise_multiplier", EVERY, .initial = ABSENT, \
        RANGE(EPS__NOISE_MULTIPLIER)) \
    row(eps_query, curve, EPS__BOOL, "curve", EVERY, .undrawn = true) \
    row(eps_query, accountant, EPS__OBJECT, "accountant", EVERY, .object = &eps__tuning_object)

#define MECHANISM_MEMBERS(row, also) \
    row(eps_mechanism, n, EPS__INTEGER, "n", EVERY, .least = 1, .largest = true) \
    row(eps_mechanism, epochs, EPS__REAL, "epochs", EVERY, .initial = ABSENT, .unwritten = true) \
    row(eps_mechanism, matrix, EPS__OBJECT, "matrix", EVERY, .object = &eps__matrix_object) \
    row(eps_mechanism, workload, EPS__OBJECT, "workload", EVERY, .object = &eps__workload_object) \
    row(eps_mechanism, sampling, EPS__OBJECT, "sampling", EVERY, NEEDED, .object = &eps__sampling_object) \
    row(eps_mechanism, adjacency, EPS__NAME, "adjacency", EVERY, .initial = EPS_ADJACENCY_ZERO_OUT, \
        NAMES(EPS__ADJACENCIES, ALL_OF(EPS_ADJACENCY_COUNT)))

#define PHASE_MEMBERS(row, also) \
    row(eps_phase, mechanism, EPS__OBJECT, NULL, .object = &eps__mechanism_object) \
    row(eps_phase, noise_scale, EPS__REAL, "noise_scale", EVERY, .initial = 1, RANGE(EPS__NOISE_SCALE)) \
    row(eps_phase, count, EPS__INTEGER, "count", EVERY, .initial = 1, .least = 1, .most = EPS__EXACT_MOST, \
        .largest = true)
/* clang-format on */

/* ---------------------------------------------------------------- from rows to tables */

#define MEMBER(of, member, kind, json, ...)    \
    {.name = (json),                           \
     .type = (kind),                           \
     .offset = offsetof(struct of, member),    \
     .size = sizeof(((struct of *)0)->member), \
     __VA_ARGS__},
#define MEMBER_AGAIN(of, member, kind, json, ...) MEMBER(of, member, kind, json, .again = true, __VA_ARGS__)
#define NOTHING(...)

/* The C types of members, by number; FITS says which of them a type of member allows. */
#define C_TYPE(of, member)                                                                                        \
    _Generic(((struct of *)0)->member, double : 1, unsigned : 2, uint64_t : 3, int64_t : 4, bool : 5, char * : 6, \
             const double * : 7, default : 8)
#define FITS(kind, c)                                                       \
    ((kind) == EPS__REAL || (kind) == EPS__SHARE     ? (c) == 1             \
     : (kind) == EPS__INTEGER                        ? (c) >= 2 && (c) <= 4 \
     : (kind) == EPS__NAME || (kind) == EPS__NOTE    ? (c) == 2             \
     : (kind) == EPS__LENGTH                         ? (c) == 3             \
     : (kind) == EPS__BOOL || (kind) == EPS__GROUP   ? (c) == 5             \
     : (kind) == EPS__ID                             ? (c) == 6             \
     : (kind) == EPS__NUMBERS || (kind) == EPS__ROWS ? (c) == 7             \
                                                     : (c) == 8)
#define CHECK_TYPE(of, member, kind, ...) _Static_assert(FITS(kind, C_TYPE(of, member)), #member ": type");

/* One positional initialiser per member: one too few or too many fails to compile. */
#define ZERO_EPS__REAL 0,
#define ZERO_EPS__SHARE 0,
#define ZERO_EPS__INTEGER 0,
#define ZERO_EPS__BOOL 0,
#define ZERO_EPS__NAME 0,
#define ZERO_EPS__ID {0},
#define ZERO_EPS__NUMBERS 0,
#define ZERO_EPS__ROWS 0,
#define ZERO_EPS__LENGTH 0,
#define ZERO_EPS__GROUP 0,
#define ZERO_EPS__OBJECT {0},
#define ZERO_EPS__NOTE 0,
#define ZERO(of, member, kind, ...) ZERO_##kind

#define TABLE(what, of, rows)                                                                                     \
    rows(CHECK_TYPE, CHECK_TYPE) static const struct eps__member what##_members[] = {rows(MEMBER, MEMBER_AGAIN)}; \
    _Static_assert(sizeof(struct of) == sizeof((struct of){rows(ZERO, NOTHING)}), #of ": every member has a row");
#define OBJECT(what, of, where)                                                                           \
    .members = what##_members, .len = sizeof what##_members / sizeof *what##_members, .pointer = (where), \
    .size = sizeof(struct of)

TABLE(matrix, eps_matrix, MATRIX_MEMBERS)
TABLE(workload, eps_workload, WORKLOAD_MEMBERS)
TABLE(sampling, eps_sampling, SAMPLING_MEMBERS)
TABLE(tuning, eps_tuning, TUNING_MEMBERS)
TABLE(query, eps_query, QUERY_MEMBERS)
TABLE(mechanism, eps_mechanism, MECHANISM_MEMBERS)
TABLE(phase, eps_phase, PHASE_MEMBERS)

const struct eps__object eps__matrix_object = {OBJECT(matrix, eps_matrix, "/matrix"), .has_variants = true,
                                               .named = true};
const struct eps__object eps__workload_object = {OBJECT(workload, eps_workload, "/workload"), .has_variants = true,
                                                 .named = true};
const struct eps__object eps__cooldown_object = {OBJECT(workload, eps_workload, "/workload/cooldown"), .group = true};
const struct eps__object eps__sampling_object = {OBJECT(sampling, eps_sampling, "/sampling"), .has_variants = true,
                                                 .named = true};
const struct eps__object eps__phase_sampling_object = {
    OBJECT(sampling, eps_sampling, "/sampling"), .has_variants = true, .named = true, .without = "examples_per_user"};
const struct eps__object eps__truncation_object = {OBJECT(sampling, eps_sampling, "/sampling/truncation"),
                                                   .group = true};
const struct eps__object eps__tuning_object = {OBJECT(tuning, eps_tuning, "/accountant"), .has_variants = true,
                                               .named = true};
const struct eps__object eps__query_object = {OBJECT(query, eps_query, "")};
const struct eps__object eps__mechanism_object = {OBJECT(mechanism, eps_mechanism, "")};
const struct eps__object eps__phase_object = {OBJECT(phase, eps_phase, "")};

/* ---------------------------------------------------------------- access to members */

static void *at(void *base, size_t offset)
{
    return (char *)base + offset;
}

static const void *at_const(const void *base, size_t offset)
{
    return (const char *)base + offset;
}

static bool is_real(const struct eps__member *member)
{
    return member->type == EPS__REAL || member->type == EPS__SHARE;
}

static double real_at(const struct eps__member *member, const void *base)
{
    double value;
    memcpy(&value, at_const(base, member->offset), sizeof value);
    return isnan(value) ? NAN : value; /* every NAN becomes the same bit pattern */
}

/* The value of an integer of 4 or 8 bytes. */
static uint64_t bits_at(const struct eps__member *member, const void *base)
{
    uint64_t wide;
    unsigned narrow;
    const void *place = at_const(base, member->offset);
    assert(member->size == sizeof wide || member->size == sizeof narrow);
    if (member->size == sizeof narrow) {
        memcpy(&narrow, place, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, place, sizeof wide);
    return wide;
}

static void set_bits(const struct eps__member *member, void *base, uint64_t wide)
{
    unsigned narrow = (unsigned)wide;
    assert(member->size == sizeof wide || member->size == sizeof narrow);
    memcpy(at(base, member->offset), member->size == sizeof narrow ? (void *)&narrow : (void *)&wide, member->size);
}

/* Returns the entries of an array and their number, 0 if the pointer is NULL. Rows have len x len entries. */
static const double *numbers_at(const struct eps__member *member, const void *base, size_t *len)
{
    const double *values;
    memcpy(&values, at_const(base, member->offset), sizeof values);
    memcpy(len, at_const(base, member->len_offset), sizeof *len);
    if (!values)
        *len = 0;
    if (member->type == EPS__ROWS)
        *len *= *len;
    return values;
}

void eps__members_init(const struct eps__object *object, void *base)
{
    memset(base, 0, object->size);
    for (size_t i = 0; i < object->len; i++) {
        const struct eps__member *member = &object->members[i];
        bool yes = member->initial != 0;
        if (is_real(member))
            memcpy(at(base, member->offset), &member->initial, sizeof member->initial);
        else if (member->type == EPS__INTEGER || member->type == EPS__NAME)
            set_bits(member, base, (uint64_t)(int64_t)member->initial);
        else if (member->type == EPS__BOOL || member->type == EPS__GROUP)
            memcpy(at(base, member->offset), &yes, sizeof yes);
        else if (member->type == EPS__OBJECT)
            eps__members_init(member->object, at(base, member->offset));
    }
}

/* ---------------------------------------------------------------- writing bytes */

bool eps__member_omitted(const struct eps__member *member, const void *base)
{
    return member->later && bits_at(member, base) == (uint64_t)(int64_t)member->initial;
}

static void put_numbers(const struct eps__member *member, const void *base, eps__members_sink *sink, void *to)
{
    size_t len;
    const double *values = numbers_at(member, base, &len);
    uint64_t count = len;
    sink(to, &count, sizeof count);
    if (len > 0)
        sink(to, values, len * sizeof *values);
}

void eps__members_put(const struct eps__object *object, const void *base, bool drawn, eps__members_sink *sink, void *to)
{
    for (size_t i = 0; i < object->len; i++) {
        const struct eps__member *member = &object->members[i];
        double real;
        uint64_t bits;
        if (member->again || member->type == EPS__NOTE || (drawn && member->undrawn))
            continue;
        if (eps__member_omitted(member, base))
            continue;
        switch ((enum eps__member_type)member->type) {
        case EPS__REAL:
        case EPS__SHARE:
            real = real_at(member, base);
            sink(to, &real, sizeof real);
            break;
        case EPS__INTEGER:
        case EPS__NAME:
        case EPS__LENGTH:
            /* Inverted, a `later` name differs from every other name, which has 32 bits, and every length. So bytes
             * with it are never those of another struct without it. */
            bits = member->later ? ~bits_at(member, base) : bits_at(member, base);
            sink(to, &bits, sizeof bits);
            break;
        case EPS__BOOL:
        case EPS__GROUP:
        case EPS__ID:
            sink(to, at_const(base, member->offset), member->size);
            break;
        case EPS__NUMBERS:
        case EPS__ROWS:
            put_numbers(member, base, sink, to);
            break;
        case EPS__OBJECT:
            eps__members_put(member->object, at_const(base, member->offset), drawn, sink, to);
            break;
        case EPS__NOTE:
        case EPS__MEMBER_TYPES:
            break;
        }
    }
}

static bool same_numbers(const struct eps__member *member, const void *a, const void *b)
{
    size_t a_len, b_len;
    const double *left = numbers_at(member, a, &a_len), *right = numbers_at(member, b, &b_len);
    return a_len == b_len && (a_len == 0 || memcmp(left, right, a_len * sizeof *left) == 0);
}

/* The bits of a number: NAN, which is absent, equals itself. */
static uint64_t bits_of(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

bool eps__member_equal(const struct eps__member *member, const void *a, const void *b)
{
    switch ((enum eps__member_type)member->type) {
    case EPS__REAL:
    case EPS__SHARE:
        return bits_of(real_at(member, a)) == bits_of(real_at(member, b));
    case EPS__NUMBERS:
    case EPS__ROWS:
        return same_numbers(member, a, b);
    case EPS__OBJECT:
        return eps__members_equal(member->object, at_const(a, member->offset), at_const(b, member->offset));
    case EPS__NOTE:
        return true;
    default:
        return memcmp(at_const(a, member->offset), at_const(b, member->offset), member->size) == 0;
    }
}

bool eps__members_equal(const struct eps__object *object, const void *a, const void *b)
{
    bool equal = true;
    for (size_t i = 0; i < object->len && equal; i++)
        equal = eps__member_equal(&object->members[i], a, b);
    return equal;
}

/* ---------------------------------------------------------------- reading bytes */

#define SIDE_MOST ((uint64_t)1 << 20) /* largest side of a square matrix; its size in bytes does not overflow */

/* Reads an array and sets its length. Arrays that share a length member must have the same length. */
static bool get_numbers(const struct eps__member *member, void *base, eps__members_source *source, void *from)
{
    uint64_t count;
    size_t known;
    if (!source(from, &count, sizeof count) || count > SIDE_MOST * SIDE_MOST)
        return false;
    if (count == 0)
        return true;
    size_t len = member->type == EPS__ROWS ? (size_t)llround(sqrt((double)count)) : (size_t)count;
    memcpy(&known, at(base, member->len_offset), sizeof known);
    if ((member->type == EPS__ROWS && len * len != count) || (known > 0 && known != len))
        return false;
    double *values = source(from, NULL, (size_t)count * sizeof *values) ? malloc((size_t)count * sizeof *values) : NULL;
    if (!values || !source(from, values, (size_t)count * sizeof *values)) {
        free(values);
        return false;
    }
    memcpy(at(base, member->offset), &values, sizeof values);
    memcpy(at(base, member->len_offset), &len, sizeof len);
    return true;
}

/* Reads the length that follows the arrays, which must be the one they have. */
static bool get_length(const struct eps__member *member, const void *base, eps__members_source *source, void *from)
{
    uint64_t len;
    return source(from, &len, sizeof len) && len == bits_at(member, base);
}

/* The number of values of each enum. */
static const unsigned value_counts[EPS__VOCABULARIES] = {
    [EPS__FAMILIES] = EPS_FAMILY_COUNT,
    [EPS__NORMALIZATIONS] = EPS_NORMALIZATION_COUNT,
    [EPS__DECODERS] = EPS_DECODER_COUNT,
    [EPS__OBJECTIVES] = EPS_OBJECTIVE_COUNT,
    [EPS__OPTIMIZE_FORS] = EPS_OPTIMIZE_FOR_COUNT,
    [EPS__WORKLOADS] = EPS_WORKLOAD_COUNT,
    [EPS__SCHEMES] = EPS_SCHEME_COUNT,
    [EPS__SCHEMAS] = EPS_SCHEMA_COUNT,
    [EPS__ADJACENCIES] = EPS_ADJACENCY_COUNT,
    [EPS__ACCOUNTANTS] = EPS_ACCOUNTANT_COUNT,
    [EPS__ESTIMATORS] = EPS_ESTIMATOR_COUNT,
};

static bool get_member(const struct eps__member *member, void *base, eps__members_source *source, void *from)
{
    uint64_t bits;
    unsigned char byte;
    char id[65] = "";
    switch ((enum eps__member_type)member->type) {
    case EPS__REAL:
    case EPS__SHARE:
        return source(from, at(base, member->offset), sizeof(double));
    case EPS__LENGTH:
        return get_length(member, base, source, from);
    case EPS__INTEGER:
    case EPS__NAME:
        if (!source(from, &bits, sizeof bits) || (member->size == sizeof(unsigned) && bits > UINT32_MAX))
            return false;
        if (member->type == EPS__NAME && bits >= value_counts[member->vocabulary])
            return false;
        set_bits(member, base, bits);
        return true;
    case EPS__BOOL:
    case EPS__GROUP:
        if (!source(from, &byte, 1) || byte > 1)
            return false;
        memcpy(at(base, member->offset), &byte, 1);
        return true;
    case EPS__ID:
        if (!source(from, id, sizeof id) || id[sizeof id - 1])
            return false;
        memcpy(at(base, member->offset), id, sizeof id);
        return true;
    case EPS__NUMBERS:
    case EPS__ROWS:
        return get_numbers(member, base, source, from);
    case EPS__OBJECT:
        return eps__members_get(member->object, at(base, member->offset), source, from);
    case EPS__NOTE:
    case EPS__MEMBER_TYPES:
        break;
    }
    return true;
}

bool eps__members_get(const struct eps__object *object, void *base, eps__members_source *source, void *from)
{
    bool read = true;
    eps__members_init(object, base);
    for (size_t i = 0; i < object->len && read; i++)
        if (!object->members[i].again && !object->members[i].later)
            read = get_member(&object->members[i], base, source, from);
    return read;
}

void eps__members_free(const struct eps__object *object, void *base)
{
    for (size_t i = 0; i < object->len; i++) {
        const struct eps__member *member = &object->members[i];
        double *values, *none = NULL;
        if (member->type == EPS__OBJECT)
            eps__members_free(member->object, at(base, member->offset));
        if (member->type != EPS__NUMBERS && member->type != EPS__ROWS)
            continue;
        memcpy(&values, at(base, member->offset), sizeof values);
        free(values);
        memcpy(at(base, member->offset), &none, sizeof none);
    }
}

/* ---------------------------------------------------------------- ranges */

bool eps__members_has(const struct eps__object *object, size_t offset, unsigned variant)
{
    for (size_t i = 0; i < object->len; i++)
        if (object->members[i].offset == offset && object->members[i].variants >> variant & 1)
            return true;
    return false;
}

unsigned eps__members_variant(const struct eps__object *object, const void *base)
{
    unsigned named = 0;
    size_t len;
    if (object->named)
        memcpy(&named, at_const(base, object->members[0].offset), sizeof named);
    for (size_t i = 1; i < object->len; i++) {
        const struct eps__member *member = &object->members[i];
        if (!member->settles || named >= 32 || !(member->variants & BIT(named)))
            continue;
        memcpy(&len, at_const(base, member->len_offset), sizeof len);
        if (len > 0)
            return member->settles;
    }
    return named;
}

static void check_number(struct eps__check *check, const char *object, const struct eps__member *member,
                         const void *base, bool required)
{
    char pointer[64];
    snprintf(pointer, sizeof pointer, "%s/%s", object, member->name);
    if (is_real(member)) {
        double value = real_at(member, base);
        if (member->ranged && (required || !isnan(value) || !isnan(member->initial)))
            eps__check_range(check, pointer, member->quantity, value);
        return;
    }
    /* Members that are only required to be at least 1 are checked elsewhere, with better messages. */
    int64_t value = (int64_t)bits_at(member, base);
    bool counts = member->least == 1 && (member->most == 0 || member->most == EPS__EXACT_MOST);
    if (!counts && value != 0 && value != member->absent && (value < member->least || value > member->most))
        eps__check_fail(check, pointer, "must be an integer in [%lld, %lld]", (long long)member->least,
                        (long long)member->most);
}

void eps__check_members(struct eps__check *check, const struct eps__object *object, const void *base)
{
    unsigned own = eps__members_variant(object, base);
    assert(own < 32); /* the caller has checked the name */
    uint32_t variant = object->has_variants ? BIT(own) : EPS__ALL;
    const struct eps__object *group = NULL; /* the current group, if it is given */
    for (size_t i = 0; i < object->len; i++) {
        const struct eps__member *member = &object->members[i];
        bool has = (member->variants & variant) && !member->again && (!member->inside || group);
        bool given = false;
        if (has && member->type == EPS__GROUP) {
            memcpy(&given, at_const(base, member->offset), sizeof given);
            group = given ? member->object : NULL;
        } else if (member->type == EPS__GROUP) {
            group = NULL;
        }
        if (has && (is_real(member) || member->type == EPS__INTEGER))
            check_number(check, member->inside ? group->pointer : object->pointer, member, base,
                         member->required & variant);
    }
}
