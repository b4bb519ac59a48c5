/*
 * Random jobs, drawn member by member from the contract and not from the codec's tables, so that a row missing from the
 * tables shows as a job that is refused.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/unit/random_job.h"

#include <stdbool.h>
#include <string.h>

/* splitmix64 */
static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t random_below(uint64_t *state, uint64_t bound)
{
    return next(state) % bound;
}

double random_real(uint64_t *state)
{
    return ((double)(next(state) >> 11) + 0.5) * 0x1p-53;
}

static bool coin(uint64_t *state)
{
    return random_below(state, 2) == 0;
}

static void put(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

/* An integer as clients write it: 12 or 12.0. */
static json_t *count(uint64_t *state, uint64_t value)
{
    return coin(state) ? json_integer((json_int_t)value) : json_real((double)value);
}

static void maybe_count(uint64_t *state, json_t *object, const char *key, uint64_t most)
{
    if (coin(state))
        put(object, key, count(state, 1 + random_below(state, most)));
    else if (coin(state))
        put(object, key, json_null());
}

static void maybe_bool(uint64_t *state, json_t *object, const char *key)
{
    if (coin(state))
        put(object, key, json_boolean(coin(state)));
}

static void maybe_name(uint64_t *state, json_t *object, const char *key, const char *one, const char *other)
{
    if (coin(state))
        put(object, key, json_string(coin(state) ? one : other));
}

static json_t *numbers(uint64_t *state, size_t len)
{
    json_t *array = json_array();

    for (size_t i = 0; i < len; i++) {
        double value = coin(state) ? random_real(state) - 0.5 : (double)random_below(state, 3) - 1.0;
        json_array_append_new(array, coin(state) && value == 0.0 ? json_integer(0) : json_real(value));
    }
    return array;
}

static json_t *rows(uint64_t *state, size_t n)
{
    json_t *array = json_array();
    bool square = coin(state);

    for (size_t i = 0; i < n; i++)
        json_array_append_new(array, numbers(state, square || (i == 0 && n == 1) ? n : i + 1));
    return array;
}

static void optimised(uint64_t *state, json_t *matrix, size_t block)
{
    maybe_name(state, matrix, "objective", "mean_squared", "max_squared");
    if (coin(state))
        put(matrix, "gap", json_real(random_real(state)));
    /* both or neither: a separation that is given has to fit the epochs */
    if (coin(state)) {
        size_t epochs = 1 + random_below(state, block);
        put(matrix, "epochs", count(state, epochs));
        put(matrix, "separation", count(state, epochs > 1 ? (block - 1) / (epochs - 1) : block));
    }
}

static json_t *random_matrix(uint64_t *state, const char *family, size_t n, bool unsampled)
{
    json_t *matrix = json_object();
    size_t stamps = coin(state) ? 1 : (size_t[]){1, 2, 3, 4}[random_below(state, 4)], block = n / stamps;

    put(matrix, "family", json_string(family));
    if (stamps > 1 || coin(state))
        put(matrix, "stamps", count(state, stamps));
    if (coin(state))
        put(matrix, "normalization", json_string(unsampled && coin(state) ? "sensitivity" : "none"));
    if (strcmp(family, "toeplitz") == 0)
        put(matrix, "coefficients", numbers(state, 1 + random_below(state, block)));
    if (strcmp(family, "dense") == 0)
        put(matrix, "rows", rows(state, block));
    if (strcmp(family, "square_root") == 0)
        maybe_count(state, matrix, "bands", block);
    if (strcmp(family, "inverse_square_root") == 0 || strncmp(family, "banded", 6) == 0)
        put(matrix, "bands", count(state, 1 + random_below(state, block)));
    if (strcmp(family, "banded") == 0) {
        bool toeplitz = coin(state);
        put(matrix, "toeplitz", json_boolean(toeplitz));
        if (toeplitz)
            maybe_bool(state, matrix, "column_normalize");
    }
    if (strcmp(family, "blt") == 0 && coin(state)) {
        size_t len = 1 + random_below(state, 4);
        json_t *decay = json_array();
        for (size_t i = 0; i < len; i++)
            json_array_append_new(decay, json_real(random_real(state)));
        put(matrix, "decay", decay);
        put(matrix, "scale", numbers(state, len));
        return matrix;
    }
    if (strcmp(family, "blt") == 0)
        put(matrix, "buffers", count(state, 1 + random_below(state, block < 16 ? block : 16)));
    if (strcmp(family, "optimal") == 0)
        maybe_bool(state, matrix, "nonnegative");
    if (strcmp(family, "tree") == 0)
        maybe_name(state, matrix, "decoder", "online", "full");
    if (strcmp(family, "fourier") == 0)
        maybe_name(state, matrix, "decoder", "optimal", "standard");
    if (strcmp(family, "stored") == 0)
        put(matrix, "id", json_string("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"));
    if (strncmp(family, "banded", 6) == 0 || strcmp(family, "blt") == 0 || strcmp(family, "optimal") == 0)
        optimised(state, matrix, block);
    /* Only there do the bands have to fit into the separation. */
    if (json_is_false(json_object_get(matrix, "toeplitz")))
        put(matrix, "epochs", count(state, 1));
    return matrix;
}

/* p, or the sizes that determine it; always small enough for `parts` of the data. True with truncated batches, which
 * allow no further addition. */
static bool participation(uint64_t *state, json_t *sampling, size_t parts)
{
    bool sizes = coin(state);
    uint64_t dataset = 1000 + random_below(state, 1000000000);

    if (sizes) {
        put(sampling, "batch_size", count(state, 1 + random_below(state, dataset / parts)));
        put(sampling, "dataset_size", count(state, dataset));
    } else {
        put(sampling, "p", json_real(random_real(state)));
    }
    bool truncated = coin(state);
    if (truncated) {
        put(sampling, "dataset_size", count(state, dataset));
        json_t *truncation = json_object();
        put(truncation, "max_batch_size", count(state, 1 + random_below(state, dataset)));
        put(sampling, "truncation", truncation);
    }
    return truncated;
}

static json_t *random_sampling(uint64_t *state, const char *scheme, const char *family, size_t n)
{
    json_t *sampling = json_object();
    size_t parts = 1 + random_below(state, 12);

    put(sampling, "scheme", json_string(scheme));
    if (strcmp(scheme, "none") == 0) {
        size_t epochs = 1 + random_below(state, n);
        put(sampling, "epochs", count(state, epochs));
        if (coin(state) && epochs > 1)
            put(sampling, "separation", count(state, 1 + random_below(state, n / epochs)));
        maybe_name(state, sampling, "schema", "shuffled", coin(state) ? "fixed_order" : "min_separation");
    } else if (strcmp(scheme, "balls_in_bins") == 0) {
        size_t bins = (size_t[]){1, 2, 3, 4, 6, 12}[random_below(state, 6)];
        if (coin(state)) {
            put(sampling, "bins", count(state, bins));
        } else {
            put(sampling, "batch_size", count(state, 64));
            put(sampling, "dataset_size", count(state, 64 * bins + random_below(state, 64)));
        }
        maybe_bool(state, sampling, "redraw");
    } else if (strcmp(scheme, "cyclic_poisson") == 0) {
        put(sampling, "groups", count(state, parts));
        participation(state, sampling, parts);
    } else if (strcmp(scheme, "b_min_sep") == 0) {
        put(sampling, "separation", count(state, parts));
        if (!participation(state, sampling, parts) && coin(state))
            put(sampling, "examples_per_user", count(state, 1 + random_below(state, 5)));
        else
            maybe_bool(state, sampling, "warm_start");
    } else if (!participation(state, sampling, 1)) {
        maybe_count(state, sampling, "examples_per_user", 9);
        if (strcmp(family, "identity") == 0)
            maybe_bool(state, sampling, "last_iterate");
    }
    return sampling;
}

static bool needs_toeplitz_workload(const char *family)
{
    return strstr(family, "square_root") || strstr(family, "banded") || strcmp(family, "blt") == 0;
}

static json_t *random_workload(uint64_t *state, bool toeplitz, size_t n)
{
    json_t *workload = json_object();

    switch (random_below(state, 3)) {
    case 0:
        put(workload, "type", json_string("prefix_sum"));
        break;
    case 1:
        put(workload, "type", json_string("momentum"));
        put(workload, "momentum", json_real(random_real(state)));
        if (coin(state))
            put(workload, "decay", coin(state) ? json_integer(1) : json_real(random_real(state)));
        if (!toeplitz && coin(state)) {
            json_t *cooldown = json_object();
            put(cooldown, "from", json_real(random_real(state)));
            put(cooldown, "to", coin(state) ? json_integer(0) : json_real(random_real(state)));
            put(workload, "cooldown", cooldown);
        }
        break;
    default:
        put(workload, "type", json_string("toeplitz"));
        put(workload, "coefficients", numbers(state, 1 + random_below(state, n)));
    }
    return workload;
}

static json_t *random_accountant(uint64_t *state, bool curve)
{
    static const char *const names[] = {"auto",       "gaussian", "pld", "renyi", "mmcc", "conditional_composition",
                                        "monte_carlo"};
    size_t which = random_below(state, curve ? 4 : 7);
    json_t *accountant = json_object();

    if (coin(state)) {
        json_decref(accountant);
        return json_string(names[which]);
    }
    put(accountant, "method", json_string(names[which]));
    if (which != 6 && coin(state))
        put(accountant, "tolerance", json_real(1e-6 + 0.09 * random_real(state)));
    if ((which == 0 || which == 4 || which == 5) && coin(state))
        put(accountant, "bad_event_share", coin(state) ? json_string("auto") : json_real(random_real(state)));
    if (which == 0 || which == 3) {
        if (coin(state))
            put(accountant, "max_order", count(state, 2 + random_below(state, 60)));
        maybe_count(state, accountant, "bandwidth", 100);
    }
    if (which == 0 || which == 6) {
        bool counted = coin(state); /* the threshold then follows */
        if (counted)
            put(accountant, "samples", count(state, 1 + random_below(state, 1000000000)));
        if (coin(state))
            put(accountant, "seed", json_integer((json_int_t)random_below(state, ((uint64_t)1 << 53) + 1)));
        if (!counted && coin(state))
            put(accountant, "threshold_share", json_real(random_real(state)));
        maybe_name(state, accountant, "estimator", "plain", "tilted");
        if (coin(state))
            put(accountant, "max_seconds", json_real(100.0 * random_real(state)));
    }
    if (!curve)
        maybe_count(state, accountant, "audit", 1000000000);
    return accountant;
}

static void random_query(uint64_t *state, json_t *job, bool curve)
{
    uint64_t without = random_below(state, 3);

    if (curve) {
        put(job, "curve", json_true());
        put(job, "noise_multiplier", json_real(10.0 * random_real(state)));
        return;
    }
    maybe_bool(state, job, "curve");
    put(job, "curve", json_false());
    if (without != 0)
        put(job, "epsilon", coin(state) ? json_integer(0) : json_real(20.0 * random_real(state)));
    if (without != 1)
        put(job, "delta", json_real(random_real(state)));
    if (without != 2)
        put(job, "noise_multiplier", coin(state) ? json_integer(1) : json_real(10.0 * random_real(state)));
}

/* Into an empty object: n or epochs, matrix, sampling, workload. */
static void random_mechanism(uint64_t *state, json_t *object)
{
    static const char *const families[] = {"identity", "toeplitz",       "dense", "square_root", "inverse_square_root",
                                           "banded",   "banded_inverse", "blt",   "optimal",     "tree",
                                           "stored",   "fourier"};
    static const char *const schemes[] = {"none", "poisson", "cyclic_poisson", "balls_in_bins", "b_min_sep"};
    const char *scheme = schemes[random_below(state, 5)];
    bool unsampled = strcmp(scheme, "none") == 0;
    const char *family = families[random_below(state, unsampled ? 12 : 11)];
    size_t n = 12 * (1 + random_below(state, 4));

    put(object, "n", count(state, n));
    if (strcmp(family, "identity") != 0 || coin(state))
        put(object, "matrix", random_matrix(state, family, n, unsampled));
    put(object, "sampling", random_sampling(state, scheme, family, n));
    json_t *sampling = json_object_get(object, "sampling"), *batch = json_object_get(sampling, "batch_size");
    if (batch && coin(state)) { /* the passes that give n steps, as a double */
        double passes = (double)n * json_number_value(batch);
        json_object_del(object, "n");
        put(object, "epochs", json_real(passes / json_number_value(json_object_get(sampling, "dataset_size"))));
    }
    if (coin(state))
        put(object, "workload", random_workload(state, needs_toeplitz_workload(family), n));
}

/* The members around the mechanism; no audit with phases, which do not support it. */
static void random_rest(uint64_t *state, json_t *job, bool phases)
{
    static const char *const adjacencies[] = {"zero_out", "add_remove", "replace_one"};
    bool curve = random_below(state, 5) == 0;

    random_query(state, job, curve);
    if (coin(state))
        put(job, "adjacency", json_string(adjacencies[random_below(state, 3)]));
    if (coin(state))
        put(job, "accountant", random_accountant(state, curve || phases));
    if (coin(state))
        put(job, "label", json_string("r\u00e9sum\u00e9"));
}

json_t *random_job(uint64_t *state)
{
    json_t *job = json_object();

    random_mechanism(state, job);
    random_rest(state, job, false);
    return job;
}

/* Whether a user may have several examples in this phase. */
static bool takes_users(const json_t *sampling)
{
    const char *scheme = json_string_value(json_object_get(sampling, "scheme"));

    return (strcmp(scheme, "poisson") == 0 || strcmp(scheme, "b_min_sep") == 0) &&
           !json_object_get(sampling, "truncation") && !json_is_true(json_object_get(sampling, "last_iterate")) &&
           !json_is_true(json_object_get(sampling, "warm_start"));
}

json_t *random_phases(uint64_t *state)
{
    json_t *job = json_object(), *phases = json_array();
    size_t len = 1 + random_below(state, 4), asked = coin(state) ? len : random_below(state, len);
    bool users = true;

    for (size_t i = 0; i < len; i++) {
        json_t *phase = json_object();
        random_mechanism(state, phase);
        json_object_del(json_object_get(phase, "sampling"), "examples_per_user");
        users = users && takes_users(json_object_get(phase, "sampling"));
        if (coin(state))
            put(phase, "noise_scale", coin(state) ? json_integer(1) : json_real(4 * random_real(state)));
        maybe_count(state, phase, "count", 1000);
        json_array_append_new(phases, phase);
    }
    put(job, "phases", phases);
    if (users || coin(state))
        put(job, "examples_per_user", count(state, users ? 1 + random_below(state, 4) : 1));
    random_rest(state, job, true);
    if (asked < len && !json_is_true(json_object_get(job, "curve"))) {
        put(json_array_get(phases, asked), "count", json_string("max"));
        put(job, "epsilon", json_integer(1));
        put(job, "delta", json_real(1e-5));
        put(job, "noise_multiplier", json_integer(2));
    }
    return job;
}
