/*
 * The figures of the children of a group in JSON and CSV, from the table of api/codec/figures.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_GROUPS_FIGURES_H
#define SERVER_ROUTES_GROUPS_FIGURES_H

#include "api/codec/figures.h"
#include "api/json/text.h"

/* Writes the figures that have the bit `shown` as members of a JSON object. The first one is preceded by `before`, each
 * of the others by a comma. */
void figures_write(struct text *out, const struct api_figures *figures, enum api_shown shown, const char *before);

/* Write the names of these figures in the header of a CSV file, and the figures as cells, each after a comma. */
void figures_write_header(struct text *out, enum api_shown shown);
void figures_write_cells(struct text *out, const struct api_figures *figures, enum api_shown shown);

#endif
