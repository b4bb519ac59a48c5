/*
 * Curves for `make reproduce`: as CSV, and as an SVG that any browser shows, under build/reproduce/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_PAPER_PLOT_H
#define TESTS_PAPER_PLOT_H

#include <stdbool.h>
#include <stddef.h>

struct plot_curve {
    const char *name;
    const double *x, *y; /* len of each */
    size_t len;
};

struct plot {
    const char *file; /* without its extension */
    const char *title, *x_label, *y_label;
    bool log_x, log_y;
    const struct plot_curve *curves;
    size_t curves_len;
};

/* Writes both files; rows of the CSV are curve,x,y. False with a message on standard error. */
bool plot_write(const struct plot *plot);

#endif
