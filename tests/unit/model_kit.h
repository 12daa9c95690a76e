// SPDX-License-Identifier: Apache-2.0
// A server that answers from a script, on threads, and a model client that asks it: what the tests
// of src/model share. Replies are given out in order, one for each request, whatever connection it
// comes on.
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "check.h"
#include "model/model-internal.h"
#include "model/model.h"

enum { KIT_REPLIES = 64, KIT_CONNS = 64, KIT_PATIENCE_MS = 60 * 1000 };

struct kit_reply {
    const char *bytes;
    size_t len;   // 0: a text
    size_t split; // bytes a write; 0: all
    bool hang;    // keeps the connection open behind it and says no more
    bool reset;   // ends it with a reset
    bool close;   // ends it
};

struct kit_server {
    int fd;
    uint16_t port;
    pthread_t thread;
    pthread_mutex_t lock;
    struct kit_reply replies[KIT_REPLIES];
    unsigned n_replies, n_served, n_conns;
    struct buf requests[KIT_REPLIES]; // head and body as they came
    pthread_t conns[KIT_CONNS];
    int stop[2]; // its end tells everybody to stop
};

struct kit_conn {
    struct kit_server *server;
    int fd;
};

// Waits for bytes, or for the server's end. False: nothing more is to be read.
static inline bool kit_wait(struct kit_server *server, int fd)
{
    struct pollfd fds[2] = {
        {.fd = fd,              .events = POLLIN},
        {.fd = server->stop[0], .events = POLLIN},
    };
    return poll(fds, 2, KIT_PATIENCE_MS) > 0 && fds[1].revents == 0;
}

static inline size_t kit_body_len(const char *head)
{
    const char *at = strcasestr(head, "\r\ncontent-length:");
    return at != NULL ? strtoul(at + 17, NULL, 10) : 0;
}

static inline bool kit_read_request(struct kit_conn *conn, struct buf *request)
{
    size_t want = 0; // once it is known
    for (;;) {
        char bytes[65536];
        const char *end = want == 0 && request->len > 0
                              ? memmem(request->data, request->len, "\r\n\r\n", 4)
                              : NULL;
        if (end != NULL)
            want = (size_t)(end + 4 - request->data) + kit_body_len(request->data);
        if (want > 0 && request->len >= want)
            return true;
        if (!kit_wait(conn->server, conn->fd))
            return false;
        ssize_t n = recv(conn->fd, bytes, sizeof bytes, 0);
        if (n <= 0)
            return false;
        (void)buf_append(request, bytes, (size_t)n);
    }
}

static inline bool kit_send(int fd, const struct kit_reply *reply)
{
    size_t len = reply->len > 0 ? reply->len : strlen(reply->bytes);
    size_t step = reply->split > 0 ? reply->split : len;
    for (size_t at = 0; at < len; at += step) {
        size_t want = len - at < step ? len - at : step;
        for (size_t sent = 0; sent < want;) {
            ssize_t n = send(fd, reply->bytes + at + sent, want - sent, MSG_NOSIGNAL);
            if (n <= 0)
                return false;
            sent += (size_t)n;
        }
    }
    return true;
}

// Which reply this request gets; NULL: the script is over.
static inline const struct kit_reply *kit_take(struct kit_server *server, struct buf *request)
{
    const struct kit_reply *reply = NULL;
    (void)pthread_mutex_lock(&server->lock);
    if (server->n_served < server->n_replies) {
        server->requests[server->n_served] = *request;
        reply = &server->replies[server->n_served++];
        buf_init(request, 64 * 1024 * 1024);
    }
    (void)pthread_mutex_unlock(&server->lock);
    return reply;
}

static inline void *kit_serve(void *data)
{
    struct kit_conn *conn = data;
    const struct kit_reply *reply = NULL;
    struct buf request;
    buf_init(&request, 64 * 1024 * 1024);
    while (kit_read_request(conn, &request) && (reply = kit_take(conn->server, &request)) != NULL &&
           kit_send(conn->fd, reply)) {
        char byte;
        while (reply->hang && kit_wait(conn->server, conn->fd) && recv(conn->fd, &byte, 1, 0) > 0)
            continue;
        if (reply->reset) {
            const struct linger now = {.l_onoff = 1};
            (void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        }
        if (reply->hang || reply->reset || reply->close)
            break;
    }
    buf_done(&request);
    (void)close(conn->fd);
    free(conn);
    return NULL;
}

static inline void *kit_accept(void *data)
{
    struct kit_server *server = data;
    const int on = 1;
    while (kit_wait(server, server->fd)) {
        int fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC);
        struct kit_conn *conn = calloc(1, sizeof *conn);
        if (fd < 0 || conn == NULL || server->n_conns == KIT_CONNS)
            abort();
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        *conn = (struct kit_conn){server, fd};
        if (pthread_create(&server->conns[server->n_conns++], NULL, kit_serve, conn) != 0)
            abort();
    }
    return NULL;
}

static inline void kit_server_start(struct kit_server *server)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    *server = (struct kit_server){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert_int_equal(bind(server->fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(server->fd, 64), 0);
    assert_int_equal(getsockname(server->fd, (struct sockaddr *)&at, &len), 0);
    server->port = ntohs(at.sin_port);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, server->stop), 0);
    assert_int_equal(pthread_mutex_init(&server->lock, NULL), 0);
    for (unsigned i = 0; i < KIT_REPLIES; i++)
        buf_init(&server->requests[i], 64 * 1024 * 1024);
    assert_int_equal(pthread_create(&server->thread, NULL, kit_accept, server), 0);
}

static inline void kit_server_stop(struct kit_server *server)
{
    (void)close(server->stop[1]);
    (void)pthread_join(server->thread, NULL);
    for (unsigned i = 0; i < server->n_conns; i++)
        (void)pthread_join(server->conns[i], NULL);
    for (unsigned i = 0; i < KIT_REPLIES; i++)
        buf_done(&server->requests[i]);
    (void)close(server->stop[0]);
    (void)close(server->fd);
    (void)pthread_mutex_destroy(&server->lock);
}

static inline struct kit_reply *kit_add(struct kit_server *server, const char *bytes)
{
    assert_true(server->n_replies < KIT_REPLIES);
    server->replies[server->n_replies] = (struct kit_reply){.bytes = bytes};
    return &server->replies[server->n_replies++];
}

// --- answers, made of literals

#define KIT_HEAD_STREAM                                                                            \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nrequest-id: req_1\r\n"

// A stream, whole, in one chunk for each event is what the API sends; here all in one body with a
// length, or up to the end of the connection.
static inline char *kit_answer(const char *head, const char *body)
{
    char *text = NULL;
    if (asprintf(&text, "%sContent-Length: %zu\r\n\r\n%s", head, strlen(body), body) < 0)
        abort();
    return text;
}

// Each `step` bytes a chunk.
static inline char *kit_chunked(const char *head, const char *body, size_t step, bool ends)
{
    struct buf out;
    buf_init(&out, 128 * 1024 * 1024);
    (void)buf_printf(&out, "%sTransfer-Encoding: chunked\r\n\r\n", head);
    for (size_t len = strlen(body); len > 0;) {
        size_t n = len < step ? len : step;
        (void)buf_printf(&out, "%zx\r\n", n);
        (void)buf_append(&out, body, n);
        (void)buf_append_str(&out, "\r\n");
        body += n;
        len -= n;
    }
    if (ends)
        (void)buf_append_str(&out, "0\r\n\r\n");
    assert_int_equal(out.failed, 0);
    return out.data;
}

#define KIT_START                                                                                  \
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\","       \
    "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-sonnet-5-5\",\"content\":[],"  \
    "\"stop_reason\":null,\"usage\":{\"input_tokens\":10,\"output_tokens\":1,"                     \
    "\"cache_creation_input_tokens\":7,\"cache_read_input_tokens\":5,\"cache_creation\":"          \
    "{\"ephemeral_5m_input_tokens\":4,\"ephemeral_1h_input_tokens\":3},\"service_tier\":"          \
    "\"standard\"}}}\n\n"
#define KIT_TEXT_START                                                                             \
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"             \
    "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
#define KIT_TEXT(text)                                                                             \
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"   \
    "{\"type\":\"text_delta\",\"text\":\"" text "\"}}\n\n"
#define KIT_STOP                                                                                   \
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
#define KIT_DELTA                                                                                  \
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"          \
    "\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":42}}\n\n"
#define KIT_END "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"

#define KIT_STREAM                                                                                 \
    KIT_START "event: ping\ndata: {\"type\":\"ping\"}\n\n" KIT_TEXT_START KIT_TEXT("Hello, ")      \
        KIT_TEXT("w\\u00f6rld") KIT_STOP KIT_DELTA KIT_END

#define KIT_JSON                                                                                   \
    "{\"id\":\"msg_2\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-opus-5-5\"," \
    "\"content\":[{\"type\":\"text\",\"text\":\"Hi\"}],\"stop_reason\":\"max_tokens\","            \
    "\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}"
#define KIT_HEAD_JSON "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

// --- asking

struct kit_outcome { // copies
    unsigned n_done;
    enum model_end end;
    unsigned status, attempts;
    char error_type[64], message[1400], request_id[128], id[64], model[128], stop_reason[64];
    char *content, *usage_json;
    struct model_usage usage;
    int64_t retry_after_ms, first_ns, total_ns;
    struct buf text, raw; // since the last AGAIN; raw events one a line
    unsigned n_again, n_raw;
    struct model_event again; // the last one
    // What to do when an event comes.
    void (*on_event)(struct kit_outcome *outcome, const struct model_event *event);
    void (*on_done)(struct kit_outcome *outcome);
    struct model_call *call;
    struct kit *kit;
};

struct kit {
    uv_loop_t loop;
    struct model *model;
    struct kit_server server;
    struct model_access access;
    char url[64];
    bool (*may)(const struct sockaddr *address, bool tls);
    int n_fds;
};

static inline bool kit_may_connect(void *data, const struct sockaddr *address, bool tls)
{
    struct kit *kit = data;
    return kit->may != NULL && kit->may(address, tls);
}

#define KIT_KEY "sk-ant-secret-0123456789"

// What libuv opens with its first loop stays open.
static inline void kit_warm_up(void)
{
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static inline void kit_open(struct kit *kit)
{
    struct err err = {0};
    static char header[] = "x-api-key: " KIT_KEY;
    kit_warm_up();
    *kit = (struct kit){.n_fds = check_fds()};
    (void)alarm(240);
    kit_server_start(&kit->server);
    (void)snprintf(kit->url, sizeof kit->url, "http://127.0.0.1:%u", kit->server.port);
    kit->access = (struct model_access){.base_url = kit->url, .header = header};
    assert_int_equal(uv_loop_init(&kit->loop), 0);
    const struct model_config config = {
        .loop = &kit->loop,
        .ca_file = "",
        .may_connect = kit_may_connect,
        .data = kit,
    };
    assert_int_equal(model_open(&config, &kit->model, &err), 0);
}

static inline void kit_close(struct kit *kit)
{
    model_close(kit->model);
    (void)uv_run(&kit->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&kit->loop), 0);
    kit_server_stop(&kit->server);
    assert_int_equal(check_fds(), kit->n_fds);
}

static inline void kit_on_event(void *data, const struct model_event *event)
{
    struct kit_outcome *outcome = data;
    switch (event->type) {
    case MODEL_TEXT:
        (void)buf_append(&outcome->text, event->text, event->len);
        break;
    case MODEL_RAW:
        (void)buf_append(&outcome->raw, event->text, event->len);
        (void)buf_append_char(&outcome->raw, '\n');
        outcome->n_raw++;
        break;
    case MODEL_AGAIN:
        buf_reset(&outcome->text);
        buf_reset(&outcome->raw);
        outcome->n_again++;
        outcome->again = *event;
        break;
    }
    if (outcome->on_event != NULL)
        outcome->on_event(outcome, event);
}

#define KIT_COPY(to, from) (void)snprintf((to), sizeof(to), "%s", (from))

static inline void kit_on_done(void *data, const struct model_result *result)
{
    struct kit_outcome *outcome = data;
    outcome->n_done++;
    outcome->end = result->end;
    outcome->status = result->status;
    outcome->attempts = result->attempts;
    outcome->usage = result->usage;
    outcome->retry_after_ms = result->retry_after_ms;
    outcome->first_ns = result->first_ns;
    outcome->total_ns = result->total_ns;
    KIT_COPY(outcome->error_type, result->error_type);
    KIT_COPY(outcome->message, result->message);
    KIT_COPY(outcome->request_id, result->request_id);
    KIT_COPY(outcome->id, result->id);
    KIT_COPY(outcome->model, result->model);
    KIT_COPY(outcome->stop_reason, result->stop_reason);
    assert_int_equal(strlen(result->content), result->content_len);
    free(outcome->content);
    free(outcome->usage_json);
    outcome->content = strdup(result->content);
    outcome->usage_json = strdup(result->usage_json);
    if (outcome->on_done != NULL)
        outcome->on_done(outcome);
}

static inline void kit_outcome_init(struct kit_outcome *outcome)
{
    *outcome = (struct kit_outcome){0};
    buf_init(&outcome->text, 64 * 1024 * 1024);
    buf_init(&outcome->raw, 128 * 1024 * 1024);
}

static inline void kit_outcome_done(struct kit_outcome *outcome)
{
    buf_done(&outcome->text);
    buf_done(&outcome->raw);
    free(outcome->content);
    free(outcome->usage_json);
}

static inline void kit_ask(struct kit *kit, struct kit_outcome *outcome,
                           const struct model_request *more)
{
    static const char body[] = "{\"model\":\"claude-sonnet-5-5\"}";
    struct model_request request = *more;
    request.access = request.access != NULL ? request.access : &kit->access;
    request.body = request.body != NULL ? request.body : body;
    request.body_len = request.body_len > 0 ? request.body_len : strlen(request.body);
    outcome->kit = kit;
    outcome->call = model_ask(kit->model, &request, kit_on_event, kit_on_done, outcome);
    assert_int_equal(outcome->n_done, 0); // never from within
}

// Asks, and runs until everything is quiet.
static inline void kit_run(struct kit *kit, struct kit_outcome *outcome,
                           const struct model_request *more)
{
    kit_outcome_init(outcome);
    kit_ask(kit, outcome, more);
    (void)uv_run(&kit->loop, UV_RUN_DEFAULT);
    assert_int_equal(outcome->n_done, 1);
}

static const struct model_request kit_streamed = {.stream = true, .retries = -1};
static const struct model_request kit_plain = {.retries = -1};
