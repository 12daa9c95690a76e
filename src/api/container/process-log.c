// SPDX-License-Identifier: Apache-2.0
// What a process has written: all that is kept, or followed as events.
#include <inttypes.h>

#include "api/container/exec.h"
#include "api/container/process.h"
#include "api/follow.h"
#include "api/show.h"

enum {
    CHUNK = 64 * 1024,
    LOG_MAX = 64 * 1024 * 1024, // of a stream, in one answer
    ESCAPED_MAX = 6,
};

// -- all of it

// Whether all that ever came is in it.
static bool read_log(struct process *p, enum log_stream stream, struct buf *ret)
{
    uint64_t offset = 0, at = 0;
    struct bytelog *log = process_log(p, stream);
    bool is_whole = true;
    for (ssize_t n = 1; log != NULL && n > 0;) {
        char *to;
        size_t room;
        if (buf_reserve(ret, CHUNK, &to, &room) < 0)
            return false;
        n = bytelog_read(log, offset, to, room, &at);
        if (n <= 0)
            break;
        is_whole = is_whole && at == offset;
        offset = at + (uint64_t)n;
        buf_commit(ret, (size_t)n);
    }
    return is_whole && (log == NULL || bytelog_lost(log) == 0);
}

void container_process_logs(struct call *call)
{
    static const char *const names[LOG_STREAMS] = {"stdout", "stderr"};
    struct container_answer a;
    bool is_whole = true;
    struct process *p = container_process(call);
    if (p == NULL)
        return;
    container_begin(&a, true);
    a.buf.max = (size_t)LOG_STREAMS * ESCAPED_MAX * LOG_MAX;
    show_str(&a.json, "processId", process_row(p)->id);
    for (int i = 0; i < LOG_STREAMS; i++) {
        auto_buf text;
        buf_init(&text, LOG_MAX);
        is_whole = read_log(p, (enum log_stream)i, &text) && is_whole;
        // Before it is written: as JSON it may take several times as much.
        if (!call_hold(call, a.buf.len + json_text_size(text.data, text.len))) {
            buf_done(&a.buf);
            call_scarce(call);
            return;
        }
        json_key(&a.json, names[i]);
        container_put_output(&a.json, text.data, text.len, container_process_is_base64(p));
    }
    if (container_process_is_base64(p))
        show_str(&a.json, "encoding", "base64");
    if (!is_whole)
        show_bool(&a.json, "truncated", true);
    container_end(call, &a);
}

// -- as it comes

static void begin_event(struct container_answer *e, const char *type, const struct process *p)
{
    container_event_begin(e, type);
    show_str(&e->json, "processId", process_row(p)->id);
}

static void on_start(struct call *call, struct process *p)
{
    struct container_answer e;
    begin_event(&e, "process_info", p);
    json_key(&e.json, "command");
    container_process_command(&e.json, p);
    show_str(&e.json, "status", container_process_status(p));
    container_event_send(call, &e);
}

static void on_piece(struct call *call, struct process *p, enum log_stream stream, const char *data,
                     size_t len)
{
    struct container_answer e;
    begin_event(&e, stream == LOG_STDOUT ? "stdout" : "stderr", p);
    json_key(&e.json, "data");
    container_put_output(&e.json, data, len, container_process_is_base64(p));
    container_event_send(call, &e);
}

// An `error` is what their client knows; those of its methods that wait for the end or for a text
// go on to the next event, and so does the stream.
static void on_lost(struct call *call, struct process *p, enum log_stream stream, uint64_t n)
{
    struct container_answer e;
    char text[160];
    (void)snprintf(text, sizeof text,
                   "%" PRIu64 " bytes of %s were lost: there was more than a log keeps. The stream "
                   "goes on",
                   n, stream == LOG_STDOUT ? "stdout" : "stderr");
    begin_event(&e, "error", p);
    show_str(&e.json, "error", text);
    show_str(&e.json, "data", text);
    container_event_send(call, &e);
}

static void on_exit(struct call *call, struct process *p, bool truncated)
{
    struct container_answer e;
    char text[64];
    struct job_end end = show_end_of(process_row(p));
    if (end.reason == END_BOX_LOST) {
        container_event_error(call, "the sandbox's box ended while the process ran");
        return;
    }
    (void)snprintf(text, sizeof text, "Process exited with code %d", show_exit_code(&end));
    begin_event(&e, "exit", p);
    show_int(&e.json, "exitCode", show_exit_code(&end));
    show_str(&e.json, "data", text);
    if (truncated)
        show_bool(&e.json, "truncated", true);
    container_event_send(call, &e);
}

static void on_broken(struct call *call, struct process *p, const char *why)
{
    (void)p;
    container_event_error(call, why);
}

void container_process_stream(struct call *call)
{
    static const struct follow_words words = {.start = on_start,
                                              .piece = on_piece,
                                              .lost = on_lost,
                                              .exit = on_exit,
                                              .broken = on_broken};
    struct process *p = container_process(call);
    if (p == NULL)
        return;
    const struct follow_request request = {
        .wanted = {true, true},
          .live = !call->is_head, .start = true, .words = &words
    };
    follow_begin(call, p, &request);
}
