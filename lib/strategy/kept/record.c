/*
 * A growing buffer of bytes, and a cursor that reads one. Lengths are checked before anything is allocated, so a
 * damaged record cannot cause a large allocation.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/kept/record.h"

#include <stdlib.h>
#include <string.h>

void eps__record_clear(struct eps__record *record)
{
    free(record->bytes);
    *record = (struct eps__record){0};
}

void eps__record_put(struct eps__record *record, const void *bytes, size_t len)
{
    if (record->bad || len == 0)
        return;
    if (len > record->capacity - record->len) {
        size_t capacity = 2 * record->capacity + len + 64;
        uint8_t *grown = capacity > len ? realloc(record->bytes, capacity) : NULL;
        if (!grown) {
            record->bad = true;
            return;
        }
        record->bytes = grown;
        record->capacity = capacity;
    }
    memcpy(record->bytes + record->len, bytes, len);
    record->len += len;
}

void eps__record_put_u64(struct eps__record *record, uint64_t value)
{
    eps__record_put(record, &value, sizeof value);
}

void eps__record_put_double(struct eps__record *record, double value)
{
    eps__record_put(record, &value, sizeof value);
}

void eps__record_put_doubles(struct eps__record *record, const double *values, size_t len)
{
    eps__record_put_u64(record, len);
    eps__record_put(record, values, len * sizeof *values);
}

struct eps__record eps__record_over(const void *bytes, size_t len)
{
    /* Removes const: nothing is written through a record that is read. */
    return (struct eps__record){.bytes = (uint8_t *)(uintptr_t)bytes, .len = len};
}

bool eps__record_get(struct eps__record *record, void *bytes, size_t len)
{
    if (record->bad || len > record->len - record->at) {
        record->bad = true;
        memset(bytes, 0, len);
        return false;
    }
    memcpy(bytes, record->bytes + record->at, len);
    record->at += len;
    return true;
}

uint64_t eps__record_get_u64(struct eps__record *record)
{
    uint64_t value;
    eps__record_get(record, &value, sizeof value);
    return value;
}

double eps__record_get_double(struct eps__record *record)
{
    double value;
    eps__record_get(record, &value, sizeof value);
    return value;
}

void eps__record_get_doubles(struct eps__record *record, double **values, size_t *len)
{
    uint64_t count = eps__record_get_u64(record);
    *values = NULL;
    *len = 0;
    if (record->bad || count == 0)
        return;
    if (count > (record->len - record->at) / sizeof **values || !(*values = malloc(count * sizeof **values))) {
        record->bad = true;
        return;
    }
    eps__record_get(record, *values, count * sizeof **values);
    *len = count;
}

bool eps__record_done(const struct eps__record *record)
{
    return !record->bad && record->at == record->len;
}
