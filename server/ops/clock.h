/*
 * Time, and ids that contain it. Wall time is in milliseconds since 1970 and is used in records; the monotonic clock is
 * used for deadlines, so that they do not depend on changes of the wall clock. All functions are thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_CLOCK_H
#define SERVER_OPS_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

int64_t clock_now_ms(void);
double clock_monotonic(void); /* seconds */
double clock_thread(void);    /* CPU time of this thread in seconds */
/* A time of the monotonic clock in the form of pthread_cond_timedwait(). */
struct timespec clock_timespec(double seconds);
/* Initialises a condition variable whose waits end at a time of the monotonic clock. */
void clock_condition(pthread_cond_t *condition);
/* "2026-11-21T09:00:00.000Z" and NUL. */
void clock_rfc3339(char out[25], int64_t ms);

#define UUID_SIZE 37 /* size of the text including NUL */

/* A UUID of version 7 (RFC 9562), strictly increasing within the process. */
void uuid_next(char out[UUID_SIZE]);
/* The smallest UUIDv7 of that millisecond, for comparing ids with times. */
void uuid_floor(char out[UUID_SIZE], int64_t ms);
/* The millisecond of a valid UUIDv7. */
int64_t uuid_time(const char *id);
/* Whether the text is a UUID in lower-case canonical form, the only form in which ids are stored. */
bool uuid_valid(const char *text);

#endif
