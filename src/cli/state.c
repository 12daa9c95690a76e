// SPDX-License-Identifier: Apache-2.0
#include "cli/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

int state_path(char ret[STATE_PATH_MAX], const char *name)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = 0;
    if (state != NULL && state[0] == '/')
        n = snprintf(ret, STATE_PATH_MAX, "%s/cay/%s", state, name);
    else if (home != NULL && home[0] == '/')
        n = snprintf(ret, STATE_PATH_MAX, "%s/.local/state/cay/%s", home, name);
    if (n <= 0 || n >= STATE_PATH_MAX)
        ret[0] = '\0';
    return ret[0] != '\0' && n > 0 ? 0 : -1;
}

int state_make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int r = mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
        *slash = '/';
        if (r < 0)
            return r;
    }
    return 0;
}

int state_open(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    struct stat st;
    if (fd < 0)
        return -errno;
    // Somebody else's file, or no file at all, gets nothing of ours.
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
        fd_close(fd);
        return -EPERM;
    }
    if ((st.st_mode & 077) != 0)
        (void)fchmod(fd, 0600);
    return fd;
}

int state_write(const char *path, const void *bytes, size_t len)
{
    char beside[STATE_PATH_MAX + 32];
    // Its own name, so that two programs that write at once do not write into each other's.
    (void)snprintf(beside, sizeof beside, "%s.new.%d", path, (int)getpid());
    (void)unlink(beside);
    auto_fd fd = state_open(beside, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        return fd;
    int r = fd_write_all(fd, bytes, len);
    if (r == 0 && rename(beside, path) < 0)
        r = -errno;
    if (r < 0)
        (void)unlink(beside);
    return r;
}
