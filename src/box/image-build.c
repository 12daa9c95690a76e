// SPDX-License-Identifier: Apache-2.0
// `cay image build`: mmdebstrap makes a Debian root from the mirrors that this machine's own apt
// uses. It runs in mount and pid namespaces of its own, so that whatever ends us ends it and all
// its children, and no mount of theirs is left on the machine.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "box/image-internal.h"
#include "box/image-make.h"
#include "box/tool.h"
#include "box/tree.h"
#include "box/watch.h"

#define FROM_PREFIX "debian:"
#define KEYRING     "/usr/share/keyrings/debian-archive-keyring.gpg"

enum {
    SUITE_MAX = 32,
    MIRRORS_MAX = 24,
    MIRRORS_SIZE = 16 * 1024,
    ARGS_MAX = 16 + MIRRORS_MAX,
    SETTINGS_SIZE = 4096,
};

// -- what is asked for

int image_from_check(const char *from, struct err *err)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    size_t prefix = strlen(FROM_PREFIX);
    if (strncmp(from, FROM_PREFIX, prefix) != 0)
        return err_set(err, ERR_INVALID,
                       "'%.60s' is not known: use debian:SUITE, as debian:bookworm", from);
    const char *suite = from + prefix;
    size_t len = strlen(suite);
    if (len == 0 || len > SUITE_MAX || suite[0] < 'a' || suite[0] > 'z' ||
        strspn(suite, plain) != len)
        return err_set(err, ERR_INVALID,
                       "'%.60s' is not a Debian suite: use its name in small letters, as bookworm",
                       suite);
    return 0;
}

static bool package_valid(const char *name, size_t len)
{
    // Versions (=1.2~3) and architectures (:i386) are apt's to judge; options and paths are not for
    // it.
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.:=~_";
    return len >= 2 && len <= 128 && strspn(name, plain) >= len &&
           strchr("+-.:=~_", name[0]) == NULL;
}

int image_packages_add(struct buf *packages, const char *list, struct err *err)
{
    for (const char *p = list;;) {
        p += strspn(p, ", ");
        size_t len = strcspn(p, ", ");
        if (len == 0)
            return 0;
        if (!package_valid(p, len))
            return err_set(err, ERR_INVALID, "'%.*s' cannot be a package's name",
                           (int)(len < 80 ? len : 80), p);
        (void)buf_append_char(packages, ',');
        if (buf_append(packages, p, len) < 0)
            return err_set(err, ERR_INVALID, "that is too long a list of packages");
        p += len;
    }
}

// -- what this machine's apt says

static bool is_part_of(const char *release, const char *suite)
{
    size_t len = strlen(suite);
    if (strncmp(release, suite, len) != 0)
        return false;
    const char *rest = release + len;
    return rest[0] == '\0' || strcmp(rest, "-updates") == 0 || strcmp(rest, "-security") == 0 ||
           strcmp(rest, "/updates") == 0;
}

static bool is_debian_part(const char *component, const char *origin)
{
    // The origin is known once apt has fetched its lists; before that it is the name of the
    // question.
    if (origin[0] != '\0' && origin[0] != '$' && strcmp(origin, "Debian") != 0)
        return false;
    return strcmp(component, "main") == 0 || strcmp(component, "contrib") == 0 ||
           strncmp(component, "non-free", 8) == 0;
}

// Lines for sources.list, each ended by a NUL, of what apt here knows of the suite. None when it
// knows nothing, and then mmdebstrap takes its own default. apt leaves out user names and passwords
// in $(SITE).
static unsigned find_mirrors(const char *suite, struct buf *ret)
{
    static const char *const argv[] = {"apt-get",
                                       "indextargets",
                                       "--format",
                                       "$(SITE)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)",
                                       "Created-By: Packages",
                                       NULL};
    auto_buf out;
    buf_init(&out, 256 * 1024);
    if (tool_ask(argv, &out) != 0 || out.len == 0)
        return 0;
    const char *signed_by = access(KEYRING, R_OK) == 0 ? "[signed-by=" KEYRING "] " : "";
    unsigned n = 0;
    char *rest = NULL;
    for (char *line = strtok_r(out.data, "\n", &rest); line != NULL && n < MIRRORS_MAX;
         line = strtok_r(NULL, "\n", &rest)) {
        char *fields[4] = {strsep(&line, "|"), strsep(&line, "|"), strsep(&line, "|"), line};
        if (fields[3] == NULL || strncmp(fields[0], "http", 4) != 0 ||
            strchr(fields[0], ' ') != NULL || !is_part_of(fields[1], suite) ||
            !is_debian_part(fields[2], fields[3]))
            continue;
        char entry[512];
        int len = snprintf(entry, sizeof entry, "deb %s%s %s %s", signed_by, fields[0], fields[1],
                           fields[2]);
        if (len < 0 || (size_t)len >= sizeof entry ||
            (ret->len > 0 && memmem(ret->data, ret->len, entry, (size_t)len + 1) != NULL))
            continue;
        if (buf_append(ret, entry, (size_t)len + 1) < 0)
            break;
        n++;
    }
    return n;
}

struct apt_settings {
    char http_proxy[300];
    char https_proxy[300];
    char path[64];
    bool old_lists; // accept lists past their date, as frozen mirrors need
};

// A setting as `apt-config shell` prints it: NAME='value'.
static void take_setting(const char *text, const char *name, char *ret, size_t size)
{
    const char *at = strstr(text, name);
    if (at == NULL)
        return;
    at += strlen(name);
    size_t len = strcspn(at, "'\n");
    if (len == 0 || len >= size || strncmp(at, "DIRECT", len) == 0)
        return;
    memcpy(ret, at, len);
    ret[len] = '\0';
}

static void find_settings(struct apt_settings *ret)
{
    static const char *const argv[] = {"apt-config", "shell",
                                       "HP",         "Acquire::http::Proxy",
                                       "SP",         "Acquire::https::Proxy",
                                       "CV/b",       "Acquire::Check-Valid-Until",
                                       NULL};
    *ret = (struct apt_settings){.path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
    char http[256] = "", https[256] = "", check[16] = "";
    const char *value = getenv("http_proxy");
    (void)snprintf(http, sizeof http, "%s", value != NULL ? value : "");
    value = getenv("https_proxy");
    (void)snprintf(https, sizeof https, "%s", value != NULL ? value : "");
    auto_buf out;
    buf_init(&out, SETTINGS_SIZE);
    if (tool_ask(argv, &out) == 0) {
        take_setting(buf_str(&out), "HP='", http, sizeof http);
        take_setting(buf_str(&out), "SP='", https, sizeof https);
        take_setting(buf_str(&out), "CV='", check, sizeof check);
    }
    ret->old_lists = strcmp(check, "false") == 0;
    if (http[0] != '\0')
        (void)snprintf(ret->http_proxy, sizeof ret->http_proxy, "http_proxy=%s", http);
    if (https[0] != '\0')
        (void)snprintf(ret->https_proxy, sizeof ret->https_proxy, "https_proxy=%s", https);
}

// -- mmdebstrap

struct workplace {
    int tree;         // the new root as a detached mount
    const char *path; // where it is bound
};

// apt's own user must reach the new root by its path, which the data directory does not allow: it
// is bound on a directory that every system has, in a namespace that nobody else sees.
static const char *find_place(void)
{
    static const char *const places[] = {"/mnt", "/media", "/srv"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct stat st;
        if (fstatat(AT_FDCWD, places[i], &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
            return places[i];
    }
    return "/opt";
}

static void enter_workplace(const void *arg)
{
    const struct workplace *place = arg;
    (void)umask(0022);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        tool_die("private mounts", errno);
    if (move_mount(place->tree, "", AT_FDCWD, place->path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        tool_die("bind the new root", errno);
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        tool_die("mount /proc", errno);
}

struct bootstrap_log {
    const struct image_watch *watch;
    struct line_cutter cutter;
    char reason[200]; // the first error, or the last line
    bool has_error;
};

static void take_log_line(void *arg, const char *line)
{
    struct bootstrap_log *log = arg;
    bool is_error = strncmp(line, "E: ", 3) == 0;
    if (is_error && strstr(line, "mmdebstrap failed") != NULL)
        return; // says that there was an error
    if (!log->has_error)
        memccpy(log->reason, line, '\0', sizeof log->reason - 1);
    log->has_error |= is_error;
    if (strncmp(line, "I: ", 3) == 0)
        watch_say(log->watch, "%s", line + 3);
    else if (strncmp(line, "W: ", 3) == 0)
        watch_say(log->watch, "warning: %s", line + 3);
}

// Reads until the child is done. -1 when we were stopped.
static int follow(int from, struct bootstrap_log *log, struct err *err)
{
    for (;;) {
        struct pollfd wants[] = {
            {.fd = log->watch->stop_fd, .events = POLLIN},
            {.fd = from,                .events = POLLIN},
        };
        if (poll(wants, 2, -1) < 0 && errno != EINTR)
            return err_sys(err, errno, "wait for mmdebstrap");
        if (watch_stopped(log->watch, err))
            return -1;
        char data[4096];
        ssize_t n = wants[1].revents == 0 ? -1 : read(from, data, sizeof data);
        if (n == 0)
            return 0;
        if (n > 0)
            line_cutter_feed(&log->cutter, data, (size_t)n, take_log_line, log);
        else if (wants[1].revents != 0 && errno != EINTR)
            return err_sys(err, errno, "listen to mmdebstrap");
    }
}

static int run_mmdebstrap(const char *const *argv, const char *const *envp,
                          const struct workplace *place, const struct image_watch *watch,
                          struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(err, errno, "make a pipe");
    auto_fd from = ends[0];
    auto_fd to = ends[1];
    struct tool tool = {
        .argv = argv,
        .envp = envp,
        .fds = {-1, to, to},
        .namespaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS,
        .setup = enter_workplace,
        .setup_arg = place,
    };
    int child = tool_start(&tool, err);
    if (child < 0)
        return -1;
    fd_close(TAKE_FD(to));
    struct bootstrap_log log = {.watch = watch};
    if (follow(from, &log, err) < 0) {
        tool_kill(child);
        return -1;
    }
    int status = tool_wait(child);
    if (status == TOOL_BROKEN && strncmp(log.reason, "mmdebstrap: ", 12) == 0)
        return err_set(
            err, ERR_UNSUPPORTED,
            "mmdebstrap is needed to build images and is not installed ('apt-get install mmdebstrap')");
    if (status != 0)
        return err_set(err, ERR_UNAVAILABLE, "mmdebstrap failed: %s", log.reason);
    return 0;
}

static int bootstrap(int root_fd, const char *suite, const char *packages,
                     const struct image_watch *watch, struct err *err)
{
    auto_buf mirrors;
    auto_buf include;
    buf_init(&mirrors, MIRRORS_SIZE);
    buf_init(&include, IMAGE_PACKAGES_MAX + 64);
    unsigned n_mirrors = find_mirrors(suite, &mirrors);
    struct apt_settings settings;
    find_settings(&settings);
    if (buf_printf(&include, "--include=ca-certificates%s", packages) < 0)
        return err_sys(err, ENOMEM, "list the packages");

    auto_fd tree = open_tree(root_fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0)
        return err_sys(err, errno, "set up a place to build in");
    struct workplace place = {.tree = tree, .path = find_place()};
    const char *argv[ARGS_MAX] = {"mmdebstrap", "--mode=root", "--variant=minbase",
                                  "--format=directory", buf_str(&include)};
    unsigned n = 5;
    if (settings.old_lists)
        argv[n++] = "--aptopt=Acquire::Check-Valid-Until \"false\"";
    argv[n++] = "--";
    argv[n++] = suite;
    argv[n++] = place.path;
    const char *mirror = buf_str(&mirrors);
    for (unsigned i = 0; i < n_mirrors; i++, mirror += strlen(mirror) + 1)
        argv[n++] = mirror;

    const char *envp[8] = {settings.path, "LC_ALL=C.UTF-8", "HOME=/root",
                           "DEBIAN_FRONTEND=noninteractive"};
    unsigned n_env = 4;
    if (settings.http_proxy[0] != '\0')
        envp[n_env++] = settings.http_proxy;
    if (settings.https_proxy[0] != '\0')
        envp[n_env++] = settings.https_proxy;
    watch_say(watch, "bootstrapping Debian %s from %s", suite,
              n_mirrors > 0 ? "this machine's mirrors" : "the default mirror");
    return run_mmdebstrap(argv, envp, &place, watch, err);
}

int image_build(int data_fd, const char *name, const char *from, const char *packages,
                const struct image_watch *watch, struct err *err)
{
    if (image_name_check(name, err) < 0 || image_from_check(from, err) < 0)
        return -1;
    struct image_draft draft = IMAGE_DRAFT_NONE;
    if (image_draft_begin(data_fd, name, &draft, err) < 0)
        return -1;
    struct tree_survey survey;
    int r = bootstrap(draft.root_fd, from + strlen(FROM_PREFIX), packages, watch, err);
    if (r == 0)
        r = image_prepare(draft.root_fd, err);
    if (r == 0 && watch_stopped(watch, err))
        r = -1;
    if (r == 0)
        r = image_draft_commit(&draft, from, &survey, err);
    image_draft_done(&draft);
    if (r == 0)
        watch_say(watch, "image '%s': %llu entries, %llu MiB", name,
                  (unsigned long long)survey.entries, (unsigned long long)(survey.bytes >> 20));
    return r;
}
