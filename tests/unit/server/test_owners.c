/*
 * The owners of resources in memory: by the whole id, although the place of an id is that of its end; the last one that
 * was kept has it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/owners.h"

#include <stdio.h>
#include <string.h>

#include "server/ops/clock.h"
#include "tests/unit/test.h"

TEST(an_owner_is_found_by_the_whole_id)
{
    char owner[OWNER_SIZE] = "none", first[UUID_SIZE], second[UUID_SIZE];
    static const char one[OWNER_SIZE] = "one", two[OWNER_SIZE] = "two";
    struct owners *owners = owners_create();
    assert_non_null(owners);
    uuid_next(first);
    uuid_next(second);
    memcpy(second + UUID_SIZE - 9, first + UUID_SIZE - 9, 9); /* the same place */
    assert_false(owners_find(owners, first, owner));
    owners_keep(owners, first, one);
    assert_true(owners_find(owners, first, owner));
    assert_string_equal(owner, "one");
    assert_false(owners_find(owners, second, owner));
    assert_string_equal(owner, "one");
    owners_keep(owners, second, two);
    assert_true(owners_find(owners, second, owner));
    assert_string_equal(owner, "two");
    assert_false(owners_find(owners, first, owner));
    owners_destroy(owners);
    owners_destroy(NULL);
}

TEST(each_end_of_an_id_has_a_place)
{
    struct owners *owners = owners_create();
    size_t found = 0;
    char ids[100][UUID_SIZE], owner[OWNER_SIZE] = "group";
    assert_non_null(owners);
    for (unsigned i = 0; i < 100; i++) {
        char end[4];
        uuid_next(ids[i]);
        snprintf(end, sizeof end, "%03x", i == 99 ? 0xfffU : i);
        memcpy(ids[i] + UUID_SIZE - 4, end, sizeof end);
        owners_keep(owners, ids[i], owner);
    }
    for (unsigned i = 0; i < 100; i++)
        found += owners_find(owners, ids[i], owner);
    assert_int_equal(found, 100);
    owners_destroy(owners);
}
