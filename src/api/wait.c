// SPDX-License-Identifier: Apache-2.0
// Waiting for something about a process: its end, a line in its log, a port that something in the
// box listens on. Looking at ports means looking inside: a small exec that prints the kernel's
// tables, now and then.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/pattern.h"
#include "api/processes.h"
#include "api/schemas.h"
#include "api/show.h"
#include "sandbox/exec.h"

enum {
    LINE_MAX_BYTES = 8 * 1024, // longer lines are looked at in pieces
    TURN_PIECES = 8,           // of them before others have their turn
    PORT_EVERY_MS = 100,
    STATE_LISTEN = 0x0A,
};

struct wait_body {
    struct body_bool exit;
    const char *log;
    struct body_int port, timeout;
};
static const struct field wait_fields[] = {
    FIELD("exit", FIELD_BOOL, offsetof(struct wait_body, exit), .help = "true: for its end"),
    FIELD("log", FIELD_STRING, offsetof(struct wait_body, log), .max = PATTERN_TEXT_MAX,
          .help = "For a line of its output that this extended regular expression is found in"),
    FIELD("port", FIELD_INT, offsetof(struct wait_body, port), .min = 1, .max = 65535,
          .help = "For something in the sandbox that listens on this TCP port"),
    FIELD("timeout", FIELD_MS, offsetof(struct wait_body, timeout), .max = INT64_C(366) * 86400000,
          .help = "How long at most: milliseconds, or a text such as \"30s\""),
};
const struct schema wait_schema = SCHEMA("Wait", struct wait_body, wait_fields);

struct wait {
    struct call *call; // counted; NULL when it is over
    struct process *p; // counted
    struct process_watch *watch;
    struct pattern *pattern; // with a log
    uint64_t offset[LOG_STREAMS];
    int64_t port; // 0: none
    struct exec *probe;
    bool probing;
    uv_timer_t deadline, again;
    unsigned handles; // that are not closed
};

struct link { // call->state
    struct wait *wait;
};

struct match {
    const char *what; // NULL: nothing
    bool timed_out;
    const char *line, *stream;
    size_t line_len;
    uint64_t offset;
};

// -- the end of waiting

static void closed(uv_handle_t *handle)
{
    struct wait *w = handle->data;
    if (--w->handles == 0)
        free(w);
}

static void let_go(struct wait *w)
{
    struct call *call = w->call;
    ((struct link *)call->state)->wait = NULL;
    w->call = NULL;
    call->stop = NULL;
    process_watch_free(w->watch);
    process_unref(w->p);
    pattern_free(w->pattern);
    if (w->probe != NULL)
        exec_cancel(w->probe);
    w->probe = NULL;
    uv_close((uv_handle_t *)&w->deadline, closed);
    uv_close((uv_handle_t *)&w->again, closed);
    call_unref(call);
}

static void stop(struct call *call)
{
    struct link *link = call->state;
    if (link->wait != NULL)
        let_go(link->wait);
}

static void reply(struct wait *w, const struct match *m)
{
    struct buf buf;
    struct json j;
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", m->what != NULL);
    show_str(&j, "matched", m->what);
    show_bool(&j, "timedOut", m->timed_out);
    if (m->line != NULL) {
        show_str(&j, "stream", m->stream);
        show_int(&j, "offset", (int64_t)m->offset);
        json_key(&j, "line");
        json_put_strn(&j, m->line, m->line_len);
    }
    json_key(&j, "process");
    json_open_object(&j);
    show_process(&j, w->p);
    json_close_object(&j);
    json_close_object(&j);
    call_reply_json(w->call, 200, &j);
    let_go(w);
}

static bool has_ended(const struct wait *w)
{
    return process_row(w->p)->reason != END_NONE;
}

// -- a line

enum scan { SCAN_NOTHING, SCAN_MORE, SCAN_OVER };

// Looks at one line or piece of a stream. An unfinished line is looked at too (a prompt has no line
// end) and again when it has grown.
static enum scan scan_line(struct wait *w, enum log_stream stream)
{
    char data[LINE_MAX_BYTES];
    uint64_t at;
    struct bytelog *log = process_log(w->p, stream);
    ssize_t n = log != NULL ? bytelog_read(log, w->offset[stream], data, sizeof data, &at) : 0;
    if (n <= 0)
        return SCAN_NOTHING;
    w->offset[stream] = at;
    for (size_t from = 0; from < (size_t)n;) {
        const char *end = memchr(data + from, '\n', (size_t)n - from);
        size_t len = end != NULL ? (size_t)(end - data) - from : (size_t)n - from;
        if (pattern_found(w->pattern, data + from, len)) {
            reply(w, &(struct match){.what = "log",
                                     .line = data + from,
                                     .line_len = len,
                                     .stream = stream == LOG_STDOUT ? "stdout" : "stderr",
                                     .offset = at + from});
            return SCAN_OVER;
        }
        if (end == NULL && (from > 0 || (size_t)n < sizeof data))
            return from > 0 && (size_t)n == sizeof data ? SCAN_MORE : SCAN_NOTHING;
        from += len + (end != NULL);
        w->offset[stream] = at + from;
    }
    return SCAN_MORE;
}

static void scan(struct wait *w);

static void on_again(uv_timer_t *timer)
{
    scan(timer->data);
}

static void scan(struct wait *w)
{
    enum scan found[LOG_STREAMS] = {SCAN_MORE, SCAN_MORE};
    for (int turn = 0; turn < TURN_PIECES; turn++) {
        for (int i = 0; i < LOG_STREAMS; i++) {
            if (found[i] == SCAN_MORE)
                found[i] = scan_line(w, (enum log_stream)i);
            if (found[i] == SCAN_OVER)
                return;
        }
    }
    if (found[LOG_STDOUT] == SCAN_MORE || found[LOG_STDERR] == SCAN_MORE)
        (void)uv_timer_start(&w->again, on_again, 0, 0);
    else if (has_ended(w))
        reply(w, &(struct match){0});
}

// -- a port

static bool listens(const char *table, int64_t port)
{
    for (const char *line = table; line != NULL && *line != '\0';) {
        unsigned number, local, state;
        if (sscanf(line, " %u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", &number, &local, &state) ==
                3 &&
            state == STATE_LISTEN && (int64_t)local == port)
            return true;
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return false;
}

static void probe(struct wait *w);

static void on_probe_again(uv_timer_t *timer)
{
    probe(timer->data);
}

static void on_probe(void *data, struct exec_result *result, const struct err *err)
{
    struct wait *w = data;
    w->probe = NULL;
    w->probing = false;
    if (w->call == NULL)
        return;
    if (result != NULL && listens(buf_str(result->out), w->port)) {
        reply(w, &(struct match){.what = "port"});
    } else if (has_ended(w)) {
        reply(w, &(struct match){0});
    } else if (result == NULL) {
        call_fail(w->call, err);
        let_go(w);
    } else {
        (void)uv_timer_start(&w->again, on_probe_again, PORT_EVERY_MS, 0);
    }
}

static void probe(struct wait *w)
{
    static const char *const argv[] = {"cat", "/proc/net/tcp", "/proc/net/tcp6", NULL};
    struct err err = {0};
    char **env = exec_env(w->call->sandbox, NULL, 0, &err);
    struct exec_request request = {
        .argv = argv, .envp = (const char *const *)env, .cwd = "/", .timeout_ms = 10000};
    w->probing = true;
    struct exec *exec =
        env != NULL ? exec_start(w->call->sandbox, &request, on_probe, w, &err) : NULL;
    if (env != NULL)
        exec_env_free(env);
    if (exec == NULL) {
        if (has_ended(w)) {
            reply(w, &(struct match){0});
            return;
        }
        call_fail(w->call, &err);
        let_go(w);
    } else if (w->probing) {
        w->probe = exec;
    }
}

// -- the route

static void on_deadline(uv_timer_t *timer)
{
    reply(timer->data, &(struct match){.timed_out = true});
}

static void look(struct wait *w)
{
    if (w->pattern != NULL)
        scan(w);
    else if (w->port == 0 && has_ended(w))
        reply(w, &(struct match){.what = "exit"});
    else if (w->port != 0 && has_ended(w) && w->probe == NULL)
        reply(w, &(struct match){0});
}

static void on_news(void *data, struct process *p)
{
    struct wait *w = data;
    if (p != NULL) {
        look(w);
        return;
    }
    call_error(w->call, ERROR_NOT_FOUND, NULL, "the process was deleted meanwhile");
    let_go(w);
}

static void begin(struct call *call, struct process *p, struct pattern *pattern)
{
    const struct wait_body *b = call->body.values;
    struct wait *w = calloc(1, sizeof *w);
    struct link *link = calloc(1, sizeof *link);
    if (w == NULL || link == NULL)
        abort();
    *w = (struct wait){.call = call_ref(call),
                       .p = process_ref(p),
                       .pattern = pattern,
                       .port = b->port.value,
                       .handles = 2};
    (void)uv_timer_init(call->api->loop, &w->deadline);
    (void)uv_timer_init(call->api->loop, &w->again);
    w->deadline.data = w->again.data = w;
    link->wait = w;
    call->state = link;
    call->stop = stop;
    w->watch = process_watch(p, on_news, w);
    if (b->timeout.given)
        (void)uv_timer_start(&w->deadline, on_deadline, (uint64_t)b->timeout.value, 0);
    if (w->port != 0 && !has_ended(w))
        probe(w);
    else
        look(w);
}

void handle_process_wait(struct call *call)
{
    struct err err = {0};
    struct pattern *pattern = NULL;
    const struct wait_body *b = call->body.values;
    if (b->exit.value + (b->log != NULL) + b->port.given != 1) {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "one of 'exit': true, 'log' and 'port' is needed");
        return;
    }
    if (b->log != NULL && pattern_new(b->log, &pattern, &err) < 0) {
        (void)err_wrap(&err, "log");
        call_fail(call, &err);
        return;
    }
    struct process *p = process_of(call);
    if (p == NULL)
        pattern_free(pattern);
    else
        begin(call, p, pattern);
}
