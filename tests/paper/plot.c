/*
 * A line chart is a frame, a few labelled ticks and one polyline a curve. It is written directly, because a plotting
 * library would be the largest dependency of the project.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/paper/plot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { WIDTH = 900, HEIGHT = 560, LEFT = 90, RIGHT = 250, TOP = 50, BOTTOM = 60 };

static const char *const folder = "build/reproduce";
static const char *const colours[] = {"#1b6ca8", "#c8553d", "#3a7d44", "#7b4b94", "#b8860b", "#444444", "#d1495b"};

/* One axis: maps a value to a place between from and to. */
struct axis {
    bool log;
    double low, high, from, to;
};

static double place(const struct axis *axis, double value)
{
    double at = axis->log ? log10(value) : value;
    return axis->from + (at - axis->low) / (axis->high - axis->low) * (axis->to - axis->from);
}

static struct axis axis_over(const struct plot *plot, bool vertical)
{
    struct axis axis = {.log = vertical ? plot->log_y : plot->log_x, .low = INFINITY, .high = -INFINITY};
    for (size_t c = 0; c < plot->curves_len; c++) {
        for (size_t i = 0; i < plot->curves[c].len; i++) {
            double value = vertical ? plot->curves[c].y[i] : plot->curves[c].x[i];
            double at = axis.log ? log10(value) : value;
            axis.low = fmin(axis.low, at);
            axis.high = fmax(axis.high, at);
        }
    }
    if (!axis.log && vertical)
        axis.low = fmin(axis.low, 0);
    if (!(axis.high > axis.low))
        axis.high = axis.low + 1;
    axis.from = vertical ? HEIGHT - BOTTOM : LEFT;
    axis.to = vertical ? TOP : WIDTH - RIGHT;
    return axis;
}

/* About five round numbers. */
static void ticks(FILE *out, const struct axis *axis, bool vertical)
{
    double span = axis->high - axis->low, step = pow(10, floor(log10(span / 2)));
    step *= span / step > 10 ? 5 : span / step > 5 ? 2 : 1;
    for (double at = ceil(axis->low / step) * step; at <= axis->high + step * 1e-9; at += step) {
        double value = axis->log ? pow(10, at) : at, spot = place(axis, value);
        if (vertical)
            fprintf(out,
                    "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='#ddd'/>"
                    "<text x='%d' y='%.1f' text-anchor='end'>%.4g</text>\n",
                    LEFT, spot, WIDTH - RIGHT, spot, LEFT - 6, spot + 4, fabs(value) < step * 1e-9 ? 0 : value);
        else
            fprintf(out, "<text x='%.1f' y='%d' text-anchor='middle'>%.4g</text>\n", spot, HEIGHT - BOTTOM + 18,
                    fabs(value) < step * 1e-9 ? 0 : value);
    }
}

static void write_svg(FILE *out, const struct plot *plot)
{
    struct axis x = axis_over(plot, false), y = axis_over(plot, true);
    fprintf(out,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' font-family='sans-serif' font-size='12'>\n"
            "<rect width='100%%' height='100%%' fill='white'/>\n"
            "<text x='%d' y='28' font-size='15'>%s</text>\n",
            WIDTH, HEIGHT, LEFT, plot->title);
    ticks(out, &x, false);
    ticks(out, &y, true);
    fprintf(out,
            "<rect x='%d' y='%d' width='%d' height='%d' fill='none' stroke='#444'/>\n"
            "<text x='%d' y='%d' text-anchor='middle'>%s</text>\n"
            "<text transform='translate(22 %d) rotate(-90)' text-anchor='middle'>%s</text>\n",
            LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 18,
            plot->x_label, (TOP + HEIGHT - BOTTOM) / 2, plot->y_label);
    for (size_t c = 0; c < plot->curves_len; c++) {
        const struct plot_curve *curve = &plot->curves[c];
        const char *colour = colours[c % (sizeof colours / sizeof *colours)];
        fprintf(out, "<polyline fill='none' stroke='%s' stroke-width='1.5' points='", colour);
        for (size_t i = 0; i < curve->len; i++)
            fprintf(out, "%.1f,%.1f ", place(&x, curve->x[i]), place(&y, curve->y[i]));
        int line = TOP + 14 + 20 * (int)c;
        fprintf(out,
                "'/>\n<line x1='%d' y1='%d' x2='%d' y2='%d' stroke='%s' stroke-width='3'/>"
                "<text x='%d' y='%d'>%s</text>\n",
                WIDTH - RIGHT + 14, line - 4, WIDTH - RIGHT + 34, line - 4, colour, WIDTH - RIGHT + 40, line,
                curve->name);
    }
    fputs("</svg>\n", out);
}

static void write_csv(FILE *out, const struct plot *plot)
{
    fputs("curve,x,y\n", out);
    for (size_t c = 0; c < plot->curves_len; c++)
        for (size_t i = 0; i < plot->curves[c].len; i++)
            fprintf(out, "\"%s\",%.17g,%.17g\n", plot->curves[c].name, plot->curves[c].x[i], plot->curves[c].y[i]);
}

bool plot_write(const struct plot *plot)
{
    static void (*const writers[])(FILE *, const struct plot *) = {write_csv, write_svg};
    static const char *const extensions[] = {"csv", "svg"};
    mkdir("build", 0777);
    mkdir(folder, 0777);
    for (size_t i = 0; i < 2; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s.%s", folder, plot->file, extensions[i]);
        FILE *out = fopen(path, "w");
        if (!out) {
            fprintf(stderr, "%s: %s\n", path, strerror(errno));
            return false;
        }
        writers[i](out, plot);
        if (fclose(out) != 0) {
            fprintf(stderr, "%s: %s\n", path, strerror(errno));
            return false;
        }
        printf("# written: %s\n", path);
    }
    return true;
}
