/*
 * The tables of a job's members: equality, canonical bytes, defaults and JSON cover every member of a struct.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/fields.h"
#include "lib/base/members.h"
#include "tests/unit/test.h"

static const struct eps__object *const objects[] = {&eps__matrix_object, &eps__workload_object, &eps__sampling_object,
                                                    &eps__tuning_object, &eps__query_object,    &eps__mechanism_object,
                                                    &eps__phase_object};

enum { OBJECTS = sizeof objects / sizeof *objects, LARGEST = 1024 };

/* ------------------------------------------------------------ the tables */

static size_t alignment(const struct eps__member *member)
{
    return member->type == EPS__ID ? 1 : member->size < 8 ? member->size : 8;
}

/* Each member has one row, in the order of the struct, and there is no room for another one between members. */
TEST(rows_cover_their_structs)
{
    for (size_t k = 0; k < OBJECTS; k++) {
        size_t end = 0;
        for (size_t i = 0; i < objects[k]->len; i++) {
            const struct eps__member *member = &objects[k]->members[i];
            if (member->again) {
                assert_int_equal(member->offset, objects[k]->members[i - 1].offset);
                continue;
            }
            size_t align = alignment(member);
            assert_true(member->offset >= end);
            assert_int_equal(member->offset, (end + align - 1) / align * align);
            end = member->offset + member->size;
        }
        assert_int_equal(objects[k]->size, (end + 7) / 8 * 8);
    }
}

/* ------------------------------------------------------------ equality and bytes */

struct bytes {
    unsigned char *bytes;
    size_t len, at;
};

static void collect(void *to, const void *bytes, size_t len)
{
    struct bytes *all = to;
    all->bytes = realloc(all->bytes, all->len + len + 1);
    assert_non_null(all->bytes);
    memcpy(all->bytes + all->len, bytes, len);
    all->len += len;
}

static bool supply(void *from, void *bytes, size_t len)
{
    struct bytes *all = from;
    if (len > all->len - all->at)
        return false;
    if (bytes) {
        memcpy(bytes, all->bytes + all->at, len);
        all->at += len;
    }
    return true;
}

static struct bytes bytes_of(const struct eps__object *object, const void *base, bool drawn)
{
    struct bytes all = {0};
    eps__members_put(object, base, drawn, collect, &all);
    return all;
}

static bool same_bytes(const struct eps__object *object, const void *a, const void *b, bool drawn)
{
    struct bytes left = bytes_of(object, a, drawn), right = bytes_of(object, b, drawn);
    bool same = left.len == right.len && memcmp(left.bytes, right.bytes, left.len) == 0;
    free(left.bytes);
    free(right.bytes);
    return same;
}

/* Flips every bit of every member, at any depth; each flip must be noticed. */
static size_t unnoticed(const struct eps__object *top, const struct eps__object *object, unsigned char *base,
                        const void *whole, const void *other)
{
    size_t missed = 0;
    for (size_t i = 0; i < object->len; i++) {
        const struct eps__member *member = &object->members[i];
        if (member->type == EPS__OBJECT) {
            missed += unnoticed(top, member->object, base + member->offset, whole, other);
            continue;
        }
        if (member->type == EPS__NOTE || member->type == EPS__NUMBERS || member->type == EPS__ROWS) /* see below */
            continue;
        for (size_t at = 0; at < member->size; at++)
            for (int bit = 0; bit < 8; bit++) {
                base[member->offset + at] ^= (unsigned char)(1 << bit);
                bool noticed = !eps__members_equal(top, whole, other) && !same_bytes(top, whole, other, false);
                if (!member->undrawn)
                    noticed = noticed && !same_bytes(top, whole, other, true);
                missed += !noticed;
                base[member->offset + at] ^= (unsigned char)(1 << bit);
            }
    }
    return missed;
}

TEST(every_byte_of_every_member_counts)
{
    struct eps_phase phase, other;
    struct eps_query query, asked;
    eps_phase_init(&phase);
    phase.mechanism.epochs = 2.5; /* a NAN with another bit pattern is a NAN */
    phase.mechanism.sampling.p = 0.25;
    phase.mechanism.workload.momentum = 0.5;
    memset(phase.mechanism.matrix.stored_id, 'a', sizeof phase.mechanism.matrix.stored_id - 1);
    memcpy(&other, &phase, sizeof other);
    assert_true(eps__members_equal(&eps__phase_object, &phase, &other));
    assert_true(same_bytes(&eps__phase_object, &phase, &other, false));
    assert_int_equal(unnoticed(&eps__phase_object, &eps__phase_object, (unsigned char *)&other, &phase, &other), 0);
    eps__members_init(&eps__query_object, &query);
    query.epsilon = query.delta = query.noise_multiplier = 0.5;
    query.accountant.bad_event_share = query.accountant.max_seconds = 0.5;
    memcpy(&asked, &query, sizeof asked);
    assert_int_equal(unnoticed(&eps__query_object, &eps__query_object, (unsigned char *)&asked, &query, &asked), 0);
}

TEST(every_number_of_an_array_counts)
{
    double numbers[] = {1, 2, 3, 4}, others[] = {1, 2, 3, 4};
    for (size_t k = 0; k < OBJECTS; k++)
        for (size_t i = 0; i < objects[k]->len; i++) {
            const struct eps__member *member = &objects[k]->members[i];
            const double *left = numbers, *right = others;
            size_t len = member->type == EPS__ROWS ? 2 : 4;
            _Alignas(16) unsigned char a[LARGEST], b[LARGEST];
            if (member->type != EPS__NUMBERS && member->type != EPS__ROWS)
                continue;
            assert_true(objects[k]->size <= LARGEST);
            eps__members_init(objects[k], a);
            eps__members_init(objects[k], b);
            memcpy(a + member->offset, &left, sizeof left);
            memcpy(b + member->offset, &right, sizeof right);
            memcpy(a + member->len_offset, &len, sizeof len);
            memcpy(b + member->len_offset, &len, sizeof len);
            assert_true(eps__members_equal(objects[k], a, b));
            assert_true(same_bytes(objects[k], a, b, false));
            for (size_t at = 0; at < 4; at++) {
                others[at] += 0x1p-40;
                assert_false(eps__members_equal(objects[k], a, b));
                assert_false(same_bytes(objects[k], a, b, false));
                others[at] = numbers[at];
            }
        }
}

TEST(absent_numbers_are_equal)
{
    struct eps_query query, asked;
    eps__members_init(&eps__query_object, &query);
    asked = query;
    asked.epsilon = -NAN;
    assert_true(eps__members_equal(&eps__query_object, &query, &asked));
    assert_true(same_bytes(&eps__query_object, &query, &asked, false));
    asked.accountant.given = 1; /* how the member was written does not count */
    assert_true(eps__members_equal(&eps__query_object, &query, &asked));
}

/* The keys that jobs had before a member was added stay theirs. */
TEST(later_members_change_no_bytes_at_their_defaults)
{
    struct eps_matrix matrix, other;
    size_t later = 0;
    eps__members_init(&eps__matrix_object, &matrix);
    other = matrix;
    struct bytes without = bytes_of(&eps__matrix_object, &matrix, false);
    for (size_t k = 0; k < OBJECTS; k++)
        for (size_t i = 0; i < objects[k]->len; i++)
            if (objects[k]->members[i].later) {
                later++;
                assert_int_equal(objects[k]->members[i].type, EPS__NAME);
                assert_true(eps__member_omitted(&objects[k]->members[i], &matrix));
            }
    assert_int_equal(later, 1);
    other.optimize_for = EPS_OPTIMIZE_FOR_JOB;
    struct bytes with = bytes_of(&eps__matrix_object, &other, false);
    uint64_t last;
    assert_int_equal(with.len, without.len + sizeof last);
    assert_memory_equal(with.bytes, without.bytes, without.len);
    memcpy(&last, with.bytes + without.len, sizeof last);
    assert_true(last > UINT32_MAX); /* as no name is */
    free(with.bytes);
    free(without.bytes);
}

/* ------------------------------------------------------------ from bytes */

static struct eps_matrix a_matrix(double *numbers)
{
    struct eps_matrix matrix;
    eps__members_init(&eps__matrix_object, &matrix);
    matrix.family = EPS_FAMILY_BLT;
    matrix.coefficients = numbers;
    matrix.coefficients_len = 3;
    matrix.rows = numbers;
    matrix.rows_n = 2;
    matrix.decay = numbers;
    matrix.scale = numbers + 1;
    matrix.blt_len = 2;
    return matrix;
}

TEST(bytes_are_read_back)
{
    double numbers[] = {0.25, 0.5, 0.75, 1};
    struct eps_matrix matrix = a_matrix(numbers), read;
    struct bytes all = bytes_of(&eps__matrix_object, &matrix, false);
    assert_true(eps__members_get(&eps__matrix_object, &read, supply, &all));
    assert_int_equal(all.at, all.len);
    assert_true(eps__members_equal(&eps__matrix_object, &matrix, &read));
    eps__members_free(&eps__matrix_object, &read);
    free(all.bytes);
}

/* Bytes that are cut off or changed are refused, or give a struct whose arrays have their declared lengths. */
TEST(damaged_bytes_are_refused)
{
    double numbers[] = {0.25, 0.5, 0.75, 1}, sum = 0;
    struct eps_matrix matrix = a_matrix(numbers), read;
    struct bytes all = bytes_of(&eps__matrix_object, &matrix, false);
    for (size_t len = 0; len < all.len; len++) {
        struct bytes cut = {all.bytes, len, 0};
        assert_false(eps__members_get(&eps__matrix_object, &read, supply, &cut));
        eps__members_free(&eps__matrix_object, &read);
    }
    for (size_t at = 0; at < all.len; at++)
        for (int bit = 0; bit < 8; bit++) {
            all.bytes[at] ^= (unsigned char)(1 << bit);
            all.at = 0;
            if (eps__members_get(&eps__matrix_object, &read, supply, &all)) {
                for (size_t i = 0; i < read.blt_len; i++)
                    sum += read.decay[i] + read.scale[i];
                for (size_t i = 0; i < read.rows_n * read.rows_n; i++)
                    sum += read.rows[i];
                assert_true((unsigned)read.family < EPS_FAMILY_COUNT && (unsigned)read.decoder < EPS_DECODER_COUNT);
            }
            eps__members_free(&eps__matrix_object, &read);
            all.bytes[at] ^= (unsigned char)(1 << bit);
        }
    assert_false(sum == 0);
    free(all.bytes);
}

/* ------------------------------------------------------------ in JSON */

/* Whether the codec's object has the member that is at this place of its struct, with the same type and range. */
static bool has_alike(const struct eps__object *object, const struct eps__member *member, size_t base)
{
    for (size_t i = 0; i < object->len; i++) {
        const struct eps__member *field = &object->members[i];
        bool object_here = member->type == EPS__OBJECT && (field->type == EPS__OBJECT || field->type == API_ACCOUNTANT);
        if (field->offset == member->offset + base && field->name && member->name &&
            strcmp(field->name, member->name) == 0)
            return (object_here || field->type == member->type) && field->size == member->size &&
                   field->largest == member->largest && field->unwritten == member->unwritten &&
                   (member->type != EPS__INTEGER || (field->least == member->least && field->most == member->most)) &&
                   field->allowed == member->allowed;
    }
    return false;
}

TEST(every_member_is_in_json)
{
    const struct {
        const struct eps__object *part, *document;
        size_t base;
    } parts[] = {{&eps__mechanism_object, &api__job_object, offsetof(struct eps_job, mechanism)},
                 {&eps__query_object, &api__job_object, offsetof(struct eps_job, query)},
                 {&eps__mechanism_object, &api__phase_object, offsetof(struct eps_phase, mechanism)},
                 {&eps__phase_object, &api__phase_object, 0}};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        for (size_t i = 0; i < parts[k].part->len; i++) {
            const struct eps__member *member = &parts[k].part->members[i];
            bool of_job =
                parts[k].document == &api__phase_object && member->name && strcmp(member->name, "adjacency") == 0;
            if (member->name && !of_job && !has_alike(parts[k].document, member, parts[k].base))
                fail_msg("%s is not in the codec's table", member->name);
        }
}
