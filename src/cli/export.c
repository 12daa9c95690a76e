// SPDX-License-Identifier: Apache-2.0
// `cay export ID [DIR] > x.tar.zst`: an archive of a sandbox's files. Half an archive must never
// pass for a whole one: a stream that is cut is an error here, and a file (-o) gets its name last.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/body.h"
#include "cli/cli.h"
#include "cli/copy.h"
#include "cli/remote.h"

enum export_flag { FLAG_OUTPUT, FLAG_EXCLUDE, FLAG_GITIGNORE };

static const struct opt opts[] = {
    {"output",    'o', "FILE", "write it there; half a file is never left",   NULL},
    {"exclude",   'x', "GLOB", "without files that fit; may be repeated",     NULL},
    {"gitignore", 'g', NULL,   "without what .gitignore files in DIR ignore", NULL},
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay export ID [DIR] [flags] > FILE",
    .summary =
        "Writes an archive (tar, compressed with zstd) of a directory of a sandbox to standard output;\n"
        "without DIR, of everything that it has written, to be imported by a Cay with the same image.\n"
        "Programs go on; one that sleeps is not woken.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more =
        "Examples:\n"
        "  cay export build /workspace | tar --zstd -x\n"
        "  cay export build -o build.tar.zst && cay import build build.tar.zst --url http://other:8787",
};

struct export
{
    const char *output;
    struct names excludes;
    bool gitignore;
};

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct export *e = data;
    switch ((enum export_flag)flag) {
    case FLAG_OUTPUT:
        e->output = strcmp(value, "-") != 0 ? value : NULL;
        return 0;
    case FLAG_EXCLUDE:
        if (strchr(value, ',') != NULL) // what separates them on the way
            return err_set(err, ERR_INVALID, "'%.80s': a pattern with a comma cannot be sent",
                           value);
        return names_add(&e->excludes, value, err);
    case FLAG_GITIGNORE:
        e->gitignore = true;
        return 0;
    }
    return 0;
}

static void write_target(const struct remote *remote, const struct export *e, struct buf *target)
{
    remote_target(target, "sandbox", remote->word[0], "export");
    if (remote->n_words > 1)
        remote_query(target, "dir", remote->word[1]);
    auto_buf excludes;
    buf_init(&excludes, REMOTE_TARGET_MAX);
    for (size_t i = 0; i < e->excludes.n; i++)
        (void)buf_printf(&excludes, "%s%s", i > 0 ? "," : "", e->excludes.items[i]);
    if (e->excludes.n > 0)
        remote_query(target, "exclude", buf_str(&excludes));
    if (e->gitignore)
        remote_query(target, "gitignore", "true");
}

static int64_t download(struct remote *remote, const struct export *e, int fd, struct err *err)
{
    auto_buf target;
    buf_init(&target, REMOTE_TARGET_MAX);
    write_target(remote, e, &target);
    if (target.failed != 0)
        return err_set(err, ERR_INVALID, "that is more than a request may hold");
    return copy_download(remote, buf_str(&target), fd, !remote->json, err);
}

// Beside its place, and moved there when all of it has come.
static int64_t download_file(struct remote *remote, const struct export *e, struct err *err)
{
    char beside[4096];
    int n = snprintf(beside, sizeof beside, "%s.part.%d", e->output, (int)getpid());
    if (n < 0 || (size_t)n >= sizeof beside)
        return err_set(err, ERR_INVALID, "the name of the file is too long");
    auto_fd fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return err_sys(err, errno, "make '%s'", beside);
    int64_t bytes = download(remote, e, fd, err);
    if (bytes >= 0 && (fsync(fd) < 0 || rename(beside, e->output) < 0))
        bytes = err_sys(err, errno, "write '%s'", e->output);
    if (bytes < 0)
        (void)unlink(beside);
    return bytes;
}

int cmd_export(int argc, char **argv)
{
    static struct export e;
    int code;
    auto_remote remote;
    const struct command_line line = {
        "export", &spec, take_flag, &e, 1, 2, "an ID, and perhaps a DIR"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    if (e.output == NULL && isatty(STDOUT_FILENO))
        return remote_usage(&remote, "an archive is not for a terminal: add '> FILE' or -o FILE");
    struct err err = {0};
    int64_t bytes = e.output != NULL ? download_file(&remote, &e, &err)
                                     : download(&remote, &e, STDOUT_FILENO, &err);
    if (bytes >= 0)
        return CLI_OK;
    if (remote.status < 300 && e.output == NULL) // something may have been written
        (void)err_wrap(&err, "what was written is not a whole archive");
    return remote_fail(&remote, &err);
}
