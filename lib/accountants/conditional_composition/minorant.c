/*
 * The choice of the minorant, that is of the law psi. The candidates are the uniform law and laws that prefer means
 * near mu_i (RA appendix F.4). A fixed-point iteration then improves the best candidate.
 *
 * For a tail of x standard deviations, the best law is the posterior of the bins at the point y that lies x away from
 * the centre in the direction in which the minorant falls: the highest affine minorant there is the tangent of the
 * convex ln sum exp. So each iteration moves the law towards that posterior, which moves the point, as long as the
 * quantile rises. The search needs no proof: every law gives a bound, as the choice does not depend on y.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/conditional_composition/minorant.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/normal.h"

enum {
    CLIMBS = 8,       /* the most iterations that improve the law */
    QUICK_CLIMBS = 3, /* the same for quick searches */
    STEPS_MAX = 60    /* the most Newton steps for a quantile */
};

#define TINY 1e-290 /* an upper bound on what a sum here loses to underflow */
#define FAR 16.0    /* gaps above this number of standard deviations are negligible */

/* The candidates weigh bin j by e^(-|mu_j - mu_i|^2/temperature). */
static const double temperatures[] = {0.1, 0.31622776601683794, 1, 3.1622776601683795, 10};
enum { TEMPERATURES = sizeof temperatures / sizeof *temperatures };

/* A law psi on the bins of J, and the affine minorant that it gives. */
struct law {
    double *psi;   /* by bin; 0 outside of J */
    double *along; /* by bin k: sum_j psi_j <mu_j, mu_k> */
    double *mean;  /* by bin k: the mean of the minorant for y ~ N(mu_k, I); add: only [0], for y ~ N(0, I) */
    double deviation, widened, error; /* the deviation, its error, and the error of the means */
    double quantile, x;               /* the approximate bound, x standard deviations below the least mean */
    size_t worst;                     /* the bin with the least mean */
};

struct eps__cc_room {
    size_t bins;
    double *numbers;
    uint32_t *others; /* J */
    size_t others_len;
    struct law best, tried;
    double *log_psi, *sorted;
};

struct eps__cc_room *eps__cc_room_create(size_t bins)
{
    struct eps__cc_room *room = calloc(1, sizeof *room);
    if (!room)
        return NULL;
    room->bins = bins;
    room->numbers = calloc(8 * bins, sizeof *room->numbers);
    room->others = malloc(bins * sizeof *room->others);
    if (!room->numbers || !room->others) {
        eps__cc_room_destroy(room);
        return NULL;
    }
    double *next = room->numbers;
    for (struct law *law = &room->best;; law = &room->tried) {
        law->psi = next;
        law->along = next + bins;
        law->mean = next + 2 * bins;
        next += 3 * bins;
        if (law == &room->tried)
            break;
    }
    room->log_psi = next;
    room->sorted = next + bins;
    return room;
}

void eps__cc_room_destroy(struct eps__cc_room *room)
{
    if (!room)
        return;
    free(room->numbers);
    free(room->others);
    free(room);
}

void eps__cc_minorant_clear(struct eps__cc_minorant *minorant)
{
    free(minorant->gap);
    free(minorant->weight);
    *minorant = (struct eps__cc_minorant){0};
}

/* ------------------------------------------------------------ approximate quantiles */

/* Sampford's upper bound on Mills' ratio; its relative error is below 0.01 for x >= 1. */
static double mills_above(double x)
{
    return 4 / (3 * x + sqrt(x * x + 8));
}

/* Approximates the x >= 0 with (1/len) sum_k Pr[Z > x + (mean[k] - least)/deviation] = e^log_beta, by Newton steps from
 * a given x. */
static double rough_quantile(const double *mean, size_t len, double least, double deviation, double log_beta, double x)
{
    double rate = 1 / deviation;
    for (int i = 0; i < 8; i++) {
        double tail = 0, slope = 0;
        for (size_t k = 0; k < len; k++) {
            double gap = (mean[k] - least) * rate;
            if (gap > FAR)
                continue;
            double density = exp(-gap * (x + 0.5 * gap));
            tail += density * mills_above(x + gap);
            slope += density;
        }
        double excess = log(tail / (double)len) - 0.5 * x * x - EPS__LOG_SQRT_2PI - log_beta,
               step = excess * tail / slope;
        x = fmax(x + step, 0);
        if (fabs(step) < 1e-3)
            break;
    }
    return x;
}

/* ------------------------------------------------------------ one law */

/* The bin for which a minorant is sought, and the failure probability. */
struct query {
    const struct eps__cc_walk *walk;
    size_t bin;
    enum eps_direction direction;
    double log_beta;
    double x; /* a starting point: the quantile if all probability of failure came from the least mean */
};

static double square_of(const struct query *q, size_t bin)
{
    return q->walk->gram[bin * q->walk->steps->bins + bin];
}

static double product_of(const struct query *q, size_t a, size_t b)
{
    return q->walk->gram[a * q->walk->steps->bins + b];
}

/* Computes the law and its minorant (A9) from room->log_psi of the bins of J, which is defined up to a constant. */
static void evaluate(const struct query *q, struct eps__cc_room *room, struct law *law)
{
    size_t bins = room->bins, len = room->others_len, i = q->bin;
    double most = -INFINITY, sum = 0, divergence = 0, size = 0, square = 0, both = 0;
    for (size_t a = 0; a < len; a++)
        most = fmax(most, room->log_psi[room->others[a]]);
    memset(law->psi, 0, bins * sizeof *law->psi);
    memset(law->along, 0, bins * sizeof *law->along);
    for (size_t a = 0; a < len; a++)
        sum += law->psi[room->others[a]] = exp(room->log_psi[room->others[a]] - most);
    for (size_t a = 0; a < len; a++) {
        size_t j = room->others[a];
        double psi = law->psi[j] /= sum;
        if (!(psi > 1e-30)) { /* negligible */
            law->psi[j] = 0;
            continue;
        }
        divergence += psi * log(psi * (double)len);
        size += psi * fabs(log(psi * (double)len));
        square += psi * square_of(q, j);
        const uint32_t *near = q->walk->near + j * bins;
        const double *product = q->walk->gram + j * bins;
        size_t near_len = q->walk->near_len[j];
        for (size_t k = 0; 2 * near_len > bins && k < bins; k++)
            law->along[k] += psi * product[k];
        for (size_t b = 0; 2 * near_len <= bins && b < near_len; b++)
            law->along[near[b]] += psi * product[near[b]];
    }
    for (size_t a = 0; a < len; a++)
        both += law->psi[room->others[a]] * law->along[room->others[a]];
    /* The sum of psi is 1 up to `bins` roundings; a Gram entry is a sum over rows; each sum here is one over bins
     * (A11). */
    double units = 2 * ((double)q->walk->steps->len + 4 * (double)bins + 40) * EPS__UNIT_ROUNDOFF, widest = 0;
    double own = square_of(q, i), spread = own - 2 * law->along[i] + both;
    double spread_error = units * (own + 2 * law->along[i] + both) + TINY;
    law->deviation = eps__raise(sqrt(fmax(spread, 0) + spread_error), 4);
    law->widened = 2 * spread_error / law->deviation;
    law->worst = 0;
    size_t centres = q->direction == EPS_REMOVE ? bins : 1;
    for (size_t k = 0; k < centres; k++) {
        double towards = q->direction == EPS_REMOVE ? law->along[k] : 0;
        double away = q->direction == EPS_REMOVE ? product_of(q, k, i) : 0;
        law->mean[k] = towards - away + 0.5 * (own - square) - divergence;
        widest = fmax(widest, towards + away);
        if (law->mean[k] < law->mean[law->worst])
            law->worst = k;
    }
    law->error = units * (widest + own + square + size + 1) + TINY;
    law->x = rough_quantile(law->mean, centres, law->mean[law->worst], law->deviation, q->log_beta, q->x);
    law->quantile = law->mean[law->worst] - law->x * law->deviation;
}

static void keep_better(struct eps__cc_room *room)
{
    if (!(room->tried.quantile > room->best.quantile))
        return;
    struct law better = room->tried;
    room->tried = room->best;
    room->best = better;
}

/* ------------------------------------------------------------ the candidates and their improvement */

static void try_family(const struct query *q, struct eps__cc_room *room, bool quick)
{
    size_t i = q->bin;
    for (size_t a = 0; a < room->others_len; a++)
        room->log_psi[room->others[a]] = 0;
    evaluate(q, room, &room->best);
    for (size_t t = 0; t < TEMPERATURES; t++) {
        if (quick && t != 2)
            continue;
        for (size_t a = 0; a < room->others_len; a++) {
            size_t j = room->others[a];
            double distance = square_of(q, i) - 2 * product_of(q, i, j) + square_of(q, j);
            room->log_psi[j] = -distance / temperatures[t];
        }
        evaluate(q, room, &room->tried);
        keep_better(room);
    }
}

static void climb(const struct query *q, struct eps__cc_room *room, int climbs)
{
    double share = 0.6;
    for (int c = 0; c < climbs && share > 0.02; c++) {
        const struct law *law = &room->best;
        double before = law->quantile;
        for (size_t a = 0; a < room->others_len; a++) {
            size_t j = room->others[a];
            double at = q->direction == EPS_REMOVE ? product_of(q, law->worst, j) : 0;
            double target =
                at - 0.5 * square_of(q, j) - law->x / law->deviation * (law->along[j] - product_of(q, q->bin, j));
            room->log_psi[j] = (1 - share) * log(fmax(law->psi[j], 1e-30)) + share * target;
        }
        evaluate(q, room, &room->tried);
        keep_better(room);
        if (!(room->best.quantile > before))
            share *= 0.4;
        else if (room->best.quantile - before < 1e-4)
            break;
    }
}

/* ------------------------------------------------------------ the tail */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the means into gaps and weights. Means that are close are moved down to the least of them, which changes the
 * bound little. */
static bool gather(struct eps__cc_minorant *minorant, const struct law *law, double *sorted, size_t len, bool quick)
{
    memcpy(sorted, law->mean, len * sizeof *sorted);
    qsort(sorted, len, sizeof *sorted, by_value);
    minorant->gap = malloc(len * sizeof *minorant->gap);
    minorant->weight = malloc(len * sizeof *minorant->weight);
    if (!minorant->gap || !minorant->weight)
        return false;
    minorant->deviation = law->deviation;
    minorant->widened = law->widened;
    minorant->least = eps__shift(EPS__LOWER, sorted[0], law->error);
    minorant->error = 2 * law->error + 8 * EPS__UNIT_ROUNDOFF * fabs(sorted[0]);
    minorant->len = 0;
    double at = 0, near = quick ? 0.05 : 0.005, step = quick ? 0.25 : 0.05;
    for (size_t k = 0; k < len; k++) {
        /* All means have the same error, and `least` has been lowered by it. */
        double apart = sorted[k] - sorted[0];
        double gap = fmax(apart - 4 * EPS__UNIT_ROUNDOFF * (fabs(sorted[k]) + fabs(sorted[0])), 0) / law->deviation;
        gap = k ? eps__lower(gap, 4) : 0;
        if (minorant->len && (gap - at <= near + step * at || at > FAR)) {
            minorant->weight[minorant->len - 1] += 1;
            continue;
        }
        at = minorant->gap[minorant->len] = gap;
        minorant->weight[minorant->len++] = 1;
    }
    for (size_t k = 0; k < minorant->len; k++)
        minorant->weight[k] /= (double)len;
    return true;
}

bool eps__cc_minorant_find(struct eps__cc_minorant *minorant, const struct eps__cc_walk *walk, size_t at,
                           enum eps_direction direction, double log_beta, bool quick, struct eps__cc_room *room)
{
    struct query q = {walk, walk->order[at], direction, log_beta, 0};
    uint64_t mean_class = walk->mean_class[q.bin];
    *minorant = (struct eps__cc_minorant){0};
    room->others_len = 0;
    for (size_t k = 0; k < at; k++)
        if (walk->mean_class[walk->order[k]] != mean_class)
            room->others[room->others_len++] = walk->order[k];
    minorant->others = (double)room->others_len;
    minorant->equal = (double)(at - room->others_len);
    assert(minorant->equal == (double)eps__cc_walk_equal(walk, at));
    if (room->others_len == 0)
        return true; /* the odds are exact, and no bad event is needed */
    double centres = direction == EPS_REMOVE ? (double)room->bins : 1;
    q.x = fmax(eps__normal_tail_quantile(fmin(log_beta + log(centres), -0.7)), 0);
    try_family(&q, room, quick);
    climb(&q, room, quick ? QUICK_CLIMBS : CLIMBS);
    return gather(minorant, &room->best, room->sorted, direction == EPS_REMOVE ? room->bins : 1, quick);
}

/* ln of the tail at x divided by e^log_beta, rounded up. *slope is approximately minus its derivative. */
static double log_tail_above(const struct eps__cc_minorant *m, double x, double log_beta, double *slope)
{
    double sum = 0, density = 0, first = 0;
    for (size_t k = 0; k < m->len; k++) {
        double gap = m->gap[k], at = x + gap;
        if (k > 0 && gap * (x + 0.5 * gap) > 62) { /* Pr[Z > x + gap] <= Pr[Z > x] e^{-gap (x + gap/2)} */
            sum += m->weight[k] * first * 1e-26;
            continue;
        }
        double log_tail = eps__log_normal_tail(at);
        double tail = exp(eps__shift(EPS__UPPER, log_tail, EPS__LOG_TAIL_ERROR(at)) - log_beta);
        first = k ? first : tail;
        sum += m->weight[k] * tail;
        density += m->weight[k] * tail * at;
    }
    *slope = density / sum + 1 / (1 + x);
    return eps__log_bound(EPS__UPPER, sum, 4 * (double)m->len + 16 + 4 * fabs(log_beta));
}

/* Approximates eps__cc_quantile(). */
static double quantile_about(const struct eps__cc_minorant *m, double log_beta)
{
    double x = eps__normal_tail_quantile(fmin(log_beta - log(m->weight[0]), -0.7));
    for (int i = 0; i < 8; i++) {
        double tail = 0, slope = 0;
        for (size_t k = 0; k < m->len && m->gap[k] * (x + 0.5 * m->gap[k]) <= 62; k++) {
            double density = m->weight[k] * exp(-m->gap[k] * (x + 0.5 * m->gap[k]));
            tail += density * mills_above(x + m->gap[k]);
            slope += density;
        }
        double step = (log(tail) - 0.5 * x * x - EPS__LOG_SQRT_2PI - log_beta) * tail / slope;
        x = fmax(x + step, 0);
        if (fabs(step) < 1e-6)
            break;
    }
    return x;
}

double eps__cc_quantile(const struct eps__cc_minorant *minorant, double log_beta)
{
    double x = quantile_about(minorant, log_beta), slope;
    for (int i = 0; i < STEPS_MAX; i++) {
        double excess = log_tail_above(minorant, x, log_beta, &slope);
        if (excess <= 0 && (excess > -1e-7 || x == 0 || i > STEPS_MAX / 2))
            return x;
        /* A Newton step towards the root, and slightly beyond it. */
        x = fmax(x + (excess + 1e-9) / slope, 0);
    }
    return INFINITY;
}

void eps__cc_minorant_odds(const struct eps__cc_minorant *minorant, double log_beta, double log_odds[2])
{
    if (minorant->others == 0) { /* all means are equal: the odds are exactly 1/e */
        log_odds[EPS__UPPER] = log_odds[EPS__LOWER] = -log(minorant->equal);
        log_odds[EPS__UPPER] = eps__shift(EPS__UPPER, log_odds[EPS__UPPER], 4 * EPS__UNIT_ROUNDOFF * fabs(log_odds[0]));
        log_odds[EPS__LOWER] = eps__shift(EPS__LOWER, log_odds[EPS__LOWER], 4 * EPS__UNIT_ROUNDOFF * fabs(log_odds[1]));
        return;
    }
    double x = eps__cc_quantile(minorant, log_beta), fall = x * minorant->deviation, rest = log(minorant->others);
    double size = fabs(minorant->least) + fall + rest + 1;
    /* The rounding of the means, the deviation and the quantile, which the lower estimate undoes. */
    double slack = 4 * (minorant->error + x * minorant->widened) + 1e-9 * size;
    double tau = eps__shift(EPS__LOWER, minorant->least - fall + rest, 8 * EPS__UNIT_ROUNDOFF * size);
    for (int estimate = 0; estimate < 2; estimate++) {
        double own = estimate == EPS__UPPER ? tau : tau + slack;
        double against = minorant->equal > 0 ? eps__log_add(log(minorant->equal), own) : own;
        log_odds[estimate] = -against;
        if (isfinite(against))
            log_odds[estimate] = eps__shift((enum eps__estimate)estimate, -against,
                                            32 * EPS__UNIT_ROUNDOFF * (1 + fabs(against) + fabs(own)));
    }
    /* If no quantile was found, x is infinite and the bounds are trivial. */
    if (isnan(log_odds[EPS__UPPER]))
        log_odds[EPS__UPPER] = INFINITY;
    if (isnan(log_odds[EPS__LOWER]))
        log_odds[EPS__LOWER] = -INFINITY;
}
