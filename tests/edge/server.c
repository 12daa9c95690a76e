// SPDX-License-Identifier: Apache-2.0
// A server with small routes over edge/http.h, for the tests beside it:
//
//     edge-server FD [SECONDS] [UNIX-FD]
//
// FD is a listening socket that it inherits; SECONDS replaces EDGE_IDLE_SECONDS. It says "ready" on
// its standard output. SIGTERM stops it and ends the program, SIGUSR1 drains it, SIGUSR2 stops it
// and keeps the program, with the listening socket.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"
#include "edge/http.h"
#include "edge/limits.h"
#include "edge/sse.h"
#include "edge/target.h"

// What a request that is not answered at once needs.
struct work {
    struct http_request *req;
    struct work *next;
    uv_timer_t timer;
    uint64_t left; // bytes of a flood
    bool is_polite;
    bool has_timer;
    bool is_stream;
};

static struct {
    uv_loop_t loop;
    uv_signal_t signals[3];
    struct http_server *server;
    struct work *works;
    unsigned closed;   // clients that left
    unsigned contexts; // that are not freed
    size_t queued_max;
} app;

static void reply_text(struct http_request *req, unsigned status, const char *text, size_t len)
{
    auto_buf body;
    buf_init(&body, EDGE_BODY_MAX);
    (void)buf_append(&body, text, len);
    http_reply(req, status, "text/plain", &body);
}

static void fail(struct http_request *req, unsigned status, const char *text)
{
    reply_text(req, status, text, strlen(text));
}

static uint64_t number(const struct target *target, const char *name, uint64_t fallback)
{
    const char *text = target_query(target, name);
    uint64_t n = fallback;
    struct err err;
    if (text != NULL)
        (void)parse_u64(text, 0, UINT64_MAX, &n, &err);
    return n;
}

// --- works

static void free_work(uv_handle_t *handle)
{
    free(handle->data);
}

static void end_work(struct work *work)
{
    struct work **at = &app.works;
    while (*at != work)
        at = &(*at)->next;
    *at = work->next;
    if (work->has_timer)
        uv_close((uv_handle_t *)&work->timer, free_work);
    else
        free(work);
}

static void on_gone(void *data)
{
    app.closed++;
    end_work(data);
}

static struct work *begin_work(struct http_request *req)
{
    struct work *work = calloc(1, sizeof *work);
    if (work == NULL)
        abort();
    work->req = req;
    work->next = app.works;
    app.works = work;
    http_on_close(req, on_gone, work);
    return work;
}

static void on_later(uv_timer_t *timer)
{
    struct work *work = timer->data;
    reply_text(work->req, 200, "later\n", 6);
    end_work(work);
}

static void later(struct http_request *req, const struct target *target)
{
    struct work *work = begin_work(req);
    work->has_timer = true;
    (void)uv_timer_init(&app.loop, &work->timer);
    work->timer.data = work;
    (void)uv_timer_start(&work->timer, on_later, number(target, "ms", 10), 0);
}

static void flood(void *data)
{
    static char block[32 * 1024];
    struct work *work = data;
    memset(block, 'x', sizeof block);
    while (work->left > 0) {
        size_t queued = http_stream_queued(work->req);
        if (queued > app.queued_max && queued != SIZE_MAX)
            app.queued_max = queued;
        if (work->is_polite && queued >= EDGE_STREAM_QUEUE_MAX)
            return;
        size_t n = work->left < sizeof block ? (size_t)work->left : sizeof block;
        http_stream_write(work->req, block, n);
        work->left -= n;
        if (!work->is_polite && work->left == 0)
            return; // the stream is lost, or will be read
    }
    http_stream_end(work->req);
    end_work(work);
}

static void begin_flood(struct http_request *req, const struct target *target, bool is_polite)
{
    struct work *work = begin_work(req);
    work->left = number(target, "bytes", 1024);
    work->is_polite = is_polite;
    http_stream_begin(req, 200, "application/octet-stream");
    http_on_drain(req, flood, work);
    flood(work);
}

// To every stream of events that is open.
static void send_events(const char *text)
{
    for (struct work *work = app.works; work != NULL; work = work->next) {
        if (work->is_stream)
            sse_send(work->req, "1", "note", text, strlen(text));
    }
}

static unsigned release(void)
{
    unsigned n = 0;
    while (app.works != NULL) {
        struct work *work = app.works;
        n++;
        if (work->is_stream)
            http_stream_end(work->req);
        else
            reply_text(work->req, 200, "released\n", 9);
        end_work(work);
    }
    return n;
}

// --- routes

static unsigned count_fds(void)
{
    unsigned n = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL)
        abort();
    while (readdir(dir) != NULL)
        n++;
    (void)closedir(dir);
    return n;
}

static uint64_t resident(void)
{
    char text[128];
    unsigned long pages = 0;
    if (fd_read_file(AT_FDCWD, "/proc/self/statm", text, sizeof text) > 0)
        (void)sscanf(text, "%*u %lu", &pages);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void stats(struct http_request *req)
{
    auto_buf body;
    struct json json;
    buf_init(&body, 4096);
    json_init(&json, &body);
    json_open_object(&json);
    json_key(&json, "fds");
    json_put_uint(&json, count_fds());
    json_key(&json, "active");
    json_put_uint(&json, http_active(app.server));
    json_key(&json, "closed");
    json_put_uint(&json, app.closed);
    json_key(&json, "contexts");
    json_put_uint(&json, app.contexts);
    json_key(&json, "queued_max");
    json_put_uint(&json, app.queued_max);
    json_key(&json, "resident");
    json_put_uint(&json, resident());
    json_close_object(&json);
    http_reply(req, 200, "application/json", &body);
}

static void on_context(void *data)
{
    (void)data;
    app.contexts--;
}

static void describe(struct http_request *req, const struct target *target)
{
    auto_buf body;
    struct json json;
    buf_init(&body, EDGE_BODY_MAX);
    json_init(&json, &body);
    json_open_object(&json);
    json_key(&json, "method");
    json_put_str(&json, http_method_name(req));
    json_key(&json, "target");
    json_put_str(&json, http_target(req));
    json_key(&json, "peer");
    json_put_str(&json, http_peer(req));
    json_key(&json, "local");
    json_put_bool(&json, http_is_local(req));
    json_key(&json, "twice");
    json_put_bool(&json, http_header_twice(req, "X-Test"));
    json_key(&json, "header");
    json_put_str(&json, http_header(req, "x-test"));
    json_key(&json, "segments");
    json_open_array(&json);
    for (size_t i = 0; i < target->n_segments; i++)
        json_put_str(&json, target->segments[i]);
    json_close_array(&json);
    json_close_object(&json);
    http_reply(req, 200, "application/json", &body);
}

// Raw bodies are for /take: the connection is taken, the body read from the socket by blocking
// (it is a test), an answer written by hand, and the connection given back.
static bool is_raw(void *data, const struct http_peek *peek)
{
    (void)data;
    return strncmp(peek->target, "/take", 5) == 0 || strcmp(peek->host, "raw.host") == 0;
}

static size_t read_body(const struct http_taken *taken)
{
    char block[64 * 1024];
    size_t got = taken->early.len;
    while (got < taken->length) {
        size_t want = taken->length - got < sizeof block ? taken->length - got : sizeof block;
        ssize_t n = read(taken->fd, block, want);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    return got;
}

static void take(struct http_request *req, const struct target *target)
{
    struct http_taken taken;
    struct err err;
    auto_buf answer;
    char text[128];
    bool raw = http_is_raw(req);
    if (http_take(req, &taken, &err) < 0) {
        fail(req, 409, err.msg);
        return;
    }
    (void)fd_set_nonblock(taken.fd, 0);
    if (taken.expects)
        (void)fd_write_all(taken.fd, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    size_t got = read_body(&taken);
    int n = snprintf(text, sizeof text, "%d %zu %zu %d\n", raw, (size_t)taken.length, got,
                     taken.chunked);
    buf_init(&answer, 4096);
    http_taken_head(&taken, 200, &answer);
    (void)buf_printf(&answer, "Content-Length: %d\r\n\r\n%s", n, text);
    (void)fd_write_all(taken.fd, answer.data, answer.len);
    (void)fd_set_nonblock(taken.fd, 1);
    buf_reset(&taken.early);
    if (target_query(target, "close") != NULL)
        http_taken_close(&taken);
    else
        http_give(&taken);
}

static void on_take_later(uv_timer_t *timer)
{
    struct work *work = timer->data;
    static const struct target none;
    struct http_request *req = work->req;
    http_on_close(req, NULL, NULL);
    end_work(work);
    take(req, &none);
}

static void take_later(struct http_request *req, const struct target *target)
{
    struct work *work = begin_work(req);
    work->has_timer = true;
    (void)uv_timer_init(&app.loop, &work->timer);
    work->timer.data = work;
    (void)uv_timer_start(&work->timer, on_take_later, number(target, "ms", 10), 0);
}

static void route(struct http_request *req, struct target *target)
{
    size_t len;
    const char *body = http_body(req, &len);
    if (target_match(target, "/health", NULL)) {
        reply_text(req, 200, "{\"ok\":true,\"a\":\"b\"}\n", 20);
    } else if (target_match(target, "/echo", NULL)) {
        reply_text(req, 200, body, len);
    } else if (target_match(target, "/later", NULL)) {
        later(req, target);
    } else if (target_match(target, "/hold", NULL)) {
        (void)begin_work(req);
    } else if (target_match(target, "/release", NULL)) {
        reply_text(req, 200, "ok\n", release() > 0 ? 3 : 0);
    } else if (target_match(target, "/flood", NULL)) {
        begin_flood(req, target, true);
    } else if (target_match(target, "/rude", NULL)) {
        begin_flood(req, target, false);
    } else if (target_match(target, "/events", NULL)) {
        struct work *work = begin_work(req);
        work->is_stream = true;
        sse_begin(req);
    } else if (target_match(target, "/send", NULL)) {
        send_events(body);
        reply_text(req, 200, "sent\n", 5);
    } else if (target_match(target, "/status", NULL)) {
        fail(req, (unsigned)number(target, "code", 200), "some text\n");
    } else if (target_match(target, "/take", NULL) || target_match(target, "/plain-take", NULL)) {
        take(req, target);
    } else if (target_match(target, "/take/later", NULL)) {
        take_later(req, target);
    } else if (target_match(target, "/take/no", NULL)) {
        fail(req, 403, "not that\n");
    } else if (target_match(target, "/stats", NULL)) {
        stats(req);
    } else if (target->n_segments > 0 && strcmp(target->segments[0], "describe") == 0) {
        describe(req, target);
    } else {
        fail(req, 404, "no such route\n");
    }
}

static void handle(struct http_request *req, void *data)
{
    struct target target;
    struct err err;
    (void)data;
    app.contexts++;
    http_set_context(req, NULL, on_context);
    http_add_header(req, "X-Request-Id", "r1");
    if (target_parse(&target, http_target(req), &err) < 0) {
        fail(req, 400, err.msg);
        return;
    }
    route(req, &target);
    target_done(&target);
}

// --- the program

static void on_signal(uv_signal_t *signal, int number)
{
    (void)signal;
    if (number == SIGUSR1) {
        http_drain(app.server);
        return;
    }
    if (app.server != NULL)
        http_stop(app.server);
    app.server = NULL;
    if (number == SIGTERM) {
        for (unsigned i = 0; i < 3; i++)
            uv_close((uv_handle_t *)&app.signals[i], NULL);
    }
}

static int argument(int argc, char **argv, int i)
{
    uint64_t n = 0;
    struct err err;
    if (i < argc && parse_u64(argv[i], 0, 1000000, &n, &err) < 0)
        exit(2);
    return (int)n;
}

int main(int argc, char **argv)
{
    const int numbers[3] = {SIGTERM, SIGUSR1, SIGUSR2};
    const struct http_listener listeners[2] = {
        {.fd = argument(argc, argv, 1), .local = false},
        {.fd = argument(argc, argv, 3), .local = true },
    };
    struct err err;
    (void)uv_loop_init(&app.loop);
    for (unsigned i = 0; i < 3; i++) {
        (void)uv_signal_init(&app.loop, &app.signals[i]);
        (void)uv_signal_start(&app.signals[i], on_signal, numbers[i]);
    }
    const struct http_config config = {
        .loop = &app.loop,
        .listeners = listeners,
        .n_listeners = argc > 3 ? 2 : 1,
        .handler = handle,
        .is_raw = is_raw,
        .idle_seconds = (unsigned)argument(argc, argv, 2),
    };
    if (http_start(&config, &app.server, &err) < 0) {
        (void)fprintf(stderr, "edge-server: %s\n", err.msg);
        return 1;
    }
    (void)puts("ready");
    (void)fflush(stdout);
    (void)uv_run(&app.loop, UV_RUN_DEFAULT);
    // The listening sockets are not the server's to close.
    for (unsigned i = 0; i < config.n_listeners; i++) {
        if (fcntl(listeners[i].fd, F_GETFD) < 0)
            return 4;
    }
    return uv_loop_close(&app.loop) == 0 && app.works == NULL && app.contexts == 0 ? 0 : 3;
}
