// SPDX-License-Identifier: Apache-2.0
// The yardstick of the clients: `bash -c` of the same command, on the machine itself.
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "clients.h"

static _Noreturn void child(int out, const char *command)
{
    char *const argv[] = {
        (char *)(uintptr_t) "bash",
        (char *)(uintptr_t) "-c",
        (char *)(uintptr_t)command,
        NULL,
    };
    int null = open("/dev/null", O_RDWR);
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(out, STDOUT_FILENO);
    (void)execve("/bin/bash", argv, bare_environment);
    _exit(127);
}

static void read_all(int fd, struct bare_took *took, int64_t began)
{
    static char piece[256 * 1024];
    for (;;) {
        ssize_t n = read(fd, piece, sizeof piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        if (took->bytes == 0)
            took->first = clock_ns() - began;
        took->bytes += (size_t)n;
    }
}

struct bare_took bare_bash(const char *command)
{
    struct bare_took took = {0};
    int ends[2], status;
    int64_t began = clock_ns();
    if (pipe2(ends, O_CLOEXEC) < 0)
        die("pipe: %m");
    pid_t pid = fork();
    if (pid < 0)
        die("fork: %m");
    if (pid == 0)
        child(ends[1], command);
    fd_close(ends[1]);
    read_all(ends[0], &took, began);
    fd_close(ends[0]);
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            die("waitpid: %m");
    }
    if (status != 0)
        die("bash -c '%s' ended with status 0x%x", command, (unsigned)status);
    took.end = clock_ns() - began;
    return took;
}
