/*
 * Linked into a test program it runs only the cases that TEST_FILTER names (cmocka's pattern).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

__attribute__((constructor)) static void choose(void)
{
    const char *pattern = getenv("TEST_FILTER");
    if (pattern)
        cmocka_set_test_filter(pattern);
}
