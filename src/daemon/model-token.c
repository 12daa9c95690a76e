// SPDX-License-Identifier: Apache-2.0
#include "daemon/model-token.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"

#define NAME     "model-token"
#define NEW_NAME "model-token.new"

enum { STATE_MAX = 64 * 1024 };

char *model_token_load(int dir_fd)
{
    static char text[STATE_MAX];
    auto_fd fd = openat(dir_fd, NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd >= 0 ? fd_read_all(fd, text, sizeof text - 1) : -1;
    if (n <= 0)
        return NULL;
    text[n] = '\0';
    char *copy = strdup(text);
    sodium_memzero(text, sizeof text);
    return copy;
}

// 0 or -errno.
static int save(int dir_fd, const char *state)
{
    auto_fd fd =
        openat(dir_fd, NEW_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    int r = fd_write_all(fd, state, strlen(state));
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    if (r == 0 && renameat(dir_fd, NEW_NAME, dir_fd, NAME) < 0)
        r = -errno;
    return r;
}

void model_token_save(int dir_fd, const char *state)
{
    int r = save(dir_fd, state);
    if (r < 0)
        log_line(LOG_ERROR, "the renewed token of the model's API cannot be stored", "error",
                 strerrordesc_np(-r), NULL);
}
