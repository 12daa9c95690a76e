// SPDX-License-Identifier: Apache-2.0
// What every root needs before a box can stand on it, whether it was made up, bootstrapped or
// imported: directories to mount on, /workspace, a user with a home, and an identity that is
// neither the host's nor shared with whoever packed the archive. Works below a descriptor and
// follows no link (tree.h).
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "box/image-internal.h"
#include "box/tree.h"

enum {
    USER_ID = 1000,
    ACCOUNTS_SIZE = 1024 * 1024, // of a passwd or group file that we read
};

struct made_dir {
    const char *path;
    mode_t mode;
    uid_t uid;
};

static const struct made_dir dirs[] = {
    {"",          0755,  0      },
    {"dev",       0755,  0      },
    {"proc",      0755,  0      },
    {"sys",       0755,  0      },
    {"run",       0755,  0      },
    {"run/lock",  01777, 0      },
    {"mnt",       0755,  0      },
    {"media",     0755,  0      },
    {"opt",       0755,  0      },
    {"srv",       0755,  0      },
    {"etc",       0755,  0      },
    {"root",      0700,  0      },
    {"home",      0755,  0      },
    {"home/user", 0755,  USER_ID},
    {"workspace", 0777,  0      },
    {"tmp",       01777, 0      },
    {"var",       0755,  0      },
    {"var/tmp",   01777, 0      },
    {"var/cache", 0755,  0      },
    {"var/lib",   0755,  0      },
    {"var/log",   0755,  0      },
    {"var/spool", 0755,  0      },
};

struct made_link {
    const char *path;
    const char *target;
    bool keep; // leave what is there
};

static const struct made_link links[] = {
    {"var/run",             "/run",              true },
    {"var/lock",            "/run/lock",         true },
    {"home/user/workspace", "/workspace",        true },
    {"etc/mtab",            "/proc/self/mounts", false},
};

struct made_file {
    const char *path;
    const char *text;
};

static const struct made_file files[] = {
    {"etc/hostname",    "cay\n"                                                   },
    {"etc/hosts",       "127.0.0.1\tlocalhost cay\n"
                  "::1\t\tlocalhost ip6-localhost ip6-loopback\n"},
    {"etc/resolv.conf", "# Answered by Cay, for a sandbox that has a network.\n"
                        "nameserver 127.0.0.1\n"           },
 // An id that every box of an image had in common would be none.
    {"etc/machine-id",  ""                                                        },
};

// Used when a root brings no accounts: the numbers that Debian and most others agree on.
static const char plain_passwd[] = "root:*:0:0:root:/root:/bin/bash\n"
                                   "daemon:*:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
                                   "bin:*:2:2:bin:/bin:/usr/sbin/nologin\n"
                                   "sys:*:3:3:sys:/dev:/usr/sbin/nologin\n"
                                   "games:*:5:60:games:/usr/games:/usr/sbin/nologin\n"
                                   "man:*:6:12:man:/var/cache/man:/usr/sbin/nologin\n"
                                   "lp:*:7:7:lp:/var/spool/lpd:/usr/sbin/nologin\n"
                                   "mail:*:8:8:mail:/var/mail:/usr/sbin/nologin\n"
                                   "news:*:9:9:news:/var/spool/news:/usr/sbin/nologin\n"
                                   "proxy:*:13:13:proxy:/bin:/usr/sbin/nologin\n"
                                   "www-data:*:33:33:www-data:/var/www:/usr/sbin/nologin\n"
                                   "backup:*:34:34:backup:/var/backups:/usr/sbin/nologin\n"
                                   "nobody:*:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";

static const char plain_group[] =
    "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nlp:x:7:\nmail:x:8:\n"
    "news:x:9:\nuucp:x:10:\nman:x:12:\nproxy:x:13:\nkmem:x:15:\ndialout:x:20:\nfax:x:21:\nvoice:x:22:\n"
    "cdrom:x:24:\nfloppy:x:25:\ntape:x:26:\nsudo:x:27:\naudio:x:29:\ndip:x:30:\nwww-data:x:33:\n"
    "backup:x:34:\noperator:x:37:\nlist:x:38:\nirc:x:39:\nsrc:x:40:\nshadow:x:42:\nutmp:x:43:\n"
    "video:x:44:\nsasl:x:45:\nplugdev:x:46:\nstaff:x:50:\ngames:x:60:\nusers:x:100:\n"
    "nogroup:x:65534:\n";

static int refused(struct err *err, int r, const char *path)
{
    if (r == -ELOOP || r == -ENOTDIR || r == -EISDIR)
        return err_set(err, ERR_INVALID, "'/%s' in this root is not what a root has there: refused",
                       path);
    return err_sys(err, -r, "make '/%s' in the root", path);
}

static bool exists(int root_fd, const char *dir, const char *name)
{
    struct stat st;
    auto_fd fd = tree_open_dir(root_fd, dir);
    return fd >= 0 && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int make_dirs_and_links(int root_fd, struct err *err)
{
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        if (dirs[i].uid == USER_ID && exists(root_fd, "home", "user"))
            continue; // an image's own user may have another number
        int r = tree_mkdir(root_fd, dirs[i].path, dirs[i].mode, dirs[i].uid);
        if (r < 0)
            return refused(err, r, dirs[i].path);
    }
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        char dir[32];
        const char *slash = strrchr(links[i].path, '/');
        (void)snprintf(dir, sizeof dir, "%.*s", (int)(slash - links[i].path), links[i].path);
        if (links[i].keep && exists(root_fd, dir, slash + 1))
            continue;
        int r = tree_symlink(root_fd, links[i].path, links[i].target);
        if (r < 0)
            return refused(err, r, links[i].path);
    }
    return 0;
}

// Whether a line of passwd or group has this name, or this number in its third field.
static bool has_account(const char *text, const char *name, unsigned id)
{
    size_t name_len = strlen(name);
    for (const char *line = text; *line != '\0';
         line += strcspn(line, "\n"), line += *line == '\n') {
        if (strncmp(line, name, name_len) == 0 && line[name_len] == ':')
            return true;
        const char *p = line;
        size_t left = strcspn(line, "\n");
        const char *end = line + left;
        for (int field = 0; field < 2 && p != NULL; field++) {
            p = memchr(p, ':', (size_t)(end - p));
            p = p == NULL ? NULL : p + 1;
        }
        if (p != NULL && p < end && *p >= '0' && *p <= '9' && strtoul(p, NULL, 10) == id)
            return true;
    }
    return false;
}

// Adds `line` to an account file unless it has such a name or number; a file that is missing, or is
// no file, becomes `plain` first.
static int add_account(int root_fd, const char *path, const char *plain, const char *line)
{
    auto_buf text;
    buf_init(&text, ACCOUNTS_SIZE);
    auto_fd fd = tree_open_file(root_fd, path);
    if (fd >= 0) {
        char *at;
        size_t room;
        int r = buf_reserve(&text, ACCOUNTS_SIZE, &at, &room);
        ssize_t n = r < 0 ? r : fd_read_all(fd, at, room);
        if (n < 0 || (size_t)n == room)
            return n < 0 ? (int)n : -EFBIG;
        buf_commit(&text, (size_t)n);
    }
    if (text.len == 0)
        (void)buf_append_str(&text, plain);
    if (text.len > 0 && text.data[text.len - 1] != '\n')
        (void)buf_append_char(&text, '\n');
    if (!has_account(buf_str(&text), "user", USER_ID))
        (void)buf_append_str(&text, line);
    if (text.failed < 0)
        return text.failed;
    return tree_write(root_fd, path, text.data, text.len, 0644);
}

static int make_accounts(int root_fd, struct err *err)
{
    // The host image has an empty usr/ here and the machine's own bash later.
    bool bash = exists(root_fd, "usr/bin", "bash") || exists(root_fd, "bin", "bash") ||
                !exists(root_fd, "usr", "bin");
    char line[96];
    (void)snprintf(line, sizeof line, "user:*:%d:%d:user:/home/user:/bin/%s\n", USER_ID, USER_ID,
                   bash ? "bash" : "sh");
    int r = add_account(root_fd, "etc/passwd", plain_passwd, line);
    if (r < 0)
        return refused(err, r, "etc/passwd");
    (void)snprintf(line, sizeof line, "user:x:%d:\n", USER_ID);
    r = add_account(root_fd, "etc/group", plain_group, line);
    if (r < 0)
        return refused(err, r, "etc/group");
    return 0;
}

int image_prepare(int root_fd, struct err *err)
{
    int removed = tree_remove(root_fd, "dev"); // a box has one of its own
    if (removed < 0 && removed != -ENOENT)
        return refused(err, removed, "dev");
    if (make_dirs_and_links(root_fd, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        int r = tree_write(root_fd, files[i].path, files[i].text, strlen(files[i].text), 0644);
        if (r < 0)
            return refused(err, r, files[i].path);
    }
    if (make_accounts(root_fd, err) < 0)
        return -1;
    if (exists(root_fd, "usr/bin", "python3") && !exists(root_fd, "usr/bin", "python")) {
        int r = tree_symlink(root_fd, "usr/bin/python", "python3");
        if (r < 0)
            return refused(err, r, "usr/bin/python");
    }
    return 0;
}
