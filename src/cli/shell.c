// SPDX-License-Identifier: Apache-2.0
// `cay shell ID`: our terminal becomes one of a sandbox. The program behind it does not end with
// us: a connection that breaks is made again, and goes on at the byte where it was.
#include "cli/shell.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/ws.h"

enum {
    TYPED_MAX = 1024 * 1024,
    OUT_ENOUGH = 256 * 1024, // waits to be sent: no more is read from the keyboard
    COMMAND_MAX = 64 * 1024,
    PAUSE_FIRST_MS = 50,
    PAUSE_MAX_MS = 2000,
    TRIES = 40, // a bit more than a minute
};

enum shell_flag { FLAG_SESSION, FLAG_READONLY, FLAG_SHELL, FLAG_CWD, FLAG_USER };

static const struct opt opts[] = {
    {"session",  's', "NAME",      "which terminal: others that name it share it", "default"      },
    {"readonly", 'r', NULL,        "only look on",                                 NULL           },
    {"shell",    0,   "PROGRAM",   "of a new one: what runs in it",                "bash, else sh"},
    {"cwd",      'w', "DIR",       "of a new one: working directory",              "/workspace"   },
    {"user",     'u', "UID[:GID]", "of a new one: 'root', 'user' or an id",        "root"         },
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay shell ID [flags] [-- COMMAND [ARG...]]",
    .summary =
        "Opens a terminal in a sandbox, waking it if it sleeps. The shell in it goes on when the\n"
        "connection breaks, over restarts of the server, and when you leave it with Ctrl-] d; the\n"
        "same command comes back to it. Ctrl-] twice sends one Ctrl-].",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more =
        "Examples:\n"
        "  cay shell build\n"
        "  cay shell build --session pair --readonly\n"
        "  cay shell build -- vim notes.txt\n"
        "\n"
        "Exit codes: the program's own; 128+N when signal N ended it; 0 when you leave it; 125\n"
        "Cay failed, or the sandbox is gone; 2 usage.",
    .stop_at_word = true,
};

struct shell {
    struct remote *remote;
    const char *session, *shell, *cwd, *user;
    bool readonly;
    struct buf command;
    char made_up[40]; // name of a terminal that is for one command
    char process[132];
    uint64_t offset; // of the next byte that is to come
    struct ws_link link;
    struct buf typed;
    bool is_ready, has_exit, detached, hangs;
    int ended_by; // a signal of ours
    int exit_code;
    char reason[32];
};

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct shell *s = data;
    (void)err;
    switch ((enum shell_flag)flag) {
    case FLAG_SESSION:
        s->session = value;
        break;
    case FLAG_READONLY:
        s->readonly = true;
        break;
    case FLAG_SHELL:
        s->shell = value;
        break;
    case FLAG_CWD:
        s->cwd = value;
        break;
    case FLAG_USER:
        s->user = value;
        break;
    }
    return 0;
}

// -- what the server sends

static int take_ready(struct shell *s, const struct json_node *root, struct err *err)
{
    const char *process = json_text(json_get(root, "process"));
    int64_t offset = json_int(json_get(root, "offset"), -1);
    if (process == NULL || strlen(process) >= sizeof s->process || offset < 0)
        return err_set(err, ERR_INTERNAL, "the server has not told which terminal this is");
    (void)snprintf(s->process, sizeof s->process, "%s", process);
    s->offset = (uint64_t)offset;
    s->is_ready = true;
    return 0;
}

static void take_exit(struct shell *s, const struct json_node *root)
{
    const char *reason = json_text(json_get(root, "reason"));
    s->has_exit = true;
    s->exit_code = (int)json_int(json_get(root, "code"), CLI_FAILED);
    (void)snprintf(s->reason, sizeof s->reason, "%s", reason != NULL ? reason : "");
}

static int take_text(struct shell *s, const char *text, size_t len, struct err *err)
{
    auto_json_doc *doc = NULL;
    if (json_read(text, len, &doc, err) < 0)
        return -1;
    const struct json_node *root = json_root(doc);
    const char *type = json_text(json_get(root, "type"));
    if (type == NULL)
        return 0;
    if (strcmp(type, "ready") == 0)
        return take_ready(s, root, err);
    if (strcmp(type, "exit") == 0)
        take_exit(s, root);
    if (strcmp(type, "gap") == 0) // what it had no room for any more
        s->offset += (uint64_t)json_int(json_get(root, "bytes"), 0);
    return 0;
}

static int take_message(void *data, enum ws_opcode kind, const char *bytes, size_t len,
                        struct err *err)
{
    struct shell *s = data;
    if (kind == WS_TEXT)
        return take_text(s, bytes, len, err);
    s->offset += len; // before it is ready, that says where this was
    if (tty_show(bytes, len) == 0)
        return 0;
    s->hangs = true;
    return err_set(err, ERR_UNAVAILABLE, "the terminal is gone");
}

// -- what we send

static void send_size(struct shell *s)
{
    char text[64];
    unsigned cols, rows;
    tty_size(&cols, &rows);
    int n =
        snprintf(text, sizeof text, "{\"type\":\"resize\",\"cols\":%u,\"rows\":%u}", cols, rows);
    if (!s->readonly)
        ws_link_send(&s->link, WS_TEXT, text, (size_t)n);
}

static void send_typed(struct shell *s)
{
    if (s->typed.len > 0 && !s->readonly)
        ws_link_send(&s->link, WS_BINARY, s->typed.data, s->typed.len);
    buf_reset(&s->typed);
}

// Whether it is over on our side.
static bool see_keys(struct shell *s)
{
    enum tty_keys keys = tty_read(&s->typed);
    s->detached |= keys == TTY_DETACH;
    s->hangs |= keys == TTY_GONE;
    return keys != TTY_KEYS;
}

static bool see_signals(struct shell *s, bool *ret_resized)
{
    for (int number; (number = tty_signal()) != 0;) {
        if (number == SIGWINCH)
            *ret_resized = true;
        else if (s->ended_by == 0)
            s->ended_by = number;
    }
    return s->ended_by != 0;
}

static bool is_over(const struct shell *s)
{
    return s->detached || s->hangs || s->ended_by != 0;
}

// -- one connection

// 0 when it is over, with what is in `s`; -1 when the connection broke.
static int pass(struct shell *s, struct err *err)
{
    for (;;) {
        bool resized = false, full = ws_link_waiting(&s->link) >= OUT_ENOUGH;
        struct pollfd fds[] = {
            {.fd = s->link.fd,               .events = POLLIN},
            {.fd = tty_wake_fd(),            .events = POLLIN},
            {.fd = full ? -1 : STDIN_FILENO, .events = POLLIN},
        };
        if (ws_link_waiting(&s->link) > 0)
            fds[0].events |= POLLOUT;
        if (poll(fds, 3, -1) < 0 && errno != EINTR)
            return err_sys(err, errno, "wait");
        if (see_signals(s, &resized) || (fds[2].revents != 0 && see_keys(s)))
            return 0;
        if (resized)
            send_size(s);
        send_typed(s);
        int r = (fds[0].revents & ~POLLOUT) != 0 ? ws_link_read(&s->link, take_message, s, err) : 0;
        if (s->has_exit || is_over(s))
            return 0;
        if (r < 0 || ws_link_flush(&s->link, err) < 0)
            return -1;
    }
}

// Keys while there is no connection: to leave is possible at any time.
static int on_key(void *data, struct err *err)
{
    struct shell *s = data;
    bool ignored = false;
    if (see_keys(s) || see_signals(s, &ignored))
        return err_set(err, ERR_CONFLICT, "interrupted");
    return 0;
}

static void write_target(const struct shell *s, const char *id, struct buf *target)
{
    char number[24];
    unsigned cols, rows;
    tty_size(&cols, &rows);
    remote_target(target, "sandbox", id, "terminal");
    if (s->process[0] != '\0') {
        remote_query(target, "resume", s->process);
        (void)snprintf(number, sizeof number, "%" PRIu64, s->offset);
        remote_query(target, "offset", number);
    } else {
        const char *const names[] = {"session", "shell", "cwd", "user", "command"};
        const char *const values[] = {s->session, s->shell, s->cwd, s->user,
                                      s->command.len > 0 ? buf_str(&s->command) : NULL};
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (values[i] != NULL)
                remote_query(target, names[i], values[i]);
        }
    }
    (void)snprintf(number, sizeof number, "%u", cols);
    remote_query(target, "cols", number);
    (void)snprintf(number, sizeof number, "%u", rows);
    remote_query(target, "rows", number);
    if (s->readonly)
        remote_query(target, "readonly", "1");
}

// That the answer's Sec-WebSocket-Accept fits the key is not looked at: it guards those whom a page
// could make talk to a server that knows nothing of WebSockets, and we have been told this one.
static int connect_once(struct shell *s, bool again, struct err *err)
{
    char key[25];
    int fd = -1;
    enum http_broken broken;
    auto_buf target;
    buf_init(&target, REMOTE_TARGET_MAX);
    write_target(s, s->remote->word[0], &target);
    if (target.failed != 0)
        return err_set(err, ERR_INVALID, "the command is longer than a request may be");
    ws_make_key(key);
    const struct http_call call = {
        .method = "GET",
        .target = buf_str(&target),
        .ws_key = key,
        .ret_switched = &fd,
        .wake_fd = STDIN_FILENO,
        .on_wake = again ? on_key : NULL, // before that our own terminal's keys work
        .wake_data = s,
    };
    if (remote_stream(s->remote, &call, NULL, NULL, &broken, err) < 0)
        return -1;
    if (fd < 0)
        return err_set(err, ERR_INTERNAL, "the server did not open a WebSocket");
    ws_link_init(&s->link, fd);
    s->is_ready = false;
    return 0;
}

// Waits before the next try. False: not any more.
static bool wait_again(struct shell *s, unsigned tries)
{
    struct err ignored;
    int64_t ms = PAUSE_FIRST_MS;
    for (unsigned i = 0; i < tries && ms < PAUSE_MAX_MS; i++)
        ms *= 2;
    int64_t until = clock_ns() + (ms < PAUSE_MAX_MS ? ms : PAUSE_MAX_MS) * NS_PER_MS;
    for (int64_t left; (left = until - clock_ns()) > 0 && !is_over(s);) {
        struct pollfd fds[] = {
            {.fd = STDIN_FILENO,  .events = POLLIN},
            {.fd = tty_wake_fd(), .events = POLLIN},
        };
        bool ignored_size = false;
        if (poll(fds, 2, (int)(left / NS_PER_MS) + 1) > 0 && fds[0].revents != 0)
            (void)on_key(s, &ignored);
        (void)see_signals(s, &ignored_size);
    }
    return !is_over(s) && tries < TRIES;
}

static int connect_again(struct shell *s, struct err *err)
{
    for (unsigned tries = 0; wait_again(s, tries); tries++) {
        if (connect_once(s, /* again */ true, err) == 0)
            return 0;
        unsigned status = s->remote->status;
        if (status >= 300 && status != 503)
            return -1; // it is there, and says no
    }
    return -1;
}

// 0 when it is over; -1 when it cannot go on.
static int run(struct shell *s, struct err *err)
{
    int r;
    while ((r = pass(s, err)) < 0) {
        unsigned code = s->link.closed;
        ws_link_done(&s->link);
        // A goodbye that coming back would not change: a policy, something that makes no sense.
        if (s->process[0] == '\0' || err->code == ERR_INTERNAL ||
            (code >= 1002 && code != 1006 && code != 1012))
            return -1;
        if (connect_again(s, err) < 0)
            return is_over(s) ? 0 : -1;
        send_size(s);
    }
    ws_link_send(&s->link, WS_CLOSE, "\x03\xe8", 2);
    (void)ws_link_flush(&s->link, err);
    ws_link_done(&s->link);
    return 0;
}

// -- the command

// One word so that a shell reads it as it is.
static void quote(struct buf *buf, const char *word)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@%+";
    if (word[0] != '\0' && strspn(word, plain) == strlen(word)) {
        (void)buf_append_str(buf, word);
        return;
    }
    shell_quote(buf, word);
}

static void take_command(struct shell *s)
{
    for (char **word = s->remote->rest; *word != NULL; word++) {
        if (s->command.len > 0)
            (void)buf_append_char(&s->command, ' ');
        quote(&s->command, *word);
    }
    if (s->command.len == 0 || s->session != NULL)
        return;
    remote_key(s->made_up); // nobody else's
    s->session = s->made_up;
}

static void greet(const struct shell *s)
{
    const char *how = s->readonly ? ", looking on" : "";
    if (s->session == s->made_up) // for one command: its name says nothing
        (void)fprintf(stderr, "cay: a terminal of %s%s; Ctrl-] d leaves it running\n",
                      s->remote->word[0], how);
    else
        (void)fprintf(stderr, "cay: terminal '%s' of %s%s; Ctrl-] d leaves it running\n",
                      s->session != NULL ? s->session : "default", s->remote->word[0], how);
}

static int tell_end(const struct shell *s)
{
    if (s->detached && s->session != s->made_up)
        (void)fprintf(stderr, "\ncay: left it running; 'cay shell %s%s%s' comes back\n",
                      s->remote->word[0], s->session != NULL ? " --session " : "",
                      s->session != NULL ? s->session : "");
    else if (s->detached)
        (void)fprintf(stderr, "\ncay: left it running; 'cay ps %s' lists it\n", s->remote->word[0]);
    if (s->has_exit && strcmp(s->reason, "sleep") == 0)
        (void)fprintf(stderr, "cay: the sandbox fell asleep\n");
    if (s->has_exit && strcmp(s->reason, "destroyed") == 0)
        (void)fprintf(stderr, "cay: the sandbox was destroyed\n");
    if (s->ended_by != 0)
        return 128 + s->ended_by;
    if (s->hangs)
        return 128 + SIGHUP;
    return s->has_exit ? s->exit_code : CLI_OK;
}

static int shell(struct shell *s)
{
    struct err err = {0};
    take_command(s);
    if (s->command.failed != 0)
        return remote_usage(s->remote, "the command is too long");
    if (connect_once(s, /* again */ false, &err) < 0)
        return remote_fail(s->remote, &err);
    if (tty_open(&err) < 0)
        return remote_fail(s->remote, &err);
    greet(s);
    tty_raw(true);
    int r = run(s, &err);
    if (!s->has_exit)
        tty_calm();
    tty_raw(false);
    return r < 0 ? remote_fail(s->remote, &err) : tell_end(s);
}

int cmd_shell(int argc, char **argv)
{
    static struct shell s;
    int code;
    auto_remote remote;
    const struct command_line line = {"shell", &spec, take_flag, &s, 1, 1, "one ID"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return remote_usage(&remote,
                            "this takes a terminal; 'cay exec ID -- COMMAND' does without one");
    s.remote = &remote;
    buf_init(&s.command, COMMAND_MAX);
    buf_init(&s.typed, TYPED_MAX);
    code = shell(&s);
    buf_done(&s.command);
    buf_done(&s.typed);
    return code;
}
