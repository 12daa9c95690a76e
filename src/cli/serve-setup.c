// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "box/image.h"
#include "cli/serve.h"
#include "keeper/keeper.h"
#include "wire/spawner-msg.h"

// --- one server for a data directory ---

static int is_served(int fd, const char *data, struct err *err)
{
    struct keeper_status status;
    if (keeper_status_read(fd, &status) < 0)
        return err_set(err, ERR_CONFLICT, "another cay serve uses the data directory '%s'", data);
    return err_set(err, ERR_CONFLICT,
                   "another cay serve (process %d) uses the data directory '%s': end it, or choose "
                   "another with --data",
                   status.pid, data);
}

// What a server that was killed had started to work on disks ends with it, but not always at once,
// and holds the lock that long.
static int lock_pid_file(int fd)
{
    enum { TRIES = 1000, TRY_MS = 10 };
    struct keeper_status status;
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        if (errno != EWOULDBLOCK || i == TRIES)
            return -1;
        if (keeper_status_read(fd, &status) < 0 || kill(status.pid, 0) == 0 || errno != ESRCH) {
            errno = EWOULDBLOCK;
            return -1;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = TRY_MS * 1000000}, NULL);
    }
    return 0;
}

int setup_pid_file(int data_fd, const char *data, struct err *err)
{
    auto_fd fd = openat(data_fd, "cay.pid", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return err_sys(err, errno, "make '%s/cay.pid'", data);
    if (lock_pid_file(fd) < 0)
        return errno == EWOULDBLOCK ? is_served(fd, data, err)
                                    : err_sys(err, errno, "lock cay.pid");
    return TAKE_FD(fd);
}

// --- the image, and what is loaded ahead ---

int setup_image(int data_fd, const struct conf *conf, struct err *err)
{
    struct image image;
    if (strlen(conf->preload) >= ZYGOTE_PRELOAD_MAX) // else the last name would be cut
        return err_set(err, ERR_INVALID, "preload: at most %d characters", ZYGOTE_PRELOAD_MAX - 1);
    if (strcmp(conf->image, IMAGE_HOST) == 0)
        return 0; // made when it is wanted
    if (image_open(data_fd, conf->image, &image, err) < 0)
        return err_wrap(err, "image");
    image_done(&image);
    return 0;
}

// --- whom the daemon runs as ---

enum {
    UID_FIRST = 61184,
    UID_LAST = 65519
}; // what systemd, too, hands out to nobody in particular

// Read from the file, not asked of the C library's modules: this program is static.
static bool find_user(const char *name, uid_t uid, struct serve_ids *ret)
{
    bool found = false;
    FILE *f = fopen("/etc/passwd", "re");
    for (struct passwd *p; f != NULL && !found && (p = fgetpwent(f)) != NULL;) {
        found = name != NULL ? strcmp(p->pw_name, name) == 0 : p->pw_uid == uid;
        if (found)
            *ret = (struct serve_ids){.uid = p->pw_uid, .gid = p->pw_gid};
    }
    if (f != NULL)
        (void)fclose(f);
    return found;
}

static bool find_group(const char *name, gid_t gid, gid_t *ret)
{
    bool found = false;
    FILE *f = fopen("/etc/group", "re");
    for (struct group *g; f != NULL && !found && (g = fgetgrent(f)) != NULL;) {
        found = name != NULL ? strcmp(g->gr_name, name) == 0 : g->gr_gid == gid;
        if (found)
            *ret = g->gr_gid;
    }
    if (f != NULL)
        (void)fclose(f);
    return found;
}

// Not the same for all data directories of a machine: their daemons shall not reach each other.
static int choose_uid(struct serve_ids *ret, struct err *err)
{
    struct serve_ids somebody;
    gid_t some_group;
    for (int tries = 0; tries < 1000; tries++) {
        uint32_t random;
        if (getrandom(&random, sizeof random, 0) != sizeof random)
            return err_sys(err, errno, "getrandom");
        uid_t uid = UID_FIRST + random % (UID_LAST - UID_FIRST + 1);
        if (!find_user(NULL, uid, &somebody) && !find_group(NULL, uid, &some_group)) {
            *ret = (struct serve_ids){.uid = uid, .gid = uid};
            return 0;
        }
    }
    return err_set(err, ERR_EXHAUSTED, "user: all ids from %d to %d have an owner", UID_FIRST,
                   UID_LAST);
}

static int check_owner(const struct conf *conf, const struct stat *st, const struct serve_ids *ids,
                       struct err *err)
{
    if (st->st_uid == ids->uid && S_ISDIR(st->st_mode))
        return 0;
    return err_set(
        err, ERR_CONFLICT,
        "user: '%.80s/daemon' belongs to id %u, but the server would run as %u: chown -R "
        "%u:%u it",
        conf->data, st->st_uid, ids->uid, ids->uid, ids->gid);
}

// The user of that name; else, whoever has the directory already; else an id nobody has.
static int find_ids(int data_fd, const struct conf *conf, struct serve_ids *ret, bool *ret_exists,
                    struct err *err)
{
    struct stat st;
    bool named = find_user(conf->user, 0, ret);
    *ret_exists = fstatat(data_fd, "daemon", &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (named && (ret->uid == 0 || ret->gid == 0))
        return err_set(err, ERR_DENIED, "user: the server does not run as root ('%.40s')",
                       conf->user);
    if (!named && *ret_exists && st.st_uid >= UID_FIRST && st.st_uid <= UID_LAST)
        *ret = (struct serve_ids){.uid = st.st_uid, .gid = st.st_gid};
    else if (!named && choose_uid(ret, err) < 0)
        return -1;
    return *ret_exists ? check_owner(conf, &st, ret, err) : 0;
}

// Made under another name: a crash in between leaves none that belongs to root.
static int make_daemon_dir(int data_fd, const struct serve_ids *ids, struct err *err)
{
    static const char name[] = "daemon.new";
    (void)unlinkat(data_fd, name, AT_REMOVEDIR);
    if (mkdirat(data_fd, name, 0700) < 0 ||
        fchownat(data_fd, name, ids->uid, ids->gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        renameat(data_fd, name, data_fd, "daemon") < 0)
        return err_sys(err, errno, "make the server's directory in the data directory");
    return 0;
}

static bool may_pass(const struct stat *st, const struct serve_ids *ids)
{
    mode_t bit = st->st_uid == ids->uid ? S_IXUSR : st->st_gid == ids->gid ? S_IXGRP : S_IXOTH;
    return (st->st_mode & bit) != 0;
}

// The daemon has to get to its directory: better said now than by a daemon that fails ten times.
int setup_check_way(const char *setting, const char *to, const struct serve_ids *ids,
                    struct err *err)
{
    auto_free char *path = strdup(to);
    struct stat st;
    if (path == NULL)
        return err_sys(err, ENOMEM, "%s", setting);
    for (char *slash = path + strlen(path); slash != NULL; slash = strrchr(path, '/')) {
        *slash = '\0';
        const char *dir = *path != '\0' ? path : "/";
        if (stat(dir, &st) == 0 && !may_pass(&st, ids))
            return err_set(err, ERR_DENIED,
                           "%s: the server, which runs as id %u, cannot pass through '%.80s' (mode "
                           "%04o): chmod o+x it, or choose another place with --%s",
                           setting, ids->uid, dir, st.st_mode & 07777, setting);
        if (*path == '\0')
            break;
    }
    return 0;
}

// Folders that the daemon reads; that of the default need not be there.
static int check_folder(const char *name, const char *path, const char *fallback, struct err *err)
{
    struct stat st;
    if (*path == '\0' || strcmp(path, fallback) == 0)
        return 0;
    if (path[0] != '/')
        return err_set(err, ERR_INVALID, "%s: '%.100s' must begin with /", name, path);
    if (stat(path, &st) < 0)
        return err_sys(err, errno, "%s: open '%.100s'", name, path);
    return S_ISDIR(st.st_mode) ? 0
                               : err_set(err, ERR_INVALID, "%s: '%.100s' is no folder", name, path);
}

int setup_daemon(int data_fd, const struct conf *conf, struct serve_ids *ret, struct err *err)
{
    bool exists;
    if (check_folder("agents", conf->agents, CONF_AGENTS, err) < 0 ||
        check_folder("components", conf->components, CONF_COMPONENTS, err) < 0)
        return -1;
    if (find_ids(data_fd, conf, ret, &exists, err) < 0 ||
        setup_check_way("data", conf->data, ret, err) < 0 ||
        (!exists && make_daemon_dir(data_fd, ret, err) < 0))
        return -1;
    if (!find_group(conf->group, 0, &ret->socket_gid))
        ret->socket_gid = ret->gid;
    return 0;
}

// --- the token ---

enum { TOKEN_BYTES = 32, TOKEN_LEAST = 16, TOKEN_MOST = 256 };

static int check_token(const char *token, struct err *err)
{
    size_t len = strlen(token);
    if (len < TOKEN_LEAST || len > TOKEN_MOST)
        return err_set(err, ERR_INVALID, "it must have %d to %d characters", TOKEN_LEAST,
                       TOKEN_MOST);
    for (const char *p = token; *p != '\0'; p++) {
        if (*p <= ' ' || *p >= 0x7f)
            return err_set(err, ERR_INVALID, "it holds a character that no header may");
    }
    return 0;
}

static int set_token(struct conf *conf, const char *text, struct err *err)
{
    free(conf->token);
    conf->token = strdup(text);
    return conf->token == NULL ? err_sys(err, ENOMEM, "token") : 0;
}

static int make_token(int data_fd, struct conf *conf, struct err *err)
{
    unsigned char random[TOKEN_BYTES];
    char text[2 * TOKEN_BYTES + 2];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_sys(err, errno, "getrandom");
    for (unsigned i = 0; i < TOKEN_BYTES; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", random[i]);
    int r = set_token(conf, text, err);
    text[2 * TOKEN_BYTES] = '\n';
    auto_fd fd = openat(data_fd, "admin.token.new",
                        O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (r == 0 && (fd < 0 || fd_write_all(fd, text, 2 * TOKEN_BYTES + 1) < 0 || fsync(fd) < 0 ||
                   renameat(data_fd, "admin.token.new", data_fd, "admin.token") < 0))
        r = err_sys(err, errno, "write '%.80s/admin.token'", conf->data);
    explicit_bzero(random, sizeof random);
    explicit_bzero(text, sizeof text);
    return r;
}

static void read_line(int fd, char text[TOKEN_MOST + 2])
{
    ssize_t n = fd_read_all(fd, text, TOKEN_MOST + 1);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

static int read_token(int fd, struct conf *conf, struct err *err)
{
    char text[TOKEN_MOST + 2];
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != 0 || (st.st_mode & 0077) != 0)
        return err_set(
            err, ERR_DENIED,
            "others than root may read it: chmod it to 0600, or remove it to have another "
            "made");
    read_line(fd, text);
    int r = check_token(text, err) < 0 ? -1 : set_token(conf, text, err);
    explicit_bzero(text, sizeof text);
    return r;
}

int setup_token(int data_fd, struct conf *conf, bool *ret_made, struct err *err)
{
    *ret_made = false;
    if (conf->token[0] != '\0')
        return check_token(conf->token, err) < 0 ? err_wrap(err, "token") : 0;
    auto_fd fd = openat(data_fd, "admin.token", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno != ENOENT)
        return err_sys(err, errno, "read '%.80s/admin.token'", conf->data);
    *ret_made = fd < 0;
    if (fd < 0)
        return make_token(data_fd, conf, err);
    return read_token(fd, conf, err) < 0 ? err_wrap(err, "%.80s/admin.token", conf->data) : 0;
}

void setup_print_token(const struct conf *conf, const char *before, const char *after)
{
    char text[TOKEN_MOST + 2];
    auto_fd dir = open(conf->data, O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_fd fd = dir < 0 ? -1 : openat(dir, "admin.token", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    read_line(fd, text);
    // Past stdio, whose buffer would keep it.
    (void)fflush(stdout);
    (void)fd_write_all(STDOUT_FILENO, before, strlen(before));
    (void)fd_write_all(STDOUT_FILENO, text, strlen(text));
    (void)fd_write_all(STDOUT_FILENO, after, strlen(after));
    explicit_bzero(text, sizeof text);
}

// --- settings for the daemon ---

enum { CONF_MAX = 64 * 1024 };

int setup_conf_fd(const struct conf *conf, struct err *err)
{
    auto_buf text;
    char *at;
    size_t room;
    buf_init(&text, CONF_MAX);
    int r = buf_reserve(&text, CONF_MAX, &at, &room); // all at once: growing would leave copies
    if (r == 0)
        r = conf_write_text(conf, &text);
    auto_fd fd = memfd_create("cay-conf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (r == 0)
        r = fd < 0 ? -errno : fd_write_all(fd, text.data, text.len);
    if (text.data != NULL)
        explicit_bzero(text.data, text.len);
    const int seals = F_SEAL_SEAL | F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
    if (r == 0 && (lseek(fd, 0, SEEK_SET) < 0 || fcntl(fd, F_ADD_SEALS, seals) < 0))
        r = -errno;
    return r < 0 ? err_sys(err, -r, "write the settings for the daemon") : TAKE_FD(fd);
}

int setup_read_conf_fd(int fd, struct conf *conf, struct err *err)
{
    auto_free char *text = calloc(1, CONF_MAX + 1);
    if (text == NULL)
        return err_sys(err, ENOMEM, "settings");
    if (pread(fd, text, CONF_MAX, 0) < 0)
        return err_sys(err, errno, "read the settings of the program before");
    int r = conf_parse_older(conf, text, err);
    explicit_bzero(text, CONF_MAX);
    return r;
}
