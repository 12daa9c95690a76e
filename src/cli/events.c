// SPDX-License-Identifier: Apache-2.0
// `cay events ID`: what happened to a sandbox.
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/table.h"

enum events_flag { FLAG_FOLLOW };

static const struct opt opts[] = {
    {"follow", 'f', NULL, "go on with what happens from now on", NULL},
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay events ID [flags]",
    .summary =
        "Shows what happened to a sandbox: its sleeping and waking, how programs ended, limits hit.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
};

struct events {
    bool follow;
    struct follow state;
};

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct events *e = data;
    (void)flag;
    (void)value;
    (void)err;
    e->follow = true;
    return 0;
}

// "2026-01-02T03:04:05.678Z  woke  {...}", or the event as it is.
static int take_event(void *data, const struct event *event, struct err *err)
{
    struct events *e = data;
    auto_json_doc *doc = NULL;
    if (json_read(event->data, event->len, &doc, err) < 0)
        return err_wrap(err, "the server sent an event that is no JSON");
    const struct json_node *root = json_root(doc), *more = json_get(root, "data");
    auto_buf when, type;
    buf_init(&when, 256);
    buf_init(&type, 256);
    if (e->state.remote->json) {
        remote_print_node(root);
    } else {
        (void)printf("%s  %-14s", remote_text(&when, root, "timestamp"),
                     remote_text(&type, root, "type"));
        if (more != NULL && more->n > 0) {
            (void)fputs("  ", stdout);
            remote_print_node(more);
        }
    }
    (void)fputc('\n', stdout);
    const char *name = json_text(json_get(root, "type"));
    e->state.done = name != NULL && strcmp(name, "destroyed") == 0;
    return remote_flush(e->state.remote) == CLI_OK ? 0 : err_set(err, ERR_INTERNAL, "cannot print");
}

int cmd_events(int argc, char **argv)
{
    struct events e = {.follow = false};
    int code;
    auto_remote remote;
    const struct command_line line = {"events", &spec, take_flag, &e, 1, 1, "one ID"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    struct err err = {0};
    auto_buf target;
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", remote.word[0], "events");
    remote_query(&target, "follow", e.follow ? "1" : "0");
    e.state.remote = &remote;
    e.state.to_end = !e.follow;
    const struct http_call call = {.method = "GET", .target = buf_str(&target)};
    if (follow_events(&e.state, &call, take_event, &e, &err) < 0)
        return remote_fail(&remote, &err);
    return CLI_OK;
}
