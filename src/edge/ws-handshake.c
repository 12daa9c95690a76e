// SPDX-License-Identifier: Apache-2.0
// How a WebSocket begins: RFC 6455, section 4.2.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "edge/ws-internal.h"

enum {
    KEY_BYTES = 16,
    KEY_TEXT = 24,
    SHA1_BYTES = 20,
    HEAD_MAX = 16 * 1024,
};

#define SEPARATORS ", \t"

// The next word of a list by commas: its length, 0 at the end.
static size_t next_word(const char **at)
{
    *at += strspn(*at, SEPARATORS);
    return strcspn(*at, SEPARATORS);
}

static bool header_has(const struct http_request *req, const char *name, const char *word)
{
    const char *at = http_header(req, name);
    if (at == NULL)
        return false;
    for (size_t n; (n = next_word(&at)) > 0; at += n) {
        if (n == strlen(word) && strncasecmp(at, word, n) == 0)
            return true;
    }
    return false;
}

bool ws_is_asked(const struct http_request *req)
{
    return header_has(req, "Upgrade", "websocket");
}

// --- subprotocols

const char *ws_offer(const struct http_request *req, const char *prefix, size_t *ret_len)
{
    const char *at = http_header(req, "Sec-WebSocket-Protocol");
    size_t start = strlen(prefix);
    if (at == NULL)
        return NULL;
    for (size_t n; (n = next_word(&at)) > 0; at += n) {
        if (n >= start && strncmp(at, prefix, start) == 0) {
            *ret_len = n - start;
            return at + start;
        }
    }
    return NULL;
}

bool ws_offers(const struct http_request *req, const char *protocol)
{
    const char *at = http_header(req, "Sec-WebSocket-Protocol");
    if (at == NULL)
        return false;
    for (size_t n; (n = next_word(&at)) > 0; at += n) {
        if (n == strlen(protocol) && strncmp(at, protocol, n) == 0)
            return true;
    }
    return false;
}

// --- may it?

static bool key_is_good(const char *key)
{
    unsigned char bytes[KEY_BYTES + 1];
    size_t len = 0;
    return strlen(key) == KEY_TEXT &&
           sodium_base642bin(bytes, sizeof bytes, key, KEY_TEXT, NULL, &len, NULL,
                             sodium_base64_VARIANT_ORIGINAL) == 0 &&
           len == KEY_BYTES;
}

// "https://host:port": the part behind the scheme is what Host says.
static bool origin_is_own(const struct http_request *req, const char *origin)
{
    const char *host = http_header(req, "Host"), *rest = strstr(origin, "://");
    return host != NULL && rest != NULL && strcasecmp(rest + 3, host) == 0;
}

static bool origin_is_listed(const char *list, const char *origin)
{
    for (size_t n; (n = next_word(&list)) > 0; list += n) {
        if ((n == 1 && *list == '*') || (n == strlen(origin) && strncmp(list, origin, n) == 0))
            return true;
    }
    return false;
}

static int check_origin(const struct http_request *req, const char *origins, struct err *err)
{
    const char *origin = http_header(req, "Origin");
    if (origin == NULL)
        return 0;
    if (!http_header_twice(req, "Origin") &&
        (origin_is_own(req, origin) || origin_is_listed(origins, origin)))
        return 0;
    return err_set(err, ERR_DENIED,
                   "pages of '%.100s' may not open this: the setting 'cors' lists those that may",
                   origin);
}

int ws_check(const struct http_request *req, const char *origins, struct err *err)
{
    static const char *const once[] = {"Sec-WebSocket-Key", "Sec-WebSocket-Version",
                                       "Sec-WebSocket-Protocol", "Upgrade"};
    size_t len;
    const char *key = http_header(req, "Sec-WebSocket-Key");
    const char *version = http_header(req, "Sec-WebSocket-Version");
    if (!ws_is_asked(req))
        return err_set(err, ERR_UNSUPPORTED, "this is a WebSocket: send 'Upgrade: websocket'");
    if (http_get_method(req) != HTTP_GET)
        return err_set(err, ERR_INVALID, "a WebSocket begins with GET");
    if (version == NULL || strcmp(version, "13") != 0)
        return err_set(err, ERR_UNSUPPORTED, "WebSockets of version 13 are spoken here");
    for (size_t i = 0; i < sizeof once / sizeof *once; i++) {
        if (http_header_twice(req, once[i]))
            return err_set(err, ERR_INVALID, "there is more than one %s", once[i]);
    }
    if (!header_has(req, "Connection", "upgrade"))
        return err_set(err, ERR_INVALID, "'Connection: Upgrade' is missing");
    if (key == NULL || !key_is_good(key))
        return err_set(err, ERR_INVALID, "Sec-WebSocket-Key must be 16 bytes in base64");
    (void)http_body(req, &len);
    if (len > 0)
        return err_set(err, ERR_INVALID, "a WebSocket begins without a body");
    return check_origin(req, origins, err);
}

// --- the answer

void ws_accept_key(const char *key, char ret[static 29])
{
    static const char magic[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; // RFC 6455, section 1.3
    char text[KEY_TEXT + sizeof magic];
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    int n = snprintf(text, sizeof text, "%.*s%s", KEY_TEXT, key, magic);
    (void)EVP_Digest(text, (size_t)n, hash, &len, EVP_sha1(), NULL);
    (void)sodium_bin2base64(ret, 29, hash, SHA1_BYTES, sodium_base64_VARIANT_ORIGINAL);
}

static void write_head(const struct http_taken *taken, const char *accept, const char *protocol,
                       struct buf *head)
{
    http_taken_head(taken, 101, head);
    (void)buf_printf(
        head, "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n", accept);
    if (protocol != NULL)
        (void)buf_printf(head, "Sec-WebSocket-Protocol: %s\r\n", protocol);
    (void)buf_append_str(head, "\r\n");
}

int ws_accept(struct http_request *req, uv_loop_t *loop, const char *protocol, size_t max_message,
              const struct ws_ops *ops, void *data, struct ws **ret, struct err *err)
{
    char accept[29];
    const int on = 1;
    struct http_taken taken;
    auto_buf head;
    buf_init(&head, HEAD_MAX);
    ws_accept_key(http_header(req, "Sec-WebSocket-Key"), accept);
    if (http_take(req, &taken, err) < 0)
        return -1;
    write_head(&taken, accept, protocol, &head);
    if (!taken.local) // keys are pressed one by one
        (void)setsockopt(taken.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    *ret = ws_new(loop, taken.fd, &taken.early, max_message, ops, data);
    ws_begin_with(*ret, &head);
    taken.fd = -1;
    http_taken_close(&taken);
    return 0;
}
