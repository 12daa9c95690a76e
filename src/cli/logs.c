// SPDX-License-Identifier: Apache-2.0
// `cay logs ID PROCESS`: what a process wrote, byte for byte.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/output.h"

enum logs_flag { FLAG_FOLLOW, FLAG_STDOUT, FLAG_STDERR, FLAG_OFFSET };

static const struct opt opts[] = {
    {"follow", 'f', NULL, "go on until the process ends",                                 NULL},
    {"stdout", 'o', NULL, "only what it wrote to standard output",                        NULL},
    {"stderr", 'e', NULL, "only what it wrote to standard error, to standard output",     NULL},
    {"offset", 0,   "N",  "begin at this byte of the stream; of stdout if none is named", "0" },
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay logs ID PROCESS [flags]",
    .summary =
        "Prints what a process of a sandbox wrote ('cay ps ID' lists them), byte for byte: each\n"
        "stream to ours, or one alone to standard output. Reading does not wake the sandbox.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more = "Examples:\n"
            "  cay logs build web --follow\n"
            "  cay logs build web --stderr --offset 1000 | tail",
};

struct logs {
    bool follow, out, err, has_offset;
    uint64_t offset;
    struct follow state;
    struct output output;
    bool json;
};

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct logs *l = data;
    switch ((enum logs_flag)flag) {
    case FLAG_FOLLOW:
        l->follow = true;
        return 0;
    case FLAG_STDOUT:
        l->out = true;
        return 0;
    case FLAG_STDERR:
        l->err = true;
        return 0;
    case FLAG_OFFSET:
        l->has_offset = true;
        return parse_u64(value, 0, INT64_MAX, &l->offset, err);
    }
    return 0;
}

static void write_target(const struct logs *l, const struct remote *remote, struct buf *target)
{
    char number[24];
    bool both = l->out == l->err;
    remote_target(target, "sandbox", remote->word[0], "processes", remote->word[1], "logs");
    remote_query(target, "stream", both ? "both" : l->out ? "stdout" : "stderr");
    remote_query(target, "follow", l->follow ? "1" : "0");
    if (l->has_offset) {
        (void)snprintf(number, sizeof number, "%" PRIu64, l->offset);
        remote_query(target, "offset", number);
    }
}

// With --json each event is one line: {"event": "stdout", "offset": 0, "data": "..."}.
static int print_event(const struct event *event, struct err *err)
{
    auto_json_doc *doc = NULL;
    if (json_read(event->data, event->len, &doc, err) < 0)
        return -1;
    (void)printf("{\"event\":\"%s\",\"data\":", event->name);
    remote_print_node(json_root(doc));
    (void)puts("}");
    return fflush(stdout) != 0 ? err_set(err, ERR_INTERNAL, "cannot print") : 0;
}

static int take_event(void *data, const struct event *event, struct err *err)
{
    struct logs *l = data;
    int r = l->json ? print_event(event, err) : output_event(&l->output, event, err);
    l->state.done = l->state.done || strcmp(event->name, "exit") == 0;
    return r;
}

int cmd_logs(int argc, char **argv)
{
    struct logs l = {
        .output = {.out = STDOUT_FILENO, .err = STDERR_FILENO}
    };
    int code;
    auto_remote remote;
    const struct command_line line = {"logs", &spec, take_flag, &l, 2, 2, "an ID and a PROCESS"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    if (l.has_offset && l.out && l.err)
        return remote_usage(&remote, "--offset is of one stream: --stdout or --stderr");
    if (l.has_offset && !l.err)
        l.out = true;
    if (l.err && !l.out)
        l.output.err = STDOUT_FILENO;
    struct err err = {0};
    auto_buf target;
    buf_init(&target, REMOTE_TARGET_MAX);
    write_target(&l, &remote, &target);
    l.json = remote.json;
    l.state.remote = &remote;
    l.state.to_end = !l.follow;
    const struct http_call call = {.method = "GET", .target = buf_str(&target)};
    if (follow_events(&l.state, &call, take_event, &l, &err) < 0)
        return remote_fail(&remote, &err);
    return CLI_OK;
}
