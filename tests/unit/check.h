// SPDX-License-Identifier: Apache-2.0
// cmocka with the headers that it wants before it, in the order that it wants, and what the unit
// tests share: running a list of cases, a way to see a child abort, and a count of what is open.
#pragma once

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK_MAIN(...)                                                                            \
    int main(void)                                                                                 \
    {                                                                                              \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                                           \
        return cmocka_run_group_tests(tests, NULL, NULL);                                          \
    }

#define CHECK_CASE(name) static void name(void **state __attribute__((unused)))

// Where a test makes files by the thousand: in memory, where that can be had. Programs may not run
// there.
static inline const char *check_scratch(void)
{
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

// The signal that ended fn in a process of its own, or 0. Misuse must end in SIGABRT.
static inline int check_signal(void (*fn)(void))
{
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        const struct rlimit no_core = {0};
        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)freopen("/dev/null", "w", stderr);
        fn();
        _exit(0);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

// How many descriptors this process has. Before and after a case the same, or something leaked.
static inline int check_fds(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    (void)closedir(dir);
    return n;
}
