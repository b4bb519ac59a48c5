/*
 * The main() of the test programs: runs the registered tests, or those whose names match the pattern in TEST_FILTER
 * (with * and ?). The group has the name of the program.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/unit/test.h"

#include <errno.h>
#include <stdlib.h>

enum { TESTS_MAX = 512 };

static struct CMUnitTest tests[TESTS_MAX];
static size_t tests_len;
static void (*before)(void);

void test_register(struct CMUnitTest test)
{
    if (tests_len == TESTS_MAX)
        abort();
    tests[tests_len++] = test;
}

void test_before(void (*body)(void))
{
    before = body;
}

int main(void)
{
    const char *pattern = getenv("TEST_FILTER");
    if (before)
        before();
    if (pattern)
        cmocka_set_test_filter(pattern);
    return _cmocka_run_group_tests(program_invocation_short_name, tests, tests_len, NULL, NULL);
}
