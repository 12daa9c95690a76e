// SPDX-License-Identifier: Apache-2.0
// A small message over a WebSocket and back, through a preview, directly, and through a relay that
// looks at nothing, in turns.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "ways-ws.h"
#include "ways.h"

enum { WARM_UP = 50, MESSAGE = 32, SIDES = 3 };

static int open_ws(uint16_t port, const char *host)
{
    char text[1024];
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        die("connect to port %u: %m", port);
    int len = snprintf(text, sizeof text,
                       "GET /ws HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\n"
                       "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                       "Sec-WebSocket-Key: " WS_KEY "\r\n\r\n",
                       host);
    if (fd_write_all(fd, text, (size_t)len) < 0)
        die("send: %m");
    ssize_t n = recv(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    if (strncmp(text, "HTTP/1.1 101 ", 13) != 0 || strstr(text, WS_ACCEPT) == NULL)
        die("no WebSocket at %s: %s", host, text);
    return fd;
}

static int64_t echo(int fd)
{
    static unsigned char last;
    unsigned char out[6 + MESSAGE] = {WS_BINARY, WS_MASKED | MESSAGE, 1, 2, 3, 4};
    unsigned char in[2 + MESSAGE], plain[MESSAGE];
    memset(plain, ++last, sizeof plain);
    for (unsigned i = 0; i < MESSAGE; i++)
        out[6 + i] = plain[i] ^ out[2 + i % 4];
    int64_t began = clock_ns();
    if (send(fd, out, sizeof out, MSG_NOSIGNAL) != sizeof out)
        die("send: %m");
    ssize_t n = recv(fd, in, sizeof in, MSG_WAITALL);
    int64_t took = clock_ns() - began;
    if (n != sizeof in || in[0] != WS_BINARY || in[1] != MESSAGE ||
        memcmp(in + 2, plain, MESSAGE) != 0)
        die("an echo is not what was sent");
    return took;
}

void line_echo(const struct ways *w)
{
    static const char *const names[SIDES] = {"preview", "direct", "socat"};
    struct series series[SIDES];
    const int fds[SIDES] = {
        open_ws(w->http.port, w->preview),
        open_ws(w->direct, "127.0.0.1"),
        open_ws(w->relay, "127.0.0.1"),
    };
    note("a message over a WebSocket and back, %u rounds", w->many);
    for (unsigned i = 0; i < SIDES; i++)
        series_init(&series[i], names[i], w->many);
    for (unsigned i = 0; i < SIDES * (w->many + WARM_UP); i++) {
        watchdog("an echo");
        unsigned side = (i + i / SIDES) % SIDES;
        int64_t took = echo(fds[side]);
        if (i >= SIDES * WARM_UP)
            series_add(&series[side], took);
    }
    for (unsigned i = 0; i < SIDES; i++) {
        series_done(&series[i], "echo");
        fd_close(fds[i]);
    }
}
