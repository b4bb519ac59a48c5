/*
 * The figures of a result: one row for each. The members of an answer, the columns of the database, the points of a
 * sweep and the candidates of a plan all go by these rows. A unit test compares the rows with the migrated database
 * and with openapi.yaml (tests/unit/server/test_figures.c).
 *
 *   told(NAME, PLACE, TYPE, MEMBER)                   a figure of the answer alone
 *   kept(COLUMN, NAME, PLACE, TYPE, MEMBER)           also a column of the table results
 *   listed(COLUMN, NAME, PLACE, TYPE, MEMBER, SHOWN)  also a column of the table children, for sweeps and plans
 *
 * NAME    the name in the answer
 * PLACE   the object of the answer that has it: enum api_place, without API_
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

/* Where a figure stands in an answer. The places are in the order of the answer, and so are the rows of one place. */
enum api_place {
    API_VALUES,  /* the answer's first members */
    API_BRACKET, /* "bracket" */
    API_SOURCE,  /* members of the answer, behind "bracket": the guarantee and its accountant */
    API_BASIS,   /* members of the answer, behind "candidates": what the guarantee presumes */
    API_SAMPLING,
    API_SENSITIVITY,
    API_FACTORIZATION,
    API_ERROR,
    API_PLACES
};

enum api_figure_type {
    API_FIGURE_REAL,       /* double; NAN: null */
    API_FIGURE_VALUE,      /* API_FIGURE_REAL, and null where a curve was asked for */
    API_FIGURE_COUNT,      /* size_t */
    API_FIGURE_POSITIVE,   /* size_t; 0: the member is left out */
    API_FIGURE_TRUTH,      /* bool */
    API_FIGURE_TEXT,       /* const char * */
    API_FIGURE_ID,         /* char[65], lower-case hexadecimal */
    API_FIGURE_UNKNOWN,    /* enum eps_unknown, by its name; so are the next ones */
    API_FIGURE_GUARANTEE,  /* enum eps_guarantee */
    API_FIGURE_ACCOUNTANT, /* enum eps_accountant */
    API_FIGURE_ADJACENCY,  /* enum eps_adjacency */
};

enum api_shown {
    API_IN_POINT = 1,           /* of a sweep, by its column's name: JSON and CSV */
    API_IN_BEST = 2,            /* a plan's candidate, also among the ten best */
    API_IN_CANDIDATE_ERROR = 4, /* the same, inside its object "error" */
    API_IN_CANDIDATE = 8,       /* a plan's candidate, but not among the ten best */
};

/* The digests of stored rows cover the columns in this order. The migration that adds a column renews them, as
 * migrations/0010_errors.sql does. */
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

/* The C type of a figure that is kept. */
#define API_KEPT_REAL(column) double column;
#define API_KEPT_VALUE(column) double column;
#define API_KEPT_ID(column) char column[65];
#define API_KEPT_UNKNOWN(column) char column[32];
#define API_KEPT_ACCOUNTANT(column) char column[32];

#define API__NOTHING(...)
#define API__KEPT_MEMBER(column, name, place, type, ...) API_KEPT_##type(column)

/* The figures that are kept. Numbers: NAN none. Texts: "" none. */
struct api_figures {
    API_FIGURES(API__NOTHING, API__KEPT_MEMBER, API__KEPT_MEMBER)
};

struct api_figure {
    const char *name; /* in the answer */
    enum api_place place;
    enum api_figure_type type;
    size_t offset;      /* in struct eps_result */
    const char *column; /* NULL: it is not kept */
    size_t kept_offset; /* in struct api_figures */
    size_t kept_size;
    bool listed;    /* a column of children, too */
    unsigned shown; /* bits of enum api_shown */
};

/* The rows; one whose name is NULL ends them. */
extern const struct api_figure api_figures[];

/* The name of a place's object in an answer; NULL: its figures are members of the answer itself. */
const char *api_place_name(enum api_place place);

/* Whether a figure is a double; else it is a text, where it is kept. */
bool api_figure_is_number(const struct api_figure *figure);

/* A figure of a result, by its type: NAN, NULL or "" where there is none. */
double api_figure_number_of(const struct api_figure *figure, const struct eps_result *result);
const char *api_figure_text_of(const struct api_figure *figure, const struct eps_result *result);
size_t api_figure_count_of(const struct api_figure *figure, const struct eps_result *result);
bool api_figure_truth_of(const struct api_figure *figure, const struct eps_result *result);

/* A figure that is kept, by its type. Setting a text that is too long leaves it as it was. */
double api_figure_number(const struct api_figure *figure, const struct api_figures *figures);
const char *api_figure_text(const struct api_figure *figure, const struct api_figures *figures);
void api_figure_set_number(const struct api_figure *figure, struct api_figures *figures, double number);
void api_figure_set_text(const struct api_figure *figure, struct api_figures *figures, const char *text);

/* No figure at all. */
void api_figures_none(struct api_figures *figures);

/* The figures of a result. A curve has none of type API_FIGURE_VALUE. */
void api_figures_fill(struct api_figures *figures, const struct eps_result *result);

#endif
