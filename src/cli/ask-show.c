// SPDX-License-Identifier: Apache-2.0
// What is seen of a question: the output of the code on standard output, and nothing else there;
// the code, what is said about it and what it costs on standard error. The code is a model's, and
// its output of a program that nobody has read: on a terminal both are made plain.
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/ask.h"
#include "cli/signals.h"

enum {
    HELD_MAX = 64 * 1024 * 1024,
    CODE_KEPT = 1024 * 1024, // of the pieces, to know whether they are what runs
    LINE_MAX_LEN = 4096,
};

#define DIM "\x1b[2m"
#define OFF "\x1b[0m"

// -- beginning and end

// Both as one descriptor, for a call that waits on one beside its own.
static int make_wake_fd(const struct ask_show *show, struct err *err)
{
    const int fds[] = {signals_fd(), spinner_fd(&show->spinner)};
    auto_fd wake = epoll_create1(EPOLL_CLOEXEC);
    for (size_t i = 0; wake >= 0 && i < sizeof fds / sizeof *fds; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fds[i]};
        if (fds[i] >= 0 && epoll_ctl(wake, EPOLL_CTL_ADD, fds[i], &event) < 0)
            return err_sys(err, errno, "wait for signals");
    }
    return wake < 0 ? err_sys(err, errno, "wait for signals") : TAKE_FD(wake);
}

// In a pipe only the output of the attempt that counts is wanted, so one that may be followed by
// another is kept until it has ended.
static void hold(struct ask_show *show)
{
    buf_reset(&show->held);
    show->rich.held = &show->held;
}

int ask_show_init(struct ask_show *show, const struct remote *remote,
                  const struct ask_options *options, struct ask_files *files, struct err *err)
{
    *show = (struct ask_show){
        .tells = !options->quiet && !remote->json,
        .terminal = isatty(STDERR_FILENO),
        .colour = text_colour(stderr),
        .files = files,
        .rich = {.dir = files->dir,
                 .plain = {isatty(STDOUT_FILENO), isatty(STDERR_FILENO)},
                 .no_files = options->no_files},
    };
    buf_init(&show->held, HELD_MAX);
    buf_init(&show->code, CODE_KEPT);
    spinner_init(&show->spinner, /*wanted=*/true);
    rich_begin(&show->rich, NULL);
    if (!isatty(STDOUT_FILENO) && options->retries > 0)
        hold(show);
    show->wake_fd = make_wake_fd(show, err);
    return show->wake_fd < 0 ? -1 : 0;
}

void ask_show_done(struct ask_show *show)
{
    spinner_done(&show->spinner);
    fd_close(show->wake_fd);
    buf_done(&show->held);
    buf_done(&show->code);
}

// -- lines of ours

// Whether the next character on the screen stands at the beginning of a line.
static bool at_line_start(const struct ask_show *show)
{
    for (size_t i = 0; i < 2; i++) {
        if (show->rich.last[i] != '\0' && show->rich.last[i] != '\n')
            return false;
    }
    return !show->line_open;
}

void ask_show_wait(struct ask_show *show, const char *what)
{
    if (at_line_start(show))
        spinner_start(&show->spinner, what);
}

static void end_code_line(struct ask_show *show)
{
    if (show->line_open)
        (void)fd_write_all(STDERR_FILENO, "\n", 1);
    show->line_open = false;
}

static void alone(struct ask_show *show)
{
    struct err ignored;
    spinner_stop(&show->spinner);
    end_code_line(show);
    (void)rich_end_line(&show->rich, &ignored);
}

static void say_line(struct ask_show *show, const char *text)
{
    auto_buf line;
    buf_init(&line, 2 * LINE_MAX_LEN);
    alone(show);
    (void)buf_printf(&line, show->colour ? DIM "%s" OFF "\n" : "%s\n", text);
    (void)fd_write_all(STDERR_FILENO, buf_str(&line), line.len);
}

void ask_show_say(struct ask_show *show, const char *fmt, ...)
{
    auto_buf text;
    va_list ap;
    if (!show->tells)
        return;
    buf_init(&text, LINE_MAX_LEN);
    va_start(ap, fmt);
    (void)buf_vprintf(&text, fmt, ap);
    va_end(ap);
    say_line(show, buf_str(&text));
}

// A member of the server's, plain, in one line, and not too long for it.
const char *ask_show_word(struct buf *buf, const struct json_node *node, const char *key)
{
    buf_init(buf, LINE_MAX_LEN / 4);
    return remote_text(buf, node, key);
}

// -- the code

void ask_show_start(struct ask_show *show, const struct remote *remote,
                    const struct json_node *start)
{
    auto_buf model, language;
    const char *who = ask_show_word(&model, start, "model"),
               *what = ask_show_word(&language, start, "language");
    ask_show_say(show, "%s writes %s; server %s", who[0] != '\0' ? who : "the model",
                 what[0] != '\0' ? what : "code", remote->place.text);
    ask_show_wait(show, "the model thinks");
}

// Where there is no colour to tell it from the output, each line gets a mark.
static void add_code(struct ask_show *show, struct buf *out, const char *text, size_t len,
                     bool is_dim)
{
    auto_buf plain;
    buf_init(&plain, EVENT_MAX);
    (void)text_plain_lines(&plain, text, len, &show->code_cr);
    const char *at = buf_str(&plain), *end = at + plain.len;
    if (show->colour && is_dim)
        (void)buf_append_str(out, DIM);
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *next = newline != NULL ? newline + 1 : end;
        if (!show->colour && !show->line_open)
            (void)buf_append_str(out, "| ");
        (void)buf_append(out, at, (size_t)(next - at));
        show->line_open = newline == NULL;
        at = next;
    }
    if (show->colour && is_dim)
        (void)buf_append_str(out, OFF);
}

static void write_code(struct ask_show *show, const char *text, size_t len, bool is_dim)
{
    auto_buf out;
    buf_init(&out, 2 * (size_t)EVENT_MAX);
    add_code(show, &out, text, len, is_dim);
    (void)fd_write_all(STDERR_FILENO, buf_str(&out), out.len);
}

// Pieces are for somebody who looks on; a file gets the whole, once.
void ask_show_piece(struct ask_show *show, const struct json_node *event)
{
    const struct json_node *text = json_get(event, "text");
    if (!show->tells || !show->terminal || !json_is(text, JSON_NODE_STRING) || text->text_len == 0)
        return;
    spinner_stop(&show->spinner);
    write_code(show, text->text, text->text_len, /*is_dim=*/true);
    (void)buf_append(&show->code, text->text, text->text_len);
}

static void forget_pieces(struct ask_show *show)
{
    end_code_line(show);
    buf_reset(&show->code);
    show->code_cr = false;
}

void ask_show_restart(struct ask_show *show, const struct json_node *event)
{
    auto_buf reason;
    const char *why = ask_show_word(&reason, event, "reason");
    spinner_stop(&show->spinner);
    if (show->code.len > 0)
        ask_show_say(show, "-- that is void%s%s; it is written anew", why[0] != '\0' ? ": " : "",
                     why);
    forget_pieces(show);
    ask_show_wait(show, "the model thinks");
}

static size_t trimmed(const char *text, size_t len)
{
    while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL)
        len--;
    return len;
}

// Whether what was seen is what runs, but for empty lines.
static bool was_shown(const struct ask_show *show, const struct json_node *code)
{
    const char *pieces = buf_str(&show->code);
    size_t skip = strspn(pieces, "\r\n"), skip_code = strspn(code->text, "\r\n");
    size_t n = trimmed(pieces + skip, show->code.len - skip);
    return show->code.len >= skip && code->text_len >= skip_code &&
           trimmed(code->text + skip_code, code->text_len - skip_code) == n &&
           memcmp(pieces + skip, code->text + skip_code, n) == 0;
}

void ask_show_code(struct ask_show *show, const struct json_node *event)
{
    const struct json_node *code = json_get(event, "code");
    bool cached = json_bool(json_get(event, "cached"), false);
    spinner_stop(&show->spinner);
    if (show->tells && json_is(code, JSON_NODE_STRING) && !was_shown(show, code)) {
        if (show->code.len > 0)
            ask_show_say(show, "-- what runs:");
        else if (cached)
            ask_show_say(show, "-- as it was written before:");
        forget_pieces(show);
        write_code(show, code->text, code->text_len, /*is_dim=*/true);
    }
    forget_pieces(show);
    ask_show_wait(show, "the code runs");
}

// -- an agent's words

// The newest of them are kept: they may turn out to be its answer, too.
void ask_show_log(struct ask_show *show, const char *text, size_t len)
{
    if (!show->tells || len == 0)
        return;
    spinner_stop(&show->spinner);
    write_code(show, text, len, /*is_dim=*/false);
    buf_reset(&show->code);
    (void)buf_append(&show->code, text, len);
}

// -- its output

// A picture or a page goes to a file: there must be a place for it.
static void make_room(struct ask_show *show, const struct json_node *event)
{
    static const char *const keys[] = {"png", "jpeg", "svg", "html", "javascript"};
    struct err err;
    bool wants = false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        wants = wants || json_is(json_get(event, keys[i]), JSON_NODE_STRING);
    if (!wants || show->rich.no_files)
        return;
    if (ask_files_open(show->files, &err) < 0) {
        (void)remote_fail(show->files->remote, &err);
        show->rich.no_files = true;
    }
}

int ask_show_output(struct ask_show *show, const char *name, const struct json_node *event,
                    struct err *err)
{
    int r;
    if (show->files->remote->json)
        return 0;
    spinner_stop(&show->spinner);
    end_code_line(show);
    if (strcmp(name, "stdout") == 0 || strcmp(name, "stderr") == 0) {
        r = rich_output(&show->rich, name[3] == 'e', event, err);
    } else if (strcmp(name, "error") == 0) {
        show->error_shown = true;
        r = rich_error(&show->rich, event, err);
    } else {
        make_room(show, event);
        r = rich_show(&show->rich, event, err);
    }
    if (r == 0)
        ask_show_wait(show, "the code runs");
    return r;
}

void ask_show_repair(struct ask_show *show, const struct json_node *event, bool is_last)
{
    auto_buf error;
    const char *why = ask_show_word(&error, event, "error");
    if (show->error_shown) // it has just been seen
        why = "";
    if (show->rich.held != NULL)
        buf_reset(&show->held); // the next attempt is the one that counts
    ask_show_say(show, "-- that failed%s%s; the model tries again", why[0] != '\0' ? ": " : "",
                 why);
    if (is_last)
        show->rich.held = NULL;
    else if (!show->rich.plain[0])
        hold(show);
    show->rich.last[0] = '\0';
    show->error_shown = false;
    ask_show_wait(show, "the model thinks");
}

// -- its end

int ask_show_whole(struct ask_show *show, const struct json_node *answer, struct err *err)
{
    const struct json_node *output = json_get(answer, "output");
    if (show->files->remote->json)
        return 0;
    ask_show_say(show, "-- the stream is gone; all of the output:");
    buf_reset(&show->held);
    show->error_shown = false;
    if (!json_is(output, JSON_NODE_STRING))
        return 0;
    return rich_text(&show->rich, false, output->text, output->text_len, err);
}

int ask_show_end(struct ask_show *show, const struct json_node *answer, struct err *err)
{
    auto_buf error;
    const char *why = ask_show_word(&error, answer, "error");
    spinner_stop(&show->spinner);
    end_code_line(show);
    if (rich_release(&show->rich, err) < 0 || rich_end_line(&show->rich, err) < 0)
        return -1;
    const char *code = json_text(json_get(answer, "error_code"));
    code = code != NULL ? code : "";
    if (json_bool(json_get(answer, "success"), false) ||
        (show->error_shown && strcmp(code, "CODE_FAILED") == 0)) // it stands right above
        return 0;
    if (strcmp(code, "CANCELLED") == 0)
        why = "cancelled";
    (void)fprintf(stderr, "cay: %s\n", why[0] != '\0' ? why : "it failed");
    return 0;
}

void ask_show_seconds(struct buf *line, const char *before, const struct json_node *ms)
{
    double n = json_double(ms, -1);
    if (n >= 0)
        (void)buf_printf(line, "%s%.*fs", before, n < 10000 ? 2 : 1, n / 1000);
}

void ask_show_price(struct buf *line, int64_t in, int64_t out, double usd)
{
    if (in > 0 || out > 0)
        (void)buf_printf(line, ", %" PRId64 " + %" PRId64 " tokens", in, out);
    if (usd > 0)
        (void)buf_printf(line, ", $%.*f", usd < 0.001 ? 6 : 4, usd);
}

static void add_price(struct buf *line, const struct json_node *metrics)
{
    ask_show_price(line, json_int(json_get(metrics, "input_tokens"), 0),
                   json_int(json_get(metrics, "output_tokens"), 0),
                   json_double(json_get(metrics, "cost_usd"), 0));
}

void ask_show_sum(struct ask_show *show, const struct json_node *answer, bool is_kept)
{
    const struct json_node *metrics = json_get(answer, "metrics");
    auto_buf line, id;
    buf_init(&line, LINE_MAX_LEN);
    (void)buf_append_str(&line, "--");
    ask_show_seconds(&line, " ", json_get(metrics, "total_ms"));
    ask_show_seconds(&line, ": model ", json_get(metrics, "generation_ms"));
    ask_show_seconds(&line, ", sandbox ", json_get(metrics, "sandbox_ms"));
    add_price(&line, metrics);
    if (json_bool(json_get(answer, "cached"), false))
        (void)buf_append_str(&line, ", code from the cache");
    const char *sandbox = ask_show_word(&id, answer, "sandboxId");
    if (sandbox[0] != '\0')
        (void)buf_printf(&line, "; sandbox %s", sandbox);
    if (sandbox[0] != '\0' && is_kept)
        (void)buf_append_str(&line, ", go on with: cay ask -c ...");
    ask_show_say(show, "%s", buf_str(&line));
}
