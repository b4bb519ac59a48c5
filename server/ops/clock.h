/*
 * Time and the ids that are made of it. Wall time is in milliseconds since 1970 and stands in records; the
 * monotonic clock decides deadlines, so that a step of the wall clock moves none of them.
 * Every function is thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_CLOCK_H
#define SERVER_OPS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

int64_t clock_now_ms(void);
double clock_monotonic(void); /* seconds */
double clock_thread(void);    /* seconds that this thread has computed */
/* A moment of the monotonic clock, as pthread_cond_timedwait() takes it. */
struct timespec clock_timespec(double seconds);
/* "2026-11-21T09:00:00.000Z" and NUL. */
void clock_rfc3339(char out[25], int64_t ms);

#define UUID_SIZE 37 /* text with NUL */

/* A UUID of version 7 (RFC 9562), strictly increasing within the process. */
void uuid_next(char out[UUID_SIZE]);
/* The smallest UUIDv7 of that millisecond: a bound for comparing ids with times. */
void uuid_floor(char out[UUID_SIZE], int64_t ms);
/* The millisecond of a valid UUIDv7. */
int64_t uuid_time(const char *id);
/* Lower-case canonical text of a UUID: the only spelling under which an id is stored. */
bool uuid_valid(const char *text);

#endif
