// SPDX-License-Identifier: Apache-2.0
// TLS to a real server (OpenSSL's, on a thread), with certificates made for the test; and what the
// carrier does on top: puts a credential in, and finds it when it comes back.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "check.h"
#include "egress/carrier.h"

#define CREDENTIAL "sk-0123456789-abcdefgh"

static EVP_PKEY *key;
static X509 *certificate; // for good.example and 127.0.0.1, signed by itself
static char ca_path[] = "/tmp/cay-carrier-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    key = EVP_EC_gen("P-256");
    certificate = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
    X509_set_version(certificate, 2);
    X509_set_pubkey(certificate, key);
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_EXTENSION *names =
        X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:good.example,IP:127.0.0.1");
    X509_add_ext(certificate, names, -1);
    X509_EXTENSION_free(names);
    if (X509_sign(certificate, key, EVP_sha256()) == 0)
        return -1;
    int fd = mkstemp(ca_path);
    FILE *file = fdopen(fd, "w");
    PEM_write_X509(file, certificate);
    return fclose(file);
}

static int tear_down(void **state)
{
    (void)state;
    EVP_PKEY_free(key);
    X509_free(certificate);
    return unlink(ca_path);
}

// --- a server for one connection

struct server {
    pthread_t thread;
    int listener;
    uint16_t port;
    bool plain;
    bool no_tls; // although the client wants it
    int max_version;
    const char *answer;
    bool cuts; // ends without saying so in TLS
    char request[4096];
};

static void serve_tls(struct server *s, int fd)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    SSL_CTX_set_security_level(ctx, 0);
    SSL_CTX_set_min_proto_version(ctx, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(ctx, s->max_version);
    SSL_CTX_use_certificate(ctx, certificate);
    SSL_CTX_use_PrivateKey(ctx, key);
    SSL *ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fd);
    size_t n = 0;
    if (SSL_accept(ssl) == 1) {
        while (n < sizeof s->request - 1 && strstr(s->request, "\r\n\r\n") == NULL) {
            int r = SSL_read(ssl, s->request + n, (int)(sizeof s->request - 1 - n));
            if (r <= 0)
                break;
            n += (size_t)r;
        }
        if (s->answer != NULL)
            (void)SSL_write(ssl, s->answer, (int)strlen(s->answer));
        if (!s->cuts)
            (void)SSL_shutdown(ssl);
    }
    SSL_free(ssl);
    SSL_CTX_free(ctx);
}

static void serve_plain(struct server *s, int fd)
{
    size_t n = 0;
    while (n < sizeof s->request - 1 && strstr(s->request, "\r\n\r\n") == NULL) {
        ssize_t r = read(fd, s->request + n, sizeof s->request - 1 - n);
        if (r <= 0)
            break;
        n += (size_t)r;
    }
    (void)fd_write_all(fd, s->answer, strlen(s->answer));
}

static void *server_main(void *arg)
{
    struct server *s = arg;
    auto_fd fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
    if (s->no_tls)
        (void)fd_write_all(fd, s->answer, strlen(s->answer));
    else if (s->plain)
        serve_plain(s, fd);
    else
        serve_tls(s, fd);
    return NULL;
}

static void server_start(struct server *s)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    if (s->max_version == 0)
        s->max_version = TLS1_3_VERSION;
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s->listener, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(s->listener, 1), 0);
    assert_int_equal(getsockname(s->listener, (struct sockaddr *)&at, &len), 0);
    s->port = ntohs(at.sin_port);
    assert_int_equal(pthread_create(&s->thread, NULL, server_main, s), 0);
}

static void server_join(struct server *s)
{
    (void)pthread_join(s->thread, NULL);
    fd_close(s->listener);
}

static int dial(const struct server *s)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_port = htons(s->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    (void)fd_set_nonblock(fd, 1);
    return fd;
}

// --- a client, as an exchange is one

struct client {
    struct tls_client *settings;
    struct carrier *carrier;
    int fd;
    unsigned found;
    ssize_t result; // of the last read or write
    char got[4096];
    size_t n_got;
};

static void on_found(void *data)
{
    ((struct client *)data)->found++;
}

static void client_open(struct client *c, const struct server *s, const char *host, const char *ca)
{
    struct err err = {0};
    *c = (struct client){.fd = dial(s)};
    assert_int_equal(tls_client_open(ca, &c->settings, &err), 0);
    struct tls *tls = s->plain ? NULL : tls_new(c->settings, c->fd, host);
    assert_true(s->plain || tls != NULL);
    c->carrier = carrier_new(c->fd, tls, on_found, c);
}

static void arm(struct client *c)
{
    char value[] = "Bearer " CREDENTIAL;
    struct secret secret = {.value = value,
                            .value_len = strlen(value),
                            .credential_at = strlen("Bearer "),
                            .credential_len = strlen(CREDENTIAL)};
    (void)strncpy(secret.header, "Authorization", sizeof secret.header - 1);
    carrier_arm(c->carrier, &secret, false);
}

static void wait_for(struct client *c)
{
    int mask = carrier_ops.waits_for(c->carrier);
    struct pollfd p = {.fd = c->fd};
    p.events = (short)((mask & UV_READABLE ? POLLIN : 0) | (mask & UV_WRITABLE ? POLLOUT : 0));
    assert_true(p.events != 0);
    assert_true(poll(&p, 1, 30 * 1000) == 1);
}

// In pieces of `step` bytes.
static bool client_send(struct client *c, const char *text, size_t step)
{
    for (size_t at = 0, len = strlen(text); at < len;) {
        size_t here = len - at < step ? len - at : step;
        c->result = carrier_ops.write(c->carrier, text + at, here);
        if (c->result == -EAGAIN)
            wait_for(c);
        else if (c->result < 0)
            return false;
        else
            at += (size_t)c->result;
    }
    return true;
}

static void client_read(struct client *c)
{
    for (;;) {
        c->result = carrier_ops.read(c->carrier, c->got + c->n_got, sizeof c->got - c->n_got);
        if (c->result == -EAGAIN)
            wait_for(c);
        else if (c->result <= 0)
            return;
        else
            c->n_got += (size_t)c->result;
    }
}

static void client_close(struct client *c)
{
    carrier_ops.close(c->carrier);
    carrier_unref(c->carrier);
    tls_client_close(c->settings);
    fd_close(c->fd);
}

static const char request[] = "GET /v1/x HTTP/1.1\r\nHost: good.example\r\nX-Y: z\r\n\r\n";
static const char expected[] = "GET /v1/x HTTP/1.1\r\nAuthorization: Bearer " CREDENTIAL
                               "\r\nHost: good.example\r\nX-Y: z\r\n\r\n";
static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

static void exchange_at(size_t step, bool plain)
{
    struct server s = {.answer = answer, .plain = plain};
    struct client c;
    server_start(&s);
    client_open(&c, &s, "good.example", ca_path);
    arm(&c);
    assert_true(client_send(&c, request, step));
    client_read(&c);
    assert_int_equal(c.result, 0);
    assert_int_equal(c.n_got, strlen(answer));
    assert_memory_equal(c.got, answer, c.n_got);
    assert_int_equal(c.found, 0);
    client_close(&c);
    server_join(&s);
    assert_string_equal(s.request, expected);
}

CHECK_CASE(the_credential_is_put_in)
{
    for (size_t step = 1; step < 60; step += 7)
        exchange_at(step, false);
    exchange_at(1000, false);
    exchange_at(3, true);
    exchange_at(1000, true);
}

static void fails_with(struct server *s, const char *host, const char *ca, const char *word)
{
    struct client c;
    server_start(s);
    client_open(&c, s, host, ca);
    arm(&c);
    if (client_send(&c, request, 1000))
        client_read(&c);
    assert_true(c.result < 0);
    assert_int_equal(c.n_got, 0);
    if (strstr(carrier_error(c.carrier), word) == NULL)
        fail_msg("'%s' is not in '%s'", word, carrier_error(c.carrier));
    client_close(&c);
    server_join(s);
    assert_null(strstr(s->request, CREDENTIAL)); // nothing goes to whom we do not know
}

CHECK_CASE(servers_must_prove_who_they_are)
{
    struct server s = {.answer = answer};
    fails_with(&s, "other.example", ca_path, "hostname mismatch");
    fails_with(&(struct server){.answer = answer}, "good.example", "", "self-signed");
    fails_with(&(struct server){.answer = answer}, "127.0.0.2", ca_path, "IP address mismatch");
    fails_with(&(struct server){.answer = answer, .max_version = TLS1_1_VERSION}, "good.example",
               ca_path, "protocol");
    fails_with(&(struct server){.answer = answer, .no_tls = true}, "good.example", ca_path,
               "wrong version");
}

CHECK_CASE(an_address_may_be_in_a_certificate)
{
    struct server s = {.answer = answer};
    struct client c;
    server_start(&s);
    client_open(&c, &s, "127.0.0.1", ca_path);
    arm(&c);
    assert_true(client_send(&c, request, 1000));
    client_read(&c);
    assert_int_equal(c.n_got, strlen(answer));
    client_close(&c);
    server_join(&s);
}

CHECK_CASE(an_echo_is_cut_off)
{
    struct server s = {
        .answer =
            "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{\"you said\":\"" CREDENTIAL "\"}..."};
    struct client c;
    server_start(&s);
    client_open(&c, &s, "good.example", ca_path);
    arm(&c);
    assert_true(client_send(&c, request, 1000));
    client_read(&c);
    assert_int_equal(c.result, -EPERM);
    assert_int_equal(c.found, 1);
    assert_null(memmem(c.got, c.n_got, CREDENTIAL, 8));
    client_read(&c); // and stays so
    assert_int_equal(c.result, -EPERM);
    assert_int_equal(c.found, 1);
    client_close(&c);
    server_join(&s);
}

CHECK_CASE(a_cut_is_not_an_end)
{
    struct server s = {.answer = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf", .cuts = true};
    struct client c;
    server_start(&s);
    client_open(&c, &s, "good.example", ca_path);
    arm(&c);
    assert_true(client_send(&c, request, 1000));
    client_read(&c);
    assert_int_equal(c.result, -ECONNRESET);
    client_close(&c);
    server_join(&s);
}

CHECK_CASE(a_bad_file_of_certificates_is_told)
{
    struct tls_client *settings = NULL;
    struct err err = {0};
    assert_int_equal(tls_client_open("/nonexistent", &settings, &err), -1);
    assert_non_null(strstr(err.msg, "egress-ca"));
    assert_int_equal(tls_client_open("/dev/null", &settings, &err), -1);
}

static struct secret secret_of(char *value)
{
    struct secret secret = {.value = value, .value_len = strlen(value)};
    (void)strncpy(secret.header, "X-Api-Key", sizeof secret.header - 1);
    return secret;
}

// A connection that has carried one credential looks for that one, and is of no use for another.
static void a_connection_is_for_one_credential(void **state)
{
    char one[] = "credential-number-one", other[] = "credential-number-two";
    struct secret first = secret_of(one), second = secret_of(other);
    struct carrier *carrier = carrier_new(-1, NULL, NULL, NULL);
    (void)state;
    assert_false(carrier_knows(carrier, &first));
    carrier_arm(carrier, &first, false);
    assert_true(carrier_knows(carrier, &first));
    assert_false(carrier_knows(carrier, &second));
    carrier_ops.close(carrier);
    carrier_unref(carrier);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_credential_is_put_in),
        cmocka_unit_test(servers_must_prove_who_they_are),
        cmocka_unit_test(an_address_may_be_in_a_certificate),
        cmocka_unit_test(an_echo_is_cut_off),
        cmocka_unit_test(a_cut_is_not_an_end),
        cmocka_unit_test(a_connection_is_for_one_credential),
        cmocka_unit_test(a_bad_file_of_certificates_is_told),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
