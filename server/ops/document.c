/*
 * A text with its length and its entity tag, shared by all replies that send it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/document.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

void text_etag(char etag[ETAG_SIZE], const char *bytes, size_t len)
{
    static const unsigned char key[crypto_shorthash_siphashx24_KEYBYTES]; /* a tag outlives the process */
    unsigned char hash[crypto_shorthash_siphashx24_BYTES];
    crypto_shorthash_siphashx24(hash, (const unsigned char *)bytes, len, key);
    etag[0] = '"';
    sodium_bin2hex(etag + 1, 33, hash, sizeof hash);
    etag[33] = '"';
    etag[34] = '\0';
}

struct document *document_make(struct text *text, const char *id, bool final)
{
    struct document *document = calloc(1, sizeof *document);
    text_puts(text, "\n");
    if (!document || text->failed) {
        text_clear(text);
        free(document);
        return NULL;
    }
    atomic_init(&document->references, 1);
    document->final = final;
    memcpy(document->id, id, UUID_SIZE);
    document->len = text->len;
    document->text = text_steal(text);
    text_etag(document->etag, document->text, document->len);
    return document;
}

struct document *document_retain(struct document *document)
{
    atomic_fetch_add_explicit(&document->references, 1, memory_order_relaxed);
    return document;
}

void document_release(struct document *document)
{
    if (document && atomic_fetch_sub_explicit(&document->references, 1, memory_order_acq_rel) == 1) {
        free(document->text);
        free(document);
    }
}
