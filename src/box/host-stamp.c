// SPDX-License-Identifier: Apache-2.0
#include "box/host-stamp.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "box/host-copy.h"

enum {
    RECIPE = 2, // raise it whenever the made-up files or the rules change; rows are seen
};

struct input {
    unsigned long long inode;
    unsigned long long size;
    unsigned long long changed; // nanoseconds
};

static struct input look(int source_fd, const char *path)
{
    struct stat st;
    if (fstatat(source_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return (struct input){0};
    return (struct input){
        .inode = st.st_ino,
        .size = (unsigned long long)st.st_size,
        .changed = (unsigned long long)st.st_ctim.tv_sec * 1000000000ull +
                   (unsigned long long)st.st_ctim.tv_nsec,
    };
}

static void head(char *ret, size_t size)
{
    char boot[64] = "";
    (void)fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    boot[strcspn(boot, "\n")] = '\0';
    (void)snprintf(ret, size, "recipe %d rows %llx boot %s\n", RECIPE,
                   (unsigned long long)host_copy_rows(), boot);
}

void host_stamp_begin(struct buf *stamp)
{
    char line[128];
    head(line, sizeof line);
    buf_reset(stamp);
    (void)buf_append_str(stamp, line);
}

void host_stamp_add(struct buf *stamp, int source_fd, const char *path)
{
    char start[PATH_MAX + 2];
    (void)snprintf(start, sizeof start, "\n%s ", path);
    if (strstr(buf_str(stamp), start) != NULL)
        return;
    struct input now = look(source_fd, path);
    (void)buf_printf(stamp, "%s %llu %llu %llu\n", path, now.inode, now.size, now.changed);
}

bool host_stamp_fresh(const char *stamp, int source_fd)
{
    char line[128];
    head(line, sizeof line);
    size_t len = strlen(line);
    if (strncmp(stamp, line, len) != 0)
        return false;
    for (const char *p = stamp + len; *p != '\0';) {
        char path[PATH_MAX];
        size_t path_len = strcspn(p, " ");
        if (path_len >= sizeof path)
            return false;
        memcpy(path, p, path_len);
        path[path_len] = '\0';
        char *end;
        struct input was;
        was.inode = strtoull(p + path_len, &end, 10);
        was.size = strtoull(end, &end, 10);
        was.changed = strtoull(end, &end, 10);
        if (*end != '\n')
            return false;
        struct input now = look(source_fd, path);
        if (was.inode != now.inode || was.size != now.size || was.changed != now.changed)
            return false;
        p = end + 1;
    }
    return true;
}
