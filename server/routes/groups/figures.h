/*
 * Figures of a group's children, from their table (api/codec/figures.h).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_GROUPS_FIGURES_H
#define SERVER_ROUTES_GROUPS_FIGURES_H

#include "api/codec/figures.h"
#include "server/ops/text.h"

/* Writes the figures that are shown there as members of a JSON object. The first one follows `before`, each of the others
 * a comma. */
void figures_write(struct text *out, const struct api_figures *figures, enum api_shown shown, const char *before);

/* Writes their names as a part of CSV's header, and the figures as cells, each after a comma. */
void figures_write_header(struct text *out, enum api_shown shown);
void figures_write_cells(struct text *out, const struct api_figures *figures, enum api_shown shown);

#endif
