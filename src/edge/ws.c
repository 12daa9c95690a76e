// SPDX-License-Identifier: Apache-2.0
// Frames in both directions and how a WebSocket ends; ws-handshake.c is how it begins. libwslay
// makes and reads frames; whatever it makes goes into `out` at once, so that there is one queue and
// one place that knows its length. Nothing is written to the socket but from the loop.
#include "edge/ws.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>
#include <wslay/wslay.h>

#include "base/fd.h"
#include "edge/ws-internal.h"

enum {
    READ_TURN = 256 * 1024, // bytes before others have their turn
    READ_STOP = WS_QUEUE_MAX / 2,
    OUT_SLACK = 64 * 1024, // for pongs and the close behind a full queue
    OUT_KEPT = 4 * 1024,   // memory of an empty queue: what is typed is echoed in small pieces
    TICK_MS = 5000,
    CLOSE_MS = 10 * 1000, // the other side takes nothing of what comes before our close
    LINGER_MS = 2000,
    LINGER_MAX = 4 * 1024 * 1024, // bytes
    HANDLES = 2,
    REASON_MAX = 123, // of a close frame
};

enum state {
    STATE_OPEN,    // messages
    STATE_CLOSING, // our close is on its way or there: theirs is awaited
    STATE_LINGER,  // nobody's any more: what still comes is dropped, lest a reset eats our close
    STATE_ENDED,   // libuv is closing the handles
};

struct ws {
    uv_poll_t poll;
    uv_timer_t timer;
    unsigned handles;
    int fd;
    enum state state;
    wslay_event_context_ptr wslay;
    const struct ws_ops *ops;
    void *data;
    struct buf early;
    size_t early_at;
    struct buf out;
    size_t out_at;
    bool paused;
    bool in_wslay;
    bool lost;     // the connection is of no use any more
    unsigned doom; // not 0: what it sent ends it, with this code
    unsigned fragments;
    unsigned control; // frames left
    uint64_t control_ms;
    uint64_t heard_ms, pinged_ms, moved_ms;
    size_t turn;
    int events;
    TAILQ_ENTRY(ws) all;
};

static TAILQ_HEAD(, ws) everyone = TAILQ_HEAD_INITIALIZER(everyone);

static uint64_t now_ms(const struct ws *ws)
{
    return uv_now(ws->poll.loop);
}

static void update(struct ws *ws);
static void on_tick(uv_timer_t *timer);

// --- the end

static void on_handle_closed(uv_handle_t *handle)
{
    struct ws *ws = handle->data;
    if (--ws->handles > 0)
        return;
    fd_close(ws->fd);
    wslay_event_context_free(ws->wslay);
    buf_done(&ws->early);
    buf_done(&ws->out);
    free(ws);
}

static void end(struct ws *ws)
{
    if (ws->state == STATE_ENDED)
        return;
    ws->state = STATE_ENDED;
    TAILQ_REMOVE(&everyone, ws, all);
    uv_close((uv_handle_t *)&ws->poll, on_handle_closed);
    uv_close((uv_handle_t *)&ws->timer, on_handle_closed);
}

static void tell_closed(struct ws *ws, unsigned code)
{
    const struct ws_ops *ops = ws->ops;
    ws->ops = NULL;
    if (ops != NULL)
        ops->closed(ws->data, code);
}

static void on_linger_over(uv_timer_t *timer)
{
    end(timer->data);
}

static void linger(struct ws *ws, unsigned code)
{
    (void)shutdown(ws->fd, SHUT_WR);
    ws->state = STATE_LINGER;
    ws->turn = 0;
    (void)uv_timer_start(&ws->timer, on_linger_over, LINGER_MS, 0);
    update(ws);
    tell_closed(ws, code);
}

static void drop_rest(struct ws *ws)
{
    static char nowhere[16 * 1024];
    ssize_t n = read(ws->fd, nowhere, sizeof nowhere);
    ws->turn += n > 0 ? (size_t)n : 0;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) || ws->turn > LINGER_MAX)
        end(ws);
}

static void broken(struct ws *ws, unsigned code)
{
    end(ws);
    tell_closed(ws, code);
}

// What the other side said, or what we said for what it did.
static unsigned close_code(const struct ws *ws)
{
    return wslay_event_get_close_received(ws->wslay)
               ? wslay_event_get_status_code_received(ws->wslay)
               : wslay_event_get_status_code_sent(ws->wslay);
}

// --- writing

static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *data, size_t len, int flags,
                       void *arg)
{
    struct ws *ws = arg;
    (void)flags;
    if (buf_append(&ws->out, data, len) == 0)
        return (ssize_t)len;
    ws->lost = true;
    wslay_event_set_error(ctx, WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

// Frames into the queue.
static void frame(struct ws *ws)
{
    if (ws->in_wslay || ws->doom != 0 || !wslay_event_want_write(ws->wslay))
        return;
    ws->in_wslay = true;
    if (wslay_event_send(ws->wslay) != 0)
        ws->lost = true;
    ws->in_wslay = false;
}

static void queue(struct ws *ws, uint8_t opcode, const void *data, size_t len)
{
    const struct wslay_event_msg msg = {.opcode = opcode, .msg = data, .msg_length = len};
    int r = wslay_event_queue_msg(ws->wslay, &msg);
    if (r != 0 && r != WSLAY_ERR_NO_MORE_MSG) // a close is queued: nothing goes behind it
        ws->lost = true;
    frame(ws);
}

static void send_message(struct ws *ws, uint8_t opcode, const void *data, size_t len)
{
    if (ws->state != STATE_OPEN)
        return;
    if (ws_queued(ws) + len > WS_QUEUE_MAX)
        ws->lost = true; // it takes nothing: it would not take a goodbye
    else
        queue(ws, opcode, data, len);
    update(ws);
}

void ws_send_text(struct ws *ws, const char *text, size_t len)
{
    send_message(ws, WSLAY_TEXT_FRAME, text, len);
}

void ws_send_binary(struct ws *ws, const void *bytes, size_t len)
{
    send_message(ws, WSLAY_BINARY_FRAME, bytes, len);
}

size_t ws_queued(const struct ws *ws)
{
    return ws->out.len - ws->out_at;
}

void ws_close(struct ws *ws, unsigned code, const char *reason)
{
    size_t len = reason != NULL ? strnlen(reason, REASON_MAX) : 0;
    if (ws->state != STATE_OPEN)
        return;
    ws->state = STATE_CLOSING;
    ws->moved_ms = now_ms(ws);
    // An error here is a close that is queued already.
    (void)wslay_event_queue_close(ws->wslay, (uint16_t)code, (const uint8_t *)reason, len);
    frame(ws);
    update(ws);
}

// Writes what goes. -1: nobody takes it any more.
static int flush(struct ws *ws)
{
    while (ws_queued(ws) > 0) {
        ssize_t n = send(ws->fd, ws->out.data + ws->out_at, ws_queued(ws), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : -1;
        ws->out_at += (size_t)n;
        ws->moved_ms = now_ms(ws);
    }
    if (ws->out.cap > OUT_KEPT)
        buf_done(&ws->out); // gives its memory back, and stays usable
    else
        buf_reset(&ws->out);
    ws->out_at = 0;
    return 0;
}

// --- reading

static ssize_t would_block(wslay_event_context_ptr ctx)
{
    wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
    return -1;
}

static ssize_t read_early(struct ws *ws, uint8_t *data, size_t len)
{
    size_t left = ws->early.len - ws->early_at;
    size_t n = len < left ? len : left;
    memcpy(data, ws->early.data + ws->early_at, n);
    ws->early_at += n;
    if (ws->early_at == ws->early.len) {
        buf_done(&ws->early);
        ws->early_at = 0;
    }
    return (ssize_t)n;
}

static bool may_read(const struct ws *ws)
{
    return !ws->paused && ws->doom == 0 && ws_queued(ws) < READ_STOP;
}

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *data, size_t len, int flags, void *arg)
{
    struct ws *ws = arg;
    (void)flags;
    if (!may_read(ws) || ws->turn >= READ_TURN)
        return would_block(ctx);
    // Not recv(2): in the daemon that is the HTTP server's (http-recv.c).
    ssize_t n = ws->early.len > 0 ? read_early(ws, data, len) : read(ws->fd, data, len);
    if (n > 0) {
        ws->turn += (size_t)n;
        ws->heard_ms = now_ms(ws);
        return n;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return would_block(ctx);
    ws->lost = true;
    wslay_event_set_error(ctx, WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static bool take_control(struct ws *ws)
{
    uint64_t now = now_ms(ws), more = (now - ws->control_ms) * WS_CONTROL_RATE / 1000;
    if (more > 0) {
        ws->control_ms = now;
        ws->control = ws->control + more < WS_CONTROL_BURST ? ws->control + (unsigned)more
                                                            : (unsigned)WS_CONTROL_BURST;
    }
    if (ws->control == 0)
        return false;
    ws->control--;
    return true;
}

static void on_frame(wslay_event_context_ptr ctx,
                     const struct wslay_event_on_frame_recv_start_arg *arg, void *data)
{
    struct ws *ws = data;
    (void)ctx;
    unsigned wrong = 0;
    if (wslay_is_ctrl_frame(arg->opcode))
        wrong = take_control(ws) ? 0 : WS_POLICY;
    else if (arg->opcode != WSLAY_CONTINUATION_FRAME)
        ws->fragments = 0;
    else if (++ws->fragments > WS_FRAGMENTS_MAX)
        wrong = WS_POLICY;
    if (arg->opcode == WSLAY_CONNECTION_CLOSE && arg->payload_length == 1)
        wrong = WS_PROTOCOL; // half a code, which the library takes for none
    if (ws->doom == 0)
        ws->doom = wrong;
}

static void on_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *arg,
                       void *data)
{
    struct ws *ws = data;
    (void)ctx;
    if (ws->state != STATE_OPEN || ws->doom != 0)
        return;
    if (arg->opcode == WSLAY_TEXT_FRAME)
        ws->ops->text(ws->data, (const char *)arg->msg, arg->msg_length);
    else if (arg->opcode == WSLAY_BINARY_FRAME)
        ws->ops->binary(ws->data, arg->msg, arg->msg_length);
}

// Our close without the library, which has no code for a frame that it cannot read, and says
// nothing of what it tolerates. What it has queued itself is not sent.
static void refuse(struct ws *ws)
{
    const uint8_t bytes[] = {0x88, 2, (uint8_t)(ws->doom >> 8), (uint8_t)ws->doom};
    if (buf_append(&ws->out, bytes, sizeof bytes) < 0)
        ws->lost = true;
    ws->state = STATE_CLOSING;
    ws->moved_ms = now_ms(ws);
}

static void take(struct ws *ws)
{
    if (!wslay_event_want_read(ws->wslay))
        return;
    ws->turn = 0;
    ws->in_wslay = true;
    int r = wslay_event_recv(ws->wslay);
    ws->in_wslay = false;
    if (r == WSLAY_ERR_NOMEM)
        ws->lost = true;
    else if (r != 0 && !ws->lost && ws->doom == 0)
        ws->doom = WS_PROTOCOL;
    if (ws->doom != 0 && !wslay_event_get_close_sent(ws->wslay))
        refuse(ws);
    frame(ws);
}

// --- on the loop

// Whether it is over, after reading and writing.
static bool over(struct ws *ws)
{
    if (ws->state != STATE_OPEN && ws->state != STATE_CLOSING)
        return true;
    if (ws->lost) {
        broken(ws, WS_BROKEN);
        return true;
    }
    if (ws->state == STATE_OPEN && !wslay_event_get_read_enabled(ws->wslay)) {
        ws->state = STATE_CLOSING; // they said goodbye, or what they sent makes no sense
        ws->moved_ms = now_ms(ws);
    }
    if (ws->doom != 0 && ws_queued(ws) == 0) {
        linger(ws, ws->doom);
        return true;
    }
    if (ws_queued(ws) > 0 || !wslay_event_get_close_sent(ws->wslay))
        return false;
    // Ours is out. Theirs is there too, or what they sent was so wrong that it cannot come.
    if (wslay_event_get_close_received(ws->wslay) || !wslay_event_get_read_enabled(ws->wslay)) {
        linger(ws, close_code(ws));
        return true;
    }
    return false;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct ws *ws = poll->data;
    if (ws->state == STATE_LINGER) {
        drop_rest(ws);
        return;
    }
    if (ws->state == STATE_ENDED)
        return;
    if (status < 0 || (events & UV_DISCONNECT))
        ws->lost = true;
    if (!ws->lost && may_read(ws))
        take(ws);
    bool had = ws_queued(ws) > 0;
    if (flush(ws) < 0)
        ws->lost = true;
    if (over(ws))
        return;
    if (had && ws_queued(ws) == 0 && ws->state == STATE_OPEN && ws->ops->drained != NULL)
        ws->ops->drained(ws->data);
    update(ws);
}

// Asks the loop for what is to be done next. What is wrong is seen to there as well: whoever sends
// does not hear of it before it returns.
static void update(struct ws *ws)
{
    int events = UV_READABLE;
    if (ws->state == STATE_ENDED || ws->in_wslay)
        return;
    if (ws->state != STATE_LINGER) {
        events = may_read(ws) ? UV_READABLE : UV_DISCONNECT;
        if (ws_queued(ws) > 0 || ws->lost || (may_read(ws) && ws->early.len > 0))
            events |= UV_WRITABLE;
    }
    if (events != ws->events)
        (void)uv_poll_start(&ws->poll, events, on_poll);
    ws->events = events;
    if (ws->lost && ws->state != STATE_LINGER)
        (void)uv_timer_start(&ws->timer, on_tick, 0, TICK_MS); // it may never be writable
}

void ws_pause(struct ws *ws, bool paused)
{
    if (ws->paused == paused)
        return;
    ws->paused = paused;
    if (!paused)
        ws->heard_ms = now_ms(ws); // nobody listened
    update(ws);
}

static void ping(struct ws *ws, uint64_t now)
{
    const uint64_t period = WS_PING_SECONDS * UINT64_C(1000);
    if (ws->paused || now - ws->heard_ms < period || now - ws->pinged_ms < period)
        return;
    if (now - ws->heard_ms >= 2 * period && ws->pinged_ms > ws->heard_ms) {
        ws->lost = true;
        return;
    }
    ws->pinged_ms = now;
    queue(ws, WSLAY_PING, NULL, 0);
}

static void on_tick(uv_timer_t *timer)
{
    struct ws *ws = timer->data;
    uint64_t now = now_ms(ws);
    if (ws->state == STATE_OPEN)
        ping(ws, now);
    else if (ws->state == STATE_CLOSING && now - ws->moved_ms >= CLOSE_MS)
        ws->lost = true;
    if (!over(ws))
        update(ws);
}

// --- the beginning

static void set_up(struct ws *ws, size_t max_message)
{
    static const struct wslay_event_callbacks callbacks = {
        .recv_callback = on_recv,
        .send_callback = on_send,
        .on_frame_recv_start_callback = on_frame,
        .on_msg_recv_callback = on_message,
    };
    if (wslay_event_context_server_init(&ws->wslay, &callbacks, ws) != 0)
        abort(); // no memory
    wslay_event_config_set_max_recv_msg_length(ws->wslay, max_message);
    ws->control = WS_CONTROL_BURST;
    ws->heard_ms = ws->moved_ms = ws->control_ms = now_ms(ws);
}

struct ws *ws_new(uv_loop_t *loop, int fd, struct buf *early, size_t max_message,
                  const struct ws_ops *ops, void *data)
{
    struct ws *ws = calloc(1, sizeof *ws);
    if (ws == NULL)
        abort();
    ws->fd = fd;
    ws->ops = ops;
    ws->data = data;
    buf_init(&ws->out, WS_QUEUE_MAX + OUT_SLACK);
    buf_init(&ws->early, 0);
    if (early != NULL) {
        ws->early = *early;
        buf_init(early, 0);
    }
    ws->poll.data = ws->timer.data = ws;
    ws->handles = HANDLES;
    (void)uv_timer_init(loop, &ws->timer);
    if (uv_poll_init(loop, &ws->poll, fd) < 0)
        abort(); // a socket that libuv has been polling until now
    set_up(ws, max_message);
    TAILQ_INSERT_TAIL(&everyone, ws, all);
    (void)uv_timer_start(&ws->timer, on_tick, TICK_MS, TICK_MS);
    update(ws);
    return ws;
}

void ws_begin_with(struct ws *ws, const struct buf *head)
{
    if (buf_append(&ws->out, head->data, head->len) < 0)
        ws->lost = true;
    update(ws);
}

void ws_end_all(void)
{
    struct ws *ws;
    while ((ws = TAILQ_FIRST(&everyone)) != NULL)
        broken(ws, WS_GOING_AWAY);
}
