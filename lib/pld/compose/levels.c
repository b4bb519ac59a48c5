/*
 * Compositions in levels. Many steps on a grid that is fine enough for all of them need a long transform for every
 * class of equal steps. Instead, steps are composed into groups on a fine grid, and groups into larger groups on a grid
 * that is coarser in proportion to the deviation of a group's loss; what is left of every class is composed on the
 * coarsest grid. No transform is long, and each level adds about the same variance. A class with few steps begins on a
 * coarser level, where it adds no more variance than the groups do.
 *
 * The steps of all classes that do not fill a group form one unit of their own, the rest. If a loss spreads over less
 * than a spacing, a lower estimate loses up to a quarter of it each time it is composed. So a whole group is moved to
 * the rest, if there is more than one (P21).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/pld/compose/composition_internal.h"

#define UNRESOLVED_SHARE 0.1 /* of the added variance, from classes whose losses lie within a spacing */
#define WIDE 8.0             /* in spacings: spread of the losses of a step that may begin above the first level */

#define STEPS_PER_GROUP 4.0 /* at least: the next level's grid is coarser by a factor of 2 or more */

enum { LEVELS_MAX = 3 };

/* The units of one class: equal compositions of its steps. */
struct step_class {
    size_t start; /* the level on which the class begins */
    struct eps__pld unit;
    uint64_t units, steps; /* number of units, and steps in each */
    /* The next level: groups of `size` units, and what is left of them for the rest. */
    uint64_t size, groups, left;
    struct eps__pld group;
    enum eps_status status;
};

struct levels {
    const struct eps__composition *c;
    const struct eps__saddle *saddle;
    const struct eps__compose_plan *plan;
    enum eps__estimate estimate;
    size_t len, level;          /* number of levels; current level */
    double target;              /* how many units should make one of the next level */
    double spacing;             /* of this level's grid */
    size_t coarser;             /* ratio of the next level's spacing to this one's */
    double groups;              /* number of groups on this level, of all classes, and the rest */
    struct step_class *classes; /* one for each class of the composition */
    struct eps__pld rest, next_rest;
    uint64_t rest_steps; /* 0 if there is no rest */
    bool next;           /* whether the next level has a rest */
    enum eps_status status;
};

/* Whether every step of the classes that have begun is in exactly one unit or in the rest. */
static bool all_counted(const struct levels *levels)
{
    uint64_t all = 0, counted = levels->rest_steps;
    for (size_t k = 0; k < levels->c->steps.len; k++) {
        const struct step_class *class = &levels->classes[k];
        all += class->start <= levels->level ? levels->c->steps.items[k].count : 0;
        counted += class->start <= levels->level ? class->units * class->steps : 0;
    }
    return all == counted;
}

/* A group size of about `target`, at most n, that leaves few of n units over. */
static uint64_t group_size(uint64_t n, double target)
{
    uint64_t root = (uint64_t)fmax(target, 1), best = root < n ? root : n;
    for (uint64_t m = root / 2 + 1; m <= 2 * root && m <= n; m++)
        if (n % m < n % best ||
            (n % m == n % best && fabs((double)m - (double)root) < fabs((double)best - (double)root)))
            best = m;
    return best;
}

/* ------------------------------------------------------------ the choice */

/* Whether nearly all losses spread over more than a spacing. If most of a group's loss lies within a spacing, the grid
 * treats it as an atom between two knots, which makes the lower estimate much worse. */
static bool resolved(const struct eps__composition *c, const struct eps__saddle *saddle, double spacing)
{
    double all = 0, within = 0;
    for (size_t k = 0; k < c->steps.len; k++) {
        struct eps__step *step = &c->steps.items[k];
        double added = eps__added_variance(&(struct eps__steps){step, 1, (double)step->count}, saddle, spacing);
        all += added;
        within += eps__saddle_resolved(step, saddle, spacing) ? 0 : added;
    }
    return within <= UNRESOLVED_SHARE * all;
}

static int by_count(const void *a, const void *b)
{
    const struct eps__step *x = *(const struct eps__step *const *)a, *y = *(const struct eps__step *const *)b;
    return x->count != y->count ? (x->count > y->count) - (x->count < y->count) : (x > y) - (x < y);
}

/* Chooses the levels on which classes begin. The classes with the fewest steps begin as high as possible: together they
 * have no more units there than there are groups, and their losses must spread widely on that level's grid. */
static bool choose_starts(struct levels *levels)
{
    const struct eps__steps *steps = &levels->c->steps;
    struct eps__step **sorted = malloc(steps->len * sizeof *sorted);
    double sum = 0;
    if (!sorted)
        return false;
    for (size_t k = 0; k < steps->len; k++)
        sorted[k] = &steps->items[k];
    qsort(sorted, steps->len, sizeof *sorted, by_count);
    for (size_t k = 0; k < steps->len; k++) {
        size_t l = levels->len - 1;
        sum += (double)sorted[k]->count;
        while (l > 0 && (sum * pow(levels->target, (double)l) > steps->total ||
                         !eps__saddle_resolved(sorted[k], levels->saddle,
                                               WIDE * levels->spacing * pow(levels->target, 0.5 * (double)l))))
            l--;
        levels->classes[sorted[k] - steps->items].start = l;
    }
    free(sorted);
    return true;
}

/* Chooses the groups of every class and the next level's grid. */
static void choose_groups(struct levels *levels)
{
    struct step_class *most = NULL;
    double units = 0;
    bool left = levels->rest_steps > 0;
    levels->groups = 0;
    for (size_t k = 0; k < levels->c->steps.len; k++) {
        struct step_class *class = &levels->classes[k];
        if (class->start > levels->level)
            continue;
        class->size = group_size(class->units, levels->target);
        class->groups = class->units / class->size;
        class->left = class->units % class->size;
        left = left || class->left > 0;
        most = !most || class->groups > most->groups ? class : most;
        units += (double)class->units;
        levels->groups += (double)class->groups;
    }
    levels->next = left;
    levels->coarser = units > 0 ? (size_t)fmax(nearbyint(sqrt(units / levels->groups)), 2) : (size_t)levels->target;
    if (left && most && most->groups > 1) {
        most->groups--;
        most->left += most->size;
    } else if (left) {
        levels->groups++;
    }
}

/* ------------------------------------------------------------ one level */

/* Composes a group; what it loses must still be negligible after all groups are composed. EPS_TOO_COSTLY if no mass is
 * left. */
static enum eps_status compose_group(const struct levels *levels, struct eps__pld *made,
                                     const struct eps__pld_power *powers, size_t len)
{
    struct eps__compose_plan plan = *levels->plan;
    double share = 1 / ((double)(levels->len - 1) * levels->groups);
    plan.tail_mass *= 0.1 * share;
    plan.log_infinity = levels->saddle->log_delta + log(1e-4 * share * levels->c->accuracy.tolerance);
    enum eps_status status = eps__pld_compose(levels->c->context, made, powers, len, levels->coarser, &plan);
    return status == EPS_OK && made->len == 0 ? EPS_TOO_COSTLY : status;
}

static enum eps_status compose_rest(struct levels *levels)
{
    size_t classes = levels->c->steps.len, len = 0;
    struct eps__pld_power *powers = calloc(classes + 1, sizeof *powers);
    if (!powers)
        return EPS_NO_MEMORY;
    for (size_t k = 0; k < classes; k++)
        if (levels->classes[k].left > 0)
            powers[len++] = (struct eps__pld_power){&levels->classes[k].unit, levels->classes[k].left};
    if (levels->rest_steps > 0)
        powers[len++] = (struct eps__pld_power){&levels->rest, 1};
    enum eps_status status = compose_group(levels, &levels->next_rest, powers, len);
    free(powers);
    return status;
}

static void begin_task(void *arg, size_t k)
{
    const struct levels *levels = arg;
    struct step_class *class = &levels->classes[k];
    if (class->start != levels->level)
        return;
    class->status =
        eps__build_step(levels->c, &class->unit, k, levels->estimate, levels->saddle, NULL, levels->spacing);
    class->units = levels->c->steps.items[k].count;
    class->steps = 1;
}

/* The last task composes the rest. */
static void group_task(void *arg, size_t k)
{
    struct levels *levels = arg;
    if (k == levels->c->steps.len) {
        levels->status = levels->next ? compose_rest(levels) : EPS_OK;
    } else if (levels->classes[k].start <= levels->level) {
        struct step_class *class = &levels->classes[k];
        class->status = compose_group(levels, &class->group, &(struct eps__pld_power){&class->unit, class->size}, 1);
    }
}

static enum eps_status for_each(struct levels *levels, size_t len, void (*task)(void *arg, size_t index))
{
    const struct eps_context *context = levels->c->context;
    if (context && context->parallel_for)
        context->parallel_for(context->user, len, task, levels);
    else
        for (size_t k = 0; k < len; k++)
            task(levels, k);
    enum eps_status first = levels->status;
    for (size_t k = 0; k < levels->c->steps.len && first == EPS_OK; k++)
        first = levels->classes[k].status;
    return first;
}

/* Builds the classes that begin on this level. */
static enum eps_status begin(struct levels *levels)
{
    for (size_t k = 0; k < levels->c->steps.len; k++)
        if (levels->classes[k].start == levels->level)
            return for_each(levels, levels->c->steps.len, begin_task);
    return EPS_OK;
}

/* Moves to the next level: groups become units. */
static void climb(struct levels *levels)
{
    for (size_t k = 0; k < levels->c->steps.len; k++) {
        struct step_class *class = &levels->classes[k];
        if (class->start > levels->level)
            continue;
        assert(class->groups * class->size + class->left == class->units);
        levels->rest_steps += class->left * class->steps;
        eps__pld_clear(&class->unit);
        class->unit = class->group;
        class->group = (struct eps__pld){0};
        class->units = class->groups;
        class->steps *= class->size;
        class->left = 0;
    }
    eps__pld_clear(&levels->rest);
    levels->rest = levels->next_rest;
    levels->next_rest = (struct eps__pld){0};
    assert(levels->next == (levels->rest_steps > 0) && all_counted(levels));
    levels->spacing *= (double)levels->coarser;
    levels->level++;
}

static enum eps_status compose_units(const struct levels *levels, struct eps__panel *panel)
{
    size_t classes = levels->c->steps.len, len = 0;
    struct eps__pld_power *powers = calloc(classes + 1, sizeof *powers);
    const struct eps__pld_power rest = {&levels->rest, 1};
    if (!powers)
        return EPS_NO_MEMORY;
    assert(all_counted(levels));
    for (size_t k = 0; k < classes; k++)
        if (levels->classes[k].units > 0)
            powers[len++] = (struct eps__pld_power){&levels->classes[k].unit, levels->classes[k].units};
    if (levels->rest_steps > 0)
        powers[len++] = rest;
    enum eps_status status = eps__compose(levels->c->context, panel, powers, len, levels->plan);
    free(powers);
    return status;
}

/* ------------------------------------------------------------ all levels */

/* The number of steps of which a group of the first of two levels consists, on average. Groups hold steps of one
 * class. */
static double steps_per_group(const struct eps__composition *c)
{
    double target = sqrt(c->steps.total), groups = 0;
    for (size_t k = 0; k < c->steps.len; k++)
        groups += fmax((double)c->steps.items[k].count / target, 1);
    return c->steps.total / groups;
}

size_t eps__levels(const struct eps__composition *c, const struct eps__saddle *saddle, double spacing)
{
    const double two = 64, three = 0x1p20; /* steps from which on two, or three, levels are cheapest */
    if (c->steps.total < two || steps_per_group(c) < STEPS_PER_GROUP || !resolved(c, saddle, spacing))
        return 1;
    return c->steps.total < three ? 2 : LEVELS_MAX;
}

enum eps_status eps__compose_levels(const struct eps__composition *c, struct eps__panel *panel, size_t len,
                                    enum eps__estimate estimate, const struct eps__saddle *saddle, double spacing,
                                    const struct eps__compose_plan *plan)
{
    struct levels levels = {.c = c, .saddle = saddle, .plan = plan, .estimate = estimate, .len = len};
    enum eps_status status = EPS_NO_MEMORY;
    assert(len >= 2 && len <= LEVELS_MAX);
    levels.target = floor(pow(c->steps.total, 1 / (double)len));
    levels.spacing = spacing / sqrt((double)len);
    levels.classes = calloc(c->steps.len, sizeof *levels.classes);
    if (levels.classes && choose_starts(&levels))
        status = begin(&levels);
    while (status == EPS_OK && levels.level + 1 < len) {
        choose_groups(&levels);
        status = for_each(&levels, c->steps.len + 1, group_task);
        if (status != EPS_OK)
            break;
        climb(&levels);
        status = begin(&levels);
    }
    if (status == EPS_OK)
        status = compose_units(&levels, panel);
    for (size_t k = 0; levels.classes && k < c->steps.len; k++) {
        eps__pld_clear(&levels.classes[k].unit);
        eps__pld_clear(&levels.classes[k].group);
    }
    eps__pld_clear(&levels.rest);
    eps__pld_clear(&levels.next_rest);
    free(levels.classes);
    return status;
}
