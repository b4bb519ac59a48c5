/*
 * Random allocation without sampling (Schuchardt and Kalinin 2026), figures 2 and 3: sigma over epsilon at delta 1e-5
 * for balls in bins, by renyi, by conditional_composition, and by auto, which takes the best serving accountant for
 * each direction. The lower bound on the truth stands beside them: the lower end of the exact law's bracket for DP-SGD,
 * and for other strategies the bound that draws prove, up to one point in a thousand (drawn.h). For each panel the
 * program prints where the two accountants cross, by how much each exceeds the truth at most, and the processor time. A
 * guarantee below the truth, or one looser than it used to be, is a failure. The points of all panels are distributed
 * among the processors.
 *
 * C is as its family defines it, not normalised, as in the paper; its optimised ones are ours (ratios to its sigmas
 * are not compared).
 *
 *     [POINTS=7] reproduce_balls_in_bins [panel ...]
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/epsilon.h"
#include "tests/paper/drawn.h"
#include "tests/paper/plot.h"

enum { POINTS_MAX = 13, WAYS = 3, CURVES = WAYS + 1, AUTO = 2, WORKERS_MAX = 64 };

#define NEAR 0.95 /* the share of the exact law's sigma that draws prove at least */

static const double delta = 1e-5, epsilon_first = 0.25, epsilon_last = 16;
static const enum eps_accountant ways[WAYS] = {EPS_ACCOUNTANT_RENYI, EPS_ACCOUNTANT_CONDITIONAL_COMPOSITION,
                                               EPS_ACCOUNTANT_AUTO};

struct panel {
    const char *name, *title;
    enum eps_family family;
    size_t n, epochs, size; /* bands, or buffers */
    double loosest;         /* auto's sigma over the lower bound on the truth: the worst seen, and a little more */
};

static const struct panel panels[] = {
    {"2a", "DP-SGD (100, 1)", EPS_FAMILY_IDENTITY, 100, 1, 0, 1.002},
    {"2b", "DP-SGD (1000, 1)", EPS_FAMILY_IDENTITY, 1000, 1, 0, 1.002},
    {"2c", "DP-SGD (1000, 10)", EPS_FAMILY_IDENTITY, 1000, 10, 0, 1.002},
    {"2d", "BSR p = 4 (100, 1)", EPS_FAMILY_SQUARE_ROOT, 100, 1, 4, 1.15},
    {"2e", "BSR p = 64 (100, 1)", EPS_FAMILY_SQUARE_ROOT, 100, 1, 64, 1.5},
    {"2f", "BSR p = 4 (1000, 10)", EPS_FAMILY_SQUARE_ROOT, 1000, 10, 4, 1.2},
    {"3a", "BISR p = 4 (100, 1)", EPS_FAMILY_INVERSE_SQUARE_ROOT, 100, 1, 4, 1.75},
    {"3b", "BISR p = 64 (100, 1)", EPS_FAMILY_INVERSE_SQUARE_ROOT, 100, 1, 64, 1.9},
    {"3c", "BISR p = 4 (1000, 10)", EPS_FAMILY_INVERSE_SQUARE_ROOT, 1000, 10, 4, 1.75},
    {"3d", "BLT, 4 buffers (100, 1)", EPS_FAMILY_BLT, 100, 1, 4, 1.5},
    {"3e", "BandMF p = 64 (100, 1)", EPS_FAMILY_BANDED, 100, 1, 64, 1.5},
    {"3f", "BandInvMF p = 4 (100, 1)", EPS_FAMILY_BANDED_INVERSE, 100, 1, 4, 1.6},
};
enum { PANELS = sizeof panels / sizeof *panels };

/* One epsilon of a panel. */
struct point {
    const struct panel *panel;
    double epsilon, sigma[WAYS], seconds[WAYS];
    double exact, drawn; /* the lower bound on the truth: by the exact law, NAN where C is not I; by draws */
};

struct work {
    struct point *points;
    size_t len;
    atomic_size_t next;
};

/* Of this thread. */
static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct eps_job job_of(const struct panel *panel, double epsilon, enum eps_accountant way)
{
    struct eps_job job;
    eps_job_init(&job);
    struct eps_matrix *matrix = &job.mechanism.matrix;
    job.mechanism.n = panel->n;
    matrix->family = panel->family;
    matrix->normalization = EPS_NORMALIZATION_NONE;
    *(panel->family == EPS_FAMILY_BLT ? &matrix->buffers : &matrix->bands) = panel->size;
    if (panel->family == EPS_FAMILY_BLT || panel->family == EPS_FAMILY_BANDED ||
        panel->family == EPS_FAMILY_BANDED_INVERSE) {
        matrix->epochs = panel->epochs;
        matrix->separation = panel->n / panel->epochs;
    }
    job.mechanism.sampling.scheme = EPS_SCHEME_BALLS_IN_BINS;
    job.mechanism.sampling.bins = panel->n / panel->epochs;
    job.query.epsilon = epsilon;
    job.query.delta = delta;
    job.query.accountant.method = way;
    eps_job_defaults(&job);
    return job;
}

/* One solve; NAN, and a message, where there is none. *own: by accountant, the values of both directions; NAN for
 * accountants that were not tried. */
static double sigma_of(const struct panel *panel, double epsilon, enum eps_accountant way, double *own)
{
    struct eps_job job = job_of(panel, epsilon, way);
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    unsigned directions[EPS_ACCOUNTANT_COUNT] = {0};
    if (eps_solve(NULL, &result, &error, &job) != EPS_OK) {
        printf("not ok - %s, epsilon %g, %s: %s %s\n", panel->title, epsilon, eps_accountant_name(way), error.pointer,
               error.message);
        return NAN;
    }
    for (size_t i = 0; i < result->candidates_len; i++) {
        const struct eps_candidate *candidate = &result->candidates[i];
        double *sigma = &own[candidate->accountant];
        *sigma = directions[candidate->accountant]++ == 0 ? candidate->value : fmax(*sigma, candidate->value);
    }
    for (size_t i = 0; i < EPS_ACCOUNTANT_COUNT; i++)
        if (directions[i] < EPS_DIRECTIONS)
            own[i] = NAN;
    double sigma = result->noise_multiplier;
    eps_result_destroy(result);
    return sigma;
}

/* The lower end of the bracket of the exact law. */
static double exact_of(const struct panel *panel, double epsilon)
{
    struct eps_job job = job_of(panel, epsilon, EPS_ACCOUNTANT_PLD);
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    if (panel->family != EPS_FAMILY_IDENTITY)
        return NAN;
    if (eps_solve(NULL, &result, &error, &job) != EPS_OK) {
        printf("not ok - %s, epsilon %g, pld: %s %s\n", panel->title, epsilon, error.pointer, error.message);
        return 0;
    }
    double sigma = result->bracket_lower;
    eps_result_destroy(result);
    return sigma;
}

/* For each way: auto's answer contains those of the others where it tries them in both directions; otherwise they are
 * computed by themselves. */
static void solve(struct point *point)
{
    double found[EPS_ACCOUNTANT_COUNT], begin = processor_seconds(), ignored[EPS_ACCOUNTANT_COUNT];
    for (size_t i = 0; i < EPS_ACCOUNTANT_COUNT; i++)
        found[i] = NAN;
    point->sigma[AUTO] = sigma_of(point->panel, point->epsilon, ways[AUTO], found);
    point->seconds[AUTO] = processor_seconds() - begin;
    for (size_t way = 0; way < AUTO; way++) {
        bool known = !isnan(found[ways[way]]);
        begin = processor_seconds();
        point->sigma[way] = known ? found[ways[way]] : sigma_of(point->panel, point->epsilon, ways[way], ignored);
        point->seconds[way] = processor_seconds() - begin;
    }
    begin = processor_seconds();
    struct eps_job job = job_of(point->panel, point->epsilon, EPS_ACCOUNTANT_AUTO);
    point->exact = exact_of(point->panel, point->epsilon);
    point->drawn = drawn_sigma(&job, point->sigma[AUTO]);
    printf("# %s, epsilon %7.4f: %8.4f %8.4f %8.4f in %.0f s; at least %.4f in %.0f s\n", point->panel->name,
           point->epsilon, point->sigma[0], point->sigma[1], point->sigma[AUTO],
           point->seconds[0] + point->seconds[1] + point->seconds[AUTO], point->drawn, processor_seconds() - begin);
    fflush(stdout);
}

static void *take_points(void *shared)
{
    struct work *work = shared;
    for (size_t i; (i = atomic_fetch_add(&work->next, 1)) < work->len;)
        solve(&work->points[i]);
    return NULL;
}

/* One thread per processor; this one works, too. */
static void solve_all(struct point *points, size_t len)
{
    struct work work = {.points = points, .len = len};
    pthread_t threads[WORKERS_MAX];
    size_t started = 0;
    for (long more = sysconf(_SC_NPROCESSORS_ONLN) - 1; more > 0 && started < WORKERS_MAX; more--)
        if (pthread_create(&threads[started], NULL, take_points, &work) == 0)
            started++;
    take_points(&work);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

/* Where the first two curves cross, log-linearly between points; returns how often. */
static void say_crossings(const struct point *points, size_t len)
{
    size_t crossings = 0;
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < len; i++) {
        double ratio = points[i].sigma[1] / points[i].sigma[0];
        least = fmin(least, ratio);
        most = fmax(most, ratio);
        if (i == 0)
            continue;
        double here = log(ratio), before = log(points[i - 1].sigma[1] / points[i - 1].sigma[0]);
        if ((here > 0) == (before > 0))
            continue;
        double share = before / (before - here);
        printf("#   they cross at epsilon %.3g: above it %s is better\n",
               exp(log(points[i - 1].epsilon) + share * log(points[i].epsilon / points[i - 1].epsilon)),
               eps_accountant_name(ways[here > 0 ? 0 : 1]));
        crossings++;
    }
    if (crossings == 0)
        printf("#   they do not cross: %s is better throughout\n", eps_accountant_name(ways[least > 1 ? 0 : 1]));
    printf("#   conditional_composition over renyi: %.3f to %.3f\n", least, most);
}

/* The truth lies between the two, with probability at least 0.999 where draws give the lower one. */
static double least_of(const struct point *point)
{
    return isnan(point->exact) ? point->drawn : point->exact;
}

static void say_ratios(const struct point *points, size_t len)
{
    double worst[WAYS] = {0}, where[WAYS] = {0};
    for (size_t i = 0; i < len; i++)
        for (size_t way = 0; way < WAYS; way++) {
            double ratio = points[i].sigma[way] / least_of(&points[i]);
            if (ratio > worst[way]) {
                worst[way] = ratio;
                where[way] = points[i].epsilon;
            }
        }
    printf("#   over the truth (%s) at most:", isnan(points->exact) ? "drawn, 99.9%" : "the exact law");
    for (size_t way = 0; way < WAYS; way++)
        printf(" %s %.3f at epsilon %.3g%s", eps_accountant_name(ways[way]), worst[way], where[way],
               way + 1 < WAYS ? "," : "\n");
}

/* No guarantee is below the truth; the draws are below the exact law, and close to it; and auto is no looser than the
 * panel allows. */
static bool is_true(const struct point *point)
{
    double least = least_of(point);
    bool ok = point->drawn <= point->sigma[AUTO] && point->sigma[AUTO] <= point->panel->loosest * least;
    for (size_t way = 0; way < WAYS; way++)
        ok = ok && least <= point->sigma[way];
    if (!isnan(point->exact))
        ok = ok && point->drawn <= point->exact && point->drawn >= NEAR * point->exact;
    if (!ok)
        printf("not ok - %s, epsilon %g: the truth is at least %g (exact law) or %g (draws), the answers %g %g %g\n",
               point->panel->title, point->epsilon, point->exact, point->drawn, point->sigma[0], point->sigma[1],
               point->sigma[AUTO]);
    return ok;
}

/* auto is at most either, up to the search's tolerance; and all fall with epsilon. */
static bool in_order(const struct point *points, size_t i)
{
    const double *sigma = points[i].sigma;
    bool ok = sigma[AUTO] <= fmin(sigma[0], sigma[1]) * 1.002;
    for (size_t way = 0; way < WAYS; way++)
        ok = ok && isfinite(sigma[way]) && (i == 0 || sigma[way] < points[i - 1].sigma[way]);
    if (!ok)
        printf("not ok - %s: the sigmas are not in order\n", points->panel->title);
    return ok;
}

static bool draw(const struct point *points, size_t len)
{
    double epsilon[POINTS_MAX], columns[CURVES][POINTS_MAX];
    struct plot_curve curves[CURVES];
    char file[64], title[128];
    for (size_t i = 0; i < len; i++)
        epsilon[i] = points[i].epsilon;
    for (size_t way = 0; way < WAYS; way++) {
        for (size_t i = 0; i < len; i++)
            columns[way][i] = points[i].sigma[way];
        curves[way] = (struct plot_curve){eps_accountant_name(ways[way]), epsilon, columns[way], len};
    }
    for (size_t i = 0; i < len; i++)
        columns[WAYS][i] = least_of(&points[i]);
    curves[WAYS] = (struct plot_curve){"truth, at least", epsilon, columns[WAYS], len};
    snprintf(file, sizeof file, "allocation_figure_%s", points->panel->name);
    snprintf(title, sizeof title, "Random allocation, figure %s: %s, delta 1e-5", points->panel->name,
             points->panel->title);
    return plot_write(&(struct plot){.file = file,
                                     .title = title,
                                     .x_label = "epsilon",
                                     .y_label = "sigma",
                                     .log_x = true,
                                     .log_y = true,
                                     .curves = curves,
                                     .curves_len = CURVES});
}

static bool say(const struct point *points, size_t len)
{
    double seconds[WAYS] = {0};
    bool ok = true;
    printf(
        "# figure %s: %s\n#   epsilon: sigma by renyi, conditional_composition, auto; the least it may be by draws, by "
        "the exact law; auto over it\n",
        points->panel->name, points->panel->title);
    for (size_t i = 0; i < len; i++) {
        const double *sigma = points[i].sigma;
        printf("#   %7.4f: %8.4f %8.4f %8.4f  %8.4f %8.4f %6.3f\n", points[i].epsilon, sigma[0], sigma[1], sigma[AUTO],
               points[i].drawn, points[i].exact, sigma[AUTO] / least_of(&points[i]));
        for (size_t way = 0; way < WAYS; way++)
            seconds[way] += points[i].seconds[way];
        ok = in_order(points, i) && ok;
        ok = is_true(&points[i]) && ok;
    }
    say_crossings(points, len);
    say_ratios(points, len);
    printf("#   processor time: auto %.0f s, what it does not ask: renyi %.0f s, conditional_composition %.0f s\n",
           seconds[AUTO], seconds[0], seconds[1]);
    return draw(points, len) && ok;
}

int main(int argc, char **argv)
{
    static struct point points[PANELS * POINTS_MAX];
    const char *few = getenv("POINTS");
    size_t each = few ? strtoul(few, NULL, 10) : POINTS_MAX, len = 0;
    bool ok = true;
    if (each < 2 || each > POINTS_MAX)
        return 2;
    for (size_t i = 0; i < PANELS; i++) {
        bool asked = argc < 2;
        for (int j = 1; j < argc; j++)
            asked = asked || strcmp(argv[j], panels[i].name) == 0;
        for (size_t k = 0; asked && k < each; k++)
            points[len++] = (struct point){
                .panel = &panels[i],
                .epsilon = epsilon_first * pow(epsilon_last / epsilon_first, (double)k / (double)(each - 1))};
    }
    solve_all(points, len);
    for (size_t i = 0; i < len; i += each)
        ok = say(points + i, each) && ok;
    return ok ? 0 : 1;
}
