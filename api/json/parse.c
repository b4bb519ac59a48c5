/*
 * Parses JSON text with the strictness that the service needs, in memory bounded by the length of the text.
 *
 * Jansson does the parsing. It rejects repeated members, bad UTF-8, NaN, Infinity and numbers out of range. But its
 * parser is recursive, and its values take up to a hundred times the bytes of their text. A scan that has neither
 * problem therefore runs first: it takes out the long arrays of numbers (numbers.h), leaves a mark in place of each,
 * and rejects text that is nested too deeply or would still need too much memory. A hundred thousand brackets, or
 * millions of empty objects, cost one pass over part of the text.
 *
 * A mark is an array of one string that begins with random digits, so no client can forge it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/codec/codec.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json/memory.h"
#include "api/json/numbers.h"

#define MAX_DEPTH 64
#define MAX_BYTES ((size_t)16 << 20) /* memory of the values of jansson */
#define NONCE_BYTES 12
#define NONCE_TEXT (2 * NONCE_BYTES)
#define MARK_MAX (NONCE_TEXT + 32)

/* Allocations of jansson 2.14 on a 64-bit machine, including the overhead of the allocator. */
enum cost {
    COST_OBJECT = 240,
    COST_ARRAY = 136,  /* and a string: an array that is taken out needs both its mark and its node */
    COST_MEMBER = 112, /* in addition to the quote of its key and its value */
    COST_STRING = 80,  /* in addition to its bytes */
    COST_ELEMENT = 56, /* a number and its place in an array that doubles */
};

/* An array that was taken out. `lost` is the number of bytes of the text, taken out by this array and all before it,
 * that jansson does not see up to `at`. */
struct piece {
    json_t *numbers;
    size_t at;
    size_t lost;
};

struct scan {
    const char *text;
    size_t len;
    char *rest; /* the text with marks, if there is any; the first rest_len bytes are filled */
    size_t rest_len;
    size_t kept; /* the text from here on has not been copied to the rest yet */
    struct piece *pieces;
    size_t pieces_len;
    size_t pieces_capacity;
    char nonce[NONCE_TEXT + 1];
    const char *wrong; /* the error at `at`; "" if memory ran out */
    size_t at;
};

/* ---------------------------------------------------------------- the scan */

static void flush(struct scan *scan, size_t until)
{
    memcpy(scan->rest + scan->rest_len, scan->text + scan->kept, until - scan->kept);
    scan->rest_len += until - scan->kept;
    scan->kept = until;
}

/* Makes room for one more piece and for the rest. A mark is shorter than the array that it replaces. */
static bool make_room(struct scan *scan)
{
    if (!scan->rest) {
        unsigned char nonce[NONCE_BYTES];
        randombytes_buf(nonce, sizeof nonce);
        sodium_bin2hex(scan->nonce, sizeof scan->nonce, nonce, sizeof nonce);
        scan->rest = malloc(scan->len + 1);
    }
    if (scan->pieces_len == scan->pieces_capacity) {
        size_t capacity = scan->pieces_capacity ? 2 * scan->pieces_capacity : 16;
        struct piece *pieces = realloc(scan->pieces, capacity * sizeof *pieces);
        if (!pieces)
            return false;
        scan->pieces = pieces;
        scan->pieces_capacity = capacity;
    }
    return scan->rest != NULL;
}

/* Takes out the array of numbers at `start`. Returns the position to continue at, which is `start` itself if it is not
 * such an array. */
static size_t take_numbers(struct scan *scan, size_t start)
{
    _Static_assert(MARK_MAX < 2 * API_PACKED_LEAST, "the shortest array that is packed is longer than its mark");
    bool failed = false;
    size_t end = start;
    json_t *numbers = api__pack_text(scan->text, scan->len, start, &end, &failed);
    if (failed || (numbers && !make_room(scan))) {
        json_decref(numbers);
        scan->wrong = "";
        return start;
    }
    if (!numbers)
        return start;
    flush(scan, start);
    scan->rest_len +=
        (size_t)snprintf(scan->rest + scan->rest_len, MARK_MAX, "[\"%s%zu\"]", scan->nonce, scan->pieces_len);
    scan->kept = end;
    scan->pieces[scan->pieces_len++] =
        (struct piece){.numbers = numbers, .at = scan->rest_len, .lost = end - scan->rest_len};
    return end;
}

static size_t string_end(const char *text, size_t len, size_t start)
{
    size_t i = start + 1;
    while (i < len && text[i] != '"')
        i += text[i] == '\\' ? 2 : 1;
    return i < len ? i : len;
}

/* Scans the text; scan->wrong is set if an error was found. */
static void scan_text(struct scan *scan)
{
    size_t depth = 0, bytes = COST_ELEMENT, blank = 0;

    while (blank < scan->len && strchr(" \t\r\n", scan->text[blank]) && scan->text[blank])
        blank++;
    if (blank == scan->len)
        scan->wrong = "the body is empty: send a JSON object";

    for (size_t i = 0; i < scan->len && !scan->wrong; i++) {
        char c = scan->text[i];
        scan->at = i;
        if (c == '"') {
            bytes += COST_STRING;
            i = string_end(scan->text, scan->len, i);
        } else if (c == '[' || c == '{') {
            bytes += c == '[' ? COST_ARRAY + COST_STRING : COST_OBJECT;
            if (++depth > MAX_DEPTH)
                scan->wrong = "nested deeper than 64 levels";
            size_t end = c == '[' && !scan->wrong ? take_numbers(scan, i) : i;
            depth -= end > i;
            i = end > i ? end - 1 : i;
        } else if (c == ']' || c == '}') {
            depth -= depth > 0;
        } else if (c == ',' || c == ':') {
            bytes += c == ',' ? COST_ELEMENT : COST_MEMBER;
        }
        if (bytes > MAX_BYTES && !scan->wrong)
            scan->wrong = "more values than can be read (only numbers in long arrays are not counted)";
    }
    if (scan->rest && !scan->wrong)
        flush(scan, scan->len);
}

/* ---------------------------------------------------------------- restoring the arrays */

/* The node for which the mark stands, to be owned by the tree; NULL if it is not a mark. */
static json_t *marked(struct scan *scan, const json_t *json)
{
    const char *text = json_array_size(json) == 1 ? json_string_value(json_array_get(json, 0)) : NULL;
    if (!text || strncmp(text, scan->nonce, NONCE_TEXT) != 0)
        return NULL;
    return json_incref(scan->pieces[strtoul(text + NONCE_TEXT, NULL, 10)].numbers);
}

/* Restores the arrays. The recursion is as deep as the scan allows. Returns false if memory runs out. */
static bool put_back(struct scan *scan, json_t *json)
{
    const char *key;
    json_t *value;
    size_t index;
    bool ok = true;

    json_object_foreach (json, key, value) {
        json_t *numbers = marked(scan, value);
        ok = ok && (numbers ? json_object_set_new_nocheck(json, key, numbers) == 0 : put_back(scan, value));
    }
    json_array_foreach (json, index, value) {
        json_t *numbers = marked(scan, value);
        ok = ok && (numbers ? json_array_set_new(json, index, numbers) == 0 : put_back(scan, value));
    }
    return ok;
}

static json_t *put_all_back(struct scan *scan, json_t *json)
{
    json_t *numbers = marked(scan, json);
    if (numbers || !put_back(scan, json)) {
        json_decref(json);
        return numbers;
    }
    return json;
}

/* ---------------------------------------------------------------- error messages */

static void position(const char *text, size_t offset, int *line, int *column)
{
    *line = 1;
    *column = 1;
    for (size_t i = 0; i < offset; i++) {
        if (text[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (((unsigned char)text[i] & 0xC0) != 0x80) {
            ++*column;
        }
    }
}

/* The message quotes the text and may split a character, so it is reduced to plain ASCII. */
static void make_printable(char *message)
{
    for (; *message; message++)
        if ((unsigned char)*message < 0x20 || (unsigned char)*message >= 0x7F)
            *message = '?';
}

/* The position in the original text at which jansson stopped; jansson read the text with marks. */
static void error_position(const struct scan *scan, const json_error_t *error, int *line, int *column)
{
    *line = error->line > 0 ? error->line : 1;
    *column = error->column > 0 ? error->column : 1;
    if (!scan->pieces_len || error->position < 1)
        return;
    size_t offset = (size_t)error->position, lost = 0;
    for (size_t i = 0; i < scan->pieces_len && scan->pieces[i].at <= offset; i++)
        lost = scan->pieces[i].lost;
    position(scan->text, offset + lost - 1, line, column);
}

static void explain(const struct scan *scan, const json_error_t *error, char *message, size_t message_size)
{
    const char *hint = "";
    int line, column;

    if (json_error_code(error) == json_error_numeric_overflow)
        hint = "a number that cannot be held exactly: ";
    else if (json_error_code(error) == json_error_invalid_utf8)
        hint = "the text is not UTF-8: ";
    error_position(scan, error, &line, &column);
    snprintf(message, message_size, "line %d, column %d: %s%s", line, column, hint, error->text);
    make_printable(message);
}

json_t *api_json_parse(const char *text, size_t len, char *message, size_t message_size)
{
    struct scan scan = {.text = text, .len = len};
    json_t *json = NULL;
    json_error_t error;
    size_t failures = api__json_failures();

    message[0] = '\0';
    scan_text(&scan);
    if (scan.wrong && *scan.wrong) {
        int line, column;
        position(text, scan.at, &line, &column);
        snprintf(message, message_size, "line %d, column %d: %s", line, column, scan.wrong);
    } else if (!scan.wrong && api__json_reserve(scan.rest ? scan.rest_len : len)) {
        json = json_loadb(scan.rest ? scan.rest : text, scan.rest ? scan.rest_len : len,
                          JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
        if (!json)
            explain(&scan, &error, message, message_size);
    }
    if (json && scan.pieces_len)
        json = put_all_back(&scan, json);
    if (api__json_failures() != failures) {
        json_decref(json);
        json = NULL;
        message[0] = '\0';
    }
    api__json_release();
    for (size_t i = 0; i < scan.pieces_len; i++)
        json_decref(scan.pieces[i].numbers);
    free(scan.pieces);
    free(scan.rest);
    return json;
}
