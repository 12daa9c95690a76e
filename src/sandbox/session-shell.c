// SPDX-License-Identifier: Apache-2.0
// A session's shell: a job with control pipes. Its memory lives until libuv has closed its handles;
// one that was let go knows no session.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/session-internal.h"

enum {
    OUTGOING_MAX = 16 * 1024 * 1024,
    RECORDS_MAX = 4 * 1024 * 1024,
    IDLE_OUTPUT_MAX = 64 * 1024, // of what is written while no command runs
    READ_AT_ONCE = 1024 * 1024,  // from one stream before others have their turn
    REST_MAX = 64 * 1024 * 1024, // read of a stream when the command is over
    STOP_MS = 500,               // for a shell to end after it was asked to
};

enum shell_watch { WATCH_OUT, WATCH_ERR, WATCH_CONTROL, WATCH_INPUT, WATCHES };

struct shell {
    struct session *session; // NULL: let go
    struct job *job;
    bool started, stopping;
    bool ending; // it says so
    uint64_t since;
    uint32_t since_pid;
    uv_poll_t polls[WATCHES];
    bool watched[WATCHES];
    uv_timer_t timer;
    unsigned handles;
    struct buf outgoing, records, exports;
    bool in_state, in_exports; // the next texts are no records
    struct shell_end end;
    char *end_cwd, *end_state;
};

// --- memory

static void on_closed(uv_handle_t *handle)
{
    struct shell *shell = handle->data;
    if (--shell->handles > 0)
        return;
    buf_done(&shell->outgoing);
    buf_done(&shell->records);
    buf_done(&shell->exports);
    free(shell->end_cwd);
    free(shell->end_state);
    free(shell);
}

static struct shell *shell_new(struct session *session)
{
    struct shell *shell = calloc(1, sizeof *shell);
    if (shell == NULL)
        abort();
    shell->session = session;
    buf_init(&shell->outgoing, OUTGOING_MAX);
    buf_init(&shell->records, RECORDS_MAX);
    buf_init(&shell->exports, RECORDS_MAX);
    (void)uv_timer_init(session->s->fleet->config.loop, &shell->timer);
    shell->timer.data = shell;
    shell->handles = 1;
    return shell;
}

static void unwatch(struct shell *shell, enum shell_watch which)
{
    if (!shell->watched[which])
        return;
    shell->watched[which] = false;
    uv_close((uv_handle_t *)&shell->polls[which], on_closed);
}

// Afterwards only libuv knows it.
static void release(struct shell *shell)
{
    for (int i = 0; i < WATCHES; i++)
        unwatch(shell, (enum shell_watch)i);
    job_free(shell->job);
    shell->job = NULL;
    shell->session = NULL;
    uv_close((uv_handle_t *)&shell->timer, on_closed);
}

void shell_let_go(struct shell *shell)
{
    if (shell == NULL)
        return;
    shell->session->shell = NULL;
    job_kill(shell->job);
    job_forget(shell->job);
    release(shell);
}

// --- output

static bool is_running(const struct session *session)
{
    return session->commands != NULL && session->commands->seq != 0;
}

// Reads what is there, at most `max` bytes. Whether the stream has ended.
static bool read_stream(struct session *session, int fd, struct buf *buf, size_t max)
{
    static char dropped[64 * 1024];
    size_t keep = is_running(session) ? EXEC_OUTPUT_MAX : IDLE_OUTPUT_MAX;
    for (size_t total = 0; total < max;) {
        char *at = NULL;
        size_t room = 0;
        if (buf->len >= keep || buf_reserve(buf, sizeof dropped, &at, &room) < 0)
            room = 0;
        ssize_t n = read(fd, room > 0 ? at : dropped, room > 0 ? room : sizeof dropped);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 || errno != EAGAIN;
        if (room > 0)
            buf_commit(buf, (size_t)n);
        else
            session->truncated = true;
        total += (size_t)n;
    }
    return false;
}

static void on_output(uv_poll_t *poll, int status, int events)
{
    struct shell *shell = poll->data;
    enum shell_watch which = poll == &shell->polls[WATCH_OUT] ? WATCH_OUT : WATCH_ERR;
    struct session *session = shell->session;
    const struct job_streams *streams = job_streams(shell->job);
    (void)events;
    bool over = which == WATCH_OUT
                    ? read_stream(session, streams->out, &session->out, READ_AT_ONCE)
                    : read_stream(session, streams->err, &session->err, READ_AT_ONCE);
    session_on_output(session);
    if (status < 0 || over)
        unwatch(shell, which);
}

// Of a command whose output is told as it comes, no more is left than the pipe holds.
static size_t rest_of(const struct session *session, int fd)
{
    int left = 0;
    if (!is_running(session) || session->commands->output == NULL)
        return REST_MAX;
    return ioctl(fd, FIONREAD, &left) == 0 && left > 0 ? (size_t)left : 0;
}

void shell_drain(struct shell *shell)
{
    struct session *session = shell->session;
    const struct job_streams *streams = job_streams(shell->job);
    if (streams->out >= 0)
        (void)read_stream(session, streams->out, &session->out, rest_of(session, streams->out));
    if (streams->err >= 0)
        (void)read_stream(session, streams->err, &session->err, rest_of(session, streams->err));
    session_on_output(session);
}

void shell_pause(struct shell *shell, bool paused)
{
    for (int i = WATCH_OUT; i <= WATCH_ERR; i++) {
        if (shell->watched[i] && paused)
            (void)uv_poll_stop(&shell->polls[i]);
        else if (shell->watched[i])
            (void)uv_poll_start(&shell->polls[i], UV_READABLE, on_output);
    }
}

// --- records

static void note_end(struct shell *shell, const struct script_record *record)
{
    free(shell->end_cwd);
    shell->end_cwd = strdup(record->text);
    shell->end.begun = record->seq;
    shell->end.status = (int)record->number;
    shell->in_state = true;
    shell->ending = true;
}

static void note_state(struct shell *shell, const char *text)
{
    shell->in_state = false;
    free(shell->end_state);
    shell->end_state = strdup(text);
    shell->end.has_state = shell->end_state != NULL && shell->end_cwd != NULL;
}

// One text that ended with a NUL.
static void take_text(struct shell *shell, const char *text, size_t len)
{
    struct script_record record;
    if (shell->in_state) {
        note_state(shell, text);
        return;
    }
    if (script_parse(text, &record) < 0) {
        if (shell->in_exports)
            (void)buf_append(&shell->exports, text, len + 1);
        return;
    }
    shell->in_exports = record.type == 'E';
    if (record.type == 'E')
        buf_reset(&shell->exports);
    else if (record.type == 'T')
        note_end(shell, &record);
    else if (record.type == 'X')
        shell->end.exit_called = true;
    else if (record.type == 'R')
        shell->end.exit_called = false; // it did not end it
    else if (record.type == 'M')
        shell->since_pid = (uint32_t)record.number;
    if (record.type == 'R')
        session_on_record(shell->session, &record);
}

static void take_texts(struct shell *shell)
{
    size_t at = 0;
    while (shell->session != NULL && at < shell->records.len) {
        char *text = shell->records.data + at;
        char *nul = memchr(text, '\0', shell->records.len - at);
        if (nul == NULL)
            break;
        at += (size_t)(nul - text) + 1;
        take_text(shell, text, (size_t)(nul - text));
    }
    buf_consume(&shell->records, at);
    if (shell->records.len == shell->records.max) // nothing of ours is that long
        buf_reset(&shell->records);
}

// Reads and hears all there is. Whether it has ended.
static bool hear(struct shell *shell)
{
    for (size_t total = 0; shell->session != NULL && total < REST_MAX;) {
        char *at = NULL;
        size_t room = 0;
        int fd = job_streams(shell->job)->control_out;
        if (fd < 0 || buf_reserve(&shell->records, 4096, &at, &room) < 0 || room == 0)
            return true;
        ssize_t n = read(fd, at, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 || errno != EAGAIN;
        buf_commit(&shell->records, (size_t)n);
        total += (size_t)n;
        take_texts(shell);
        if ((size_t)n < room) // another read would only find nothing
            return false;
    }
    return false;
}

static void on_control(uv_poll_t *poll, int status, int events)
{
    struct shell *shell = poll->data;
    struct session *session = shell->session;
    (void)events;
    session->refs++;
    if ((hear(shell) || status < 0) && shell->session != NULL)
        unwatch(shell, WATCH_CONTROL);
    session_unref(session);
}

// --- input

static void on_writable(uv_poll_t *poll, int status, int events)
{
    struct shell *shell = poll->data;
    (void)status;
    (void)events;
    (void)uv_poll_stop(poll);
    shell_flush(shell);
}

static void watch(struct shell *shell, enum shell_watch which, int fd, int events, uv_poll_cb fn)
{
    uv_poll_t *poll = &shell->polls[which];
    if (fd < 0)
        return;
    if (!shell->watched[which]) {
        if (uv_poll_init(shell->session->s->fleet->config.loop, poll, fd) < 0)
            return;
        poll->data = shell;
        shell->watched[which] = true;
        shell->handles++;
    }
    (void)uv_poll_start(poll, events, fn);
}

void shell_flush(struct shell *shell)
{
    struct buf *out = &shell->outgoing;
    int fd = job_streams(shell->job)->control_in;
    while (shell->started && fd >= 0 && out->len > 0) {
        ssize_t n = write(fd, out->data, out->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            watch(shell, WATCH_INPUT, fd, UV_WRITABLE, on_writable);
        if (n < 0) // else it reads no more, and will end
            return;
        buf_consume(out, (size_t)n);
    }
}

struct buf *shell_outgoing(struct shell *shell)
{
    return &shell->outgoing;
}

const struct buf *shell_exports(const struct shell *shell)
{
    return &shell->exports;
}

// --- stopping

static void on_timer(uv_timer_t *timer)
{
    struct shell *shell = timer->data;
    struct session *session = shell->session;
    if (session == NULL)
        return;
    session->refs++;
    if (!shell->stopping)
        session_on_deadline(session);
    else
        job_kill(shell->job); // it catches the signal, or ignores it
    session_unref(session);
}

void shell_set_deadline(struct shell *shell, int64_t ms)
{
    if (shell->stopping)
        return;
    (void)uv_timer_stop(&shell->timer);
    if (ms <= 0)
        return;
    uv_update_time(shell->timer.loop); // the loop's own clock stands still while it works
    (void)uv_timer_start(&shell->timer, on_timer, (uint64_t)ms, 0);
}

// SIGTERM to the shell alone: it ends at once, also when it waits for a program. That one is killed
// only after it (kill_rest), so that nothing of the command runs after its end.
void shell_stop(struct shell *shell, uint64_t since)
{
    struct err ignored;
    struct guest_peer guest = job_guest(shell->job);
    shell->stopping = true;
    shell->since = since;
    if (guest.sock >= 0)
        (void)guest_send_signal_first(guest, job_id(shell->job), SIGTERM, &ignored);
    uv_update_time(shell->timer.loop);
    (void)uv_timer_start(&shell->timer, on_timer, STOP_MS, 0);
}

static void kill_rest(struct shell *shell)
{
    struct err ignored;
    struct guest_peer guest = job_guest(shell->job);
    if (guest.sock >= 0)
        (void)guest_send_signal_since(guest, job_id(shell->job), SIGKILL, shell->since,
                                      shell->since_pid, &ignored);
}

bool shell_ready(const struct shell *shell)
{
    return shell->started && !shell->stopping && !shell->ending;
}

// --- what the job tells

static void watch_all(struct shell *shell)
{
    const struct job_streams *streams = job_streams(shell->job);
    watch(shell, WATCH_CONTROL, streams->control_out, UV_READABLE, on_control);
    watch(shell, WATCH_OUT, streams->out, UV_READABLE, on_output);
    watch(shell, WATCH_ERR, streams->err, UV_READABLE, on_output);
}

static void on_started(void *data, struct job *job)
{
    struct shell *shell = data;
    shell->job = job;
    shell->started = true;
    watch_all(shell);
    shell_flush(shell);
    session_on_started(shell->session, job_id(job));
}

static void finish(struct shell *shell, struct shell_end *end)
{
    struct session *session = shell->session;
    end->cwd = shell->end_cwd;
    end->state = shell->end_state;
    session->refs++;
    session->shell = NULL;
    shell->handles++; // its texts stay until the session has seen them
    release(shell);
    session_on_ended(session, end);
    session_unref(session);
    on_closed((uv_handle_t *)&shell->timer);
}

static void on_failed(void *data, const struct err *err)
{
    struct shell *shell = data;
    struct err copy = *err;
    if (err->sys_errno == ENOENT) // its directory is /, which is always there
        (void)err_set(&copy, ERR_UNSUPPORTED, "sessions need /bin/bash, which this image has not");
    shell->end.err = &copy;
    finish(shell, &shell->end);
}

static void over(struct shell *shell, const struct job_end *job, bool lost)
{
    shell->ending = true;
    (void)hear(shell); // a record may finish a command here, and even the session
    if (shell->session == NULL)
        return;
    if (shell->stopping && !lost)
        kill_rest(shell);
    shell_drain(shell);
    shell->end.job = *job;
    shell->end.lost = lost;
    job_forget(shell->job);
    finish(shell, &shell->end);
}

static void on_exited(void *data, const struct job_end *end)
{
    over(data, end, false);
}

static void on_lost(void *data, const struct job_end *end)
{
    over(data, end, true);
}

static const struct job_events events = {
    .started = on_started, .failed = on_failed, .exited = on_exited, .lost = on_lost};

// --- life

int shell_start(struct session *session, struct err *err)
{
    static const char *const argv[] = {"/bin/bash",    "--noprofile", "--norc", "-c",
                                       session_script, "bash",        NULL};
    struct shell *shell = shell_new(session);
    char **envp = exec_env(session->s, session->row.env, 0, err);
    const struct exec_spec spec = {
        .cwd = "/",
        .argv = argv,
        .envp = (const char *const *)envp,
        .files = EXEC_FILES,
        .flags = GUEST_EXEC_CONTROL | GUEST_EXEC_KEEP_EXIT,
    };
    int r = envp == NULL ? -1
                         : script_begin(&shell->outgoing, ++session->seq, session->row.cwd,
                                        session->state, err);
    if (r == 0)
        shell->job = job_start(session->s, &spec, 0, &events, shell, err);
    exec_env_free(envp);
    if (shell->job == NULL) {
        release(shell);
        return -1;
    }
    session->shell = shell;
    return 0;
}

struct shell *shell_adopt(struct session *session, uint32_t exec)
{
    struct shell *shell = shell_new(session);
    shell->job = job_adopt(session->s, exec, &events, shell);
    if (shell->job == NULL) {
        release(shell);
        return NULL;
    }
    shell->started = true;
    session->shell = shell;
    watch_all(shell);
    return shell;
}
