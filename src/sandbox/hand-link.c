// SPDX-License-Identifier: Apache-2.0
// The daemon's end of a hand's socket. A hand is asked for when there is something for it to do;
// what is asked waits until it is there, or until its socket has room. One that dies takes along
// what was asked of it, and the next request starts another.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "sandbox/hand.h"
#include "sandbox/sandbox-internal.h"
#include "wire/wire.h"

enum {
    CALLS_MAX = 1024,              // of one sandbox, at once
    UNSENT_MAX = 16 * 1024 * 1024, // bytes of these that its hand has not taken
    AT_ONCE = 32,                  // answers read before others have their turn
    TICK_MS = 5000,
    SILENCE_MS = 30 * 1000, // of a hand that owes an answer: user code may have stopped it
};

struct hand_call {
    struct hand_link *link; // NULL: it could not be asked, and is told so in a moment
    struct hand_call *next;
    uint32_t id;
    uint16_t type;
    bool sent, given; // given: a long one, whose pipe is there
    hand_fn fn;
    hand_ended_fn ended;
    void *data;
    char *path; // for messages
    char *msg;  // until it is sent
    size_t msg_len;
};

struct hand_link {
    struct sandbox *s;
    uint16_t version; // of the messages: its guest may be older than we are
    int sock;         // -1: the guest was asked for it
    uv_poll_t *poll;
    int events;              // what the poll waits for
    struct hand_call *calls; // newest first
    unsigned n_calls;
    size_t unsent; // bytes
    uint32_t next_id;
    uv_timer_t *tick; // runs while something is owed
    uint64_t heard_ms;
    bool broken; // it is gone: those who wait are told in a moment
    uv_timer_t *later;
    struct err why;
};

static bool is_long(uint16_t type)
{
    return type >= HAND_LIST;
}

// A watch to which nothing comes does not keep a sandbox awake.
static bool is_work(uint16_t type)
{
    return type != HAND_WATCH;
}

// --- calls

static void call_free(struct hand_call *call)
{
    free(call->path);
    free(call->msg);
    free(call);
}

// Whether it was there.
static bool unlink_call(struct hand_call *call)
{
    struct hand_link *link = call->link;
    for (struct hand_call **p = &link->calls; *p != NULL; p = &(*p)->next) {
        if (*p == call) {
            *p = call->next;
            link->n_calls--;
            link->unsent -= call->sent ? 0 : call->msg_len;
            if (is_work(call->type))
                sandbox_idle(link->s);
            return true;
        }
    }
    return false;
}

static struct hand_call *find_call(struct hand_link *link, uint32_t id)
{
    struct hand_call *call = link->calls;
    while (call != NULL && call->id != id)
        call = call->next;
    return call;
}

static void tell_failed(struct hand_call *call, const struct err *err)
{
    if (call->given)
        call->ended(call->data, NULL, err);
    else
        call->fn(call->data, NULL, err);
    call_free(call);
}

// Everybody who waits is told that it is gone.
static void fail_all(struct hand_link *link, const struct err *err)
{
    struct hand_call *oldest = NULL;
    while (link->calls != NULL) {
        struct hand_call *call = link->calls;
        (void)unlink_call(call);
        call->next = oldest;
        oldest = call;
    }
    while (oldest != NULL) {
        struct hand_call *call = oldest;
        oldest = call->next;
        tell_failed(call, err);
    }
}

// --- the link

static void close_socket(struct hand_link *link)
{
    if (link->poll != NULL) {
        link->poll->data = NULL;
        uv_close((uv_handle_t *)link->poll, (uv_close_cb)free);
    }
    link->poll = NULL;
    if (link->tick != NULL)
        uv_close((uv_handle_t *)link->tick, (uv_close_cb)free);
    link->tick = NULL;
    fd_close(TAKE_FD(link->sock));
}

void hand_link_free(struct hand_link *link)
{
    struct err err = {0};
    if (link == NULL)
        return;
    if (link->s->hand == link)
        link->s->hand = NULL;
    (void)err_set(&err, ERR_UNAVAILABLE, "the sandbox's box has ended");
    close_socket(link);
    if (link->later != NULL) {
        link->later->data = NULL;
        uv_close((uv_handle_t *)link->later, (uv_close_cb)free);
    }
    fail_all(link, link->broken ? &link->why : &err);
    sandbox_unref(link->s);
    free(link);
}

static void on_later(uv_timer_t *timer)
{
    struct hand_link *link = timer->data;
    if (link != NULL)
        hand_link_free(link);
}

// From wherever it is found out: callers are told from the loop, never from within their call.
static void break_link(struct hand_link *link, const struct err *err)
{
    if (link->broken)
        return;
    link->broken = true;
    link->why = *err;
    if (link->s->hand == link)
        link->s->hand = NULL; // the next request starts another
    close_socket(link);
    link->later = calloc(1, sizeof *link->later);
    if (link->later == NULL)
        abort();
    link->later->data = link;
    (void)uv_timer_init(link->s->fleet->config.loop, link->later);
    (void)uv_timer_start(link->later, on_later, 0, 0);
}

static void broken(struct hand_link *link, const char *what)
{
    struct err err = {0};
    (void)err_set(&err, ERR_UNAVAILABLE, "%s: try again", what);
    break_link(link, &err);
}

// --- a hand that says nothing

static bool is_owed(const struct hand_link *link)
{
    for (const struct hand_call *call = link->calls; call != NULL; call = call->next) {
        if (!call->given)
            return true;
    }
    return false;
}

static void on_tick(uv_timer_t *timer)
{
    struct hand_link *link = timer->data;
    if (!is_owed(link))
        (void)uv_timer_stop(timer);
    else if (uv_now(timer->loop) - link->heard_ms >= SILENCE_MS)
        broken(link, "the sandbox's file helper does not answer");
}

static void expect(struct hand_link *link)
{
    if (link->tick == NULL || uv_is_active((uv_handle_t *)link->tick))
        return;
    link->heard_ms = uv_now(link->tick->loop);
    (void)uv_timer_start(link->tick, on_tick, TICK_MS, TICK_MS);
}

// A box that ends takes it along, and is heard of later.
static const char *why_gone(const struct hand_link *link)
{
    return sandbox_is_up(link->s) ? "the sandbox's file helper was killed"
                                  : "the sandbox's box has ended";
}

// --- sending

static void watch(struct hand_link *link, int events);

static bool send_call(struct hand_link *link, struct hand_call *call)
{
    int r = wire_send(link->sock, call->msg, call->msg_len, NULL, 0, NULL, 0);
    if (r == -EAGAIN)
        return false;
    if (r < 0) {
        broken(link, why_gone(link));
        return false;
    }
    call->sent = true;
    link->unsent -= call->msg_len;
    free(call->msg);
    call->msg = NULL;
    return true;
}

static struct hand_call *oldest_unsent(struct hand_link *link)
{
    struct hand_call *found = NULL;
    for (struct hand_call *call = link->calls; call != NULL; call = call->next) {
        if (!call->sent)
            found = call;
    }
    return found;
}

static void pump(struct hand_link *link)
{
    struct hand_call *call;
    while (link->sock >= 0 && (call = oldest_unsent(link)) != NULL) {
        if (!send_call(link, call)) {
            if (!link->broken)
                watch(link, UV_READABLE | UV_WRITABLE);
            return;
        }
    }
    if (link->sock >= 0)
        watch(link, UV_READABLE);
}

// --- answers

static bool take_fds(const struct hand_call *call, struct wire_fds *fds, struct hand_answer *ret)
{
    mode_t kind = is_long(call->type) ? S_IFIFO : S_IFREG;
    unsigned max = call->type == HAND_TAR_IN ? 2 : 1;
    struct stat st;
    if (fds->n > max || (is_long(call->type) && fds->n != max))
        return false;
    for (unsigned i = 0; i < fds->n; i++) {
        if (fstat(fds->fd[i], &st) < 0 || (st.st_mode & S_IFMT) != kind)
            return false;
        if (kind == S_IFIFO)
            (void)fd_set_nonblock(fds->fd[i], 1);
    }
    ret->fd = wire_fds_take(fds, 0);
    ret->in_fd = wire_fds_take(fds, 1);
    return true;
}

static bool on_done(struct hand_link *link, const struct hand_done *done, size_t len,
                    struct wire_fds *fds)
{
    struct hand_answer answer = {.fd = -1, .in_fd = -1};
    struct err err = {0};
    struct hand_call *call = find_call(link, done->head.id);
    if (len < sizeof *done || done->data_len != len - sizeof *done)
        return false;
    if (call == NULL) // was cancelled
        return true;
    if (!call->sent || call->given || (done->sys_errno == 0 && !take_fds(call, fds, &answer)))
        return false;
    answer.done = *done;
    answer.done.st.etag[HAND_ETAG - 1] = '\0';
    answer.data = (const char *)(done + 1);
    if (done->sys_errno != 0)
        (void)hand_error(done->sys_errno, call->path, &err);
    call->given = done->sys_errno == 0 && is_long(call->type);
    if (!call->given)
        (void)unlink_call(call);
    bool goes = !call->given; // else its callback may cancel it
    call->fn(call->data, done->sys_errno == 0 ? &answer : NULL, done->sys_errno == 0 ? NULL : &err);
    fd_close(answer.fd);
    fd_close(answer.in_fd);
    if (goes)
        call_free(call);
    return true;
}

static bool on_ended(struct hand_link *link, struct hand_ended *ended, size_t len)
{
    struct err err = {0};
    struct hand_call *call = find_call(link, ended->head.id);
    if (len != sizeof *ended)
        return false;
    if (call == NULL)
        return true;
    if (!call->given)
        return false;
    ended->path[sizeof ended->path - 1] = '\0';
    if (ended->sys_errno != 0)
        (void)hand_error(ended->sys_errno, ended->path[0] != '\0' ? ended->path : call->path, &err);
    (void)unlink_call(call);
    call->ended(call->data, ended, ended->sys_errno != 0 ? &err : NULL);
    call_free(call);
    return true;
}

static union {
    struct wire_head head;
    struct hand_done done;
    struct hand_ended ended;
    char bytes[WIRE_MSG_MAX + 1];
} inbox;

// Whether there was one.
static bool receive(struct hand_link *link)
{
    struct wire_fds fds;
    ssize_t n = wire_recv(link->sock, &inbox, sizeof inbox - 1, &fds, MSG_DONTWAIT);
    if (n == -EAGAIN || n == -EINTR)
        return false;
    if (n <= 0) {
        broken(link, n == 0 || n == -ECONNRESET ? why_gone(link)
                                                : "the sandbox's file helper talks nonsense");
        return false;
    }
    inbox.bytes[n] = '\0';
    link->heard_ms = uv_now(link->poll->loop);
    bool sound = false;
    if (inbox.head.type == HAND_DONE)
        sound = on_done(link, &inbox.done, (size_t)n, &fds);
    else if (inbox.head.type == HAND_ENDED)
        sound = on_ended(link, &inbox.ended, (size_t)n);
    wire_fds_close(&fds);
    if (!sound)
        broken(link, "the sandbox's file helper talks nonsense");
    return sound;
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct hand_link *link = poll->data;
    if (link == NULL)
        return;
    struct sandbox *s = sandbox_ref(link->s); // a callback may end all of it
    if (status < 0)
        broken(link, why_gone(link));
    for (int i = 0; i < AT_ONCE && s->hand == link && receive(link); i++)
        ;
    if (s->hand == link && (events & UV_WRITABLE))
        pump(link);
    sandbox_unref(s);
}

static void watch(struct hand_link *link, int events)
{
    if (link->events == events)
        return;
    link->events = events;
    (void)uv_poll_start(link->poll, events, on_ready);
}

// --- getting a hand

static bool is_seqpacket(int fd)
{
    int type = 0;
    socklen_t len = sizeof type;
    return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
           type == SOCK_SEQPACKET;
}

static void start_poll(struct hand_link *link)
{
    link->poll = calloc(1, sizeof *link->poll);
    if (link->poll == NULL)
        abort();
    link->poll->data = link;
    (void)fd_set_nonblock(link->sock, 1);
    if (uv_poll_init(link->s->fleet->config.loop, link->poll, link->sock) < 0)
        abort();
    link->events = 0;
    link->tick = calloc(1, sizeof *link->tick);
    if (link->tick == NULL)
        abort();
    link->tick->data = link;
    (void)uv_timer_init(link->s->fleet->config.loop, link->tick);
    watch(link, UV_READABLE);
    expect(link);
}

static void on_given(void *data, struct guest_event *ev, const struct err *err)
{
    struct sandbox *s = data;
    struct hand_link *link = s->hand;
    if (link != NULL && link->sock < 0 && err != NULL)
        break_link(link, err);
    else if (link != NULL && link->sock < 0 && is_seqpacket(ev->out)) {
        link->sock = TAKE_FD(ev->out);
        start_poll(link);
        pump(link);
    } else if (link != NULL && link->sock < 0) {
        broken(link, "the box gave no file helper");
    }
    sandbox_unref(s);
}

static int send_hand(struct guest_peer guest, uint32_t id, void *data, struct err *err)
{
    (void)data;
    return guest_send_hand(guest, id, err);
}

static struct hand_link *link_get(struct sandbox *s)
{
    if (s->hand != NULL)
        return s->hand;
    struct hand_link *link = calloc(1, sizeof *link);
    if (link == NULL)
        abort();
    link->s = sandbox_ref(s);
    link->sock = -1;
    link->version = s->box != NULL ? box_link_guest(s->box).version : WIRE_VERSION;
    s->hand = link;
    if (s->box == NULL)
        broken(link, "the sandbox is not running");
    else
        reach_ask(s->box, send_hand, on_given, sandbox_ref(s));
    return link;
}

// --- asking

static int pack(struct hand_call *call, const struct hand_ask *ask, uint16_t version)
{
    const char *path = ask->path != NULL ? ask->path : "";
    const char *path2 = ask->path2 != NULL ? ask->path2 : "";
    size_t n1 = strlen(path), n2 = strlen(path2);
    if (n1 >= HAND_PATH_MAX || n2 >= HAND_PATH_MAX || ask->data_len > HAND_DATA_MAX)
        return -ENAMETOOLONG;
    struct hand_request req = {
        .head = {.version = version, .type = (uint16_t)ask->type, .id = call->id},
        .flags = ask->flags,
        .mode = ask->mode,
        .uid = ask->uid,
        .gid = ask->gid,
        .handle = ask->handle,
        .limit = ask->limit,
        .path_len = (uint32_t)n1,
        .path2_len = (uint32_t)n2,
        .data_len = (uint32_t)ask->data_len,
    };
    if (ask->etag != NULL && strlen(ask->etag) < sizeof req.etag)
        memcpy(req.etag, ask->etag, strlen(ask->etag));
    call->msg_len = sizeof req + n1 + 1 + n2 + 1 + ask->data_len;
    call->msg = malloc(call->msg_len);
    if (call->msg == NULL)
        abort();
    char *at = call->msg;
    memcpy(at, &req, sizeof req);
    at += sizeof req;
    memcpy(at, path, n1 + 1);
    at += n1 + 1;
    memcpy(at, path2, n2 + 1);
    if (ask->data_len > 0)
        memcpy(at + n2 + 1, ask->data, ask->data_len);
    return 0;
}

static void on_refused(uv_timer_t *timer)
{
    struct hand_call *call = timer->data;
    struct err err = {0};
    (void)err_set(&err, ERR_UNAVAILABLE, "too many file operations are under way in this sandbox");
    uv_close((uv_handle_t *)timer, (uv_close_cb)free);
    if (call->fn != NULL)
        call->fn(call->data, NULL, &err);
    call_free(call);
}

static void refuse_later(struct sandbox *s, struct hand_call *call)
{
    uv_timer_t *timer = calloc(1, sizeof *timer);
    if (timer == NULL)
        abort();
    timer->data = call;
    (void)uv_timer_init(s->fleet->config.loop, timer);
    (void)uv_timer_start(timer, on_refused, 0, 0);
}

struct hand_call *hand_ask(struct sandbox *s, const struct hand_ask *ask, hand_fn fn,
                           hand_ended_fn ended, void *data)
{
    struct hand_call *call = calloc(1, sizeof *call);
    if (call == NULL)
        abort();
    *call = (struct hand_call){.type = (uint16_t)ask->type, .fn = fn, .ended = ended, .data = data};
    call->path = strdup(ask->path != NULL ? ask->path : "");
    struct hand_link *link = link_get(s);
    if (++link->next_id == 0)
        link->next_id = 1;
    call->id = link->next_id;
    if (link->n_calls >= CALLS_MAX || pack(call, ask, link->version) < 0 ||
        link->unsent + call->msg_len > UNSENT_MAX) {
        refuse_later(s, call);
        return call;
    }
    call->link = link;
    call->next = link->calls;
    link->calls = call;
    link->n_calls++;
    link->unsent += call->msg_len;
    if (is_work(call->type))
        sandbox_busy(s);
    expect(link);
    if (link->sock >= 0 && !(link->events & UV_WRITABLE)) // else others are before it
        pump(link);
    return call;
}

static void ignore_ended(void *data, const struct hand_ended *ended, const struct err *err)
{
    (void)data;
    (void)ended;
    (void)err;
}

static void ignore(void *data, struct hand_answer *answer, const struct err *err)
{
    (void)data;
    (void)answer;
    (void)err;
}

void hand_cancel(struct hand_call *call)
{
    call->data = NULL;
    call->fn = ignore; // what comes with the answer is closed
    call->ended = ignore_ended;
    if (call->link != NULL && !call->sent && unlink_call(call)) {
        call_free(call); // nobody has heard of it
        return;
    }
    if (call->link == NULL || !is_long(call->type) || !call->sent)
        return;
    const struct hand_request req = {
        .head = {.version = call->link->version, .type = HAND_CANCEL, .id = call->id},
        .handle = call->id,
    };
    if (call->link->sock >= 0) { // best effort: a closed pipe ends it as well
        char msg[sizeof req + 2] = {0};
        memcpy(msg, &req, sizeof req);
        (void)wire_send(call->link->sock, msg, sizeof msg, NULL, 0, NULL, 0);
    }
}
