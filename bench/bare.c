// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench.h"

char *const bare_environment[] = {
    (char *)(uintptr_t) "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    (char *)(uintptr_t) "LANG=C.UTF-8",
    (char *)(uintptr_t) "HOME=/root",
    NULL,
};

static void wait_for(pid_t pid, const char *what)
{
    int status;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            die("waitpid: %m");
    }
    if (status != 0)
        die("%s ended with status 0x%x", what, (unsigned)status);
}

int64_t bare_true(void)
{
    static char *const argv[] = {(char *)(uintptr_t) "/bin/true", NULL};
    int64_t began = clock_ns();
    pid_t pid = fork();
    if (pid < 0)
        die("fork: %m");
    if (pid == 0) {
        (void)execve(argv[0], argv, bare_environment);
        _exit(127);
    }
    wait_for(pid, argv[0]);
    return clock_ns() - began;
}

int64_t bare_command(const char *const *argv)
{
    static int null = -1;
    if (null < 0)
        null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int64_t began = clock_ns();
    pid_t pid = fork();
    if (pid < 0)
        die("fork: %m");
    if (pid == 0) {
        for (int fd = 0; fd < 3; fd++)
            (void)dup2(null, fd);
        (void)execve(argv[0], (char *const *)(uintptr_t)argv, bare_environment);
        _exit(127);
    }
    wait_for(pid, argv[0]);
    return clock_ns() - began;
}
