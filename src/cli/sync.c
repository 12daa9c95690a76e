// SPDX-License-Identifier: Apache-2.0
// `cay sync ID`: the files of a sandbox's workspace to the store, and how far it is.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/body.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/remote.h"
#include "cli/table.h"

enum sync_flag { FLAG_INCLUDE, FLAG_EXCLUDE, FLAG_GITIGNORE, FLAG_STATUS };

static const struct opt opts[] = {
    {"include",   'i', "GLOB", "only files that fit; may be repeated",             NULL},
    {"exclude",   'x', "GLOB", "no files that fit; may be repeated",               NULL},
    {"gitignore", 'g', NULL,   "not what the workspace's .gitignore files ignore", NULL},
    {"status",    's', NULL,   "do nothing, say how the last one went",            NULL},
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay sync ID [flags]",
    .summary =
        "Brings the files of a sandbox's workspace to the store: what is new or has changed is sent,\n"
        "what is gone is deleted there. They outlive the sandbox. It does not wake it. What was said\n"
        "here counts for the next ones, too, until something else is said.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more = "'cay stored ls ID' lists what is stored; 'cay create ID --restore' begins with it;\n"
            "'cay create ID --sync' does this whenever it falls asleep.\n"
            "\n"
            "Examples:\n"
            "  cay sync notes --gitignore --exclude '*.log'\n"
            "  cay sync notes --status",
};

struct sync {
    struct remote *remote;
    bool gitignore, status, shows;
    struct names include, exclude;
    struct follow follow;
};

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct sync *s = data;
    switch ((enum sync_flag)flag) {
    case FLAG_INCLUDE:
        return names_add(&s->include, value, err);
    case FLAG_EXCLUDE:
        return names_add(&s->exclude, value, err);
    case FLAG_GITIGNORE:
        s->gitignore = true;
        return 0;
    case FLAG_STATUS:
        s->status = true;
        return 0;
    }
    return 0;
}

static void write_body(const struct sync *s, struct buf *body)
{
    struct json j;
    json_init(&j, body);
    json_open_object(&j);
    body_names(&j, "include", &s->include);
    body_names(&j, "exclude", &s->exclude);
    body_flag(&j, "gitignore", s->gitignore);
    body_flag(&j, "stream", true);
    json_close_object(&j);
    (void)json_finish(&j);
}

// -- what is told

static void print_bytes(FILE *out, const struct json_node *root, const char *key)
{
    char text[24];
    int64_t n = json_int(json_get(root, key), 0);
    (void)fputs(text_size(text, sizeof text, n > 0 ? (uint64_t)n : 0), out);
}

static void show_progress(const struct sync *s, const struct json_node *root)
{
    if (!s->shows)
        return;
    (void)fprintf(stderr, "\r\033[K%" PRId64 " files seen, %" PRId64 " sent (",
                  json_int(json_get(root, "seen"), 0), json_int(json_get(root, "put"), 0));
    print_bytes(stderr, root, "putBytes");
    (void)fputc(')', stderr);
    (void)fflush(stderr);
}

static int print_done(const struct sync *s, const struct json_node *root)
{
    if (s->remote->json) {
        remote_print_node(root);
        (void)fputc('\n', stdout);
        return remote_flush(s->remote);
    }
    (void)printf("%" PRId64 " files, ", json_int(json_get(root, "files"), 0));
    print_bytes(stdout, root, "bytes");
    (void)printf(": %" PRId64 " sent (", json_int(json_get(root, "put"), 0));
    print_bytes(stdout, root, "putBytes");
    (void)printf("), %" PRId64 " deleted\n", json_int(json_get(root, "deleted"), 0));
    auto_buf warning;
    buf_init(&warning, REMOTE_ERROR_MAX);
    if (remote_text(&warning, root, "warning")[0] != '\0')
        (void)fprintf(stderr, "cay: %s\n", buf_str(&warning));
    return remote_flush(s->remote);
}

// As if the server had answered with that.
static int failed_by(struct sync *s, const struct json_node *root, struct err *err)
{
    auto_buf text;
    buf_init(&text, sizeof err->msg - 1);
    (void)remote_text(&text, root, "error");
    s->follow.stopped = true;
    return err_set(err, ERR_UNAVAILABLE, "%s",
                   text.len > 0 ? buf_str(&text)
                                : "the sync failed; 'cay sync ID --status' says why");
}

static int take_event(void *data, const struct event *event, struct err *err)
{
    struct sync *s = data;
    auto_json_doc *doc = NULL;
    if (json_read(event->data, event->len, &doc, err) < 0)
        return err_wrap(err, "the server sent an event that is no JSON");
    const struct json_node *root = json_root(doc);
    if (strcmp(event->name, "progress") == 0)
        show_progress(s, root);
    else if (s->shows)
        (void)fputs("\r\033[K", stderr);
    if (strcmp(event->name, "error") == 0)
        return failed_by(s, root, err);
    if (strcmp(event->name, "done") != 0)
        return 0;
    s->follow.done = true;
    return print_done(s, root) == CLI_OK ? 0 : err_set(err, ERR_INTERNAL, "cannot print");
}

// -- the command

static int run_sync(struct sync *s, const struct buf *target, struct err *err)
{
    auto_buf body;
    buf_init(&body, REMOTE_BODY_MAX);
    write_body(s, &body);
    const struct http_call call = {
        .method = "POST",
        .target = buf_str(target),
        .body = buf_str(&body),
        .body_len = body.len,
    };
    s->follow = (struct follow){.remote = s->remote, .once = true};
    s->shows = !s->remote->json && isatty(STDERR_FILENO);
    int r = follow_events(&s->follow, &call, take_event, s, err);
    if (r < 0 && s->remote->status < 300 && !s->follow.stopped && s->follow.was_connected)
        (void)err_wrap(err, "the sync may go on, 'cay sync %s --status' tells", s->remote->word[0]);
    return r;
}

static int print_status(struct sync *s, const struct buf *target)
{
    struct err err;
    auto_answer answer;
    auto_buf state, error;
    answer_init(&answer);
    buf_init(&state, 256);
    buf_init(&error, REMOTE_ERROR_MAX);
    if (remote_do(s->remote, "GET", target, NULL, &answer, &err) < 0)
        return remote_fail(s->remote, &err);
    if (s->remote->json)
        return remote_print(s->remote, &answer);
    const struct json_node *root = answer_root(&answer);
    char text[24];
    int64_t age = remote_age(json_get(root, "syncedAt"));
    (void)printf("%s", remote_text(&state, root, "state"));
    if (remote_text(&error, root, "error")[0] != '\0')
        (void)printf(": %s", buf_str(&error));
    if (json_text(json_get(root, "retryAt")) != NULL)
        (void)printf("; it is tried again");
    if (age >= 0) {
        (void)printf("; %" PRId64 " files, ", json_int(json_get(root, "files"), 0));
        print_bytes(stdout, root, "bytes");
        (void)printf(" stored %s ago", text_ago(text, sizeof text, age));
    }
    (void)fputc('\n', stdout);
    return remote_flush(s->remote);
}

int cmd_sync(int argc, char **argv)
{
    static struct sync s;
    int code;
    auto_remote remote;
    const struct command_line line = {"sync", &spec, take_flag, &s, 1, 1, "one ID"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    struct err err = {0};
    auto_buf target;
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", remote.word[0], "sync");
    s.remote = &remote;
    if (s.status)
        return print_status(&s, &target);
    return run_sync(&s, &target, &err) < 0 ? remote_fail(&remote, &err) : CLI_OK;
}
