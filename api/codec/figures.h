/*
 * The table of the figures of a result, with one row per figure. The JSON of a result, the columns of the database, the
 * points of a sweep and the candidates of a plan are generated from these rows. A unit test compares the rows with the
 * migrated database and with openapi.yaml (tests/unit/server/test_figures.c).
 *
 *   told(NAME, PLACE, TYPE, MEMBER)                   a figure of the result object only
 *   kept(COLUMN, NAME, PLACE, TYPE, MEMBER)           also a column of the table results
 *   listed(COLUMN, NAME, PLACE, TYPE, MEMBER, SHOWN)  also a column of the table children, for sweeps and plans
 *
 * NAME    the name in the result object
 * PLACE   the object that contains the figure: enum api_place, without API_
 * TYPE    enum api_figure_type, without API_FIGURE_
 * MEMBER  the member of struct eps_result
 * COLUMN  the SQL column, and the member of struct api_figures
 * SHOWN   bits of enum api_shown
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_CODEC_FIGURES_H
#define API_CODEC_FIGURES_H

#include <stddef.h>

#include "lib/epsilon.h"

/* The place of a figure in the result object. Places, and the rows of one place, are in the order of the object. */
enum api_place {
    API_VALUES,  /* the first members */
    API_BRACKET, /* "bracket" */
    API_SOURCE,  /* members after "bracket": the guarantee and its accountant */
    API_BASIS,   /* members after "candidates": the assumptions of the guarantee */
    API_SAMPLING,
    API_SENSITIVITY,
    API_FACTORIZATION,
    API_ERROR,
    API_PLACES
};

enum api_figure_type {
    API_FIGURE_REAL,       /* double; NAN: null */
    API_FIGURE_VALUE,      /* like API_FIGURE_REAL, but null for a curve */
    API_FIGURE_COUNT,      /* size_t */
    API_FIGURE_POSITIVE,   /* size_t; 0: the member is omitted */
    API_FIGURE_TRUTH,      /* bool */
    API_FIGURE_TEXT,       /* const char * */
    API_FIGURE_ID,         /* char[65], lower-case hexadecimal */
    API_FIGURE_UNKNOWN,    /* enum eps_unknown, by its name; also for the next three */
    API_FIGURE_GUARANTEE,  /* enum eps_guarantee */
    API_FIGURE_ACCOUNTANT, /* enum eps_accountant */
    API_FIGURE_ADJACENCY,  /* enum eps_adjacency */
};

enum api_shown {
    API_IN_POINT = 1,           /* in a point of a sweep, under the name of the column: JSON and CSV */
    API_IN_BEST = 2,            /* in a candidate of a plan, also in the list of the ten best */
    API_IN_CANDIDATE_ERROR = 4, /* the same, in its object "error" */
    API_IN_CANDIDATE = 8,       /* in a candidate of a plan, but not in the list of the ten best */
};

/* The digests of stored rows cover the columns in this order. A migration that adds a column must recompute them, like
 * migrations/0010_errors.sql. */
/* clang-format off */
#define API_FIGURES(told, kept, listed) \
    kept(solved_for, "solved_for", VALUES, UNKNOWN, solved_for) \
    listed(epsilon, "epsilon", VALUES, VALUE, epsilon, API_IN_POINT) \
    listed(delta, "delta", VALUES, VALUE, delta, API_IN_POINT) \
    listed(noise_multiplier, "noise_multiplier", VALUES, VALUE, noise_multiplier, API_IN_POINT | API_IN_BEST) \
    kept(lower, "lower", BRACKET, VALUE, bracket_lower) \
    kept(upper, "upper", BRACKET, VALUE, bracket_upper) \
    told("exact", BRACKET, TRUTH, bracket_exact) \
    told("least", SOURCE, VALUE, least) \
    told("guarantee", SOURCE, GUARANTEE, guarantee) \
    listed(mean_squared, "mean_squared", ERROR, REAL, error_mean_squared, API_IN_POINT | API_IN_CANDIDATE_ERROR) \
    listed(max_squared, "max_squared", ERROR, REAL, error_max_squared, API_IN_CANDIDATE_ERROR) \
    listed(last_squared, "last_squared", ERROR, REAL, error_last_squared, API_IN_CANDIDATE_ERROR) \
    listed(accountant, "accountant", SOURCE, ACCOUNTANT, accountant, API_IN_POINT | API_IN_CANDIDATE) \
    told("adjacency", BASIS, ADJACENCY, adjacency) \
    told("adaptive", BASIS, TRUTH, adaptive) \
    told("p", SAMPLING, REAL, p) \
    told("bins", SAMPLING, POSITIVE, bins) \
    told("expected_batch_size", SAMPLING, REAL, expected_batch_size) \
    told("value", SENSITIVITY, REAL, sensitivity) \
    told("rule", SENSITIVITY, TEXT, sensitivity_rule) \
    told("exact", SENSITIVITY, TRUTH, sensitivity_exact) \
    kept(factorization, "id", FACTORIZATION, ID, factorization_id) \
    told("iterations", FACTORIZATION, COUNT, iterations) \
    told("optimality_gap", FACTORIZATION, REAL, optimality_gap)
/* clang-format on */

/* The C type of a kept figure. */
#define API_KEPT_REAL(column) double column;
#define API_KEPT_VALUE(column) double column;
#define API_KEPT_ID(column) char column[65];
#define API_KEPT_UNKNOWN(column) char column[32];
#define API_KEPT_ACCOUNTANT(column) char column[32];

#define API__NOTHING(...)
#define API__KEPT_MEMBER(column, name, place, type, ...) API_KEPT_##type(column)

/* The kept figures of a result. Absent numbers are NAN, absent texts "". */
struct api_figures {
    API_FIGURES(API__NOTHING, API__KEPT_MEMBER, API__KEPT_MEMBER)
};

struct api_figure {
    const char *name; /* in the result object */
    enum api_place place;
    enum api_figure_type type;
    size_t offset;      /* in struct eps_result */
    const char *column; /* NULL: not kept */
    size_t kept_offset; /* in struct api_figures */
    size_t kept_size;
    bool listed;    /* also a column of children */
    unsigned shown; /* bits of enum api_shown */
};

/* The rows. The last one is followed by a row whose name is NULL. */
extern const struct api_figure api_figures[];

/* The name of the object at a place; NULL: the figures are members of the result object itself. */
const char *api_place_name(enum api_place place);

/* Returns whether a figure is a double. A kept figure that is not is a text. */
bool api_figure_is_number(const struct api_figure *figure);

/* A figure of a result. Use the function for its type. NAN, NULL or "" if it is absent. */
double api_figure_number_of(const struct api_figure *figure, const struct eps_result *result);
const char *api_figure_text_of(const struct api_figure *figure, const struct eps_result *result);
size_t api_figure_count_of(const struct api_figure *figure, const struct eps_result *result);
bool api_figure_truth_of(const struct api_figure *figure, const struct eps_result *result);

/* A kept figure. Use the function for its type. A text that is too long is not set. */
double api_figure_number(const struct api_figure *figure, const struct api_figures *figures);
const char *api_figure_text(const struct api_figure *figure, const struct api_figures *figures);
void api_figure_set_number(const struct api_figure *figure, struct api_figures *figures, double number);
void api_figure_set_text(const struct api_figure *figure, struct api_figures *figures, const char *text);

/* Makes all figures absent. */
void api_figures_none(struct api_figures *figures);

/* Copies the kept figures of a result. For a curve, those of type API_FIGURE_VALUE are absent. */
void api_figures_fill(struct api_figures *figures, const struct eps_result *result);

#endif
