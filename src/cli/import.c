// SPDX-License-Identifier: Apache-2.0
// `cay import [ID] [FILE]`: an archive becomes the files of a sandbox.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/body.h"
#include "cli/cli.h"
#include "cli/copy.h"
#include "cli/remote.h"

enum import_flag { FLAG_DIR, FLAG_IMAGE, FLAG_SHA256 };

static const struct opt opts[] = {
    {"dir",    'd', "DIR",  "it becomes this directory, which goes; else all that was written", NULL          },
    {"image",  'i', "NAME", "what a new sandbox stands on: that of the export's",               "the server's"},
    {"sha256", 0,   "HEX",  "refuse an archive with another digest",                            NULL          },
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay import [ID] [FILE] [flags]",
    .summary =
        "Puts an archive ('cay export' made it, or any tar with --dir) in the place of a sandbox's\n"
        "files and prints the sandbox's id. Without FILE, or with '-', it is read from standard input.\n"
        "A sandbox that is not there is made. All of it is there in the end, or nothing is changed;\n"
        "programs of the sandbox are ended. An export of a directory needs --dir.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more =
        "One word alone is a FILE if it has a '/', '.tar' or '.tgz' in it, or ends with '.zst'.\n"
        "\n"
        "Examples:\n"
        "  cay export build | cay import copy\n"
        "  cay export build /workspace | cay import copy --dir /workspace\n"
        "  cay import < build.tar.zst                    # a new one; prints its id\n"
        "  tar -c . | cay import build --dir /workspace",
};

struct import {
    const char *dir, *image, *sha256;
    const char *id, *file;
    char made[132]; // the id of the one that was made for it; "": none
};

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct import *i = data;
    (void)err;
    switch ((enum import_flag)flag) {
    case FLAG_DIR:
        i->dir = value;
        return 0;
    case FLAG_IMAGE:
        i->image = value;
        return 0;
    case FLAG_SHA256:
        i->sha256 = value;
        return 0;
    }
    return 0;
}

// -- which sandbox, which file

static bool is_file_name(const char *word)
{
    size_t n = strlen(word);
    return strcmp(word, "-") == 0 || strchr(word, '/') != NULL || strstr(word, ".tar") != NULL ||
           strstr(word, ".tgz") != NULL || (n > 4 && strcmp(word + n - 4, ".zst") == 0);
}

static void sort_words(struct import *i, const struct remote *remote)
{
    if (remote->n_words == 2) {
        i->id = remote->word[0];
        i->file = remote->word[1];
    } else if (remote->n_words == 1 && is_file_name(remote->word[0])) {
        i->file = remote->word[0];
    } else if (remote->n_words == 1) {
        i->id = remote->word[0];
    }
    if (i->file != NULL && strcmp(i->file, "-") == 0)
        i->file = NULL;
}

// 1 when there is one with this id, 0 when not.
static int is_there(struct remote *remote, const char *id, struct err *err)
{
    auto_answer answer;
    auto_buf target;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", id);
    if (remote_do(remote, "GET", &target, NULL, &answer, err) == 0)
        return 1;
    return remote->status == 404 ? 0 : -1;
}

static int make_sandbox(struct import *i, struct remote *remote, struct err *err)
{
    struct json j;
    auto_answer answer;
    auto_buf target, body, id;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, REMOTE_BODY_MAX);
    buf_init(&id, sizeof i->made - 1);
    json_init(&j, &body);
    json_open_object(&j);
    body_text(&j, "id", i->id);
    body_text(&j, "image", i->image);
    json_close_object(&j);
    (void)json_finish(&j);
    remote_target(&target, "sandbox");
    if (remote_do(remote, "POST", &target, &body, &answer, err) < 0)
        return -1;
    (void)remote_text(&id, answer_root(&answer), "sandboxId");
    if (id.failed != 0 || id.len == 0)
        return err_set(err, ERR_INTERNAL, "the server did not say the new sandbox's id");
    (void)snprintf(i->made, sizeof i->made, "%s", buf_str(&id));
    i->id = i->made;
    return 0;
}

static int find_sandbox(struct import *i, struct remote *remote, struct err *err)
{
    int r = i->id != NULL ? is_there(remote, i->id, err) : 0;
    if (r < 0)
        return -1;
    return r > 0 ? 0 : make_sandbox(i, remote, err);
}

// -- sending it

static int send_archive(const struct import *i, struct remote *remote, int fd,
                        struct answer *answer, struct err *err)
{
    auto_buf target;
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", i->id, "import");
    if (i->dir != NULL)
        remote_query(&target, "dir", i->dir);
    if (i->sha256 != NULL)
        remote_query(&target, "sha256", i->sha256);
    const struct upload upload = {
        .method = "POST",
        .target = buf_str(&target),
        .type = "application/zstd",
        .fd = fd,
        .progress = !remote->json,
    };
    return copy_upload(remote, &upload, answer, err);
}

// One that was made for an archive that is no good is of no use to anybody.
static void unmake(const struct import *i, const struct remote *remote)
{
    struct err ignored;
    struct remote other = *remote; // what it said stays for the message
    auto_answer answer;
    auto_buf target;
    if (i->made[0] == '\0')
        return;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", i->made);
    (void)remote_do(&other, "DELETE", &target, NULL, &answer, &ignored);
}

static int import_from(struct import *i, struct remote *remote, int fd)
{
    struct err err = {0};
    auto_answer answer;
    answer_init(&answer);
    if (find_sandbox(i, remote, &err) < 0)
        return remote_fail(remote, &err);
    if (send_archive(i, remote, fd, &answer, &err) < 0) {
        unmake(i, remote);
        return remote_fail(remote, &err);
    }
    if (remote->json)
        return remote_print(remote, &answer);
    (void)puts(i->id);
    return remote_flush(remote);
}

int cmd_import(int argc, char **argv)
{
    struct import i = {0};
    int code;
    auto_remote remote;
    const struct command_line line = {
        "import", &spec, take_flag, &i, 0, 2, "an ID and a FILE at most"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    sort_words(&i, &remote);
    if (i.file == NULL && isatty(STDIN_FILENO))
        return remote_usage(&remote, "name the archive's FILE, or add '< FILE'");
    auto_fd file = -1;
    if (i.file != NULL && (file = open(i.file, O_RDONLY | O_CLOEXEC)) < 0) {
        struct err err;
        (void)err_sys(&err, errno, "open '%s'", i.file);
        return remote_fail(&remote, &err);
    }
    return import_from(&i, &remote, file >= 0 ? file : STDIN_FILENO);
}
