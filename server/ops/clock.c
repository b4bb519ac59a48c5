/*
 * Clocks and UUIDv7. Ids generated in the same millisecond are ordered by their 12 `rand_a` bits (RFC 9562, 6.2, method
 * 1), so "newest first" is the order of the primary key and needs no index on a time.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/clock.h"

#include <sodium.h>
#include <string.h>
#include <time.h>

int64_t clock_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

double clock_monotonic(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double clock_thread(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

struct timespec clock_timespec(double seconds)
{
    time_t whole = (time_t)seconds;
    return (struct timespec){.tv_sec = whole, .tv_nsec = (long)((seconds - (double)whole) * 1e9)};
}

void clock_condition(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* Writes `width` digits of a number, with leading zeros; returns the position after them. */
static char *digits_write(char *out, unsigned value, int width)
{
    for (int i = width - 1; i >= 0; i--) {
        out[i] = (char)('0' + value % 10);
        value /= 10;
    }
    return out + width;
}

/* Written by hand, because every document contains three times and every log line one, and strftime() takes a
 * microsecond. */
void clock_rfc3339(char out[25], int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    unsigned year = (unsigned)(parts.tm_year + 1900) % 10000; /* years have four digits */
    out = digits_write(out, year, 4);
    *out++ = '-';
    out = digits_write(out, (unsigned)parts.tm_mon + 1, 2);
    *out++ = '-';
    out = digits_write(out, (unsigned)parts.tm_mday, 2);
    *out++ = 'T';
    out = digits_write(out, (unsigned)parts.tm_hour, 2);
    *out++ = ':';
    out = digits_write(out, (unsigned)parts.tm_min, 2);
    *out++ = ':';
    out = digits_write(out, (unsigned)parts.tm_sec, 2);
    *out++ = '.';
    out = digits_write(out, (unsigned)(ms % 1000), 3);
    *out++ = 'Z';
    *out = '\0';
}

static void uuid_write(char out[UUID_SIZE], const uint8_t bytes[16])
{
    static const char digits[] = "0123456789abcdef";
    char *at = out;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *at++ = '-';
        *at++ = digits[bytes[i] >> 4];
        *at++ = digits[bytes[i] & 15];
    }
    *at = '\0';
}

static void uuid_stamp(uint8_t bytes[16], int64_t ms, unsigned sequence)
{
    for (int i = 0; i < 6; i++)
        bytes[i] = (uint8_t)((uint64_t)ms >> (40 - 8 * i));
    bytes[6] = (uint8_t)(0x70 | (sequence >> 8));
    bytes[7] = (uint8_t)sequence;
}

/* Random bytes for one id. The system is asked for those of many ids at a time. */
static void random_take(uint8_t out[8])
{
    enum { IDS = 64 };
    static _Thread_local uint8_t drawn[IDS][8];
    static _Thread_local size_t left;
    if (!left) {
        randombytes_buf(drawn, sizeof drawn);
        left = IDS;
    }
    memcpy(out, drawn[--left], 8);
}

void uuid_next(char out[UUID_SIZE])
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static int64_t last_ms;
    static unsigned sequence;
    uint8_t bytes[16];

    random_take(bytes + 8);
    bytes[8] = (uint8_t)((bytes[8] & 0x3f) | 0x80);
    int64_t now = clock_now_ms();
    pthread_mutex_lock(&mutex);
    if (now > last_ms) {
        last_ms = now;
        sequence = 0;
    } else if (++sequence > 0xfff) { /* exhausted, or the clock was set back: use the next millisecond */
        last_ms++;
        sequence = 0;
    }
    uuid_stamp(bytes, last_ms, sequence);
    pthread_mutex_unlock(&mutex);
    uuid_write(out, bytes);
}

void uuid_floor(char out[UUID_SIZE], int64_t ms)
{
    uint8_t bytes[16] = {0};
    uuid_stamp(bytes, ms < 0 ? 0 : ms, 0);
    uuid_write(out, bytes);
}

int64_t uuid_time(const char *id)
{
    char digits[13];
    memcpy(digits, id, 8);
    memcpy(digits + 8, id + 9, 4); /* after the dash */
    digits[12] = '\0';
    return (int64_t)strtoull(digits, NULL, 16);
}

bool uuid_valid(const char *text)
{
    if (strlen(text) != UUID_SIZE - 1)
        return false;
    for (int i = 0; i < UUID_SIZE - 1; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        char c = text[i];
        bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        if (dash ? c != '-' : !digit)
            return false;
    }
    return true;
}
