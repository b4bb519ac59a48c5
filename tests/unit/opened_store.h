/*
 * A database of its own for each test of the store, and what most put into it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_OPENED_STORE_H
#define TESTS_UNIT_OPENED_STORE_H

#include <pthread.h>

#include "server/store/store.h"

enum { BLOB = 1000 }; /* bytes of each in the cache, which has four chunks */

struct place {
    char folder[64], path[96];
};

/* For TEST_WITH(): *state is a struct place. */
int set_up(void **state);
int tear_down(void **state);

struct store *open_store(const struct place *place, uint64_t cache_bytes, double keep);
/* Runs SQL beside the store; returns how many rows it changed. */
int edit(const struct place *place, const char *sql);

struct job_record record_new(unsigned number, enum job_status status);

/* A record that is being written. */
struct landing {
    struct store_insert insert; /* first */
    pthread_mutex_t mutex;
    pthread_cond_t landed;
    enum store_status status;
    bool done;
};

void insert_begin(struct store *store, struct landing *landing, const struct job_record *record, const char *key,
                  const char *request);
/* The same with an allowance. */
struct insert_terms {
    const char *key;
    const char *request;
    uint64_t most;
};
void insert_within(struct store *store, struct landing *landing, const struct job_record *record,
                   const struct insert_terms *terms);
enum store_status insert_wait(struct landing *landing);
void insert_now(struct store *store, const struct job_record *record);
void put_result(struct store *store, const char *hash);

#endif
