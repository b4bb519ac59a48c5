/*
 * libepsilon: differential-privacy accounting for correlated noise and amplification by sampling.
 *
 * The mechanism is y = C x + z with z ~ N(0, sigma^2 I). C is the strategy (encoder), x_i is the clipped contribution
 * of step i (clip norm 1), and sigma is the noise multiplier. A job fixes two of epsilon, delta and the noise
 * multiplier; eps_solve() returns the third as a proven upper bound. The bound covers both directions (remove: H(P||Q),
 * add: H(Q||P)) and comes with a bracket that bounds the numerical error. Epsilon is in nats.
 *
 * Conventions. Steps and indices count from 0. NAN marks an absent real number and 0 an absent integer, unless a member
 * says otherwise. Functions that can fail return enum eps_status and write their outputs only on EPS_OK. An error
 * argument may be NULL. Destroy functions accept NULL. Objects are thread-compatible: one thread at a time may use an
 * object, and threads may use different objects concurrently.
 *
 * Global state. The library keeps none of its own except FFTW's planner, which it locks. The first call that computes
 * something turns off GSL's error handler, once per process, because the default handler aborts. A handler that the
 * caller installed earlier is kept, and must return. Callers need not use GSL themselves.
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

/* The version of this header. eps_version() returns that of the linked library. */
#define EPS_VERSION "0.1.0"

/* Raised with every change that can alter a result. Part of every cache key. */
#define EPS_ACCOUNTING_VERSION 24

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
    EPS_INVALID,      /* the job violates a rule; the error names the member and the rule */
    EPS_UNSUPPORTED,  /* the job is valid, but no accountant of this build serves it */
    EPS_TOO_COSTLY,   /* the estimated operations or bytes exceed the context's limits */
    EPS_UNATTAINABLE, /* no finite answer exists */
    EPS_CANCELED,     /* the context's canceled() returned true */
    EPS_TIMEOUT,      /* the context's expired() returned true */
    EPS_NO_MEMORY,
    EPS_INTERNAL, /* a defect of this library */
    EPS_STATUS_COUNT
};

/* Why a call failed. `pointer` is the JSON Pointer of the offending member ("/sampling/p"), or "" for the whole job. */
struct eps_error {
    enum eps_status status;
    char pointer[96];
    char message[480];
    double operations; /* EPS_TOO_COSTLY: the estimated operations and bytes; else 0 */
    double bytes;
    /* EPS_UNSUPPORTED: accountants that serve a similar job, as bits 1u << enum eps_accountant; else 0 */
    uint32_t accountants;
};

/* ---------------------------------------------------------------- names */

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
    EPS_NORMALIZATION_MAX_COLUMN,  /* C divided by its largest column norm */
    EPS_NORMALIZATION_NONE,        /* C as the family defines it */
    EPS_NORMALIZATION_SENSITIVITY, /* C divided by its sensitivity under the job's participation */
    EPS_NORMALIZATION_COUNT
};

enum eps_objective { EPS_OBJECTIVE_MEAN_SQUARED, EPS_OBJECTIVE_MAX_SQUARED, EPS_OBJECTIVE_COUNT };

/* What an optimised C minimises: its error at a fixed sensitivity, as if there were no amplification; or its error at
 * the noise multiplier that the whole job needs, sampling included. */
enum eps_optimize_for { EPS_OPTIMIZE_FOR_ERROR, EPS_OPTIMIZE_FOR_JOB, EPS_OPTIMIZE_FOR_COUNT };

enum eps_decoder {
    EPS_DECODER_DEFAULT, /* the family has no choice, or its default */
    EPS_DECODER_ONLINE,  /* tree: Honaker's estimator from below */
    EPS_DECODER_FULL,    /* tree: the pseudoinverse */
    EPS_DECODER_OPTIMAL, /* fourier: the pseudoinverse of the encoder */
    EPS_DECODER_STANDARD,
    EPS_DECODER_COUNT
};

enum eps_workload_type { EPS_WORKLOAD_PREFIX_SUM, EPS_WORKLOAD_MOMENTUM, EPS_WORKLOAD_TOEPLITZ, EPS_WORKLOAD_COUNT };

enum eps_scheme {
    EPS_SCHEME_NONE,           /* no sampling: (k,b)-participation */
    EPS_SCHEME_POISSON,        /* at each step, independently, with probability p */
    EPS_SCHEME_CYCLIC_POISSON, /* groups of the data set take turns; Poisson sampling within each group */
    EPS_SCHEME_BALLS_IN_BINS,  /* one uniformly random batch per epoch, by default the same one in every epoch */
    EPS_SCHEME_B_MIN_SEP,      /* Poisson, with participations at least `separation` steps apart */
    EPS_SCHEME_COUNT
};

enum eps_schema { EPS_SCHEMA_FIXED_ORDER, EPS_SCHEMA_MIN_SEPARATION, EPS_SCHEMA_SHUFFLED, EPS_SCHEMA_COUNT };

enum eps_adjacency { EPS_ADJACENCY_ZERO_OUT, EPS_ADJACENCY_ADD_REMOVE, EPS_ADJACENCY_REPLACE_ONE, EPS_ADJACENCY_COUNT };

enum eps_accountant {
    EPS_ACCOUNTANT_AUTO,
    EPS_ACCOUNTANT_GAUSSIAN,
    /* under balls_in_bins exact only if no two bins share a row and all have the same norm; otherwise a bound */
    EPS_ACCOUNTANT_PLD,
    EPS_ACCOUNTANT_MMCC,
    EPS_ACCOUNTANT_RENYI,
    EPS_ACCOUNTANT_CONDITIONAL_COMPOSITION,
    EPS_ACCOUNTANT_QUADRATURE,
    EPS_ACCOUNTANT_GROUP_PRIVACY, /* replace_one under sampling */
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
    EPS_SOLVE_N,    /* the largest number of steps that satisfies epsilon and delta */
    EPS_SOLVE_RUNS, /* the largest number of runs of one phase */
    EPS_SOLVE_COUNT
};

/* How a result is guaranteed, from strongest to weakest. A result has the weaker guarantee of its two directions.
 * deterministic: always. estimate_verify_release: the verified mechanism satisfies (epsilon, delta)-DP, the
 * probability that verification fails included in delta. high_probability: except with the probability stated in
 * eps_draws. */
enum eps_guarantee {
    EPS_GUARANTEE_DETERMINISTIC,
    EPS_GUARANTEE_ESTIMATE_VERIFY_RELEASE,
    EPS_GUARANTEE_HIGH_PROBABILITY,
    EPS_GUARANTEE_COUNT
};

/* Returns the version of the linked library, which equals EPS_VERSION if it matches this header. Static. */
EPS_API const char *eps_version(void);

/* Returns a status as a word for logs ("ok", "invalid", "too_costly"...), or NULL if out of range. Static. */
EPS_API const char *eps_status_name(enum eps_status status);

/* Returns the name of a value in JSON ("square_root", "b_min_sep", "pld", "remove", "epsilon"...), or NULL if out of
 * range. Static. */
EPS_API const char *eps_family_name(enum eps_family family);
EPS_API const char *eps_normalization_name(enum eps_normalization normalization);
EPS_API const char *eps_objective_name(enum eps_objective objective);
EPS_API const char *eps_optimize_for_name(enum eps_optimize_for optimize_for);
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

/* The strategy C. Arrays are borrowed: they must outlive every call that uses the job. Their entries lie in [-1e100,
 * 1e100]. The largest magnitude among the coefficients, or among the rows, is 0 or at least 1e-100. */
struct eps_matrix {
    enum eps_family family;
    enum eps_normalization normalization;
    size_t stamps; /* C of n/stamps steps, repeated down the diagonal; divides n; default 1 */
    /* toeplitz: the first column, of which 1 to n entries are given and the rest are 0; banded_inverse: that of C^-1,
     * as many numbers as bands, or none if it is optimised */
    const double *coefficients;
    size_t coefficients_len;
    const double *rows; /* dense: rows_n x rows_n, row-major, upper triangle included */
    size_t rows_n;
    size_t bands;          /* bandwidth; square_root (default n), inverse_square_root, banded, banded_inverse */
    bool toeplitz;         /* banded: whether C is Toeplitz; default true */
    bool column_normalize; /* banded with toeplitz: divide each column by its norm; default false */
    size_t buffers;        /* blt, optimised: the number of buffers; 0 if decay and scale are given */
    const double *decay;   /* blt, given: decay and scale of each buffer; decays in (0, 1) */
    const double *scale;
    size_t blt_len;
    bool nonnegative;         /* optimal: require every entry of X = C^T C to be >= 0; default true */
    enum eps_decoder decoder; /* tree, fourier */
    char stored_id[65];       /* stored: the id of a factorisation, 64 lower-case hexadecimal digits; else "" */
    /* Optimised families only (banded, banded_inverse, blt with buffers, optimal): */
    enum eps_objective objective;
    double gap;    /* relative gap in the loss at which the optimiser stops, in [1e-12, 1); default 1e-3 */
    size_t epochs; /* participation to optimise for, within one stamp; default: the job's, if there is one stamp */
    size_t separation;
    /* banded with toeplitz, banded_inverse, and blt with up to 6 buffers, in a job that samples and solves for the
     * noise multiplier; default error. With job, epochs and separation only say where the search starts, and only
     * eps_solve() and what takes a whole job compute C, which is of the family. */
    enum eps_optimize_for optimize_for;
};

/* The matrix A of the linear queries. Its coefficients obey the limits of those in eps_matrix, and are borrowed
 * likewise. */
struct eps_workload {
    enum eps_workload_type type;
    double momentum;            /* momentum: the momentum parameter, in [0, 1) */
    double decay;               /* momentum: the weight decay factor per step, in (0, 1]; default 1 */
    bool cooldown;              /* momentum: the learning rate falls linearly from step cooldown_from * n to step n */
    double cooldown_from;       /* a fraction of n, in [0, 1] */
    double cooldown_to;         /* the learning rate at step n as a fraction of the initial one, in [0, 1] */
    const double *coefficients; /* toeplitz: the first column, of which 1 to n entries are given and the rest are 0 */
    size_t coefficients_len;
};

/* How an example participates. Give either p, or batch_size and dataset_size, from which p is derived. In place of
 * p, balls_in_bins has bins, and none has epochs and separation. */
struct eps_sampling {
    enum eps_scheme scheme;
    double p;              /* participation probability, in [1e-20, 1]; NAN: derived from batch_size and dataset_size */
    size_t bins;           /* balls_in_bins: batches per epoch; 0: derived from batch_size and dataset_size */
    uint64_t batch_size;   /* expected batch size; scheme none: the exact one; 0: absent */
    uint64_t dataset_size; /* number of examples; 0: absent */
    size_t epochs;         /* none: k, default ceil(n batch_size/dataset_size), or 1 if the sizes are absent */
    /* none: b, default floor(dataset_size/batch_size), or floor(n/k); b_min_sep: default the matrix's bands */
    size_t separation;
    enum eps_schema schema; /* none: the participation schema */
    size_t groups;          /* cyclic_poisson: number of groups; default the matrix's bands */
    bool redraw;            /* balls_in_bins: draw a new bin in every epoch; default false */
    bool warm_start;        /* b_min_sep: whether sampling starts in its steady state (warm start); default true */
    bool truncation;        /* poisson, cyclic_poisson, b_min_sep: limit the batch size */
    /* with truncation: the limit B >= 1; larger batches are cut to a uniformly random subset of B examples */
    uint64_t max_batch_size;
    size_t examples_per_user; /* poisson (group privacy), b_min_sep (multi-attribution): k >= 1; default 1 */
    bool last_iterate;        /* poisson with identity and linear losses: only the last iterate is released */
};

/* Tuning members that only some accountants accept. Giving one to another accountant is an error. */
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

/* The accountant and its tuning. An absent member has the value stated with it. */
struct eps_tuning {
    enum eps_accountant method; /* the accountant; default auto */
    /* target for the relative width of the bracket, in [1e-9, 0.1]; default 1e-3; below epsilon 1e-6 relative to
     * 1e-6 */
    double tolerance;
    double bad_event_share; /* mmcc, conditional_composition: delta_1/delta, in [1e-12, 1); NAN: optimised */
    unsigned max_order;     /* renyi: the largest order, in [2, 1e6]; 0: chosen */
    size_t bandwidth;       /* renyi under balls_in_bins: bandwidth of the Gram matrix; 0: chosen */
    uint64_t samples;       /* monte_carlo: number of samples, at most 2^40; 0: chosen */
    int64_t seed;           /* monte_carlo: in [0, 2^53]; -1: derived from the job */
    /* monte_carlo: delta'/delta, the verification threshold as a fraction of delta, in [1e-6, 1); default 1/2 */
    double threshold_share;
    enum eps_estimator estimator; /* monte_carlo: how samples are drawn; default auto */
    double max_seconds;           /* monte_carlo: time limit in seconds, in [1e-3, 1e9]; NAN: none */
    uint64_t audit; /* any accountant: number of samples for a statistical lower bound, at most 2^40; 0: none */
    uint32_t given; /* members that the caller set explicitly, as bits 1u << enum eps_tuning_member */
};

/* As a mechanism's n, or as the count of one phase: solve for the largest value that satisfies epsilon and delta. */
#define EPS_LARGEST SIZE_MAX

struct eps_mechanism {
    size_t n;      /* number of steps, >= 1; 0: eps_job_defaults() derives it from epochs; or EPS_LARGEST */
    double epochs; /* passes over the data, > 0: n = ceil(epochs dataset_size/batch_size); NAN: absent */
    struct eps_matrix matrix;
    struct eps_workload workload;
    struct eps_sampling sampling;
    enum eps_adjacency adjacency;
};

/* One phase of a training. eps_job_defaults() sets its adjacency and examples_per_user to the job's. */
struct eps_phase {
    struct eps_mechanism mechanism;
    /* in [1e-6, 1e6]; the phase's noise multiplier, in [1e-9, 1e9], is this times the job's; default 1 */
    double noise_scale;
    size_t count; /* number of runs, one after the other: >= 1, default 1; or EPS_LARGEST in one phase */
};

enum { EPS_PHASES_MAX = 256 };

/* Limits of the noise multiplier of every mechanism, phases included. */
#define EPS_NOISE_MULTIPLIER_LEAST 1e-9
#define EPS_NOISE_MULTIPLIER_MOST 1e9

/* What to solve for. Exactly two of epsilon, delta and noise_multiplier are given and the third is NAN. With
 * `curve`, only noise_multiplier is given. With EPS_LARGEST, all three are given. */
struct eps_query {
    double epsilon;          /* in [0, 1e4] */
    double delta;            /* in [1e-300, 1) */
    double noise_multiplier; /* in [1e-9, 1e9] */
    bool curve;
    struct eps_tuning accountant;
};

/*
 * A job: one mechanism, or a training of phases_len phases. With phases, only adjacency and sampling.examples_per_user
 * of `mechanism` are used; its other members keep the values set by eps_job_init(). An example may participate in every
 * phase. `phases` is borrowed like the arrays of matrices; eps_job_defaults() writes to it.
 */
struct eps_job {
    struct eps_mechanism mechanism;
    struct eps_phase *phases;
    size_t phases_len; /* 0: one mechanism; at most EPS_PHASES_MAX */
    struct eps_query query;
};

/* Sets every member of *job to its default, except defaults that depend on other members: identity, poisson with p =
 * NAN, zero_out, auto, n = 0, epochs, epsilon, delta and noise multiplier NAN, no phases. */
EPS_API void eps_job_init(struct eps_job *job);

/* Sets *phase likewise: the mechanism as in eps_job_init(), noise_scale 1, count 1. */
EPS_API void eps_phase_init(struct eps_phase *phase);

/*
 * Fills in defaults that depend on other members (n, epochs, separation, groups, bands...). A member is set only if it
 * is absent and its default can be derived. Idempotent. Call it after decoding and before eps_job_check().
 */
EPS_API void eps_job_defaults(struct eps_job *job);

/* Called once for each violation. `pointer` is a JSON Pointer such as "/matrix/coefficients/3". Both strings are
 * valid only during the call. */
typedef void eps_report_fn(void *user, const char *pointer, const char *message);

/*
 * Checks all ranges and all rules between members that can be checked without computing anything. Reports every
 * violation, not only the first. max_n limits n (0: 2^24). report may be NULL.
 * Returns the number of violations.
 */
EPS_API size_t eps_job_check(const struct eps_job *job, size_t max_n, eps_report_fn *report, void *user);

/* Returns what the job solves for. */
EPS_API enum eps_unknown eps_job_unknown(const struct eps_job *job);

/* Return whether this build computes the family, serves the scheme, or has the accountant. */
EPS_API bool eps_serves_family(enum eps_family family);
EPS_API bool eps_serves_scheme(enum eps_scheme scheme);
EPS_API bool eps_serves_accountant(enum eps_accountant accountant);

/* ---------------------------------------------------------------- the context */

/* A chunk of draws begins with their number, a double. */
enum eps_cache_kind { EPS_CACHE_FACTORIZATION, EPS_CACHE_PLD, EPS_CACHE_CHUNK, EPS_CACHE_KINDS };

enum { EPS_PORTION_BYTES = 160, EPS_PORTION_CHUNKS = 256 };

/* Chunks of draws that a computation needs, which another process can make for it: see eps_draw(). */
struct eps_portion {
    uint8_t run[32];                      /* all chunks of one run have this one */
    size_t chunks;                        /* at most EPS_PORTION_CHUNKS; 0: the run has ended */
    uint8_t keys[EPS_PORTION_CHUNKS][32]; /* of the chunks, for cache_get() */
    uint8_t bytes[EPS_PORTION_BYTES];     /* what eps_draw() must know of them, besides the job */
};

/*
 * Hooks and limits that the caller lends to a computation. Every hook may be NULL. `user` is passed to each hook. Hooks
 * may be called concurrently from the threads that parallel_for runs.
 */
struct eps_context {
    void *user;
    /* Reports progress. fraction is in [0, 1] and does not fall, except that concurrent calls may arrive out of
     * order. stage is a static word ("optimise", "search"). remaining_seconds is an estimate, or NAN if unknown.
     * Called at most a few times a second. */
    void (*progress)(void *user, double fraction, const char *stage, double remaining_seconds);
    /* Polled while computing, typically every few milliseconds and at least about once a second on an idle core.
     * Returning true ends the call with EPS_CANCELED. */
    bool (*canceled)(void *user);
    /* Polled likewise. Returning true ends the call with EPS_TIMEOUT. */
    bool (*expired)(void *user);
    /* Runs body(arg, i) exactly once for each i = 0..count-1, on any threads, and returns when all are done. Calls
     * nest: body may call parallel_for. NULL: the library uses only the calling thread. */
    void (*parallel_for)(void *user, size_t count, void (*body)(void *arg, size_t index), void *arg);
    /* Looks up a blob by its key. Returns true and a malloc'ed *blob, which the library frees, or false. */
    bool (*cache_get)(void *user, enum eps_cache_kind kind, const uint8_t key[32], void **blob, size_t *blob_len);
    /* Offers a blob to the cache. The hook copies what it keeps. */
    void (*cache_put)(void *user, enum eps_cache_kind kind, const uint8_t key[32], const void *blob, size_t blob_len);
    /* Announces chunks of draws before they are looked up by cache_get(), which may then wait for them. Those that it
     * does not find are drawn. A run that ends early does not look up all. Called only if the caches' hooks are there,
     * too. */
    void (*ahead)(void *user, const struct eps_portion *portion);
    double max_operations; /* 0: no limit */
    double max_bytes;      /* 0: no limit */
};

/* ---------------------------------------------------------------- the answer */

/* The bound of one accountant in one direction. */
struct eps_candidate {
    enum eps_accountant accountant;
    enum eps_direction direction;
    double value;           /* of the quantity solved for: a proven upper bound */
    unsigned order;         /* renyi: the order used; else 0 */
    unsigned moments;       /* renyi: the number of exact moments used; else 0 */
    double bad_event_share; /* mmcc, conditional_composition: delta_1/delta; else NAN */
};

/* Samples that monte_carlo drew for one direction. */
struct eps_draws {
    uint64_t samples; /* number of samples in the accepted estimate; 0: the direction was answered without sampling */
    double threshold; /* delta': the estimate was accepted because it is at most this */
    double estimate;  /* estimate of delta at the answer, rounded up */
    double standard_error;        /* of the estimate */
    double failure_probability;   /* probability of an estimate this low if delta exceeds its limit */
    uint64_t seed;                /* in [0, 2^53] */
    enum eps_estimator estimator; /* plain or tilted */
    double bound;                 /* M: upper bound on each value of the estimator; 1 for plain */
    double plain_samples;         /* approximate number of plain samples for the same accuracy */
};

/* A statistical lower bound for one direction, from samples. Never part of the guarantee. */
struct eps_audit {
    uint64_t samples; /* 0: no audit */
    double lower;     /* of epsilon if the job solves for epsilon, else of delta, at the answer; confidence 99.9% */
    double ratio;     /* the answer divided by `lower`; NAN if that is 0 */
};

/* What the answer would be without a proof, estimated from draws: it shows how loose a proven answer is. It guarantees
 * nothing. */
struct eps_unproven_estimate {
    double value;          /* of the quantity solved for, in the direction that decides */
    double standard_error; /* of the value, approximately */
    uint64_t samples;      /* number of samples that the value was read off; 0: there is no estimate */
    enum eps_direction direction;
};

struct eps_curve_point {
    double epsilon;
    double delta;  /* upper bound: the larger of the two directions */
    double lower;  /* lower bound on the larger direction */
    double remove; /* upper bounds by direction */
    double add;
};

enum eps_cache_state { EPS_CACHE_UNUSED, EPS_CACHE_MISS, EPS_CACHE_HIT };

/* The result for one phase. Phases are in the job's order. */
struct eps_phase_result {
    size_t count;                                 /* number of runs; the answer, if the job solves for it */
    enum eps_accountant composed[EPS_DIRECTIONS]; /* the accountant whose privacy loss distribution was composed */
    /* All runs of this phase as a job of their own: epsilon at the job's delta and the phase's noise multiplier.
     * NULL if this phase's delta is 0 or its count is 0. Borrowed from the result; equal phases share one. If the
     * job has more than 16 different phases, each is solved at tolerance 1e-2 and its bracket_lower is 0. */
    const struct eps_result *alone;
    /* 1 - (epsilon without this phase)/epsilon, in [0, 1]. An estimate, not a bound. NAN if the training has no
     * epsilon. */
    double share;
};

struct eps_result {
    enum eps_unknown solved_for;
    double epsilon; /* given or solved for; with a curve, epsilon and delta are NAN */
    double delta;
    double noise_multiplier;
    /* EPS_SOLVE_N, EPS_SOLVE_RUNS: the largest number, or 0 if none satisfies epsilon and delta; else 0. If the
     * other phases alone exceed the target, no count satisfies it, and epsilon is that of the other phases: larger
     * than the target. */
    size_t largest;
    /* Bracket of the value solved for. It bounds the numerical error: the exact value for the accountant's
     * dominating pair lies inside. NAN for a curve, and if monte_carlo gave the answer. */
    double bracket_lower;
    double bracket_upper;
    /* The pair is attained by the mechanism in both directions, so that the mechanism's exact value lies inside the
     * bracket */
    bool bracket_exact;
    /* Lower bound on the mechanism's exact value; if it comes from an audit, with confidence 99.9%. NAN: unknown. */
    double least;
    enum eps_guarantee guarantee;
    enum eps_accountant accountant;                  /* of the worse direction */
    struct eps_candidate directions[EPS_DIRECTIONS]; /* best candidate of each direction */
    struct eps_candidate *candidates;                /* all candidates */
    size_t candidates_len;
    struct eps_draws draws[EPS_DIRECTIONS];
    struct eps_audit audit[EPS_DIRECTIONS];
    /* If the answer is proven without draws and its bracket is not exact, and monte_carlo serves the job at a tenth of
     * its cost. Never part of the answer. */
    struct eps_unproven_estimate unproven_estimate;
    bool cut_short; /* max_seconds ended the computation; with more time the same job may get a different answer */
    enum eps_adjacency adjacency;
    bool adaptive;              /* the bound also holds for inputs that depend on earlier outputs */
    double p;                   /* participation probability in effect; NAN if the scheme has none */
    size_t bins;                /* balls_in_bins: number of bins; else 0 */
    double expected_batch_size; /* NAN if the dataset size is not known */
    double sensitivity;         /* of the scaled C under the job's participation and adjacency */
    /* static name of the rule used ("nonnegative_gram", "banded_columns"...); NULL if none */
    const char *sensitivity_rule;
    bool sensitivity_exact;
    char factorization_id[65]; /* content hash of the scaled C, lower-case hex */
    size_t iterations;         /* iterations of the optimiser; 0 if there was none */
    double optimality_gap;     /* certified relative gap of the optimiser; NAN if there is none */
    double *blt_decay;         /* blt: as eps_strategy_blt(), blt_len of each; else NULL */
    double *blt_scale;
    size_t blt_len;
    /* variance of A C^-1 z at this sigma: mean, maximum and last over steps; NAN if undefined */
    double error_mean_squared;
    double error_max_squared;
    double error_last_squared;
    char **assumptions; /* sentences */
    size_t assumptions_len;
    char **hints;
    size_t hints_len;
    struct eps_curve_point *curve; /* EPS_SOLVE_CURVE; else NULL */
    size_t curve_len;
    /* One result per phase of a training; NULL and 0 for a single mechanism. In the result of a training, members
     * that describe one mechanism (p, sensitivity, factorisation, error figures...) are absent; see phases[i].alone. */
    struct eps_phase_result *phases;
    size_t phases_len;
    struct eps_result **alone; /* the results that phases[i].alone points to, owned by this result */
    size_t alone_len;
    enum eps_cache_state cache_factorization;
    enum eps_cache_state cache_pld;
};

/*
 * Checks whether some accountant serves the job and estimates the cost, without solving it.
 *
 * Returns EPS_OK; EPS_INVALID (a rule of eps_job_check(), or one that needs the matrix: it is singular, or has a
 * negative entry although amplification needs a non-negative matrix); EPS_UNSUPPORTED; EPS_TOO_COSTLY; EPS_NO_MEMORY.
 * Out: operations, bytes: estimates; may be NULL. Cost: O(n), or that of building a given or closed-form strategy.
 * Never runs an optimiser.
 */
EPS_API EPS_MUST_USE enum eps_status eps_job_serves(const struct eps_context *context, struct eps_error *error,
                                                    const struct eps_job *job, double *operations, double *bytes);

/*
 * Solves the job for its unknown in both directions. Uses the accountant that the job names; with `auto`, the tightest
 * deterministic accountants that serve the job and fit the context's limits.
 *
 * In: a job that passes eps_job_check(); otherwise the call fails with EPS_INVALID and the first violation. context may
 * be NULL (no hooks, no limits).
 * Returns EPS_OK and *result, which the caller releases with eps_result_destroy(); any other status on failure. The
 * answer is the upper end of the bracket; for EPS_SOLVE_N and EPS_SOLVE_RUNS it is the lower end.
 */
EPS_API EPS_MUST_USE enum eps_status eps_solve(const struct eps_context *context, struct eps_result **result,
                                               struct eps_error *error, const struct eps_job *job);
EPS_API void eps_result_destroy(struct eps_result *result);

/*
 * Computes the privacy curve of the job's mechanism at noise_multiplier > 0: 201 equally spaced points from epsilon 0
 * to the epsilon at which delta falls below 1e-15. If the accountant spends part of delta on bad events, the curve ends
 * where delta is within 1% of that part. If delta is below 1e-15 from the start, the last epsilon is 1. Both directions
 * are computed up to the last point, as far as delta exceeds 1e-300. The query's epsilon, delta and noise multiplier
 * are ignored. Its accountant is used, at a tolerance of at least 1e-2; every point has its own bracket.
 *
 * Out: *points, malloc'ed, which the caller frees; *len. Returns as eps_solve(); EPS_UNATTAINABLE also if
 * noise_multiplier is not positive and finite.
 */
EPS_API EPS_MUST_USE enum eps_status eps_privacy_curve(const struct eps_context *context,
                                                       struct eps_curve_point **points, size_t *len,
                                                       struct eps_error *error, const struct eps_job *job,
                                                       double noise_multiplier);

/* Whether most of the job's time goes into draws that eps_draw() can make elsewhere. */
EPS_API bool eps_job_draws(const struct eps_job *job);

/*
 * Makes the draws of a portion that a computation of the same job has announced (struct eps_context), and offers them
 * to the cache. They are the same, to the bit, as that computation would make. bytes: of the portion; they may come
 * from another process of the same build. Returns as eps_solve(); EPS_INVALID: they are no draws of this job.
 */
EPS_API EPS_MUST_USE enum eps_status eps_draw(const struct eps_context *context, struct eps_error *error,
                                              const struct eps_job *job, const uint8_t bytes[EPS_PORTION_BYTES]);

/* Epsilon spent after `step` steps, counting the steps of all runs of all phases in order. */
struct eps_spend_point {
    uint64_t step;
    double epsilon; /* upper bound at the given delta, for this step and all steps since the previous point */
};

/*
 * Computes how epsilon grows during the job's training, at delta in (0, 1) and noise_multiplier > 0. There is a point
 * at the end of each phase and up to 200 equally spaced points in between. Points in between exist only where the steps
 * so far form a mechanism that an accountant serves: after whole runs of a phase, and after single steps of identity
 * under poisson or cyclic_poisson sampling. The tolerance is 1e-2, or the job's if that is larger.
 *
 * A training that stops between two points has spent at most the epsilon of the later point. Do not interpolate: a line
 * between two points is not a bound. Inside a phase that releases only its last iterate, every iterate is counted as
 * released, and the step before the end of the phase has a point. Stopping earlier releases a different iterate, which
 * may cost more than the last.
 *
 * The query's epsilon, delta and noise multiplier are ignored. Its accountant is used and must serve the phases (see
 * eps_solve()).
 * Out: *points, by ascending step, malloc'ed, which the caller frees; *len. Returns as eps_solve(); EPS_UNSUPPORTED
 * also if the job solves for a number of steps or runs.
 */
EPS_API EPS_MUST_USE enum eps_status eps_spend(const struct eps_context *context, struct eps_spend_point **points,
                                               size_t *len, struct eps_error *error, const struct eps_job *job,
                                               double noise_multiplier, double delta);

/* ---------------------------------------------------------------- plans */

/*
 * A plan: requirements on a training, from which candidate mechanisms are derived. Exactly one of n and epochs is a
 * non-empty list; each of its values is combined with each batch size, EPS_PLAN_PAIRS_MAX combinations at most. Arrays
 * are borrowed.
 */
struct eps_plan {
    const size_t *n; /* numbers of steps */
    size_t n_len;
    const double *epochs; /* passes over the data: n = ceil(epochs dataset_size/batch_size) */
    size_t epochs_len;
    const uint64_t *batch_sizes; /* expected batch sizes, at least one */
    size_t batch_sizes_len;
    uint64_t dataset_size;
    double epsilon; /* in [0, 1e4] */
    double delta;   /* in [1e-300, 1) */
    struct eps_workload workload;
    enum eps_objective objective; /* the error to minimise, also by optimised families */
    enum eps_adjacency adjacency;
    size_t max_bands;  /* number of noise rows that fit in memory, the current row included; 0: any number */
    uint32_t schemes;  /* bits 1u << enum eps_scheme: schemes that the data loader supports; 0: all */
    uint32_t families; /* bits 1u << enum eps_family; 0: all families that need no given coefficients */
    /* How many candidates are verified by draws once all are solved (eps_plan_verification()), at most
     * EPS_PLAN_VERIFIED_MOST; 0: none. The jobs of candidates then have a smaller delta than the plan, so that the best
     * one keeps the plan's although it was chosen after the draws. */
    unsigned verified;
};

/* A candidate of a plan, or the reason why it cannot be tried. */
struct eps_plan_candidate {
    struct eps_job job; /* solves for the noise multiplier; borrows the arrays of the plan */
    size_t bands;       /* bands of the matrix, if the family has that parameter; else 0 */
    size_t buffers;     /* noise rows that a trainer keeps between steps */
    /* index of the (batch size, length) pair; candidates of one pair do the same training, even if n is rounded */
    size_t pair;
    bool bounded;           /* eps_plan_least() may return more than 0 */
    bool reference;         /* the candidate is DP-SGD: identity with Poisson sampling */
    enum eps_status status; /* EPS_OK, or why the candidate is not tried */
    char reason[480];       /* "" with EPS_OK */
};

enum { EPS_PLAN_PAIRS_MAX = 8 };     /* batch sizes times lengths */
enum { EPS_PLAN_VERIFIED_MOST = 3 }; /* candidates that a plan verifies by draws */

/* Sets *plan to its defaults: prefix sums, zero_out, mean_squared, all schemes and families. Lists are empty and
 * numbers are NAN or 0. */
EPS_API void eps_plan_init(struct eps_plan *plan);

/* Checks a plan as eps_job_check() checks a job. Pointers are "/n", "/batch_size/1" (second entry),
 * "/workload/momentum"... */
EPS_API size_t eps_plan_check(const struct eps_plan *plan, size_t max_n, eps_report_fn *report, void *user);

/*
 * Lists the mechanisms to try for every batch size and length: families by bands (2, 4, 8... and n; optimised families
 * up to n/4; blt by 1, 2, 4 and 8 buffers) times schemes. Keeps those that fit max_bands and that some accountant
 * serves, as far as this is known without computing the strategy.
 *
 * Candidates are in the order in which to solve them: DP-SGD; cheap ones; the others by estimated cost; last, those
 * whose strategy is expensive. Within the cheap and the other group, candidates that eps_plan_least() may rule out come
 * last.
 *
 * Under balls_in_bins n becomes the nearest number of steps that fills whole epochs, if it differs from n by at most
 * 5%. A candidate's job names `auto`. If optimising the share of bad events is expensive, the job gets a fixed share
 * and a wider tolerance, which costs a few thousandths of the noise. If `auto` exceeds the candidate's share of a
 * plan's cost, the job names the first amplifying accountant that does not; if there is none, its status is
 * EPS_TOO_COSTLY. A scheme or a family of which no candidate can be tried is listed once, with the reason.
 *
 * In: max_n as for eps_job_check(). context may be NULL; its limits also decide what is too costly.
 * Returns EPS_OK and *candidates, malloc'ed, which the caller frees; EPS_INVALID (the first violation of
 * eps_plan_check()), EPS_UNSUPPORTED (candidates are to be verified, but draws can prove nothing for any of them),
 * EPS_CANCELED, EPS_TIMEOUT, EPS_NO_MEMORY. Cost: O(n) per candidate.
 */
EPS_API EPS_MUST_USE enum eps_status eps_plan_candidates(const struct eps_context *context,
                                                         struct eps_plan_candidate **candidates, size_t *len,
                                                         struct eps_error *error, const struct eps_plan *plan,
                                                         size_t max_n);

/* Turns the job of a candidate into the one that verifies it: the same question to monte_carlo, with this limit on the
 * time of the draws, in [1e-3, 1e9]. */
EPS_API void eps_plan_verification(struct eps_job *job, double max_seconds);

/*
 * Computes a lower bound on a candidate's error in the given objective that holds for every accountant, or 0 if nothing
 * is known. A candidate whose bound is at least the error already achieved by another candidate of its pair need not be
 * solved. Computes the strategy, through the context's cache, so that solving the job finds it there.
 *
 * In: a job that solves for the noise multiplier.
 * Returns EPS_OK and *least, or fails as eps_strategy_create() does; EPS_UNSUPPORTED also if the error is undefined.
 */
EPS_API EPS_MUST_USE enum eps_status eps_plan_least(const struct eps_context *context, double *least,
                                                    struct eps_error *error, const struct eps_job *job,
                                                    enum eps_objective objective);

/* ---------------------------------------------------------------- the computed strategy */

/* C, scaled by the job's normalization. Immutable: any number of threads may read it. */
struct eps_strategy;

enum eps_part { EPS_PART_ENCODER, EPS_PART_DECODER, EPS_PART_NOISE, EPS_PART_COUNT }; /* C, B = A C^-1, C^-1 */
EPS_API const char *eps_part_name(enum eps_part part);

/*
 * Computes the mechanism's strategy; an optimised one through the context's cache.
 *
 * Returns EPS_OK and *strategy, which the caller releases with eps_strategy_destroy(); EPS_INVALID, EPS_UNSUPPORTED,
 * EPS_TOO_COSTLY, EPS_CANCELED, EPS_TIMEOUT, EPS_NO_MEMORY.
 */
EPS_API EPS_MUST_USE enum eps_status eps_strategy_create(const struct eps_context *context,
                                                         struct eps_strategy **strategy, struct eps_error *error,
                                                         const struct eps_mechanism *mechanism);
EPS_API void eps_strategy_destroy(struct eps_strategy *strategy);

/* Sets *matrix to a stored factorisation, with the scaling it was stored with. id: 64 lower-case hexadecimal digits
 * and NUL; copied. */
EPS_API void eps_matrix_stored(struct eps_matrix *matrix, const char *id);

/*
 * Sets n and the matrix of *mechanism to those of a stored factorisation and its sampling to one participation without
 * sampling, for uses that need only the strategy. Workload and adjacency are unchanged.
 *
 * Returns EPS_OK; EPS_INVALID (the context's cache has no factorisation of this id, or its record is damaged). Cost:
 * one cache lookup.
 */
EPS_API EPS_MUST_USE enum eps_status eps_stored_mechanism(const struct eps_context *context,
                                                          struct eps_mechanism *mechanism, struct eps_error *error,
                                                          const char *id);

EPS_API size_t eps_strategy_rows(const struct eps_strategy *strategy);    /* rows of C */
EPS_API size_t eps_strategy_columns(const struct eps_strategy *strategy); /* n */
EPS_API size_t eps_strategy_bands(const struct eps_strategy *strategy);   /* bandwidth of C */
EPS_API bool eps_strategy_is_toeplitz(const struct eps_strategy *strategy);
/* content hash, 64 hexadecimal digits; borrowed */
EPS_API const char *eps_strategy_id(const struct eps_strategy *strategy);
EPS_API size_t eps_strategy_iterations(const struct eps_strategy *strategy);     /* of the optimiser; 0: none */
EPS_API double eps_strategy_optimality_gap(const struct eps_strategy *strategy); /* relative, certified; NAN: none */

/* Returns the number of buffers of a blt, or 0 for other families. *decay and *scale (each may be NULL) are borrowed
 * from the strategy. The first column is C[t, 0] = C[0, 0] times the sum over buffers of scale decay^(t-1), t >= 1.
 *
 * A trainer keeps one buffer per decay, all 0 at the start of each stamp, and computes the noise x = C^-1 z by
 *   y_t = z_t - sum of scale * buffer
 *   buffer <- decay * buffer + y_t
 *   x_t = y_t / C[0, 0]. */
EPS_API size_t eps_strategy_blt(const struct eps_strategy *strategy, const double **decay, const double **scale);

/* How x = C^-1 z is computed row by row; see eps_strategy_recurrence(). */
enum eps_recurrence_kind {
    EPS_RECURRENCE_IDENTITY, /* x_t = z_t / divisor */
    EPS_RECURRENCE_TOEPLITZ, /* x_t = (z_t - sum over d > 0 of numbers[d] x_(t-d)) / numbers[0] */
    EPS_RECURRENCE_COLUMNS,  /* the same with c(t - d, d) for numbers[d]; c(j, d): see width */
    EPS_RECURRENCE_BLT,      /* eps_strategy_blt() documents it; divisor is C[0, 0] */
    EPS_RECURRENCE_INVERSE,  /* x_t = sum over d of numbers[d] z_(t-d) */
    EPS_RECURRENCE_ROWS,     /* x_t = row t of C^-1 times z: eps_strategy_row() */
    EPS_RECURRENCE_COUNT
};

struct eps_recurrence {
    enum eps_recurrence_kind kind;
    size_t block;          /* steps, n / stamps: each block starts anew, with t = 0 and nothing before it */
    size_t block_rows;     /* rows of z of a block; block, unless C is not square */
    double divisor;        /* identity, blt */
    const double *numbers; /* toeplitz, columns, inverse: `len` of them; else NULL */
    size_t len;
    size_t width;        /* columns: numbers has len / width columns of this many, the last ones of a block, each from
                            the diagonal down: c(j, d) = C[j + d, j]. Columns before them equal the first of them. */
    const double *decay; /* blt: buffers of each; else NULL */
    const double *scale;
    size_t buffers;
};

/* Describes the recurrence that keeps the fewest rows, for a trainer that draws the noise itself. Pointers are borrowed
 * from the strategy. EPS_UNSUPPORTED if C has no inverse. */
EPS_API EPS_MUST_USE enum eps_status eps_strategy_recurrence(const struct eps_strategy *strategy,
                                                             struct eps_recurrence *recurrence,
                                                             struct eps_error *error);
EPS_API const char *eps_recurrence_name(enum eps_recurrence_kind kind);

/*
 * Returns the shape of a part of the factorisation. EPS_UNSUPPORTED if the part is undefined (no inverse) or this build
 * does not compute it.
 */
EPS_API EPS_MUST_USE enum eps_status eps_strategy_shape(const struct eps_strategy *strategy, struct eps_error *error,
                                                        enum eps_part part, size_t *rows, size_t *columns);

/* Writes the first `len` <= n entries of the first column of a Toeplitz part. EPS_UNSUPPORTED if the part is not
 * Toeplitz, or if an entry exceeds the range of doubles. Cost O(len bands) or O(len log len). */
EPS_API EPS_MUST_USE enum eps_status eps_strategy_coefficients(const struct eps_strategy *strategy,
                                                               double *coefficients, struct eps_error *error,
                                                               enum eps_part part, size_t len);

/* Writes row `row` of the part; out has as many entries as the part has columns. Works for every kind of matrix.
 * EPS_UNSUPPORTED if the part is undefined, or if an entry exceeds the range of doubles. */
EPS_API EPS_MUST_USE enum eps_status eps_strategy_row(const struct eps_strategy *strategy, double *out,
                                                      struct eps_error *error, enum eps_part part, size_t row);

/* Writes row `row` of C by bands: out[d] = C[row, row - d] for d < eps_strategy_bands(strategy), and 0 if d > row.
 * For streaming a long banded C, for which full rows would take n x n entries. EPS_UNSUPPORTED if C is not square
 * and lower triangular (tree, fourier, dense with entries above the diagonal). Cost O(bands). */
EPS_API EPS_MUST_USE enum eps_status eps_strategy_band_row(const struct eps_strategy *strategy, double *out,
                                                           struct eps_error *error, size_t row);

/* Writes the variance of A C^-1 z per step at sigma = 1; out has n entries. EPS_UNSUPPORTED if it is undefined. */
EPS_API EPS_MUST_USE enum eps_status eps_strategy_variance(const struct eps_context *context,
                                                           const struct eps_strategy *strategy, double *out,
                                                           struct eps_error *error);

/* ---------------------------------------------------------------- noise */

/* A stream of correlated noise: the rows of C^-1 z (part noise) or of B z = A C^-1 z (part decoder), in order, for
 * `dimensions` independent coordinates at once. z ~ N(0, sigma^2 I) has as many rows as C. If C is not square, the
 * left inverse of its decoder takes the place of C^-1. */
struct eps_noise;

/*
 * Starts a stream of noise. z is generated by ChaCha20 under the key. The same key, strategy, part, sigma and
 * dimensions give the same noise.
 *
 * Security: whoever knows the key knows the noise. For released data, draw 256 bits from the operating system for each
 * stream, use the key once, and erase it: two streams with the same key reveal their difference. Normals come from the
 * Box-Muller transform and are accurate to a few units of rounding. As with every Gaussian in floating point, the
 * lowest bits of the output may reveal more than the mechanism on real numbers does (Mironov 2012).
 *
 * In: sigma, the noise multiplier, in [0, 1e9]; dimensions in [1, 2^31 - 1]; key is copied. The strategy must outlive
 * the stream.
 * Returns EPS_OK and *noise, which the caller releases with eps_noise_destroy(); EPS_INVALID (an argument out of range,
 * or part encoder); EPS_UNSUPPORTED (C has no inverse representable in doubles); EPS_TOO_COSTLY (no method fits
 * max_bytes, or the stream takes more than max_operations multiplications); EPS_NO_MEMORY.
 * Memory: rows of `dimensions` doubles. For part noise their number is bands - 1 of C, the bands of C^-1, the buffers
 * of a BLT, or the height of a tree (twice that with the full decoder). If none of these applies, or if it is less
 * work, panels of 64 MiB and n doubles are kept instead. Part decoder adds two rows (prefix sums, momentum), or one per
 * coefficient of the workload.
 */
EPS_API EPS_MUST_USE enum eps_status eps_noise_create(const struct eps_context *context, struct eps_noise **noise,
                                                      struct eps_error *error, const struct eps_strategy *strategy,
                                                      enum eps_part part, double sigma, size_t dimensions,
                                                      const uint8_t key[32]);
/* Wipes the key and frees the stream. */
EPS_API void eps_noise_destroy(struct eps_noise *noise);

/*
 * Estimates the cost of a stream: multiplications for all rows, and bytes held, including those of the strategy.
 *
 * Out: operations, bytes: may be NULL. Returns as eps_noise_create() would under the same context. Cost: inverting the
 * block of the strategy once.
 */
EPS_API EPS_MUST_USE enum eps_status eps_noise_cost(const struct eps_context *context, struct eps_error *error,
                                                    const struct eps_strategy *strategy, enum eps_part part,
                                                    size_t dimensions, double *operations, double *bytes);

/*
 * Writes the next row of the stream, n rows in total; out has `dimensions` entries.
 *
 * Returns EPS_OK; EPS_INVALID after the last row; EPS_UNSUPPORTED if an entry exceeds the range of doubles;
 * EPS_CANCELED, EPS_TIMEOUT (after which the stream can only be destroyed); EPS_NO_MEMORY. Cost: one row per call; with
 * panels, the first row of a panel computes the whole panel.
 */
EPS_API EPS_MUST_USE enum eps_status eps_noise_row(const struct eps_context *context, struct eps_noise *noise,
                                                   double *out, struct eps_error *error);

/*
 * Moves the stream forward to a later row. The rows from there on are identical to those of a stream that draws every
 * row. Only the earlier rows that `row` depends on must still be drawn: all if each row depends on the previous one;
 * the last few if C^-1 is banded; those of the panel; none if C is diagonal.
 *
 * In: row in [the next row, n - 1].
 * Returns EPS_OK and *from <= row, which becomes the next row. Draw rows *from to row - 1 with eps_noise_row() and
 * discard them: their values are meaningless. EPS_INVALID (row out of range).
 */
EPS_API EPS_MUST_USE enum eps_status eps_noise_skip(struct eps_noise *noise, size_t row, size_t *from,
                                                    struct eps_error *error);

/* ---------------------------------------------------------------- batches */

/* The users that each example belongs to. Borrowed: it must outlive every object created with it. */
struct eps_users {
    /* example j belongs to users user[begin[j]] .. user[begin[j + 1] - 1], at least one; begin[0] = 0 */
    const uint64_t *begin;
    const uint32_t *user; /* each < len; an example may list the same user twice */
    size_t len;           /* number of users */
};

/* The batch of one step. */
struct eps_batch {
    size_t step;             /* counted from 0 */
    const uint32_t *indices; /* examples in ascending order, each < dataset_size; may be NULL if len is 0 */
    size_t len;
    size_t truncated; /* number of sampled examples dropped because of max_batch_size */
};

/*
 * Fills in defaults of the sampling that depend on its other members, on n and on dataset_size. Sets the sampling's
 * dataset_size if it is needed and absent. Takes nothing from the matrix: groups, and the separation of b_min_sep, must
 * be given, because batches of another separation than the accounted one would void the guarantee. Idempotent.
 */
EPS_API void eps_batches_defaults(struct eps_mechanism *mechanism, uint64_t dataset_size);

/*
 * Checks whether batches can be formed: the rules of eps_job_check() for n and the sampling (the rest of the mechanism
 * is ignored), and dataset_size in 1..2^32 - 1. dataset_size 0 means that of the sampling; if both are given they must
 * be equal. Reports every violation and returns their number. max_n as for eps_job_check().
 */
EPS_API size_t eps_batches_check(const struct eps_mechanism *mechanism, uint64_t dataset_size, size_t max_n,
                                 eps_report_fn *report, void *user);

/* Estimates the cost of forming all batches: operations, one per sampled example, and bytes, at most
 * O(dataset_size). The arguments must have passed eps_batches_check(); users as for eps_batcher_create(). */
EPS_API void eps_batches_cost(const struct eps_mechanism *mechanism, uint64_t dataset_size,
                              const struct eps_users *users, double *operations, double *bytes);

/* A stream of batches. Thread-compatible. */
struct eps_batcher;

/*
 * Starts forming the batches of the mechanism's n steps. They have exactly the distribution that eps_solve() accounts
 * for and that a result's assumptions describe. All randomness is ChaCha20 under `key` (32 bytes, copied, wiped on
 * destruction): the same key gives the same batches on every machine.
 *
 * Security: the guarantee holds only if the key is drawn from the operating system, kept secret and used once. Whoever
 * knows it knows which examples participated in which step.
 *
 * Schemes: poisson; cyclic_poisson (each example draws its group; with truncation, whose guarantee depends on the group
 * sizes, the groups are equal); balls_in_bins; b_min_sep; none, as a data loader does it: batches cycle through one
 * random order of the examples, or with schema shuffled through a new order in each epoch. A batch over max_batch_size
 * is cut to a uniformly random subset.
 * users: required by b_min_sep with examples_per_user > 1; otherwise may be NULL. No user has more than
 * examples_per_user examples. An example is left out if another example of one of its users was sampled in the previous
 * separation - 1 steps (BMS, algorithm 3). A user with fewer examples counts as having empty ones in addition.
 *
 * Returns EPS_OK and *batcher, which the caller releases with eps_batcher_destroy(); EPS_INVALID with the first
 * violation of eps_batches_check(), or if users are missing or invalid; EPS_NO_MEMORY. Cost: O(dataset_size), less for
 * poisson.
 */
EPS_API EPS_MUST_USE enum eps_status eps_batcher_create(struct eps_batcher **batcher, struct eps_error *error,
                                                        const struct eps_mechanism *mechanism, uint64_t dataset_size,
                                                        const struct eps_users *users, const uint8_t key[32]);
EPS_API void eps_batcher_destroy(struct eps_batcher *batcher);

/*
 * Forms the batch of the next step. batch->indices is owned by the batcher and valid until the next call.
 *
 * Returns EPS_OK and *batch; EPS_INVALID after n steps; EPS_NO_MEMORY, after which the batcher can only be destroyed.
 * Cost: O(sampled examples); O(dataset_size) at the first step of an epoch if bins or orders are drawn anew.
 */
EPS_API EPS_MUST_USE enum eps_status eps_batcher_next(struct eps_batcher *batcher, struct eps_batch *batch,
                                                      struct eps_error *error);

#ifdef __cplusplus
}
#endif
#endif
