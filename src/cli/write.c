// SPDX-License-Identifier: Apache-2.0
// `cay write ID:/path [FILE]`: gives a file of a sandbox new content.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "cli/copy.h"

enum write_flag { FLAG_MODE, FLAG_NEW };

static const struct opt opts[] = {
    {"mode", 'm', "MODE", "octal; else that of the file there was, or 0644", NULL},
    {"new",  'n', NULL,   "only if there is no such file",                   NULL},
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay write ID:/path [FILE]",
    .summary =
        "Gives a file of a sandbox the content of FILE, or of standard input: all of it, or\n"
        "nothing is changed. Directories above it are made.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more = "Examples:\n"
            "  echo hello | cay write build:/workspace/greeting.txt\n"
            "  cay write build:/workspace/run.sh run.sh --mode 0755",
};

struct write_args {
    const char *mode;
    bool is_new;
};

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct write_args *w = data;
    (void)err;
    switch ((enum write_flag)flag) {
    case FLAG_MODE:
        w->mode = value;
        return 0;
    case FLAG_NEW:
        w->is_new = true;
        return 0;
    }
    return 0;
}

int cmd_write(int argc, char **argv)
{
    int code;
    struct write_args w = {0};
    struct err err = {0};
    struct file_place place;
    auto_remote remote;
    const struct command_line line = {
        "write", &spec, take_flag, &w, 1, 2, "an ID:/path, and perhaps a FILE"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    if (file_place_read(&place, remote.word[0], &err) < 0)
        return remote_usage(&remote, err.msg);
    const char *name = remote.n_words > 1 ? remote.word[1] : "-";
    auto_fd file = -1;
    if (strcmp(name, "-") != 0 && (file = open(name, O_RDONLY | O_CLOEXEC)) < 0) {
        (void)err_sys(&err, errno, "open '%s'", name);
        return remote_fail(&remote, &err);
    }
    auto_buf target;
    auto_answer answer;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    file_target(&target, place.id, place.path);
    if (w.mode != NULL)
        remote_query(&target, "mode", w.mode);
    const struct upload upload = {
        .target = buf_str(&target),
        .type = "application/octet-stream",
        .fd = file >= 0 ? file : STDIN_FILENO,
        .is_new = w.is_new,
    };
    if (copy_upload(&remote, &upload, &answer, &err) < 0)
        return remote_fail(&remote, &err);
    return remote.json ? remote_print(&remote, &answer) : CLI_OK;
}
