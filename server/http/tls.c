/*
 * See tls.h. A handshake may use a certificate for as long as it lasts, and nobody is told when it ends, so replaced
 * certificates stay until the process ends. They are a few kilobytes each.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/http/tls.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHAIN_MOST 16 /* certificates */

/* What one reading has found. */
struct identity {
    struct identity *former;
    struct tls_validity validity;
    gnutls_pcert_st chain[CHAIN_MOST];
    unsigned chain_len;
    gnutls_privkey_t key;
    gnutls_x509_trust_list_t authorities; /* of clients; NULL: they need no certificate */
};

struct tls {
    const char *certificate, *key, *authorities;
    _Atomic(struct identity *) identity;
    pthread_mutex_t reading;
};

static struct tls *only; /* the callback of GnuTLS has no argument of ours */

static void identity_free(struct identity *identity)
{
    while (identity) {
        struct identity *former = identity->former;
        for (unsigned i = 0; i < identity->chain_len; i++)
            gnutls_pcert_deinit(&identity->chain[i]);
        if (identity->key)
            gnutls_privkey_deinit(identity->key);
        if (identity->authorities)
            gnutls_x509_trust_list_deinit(identity->authorities, 1);
        free(identity);
        identity = former;
    }
}

static int authorities_read(gnutls_x509_trust_list_t *authorities, const char *file)
{
    int code = gnutls_x509_trust_list_init(authorities, 0);
    int len =
        code == 0 ? gnutls_x509_trust_list_add_trust_file(*authorities, file, NULL, GNUTLS_X509_FMT_PEM, 0, 0) : code;
    return len > 0 ? 0 : len < 0 ? len : GNUTLS_E_NO_CERTIFICATE_FOUND;
}

static int validity_read(struct tls_validity *validity, const gnutls_datum_t *der)
{
    gnutls_x509_crt_t certificate = NULL;
    int code = gnutls_x509_crt_init(&certificate);
    if (code == 0)
        code = gnutls_x509_crt_import(certificate, der, GNUTLS_X509_FMT_DER);
    if (code == 0) {
        *validity = (struct tls_validity){gnutls_x509_crt_get_activation_time(certificate),
                                          gnutls_x509_crt_get_expiration_time(certificate)};
        if (validity->from == (time_t)-1 || validity->until == (time_t)-1)
            code = GNUTLS_E_ASN1_DER_ERROR;
    }
    if (certificate)
        gnutls_x509_crt_deinit(certificate);
    return code;
}

/* Reads a PEM file. NULL with a message. */
static struct identity *identity_read(const struct tls *tls, char *message, size_t message_size)
{
    gnutls_datum_t chain = {0}, key = {0};
    const char *file = tls->certificate;
    struct identity *identity = calloc(1, sizeof *identity);
    int code = identity ? gnutls_load_file(file, &chain) : GNUTLS_E_MEMORY_ERROR;
    if (code == 0) {
        identity->chain_len = CHAIN_MOST;
        code = gnutls_pcert_list_import_x509_raw(identity->chain, &identity->chain_len, &chain, GNUTLS_X509_FMT_PEM, 0);
        if (code != 0)
            identity->chain_len = 0;
    }
    if (code == 0) {
        file = tls->key;
        code = gnutls_load_file(file, &key);
    }
    if (code == 0)
        code = gnutls_privkey_init(&identity->key);
    if (code == 0)
        code = gnutls_privkey_import_x509_raw(identity->key, &key, GNUTLS_X509_FMT_PEM, NULL, 0);
    gnutls_free(chain.data);
    if (key.data)
        gnutls_memset(key.data, 0, key.size);
    gnutls_free(key.data);
    gnutls_pubkey_t own = NULL;
    unsigned char ids[2][64];
    size_t lens[2] = {sizeof ids[0], sizeof ids[1]};
    if (code == 0 && (code = gnutls_pubkey_init(&own)) == 0)
        code = gnutls_pubkey_import_privkey(own, identity->key, 0, 0);
    if (code == 0)
        code = gnutls_pubkey_get_key_id(own, GNUTLS_KEYID_USE_SHA256, ids[0], &lens[0]);
    if (code == 0)
        code = gnutls_pubkey_get_key_id(identity->chain[0].pubkey, GNUTLS_KEYID_USE_SHA256, ids[1], &lens[1]);
    if (own)
        gnutls_pubkey_deinit(own);
    if (code == 0 && tls->authorities) {
        file = tls->authorities;
        code = authorities_read(&identity->authorities, file);
    }
    if (code == 0)
        code = validity_read(&identity->validity, &identity->chain[0].cert);
    if (code != 0)
        snprintf(message, message_size, "cannot use %s for TLS: %s", file, gnutls_strerror(code));
    else if (lens[0] != lens[1] || memcmp(ids[0], ids[1], lens[0]) != 0)
        snprintf(message, message_size, "the private key of %s is not that of the first certificate of %s", tls->key,
                 tls->certificate);
    else
        return identity;
    identity_free(identity);
    return NULL;
}

/* Whether the client shows a certificate of an authority, for use by clients. Returns 0, or what ends the handshake. */
static int verify_client(gnutls_session_t session)
{
    gnutls_x509_crt_t chain[CHAIN_MOST];
    unsigned shown = 0, len = 0, faults = GNUTLS_CERT_INVALID;
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT};
    const gnutls_datum_t *ders = gnutls_certificate_get_peers(session, &shown);
    bool read = ders && shown > 0 && shown <= CHAIN_MOST;
    while (read && len < shown) {
        read = gnutls_x509_crt_init(&chain[len]) == 0;
        len += read ? 1 : 0;
        read = read && gnutls_x509_crt_import(chain[len - 1], &ders[len - 1], GNUTLS_X509_FMT_DER) == 0;
    }
    if (read && gnutls_x509_trust_list_verify_crt2(atomic_load(&only->identity)->authorities, chain, len, &purpose, 1,
                                                   0, &faults, NULL) != 0)
        faults = GNUTLS_CERT_INVALID;
    while (len > 0)
        gnutls_x509_crt_deinit(chain[--len]);
    return read && faults == 0 ? 0 : GNUTLS_E_CERTIFICATE_ERROR;
}

int tls_choose(gnutls_session_t session, const gnutls_datum_t *authorities, int authorities_len,
               const gnutls_pk_algorithm_t *algorithms, int algorithms_len, gnutls_pcert_st **chain,
               unsigned *chain_len, gnutls_privkey_t *key)
{
    (void)authorities;
    (void)authorities_len;
    (void)algorithms;
    (void)algorithms_len;
    struct identity *identity = atomic_load(&only->identity);
    if (identity->authorities) {
        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
        gnutls_session_set_verify_function(session, verify_client);
    }
    *chain = identity->chain;
    *chain_len = identity->chain_len;
    *key = identity->key;
    return 0;
}

struct tls *tls_create(const char *certificate, const char *key, const char *authorities, char *message,
                       size_t message_size)
{
    struct tls *tls = calloc(1, sizeof *tls);
    if (!tls) {
        snprintf(message, message_size, "out of memory");
        return NULL;
    }
    tls->certificate = certificate;
    tls->key = key;
    tls->authorities = authorities;
    pthread_mutex_init(&tls->reading, NULL);
    only = tls;
    if (tls_reload(tls, message, message_size))
        return tls;
    tls_destroy(tls);
    return NULL;
}

void tls_destroy(struct tls *tls)
{
    if (!tls)
        return;
    only = NULL;
    identity_free(atomic_load(&tls->identity));
    pthread_mutex_destroy(&tls->reading);
    free(tls);
}

bool tls_reload(struct tls *tls, char *message, size_t message_size)
{
    struct identity *identity = identity_read(tls, message, message_size);
    if (!identity)
        return false;
    pthread_mutex_lock(&tls->reading);
    identity->former = atomic_load(&tls->identity);
    atomic_store(&tls->identity, identity);
    pthread_mutex_unlock(&tls->reading);
    return true;
}

struct tls_validity tls_validity(const struct tls *tls)
{
    return atomic_load(&tls->identity)->validity;
}
