/*
 * See tilts.h. The bound holds for every tilt, so neighbouring epsilons share one tilt.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/renyi/tilts.h"

#include <math.h>

#include "lib/base/error.h"
#include "lib/numerics/normal.h"

#define RATIO 1.25 /* of successive tilts */
#define MOST 1e9
/* The tilt moves the loss to epsilon, less this share of the m of A19. Found by trial; any share gives a bound. */
#define SHARE_REMOVE 1.8
#define SHARE_ADD 0.7
/* ln of the level at which the bound is least, in m less s^2/2. Found by trial. */
#define LEVEL_REMOVE 0.38
#define LEVEL_ADD (-0.14)

/* The index of the geometric mean with the least bound on delta_add(eps). */
static size_t best_geometric(const struct eps__renyi_law *law, double eps)
{
    size_t best = 0;
    double least = INFINITY;
    for (size_t i = 0; i < law->geometrics_len; i++) {
        double value = eps__geometric_log_delta(&law->geometrics[i], EPS__UPPER, eps);
        if (value < least) {
            least = value;
            best = i;
        }
    }
    return best;
}

/* The size of the tilt that makes losses near eps frequent; for remove it is at least RATIO. */
static double tilt_of(const struct eps__geometric *geometric, enum eps_direction direction, double eps)
{
    double square = geometric->total.upper, m = geometric->trace.upper / 2;
    if (direction == EPS_REMOVE)
        return fmax((eps - SHARE_REMOVE * m) / square + 0.5, RATIO);
    return (eps - SHARE_ADD * m) / square;
}

static bool knows(const struct eps__residual_law *law)
{
    return law->laws.len > 0 && law->laws.items[0].len >= 2;
}

static enum eps_status make(struct eps__tilt *tilt, struct eps__tilts *tilts, const struct eps__renyi_law *law,
                            const struct eps_context *context, enum eps_direction direction)
{
    struct eps__residual_law tilted = {0};
    double t = pow(RATIO, tilt->power);
    enum eps_status status = EPS_OK;
    if (direction == EPS_REMOVE && !tilts->plain_known)
        status = law->class->know_residual(law, tilt->index, 0, &tilts->plain);
    tilts->plain_known |= status == EPS_OK;
    if (status == EPS_OK)
        status = law->class->know_residual(law, tilt->index, direction == EPS_REMOVE ? t : -t, &tilted);
    tilt->known = status == EPS_OK && knows(&tilted) && (direction == EPS_ADD || knows(&tilts->plain));
    if (tilt->known)
        status = eps__residual_make(context, &tilt->residual, direction, &tilted, &tilts->plain);
    eps__laws_clear(&tilted.laws);
    tilt->made = status == EPS_OK;
    return status;
}

enum eps_status eps__tilts_ask(const struct eps__residual **residual, struct eps__tilts *tilts,
                               const struct eps__renyi_law *law, const struct eps_context *context,
                               enum eps_direction direction, double eps)
{
    size_t index = direction == EPS_ADD ? best_geometric(law, eps) : 0;
    double t = tilt_of(&law->geometrics[index], direction, eps);
    *residual = NULL;
    if (!(t > 0 && t < MOST))
        return EPS_OK;
    int power = (int)lround(log(t) / log(RATIO));
    for (size_t i = 0; i < EPS__TILTS; i++) {
        const struct eps__tilt *tilt = &tilts->items[i];
        if (tilt->made && tilt->index == index && tilt->power == power) {
            *residual = tilt->known ? &tilt->residual : NULL;
            return EPS_OK;
        }
    }
    struct eps__tilt *tilt = &tilts->items[tilts->next];
    *tilt = (struct eps__tilt){.index = index, .power = power};
    enum eps_status status = make(tilt, tilts, law, context, direction);
    if (status == EPS_OK) {
        *residual = tilt->known ? &tilt->residual : NULL;
        tilts->next = (tilts->next + 1) % EPS__TILTS;
    }
    return status;
}

double eps__tilts_approximate(const struct eps__renyi_law *law, enum eps_direction direction, double eps)
{
    const struct eps__geometric *geometric = &law->geometrics[0];
    double square = geometric->total.upper / (geometric->len * geometric->len), half = square / 2, rounding;
    double m = geometric->trace.upper / (2 * geometric->len) - half, shift = sqrt(square);
    double level = (direction == EPS_REMOVE ? LEVEL_REMOVE : LEVEL_ADD) * m;
    if (!(square > 0))
        return 0;
    if (direction == EPS_REMOVE)
        return level + eps__gaussian_log_delta(shift, eps - level, &rounding);
    return eps__gaussian_log_delta(shift, eps + level, &rounding);
}

void eps__tilts_clear(struct eps__tilts *tilts)
{
    eps__laws_clear(&tilts->plain.laws);
    *tilts = (struct eps__tilts){0};
}
