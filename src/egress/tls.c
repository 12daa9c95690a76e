// SPDX-License-Identifier: Apache-2.0
#include "egress/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "egress/policy.h"

struct tls_client {
    SSL_CTX *ctx;
};

struct tls {
    SSL *ssl;
    int waits_for;
    char error[160];
};

static int fail(struct err *err, const char *what)
{
    char text[120] = "";
    unsigned long code = ERR_get_error();
    if (code != 0)
        ERR_error_string_n(code, text, sizeof text);
    ERR_clear_error();
    return err_set(err, ERR_INTERNAL, "TLS: %s%s%s", what, *text != '\0' ? ": " : "", text);
}

static int set_up(SSL_CTX *ctx, const char *ca_file, struct err *err)
{
    static const unsigned char http[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
    if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
        return fail(err, "version");
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_alpn_protos(ctx, http, sizeof http) != 0)
        return fail(err, "protocols");
    if (SSL_CTX_set_default_verify_paths(ctx) != 1)
        return fail(err, "the machine's certificates");
    if (*ca_file != '\0' && SSL_CTX_load_verify_file(ctx, ca_file) != 1)
        return fail(err, "egress-ca is not a file of certificates that can be read");
    return 0;
}

int tls_client_open(const char *ca_file, struct tls_client **ret, struct err *err)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (ctx == NULL)
        return fail(err, "no memory");
    if (set_up(ctx, ca_file, err) < 0) {
        SSL_CTX_free(ctx);
        return -1;
    }
    struct tls_client *client = malloc(sizeof *client);
    if (client == NULL)
        abort();
    client->ctx = ctx;
    *ret = client;
    return 0;
}

void tls_client_close(struct tls_client *client)
{
    if (client == NULL)
        return;
    SSL_CTX_free(client->ctx);
    free(client);
}

// Names go into the hello and are compared with the certificate's; addresses only the latter.
static int set_peer(SSL *ssl, const char *host)
{
    struct sockaddr_storage address;
    if (policy_address(host, &address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1 ? 0 : -EINVAL;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (SSL_set1_host(ssl, host) != 1 || SSL_set_tlsext_host_name(ssl, host) != 1)
        return -EINVAL;
    return 0;
}

struct tls *tls_new(struct tls_client *client, int fd, const char *host)
{
    struct tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL)
        abort();
    tls->ssl = SSL_new(client->ctx);
    if (tls->ssl == NULL || SSL_set_fd(tls->ssl, fd) != 1 || set_peer(tls->ssl, host) < 0) {
        ERR_clear_error();
        tls_free(tls);
        return NULL;
    }
    SSL_set_connect_state(tls->ssl);
    return tls;
}

void tls_free(struct tls *tls)
{
    if (tls == NULL)
        return;
    if (tls->ssl != NULL && *tls->error == '\0' && SSL_is_init_finished(tls->ssl))
        (void)SSL_shutdown(tls->ssl);
    ERR_clear_error();
    SSL_free(tls->ssl);
    free(tls);
}

static void note_error(struct tls *tls)
{
    long verdict = SSL_get_verify_result(tls->ssl);
    unsigned long code = ERR_peek_last_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;
    if (*tls->error != '\0')
        return;
    if (verdict != X509_V_OK)
        (void)snprintf(tls->error, sizeof tls->error, "its certificate: %s",
                       X509_verify_cert_error_string(verdict));
    else
        (void)snprintf(tls->error, sizeof tls->error, "%s", reason != NULL ? reason : "no TLS");
}

static ssize_t failed(struct tls *tls, int r, int sys_errno)
{
    switch (SSL_get_error(tls->ssl, r)) {
    case SSL_ERROR_WANT_READ:
        tls->waits_for = UV_READABLE;
        return -EAGAIN;
    case SSL_ERROR_WANT_WRITE:
        tls->waits_for = UV_WRITABLE;
        return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        note_error(tls);
        return sys_errno > 0 ? -sys_errno : -ECONNRESET;
    default: {
        note_error(tls);
        // OpenSSL 3 tells an end without a close_notify this way: a cut, not an end.
        bool cut = ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
        return cut ? -ECONNRESET : -EPROTO;
    }
    }
}

ssize_t tls_read(struct tls *tls, void *data, size_t len)
{
    ERR_clear_error();
    errno = 0;
    int r = SSL_read(tls->ssl, data, len > INT_MAX ? INT_MAX : (int)len);
    return r > 0 ? r : failed(tls, r, errno);
}

ssize_t tls_write(struct tls *tls, const void *data, size_t len)
{
    ERR_clear_error();
    errno = 0;
    int r = SSL_write(tls->ssl, data, len > INT_MAX ? INT_MAX : (int)len);
    ssize_t n = r > 0 ? r : failed(tls, r, errno);
    return n == 0 ? -EPIPE : n;
}

int tls_waits_for(const struct tls *tls)
{
    return tls->waits_for;
}

const char *tls_error(const struct tls *tls)
{
    return tls->error;
}
