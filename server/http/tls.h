/*
 * TLS 1.2 and later by GnuTLS, for the daemons of libmicrohttpd. The certificate, its key and the authorities of
 * clients are read again at SIGHUP: open connections stay, new ones get the new ones. Sessions are not resumed, so
 * every connection is checked.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_TLS_H
#define SERVER_HTTP_TLS_H

#include <gnutls/abstract.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

struct tls;

/* Reads the chain of certificates, in PEM with the own one first, the private key of the own one, and the authorities
 * that certify clients, also in PEM. Without authorities (NULL), clients need no certificate; else a handshake without
 * one fails. There is one struct tls in a process. NULL with a message. */
struct tls *tls_create(const char *certificate, const char *key, const char *authorities, char *message,
                       size_t message_size);
/* No daemon may use it any more. NULL is allowed. */
void tls_destroy(struct tls *tls);

/* Reads them again. False with a message: the former ones stay. */
bool tls_reload(struct tls *tls, char *message, size_t message_size);

/* When the own certificate begins and ends to be valid. */
struct tls_validity {
    time_t from, until;
};
struct tls_validity tls_validity(const struct tls *tls);

/* What GnuTLS calls its priorities: the versions and ciphers that are offered. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* Gives a handshake the present certificate, and decides what the client must show. */
gnutls_certificate_retrieve_function2 tls_choose;

#endif
