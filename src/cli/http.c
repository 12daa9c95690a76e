// SPDX-License-Identifier: Apache-2.0
#include "cli/http.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"

enum {
    READ_SIZE = 64 * 1024,
    REQUEST_HEAD_MAX = 64 * 1024,
    STATUS_SWITCHING = 101,
    SEND_SIZE = 256 * 1024, // of a body that is read meanwhile
    CHUNK_HEAD = 8,
};

// -- places

int http_place_socket(struct http_place *ret, const char *path, struct err *err)
{
    *ret = (struct http_place){.socket = ""};
    if (strlen(path) >= sizeof ret->socket)
        return err_set(err, ERR_INVALID, "the path '%.60s...' is too long for a socket", path);
    (void)snprintf(ret->socket, sizeof ret->socket, "%s", path);
    (void)snprintf(ret->text, sizeof ret->text, "%s", path);
    return 0;
}

// A part of the URL into a field, whole or not at all.
static int copy_part(char *ret, size_t size, const char *from, size_t len, const char *what,
                     struct err *err)
{
    if (len >= size)
        return err_set(err, ERR_INVALID, "the URL's %s is too long", what);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)from[i];
        if (c <= ' ' || c >= 0x7f)
            return err_set(err, ERR_INVALID, "the URL's %s has a character that cannot be there",
                           what);
        ret[i] = from[i];
    }
    ret[len] = '\0';
    return 0;
}

// "host", "host:80", "[::1]:80"
static int read_authority(struct http_place *place, const char *from, size_t len, struct err *err)
{
    const char *end = from + len, *host_end, *port;
    if (memchr(from, '@', len) != NULL)
        return err_set(err, ERR_INVALID,
                       "a URL takes no user or password: set CAY_TOKEN or --token-file");
    if (len > 0 && *from == '[') {
        host_end = memchr(from, ']', len);
        if (host_end == NULL)
            return err_set(err, ERR_INVALID, "the URL's host has no ']'");
        from++;
        port = host_end + 1;
    } else {
        host_end = memchr(from, ':', len);
        host_end = host_end != NULL ? host_end : end;
        port = host_end;
    }
    if (host_end == from)
        return err_set(err, ERR_INVALID, "the URL has no host");
    if (copy_part(place->host, sizeof place->host, from, (size_t)(host_end - from), "host", err) <
        0)
        return -1;
    (void)snprintf(place->port, sizeof place->port, "80");
    if (port == end)
        return 0;
    uint64_t number;
    if (*port != ':' ||
        copy_part(place->port, sizeof place->port, port + 1, (size_t)(end - port - 1), "port",
                  err) < 0 ||
        parse_u64(place->port, 1, UINT16_MAX, &number, err) < 0)
        return err_set(err, ERR_INVALID, "the URL's port is not a number from 1 to 65535");
    return 0;
}

int http_place_url(struct http_place *ret, const char *url, struct err *err)
{
    static const char scheme[] = "http://";
    *ret = (struct http_place){.socket = ""};
    if (strncmp(url, "unix:", 5) == 0)
        return http_place_socket(ret, url + 5 + (strncmp(url + 5, "//", 2) == 0 ? 2 : 0), err);
    if (strncasecmp(url, "https://", 8) == 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "https is not spoken yet: use http:// through a tunnel (ssh -L)");
    if (strncasecmp(url, scheme, sizeof scheme - 1) != 0)
        return err_set(err, ERR_INVALID, "'%.100s' is not a URL like http://127.0.0.1:8787", url);
    url += sizeof scheme - 1;
    size_t authority = strcspn(url, "/?#"), prefix = strlen(url) - authority;
    if (url[authority] == '?' || url[authority] == '#')
        return err_set(err, ERR_INVALID, "a server's URL ends with its host and port, or a path");
    while (prefix > 0 && url[authority + prefix - 1] == '/')
        prefix--;
    if (read_authority(ret, url, authority, err) < 0 ||
        copy_part(ret->prefix, sizeof ret->prefix, url + authority, prefix, "path", err) < 0)
        return -1;
    (void)snprintf(ret->text, sizeof ret->text,
                   strchr(ret->host, ':') != NULL ? "[%s]:%s" : "%s:%s", ret->host, ret->port);
    return 0;
}

// -- connecting

static int connect_within(int fd, const struct sockaddr *addr, socklen_t len)
{
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    int failed = 0;
    socklen_t size = sizeof failed;
    if (fd_set_nonblock(fd, 1) < 0)
        return -errno;
    if (connect(fd, addr, len) < 0 && errno != EINPROGRESS)
        return -errno;
    int r = poll(&wait, 1, HTTP_CONNECT_MS);
    if (r <= 0)
        return r == 0 ? -ETIMEDOUT : -errno;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) < 0)
        return -errno;
    return failed != 0 ? -failed : fd_set_nonblock(fd, 0);
}

static int no_server(const struct http_place *place, int error, struct err *err)
{
    // A socket that nobody made and one that nobody listens on any more mean the same.
    if (error == ECONNREFUSED || (error == ENOENT && place->socket[0] != '\0'))
        return err_set(err, ERR_UNAVAILABLE, "no server at %s: start one with 'cay serve'",
                       place->text);
    if (error == EACCES && place->socket[0] != '\0')
        return err_set(err, ERR_DENIED,
                       "%s may not be used by this user: become root or join the group 'cay'",
                       place->text);
    return err_sys(err, error, "connect to %s", place->text);
}

static int dial_socket(const struct http_place *place, struct err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_sys(err, errno, "make a socket");
    memcpy(addr.sun_path, place->socket, sizeof addr.sun_path);
    // Blocking: a full queue of connections makes it wait, where it would fail at once otherwise.
    while (connect(fd, (const struct sockaddr *)&addr, sizeof addr) < 0) {
        if (errno != EINTR)
            return no_server(place, errno, err);
    }
    return TAKE_FD(fd);
}

static int dial_host(const struct http_place *place, struct err *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *list = NULL;
    int r = getaddrinfo(place->host, place->port, &hints, &list);
    if (r != 0)
        return err_set(err, ERR_UNAVAILABLE, "find the host '%s': %s", place->host,
                       gai_strerror(r));
    r = -EADDRNOTAVAIL;
    auto_fd fd = -1;
    for (const struct addrinfo *a = list; a != NULL && r < 0; a = a->ai_next) {
        fd_close(fd);
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        r = fd < 0 ? -errno : connect_within(fd, a->ai_addr, a->ai_addrlen);
    }
    freeaddrinfo(list);
    if (r < 0)
        return no_server(place, -r, err);
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    // Streams may be quiet for hours; a peer that vanished is noticed all the same.
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    return TAKE_FD(fd);
}

// -- the request

// A header whose value came from the user must not become two.
static int add_header(struct buf *head, const char *name, const char *value, struct err *err)
{
    if (value == NULL)
        return 0;
    for (const char *c = value; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || (unsigned char)*c >= 0x7f)
            return err_set(err, ERR_INVALID, "a character that cannot be in the header %s", name);
    }
    (void)buf_printf(head, "%s: %s\r\n", name, value);
    return 0;
}

static int write_head(const struct http_place *place, const struct http_call *call,
                      struct buf *head, struct err *err)
{
    char bearer[512];
    bool v6 = strchr(place->host, ':') != NULL;
    if (call->token != NULL &&
        snprintf(bearer, sizeof bearer, "Bearer %s", call->token) >= (int)sizeof bearer)
        return err_set(err, ERR_INVALID, "the token is too long");
    (void)buf_printf(head, "%s %s%s HTTP/1.1\r\n", call->method, place->prefix, call->target);
    if (place->socket[0] != '\0')
        (void)buf_append_str(head, "Host: localhost\r\n");
    else
        (void)buf_printf(head, "Host: %s%s%s:%s\r\n", v6 ? "[" : "", place->host, v6 ? "]" : "",
                         place->port);
    (void)buf_printf(head, "User-Agent: cay/%s\r\nConnection: %s\r\n", CAY_VERSION,
                     call->ws_key != NULL ? "Upgrade" : "close");
    if (call->ws_key != NULL)
        (void)buf_printf(head,
                         "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                         "Sec-WebSocket-Key: %s\r\n",
                         call->ws_key);
    if (add_header(head, "Accept", call->accept != NULL ? call->accept : "application/json", err) <
            0 ||
        add_header(head, "Authorization", call->token != NULL ? bearer : NULL, err) < 0 ||
        add_header(head, "Idempotency-Key", call->key, err) < 0 ||
        add_header(head, "If-None-Match", call->if_none, err) < 0 ||
        add_header(head, "Last-Event-ID", call->last_event, err) < 0)
        return -1;
    const char *type = call->content_type != NULL ? call->content_type : "application/json";
    if (call->body != NULL || call->read_body != NULL)
        (void)buf_printf(head, "Content-Type: %s\r\n", type);
    if (call->read_body != NULL && call->read_length == HTTP_UNKNOWN) {
        (void)buf_append_str(head, "Transfer-Encoding: chunked\r\n");
    } else if (call->body != NULL || call->read_body != NULL) {
        (void)buf_printf(head, "Content-Length: %" PRIu64 "\r\n",
                         call->read_body != NULL ? call->read_length : (uint64_t)call->body_len);
    } else if (strcmp(call->method, "GET") != 0) {
        (void)buf_append_str(head, "Content-Length: 0\r\n");
    }
    (void)buf_append_str(head, "\r\n");
    return head->failed != 0 ? err_set(err, ERR_INVALID, "the request is too long") : 0;
}

static int send_all(int fd, const char *data, size_t len, struct err *err)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        // It has answered before it read all, most likely to refuse: that answer is to be read.
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
            return 0;
        if (n < 0)
            return err_sys(err, errno, "send the request");
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

// Whether an answer is there before all was sent: most likely it says no.
static bool is_answered(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    return poll(&poll_fd, 1, 0) > 0;
}

// A chunk around what lies behind the room for its size.
static int send_chunk(int fd, char *block, size_t len, struct err *err)
{
    char size[CHUNK_HEAD + 1];
    int n = snprintf(size, sizeof size, "%x\r\n", (unsigned)len & 0xfffff);
    memcpy(block + CHUNK_HEAD - n, size, (size_t)n);
    memcpy(block + CHUNK_HEAD + len, "\r\n", 2);
    return send_all(fd, block + CHUNK_HEAD - n, (size_t)n + len + 2, err);
}

static int send_read(int fd, const struct http_call *call, struct err *err)
{
    static char block[CHUNK_HEAD + SEND_SIZE + 2];
    bool chunked = call->read_length == HTTP_UNKNOWN;
    for (uint64_t left = call->read_length; left > 0 && !is_answered(fd);) {
        size_t max = left < SEND_SIZE ? (size_t)left : SEND_SIZE;
        ssize_t n = call->read_body(call->read_data, block + CHUNK_HEAD, max, err);
        if (n < 0)
            return -1;
        if (n == 0 && chunked)
            return send_all(fd, "0\r\n\r\n", 5, err);
        if (n == 0)
            return err_set(err, ERR_INVALID, "what is sent became shorter meanwhile");
        int r = chunked ? send_chunk(fd, block, (size_t)n, err)
                        : send_all(fd, block + CHUNK_HEAD, (size_t)n, err);
        if (r < 0)
            return -1;
        left -= chunked ? 0 : (uint64_t)n;
    }
    return 0;
}

// -- the answer

// Waits for bytes, and meanwhile lets the caller see to what happens on its side.
static int wait_readable(int fd, const struct http_call *call, struct err *err)
{
    struct pollfd fds[] = {
        {.fd = fd,            .events = POLLIN},
        {.fd = call->wake_fd, .events = POLLIN},
    };
    while (call->on_wake != NULL && fds[0].revents == 0) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return err_sys(err, errno, "wait for the answer");
        if (fds[1].revents != 0 && call->on_wake(call->wake_data, err) != 0)
            return -1;
    }
    return 0;
}

static int receive(int fd, const struct http_call *call, struct reply *reply, struct err *err)
{
    char bytes[READ_SIZE];
    while (reply->state != REPLY_DONE) {
        if (wait_readable(fd, call, err) < 0)
            return -1;
        // What comes behind a switch is not ours to read.
        ssize_t n = read(fd, bytes, call->ws_key != NULL ? 1 : sizeof bytes);
        if (n < 0 && errno == EINTR)
            continue;
        // A body without a length ends where the connection does; a reset is not such an end.
        if (n < 0 && errno == ECONNRESET)
            return err_set(err, ERR_UNAVAILABLE,
                           "the connection broke in the middle of the answer");
        if (n < 0)
            return err_sys(err, errno, "read the answer");
        if (n == 0)
            return reply_end(reply, err);
        if (reply_feed(reply, bytes, (size_t)n, err) < 0)
            return -1;
    }
    return 0;
}

int http_call(const struct http_place *place, const struct http_call *call, struct reply *reply,
              enum http_broken *ret_broken, struct err *err)
{
    auto_buf head;
    buf_init(&head, REQUEST_HEAD_MAX);
    *ret_broken = HTTP_NOT_CONNECTED;
    if (write_head(place, call, &head, err) < 0)
        return -1;
    auto_fd fd = place->socket[0] != '\0' ? dial_socket(place, err) : dial_host(place, err);
    if (fd < 0)
        return -1;
    *ret_broken = HTTP_SENT;
    // In one piece where that is cheap, so that a small request is one packet.
    if (call->body != NULL && call->body_len <= READ_SIZE / 4) {
        if (buf_append(&head, call->body, call->body_len) < 0)
            return err_set(err, ERR_INVALID, "the request is too long");
        if (send_all(fd, head.data, head.len, err) < 0)
            return -1;
    } else if (send_all(fd, head.data, head.len, err) < 0 ||
               (call->body != NULL && send_all(fd, call->body, call->body_len, err) < 0)) {
        return -1;
    }
    if (call->read_body != NULL && send_read(fd, call, err) < 0)
        return -1;
    int r = receive(fd, call, reply, err);
    if (r == 0 && call->ws_key != NULL && reply->status == STATUS_SWITCHING)
        *call->ret_switched = TAKE_FD(fd);
    return r;
}

int http_encode(struct buf *buf, const char *text)
{
    static const char hex[] = "0123456789ABCDEF";
    int r = 0;
    for (; *text != '\0' && r == 0; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     strchr("-._~", c) != NULL;
        if (plain)
            r = buf_append_char(buf, (char)c);
        else
            r = buf_append(buf, (const char[]){'%', hex[c >> 4], hex[c & 15]}, 3);
    }
    return r;
}
