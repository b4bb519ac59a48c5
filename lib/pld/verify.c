/*
 * Pairs and distributions evaluated by their definitions in quadruple precision.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/verify.h"

#include <math.h>

#include "lib/numerics/bound.h"

enum { SHORT = 40, LONG = 8192, BISECTIONS = 100 };

/* In standard deviations: beyond it the tail underflows quadruple precision. */
#define FARTHEST 140.0
/* Relative rounding error allowed for quadruple precision itself. */
#define OWN ((eps__quad)1e-28L)

static eps__quad magnitude(eps__quad x)
{
    return x < 0 ? -x : x;
}

bool eps__verify_weights(const struct eps__pair *pair)
{
    const struct eps__mixture *sides[] = {&pair->numerator, &pair->denominator};
    for (int side = 0; side < 2; side++) {
        eps__quad sum = 0;
        for (size_t i = 0; i < sides[side]->len; i++) {
            if (!(sides[side]->weight[i] > 0) || !(sides[side]->shift[i] >= 0))
                return false;
            sum += sides[side]->weight[i];
        }
        if (sides[side]->whole &&
            (sum > 1 + (eps__quad)pair->weight_error || sum < 1 - (eps__quad)pair->weight_error - sides[side]->missing))
            return false;
    }
    return true;
}

static eps__quad log_side(const struct eps__mixture *mixture, eps__quad z)
{
    eps__quad largest = 0, total = 0;
    for (size_t i = 0; i < mixture->len; i++) {
        eps__quad shift = mixture->shift[i], exponent = shift * (z - shift / 2);
        largest = i == 0 || exponent > largest ? exponent : largest;
    }
    for (size_t i = 0; i < mixture->len; i++) {
        eps__quad shift = mixture->shift[i];
        total += mixture->weight[i] * eps__verify_exp_of(shift * (z - shift / 2) - largest);
    }
    return largest + eps__verify_log_of(total);
}

static eps__quad loss_at(const struct eps__pair *pair, eps__quad z)
{
    return log_side(&pair->numerator, z) - log_side(&pair->denominator, -z);
}

bool eps__verify_loss(const struct eps__pair *pair, double z, double loss, double error)
{
    if (!isfinite(z) || !isfinite(loss) || pair->numerator.len + pair->denominator.len > SHORT)
        return true;
    eps__quad exact = loss_at(pair, z);
    return magnitude(exact - loss) <= error + OWN * magnitude(exact);
}

/* The sum of the weights times the tails beyond z. */
static eps__quad beyond(const struct eps__mixture *mixture, eps__quad sign, eps__quad z)
{
    eps__quad sum = 0;
    for (size_t i = 0; i < mixture->len; i++)
        sum += mixture->weight[i] * eps__verify_tail(z - sign * mixture->shift[i]);
    return sum;
}

static eps__quad total_of(const struct eps__mixture *mixture)
{
    eps__quad total = 0;
    for (size_t i = 0; i < mixture->len; i++)
        total += mixture->weight[i];
    return total;
}

static bool far(const struct eps__pair *pair, double z)
{
    return fabs(z) > FARTHEST - eps__mixture_reach(&pair->numerator) - eps__mixture_reach(&pair->denominator);
}

bool eps__verify_pair_mass(const struct eps__pair *pair, double left, double right, double log_lower, double log_upper)
{
    if (!(left < right) || pair->numerator.len > SHORT || (isfinite(left) && far(pair, left)) ||
        (isfinite(right) && far(pair, right)))
        return true;
    eps__quad above = isinf(left) ? total_of(&pair->numerator) : beyond(&pair->numerator, 1, left), mass, below;
    below = isinf(right) ? 0 : beyond(&pair->numerator, 1, right);
    mass = above - below;
    eps__quad own = OWN * above;
    return (isinf(log_lower) || eps__verify_exp_of(log_lower) <= mass + own) &&
           (mass <= own || eps__verify_exp_of(log_upper) >= mass - own);
}

bool eps__verify_advantage(const struct eps__pair *pair, double eps, double at, double value, double error)
{
    if (!isfinite(error) || far(pair, at) || pair->numerator.len + pair->denominator.len > SHORT ||
        !pair->numerator.whole || !pair->denominator.whole || pair->numerator.missing > 0 ||
        pair->denominator.missing > 0)
        return true;
    /* compare with the law whose weights are scaled to add up to 1 */
    eps__quad p = beyond(&pair->numerator, 1, at) / total_of(&pair->numerator), size = 0;
    eps__quad q = beyond(&pair->denominator, -1, at) / total_of(&pair->denominator);
    eps__quad grown = eps__verify_exp_of(eps);
    size = OWN * (p + grown * q);
    return magnitude(p - grown * q - value) <= error + size;
}

static eps__quad loss_of(const struct eps__pld *pld, size_t i)
{
    return (eps__quad)pld->offset + (eps__quad)pld->index[i] * pld->spacing;
}

bool eps__verify_log_moment(const struct eps__pld *pld, double tilt, double value, double error)
{
    eps__quad total = 0, exponent = (eps__quad)tilt - pld->tilt;
    if (pld->len > LONG || !isfinite(value))
        return true;
    eps__quad largest = exponent * loss_of(pld, exponent > 0 ? pld->len - 1 : 0);
    for (size_t i = 0; i < pld->len; i++)
        total += pld->mass[i] * eps__verify_exp_of(exponent * loss_of(pld, i) - largest);
    eps__quad exact = largest + eps__verify_log_of(total) + pld->log_scale;
    return !(total > 0) || magnitude(exact - value) <= error + OWN * magnitude(exact);
}

/* delta(eps) of a pair; the weights are taken as exact. */
static eps__quad delta_of(const struct eps__pair *pair, eps__quad eps)
{
    eps__quad low = -FARTHEST / 2, high = FARTHEST / 2;
    for (int i = 0; i < BISECTIONS; i++) {
        eps__quad middle = (low + high) / 2;
        *(loss_at(pair, middle) > eps ? &high : &low) = middle;
    }
    return beyond(&pair->numerator, 1, low) - eps__verify_exp_of(eps) * beyond(&pair->denominator, -1, low);
}

static eps__quad curve_of(const struct eps__pld *pld, eps__quad eps)
{
    eps__quad total = pld->infinity;
    for (size_t i = 0; i < pld->len; i++) {
        eps__quad loss = loss_of(pld, i);
        if (loss > eps)
            total += pld->mass[i] * (1 - eps__verify_exp_of(eps - loss));
    }
    return total;
}

static bool curve_holds(const struct eps__pld *pld, const struct eps__branch *branches, size_t len, eps__quad eps)
{
    bool upper = pld->estimate == EPS__UPPER;
    eps__quad exact = 0, widened = upper ? eps - pld->loss_error : eps + pld->loss_error;
    for (size_t b = 0; b < len; b++) {
        const struct eps__pair *pair = &branches[b].pair[pld->estimate];
        exact += branches[b].weight[pld->estimate] * (delta_of(pair, eps) + (upper ? pair->lost : 0));
    }
    eps__quad curve = curve_of(pld, widened), own = OWN * (1 + magnitude(exact));
    return upper ? curve >= exact - own : curve <= exact + own;
}

bool eps__verify_curve(const struct eps__pld *pld, const struct eps__branch *branches, size_t len)
{
    eps__quad total = 0;
    size_t atoms = 0;
    for (size_t i = 0; i < pld->len; i++)
        total += pld->mass[i];
    if (pld->estimate == EPS__LOWER && total > 1 + (eps__quad)1e-12L)
        return false;
    for (size_t b = 0; b < len; b++) {
        const struct eps__pair *pair = &branches[b].pair[pld->estimate];
        atoms += pair->numerator.len + pair->denominator.len;
        if (eps__mixture_reach(&pair->numerator) + eps__mixture_reach(&pair->denominator) > FARTHEST / 4)
            return true;
    }
    if (atoms > SHORT || pld->len > LONG)
        return true;
    /* at knots and between them: where the curve bends and where it is a chord */
    for (int k = 1; k < 8; k += 2) {
        size_t i = (size_t)((double)(pld->len - 1) * k / 8);
        eps__quad eps = (eps__quad)pld->offset + ((eps__quad)pld->index[i] + (eps__quad)(k % 4) / 4) * pld->spacing;
        if (!curve_holds(pld, branches, len, eps))
            return false;
    }
    return true;
}
