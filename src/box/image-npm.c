// SPDX-License-Identifier: Apache-2.0
// One file out of a package of npm. This machine's own npm fetches the archive, by the settings
// that it has here, into a directory beside the new root; what came is believed only when its sum
// is the one that the recipe has; it is unpacked where hostile archives are (image-import.c); and
// the file is moved to its place. Nothing of the archive is kept in memory.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/sha512.h"
#include "base/text.h"
#include "box/image-internal.h"
#include "box/image-steps.h"
#include "box/tool.h"
#include "box/tree.h"
#include "box/watch.h"

#define FETCH_DIR  "npm"      // beside the root
#define UNPACK_DIR "unpacked" // in it
#define ARCHIVE    ".tgz"
#define TOP_DIR    "package/" // of every archive of npm

enum { CHUNK = 256 * 1024, SUM_TEXT = 96 };

// -- fetching

struct npm_log {
    char reason[200]; // its first complaint that says something
    bool no_registry;
};

static bool begins(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

static void take_line(void *arg, const char *line)
{
    static const char *const network[] = {"ENOTFOUND", "EAI_AGAIN",  "ECONNREFUSED",
                                          "ETIMEDOUT", "ECONNRESET", "ENETUNREACH"};
    struct npm_log *log = arg;
    bool is_error = begins(line, "npm error ") || begins(line, "npm ERR! ");
    for (size_t i = 0; is_error && i < sizeof network / sizeof *network; i++)
        log->no_registry |= strstr(line, network[i]) != NULL;
    // Its first line has only a code, and older ones begin with lines for themselves.
    if (log->reason[0] != '\0' || begins(line + (is_error ? 10 : 0), "code ") ||
        begins(line, "npm warn ") || begins(line, "npm WARN "))
        return;
    if (is_error || begins(line, "npm: "))
        (void)snprintf(log->reason, sizeof log->reason, "%s", line);
}

static int explain(const struct recipe_step *step, int status, const struct npm_log *log,
                   struct err *err)
{
    if (status == TOOL_BROKEN && begins(log->reason, "npm: "))
        return err_set(err, ERR_UNSUPPORTED,
                       "npm is needed to fetch %.60s and is not installed ('apt-get install npm')",
                       step->text);
    if (log->no_registry)
        return err_set(
            err, ERR_UNAVAILABLE,
            "npm reached no registry to fetch %.60s from. What it uses are the settings of this "
            "machine: make 'npm view %.60s' work",
            step->text, step->text);
    return err_set(err, ERR_UNAVAILABLE, "npm could not fetch %.60s: %.120s", step->text,
                   log->reason[0] != '\0' ? log->reason : "it did not say why");
}

static int fetch(const struct image_work *work, const struct recipe_step *step, int dir_fd,
                 struct err *err)
{
    // What is in npm's cache need not be asked for: the sum is looked at either way.
    const char *argv[] = {"npm",
                          "pack",
                          "--prefer-offline",
                          "--ignore-scripts",
                          "--no-update-notifier",
                          "--loglevel=error",
                          "--",
                          step->text,
                          NULL};
    struct npm_log log = {.no_registry = false};
    struct step run = {
        .argv = argv,
        .envp = (const char *const *)environ, // its settings may stand there
        .at_place = true,
        .each = take_line,
        .arg = &log,
    };
    watch_say(work->watch, "fetching %s with npm", step->text);
    int status = step_run(&run, dir_fd, work->watch, err);
    return status > 0 ? explain(step, status, &log, err) : status;
}

// -- what came

// The one archive in the directory, opened; -errno.
static int open_archive(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        fd_close(fd);
        return -EIO;
    }
    int found = -ENOENT;
    for (const struct dirent *entry; found < 0 && (entry = readdir(dir)) != NULL;) {
        size_t len = strlen(entry->d_name), ending = strlen(ARCHIVE);
        if (len > ending && strcmp(entry->d_name + len - ending, ARCHIVE) == 0)
            found = tree_open_file(dir_fd, entry->d_name);
    }
    (void)closedir(dir);
    return found;
}

static int sum_archive(int fd, const struct image_watch *watch, char ret[SUM_TEXT], struct err *err)
{
    auto_free char *data = malloc(CHUNK);
    struct sha512 sha;
    ssize_t n;
    if (data == NULL)
        return err_sys(err, ENOMEM, "read what npm has fetched");
    sha512_init(&sha);
    while ((n = fd_read_all(fd, data, CHUNK)) > 0) {
        sha512_add(&sha, data, (size_t)n);
        if (watch_stopped(watch, err))
            return -1;
    }
    if (n < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(err, n < 0 ? (int)-n : errno, "read what npm has fetched");
    uint8_t sum[SHA512_SIZE];
    sha512_end(&sha, sum);
    auto_buf text;
    buf_init(&text, SUM_TEXT);
    (void)base64_append(&text, sum, sizeof sum);
    (void)snprintf(ret, SUM_TEXT, "%s", buf_str(&text));
    return 0;
}

static int check_sum(int fd, const struct recipe_step *step, const struct image_watch *watch,
                     struct err *err)
{
    char sum[SUM_TEXT];
    if (sum_archive(fd, watch, sum, err) < 0)
        return -1;
    if (strcmp(sum, step->sum) == 0)
        return 0;
    return err_set(err, ERR_INVALID,
                   "%.60s is not what the recipe was written for: its sum is sha512-%.12s..., not "
                   "sha512-%.12s...",
                   step->text, sum, step->sum);
}

// -- to its place

// The directory above `path` below dirfd, through no link; its last part in *ret_name. -errno.
static int open_parent(int dirfd, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    char parent[2 * RECIPE_PATH_MAX];
    *ret_name = slash == NULL ? path : slash + 1;
    (void)snprintf(parent, sizeof parent, "%.*s", slash == NULL ? 1 : (int)(slash - path),
                   slash == NULL ? "." : path);
    return tree_open_dir(dirfd, parent);
}

static int own(int dir_fd, const char *name)
{
    auto_fd fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 || fchown(fd, 0, 0) < 0 || fchmod(fd, 0755) < 0 ? -errno : 0;
}

// A regular file, whatever the archive says that it is.
static int find_member(int unpacked, const struct recipe_step *step, const char **ret_name,
                       struct stat *ret)
{
    char member[RECIPE_PATH_MAX + sizeof TOP_DIR];
    (void)snprintf(member, sizeof member, TOP_DIR "%s", step->member);
    const char *name;
    auto_fd parent = open_parent(unpacked, member, &name);
    if (parent < 0 || fstatat(parent, name, ret, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(ret->st_mode))
        return -1;
    *ret_name = step->member + (strlen(step->member) - strlen(name));
    return TAKE_FD(parent);
}

static int move(int from_fd, const char *from_name, int root_fd, const char *path)
{
    const char *name;
    int r = tree_mkparents(root_fd, path);
    auto_fd to = r < 0 ? r : open_parent(root_fd, path, &name);
    if (to < 0)
        return to;
    r = own(from_fd, from_name);
    return r == 0 && renameat(from_fd, from_name, to, name) < 0 ? -errno : r;
}

static int unpack(const struct image_work *work, const struct recipe_step *step, int dir_fd,
                  int archive, struct err *err)
{
    static const struct import_limits limits = {.bytes = IMPORT_BYTES_MAX,
                                                .entries = IMPORT_ENTRIES_MAX};
    int r = tree_mkdir(dir_fd, UNPACK_DIR, 0700, 0);
    auto_fd unpacked = r < 0 ? r : tree_open_dir(dir_fd, UNPACK_DIR);
    if (unpacked < 0)
        return err_sys(err, -unpacked, "make a place for what npm has fetched");
    if (archive_unpack(archive, unpacked, &limits, work->watch, err) < 0)
        return err_wrap(err, "%.60s", step->text);
    const char *name;
    struct stat st;
    auto_fd parent = find_member(unpacked, step, &name, &st);
    if (parent < 0)
        return err_set(err, ERR_INVALID, "%.60s has no file '%.80s'", step->text, step->member);
    r = move(parent, name, work->root_fd, step->path);
    if (r < 0)
        return image_step_failed(step, r, err);
    watch_say(work->watch, "/%s: %llu MiB", step->path, (unsigned long long)st.st_size >> 20);
    return 0;
}

int image_take_npm(const struct image_work *work, const struct recipe_step *step, struct err *err)
{
    int r = tree_mkdir(work->beside_fd, FETCH_DIR, 0700, 0);
    auto_fd dir = r < 0 ? r : tree_open_dir(work->beside_fd, FETCH_DIR);
    if (dir < 0)
        return err_sys(err, -dir, "make a place for what npm fetches");
    if (fetch(work, step, dir, err) < 0)
        return -1;
    auto_fd archive = open_archive(dir);
    if (archive < 0)
        return err_set(err, ERR_UNAVAILABLE, "npm has fetched %.60s and left no archive",
                       step->text);
    if (check_sum(archive, step, work->watch, err) < 0 || unpack(work, step, dir, archive, err) < 0)
        return -1;
    r = tree_remove(work->beside_fd, FETCH_DIR);
    return r < 0 ? err_sys(err, -r, "remove what npm has fetched") : 0;
}
