// SPDX-License-Identifier: Apache-2.0
// The files that the code has written, fetched from its sandbox. Their names are a stranger's: each
// is looked at a part at a time, put below one directory, through no link, and over nothing that is
// there. What they hold is bounded.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/ask.h"
#include "cli/copy.h"
#include "cli/signals.h"

enum {
    FILES_MAX = 1000,
    FILES_TOLD = 20, // by name
    NAMES_MAX = 100, // tried for the directory
    PATH_LEN_MAX = 1024,
    PART_LEN_MAX = 255,
};
#define BYTES_MAX (UINT64_C(1) << 30) // of all of them

#define HOME "/workspace/"

void ask_files_init(struct ask_files *files, struct remote *remote, const char *output)
{
    *files = (struct ask_files){.remote = remote, .output = output, .fd = -1};
}

void ask_files_done(struct ask_files *files)
{
    if (files->fd >= 0 && files->is_ours)
        (void)rmdir(files->dir); // fails where something is in it, as it shall
    fd_close(files->fd);
    files->fd = -1;
}

// -- the directory

static int open_dir(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

// What was named may be there, and may be a link: it is the user's own word.
static int open_output(struct ask_files *files, struct err *err)
{
    if (snprintf(files->dir, sizeof files->dir, "%s", files->output) >= (int)sizeof files->dir)
        return err_set(err, ERR_INVALID, "the name of the directory is too long");
    files->is_ours = mkdir(files->dir, 0777) == 0;
    if (!files->is_ours && errno != EEXIST)
        return err_sys(err, errno, "make the directory '%s'", files->dir);
    files->fd = open(files->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return files->fd < 0 ? err_sys(err, errno, "open the directory '%s'", files->dir) : 0;
}

static int make_dir(struct ask_files *files, const char *stamp, struct err *err)
{
    int r = -EEXIST;
    for (unsigned i = 1; i <= NAMES_MAX && r == -EEXIST; i++) {
        (void)snprintf(files->dir, sizeof files->dir, i == 1 ? "cay-%s" : "cay-%s-%u", stamp, i);
        r = mkdir(files->dir, 0777) < 0 ? -errno : 0;
    }
    files->is_ours = r == 0;
    files->fd = r < 0 ? r : open_dir(AT_FDCWD, files->dir);
    return files->fd < 0 ? err_sys(err, -files->fd, "make the directory '%s'", files->dir) : 0;
}

int ask_files_open(struct ask_files *files, struct err *err)
{
    char stamp[32];
    struct tm parts;
    time_t now = time(NULL);
    if (files->fd >= 0)
        return 0;
    if (files->output != NULL)
        return open_output(files, err);
    if (localtime_r(&now, &parts) == NULL ||
        strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &parts) == 0)
        return err_set(err, ERR_INTERNAL, "this machine's clock is unreadable");
    return make_dir(files, stamp, err);
}

// -- one file

// Below the directory it has the path that it has below /workspace, or else below /.
static const char *local_path(const struct json_node *node)
{
    const char *path = json_text(node);
    if (path == NULL || strlen(path) != node->text_len || node->text_len > PATH_LEN_MAX ||
        path[0] != '/')
        return NULL;
    path += strncmp(path, HOME, sizeof HOME - 1) == 0 ? sizeof HOME - 1 : 1;
    for (const char *at = path;;) {
        size_t n = strcspn(at, "/");
        if (n == 0 || n > PART_LEN_MAX || (n == 1 && at[0] == '.') ||
            (n == 2 && at[0] == '.' && at[1] == '.'))
            return NULL;
        if (at[n] == '\0')
            return path;
        at += n + 1;
    }
}

// The directory that it goes to, with those on the way made; *ret_name is its last part.
static int open_parents(int top, const char *path, const char **ret_name)
{
    auto_fd dir = fcntl(top, F_DUPFD_CLOEXEC, 3);
    if (dir < 0)
        return -errno;
    for (;;) {
        char part[PART_LEN_MAX + 1];
        size_t n = strcspn(path, "/");
        if (path[n] == '\0') {
            *ret_name = path;
            return TAKE_FD(dir);
        }
        (void)snprintf(part, sizeof part, "%.*s", (int)n, path);
        if (mkdirat(dir, part, 0777) < 0 && errno != EEXIST)
            return -errno;
        int next = open_dir(dir, part);
        if (next < 0)
            return next;
        fd_close(dir);
        dir = next;
        path += n + 1;
    }
}

struct sink {
    int fd;
    uint64_t *bytes; // of all files
};

static int write_bytes(void *data, const void *bytes, size_t len, struct err *err)
{
    struct sink *sink = data;
    if (len > BYTES_MAX - *sink->bytes)
        return err_set(err, ERR_EXHAUSTED, "more than 1 GiB in all");
    *sink->bytes += len;
    int r = fd_write_all(sink->fd, bytes, len);
    return r < 0 ? err_sys(err, -r, "write it") : 0;
}

static int on_wake(void *data, struct err *err)
{
    bool *stopped = data;
    if (signals_take() == 0)
        return 0;
    *stopped = true;
    return err_set(err, ERR_CONFLICT, "interrupted");
}

static int fetch(struct ask_files *files, const char *target, int fd, bool *stopped,
                 struct err *err)
{
    enum http_broken broken;
    struct sink sink = {.fd = fd, .bytes = &files->bytes};
    const struct http_call call = {
        .method = "GET",
        .target = target,
        .accept = "*/*",
        .wake_fd = signals_fd(),
        .on_wake = on_wake,
        .wake_data = stopped,
    };
    return remote_stream(files->remote, &call, write_bytes, &sink, &broken, err);
}

static int save_one(struct ask_files *files, const char *sandbox, const char *path,
                    const char *local, bool *stopped, struct err *err)
{
    const char *name;
    auto_buf target;
    buf_init(&target, REMOTE_TARGET_MAX);
    file_target(&target, sandbox, path);
    if (target.failed != 0)
        return err_set(err, ERR_INVALID, "its name is too long");
    auto_fd dir = open_parents(files->fd, local, &name);
    if (dir < 0)
        return err_sys(err, -dir, "make its directory");
    auto_fd fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return err_sys(err, errno, "make it here");
    if (fetch(files, buf_str(&target), fd, stopped, err) < 0) {
        (void)unlinkat(dir, name, 0); // half of one is worse than none
        return -1;
    }
    return 0;
}

// -- all of them

static void say(struct buf *buf, const char *path)
{
    buf_reset(buf);
    (void)text_plain(buf, path, strlen(path));
}

static void say_saved(const struct ask_files *files, const char *local, uint64_t bytes,
                      struct buf *text)
{
    char size[24];
    if (files->saved > FILES_TOLD)
        return;
    say(text, files->dir);
    (void)buf_append_char(text, '/');
    (void)text_plain(text, local, strlen(local));
    (void)fprintf(stderr, "cay: saved %s (%s)\n", buf_str(text),
                  text_size(size, sizeof size, bytes));
}

// 0, or -1 when nothing more shall be done.
static int save_node(struct ask_files *files, const char *sandbox, const struct json_node *file)
{
    struct err err;
    bool stopped = false;
    uint64_t before = files->bytes;
    const struct json_node *path = json_get(file, "path");
    const char *local = local_path(path);
    auto_buf text;
    buf_init(&text, 8 * (size_t)PATH_LEN_MAX + sizeof files->dir);
    if (local == NULL) {
        (void)remote_text(&text, file, "path");
        (void)fprintf(stderr, "cay: not saved, for its name: '%s'\n", buf_str(&text));
        return 0;
    }
    if (ask_files_open(files, &err) < 0) {
        (void)remote_fail(files->remote, &err);
        return -1;
    }
    if (save_one(files, sandbox, json_text(path), local, &stopped, &err) == 0) {
        files->saved++;
        say_saved(files, local, files->bytes - before, &text);
        return 0;
    }
    (void)err_wrap(&err, "not saved: %.120s", local);
    (void)remote_fail(files->remote, &err);
    return stopped ? -1 : 0;
}

int ask_files_save(struct ask_files *files, const char *sandbox, const struct json_node *list)
{
    unsigned n = 0;
    if (sandbox == NULL || sandbox[0] == '\0')
        return 0;
    for (const struct json_node *f = json_first(list); f != NULL; f = json_next(f)) {
        if (n++ == FILES_MAX) {
            (void)fprintf(stderr, "cay: more than %d files: 'cay cp -r' fetches the others\n",
                          FILES_MAX);
            break;
        }
        if (save_node(files, sandbox, f) < 0)
            return -1;
    }
    if (files->saved > FILES_TOLD)
        (void)fprintf(stderr, "cay: and %u more\n", files->saved - FILES_TOLD);
    return 0;
}
