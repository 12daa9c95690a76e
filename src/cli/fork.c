// SPDX-License-Identifier: Apache-2.0
// `cay fork ID [NEW]`: sandboxes that begin with the files of another.
#include <stdio.h>

#include "base/text.h"
#include "cli/await.h"
#include "cli/body.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/snapshot.h"

enum { COUNT_MAX = 1000 }; // by one request, as the server has it

enum fork_flag { FLAG_COUNT, FLAG_SNAPSHOT };

static const struct opt opts[] = {
    {"count",    'n', "N",    "make so many; of NEW they are NEW-1, NEW-2...",       "1"  },
    {"snapshot", 's', "SNAP", "as the sandbox was then, by a snapshot's id or name", "now"},
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay fork ID [NEW] [flags]",
    .summary =
        "Makes sandboxes that begin with the files, settings, environment and sessions of another\n"
        "one and prints their ids. It takes a moment, whatever the size, and the source's programs\n"
        "go on. Programs, memory, open ports and tokens are not copied; each child has an identity\n"
        "of its own and sleeps until it is used.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more = "Examples:\n"
            "  cay fork build try && cay exec try -- make test\n"
            "  cay fork build try -n 8                 # try-1 to try-8\n"
            "  cay fork build -n 8 | xargs -P8 -I{} cay exec {} -- ./attempt.sh",
};

struct fork_args {
    uint64_t count;
    const char *snapshot;
};

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct fork_args *f = data;
    switch ((enum fork_flag)flag) {
    case FLAG_COUNT:
        return parse_u64(value, 1, COUNT_MAX, &f->count, err);
    case FLAG_SNAPSHOT:
        f->snapshot = value;
        return 0;
    }
    return 0;
}

static void write_body(const struct fork_args *f, const char *id, struct buf *body)
{
    struct json j;
    json_init(&j, body);
    json_open_object(&j);
    body_text(&j, "id", id);
    body_number(&j, "count", f->count);
    body_text(&j, "snapshot", f->snapshot);
    json_close_object(&j);
    (void)json_finish(&j);
}

static int print_children(const struct remote *remote, const struct json_node *list)
{
    for (const struct json_node *n = json_first(list); n != NULL; n = json_next(n)) {
        auto_buf id;
        buf_init(&id, REMOTE_TARGET_MAX);
        (void)puts(remote_text(&id, n, "sandboxId"));
    }
    return remote_flush(remote);
}

int cmd_fork(int argc, char **argv)
{
    struct fork_args f = {0};
    int code;
    auto_remote remote;
    const struct command_line line = {
        "fork", &spec, take_flag, &f, 1, 2, "an ID, and perhaps one for the child"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    struct err err;
    auto_answer answer;
    auto_buf target, body, snapshot;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, REMOTE_BODY_MAX);
    buf_init(&snapshot, REMOTE_TARGET_MAX);
    if (f.snapshot != NULL) {
        if (snapshot_id(&remote, remote.word[0], f.snapshot, &snapshot, &err) < 0)
            return remote_fail(&remote, &err);
        f.snapshot = buf_str(&snapshot);
    }
    write_body(&f, remote.n_words > 1 ? remote.word[1] : NULL, &body);
    remote_target(&target, "sandbox", remote.word[0], "fork");
    if (remote_await(&remote, "POST", &target, &body, "forking", &answer, &err) < 0)
        return remote_fail(&remote, &err);
    if (remote.json)
        return remote_print(&remote, &answer);
    return print_children(&remote, json_get(answer_root(&answer), "sandboxes"));
}
