/*
 * Small dense matrices in long double, written for clarity: the slow reference for the tests of strategies.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_MATRICES_H
#define TESTS_UNIT_MATRICES_H

#include "lib/epsilon.h"

/* rows x columns, row-major. Release with matrix_free(). */
struct matrix {
    size_t rows, columns;
    long double *at;
};

struct matrix matrix_new(size_t rows, size_t columns);
void matrix_free(struct matrix *m);
static inline long double *entry(const struct matrix *m, size_t i, size_t j)
{
    return &m->at[i * m->columns + j];
}

struct matrix matrix_product(const struct matrix *a, const struct matrix *b);
/* By Gauss-Jordan elimination with row exchanges; at is NULL where the matrix is singular. */
struct matrix matrix_inverse(const struct matrix *a);
/* a' a */
struct matrix matrix_gram(const struct matrix *a);

/* A, straight from its definition as a double sum. */
struct matrix workload_matrix(const struct eps_mechanism *mechanism);
/* C before normalization, from the family's definition; the square root by solving R R = A column by column. */
struct matrix family_matrix(const struct eps_mechanism *mechanism);
/* The rows of eps_strategy_row() as a matrix. */
struct matrix part_matrix(const struct eps_strategy *strategy, enum eps_part part);

/* A mechanism of the given family and n with every default, scheme none with one epoch. */
struct eps_mechanism mechanism_new(enum eps_family family, size_t n);
/* The strategy; computing it must not fail. */
struct eps_strategy *strategy_new(const struct eps_mechanism *mechanism);

/* One of four workloads: prefix sums, momentum with decay, the same with a cooldown, and a list of coefficients. */
void workload_choose(struct eps_mechanism *mechanism, int which);

/* (a' a)^-1 a' */
struct matrix matrix_left_inverse(const struct matrix *a);

/* Compares every part that the strategy returns, and its error figures, with the given encoder and left inverse of the
 * whole strategy. Relative to 1 or the entry, whichever is larger. */
void check_factorisation(const struct eps_strategy *strategy, const struct eps_mechanism *mechanism,
                         const struct matrix *encoder, const struct matrix *noise, long double tolerance);

/* The largest ||C s||^2 over the patterns of the job (n <= 20) and signs s on them; without signs, over s = 1. */
long double pattern_square(const struct matrix *gram, const struct eps_mechanism *mechanism, bool signs);

/* Uniform in (-1, 1), from a state that the caller seeds. */
double scatter(unsigned long long *state);

#endif
