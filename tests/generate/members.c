/*
 * The ranges stand here once more, as api/openapi.yaml states them, and not as lib/base/check.c does: one is held
 * against the other.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/generate/members.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/codec/fields.h"
#include "tests/unit/draw.h"

#define UNDER_1 0x1.fffffffffffffp-1
#define DENORMAL 0x1p-1074
#define COUNTS 0x1p53 /* the wire's integers end here; the library's do not */

/* What is computed of a member, by its name and type. text: what a refusal says, for reals. */
static const struct range {
    const char *name;
    enum eps__member_type type;
    double least, most;
    const char *text;
    double usual;     /* up to here the member, where it is absent, is often drawn; 0: seldom */
    double low, high; /* of ordinary jobs; 0: that of all */
} ranges[] = {
    {"p", EPS__REAL, 1e-20, 1, "[1e-20, 1]", 0, 0, 0},
    {"epsilon", EPS__REAL, 0, 1e4, "[0, 10000]", 0, 0, 0},
    {"delta", EPS__REAL, 1e-300, UNDER_1, "[1e-300, 1)", 0, 0, 0},
    {"noise_multiplier", EPS__REAL, 1e-9, 1e9, "[1e-9, 1e9]", 0, 0, 0},
    {"noise_scale", EPS__REAL, 1e-6, 1e6, "[1e-6, 1e6]", 0, 0.1, 10},
    {"gap", EPS__REAL, 1e-12, UNDER_1, "[1e-12, 1)", 0, 1e-4, 0.1},
    {"tolerance", EPS__REAL, 1e-9, 0.1, "[1e-9, 0.1]", 0, 1e-5, 0.1},
    {"bad_event_share", EPS__SHARE, 1e-12, UNDER_1, "[1e-12, 1)", 0.5, 1e-3, 0.99},
    {"threshold_share", EPS__REAL, 1e-6, UNDER_1, "[1e-6, 1)", 0, 0.01, 0.99},
    {"max_seconds", EPS__REAL, 1e-3, 1e9, "[1e-3, 1e9]", 1e3, 1, 100},
    {"epochs", EPS__REAL, DENORMAL, DBL_MAX, "", 100, 0, 0},
    {"momentum", EPS__REAL, 0, UNDER_1, "[0, 1)", 0, 0.01, 0.95},
    {"decay", EPS__REAL, DENORMAL, 1, "(0, 1]", 0, 0.7, 1},
    {"from", EPS__REAL, 0, 1, "[0, 1]", 0, 0.01, 1},
    {"to", EPS__REAL, 0, 1, "[0, 1]", 0, 0.01, 1},
    {"coefficients", EPS__NUMBERS, -1e100, 1e100, "[-1e100, 1e100]", 0, 0, 0},
    {"scale", EPS__NUMBERS, -1e100, 1e100, "[-1e100, 1e100]", 0, 0, 0},
    {"decay", EPS__NUMBERS, DENORMAL, UNDER_1, "(0, 1)", 0, 0, 0},
    {"rows", EPS__ROWS, -1e100, 1e100, "[-1e100, 1e100]", 0, 0, 0},
    {"n", EPS__INTEGER, 1, 0x1p24, NULL, 0, 0, 0},
    {"stamps", EPS__INTEGER, 1, 0x1p24, NULL, 0, 0, 0},
    {"bands", EPS__INTEGER, 1, 0x1p24, NULL, 0, 0, 0},
    {"buffers", EPS__INTEGER, 1, 16, NULL, 0, 0, 0},
    {"epochs", EPS__INTEGER, 1, 0x1p24, NULL, 0, 0, 0},
    {"separation", EPS__INTEGER, 1, 0x1p24, NULL, 0, 0, 0},
    {"bins", EPS__INTEGER, 1, 0x1p24, NULL, 0, 0, 0},
    {"batch_size", EPS__INTEGER, 1, COUNTS, NULL, 0, 0, 0},
    {"dataset_size", EPS__INTEGER, 1, COUNTS, NULL, 0, 0, 0},
    {"groups", EPS__INTEGER, 1, COUNTS, NULL, 0, 0, 0},
    {"max_batch_size", EPS__INTEGER, 1, COUNTS, NULL, 0, 0, 0},
    {"examples_per_user", EPS__INTEGER, 1, COUNTS, NULL, 0, 0, 0},
    {"max_order", EPS__INTEGER, 2, 1e6, NULL, 64, 0, 0},
    {"bandwidth", EPS__INTEGER, 1, COUNTS, NULL, 16, 0, 0},
    {"samples", EPS__INTEGER, 1, 0x1p40, NULL, 4096, 0, 0},
    {"seed", EPS__INTEGER, 0, COUNTS, NULL, COUNTS, 0, 0},
    {"audit", EPS__INTEGER, 1, 0x1p40, NULL, 4096, 0, 0},
    {"count", EPS__INTEGER, 1, COUNTS, NULL, 0, 0, 0},
};

static bool is_number(const struct eps__member *field)
{
    return field->type == EPS__REAL || field->type == EPS__SHARE || field->type == EPS__INTEGER ||
           field->type == EPS__NUMBERS || field->type == EPS__ROWS;
}

/* NULL: there is no such number, which is the case that members_missed() is for. */
static const struct range *range_of(const struct eps__member *field)
{
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (ranges[i].type == field->type && strcmp(ranges[i].name, field->name) == 0)
            return &ranges[i];
    return NULL;
}

static bool contains(const struct range *range, double value)
{
    return value >= range->least && value <= range->most;
}

/* ------------------------------------------------------------ every member of a job */

/* base: the struct that the field's places are in. */
typedef void visit_fn(void *user, const struct eps__member *field, void *base, const char *pointer);

static void walk(const struct eps__object *object, void *base, const char *pointer, visit_fn *visit, void *user)
{
    unsigned variant = object->has_variants ? api__variant(object, base, NULL) : 0;
    for (size_t i = 0; i < object->len; i++) {
        const struct eps__member *field = &object->members[i];
        char path[96];
        if (!api__has(object, field, 1u << variant))
            continue;
        snprintf(path, sizeof path, "%s/%s", pointer, field->name);
        visit(user, field, base, path);
        if (field->type == EPS__GROUP && *(bool *)api__at(base, field->offset)) {
            walk(field->object, base, path, visit, user);
        } else if (field->type == EPS__OBJECT || field->type == API_ACCOUNTANT) {
            walk(field->object, api__at(base, field->offset), path, visit, user);
        } else if (field->type == API_PHASES) {
            struct eps_phase *phases;
            size_t len;
            memcpy(&phases, api__at(base, field->offset), sizeof phases);
            memcpy(&len, api__at(base, field->len_offset), sizeof len);
            for (size_t k = 0; k < len; k++) {
                char each[120];
                snprintf(each, sizeof each, "%s/%zu", path, k);
                walk(field->object, &phases[k], each, visit, user);
            }
        }
    }
}

static size_t length_of(const struct eps__member *field, const void *base)
{
    size_t len;
    memcpy(&len, api__at_const(base, field->len_offset), sizeof len);
    return field->type == EPS__ROWS ? len * len : len;
}

/* ------------------------------------------------------------ drawing */

enum { KNOWN_MAX = 128 };
/* Which fields were drawn: for members_missed(). */
static struct known {
    const struct eps__member *field;
    bool in, out;
} known[KNOWN_MAX];
static size_t known_len;

static struct known *know(const struct eps__member *field)
{
    size_t i = 0;
    while (i < known_len && known[i].field != field)
        i++;
    assert(i < KNOWN_MAX);
    known_len += i == known_len;
    known[i].field = field;
    return &known[i];
}

static void note(const struct eps__member *field, const struct range *range, double value)
{
    struct known *of = know(field);
    *(contains(range, value) ? &of->in : &of->out) = true;
}

struct pass {
    const struct drawing *how;
    uint64_t *state;
};

static bool chance(uint64_t *state, double p)
{
    return draw_unit(state) < p;
}

/* Every finite double that is not 0, evenly by its binary order of magnitude. */
static double anywhere(uint64_t *state)
{
    double size = ldexp(1 + draw_unit(state), (int)draw_below(state, 2098) - 1074);
    const double others[] = {0, -0.0, DENORMAL, DBL_MIN, DBL_MAX, -DBL_MAX, INFINITY, -INFINITY, NAN};
    return chance(state, 0.04)   ? others[draw_below(state, sizeof others / sizeof *others)]
           : chance(state, 0.15) ? -size
                                 : size;
}

static double within(uint64_t *state, const struct range *range)
{
    double low = range->least > 0 ? range->least : DENORMAL;
    double drawn = exp2(log2(low) + (log2(range->most) - log2(low)) * draw_unit(state));
    if (range->most < 2 && chance(state, 0.2))
        drawn = 1 - ldexp(1 + draw_unit(state), -(int)draw_below(state, 54) - 1);
    return fmin(fmax(drawn, low), range->most);
}

static double at_end(uint64_t *state, const struct range *range)
{
    double end = chance(state, 0.5) ? range->least : range->most;
    uint64_t which = draw_below(state, 6);
    return which < 3 ? end : nextafter(end, which == 3 ? -INFINITY : which == 4 ? INFINITY : 0.5);
}

static double usual(const struct pass *pass, const struct range *range)
{
    if (pass->how->ordinary && range->high > 0)
        return draw_log(pass->state, range->low, range->high);
    return range->usual > 0 ? draw_log(pass->state, fmax(range->least, 1e-3), range->usual)
                            : within(pass->state, range);
}

/* Whether there is a new number; share: of all chances. */
static bool draw_real(const struct pass *pass, const struct range *range, double share, double share_anywhere,
                      double *value)
{
    const struct drawing *how = pass->how;
    double which = draw_unit(pass->state);
    if ((which -= share_anywhere * how->anywhere) < 0)
        *value = anywhere(pass->state);
    else if ((which -= share * how->at_end) < 0)
        *value = at_end(pass->state, range);
    else if ((which -= share * how->within) < 0)
        *value = how->ordinary ? usual(pass, range) : within(pass->state, range);
    return which < 0;
}

static void draw_alone(const struct pass *pass, const struct eps__member *field, const struct range *range,
                       double *value)
{
    double drawn = *value;
    bool absent = isnan(drawn);
    double often = field->required ? 1 : range->usual > 0 ? pass->how->absent : 0.01 * pass->how->coupled;
    if (absent && !chance(pass->state, often))
        return;
    if (absent)
        drawn = usual(pass, range);
    if (draw_real(pass, range, 1, 1, &drawn) || absent) {
        *value = drawn;
        note(field, range, drawn);
    }
}

/* Zeros stay, and signs: they are what the matrix is. */
static void draw_list(const struct pass *pass, const struct eps__member *field, const struct range *range,
                      double *values, size_t len)
{
    double few = 2.0 / (double)(len + 1), share = chance(pass->state, 0.5) ? 1 : few;
    double share_anywhere = share * (chance(pass->state, 0.5) ? 1 : few);
    for (size_t i = 0; i < len && !pass->how->ordinary; i++) {
        double old = values[i];
        if (old == 0 || !draw_real(pass, range, share, share_anywhere, &values[i]))
            continue;
        if (range->least < 0)
            values[i] = copysign(values[i], old);
        note(field, range, values[i]);
    }
}

static uint64_t any_integer(uint64_t *state)
{
    const uint64_t others[] = {
        0,          (uint64_t)1 << 53, ((uint64_t)1 << 53) + 1, (uint64_t)1 << 63,      UINT64_MAX - 1,
        UINT32_MAX, (uint64_t)1 << 32, (uint64_t)1 << 24,       ((uint64_t)1 << 24) + 1};
    uint64_t size = UINT64_MAX >> draw_below(state, 64);
    return chance(state, 0.2) ? others[draw_below(state, sizeof others / sizeof *others)]
                              : size - draw_below(state, size / 2 + 1);
}

/* Most stay as they were drawn: they have to fit to each other. n grows seldom, for it takes time. */
static void draw_integer(const struct pass *pass, const struct eps__member *field, const struct range *range,
                         void *place)
{
    const struct drawing *how = pass->how;
    uint64_t *state = pass->state, value = 0;
    bool steps = strcmp(field->name, "n") == 0;
    double rare = how->coupled * (steps ? 0.05 : 0.3);
    memcpy(&value, place, field->size);
    if (field->largest && value == EPS_LARGEST)
        return;
    bool absent = field->absent == -1 ? value == UINT64_MAX : value == 0;
    if (absent && !chance(state, range->usual > 0 ? how->absent : 0.005 * how->coupled))
        return;
    if (absent && range->usual > 0 && chance(state, 0.8))
        value = (uint64_t)draw_log(state, fmax(range->least, 1), range->usual);
    else if (chance(state, rare * how->anywhere))
        value = any_integer(state);
    else if (chance(state, rare * how->at_end))
        value = (uint64_t)(chance(state, 0.5) ? range->least : range->most) + draw_below(state, 3) - 1;
    else if (chance(state, rare * how->within * (steps ? 0.2 : 1)))
        value = (uint64_t)draw_log(state, fmax(range->least, 1), steps ? 0x1p18 : range->most);
    else
        return;
    memcpy(place, &value, field->size);
    value = 0;
    memcpy(&value, place, field->size);
    note(field, range, (double)value);
}

static void draw_name(const struct pass *pass, const struct eps__member *field, void *place)
{
    unsigned named;
    if (field->required || !chance(pass->state, pass->how->names))
        return;
    do
        named = (unsigned)draw_below(pass->state, 32);
    while (!(field->allowed >> named & 1));
    memcpy(place, &named, sizeof named);
}

static void draw_visit(void *user, const struct eps__member *field, void *base, const char *pointer)
{
    const struct pass *pass = user;
    const struct range *range = is_number(field) ? range_of(field) : NULL;
    void *place = api__at(base, field->offset);
    (void)pointer;
    if (field->type == EPS__NAME) {
        draw_name(pass, field, place);
    } else if (field->type == EPS__BOOL) {
        if (chance(pass->state, pass->how->flags))
            *(bool *)place = draw_below(pass->state, 2);
    } else if (range && (field->type == EPS__REAL || field->type == EPS__SHARE)) {
        double before = *(double *)place;
        draw_alone(pass, field, range, place);
        if (field->given && *(double *)place != before) {
            uint32_t *given = api__at(base, field->given_offset);
            *given |= field->given;
        }
    } else if (range && field->type == EPS__INTEGER) {
        draw_integer(pass, field, range, place);
    } else if (range) {
        double *values;
        memcpy(&values, place, sizeof values);
        draw_list(pass, field, range, values, values ? length_of(field, base) : 0);
    }
}

void members_draw(const struct eps__object *object, void *base, const struct drawing *drawing, uint64_t *state)
{
    struct pass pass = {drawing, state};
    walk(object, base, "", draw_visit, &pass);
}

/* ------------------------------------------------------------ judging */

struct judging {
    const struct violations *violations;
    const char *wrong;
};

/* A violation at the pointer, or under it, that names the range; of a list, or that its length is wrong. */
static bool is_told(const struct violations *violations, const char *pointer, const char *text, bool list)
{
    for (size_t i = 0; i < violations->len && i < 64; i++)
        if (strncmp(violations->pointer[i], pointer, strlen(pointer)) == 0 &&
            (strstr(violations->message[i], text) || (list && strcmp(violations->pointer[i], pointer) == 0)))
            return true;
    return violations->len > 64;
}

static void judge_visit(void *user, const struct eps__member *field, void *base, const char *pointer)
{
    struct judging *judging = user;
    const struct range *range = is_number(field) ? range_of(field) : NULL;
    bool out = false, list = field->type == EPS__NUMBERS || field->type == EPS__ROWS;
    if (!range || !range->text)
        return;
    if (list) {
        const double *values;
        memcpy(&values, api__at(base, field->offset), sizeof values);
        for (size_t i = 0; values && i < length_of(field, base); i++)
            out = out || !contains(range, values[i]);
    } else {
        double value = *(const double *)api__at(base, field->offset);
        out = !isnan(value) && !contains(range, value);
    }
    if (out && !is_told(judging->violations, pointer, range->text, list))
        judging->wrong = "a number out of its range, and no violation that names the range";
}

const char *members_judge(const struct eps_job *job, const struct violations *violations)
{
    struct judging judging = {violations, NULL};
    struct eps_job walked = *job; /* which is only read */
    walk(&api__job_object, &walked, "", judge_visit, &judging);
    return judging.wrong;
}

/* ------------------------------------------------------------ what was missed */

static size_t missed_of(const struct eps__object *object, void (*tell)(const char *name))
{
    size_t missed = 0;
    for (size_t i = 0; i < object->len; i++) {
        const struct eps__member *field = &object->members[i];
        if (!api__has(object, field, EPS__ALL)) /* a group is the rows of the object that holds it */
            continue;
        if (is_number(field)) {
            const struct known *of = know(field);
            /* a share may be "auto", and 0 stands for every integer that is absent */
            bool both = of->in && (of->out || field->type == EPS__INTEGER);
            missed += !both;
            if (!both)
                tell(field->name);
        } else if (field->object) {
            missed += missed_of(field->object, tell);
        }
    }
    return missed;
}

size_t members_missed(void (*tell)(const char *name))
{
    return missed_of(&api__job_object, tell);
}
