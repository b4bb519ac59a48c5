/*
 * Tests that register themselves: a program is a file of TEST()s, and tests/unit/test.c has its main().
 *
 * Includes cmocka.h with the headers that it needs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_TEST_H
#define TESTS_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* TEST(name) { ... }: a test, which runs after those above it in the file. */
#define TEST(name) TEST_DEFINE(name, NULL, NULL, void **unused)

/* The same between cmocka's set_up(&state) and tear_down(&state), either of which may be NULL. The body sees what
 * set_up left as *state. */
#define TEST_WITH(name, set_up, tear_down) TEST_DEFINE(name, set_up, tear_down, void **state)

#define TEST_DEFINE(name, set_up, tear_down, parameter)                                    \
    static void name(parameter);                                                           \
    /* Constructors run in the order of their priorities; those up to 100 are reserved. */ \
    __attribute__((constructor(1000 + __LINE__))) static void register_##name(void)        \
    {                                                                                      \
        test_register((struct CMUnitTest){#name, name, set_up, tear_down, NULL});          \
    }                                                                                      \
    static void name(__attribute__((unused)) parameter)

/* BEFORE_TESTS { ... }: what main() runs before the tests, at most once in a program. */
#define BEFORE_TESTS                                                     \
    static void before_tests(void);                                      \
    __attribute__((constructor)) static void register_before_tests(void) \
    {                                                                    \
        test_before(before_tests);                                       \
    }                                                                    \
    static void before_tests(void)

/* The macros call these before main(). */
void test_register(struct CMUnitTest test);
void test_before(void (*body)(void));

#endif
