// SPDX-License-Identifier: Apache-2.0
#include "world.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct world world = {.host.pts = -1, .neighbour.pts = -1};

bool peer_parse(struct peer *peer, const char *text)
{
    struct peer p = {0};
    size_t len = strcspn(text, ":");
    if (len == 0 || len >= TOKEN_MAX || text[len] != ':')
        return false;
    memcpy(p.token, text, len);
    if (sscanf(text + len, ":%d:%d:%d:%d", &p.pid, &p.port, &p.key_serial, &p.pts) != 4)
        return false;
    *peer = p;
    return true;
}

bool in_host_pid_namespace(void)
{
    struct stat st;
    if (stat("/proc/self/ns/pid", &st) < 0)
        return true; // who cannot tell must not touch pid 1
    unsigned long host = world.host_pidns;
    if (host == 0)
        host = 0xEFFFFFFCu; // the kernel's first pid namespace always has this number
    return st.st_ino == host;
}

int peer_ipc_key(const char *token)
{
    unsigned hash = 2166136261u;
    for (; *token != '\0'; token++)
        hash = (hash ^ (unsigned char)*token) * 16777619u;
    return (int)(hash & 0x7fffffff) | 1; // never IPC_PRIVATE
}

const char *peer_path(const char *dir, const char *token)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/cay-%s", dir, token);
    return path;
}

void world_note_leaks(void)
{
    for (int fd = 3; fd < 65536 && world.n_leaked < LEAKED_MAX; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            world.leaked[world.n_leaked++] = fd;
    }
}

long slurp(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    size_t used = 0;
    while (used < size - 1) {
        ssize_t n = read(fd, buf + used, size - 1 - used);
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    close(fd);
    buf[used] = '\0';
    return (long)used;
}

bool holds_token(int dirfd, const char *path, const char *token)
{
    char buf[TOKEN_MAX] = "";
    int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, buf, sizeof(buf) - 1);
    close(fd);
    return n > 0 && strncmp(buf, token, strlen(token)) == 0;
}
