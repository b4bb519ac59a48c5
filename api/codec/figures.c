/*
 * The table of figures.h as an array. Offsets, sizes and C types are derived from the members that a row names. A row
 * whose type differs from that of its member does not compile.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/codec/figures.h"

#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- table */

#define TYPE_REAL double
#define TYPE_VALUE double
#define TYPE_COUNT size_t
#define TYPE_POSITIVE size_t
#define TYPE_TRUTH bool
#define TYPE_TEXT const char *
#define TYPE_ID char *
#define TYPE_UNKNOWN enum eps_unknown
#define TYPE_GUARANTEE enum eps_guarantee
#define TYPE_ACCOUNTANT enum eps_accountant
#define TYPE_ADJACENCY enum eps_adjacency

#define CHECK(type, member) \
    _Static_assert(_Generic(((struct eps_result *)0)->member, TYPE_##type : true, default : false), #member ": type");
#define CHECK_TOLD(name, place, type, member) CHECK(type, member)
#define CHECK_KEPT(column, name, place, type, member) CHECK(type, member)
#define CHECK_LISTED(column, name, place, type, member, where) CHECK(type, member)
API_FIGURES(CHECK_TOLD, CHECK_KEPT, CHECK_LISTED)

#define FIGURE(json, where, kind, member) \
    .name = (json), .place = API_##where, .type = API_FIGURE_##kind, .offset = offsetof(struct eps_result, member)
#define COLUMN(of) \
    .column = #of, .kept_offset = offsetof(struct api_figures, of), .kept_size = sizeof(((struct api_figures *)0)->of)
#define TOLD(name, place, type, member) {FIGURE(name, place, type, member)},
#define KEPT(column, name, place, type, member) {FIGURE(name, place, type, member), COLUMN(column)},
#define LISTED(column, name, place, type, member, where) \
    {FIGURE(name, place, type, member), COLUMN(column), .listed = true, .shown = (where)},

const struct api_figure api_figures[] = {API_FIGURES(TOLD, KEPT, LISTED){.name = NULL}};

const char *api_place_name(enum api_place place)
{
    static const char *const names[API_PLACES] = {[API_BRACKET] = "bracket",
                                                  [API_SAMPLING] = "sampling",
                                                  [API_SENSITIVITY] = "sensitivity",
                                                  [API_FACTORIZATION] = "factorization",
                                                  [API_ERROR] = "error"};
    return names[place];
}

bool api_figure_is_number(const struct api_figure *figure)
{
    return figure->type == API_FIGURE_REAL || figure->type == API_FIGURE_VALUE;
}

/* ---------------------------------------------------------------- figures of a result */

static const void *member_of(const struct api_figure *figure, const struct eps_result *result)
{
    return (const char *)result + figure->offset;
}

double api_figure_number_of(const struct api_figure *figure, const struct eps_result *result)
{
    bool curve = result->solved_for == EPS_SOLVE_CURVE;
    return figure->type == API_FIGURE_VALUE && curve ? NAN : *(const double *)member_of(figure, result);
}

const char *api_figure_text_of(const struct api_figure *figure, const struct eps_result *result)
{
    const void *member = member_of(figure, result);
    switch (figure->type) {
    case API_FIGURE_TEXT:
        return *(const char *const *)member;
    case API_FIGURE_ID:
        return member;
    case API_FIGURE_UNKNOWN:
        return eps_unknown_name(*(const enum eps_unknown *)member);
    case API_FIGURE_GUARANTEE:
        return eps_guarantee_name(*(const enum eps_guarantee *)member);
    case API_FIGURE_ACCOUNTANT:
        return eps_accountant_name(*(const enum eps_accountant *)member);
    case API_FIGURE_ADJACENCY:
        return eps_adjacency_name(*(const enum eps_adjacency *)member);
    case API_FIGURE_REAL:
    case API_FIGURE_VALUE:
    case API_FIGURE_COUNT:
    case API_FIGURE_POSITIVE:
    case API_FIGURE_TRUTH:
        break;
    }
    return NULL;
}

size_t api_figure_count_of(const struct api_figure *figure, const struct eps_result *result)
{
    return *(const size_t *)member_of(figure, result);
}

bool api_figure_truth_of(const struct api_figure *figure, const struct eps_result *result)
{
    return *(const bool *)member_of(figure, result);
}

/* ---------------------------------------------------------------- kept figures */

double api_figure_number(const struct api_figure *figure, const struct api_figures *figures)
{
    return *(const double *)(const void *)((const char *)figures + figure->kept_offset);
}

const char *api_figure_text(const struct api_figure *figure, const struct api_figures *figures)
{
    return (const char *)figures + figure->kept_offset;
}

void api_figure_set_number(const struct api_figure *figure, struct api_figures *figures, double number)
{
    memcpy((char *)figures + figure->kept_offset, &number, sizeof number);
}

void api_figure_set_text(const struct api_figure *figure, struct api_figures *figures, const char *text)
{
    if (strlen(text) < figure->kept_size)
        memcpy((char *)figures + figure->kept_offset, text, strlen(text) + 1);
}

void api_figures_none(struct api_figures *figures)
{
    memset(figures, 0, sizeof *figures);
    for (const struct api_figure *figure = api_figures; figure->name; figure++)
        if (figure->column && api_figure_is_number(figure))
            api_figure_set_number(figure, figures, NAN);
}

void api_figures_fill(struct api_figures *figures, const struct eps_result *result)
{
    api_figures_none(figures);
    for (const struct api_figure *figure = api_figures; figure->name; figure++) {
        if (!figure->column)
            continue;
        if (api_figure_is_number(figure))
            api_figure_set_number(figure, figures, api_figure_number_of(figure, result));
        else
            api_figure_set_text(figure, figures, api_figure_text_of(figure, result));
    }
}
