// SPDX-License-Identifier: Apache-2.0
// The change that came of a task: which files, and the diff. Both are an agent's, that is a
// stranger's: names are made plain, the diff is bytes in a file, and git looks at it before
// anything of it is done.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/ask.h"

enum { FILES_TOLD = 50, LINE_MAX_LEN = 4096, PATH_BYTES_MAX = 8192 };

#define DIFF_NAME "changes.diff"

// -- which files

// "+3 -1", "new, +3", "gone, -7", "renamed from a/b"
static void describe(struct buf *line, const struct json_node *file)
{
    auto_buf status, old;
    const struct json_node *added = json_get(file, "added"), *removed = json_get(file, "removed");
    const char *what = ask_show_word(&status, file, "status");
    const char *from = ask_show_word(&old, file, "old");
    if (strcmp(what, "added") == 0)
        (void)buf_append_str(line, " new");
    else if (strcmp(what, "deleted") == 0)
        (void)buf_append_str(line, " gone");
    else if (strcmp(what, "renamed") == 0)
        (void)buf_printf(line, " was %s", from);
    if (!json_is(added, JSON_NODE_NUMBER) || !json_is(removed, JSON_NODE_NUMBER))
        (void)buf_append_str(line, " binary");
    if (json_int(added, 0) > 0)
        (void)buf_printf(line, " +%" PRId64, json_int(added, 0));
    if (json_int(removed, 0) > 0)
        (void)buf_printf(line, " -%" PRId64, json_int(removed, 0));
}

void ask_change_list(struct ask_show *show, const struct json_node *files)
{
    size_t n = 0;
    if (json_is(files, JSON_NODE_ARRAY) && files->n == 0)
        ask_show_say(show, "-- nothing has changed");
    for (const struct json_node *f = json_first(files); f != NULL; f = json_next(f)) {
        auto_buf line, path;
        if (++n > FILES_TOLD)
            break;
        buf_init(&line, LINE_MAX_LEN);
        (void)buf_printf(&line, "   %s |", ask_show_word(&path, f, "path"));
        describe(&line, f);
        ask_show_say(show, "%s", buf_str(&line));
    }
    if (n > FILES_TOLD)
        ask_show_say(show, "   and %zu more", files->n - FILES_TOLD);
}

// -- the diff

int ask_change_save(struct ask_files *files, const struct json_node *diff, struct err *err)
{
    if (!json_is(diff, JSON_NODE_STRING) || diff->text_len == 0)
        return 0;
    if (ask_files_open(files, err) < 0)
        return -1;
    auto_fd fd =
        openat(files->fd, DIFF_NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return err_sys(err, errno, "make %.120s/" DIFF_NAME, files->dir);
    int r = fd_write_all(fd, diff->text, diff->text_len);
    if (r < 0)
        return err_sys(err, -r, "write %.120s/" DIFF_NAME, files->dir);
    return 1;
}

// git reads the diff from its standard input, so that no name of a file is a word of its command
// line. It applies all of it or nothing, and nothing outside of the repository.
static _Noreturn void run_git(int diff, bool tells)
{
    char git[] = "git", apply[] = "apply", verbose[] = "--verbose", dash[] = "-";
    char *argv[] = {git, apply, tells ? verbose : dash, tells ? dash : NULL, NULL};
    if (dup2(diff, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        _exit(127);
    (void)execvp(git, argv);
    _exit(127);
}

int ask_change_apply(const struct ask_files *files, bool tells, struct err *err)
{
    int status = 0;
    if (access(".git", F_OK) < 0)
        return err_set(err, ERR_CONFLICT,
                       "not applied: this is not the top directory of a git repository");
    auto_fd diff = openat(files->fd, DIFF_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (diff < 0)
        return err_sys(err, errno, "open " DIFF_NAME);
    pid_t pid = fork();
    if (pid < 0)
        return err_sys(err, errno, "start git");
    if (pid == 0)
        run_git(diff, tells);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return err_set(err, ERR_UNSUPPORTED, "not applied: there is no git here");
    return err_set(err, ERR_CONFLICT, "not applied: git has said why");
}

void ask_change_drop(const struct ask_files *files)
{
    (void)unlinkat(files->fd, DIFF_NAME, 0);
}
