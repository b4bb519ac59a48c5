/*
 * The kinds of random jobs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/generate/job.h"

#define UNDER_1 0x1.fffffffffffffp-1
#define ALL_SCHEMES   \
    {                 \
        1, 1, 1, 1, 1 \
    }
#define ALL_FAMILIES                       \
    {                                      \
        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 \
    }

/* Where defects live: few steps and groups that do not divide them, bands that do not divide the groups, entries of
 * very different sizes, probabilities at both ends, all additions with each other. */
const struct knobs generate_small = {
    .steps = {{1, GENERATE_SMALL_STEPS}},
    .schemes = {15, 29, 33, 13, 11},
    .families = {7, 5, 4, 2, 2, 2, 2, 2, 2, 2, 3, 0},
    .workloads = {8, 2, 0},
    .methods = {{2, 1, 1, 2}, {2, 1, 1, 2}, {2, 1, 1, 2}, {1, 0, 1, 0, 2, 2}, {2, 1, 0, 0, 3}},
    .noise = {{0.2, 12}, {1e-3, 1e4}},
    .delta = {{1e-9, 0.6}, {1e-100, 0.9}},
    .epsilon = {{0.02, 12}, {1e-6, 300}},
    .least_p = 1e-12,
    .dataset_most = 3000,
    .members = {.within = 0.5, .names = 1, .flags = 1, .ordinary = true},
    .tuning = {.within = 0.7, .absent = 0.2, .names = 0.2, .ordinary = true},
    .served = 0.9,
    .signs = {1, 0.03},
    .omitted = 0.3,
    .sizes = 0.1,
    .passes = 0.2,
    .truncation = 0.3,
    .user = 0.35,
    .users_most = 60,
    .target = 0.3,
    .stamps = 0.2,
};

#define ORDINARY                                                                                                   \
    .steps = {{1, 48}}, .schemes = ALL_SCHEMES, .families = ALL_FAMILIES, .workloads = {1, 1, 1},                  \
    .methods = {{6, 1, 1, 1, 1, 1, 1},                                                                             \
                {6, 1, 1, 1, 1, 1, 1},                                                                             \
                {6, 1, 1, 1, 1, 1, 1},                                                                             \
                {6, 1, 1, 1, 1, 1, 1},                                                                             \
                {6, 1, 1, 1, 1, 1, 1}},                                                                            \
    .noise = {{0.1, 10}, {0.01, 100}}, .delta = {{1e-9, 0.9}, {1e-9, 0.9}}, .epsilon = {{0.1, 20}, {0.1, 20}},     \
    .least_p = 1e-9, .dataset_most = 1000000000,                                                                   \
    .members = {.within = 0.5, .names = 0.5, .flags = 0.5, .ordinary = true},                                      \
    .tuning = {.within = 0.5, .absent = 0.5, .names = 0.5, .ordinary = true}, .signs = {0.5, 0.5}, .sizes = 0.5,   \
    .passes = 0.5, .truncation = 0.5, .user = 0.5, .users_most = 9, .cooldown = 0.5, .target = 0.5, .stamps = 0.5, \
    .curve = 0.2

const struct knobs generate_ordinary = {ORDINARY}, generate_phases = {ORDINARY, .phases = 1, .largest = 0.3};

#define WILD                                                                                                           \
    .steps = {{0.6, 12}, {0.3, 120}, {0.09, 1500}, {0.01, 6000}}, .families = {1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},    \
    .workloads = {12, 5, 3}, .noise = {{0.05, 100}, {1e-3, 1e6}}, .delta = {{1e-15, 0.999}, {1e-300, UNDER_1}},        \
    .epsilon = {{1e-3, 30}, {1e-12, 1e4}}, .least_p = 1e-20, .dataset_most = 1000000000000,                            \
    .members = {.within = 0.4, .at_end = 0.05, .names = 1, .flags = 1},                                                \
    .tuning = {.within = 0.4, .at_end = 0.04, .absent = 0.05, .names = 0.1}, .broken = 0.005, .signs = {0.6, 0.05},    \
    .far = 0.15, .omitted = 0.05, .sizes = 0.2, .passes = 0.1, .truncation = 0.3, .user = 0.35, .users_most = 1000000, \
    .cooldown = 0.05, .target = 0.4, .stamps = 0.2, .curve = 0.025, .stores = true

const struct knobs generate_wild = {WILD, .schemes = {26, 36, 36, 1, 1},
                                    .methods = {{46, 17, 17, 17, 1, 1, 1},
                                                {46, 17, 17, 17, 1, 1, 1},
                                                {46, 17, 17, 17, 1, 1, 1},
                                                {46, 17, 17, 17, 1, 1, 1},
                                                {46, 17, 17, 17, 1, 1, 1}}};
const struct knobs generate_extreme = {WILD,
                                       .schemes = ALL_SCHEMES,
                                       .methods = {{6, 3, 3, 3, 1, 1, 1},
                                                   {6, 3, 3, 3, 1, 1, 1},
                                                   {6, 3, 3, 3, 1, 1, 1},
                                                   {6, 3, 3, 3, 1, 1, 1},
                                                   {6, 3, 3, 3, 1, 1, 1}},
                                       .phases = 0.15,
                                       .largest = 0.05,
                                       .extreme = true};
