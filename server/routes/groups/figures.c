/*
 * Writes figures under the names of their columns.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/groups/figures.h"

#include <math.h>

void figures_write(struct text *out, const struct api_figures *figures, enum api_shown shown, const char *before)
{
    for (const struct api_figure *figure = api_figures; figure->name; figure++) {
        if (!(figure->shown & shown))
            continue;
        text_puts(out, before);
        text_printf(out, "\"%s\":", figure->column);
        if (api_figure_is_number(figure)) {
            text_number(out, api_figure_number(figure, figures));
        } else {
            const char *text = api_figure_text(figure, figures);
            text_json(out, text[0] ? text : NULL);
        }
        before = ",";
    }
}

void figures_write_header(struct text *out, enum api_shown shown)
{
    for (const struct api_figure *figure = api_figures; figure->name; figure++)
        if (figure->shown & shown)
            text_printf(out, ",%s", figure->column);
}

void figures_write_cells(struct text *out, const struct api_figures *figures, enum api_shown shown)
{
    for (const struct api_figure *figure = api_figures; figure->name; figure++) {
        if (!(figure->shown & shown))
            continue;
        text_puts(out, ",");
        if (!api_figure_is_number(figure))
            text_csv(out, api_figure_text(figure, figures));
        else if (!isnan(api_figure_number(figure, figures)))
            text_number(out, api_figure_number(figure, figures));
    }
}
