/*
 * libepsilon: differential-privacy accounting for correlated noise and amplification by sampling.
 *
 * The mechanism is y = C x + z with z ~ N(0, sigma^2 I): C is the strategy (encoder), x_i is the clipped
 * contribution of step i (clip norm 1), sigma is the noise multiplier. Of epsilon, delta and the noise
 * multiplier a job fixes two; eps_solve() returns the third as a proven upper bound, in both directions
 * (remove: H(P||Q), add: H(Q||P)), with a bracket that bounds the numerical error. Epsilon is in nats.
 *
 * Conventions. Steps and indices count from 0. An absent real is NAN, an absent integer is 0. Fallible
 * functions return enum eps_status and write their outputs only on EPS_OK. An error argument may be NULL.
 * Objects are thread-compatible: one thread at a time may use one object, any number may use distinct ones.
 * The library keeps no global state of its own except FFTW's planner, which it locks. The first call that
 * computes turns GSL's error handler off, once a process and whichever thread it comes from, for GSL's own aborts;
 * unless the caller has installed one before: that one stays, and must return. The caller need not know of GSL.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPSILON_H
#define EPSILON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header; eps_version() is that of the library which is linked. */
#define EPS_VERSION "0.1.0"

/* Raised with every change that can alter a number; part of every cache key. */
#define EPS_ACCOUNTING_VERSION 10

#if defined(__GNUC__)
#define EPS_API __attribute__((visibility("default")))
#define EPS_MUST_USE __attribute__((warn_unused_result))
#else
#define EPS_API
#define EPS_MUST_USE
#endif

/* ---------------------------------------------------------------- errors */

enum eps_status {
    EPS_OK = 0,
    EPS_INVALID,      /* the job is wrong: the member and the rule are named */
    EPS_UNSUPPORTED,  /* a right job that no accountant of this build serves */
    EPS_TOO_COSTLY,   /* the estimated operations or bytes are over the context's limits */
    EPS_UNATTAINABLE, /* no finite answer exists */
    EPS_CANCELED,     /* the context's canceled() said so */
    EPS_TIMEOUT,      /* the context's deadline passed */
    EPS_NO_MEMORY,
    EPS_INTERNAL, /* a defect of this library */
    EPS_STATUS_COUNT
};

/* Why a call failed. `pointer` names the member of the job as a path ("/sampling/p"), "" for the whole job. */
struct eps_error {
    enum eps_status status;
    char pointer[96];
    char message[480];
    double operations; /* EPS_TOO_COSTLY: the estimates, else 0 */
    double bytes;
    uint32_t accountants; /* EPS_UNSUPPORTED: bit (1u << enum eps_accountant) for those that would serve a near job */
};

/* ---------------------------------------------------------------- the vocabulary */

enum eps_family {
    EPS_FAMILY_IDENTITY,
    EPS_FAMILY_TOEPLITZ,
    EPS_FAMILY_DENSE,
    EPS_FAMILY_SQUARE_ROOT,
    EPS_FAMILY_INVERSE_SQUARE_ROOT,
    EPS_FAMILY_BANDED,
    EPS_FAMILY_BANDED_INVERSE,
    EPS_FAMILY_BLT,
    EPS_FAMILY_OPTIMAL,
    EPS_FAMILY_TREE,
    EPS_FAMILY_FOURIER,
    EPS_FAMILY_STORED,
    EPS_FAMILY_COUNT
};

enum eps_normalization {
    EPS_NORMALIZATION_MAX_COLUMN,  /* the largest column norm of C is 1 */
    EPS_NORMALIZATION_NONE,        /* C as the family defines it */
    EPS_NORMALIZATION_SENSITIVITY, /* C divided by its sensitivity under the job's participation */
    EPS_NORMALIZATION_COUNT
};

enum eps_objective { EPS_OBJECTIVE_MEAN_SQUARED, EPS_OBJECTIVE_MAX_SQUARED, EPS_OBJECTIVE_COUNT };

enum eps_decoder {
    EPS_DECODER_DEFAULT, /* families without a choice */
    EPS_DECODER_ONLINE,  /* tree: Honaker's estimator from below */
    EPS_DECODER_FULL,    /* tree: the pseudoinverse */
    EPS_DECODER_OPTIMAL, /* fourier */
    EPS_DECODER_STANDARD,
    EPS_DECODER_COUNT
};

enum eps_workload_type { EPS_WORKLOAD_PREFIX_SUM, EPS_WORKLOAD_MOMENTUM, EPS_WORKLOAD_TOEPLITZ, EPS_WORKLOAD_COUNT };

enum eps_scheme {
    EPS_SCHEME_NONE,           /* (k,b)-participation without randomness */
    EPS_SCHEME_POISSON,        /* each step independently with probability p */
    EPS_SCHEME_CYCLIC_POISSON, /* groups take turns, Poisson within the group */
    EPS_SCHEME_BALLS_IN_BINS,  /* one uniform bin, the same in every epoch */
    EPS_SCHEME_B_MIN_SEP,      /* Poisson, but at least `separation` steps apart */
    EPS_SCHEME_COUNT
};

enum eps_schema { EPS_SCHEMA_FIXED_ORDER, EPS_SCHEMA_MIN_SEPARATION, EPS_SCHEMA_SHUFFLED, EPS_SCHEMA_COUNT };

enum eps_adjacency { EPS_ADJACENCY_ZERO_OUT, EPS_ADJACENCY_ADD_REMOVE, EPS_ADJACENCY_REPLACE_ONE, EPS_ADJACENCY_COUNT };

enum eps_accountant {
    EPS_ACCOUNTANT_AUTO,
    EPS_ACCOUNTANT_GAUSSIAN,
    EPS_ACCOUNTANT_PLD, /* under balls_in_bins exact only where bins share no row and have one norm; else a bound */
    EPS_ACCOUNTANT_MMCC,
    EPS_ACCOUNTANT_RENYI,
    EPS_ACCOUNTANT_CONDITIONAL_COMPOSITION,
    EPS_ACCOUNTANT_MONTE_CARLO,
    EPS_ACCOUNTANT_COUNT
};

enum eps_estimator { EPS_ESTIMATOR_AUTO, EPS_ESTIMATOR_PLAIN, EPS_ESTIMATOR_TILTED, EPS_ESTIMATOR_COUNT };

enum eps_direction { EPS_REMOVE, EPS_ADD, EPS_DIRECTIONS };

enum eps_unknown {
    EPS_SOLVE_EPSILON,
    EPS_SOLVE_DELTA,
    EPS_SOLVE_NOISE_MULTIPLIER,
    EPS_SOLVE_CURVE,
    EPS_SOLVE_N,    /* the largest number of steps that keeps the promise */
    EPS_SOLVE_RUNS, /* the largest count of one phase */
    EPS_SOLVE_COUNT
};

/* Of a result: the weaker one of its two directions'; the later, the weaker. */
enum eps_guarantee {
    EPS_GUARANTEE_DETERMINISTIC,
    EPS_GUARANTEE_ESTIMATE_VERIFY_RELEASE,
    EPS_GUARANTEE_HIGH_PROBABILITY,
    EPS_GUARANTEE_COUNT
};

/* The version of the library that is linked: equal to EPS_VERSION if it is the one compiled against. Static. */
EPS_API const char *eps_version(void);

/* A status in a word, for logs ("ok", "invalid", "too_costly"...); NULL out of range. Static. */
EPS_API const char *eps_status_name(enum eps_status status);

/* The wire name of a value ("square_root", "b_min_sep", "pld", "remove", "epsilon"...); NULL out of range. */
EPS_API const char *eps_family_name(enum eps_family family);
EPS_API const char *eps_normalization_name(enum eps_normalization normalization);
EPS_API const char *eps_objective_name(enum eps_objective objective);
EPS_API const char *eps_decoder_name(enum eps_decoder decoder);
EPS_API const char *eps_workload_name(enum eps_workload_type type);
EPS_API const char *eps_scheme_name(enum eps_scheme scheme);
EPS_API const char *eps_schema_name(enum eps_schema schema);
EPS_API const char *eps_adjacency_name(enum eps_adjacency adjacency);
EPS_API const char *eps_accountant_name(enum eps_accountant accountant);
EPS_API const char *eps_estimator_name(enum eps_estimator estimator);
EPS_API const char *eps_direction_name(enum eps_direction direction);
EPS_API const char *eps_unknown_name(enum eps_unknown unknown);
EPS_API const char *eps_guarantee_name(enum eps_guarantee guarantee);

/* ---------------------------------------------------------------- the job */

/* The strategy C. Arrays are borrowed: they must outlive every call that sees the job. Their numbers lie in [-1e100, 1e100];
 * of coefficients, and of rows, the largest is 0 or has a size of at least 1e-100. */
struct eps_matrix {
    enum eps_family family;
    enum eps_normalization normalization;
    size_t stamps;              /* C of n/stamps steps, repeated down the diagonal; default 1 */
    const double *coefficients; /* toeplitz: the first column, coefficients_len of 1..n numbers, the rest 0 */
    size_t coefficients_len;
    const double *rows; /* dense: rows_n x rows_n, row-major, the upper triangle included */
    size_t rows_n;
    size_t bands;          /* square_root (default n), inverse_square_root, banded, banded_inverse; else 0 */
    bool toeplitz;         /* banded: one Toeplitz column; default true */
    bool column_normalize; /* banded, toeplitz: divide each column by its norm afterwards */
    size_t buffers;        /* blt, optimised: number of buffers; 0 where decay and scale are given */
    const double *decay;   /* blt, given: in (0, 1), blt_len of them */
    const double *scale;
    size_t blt_len;
    bool nonnegative;         /* optimal: X >= 0 everywhere; default true */
    enum eps_decoder decoder; /* tree, fourier */
    char stored_id[65];       /* stored: a factorisation's id, lower-case hex; else "" */
    /* Optimised families only (banded, banded_inverse, blt with buffers, optimal): */
    enum eps_objective objective;
    double gap;    /* relative gap of the loss at which the optimiser stops, in [1e-12, 1); default 1e-3 */
    size_t epochs; /* participation optimised for, per stamp */
    size_t separation;
};

/* The matrix A of the queries. The numbers of its coefficients are as those of eps_matrix. */
struct eps_workload {
    enum eps_workload_type type;
    double momentum;            /* momentum: in [0, 1) */
    double decay;               /* momentum: in (0, 1], default 1 */
    bool cooldown;              /* momentum: the learning rate falls linearly from step from*n on */
    double cooldown_from;       /* in [0, 1] */
    double cooldown_to;         /* in [0, 1]: the rate at step n */
    const double *coefficients; /* toeplitz: the first column, coefficients_len of 1..n numbers, the rest 0 */
    size_t coefficients_len;
};

/* How one example takes part. Of p on the one hand, batch_size with dataset_size on the other, one is given
 * (in the place of p: balls_in_bins: bins; none: epochs and separation). */
struct eps_sampling {
    enum eps_scheme scheme;
    double p;                 /* in [1e-20, 1]; NAN: derived from the batch size */
    size_t bins;              /* balls_in_bins */
    uint64_t batch_size;      /* expected batch; none: of every step; 0: absent */
    uint64_t dataset_size;    /* 0: absent */
    size_t epochs;            /* none: k, default ceil(n batch/dataset), without sizes 1 */
    size_t separation;        /* none: b, default floor(dataset/batch), floor(n/k); b_min_sep: the matrix's bands */
    enum eps_schema schema;   /* none */
    size_t groups;            /* cyclic_poisson: default the matrix's bands */
    bool redraw;              /* balls_in_bins: a new bin in every epoch; default false */
    bool warm_start;          /* b_min_sep: default true */
    bool truncation;          /* poisson, cyclic_poisson, b_min_sep */
    uint64_t max_batch_size;  /* with truncation: B >= 1 */
    size_t examples_per_user; /* poisson (group privacy), b_min_sep (multi-attribution): k, default 1 */
    bool last_iterate;        /* poisson with identity: only the last iterate is released */
};

/* The tuning that not every accountant takes: one that was given to another is refused. */
enum eps_tuning_member {
    EPS_TUNING_TOLERANCE,
    EPS_TUNING_BAD_EVENT_SHARE,
    EPS_TUNING_MAX_ORDER,
    EPS_TUNING_BANDWIDTH,
    EPS_TUNING_SAMPLES,
    EPS_TUNING_SEED,
    EPS_TUNING_THRESHOLD_SHARE,
    EPS_TUNING_ESTIMATOR,
    EPS_TUNING_MAX_SECONDS,
    EPS_TUNING_AUDIT,
    EPS_TUNING_MEMBERS
};

/* Which accountant, and its tuning. A field that was not given is NAN, 0 or -1, as said. */
struct eps_tuning {
    enum eps_accountant method;   /* default auto */
    double tolerance;             /* in [1e-9, 0.1], default 1e-3: relative width of the bracket */
    double bad_event_share;       /* mmcc, conditional_composition: in [1e-12, 1); NAN: optimised */
    unsigned max_order;           /* renyi: 0: chosen */
    size_t bandwidth;             /* renyi of balls_in_bins: 0: chosen */
    uint64_t samples;             /* monte_carlo: 0: chosen */
    int64_t seed;                 /* monte_carlo: in [0, 2^53]; -1: derived from the job */
    double threshold_share;       /* monte_carlo: delta'/delta in [1e-6, 1), default 1/2 */
    enum eps_estimator estimator; /* monte_carlo */
    double max_seconds;           /* monte_carlo: in [1e-3, 1e9]; NAN: none */
    uint64_t audit;               /* any: draws that bound the truth from below; 0: none */
    uint32_t given;               /* bits 1u << enum eps_tuning_member: what was written, be it the default */
};

/* In the place of a mechanism's n, or of one phase's count: the largest that keeps the promise is asked for. */
#define EPS_LARGEST SIZE_MAX

struct eps_mechanism {
    size_t n;      /* number of steps, >= 1; 0: eps_job_defaults() takes it from epochs; EPS_LARGEST: asked for */
    double epochs; /* over 0: n = ceil(epochs dataset_size/batch_size), of the sampling; NAN: absent */
    struct eps_matrix matrix;
    struct eps_workload workload;
    struct eps_sampling sampling;
    enum eps_adjacency adjacency;
};

/* One part of a training. Its adjacency and examples_per_user are the job's, which eps_job_defaults() fills in. */
struct eps_phase {
    struct eps_mechanism mechanism;
    double noise_scale; /* in [1e-6, 1e6]: its noise multiplier, in [1e-9, 1e9], is the job's times this; default 1 */
    size_t
        count; /* how often it is run, one run after the other: >= 1, default 1; EPS_LARGEST: asked for, of one phase */
};

enum { EPS_PHASES_MAX = 256 };

/* Of every mechanism: a phase's is the job's times its noise_scale. */
#define EPS_NOISE_MULTIPLIER_LEAST 1e-9
#define EPS_NOISE_MULTIPLIER_MOST 1e9

/* Exactly two of the three are numbers, the third NAN; or curve with the noise multiplier alone; or, where a number of
 * steps or of runs is asked for (EPS_LARGEST), all three. */
struct eps_query {
    double epsilon;          /* in [0, 1e4] */
    double delta;            /* in [1e-300, 1) */
    double noise_multiplier; /* in [1e-9, 1e9] */
    bool curve;
    struct eps_tuning accountant;
};

/*
 * One mechanism; or a training of phases_len phases, which stand in its place: then of `mechanism` only the adjacency and
 * sampling.examples_per_user count, and the rest is as eps_job_init() left it. An example may take part in every phase.
 * phases is borrowed, as the arrays of matrices are; eps_job_defaults() writes to it.
 */
struct eps_job {
    struct eps_mechanism mechanism;
    struct eps_phase *phases;
    size_t phases_len; /* 0: none; at most EPS_PHASES_MAX */
    struct eps_query query;
};

/* A job with every default that does not depend on another member: identity, poisson with p = NAN, zero_out,
 * auto, all three of the query NAN; n = 0, epochs NAN; no phases. */
EPS_API void eps_job_init(struct eps_job *job);

/* A phase with every default that does not depend on another member: the mechanism's of eps_job_init(), scale and count 1. */
EPS_API void eps_phase_init(struct eps_phase *phase);

/*
 * Fills in the defaults that depend on other members (n, epochs, separation, groups, bands...), each
 * only where it is absent and can be told. Idempotent. Call it after decoding and before eps_job_check().
 */
EPS_API void eps_job_defaults(struct eps_job *job);

/* Called once for each violation. `pointer` is a path such as "/matrix/coefficients/3"; both strings are
 * borrowed for the call. */
typedef void eps_report_fn(void *user, const char *pointer, const char *message);

/*
 * Checks every range and every dependence between members that can be decided without computing: what does
 * not pass was never a job. Reports all violations, not the first. max_n bounds n (0: 2^24).
 * Returns the number of violations.
 */
EPS_API size_t eps_job_check(const struct eps_job *job, size_t max_n, eps_report_fn *report, void *user);

/* Which of the three the job asks for. */
EPS_API enum eps_unknown eps_job_unknown(const struct eps_job *job);

/* True if this build computes the family / serves the scheme / has the accountant: for the service's index. */
EPS_API bool eps_serves_family(enum eps_family family);
EPS_API bool eps_serves_scheme(enum eps_scheme scheme);
EPS_API bool eps_serves_accountant(enum eps_accountant accountant);

/* ---------------------------------------------------------------- the context */

enum eps_cache_kind { EPS_CACHE_FACTORIZATION, EPS_CACHE_PLD, EPS_CACHE_CHUNK, EPS_CACHE_KINDS };

/*
 * What the caller lends to a computation. Every hook may be NULL; `user` is passed to each. Hooks may be
 * called from the threads that parallel_for lends.
 */
struct eps_context {
    void *user;
    /* fraction in [0, 1], never falling; stage is a static word ("discretise", "compose", "search"...);
     * remaining_seconds is an estimate, NAN if unknown. Called a few times a second at most. */
    void (*progress)(void *user, double fraction, const char *stage, double remaining_seconds);
    /* Polled between transforms and every few thousand cells: on an idle core at least about once a second, mostly
     * every few milliseconds; true ends the call with EPS_CANCELED. */
    bool (*canceled)(void *user);
    /* Polled likewise; true ends the call with EPS_TIMEOUT. */
    bool (*expired)(void *user);
    /* Runs body(arg, i) for i = 0..count-1, each once, on any threads, and returns when all are done. */
    void (*parallel_for)(void *user, size_t count, void (*body)(void *arg, size_t index), void *arg);
    /* Fetches a blob by its key: true and a malloc'ed *blob that the library frees, or false. */
    bool (*cache_get)(void *user, enum eps_cache_kind kind, const uint8_t key[32], void **blob, size_t *blob_len);
    /* Offers a blob for keeping; the hook copies what it wants. */
    void (*cache_put)(void *user, enum eps_cache_kind kind, const uint8_t key[32], const void *blob, size_t blob_len);
    double max_operations; /* 0: no limit */
    double max_bytes;      /* 0: no limit */
};

/* ---------------------------------------------------------------- the answer */

/* What one accountant found for one direction. */
struct eps_candidate {
    enum eps_accountant accountant;
    enum eps_direction direction;
    double value;           /* of the unknown; a proven upper bound */
    unsigned order;         /* renyi: the order used; else 0 */
    unsigned moments;       /* renyi: the number of exact moments used; else 0 */
    double bad_event_share; /* mmcc, conditional_composition; else NAN */
};

/* What was drawn for one direction by monte_carlo. */
struct eps_draws {
    uint64_t samples;             /* of the answer's own estimate; 0: the direction was answered without any */
    double threshold;             /* delta': the estimate that was accepted is at most this */
    double estimate;              /* of delta at the answer, rounded up */
    double standard_error;        /* of the estimate */
    double failure_probability;   /* that so low an estimate is met where delta is larger than it may be */
    uint64_t seed;                /* in [0, 2^53] */
    enum eps_estimator estimator; /* plain or tilted */
    double bound;                 /* M: no value of the estimator is larger; 1 for plain */
    double plain_samples;         /* what plain draws would have needed for the same, about */
};

/* What draws say that the truth is at least, for one direction: never part of the guarantee. */
struct eps_audit {
    uint64_t samples; /* 0: none */
    double lower;     /* of delta, or of epsilon where that was asked for, at the answer; with probability 99.9% */
    double ratio;     /* the answer over it; NAN where it is 0 */
};

struct eps_curve_point {
    double epsilon;
    double delta;  /* the larger of the two directions: an upper bound */
    double lower;  /* the lower bound of the larger direction */
    double remove; /* upper bounds by direction */
    double add;
};

enum eps_cache_state { EPS_CACHE_UNUSED, EPS_CACHE_MISS, EPS_CACHE_HIT };

/* One phase of a training, in the job's order. */
struct eps_phase_result {
    size_t count;                                 /* how often it is run; where that was asked for, the answer */
    enum eps_accountant composed[EPS_DIRECTIONS]; /* whose privacy loss distribution was composed */
    /* All its runs as a job of their own, at their noise multiplier, for epsilon at the job's delta (NULL where delta is 0 of
     * this phase or it is never run): borrowed from the result, the same one for equal phases. Of more than 16 different phases
     * each is answered on a grid of tolerance 1e-2, and no lower end is sought: 0. */
    const struct eps_result *alone;
    /* What part of the whole's epsilon it costs: 1 - epsilon without it / epsilon, in [0, 1]. An estimate and no bound. NAN
     * where the whole has none. */
    double share;
};

struct eps_result {
    enum eps_unknown solved_for;
    double epsilon; /* all three are filled in, but for a curve (NAN but for the noise multiplier) */
    double delta;
    double noise_multiplier;
    /* EPS_SOLVE_N, EPS_SOLVE_RUNS: the number asked for, 0 if none keeps the promise; else 0. Where the other phases alone do not
     * keep it, no count does, and epsilon is what they cost: more than was asked for. */
    size_t largest;
    /* The bracket of the arithmetic, of the value solved for: that of the accountant's dominating pair lies inside. NAN for a curve. */
    double bracket_lower;
    double bracket_upper;
    bool bracket_exact; /* that pair is the mechanism's own, in both directions: the exact value lies inside, too */
    /* The exact value is at least this, with probability 99.9% where an audit found it; NAN: nothing is known. */
    double least;
    enum eps_guarantee guarantee;
    enum eps_accountant accountant;                  /* of the worse direction */
    struct eps_candidate directions[EPS_DIRECTIONS]; /* the best candidate of each direction */
    struct eps_candidate *candidates;                /* everything that was tried */
    size_t candidates_len;
    struct eps_draws draws[EPS_DIRECTIONS];
    struct eps_audit audit[EPS_DIRECTIONS];
    bool cut_short; /* max_seconds ended it: not what the same job would be answered with more time */
    enum eps_adjacency adjacency;
    bool adaptive;
    double p;                     /* the participation probability in force; NAN where there is none */
    size_t bins;                  /* balls_in_bins; else 0 */
    double expected_batch_size;   /* NAN if the dataset size is not known */
    double sensitivity;           /* of the scaled C under the job's participation (adjacency included) */
    const char *sensitivity_rule; /* static: "nonnegative_gram", "banded_columns"...; NULL if none was used */
    bool sensitivity_exact;
    char factorization_id[65]; /* content hash of the scaled C, lower-case hex */
    size_t iterations;         /* of the optimiser; 0 if the family has none */
    double optimality_gap;     /* NAN if the family has none */
    double *blt_decay;         /* blt, given or optimised, blt_len of each: as eps_strategy_blt(); else NULL */
    double *blt_scale;
    size_t blt_len;
    double error_mean_squared; /* variance of A C^-1 z per step at this sigma; NAN where undefined */
    double error_max_squared;
    double error_last_squared;
    char **assumptions; /* sentences */
    size_t assumptions_len;
    char **hints;
    size_t hints_len;
    struct eps_curve_point *curve; /* for EPS_SOLVE_CURVE; else NULL */
    size_t curve_len;
    /* A training of phases: one each; what belongs to one mechanism (p, the sensitivity, the factorisation, the error
     * figures...) is in theirs, and here absent. NULL, 0: none. */
    struct eps_phase_result *phases;
    size_t phases_len;
    struct eps_result **alone; /* what they refer to */
    size_t alone_len;
    enum eps_cache_state cache_factorization;
    enum eps_cache_state cache_pld;
};

/*
 * Whether some accountant serves the job, and what it would cost, without computing it.
 * Returns EPS_OK, EPS_INVALID (a rule of eps_job_check(), or one that needs the matrix: it is singular, has a
 * negative entry where amplification needs none...), EPS_UNSUPPORTED, EPS_TOO_COSTLY.
 * Out: operations, bytes: estimates, written on EPS_OK; may be NULL. Cost: that of building the strategy where
 * it is given or has a closed form, O(n); never an optimisation.
 */
EPS_API EPS_MUST_USE enum eps_status eps_job_serves(const struct eps_context *context, struct eps_error *error,
                                                    const struct eps_job *job, double *operations, double *bytes);

/*
 * The rule of three: solves the job for its unknown, in both directions, by the accountant asked for, or by the
 * tightest deterministic ones of those that serve.
 * Returns EPS_OK and *result, which the caller releases with eps_result_destroy(); or any other status.
 * The value is the upper end of the bracket. context may be NULL (no hooks, no limits).
 * The job must have passed eps_job_check(); else EPS_INVALID with the first violation.
 */
EPS_API EPS_MUST_USE enum eps_status eps_solve(const struct eps_context *context, struct eps_result **result,
                                               struct eps_error *error, const struct eps_job *job);
EPS_API void eps_result_destroy(struct eps_result *result);

/*
 * The privacy curve of the job's mechanism at the given noise multiplier: 201 points, equally spaced from
 * epsilon 0 to where delta falls under 1e-15 (or to the floor of an accountant that spends a part of delta on
 * bad events; to 1 where it is under 1e-15 from the start). The query's two values are ignored; its accountant
 * counts, and its tolerance down to 1e-2: every point carries its own bracket, and both directions are followed to the last point,
 * as far as they are over 1e-300.
 * Out: *points, malloc'ed, the caller frees; *len. Returns as eps_solve().
 */
EPS_API EPS_MUST_USE enum eps_status eps_privacy_curve(const struct eps_context *context,
                                                       struct eps_curve_point **points, size_t *len,
                                                       struct eps_error *error, const struct eps_job *job,
                                                       double noise_multiplier);

/* What was spent by so many steps, all runs of all phases counted one after the other. */
struct eps_spend_point {
    uint64_t step;
    double epsilon; /* at the delta that was asked for: an upper bound for this step and those since the point before */
};

/*
 * Epsilon at delta in (0, 1) as the job's training goes on at the noise multiplier > 0: at the end of each phase, and at up to 200 steps
 * between, equally spaced, as far as what was released by then is a mechanism of which an accountant knows: whole runs of a
 * phase, and steps of identity under poisson and cyclic_poisson sampling. Each to a tolerance of 1e-2, or the job's if that is
 * more. A training that stops after a step between two points has spent at most what the next point says; a line between the two
 * may lie below the truth. Inside a phase of which only the last iterate is released every iterate is counted as released, and the
 * step before its end has a point: a training that stops there releases another iterate, which may cost more than the last one.
 * The query's three values are ignored; its accountant counts, and must serve the phases (eps_solve()).
 * Out: *points, by ascending steps, malloc'ed, the caller frees; *len. Returns as eps_solve(); EPS_UNSUPPORTED where a number of
 * steps or runs is asked for.
 */
EPS_API EPS_MUST_USE enum eps_status eps_spend(const struct eps_context *context, struct eps_spend_point **points,
                                               size_t *len, struct eps_error *error, const struct eps_job *job,
                                               double noise_multiplier, double delta);
/* ---------------------------------------------------------------- plans */

/*
 * Which mechanism to train with: what is fixed, and between what there is a choice. Of the numbers of steps and of epochs one
 * list has something; each is tried with each batch size. Arrays are borrowed.
 */
struct eps_plan {
    const size_t *n; /* numbers of steps, n_len of them */
    size_t n_len;
    const double *epochs; /* passes over the data, epochs_len of them: n = ceil(epochs dataset_size/batch_size) */
    size_t epochs_len;
    const uint64_t *batch_sizes; /* batch_sizes_len of at least one */
    size_t batch_sizes_len;
    uint64_t dataset_size;
    double epsilon; /* in [0, 1e4] */
    double delta;   /* in [1e-300, 1) */
    struct eps_workload workload;
    enum eps_objective objective; /* the error that is to be small, and that optimised families make small */
    enum eps_adjacency adjacency;
    size_t max_bands;  /* rows of noise that fit, the present one included; 0: any number */
    uint32_t schemes;  /* bits 1u << enum eps_scheme: what the data loader can do; 0: every one */
    uint32_t families; /* bits 1u << enum eps_family; 0: every one that has no numbers to be given */
};

/* A mechanism that a plan tries, or why it cannot. */
struct eps_plan_candidate {
    struct eps_job job; /* asks for the noise multiplier; its arrays are those of the plan */
    size_t bands;       /* of the matrix, where it is one of its parameters; else 0 */
    size_t buffers;     /* rows of noise that a trainer keeps from one step to the next */
    size_t pair;        /* of its sizes: those of one pair do the same training, whatever n their scheme makes of it */
    bool bounded;       /* eps_plan_least() may know more than 0 */
    bool reference;     /* it is DP-SGD: the identity under Poisson sampling */
    enum eps_status status; /* EPS_OK; else why it is not tried */
    char reason[480];       /* "" with EPS_OK */
};

enum { EPS_PLAN_PAIRS_MAX = 8 }; /* batch sizes times numbers of steps */

/* Prefix sums, zero_out, mean_squared, every scheme and family; the lists empty, the numbers NAN or 0. */
EPS_API void eps_plan_init(struct eps_plan *plan);

/* As eps_job_check(): pointers are "/n", "/batch_size/1" (the list's second), "/workload/momentum"... */
EPS_API size_t eps_plan_check(const struct eps_plan *plan, size_t max_n, eps_report_fn *report, void *user);

/*
 * The mechanisms to try: families by bands (2, 4, 8... and n, where they are optimised up to n/4; blt by 1, 2, 4 and 8
 * buffers) by schemes, for every batch size and number of steps, those that fit max_bands and that some accountant serves,
 * as far as that shows without computing their strategies. They are in the order in which to solve them: DP-SGD, those that
 * take little time, the others by theirs, and last those whose strategy takes long; of the cheap and of the others, those
 * that eps_plan_least() may rule out come after those that it may not. With bins, n becomes the nearest number of steps that
 * fills whole epochs, if that differs from it by a twentieth at most. A candidate's job asks `auto`; where bad events are
 * optimised at length, with a given share of them and a wider tolerance, which costs a few thousandths of the noise; or, where
 * all that it would run takes more than the candidate's share of what a plan may cost, the first of those that amplify which
 * does not; none: EPS_TOO_COSTLY. Of a scheme or a family none of which can be tried there is one candidate that cannot, with
 * its reason.
 * Returns EPS_OK and *candidates, which the caller frees; EPS_INVALID (the first of eps_plan_check()), EPS_CANCELED,
 * EPS_TIMEOUT, EPS_NO_MEMORY. context may be NULL; its limits decide, too, what is too costly. Cost: O(n) a candidate.
 */
EPS_API EPS_MUST_USE enum eps_status eps_plan_candidates(const struct eps_context *context,
                                                         struct eps_plan_candidate **candidates, size_t *len,
                                                         struct eps_error *error, const struct eps_plan *plan,
                                                         size_t max_n);

/*
 * What no answer to a candidate's job can have less of: a lower bound on its error, by the objective, that holds for every
 * accountant; 0 where nothing is known. A candidate whose bound is no less than what another one of its pair has need not be solved.
 * Computes the strategy (through the context's cache, where solving the job finds it again). EPS_OK and *least, or as
 * eps_strategy_create(); EPS_UNSUPPORTED also where the error is not defined.
 */
EPS_API EPS_MUST_USE enum eps_status eps_plan_least(const struct eps_context *context, double *least,
                                                    struct eps_error *error, const struct eps_job *job,
                                                    enum eps_objective objective);

/* ---------------------------------------------------------------- the strategy as computed */

/* C, scaled by the job's normalization. Immutable once made; any number of threads may read it. */
struct eps_strategy;

enum eps_part { EPS_PART_ENCODER, EPS_PART_DECODER, EPS_PART_NOISE, EPS_PART_COUNT }; /* C, B = A C^-1, C^-1 */
EPS_API const char *eps_part_name(enum eps_part part);

/*
 * Computes the job's strategy (through the context's cache where it was optimised).
 * Returns EPS_OK and *strategy, which the caller releases with eps_strategy_destroy(); EPS_INVALID,
 * EPS_UNSUPPORTED, EPS_TOO_COSTLY, EPS_CANCELED, EPS_TIMEOUT, EPS_NO_MEMORY.
 */
EPS_API EPS_MUST_USE enum eps_status eps_strategy_create(const struct eps_context *context,
                                                         struct eps_strategy **strategy, struct eps_error *error,
                                                         const struct eps_mechanism *mechanism);
EPS_API void eps_strategy_destroy(struct eps_strategy *strategy);

/* Makes the matrix a stored factorisation, as it was scaled: of this id, 64 lower-case hexadecimal digits and NUL. */
EPS_API void eps_matrix_stored(struct eps_matrix *matrix, const char *id);

/*
 * Makes the mechanism that of a stored factorisation alone, for what needs no more of it than the strategy: its n, its
 * matrix, and one participation without sampling. Workload and adjacency stay as they are.
 * Returns EPS_OK; EPS_INVALID (the context's cache has none of this id, or what is kept of it cannot be read). Cost:
 * one reading.
 */
EPS_API EPS_MUST_USE enum eps_status eps_stored_mechanism(const struct eps_context *context,
                                                          struct eps_mechanism *mechanism, struct eps_error *error,
                                                          const char *id);

EPS_API size_t eps_strategy_rows(const struct eps_strategy *strategy);    /* rows of C */
EPS_API size_t eps_strategy_columns(const struct eps_strategy *strategy); /* n */
EPS_API size_t eps_strategy_bands(const struct eps_strategy *strategy);   /* bandwidth as found */
EPS_API bool eps_strategy_is_toeplitz(const struct eps_strategy *strategy);
EPS_API const char *eps_strategy_id(const struct eps_strategy *strategy);        /* content hash, 64 hex digits */
EPS_API size_t eps_strategy_iterations(const struct eps_strategy *strategy);     /* of the optimiser; 0: none */
EPS_API double eps_strategy_optimality_gap(const struct eps_strategy *strategy); /* relative, certified; NAN: none */

/* blt: the number of buffers, 0 for other families. Down the first column C[t, 0] = C[0, 0] times the sum of scale
 * decay^(t-1), t >= 1: the numbers that a given BLT is asked for by, and what a trainer keeps for its noise x = C^-1 z. One
 * buffer a decay, all 0 at first (and with every stamp): y_t = z_t - sum of scale times buffer, buffer <- decay times
 * buffer + y_t, x_t = y_t / C[0, 0]. *decay and *scale (each may be NULL) are borrowed from the strategy. */
EPS_API size_t eps_strategy_blt(const struct eps_strategy *strategy, const double **decay, const double **scale);

/*
 * The shape of a part of the factorisation: rows x columns. EPS_UNSUPPORTED where the part is not defined
 * (no inverse, or a decoder that this build does not compute).
 */
EPS_API EPS_MUST_USE enum eps_status eps_strategy_shape(const struct eps_strategy *strategy, struct eps_error *error,
                                                        enum eps_part part, size_t *rows, size_t *columns);

/* Toeplitz strategies: the first `len` <= n numbers of the part's first column. EPS_UNSUPPORTED if the part is
 * not Toeplitz. Cost O(len * bands) or O(len log len). */
EPS_API EPS_MUST_USE enum eps_status eps_strategy_coefficients(const struct eps_strategy *strategy,
                                                               double *coefficients, struct eps_error *error,
                                                               enum eps_part part, size_t len);

/* Row `row` of the part: out has its number of columns. For streaming a matrix of any kind. */
EPS_API EPS_MUST_USE enum eps_status eps_strategy_row(const struct eps_strategy *strategy, double *out,
                                                      struct eps_error *error, enum eps_part part, size_t row);

/* Row `row` of C by its bands: out[d] = C[row, row - d] for d < eps_strategy_bands(strategy), 0 where d > row. For
 * streaming a banded C of any length, which by its rows would take n x n numbers. EPS_UNSUPPORTED where C is not square
 * and lower triangular (trees, fourier, a dense C with entries above its diagonal). Cost O(bands). */
EPS_API EPS_MUST_USE enum eps_status eps_strategy_band_row(const struct eps_strategy *strategy, double *out,
                                                           struct eps_error *error, size_t row);

/* Per-step variance of A C^-1 z at sigma = 1: out has n numbers. EPS_UNSUPPORTED where it is not defined. */
EPS_API EPS_MUST_USE enum eps_status eps_strategy_variance(const struct eps_context *context,
                                                           const struct eps_strategy *strategy, double *out,
                                                           struct eps_error *error);

/* ---------------------------------------------------------------- noise */

/* A stream of correlated noise: the rows of C^-1 z (part noise) or of B z = A C^-1 z (part decoder), one after the
 * other, for `dimensions` coordinates at once; z ~ N(0, sigma^2 I) has as many rows as C, and the coordinates are
 * independent. Where C is not square, the left inverse of its decoder stands for C^-1. */
struct eps_noise;

/*
 * Starts such a stream. z comes from ChaCha20 under the key: whoever knows the key knows the noise, so that what is
 * released needs 256 bits of the operating system's for each stream, used once (two streams of one key give away their
 * difference), and forgotten; the same key, strategy, part, sigma and number of dimensions give the same noise again.
 * Normals are by Box and Muller, each off by a few units of rounding: as with every Gaussian in floating point, the
 * lowest bits of what is released may tell more than the mechanism does on real numbers (Mironov 2012).
 *
 * In: sigma in [0, 1e9], the noise multiplier; dimensions in [1, 2^31 - 1]; key is copied. The strategy must outlive
 * the stream.
 * Returns EPS_OK and *noise, which the caller releases with eps_noise_destroy(); EPS_INVALID (a range, or part
 * encoder); EPS_UNSUPPORTED (C has no inverse that doubles can hold); EPS_TOO_COSTLY (over the context's limits: no way
 * to draw it fits in max_bytes, or it takes more than max_operations, in multiplications); EPS_NO_MEMORY.
 * Memory: rows of `dimensions` numbers: for C^-1 bands - 1 of C, or as many as C^-1 has, the buffers of a BLT, the
 * height of a tree (twice that with its full decoder); else, and where this is less work, panels of 64 MiB and n
 * numbers. For B two more (prefix sums, momentum), or one a coefficient.
 */
EPS_API EPS_MUST_USE enum eps_status eps_noise_create(const struct eps_context *context, struct eps_noise **noise,
                                                      struct eps_error *error, const struct eps_strategy *strategy,
                                                      enum eps_part part, double sigma, size_t dimensions,
                                                      const uint8_t key[32]);
/* Wipes the key. */
EPS_API void eps_noise_destroy(struct eps_noise *noise);

/*
 * What such a stream takes: all its rows, in multiplications, and the bytes that it holds, those of the strategy among
 * them.
 * Returns as eps_noise_create(), which it foretells under the same context; EPS_NO_MEMORY too.
 * Out: operations, bytes: written on EPS_OK; may be NULL. Cost: that of inverting the strategy's block, once.
 */
EPS_API EPS_MUST_USE enum eps_status eps_noise_cost(const struct eps_context *context, struct eps_error *error,
                                                    const struct eps_strategy *strategy, enum eps_part part,
                                                    size_t dimensions, double *operations, double *bytes);

/*
 * The next row: row 0 first, n in all; out has `dimensions` numbers. Returns EPS_OK; EPS_INVALID after the last;
 * EPS_CANCELED, EPS_TIMEOUT (as the context says; the stream can then only be destroyed), EPS_NO_MEMORY. Cost: a row at
 * a time, but where panels are used all at the first row of each.
 */
EPS_API EPS_MUST_USE enum eps_status eps_noise_row(const struct eps_context *context, struct eps_noise *noise,
                                                   double *out, struct eps_error *error);

/*
 * Has the stream go on at a later row, with the very bits that it has where every row is drawn, for the price of those rows
 * alone on which it depends: all, where each takes in the one before; the last few, where C^-1 has so many bands; those of
 * a panel; none, where C is diagonal.
 *
 * In: row in [the next row, n - 1].
 * Returns EPS_OK and *from, at most `row`: that row is the next. *from to row - 1 are to be drawn by eps_noise_row() and thrown
 * away, for their numbers mean nothing. EPS_INVALID (the range).
 */
EPS_API EPS_MUST_USE enum eps_status eps_noise_skip(struct eps_noise *noise, size_t row, size_t *from,
                                                    struct eps_error *error);

/* ---------------------------------------------------------------- batches */

/* Which users each example belongs to. Borrowed: it must outlive what was made with it. */
struct eps_users {
    const uint64_t *begin; /* example j is of user[begin[j]] .. user[begin[j + 1] - 1], one at least; begin[0] = 0 */
    const uint32_t *user;  /* each under len; the same one may stand twice with an example */
    size_t len;            /* how many users there are */
};

/* One step's. */
struct eps_batch {
    size_t step;             /* from 0 on */
    const uint32_t *indices; /* the examples, ascending, each under dataset_size; may be NULL where there are none */
    size_t len;
    size_t truncated; /* how many were drawn beyond max_batch_size, and left out */
};

/*
 * Fills in the defaults of the sampling that depend on its other members and on n, and dataset_size, from which they
 * follow, if the sampling needs it and has none. Nothing is taken from the matrix: groups, and the separation of
 * b_min_sep, must be given, for batches of another separation than the one accounted for would void the guarantee.
 * Idempotent.
 */
EPS_API void eps_batches_defaults(struct eps_mechanism *mechanism, uint64_t dataset_size);

/*
 * Whether batches can be formed: eps_job_check()'s rules of n and the sampling (the rest of the mechanism is not looked
 * at), and dataset_size, of 1 .. 2^32 - 1 examples; 0: that of the sampling, and where both are given they agree.
 * Reports every violation, and returns their number.
 */
EPS_API size_t eps_batches_check(const struct eps_mechanism *mechanism, uint64_t dataset_size, size_t max_n,
                                 eps_report_fn *report, void *user);

/* What forming these batches takes, about: operations, of which each example that is drawn is one, and bytes of memory,
 * O(dataset_size) at most. They must have passed eps_batches_check(); users as for eps_batcher_create(). */
EPS_API void eps_batches_cost(const struct eps_mechanism *mechanism, uint64_t dataset_size,
                              const struct eps_users *users, double *operations, double *bytes);

/* Batches under way. Thread-compatible. */
struct eps_batcher;

/*
 * Begins to form the batches of the mechanism's n steps: exactly what a result's assumptions say is sampled, with the
 * distribution that eps_solve() accounts for. All randomness is ChaCha20's under `key` (32 bytes, which are copied, and
 * wiped in the end): the same key gives the same batches, on every machine. For a guarantee the key must be drawn from
 * the operating system, be known to nobody, and serve once: who knows it knows who took part when.
 *
 * Schemes: poisson; cyclic_poisson (each example is put into a group of its own drawing; with truncation, whose guarantee
 * depends on their sizes, into equal groups); balls_in_bins; b_min_sep; and none as a data loader does it: the examples
 * in one random order, whose batches go round, or with schema shuffled in a new one each epoch. A batch over
 * max_batch_size loses a uniformly random part of itself.
 * users: for examples_per_user > 1, needed by b_min_sep: an example is left out where another of one of its users was
 * drawn in the separation - 1 steps before (BMS, algorithm 3), and a user of fewer examples counts as having empty ones
 * beside them. NULL: none.
 *
 * Returns EPS_OK and *batcher, which the caller releases with eps_batcher_destroy(); EPS_INVALID with the first
 * violation of eps_batches_check(), or where users are missing or wrong; EPS_NO_MEMORY.
 * Cost: O(dataset_size), less for poisson.
 */
EPS_API EPS_MUST_USE enum eps_status eps_batcher_create(struct eps_batcher **batcher, struct eps_error *error,
                                                        const struct eps_mechanism *mechanism, uint64_t dataset_size,
                                                        const struct eps_users *users, const uint8_t key[32]);
EPS_API void eps_batcher_destroy(struct eps_batcher *batcher);

/*
 * The next step's batch. Its indices are the batcher's, until the next call.
 * Returns EPS_OK and *batch; EPS_INVALID after n steps; EPS_NO_MEMORY, after which the batcher is of no more use.
 * Cost: O(examples drawn); at the first step of an epoch, where bins or orders are drawn anew, O(dataset_size).
 */
EPS_API EPS_MUST_USE enum eps_status eps_batcher_next(struct eps_batcher *batcher, struct eps_batch *batch,
                                                      struct eps_error *error);

#ifdef __cplusplus
}
#endif
#endif
