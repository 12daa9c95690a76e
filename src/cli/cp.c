// SPDX-License-Identifier: Apache-2.0
// `cay cp SRC DST`: files, and with -r directories, into a sandbox and out of it. Directories go as
// tar archives, which this machine's tar makes and unpacks.
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "cli/copy.h"

enum cp_flag { FLAG_RECURSIVE };

static const struct opt opts[] = {
    {"recursive", 'r', NULL, "directories: what is in SRC is put into DST", NULL},
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay cp [-r] SRC DST",
    .summary =
        "Copies a file into a sandbox or out of it: one of SRC and DST is ID:/path, the other a path\n"
        "here, or - for standard input or output. A DST that is a directory gets a file of the same\n"
        "name. A copy that fails leaves what was there.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more = "Examples:\n"
            "  cay cp data.csv build:/workspace/data.csv\n"
            "  cay cp build:/workspace/result.json .\n"
            "  cay cp -r src build:/workspace/src",
};

struct cp {
    struct remote *remote;
    bool recursive;
    const char *local;
    struct file_place place;
};

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    bool *recursive = data;
    (void)flag;
    (void)value;
    (void)err;
    *recursive = true;
    return 0;
}

static bool is_dash(const char *path)
{
    return strcmp(path, "-") == 0;
}

// -- tar

// What comes out of a sandbox is a stranger's: no owner, no setuid bit and no device of its choice
// is made here, also when root unpacks it. tar itself keeps names and links below its directory.
static _Noreturn void be_tar(const char *dir, bool unpack, int fd)
{
    const char *const pack_args[] = {"tar", "-C", dir, "-cf", "-", ".", NULL};
    const char *const unpack_args[] = {"tar", "-C", dir, "--no-same-owner", "--no-same-permissions",
                                       "-xf", "-",  NULL};
    (void)dup2(fd, unpack ? STDIN_FILENO : STDOUT_FILENO);
    (void)prctl(PR_CAPBSET_DROP, CAP_MKNOD, 0, 0, 0);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)signal(SIGPIPE, SIG_DFL);
    char *args[8] = {NULL};
    for (size_t i = 0; i < 7 && (unpack ? unpack_args : pack_args)[i] != NULL; i++)
        args[i] = strdup((unpack ? unpack_args : pack_args)[i]);
    (void)execvp("tar", args);
    (void)fprintf(stderr, "cay: cannot run tar, which directories need\n");
    _exit(127);
}

// Its end of a pipe, and its pid.
static int start_tar(const char *dir, bool unpack, pid_t *ret_pid, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(err, errno, "make a pipe");
    auto_fd ours = ends[unpack ? 1 : 0];
    auto_fd theirs = ends[unpack ? 0 : 1];
    pid_t pid = fork();
    if (pid == 0)
        be_tar(dir, unpack, theirs);
    if (pid < 0)
        return err_sys(err, errno, "start tar");
    *ret_pid = pid;
    return TAKE_FD(ours);
}

static int end_tar(pid_t pid, struct err *err)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status == 0 ? 0 : err_set(err, ERR_INTERNAL, "tar failed");
}

static void archive_target(const struct cp *cp, const char *path, struct buf *target)
{
    remote_target(target, "sandbox", cp->place.id, "archive");
    remote_query(target, "path", path);
}

// "/a/b/" names the same directory as "/a/b".
static char *without_slash(const char *path)
{
    char *copy = strdup(path);
    if (copy == NULL)
        abort();
    for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--)
        copy[n - 1] = '\0';
    return copy;
}

static int put_tree(const struct cp *cp, struct answer *answer, struct err *err)
{
    struct stat st;
    pid_t pid = -1;
    if (stat(cp->local, &st) < 0)
        return err_sys(err, errno, "open '%s'", cp->local);
    if (!S_ISDIR(st.st_mode))
        return err_set(err, ERR_INVALID, "'%s' is not a directory: copy it without -r", cp->local);
    auto_buf target;
    char *path = without_slash(cp->place.path);
    buf_init(&target, REMOTE_TARGET_MAX);
    archive_target(cp, path, &target);
    free(path);
    auto_fd fd = start_tar(cp->local, /*unpack=*/false, &pid, err);
    if (fd < 0)
        return -1;
    const struct upload upload = {
        .target = buf_str(&target),
        .type = "application/x-tar",
        .fd = fd,
        .progress = !cp->remote->json,
    };
    struct err tar_err;
    int r = copy_upload(cp->remote, &upload, answer, err);
    fd_close(TAKE_FD(fd));
    int tar = end_tar(pid, &tar_err);
    if (r == 0 && tar < 0) { // what there was of it is unpacked
        *err = tar_err;
        return -1;
    }
    return r;
}

static int64_t get_tree(const struct cp *cp, struct err *err)
{
    pid_t pid = -1;
    auto_buf target;
    char *path = without_slash(cp->place.path);
    buf_init(&target, REMOTE_TARGET_MAX);
    archive_target(cp, path, &target);
    free(path);
    if (mkdir(cp->local, 0777) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make the directory '%s'", cp->local);
    auto_fd fd = start_tar(cp->local, /*unpack=*/true, &pid, err);
    if (fd < 0)
        return -1;
    (void)signal(SIGPIPE, SIG_IGN);
    struct err tar_err;
    int64_t n = copy_download(cp->remote, buf_str(&target), fd, !cp->remote->json, err);
    fd_close(TAKE_FD(fd));
    if (end_tar(pid, &tar_err) < 0 && n >= 0) {
        *err = tar_err;
        return -1;
    }
    return n;
}

// -- one file

static int put_to(const struct cp *cp, const char *path, int fd, const struct stat *st,
                  struct answer *answer, struct err *err)
{
    char mode[8];
    auto_buf target;
    buf_init(&target, REMOTE_TARGET_MAX);
    file_target(&target, cp->place.id, path);
    if (S_ISREG(st->st_mode)) {
        (void)snprintf(mode, sizeof mode, "%04o", (unsigned)st->st_mode & 0777);
        remote_query(&target, "mode", mode);
    }
    const struct upload upload = {
        .target = buf_str(&target),
        .type = "application/octet-stream",
        .fd = fd,
        .progress = !cp->remote->json,
    };
    return copy_upload(cp->remote, &upload, answer, err);
}

// The path in the sandbox with the file's own name behind it.
static void path_inside(const struct cp *cp, struct buf *ret)
{
    const char *path = cp->place.path;
    size_t n = strlen(path);
    (void)buf_append_str(ret, path);
    if (path[n - 1] != '/')
        (void)buf_append_char(ret, '/');
    (void)buf_append_str(ret, file_name(cp->local));
}

static int put_file(const struct cp *cp, struct answer *answer, struct err *err)
{
    struct stat st = {0};
    auto_fd file = is_dash(cp->local) ? -1 : open(cp->local, O_RDONLY | O_CLOEXEC);
    if (!is_dash(cp->local) && (file < 0 || fstat(file, &st) < 0))
        return err_sys(err, errno, "open '%s'", cp->local);
    if (S_ISDIR(st.st_mode))
        return err_set(err, ERR_INVALID, "'%s' is a directory: copy it with -r", cp->local);
    auto_buf inside;
    buf_init(&inside, REMOTE_TARGET_MAX);
    path_inside(cp, &inside);
    bool named = cp->place.path[strlen(cp->place.path) - 1] != '/';
    int fd = file >= 0 ? file : STDIN_FILENO;
    int r = put_to(cp, named || is_dash(cp->local) ? cp->place.path : buf_str(&inside), fd, &st,
                   answer, err);
    // A directory is there: the file goes into it.
    if (r < 0 && named && strcmp(cp->remote->error_code, "IS_DIRECTORY") == 0 && file >= 0 &&
        lseek(file, 0, SEEK_SET) == 0)
        r = put_to(cp, buf_str(&inside), file, &st, answer, err);
    return r;
}

// Beside its name until all of it is there.
static int64_t get_to(const struct cp *cp, const char *target, const char *path, struct err *err)
{
    char temp[4200];
    (void)snprintf(temp, sizeof temp, "%s.cay-XXXXXX", path);
    auto_fd fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "make a file beside '%s'", path);
    mode_t mask = umask(0);
    (void)umask(mask);
    int64_t n = copy_download(cp->remote, target, fd, !cp->remote->json, err);
    if (n >= 0 && (fchmod(fd, 0666 & ~mask) < 0 || rename(temp, path) < 0))
        n = err_sys(err, errno, "put '%s' in its place", path);
    if (n < 0)
        (void)unlink(temp);
    return n;
}

static int64_t get_file(const struct cp *cp, struct err *err)
{
    struct stat st;
    auto_buf target, path;
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&path, 4096);
    file_target(&target, cp->place.id, cp->place.path);
    if (is_dash(cp->local))
        return copy_download(cp->remote, buf_str(&target), STDOUT_FILENO, false, err);
    (void)buf_append_str(&path, cp->local);
    bool is_dir = stat(cp->local, &st) == 0 && S_ISDIR(st.st_mode);
    if (is_dir)
        (void)buf_printf(&path, "/%s", file_name(cp->place.path));
    if (path.failed != 0)
        return err_set(err, ERR_INVALID, "'%.100s...' is too long", cp->local);
    if (!is_dir && stat(cp->local, &st) == 0 && !S_ISREG(st.st_mode)) { // /dev/null, a pipe
        auto_fd fd = open(cp->local, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            return err_sys(err, errno, "open '%s'", cp->local);
        return copy_download(cp->remote, buf_str(&target), fd, !cp->remote->json, err);
    }
    return get_to(cp, buf_str(&target), buf_str(&path), err);
}

// -- the command

static int copy_in(const struct cp *cp)
{
    struct err err = {0};
    auto_answer answer;
    answer_init(&answer);
    int r = cp->recursive ? put_tree(cp, &answer, &err) : put_file(cp, &answer, &err);
    if (r < 0)
        return remote_fail(cp->remote, &err);
    return cp->remote->json ? remote_print(cp->remote, &answer) : CLI_OK;
}

static int copy_out(const struct cp *cp)
{
    struct err err = {0};
    struct json j;
    auto_buf text;
    int64_t n = cp->recursive ? get_tree(cp, &err) : get_file(cp, &err);
    if (n < 0)
        return remote_fail(cp->remote, &err);
    if (!cp->remote->json || is_dash(cp->local))
        return CLI_OK;
    buf_init(&text, 64 * 1024);
    json_init(&j, &text);
    json_open_object(&j);
    json_key(&j, "success");
    json_put_bool(&j, true);
    json_key(&j, "path");
    json_put_str(&j, cp->local);
    json_key(&j, "bytes");
    json_put_int(&j, n);
    json_close_object(&j);
    (void)puts(buf_str(&text));
    return remote_flush(cp->remote);
}

int cmd_cp(int argc, char **argv)
{
    int code;
    bool recursive = false;
    struct err err = {0};
    auto_remote remote;
    const struct command_line line = {"cp", &spec, take_flag, &recursive, 2, 2, "SRC and DST"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    bool in = file_place_is(remote.word[1]);
    if (in == file_place_is(remote.word[0]))
        return remote_usage(&remote, "one of SRC and DST is ID:/path, the other a path here");
    struct cp cp = {.remote = &remote, .recursive = recursive, .local = remote.word[in ? 0 : 1]};
    if (file_place_read(&cp.place, remote.word[in ? 1 : 0], &err) < 0)
        return remote_usage(&remote, err.msg);
    if (recursive && is_dash(cp.local))
        return remote_usage(&remote, "-r and '-' do not go together");
    return in ? copy_in(&cp) : copy_out(&cp);
}
