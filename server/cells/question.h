/*
 * What a computation asks of the library, and the answer: a plain value, which may come from another process. The same
 * question has the same answer in this process and in another one of the same build, to the bit. Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_CELLS_QUESTION_H
#define SERVER_CELLS_QUESTION_H

#include "api/codec/codec.h"
#include "server/store/records.h"

enum question_kind {
    QUESTION_SOLVE, /* eps_solve() */
    QUESTION_CURVE, /* eps_privacy_curve() */
    QUESTION_SPEND, /* eps_spend() */
    QUESTION_LEAST, /* eps_plan_least() */
    QUESTION_DRAW,  /* eps_draw() */
    QUESTION_KINDS
};

/* Numbers that the kind does not use are 0. */
struct question {
    enum question_kind kind;
    const struct api_job *job;    /* borrowed */
    double noise_multiplier;      /* for a curve and a spend */
    double delta;                 /* for a spend */
    enum eps_objective objective; /* for a least error */
    const uint8_t *portion;       /* for draws: EPS_PORTION_BYTES, borrowed; else NULL */
};

/* A chunk of draws, for the cache. */
struct answer_chunk {
    uint8_t key[32];
    size_t len;
    void *bytes; /* owned */
};

/* Zero-initialise; free with answer_clear(). */
struct answer {
    struct eps_error error;       /* its status is EPS_OK if there is an answer */
    bool crashed;                 /* the error is that the process of the computation ended */
    double compute_seconds;       /* the CPU time of all threads, also of a failed computation */
    struct result_record *result; /* of QUESTION_SOLVE; its hash is that of nothing yet */
    struct eps_curve_point *curve;
    size_t curve_len;
    struct eps_spend_point *spend;
    size_t spend_len;
    double least;
    struct answer_chunk *chunks; /* of QUESTION_DRAW */
    size_t chunks_len;
};

/* Answers it in this process, by the library. seconds: the CPU time of the computation so far. */
void question_answer(const struct question *question, const struct eps_context *context, double (*seconds)(void *user),
                     void *user, struct answer *answer);
void answer_fail(struct answer *answer, enum eps_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Drops the chunks that are none of the portion, or are there before. Returns how many. */
size_t answer_keep_portion(struct answer *answer, const struct eps_portion *portion);
/* Frees what the answer has, unless the caller took it and set it to NULL. */
void answer_clear(struct answer *answer);

#endif
