/*
 * No sampling: (k,b)-participation, as given or as it follows from batches of a fixed size in a cyclic order.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/sampling/forming/batches.h"
#include "lib/sampling/pairs.h"
#include "lib/sampling/scheme.h"

__extension__ typedef unsigned __int128 wide;

/*
 * The participation that follows from the sizes. Batches are filled in a fixed order of the examples, which restarts
 * when it ends. Within n steps an example participates at most times = ceil(n batch/dataset) times,
 * floor(dataset/batch) steps apart or one more; (times - 1) apart + 1 <= n.
 */
struct turns {
    size_t times, apart;
    bool even; /* apart is exact */
};

/* False if the sizes are missing or invalid. */
static bool find_turns(struct turns *turns, const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *s = &mechanism->sampling;

    if (s->batch_size == 0 || s->batch_size > s->dataset_size || mechanism->n == 0)
        return false;
    /* Example j takes places j, j + dataset, ... of the n batch places; the first example takes the most. Its last
     * place is within the n batch places: (times-1) dataset < n batch, so (times-1) floor(dataset/batch) < n. */
    wide places = (wide)mechanism->n * s->batch_size;
    turns->times = (size_t)((places + s->dataset_size - 1) / s->dataset_size);
    turns->apart = (size_t)(s->dataset_size / s->batch_size);
    turns->even = s->dataset_size % s->batch_size == 0;
    return true;
}

static void defaults(struct eps_mechanism *mechanism, size_t bands)
{
    (void)bands;
    struct eps_sampling *sampling = &mechanism->sampling;
    struct turns turns;
    bool derived = find_turns(&turns, mechanism);
    if (sampling->epochs == 0)
        sampling->epochs = derived ? turns.times : 1;
    if (sampling->separation == 0)
        sampling->separation = derived ? turns.apart : mechanism->n / sampling->epochs;
}

/* The strictest schema that such batches satisfy. */
static void planned(struct eps_sampling *sampling)
{
    bool even = sampling->dataset_size % sampling->batch_size == 0;
    sampling->schema = even ? EPS_SCHEMA_FIXED_ORDER : EPS_SCHEMA_MIN_SEPARATION;
}

/* With batch_size and dataset_size, epochs and separation must be what follows from the sizes. */
static void check_turns(struct eps__check *check, const struct eps_sampling *sampling)
{
    struct turns turns;

    if (sampling->batch_size == 0 && sampling->dataset_size == 0)
        return;
    if (sampling->batch_size == 0 || sampling->dataset_size == 0) {
        eps__check_fail(check, sampling->batch_size ? "/sampling/dataset_size" : "/sampling/batch_size",
                        "is required with sampling.%s: epochs and separation follow from the two",
                        sampling->batch_size ? "batch_size" : "dataset_size");
        return;
    }
    if (sampling->batch_size > sampling->dataset_size) {
        eps__check_fail(check, "/sampling/batch_size", "must be at most dataset_size, %llu",
                        (unsigned long long)sampling->dataset_size);
        return;
    }
    if (check->n == 0 || !find_turns(&turns, &check->job->mechanism))
        return;
    if (sampling->epochs != turns.times)
        eps__check_fail(
            check, "/sampling/epochs",
            "must be %zu, which is n batch_size/dataset_size rounded up: leave it out, or leave out the sizes",
            turns.times);
    if (sampling->separation != turns.apart)
        eps__check_fail(
            check, "/sampling/separation",
            "must be %zu, which is dataset_size/batch_size rounded down: leave it out, or leave out the sizes",
            turns.apart);
    if (!turns.even && sampling->schema == EPS_SCHEMA_SHUFFLED) {
        uint64_t left = sampling->dataset_size % sampling->batch_size;
        eps__check_fail(check, "/sampling/schema",
                        "shuffled requires dataset_size to be a multiple of batch_size: drop the last %llu examples of "
                        "every epoch and set dataset_size to %llu; an epoch then has %zu steps",
                        (unsigned long long)left, (unsigned long long)(sampling->dataset_size - left), turns.apart);
    }
    if (turns.even && sampling->schema == EPS_SCHEMA_SHUFFLED && check->n % turns.apart)
        eps__check_fail(
            check, "/n",
            "must be a multiple of dataset_size/batch_size = %zu if epochs are shuffled; the nearest is %zu",
            turns.apart, eps__check_nearest_multiple(check, turns.apart));
    if (!turns.even && turns.times > 1 && sampling->schema == EPS_SCHEMA_FIXED_ORDER)
        eps__check_fail(
            check, "/sampling/schema",
            "must be min_separation: dataset_size is not a multiple of batch_size, so participations are %zu or "
            "%zu steps apart",
            turns.apart, turns.apart + 1);
}

static void check(struct eps__check *check, const struct eps_sampling *sampling)
{
    size_t k = sampling->epochs, b = sampling->separation, n = check->n;

    if (eps_schema_name(sampling->schema) == NULL)
        eps__check_fail(check, "/sampling/schema", "must be fixed_order, min_separation or shuffled");
    check_turns(check, sampling);
    if (n == 0)
        return;
    if (k == 0 || k > n)
        eps__check_fail(check, "/sampling/epochs", "must lie in [1, %zu]: an example takes part at most once per step",
                        n);
    else if (b == 0)
        eps__check_fail(check, "/sampling/separation", "must be an integer of at least 1");
    else if (sampling->schema == EPS_SCHEMA_SHUFFLED && b > n / k && sampling->batch_size == 0)
        eps__check_fail(check, "/sampling/separation",
                        "%zu epochs do not fit: epochs * separation <= n = %zu allows at most %zu steps per epoch", k,
                        n, n / k);
    else if (sampling->schema != EPS_SCHEMA_SHUFFLED && k > 1 && b > (n - 1) / (k - 1))
        eps__check_fail(check, "/sampling/separation",
                        "%zu epochs do not fit: (epochs-1) * separation + 1 <= n = %zu allows at most %zu", k, n,
                        (n - 1) / (k - 1));
}

static struct eps__participation worst(const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *sampling = &mechanism->sampling;
    struct eps__participation participation = {.epochs = sampling->epochs ? sampling->epochs : 1,
                                               .fixed = sampling->schema == EPS_SCHEMA_FIXED_ORDER};
    participation.separation = sampling->separation ? sampling->separation : mechanism->n / participation.epochs;
    if (sampling->schema == EPS_SCHEMA_SHUFFLED) {
        participation.shuffled = participation.separation;
        participation.separation = 1;
    }
    return participation;
}

static struct eps__participation target(const struct eps_mechanism *mechanism)
{
    return (struct eps__participation){.epochs = mechanism->sampling.epochs,
                                       .separation = mechanism->sampling.separation};
}

static const struct eps__former *former(const struct eps_sampling *sampling)
{
    (void)sampling;
    return &eps__former_loader;
}

static void assume(struct eps__sentences *list, const struct eps_sampling *sampling)
{
    bool fixed = sampling->schema == EPS_SCHEMA_FIXED_ORDER;
    if (sampling->schema == EPS_SCHEMA_SHUFFLED)
        eps__sentence(list,
                      "each example takes part once in each of %zu epoch%s of %zu steps, at any step of it; shuffling "
                      "does not amplify, because the batches of the other examples reveal where it is",
                      sampling->epochs, sampling->epochs == 1 ? "" : "s", sampling->separation);
    else
        eps__sentence(list, "each example takes part at most %zu time%s, %s %zu steps apart", sampling->epochs,
                      sampling->epochs == 1 ? "" : "s", fixed ? "exactly" : "at least", sampling->separation);
    eps__sentence(list, "the strategy is public");
}

/* Participations that the settings may miss: epochs defaults to 1, and a data loader does not stop when the counted
 * epochs end before the last step. min_separation leaves open where epochs end. With sizes, epochs follows from
 * them. */
static void doubt(struct eps__sentences *list, const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *sampling = &mechanism->sampling;
    size_t k = sampling->epochs, b = sampling->separation, n = mechanism->n;
    if (sampling->batch_size > 0)
        return;
    if (k == 1 && n > 1)
        eps__sentence(list,
                      "one participation of each example in all %zu steps is assumed (sampling.epochs 1): if training "
                      "makes more passes over the data, set sampling.epochs, or sampling.batch_size and dataset_size",
                      n);
    else if (k > 1 && sampling->schema != EPS_SCHEMA_MIN_SEPARATION && b < n / k + (n % k > 0)) /* k b < n */
        eps__sentence(list,
                      "%zu epochs of %zu steps end before step %zu of %zu, and no participation is counted after them: "
                      "if the data loader continues, set epochs to %zu%s",
                      k, b, k * b, n, (n - 1) / b + 1,
                      sampling->schema == EPS_SCHEMA_SHUFFLED ? " and n to epochs * separation" : "");
}

/* The sensitivity already includes pattern and adjacency: the only step is N(1, 1) against N(0, 1) in its units. */
static enum eps_status make(struct eps__step_pairs *made, const struct eps_mechanism *mechanism,
                            const struct eps__step_setting *step)
{
    const struct eps__alternative shifted = {.weight = {1, 1}, .with = 1};
    (void)mechanism;
    *made = (struct eps__step_pairs){.often.probability = {1, 1}};
    return eps__outcome_add(&made->often, &shifted, 1, (struct eps__interval){1, 1}, step->log_floor);
}

static const struct eps__pairs pairs = {.drawn = EPS__EVERY_ADJACENCY, .make = make};

const struct eps__scheme eps__scheme_none = {
    .scheme = EPS_SCHEME_NONE,
    .name = "none",
    .served = true,
    .defaults = defaults,
    .planned = planned,
    .check = check,
    .worst = worst,
    .target = target,
    .pairs = &pairs,
    .former = former,
    .assume = assume,
    .doubt = doubt,
};
