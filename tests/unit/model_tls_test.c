// SPDX-License-Identifier: Apache-2.0
// Who is believed: a server with a certificate of its own making, known from a file or not, under
// its name and under another.
#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "model/model.h"

static const char answer[] =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 35\r\n\r\n"
    "{\"type\":\"message\",\"content\":[\"hi\"]}\n";

static EVP_PKEY *key;
static X509 *cert;
static char ca_file[] = "/tmp/model-tls-XXXXXX";
static int listener, stopper[2];
static uint16_t port;
static pthread_t thread;

// A certificate for "localhost", and for no address.
static void make_cert(void)
{
    key = EVP_EC_gen("P-256");
    cert = X509_new();
    assert_true(key != NULL && cert != NULL);
    X509_NAME *name = X509_get_subject_name(cert);
    (void)X509_set_version(cert, 2);
    (void)ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    (void)X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    (void)X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    (void)X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"a test", -1,
                                     -1, 0);
    (void)X509_set_issuer_name(cert, name);
    (void)X509_set_pubkey(cert, key);
    X509_EXTENSION *names = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:localhost");
    assert_non_null(names);
    (void)X509_add_ext(cert, names, -1);
    X509_EXTENSION_free(names);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    int fd = mkstemp(ca_file);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_X509(file, cert), 1);
    (void)fclose(file);
}

static void serve_one(SSL_CTX *ctx, int fd)
{
    SSL *ssl = SSL_new(ctx);
    char request[4096];
    if (SSL_set_fd(ssl, fd) == 1 && SSL_accept(ssl) == 1 &&
        SSL_read(ssl, request, sizeof request) > 0)
        (void)SSL_write(ssl, answer, (int)sizeof answer - 1);
    (void)SSL_shutdown(ssl);
    SSL_free(ssl);
}

static void *serve(void *data)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    (void)data;
    if (SSL_CTX_use_certificate(ctx, cert) != 1 || SSL_CTX_use_PrivateKey(ctx, key) != 1)
        abort();
    for (;;) {
        struct pollfd fds[2] = {
            {.fd = listener,   .events = POLLIN},
            {.fd = stopper[0], .events = POLLIN}
        };
        if (poll(fds, 2, -1) < 0 || fds[1].revents != 0)
            break;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        serve_one(ctx, fd);
        (void)close(fd);
    }
    SSL_CTX_free(ctx);
    return NULL;
}

static int start(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    (void)state;
    (void)alarm(120);
    (void)signal(SIGPIPE, SIG_IGN);
    make_cert();
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    port = ntohs(at.sin_port);
    assert_int_equal(pipe2(stopper, O_CLOEXEC), 0);
    return pthread_create(&thread, NULL, serve, NULL);
}

static int stop(void **state)
{
    (void)state;
    (void)close(stopper[1]);
    (void)pthread_join(thread, NULL);
    (void)close(stopper[0]);
    (void)close(listener);
    (void)unlink(ca_file);
    EVP_PKEY_free(key);
    X509_free(cert);
    return 0;
}

struct told {
    unsigned n, attempts;
    enum model_end end;
    char message[1400], content[64];
};

static void on_done(void *data, const struct model_result *result)
{
    struct told *told = data;
    told->n++;
    told->attempts = result->attempts;
    told->end = result->end;
    (void)snprintf(told->message, sizeof told->message, "%s", result->message);
    (void)snprintf(told->content, sizeof told->content, "%s", result->content);
}

static void ask(const char *ca, const char *host, struct told *told)
{
    uv_loop_t loop;
    struct model *model = NULL;
    struct err err = {0};
    char url[64], header[] = "x-api-key: k";
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(model_open(&(struct model_config){.loop = &loop, .ca_file = ca}, &model, &err),
                     0);
    (void)snprintf(url, sizeof url, "https://%s:%u", host, port);
    const struct model_access access = {.base_url = url, .header = header};
    const struct model_request request = {
        .access = &access, .body = "{}", .body_len = 2, .retries = -1};
    *told = (struct told){0};
    (void)model_ask(model, &request, NULL, on_done, told);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(told->n, 1);
    model_close(model);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

CHECK_CASE(test_known)
{
    struct told told;
    ask(ca_file, "localhost", &told);
    assert_string_equal(told.message, "");
    assert_int_equal(told.end, MODEL_DONE);
    assert_string_equal(told.content, "[\"hi\"]");
}

// Not asked again: it would be the same.
CHECK_CASE(test_unknown)
{
    struct told told;
    ask("", "localhost", &told);
    assert_int_equal(told.end, MODEL_NETWORK);
    assert_int_equal(told.attempts, 1);
    assert_non_null(strstr(told.message, "certificate"));
}

CHECK_CASE(test_other_name)
{
    struct told told;
    ask(ca_file, "127.0.0.1", &told);
    assert_int_equal(told.end, MODEL_NETWORK);
    assert_int_equal(told.attempts, 1);
}

CHECK_CASE(test_bad_file)
{
    uv_loop_t loop;
    struct model *model = NULL;
    struct err err = {0};
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(
        model_open(&(struct model_config){.loop = &loop, .ca_file = "/dev/null"}, &model, &err),
        -1);
    assert_int_equal(err.code, ERR_INVALID);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_other_name),
        cmocka_unit_test(test_bad_file),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
