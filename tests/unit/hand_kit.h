// SPDX-License-Identifier: Apache-2.0
// A long request of the hand in a process of its own, as the hand would run it, with its pipes
// here; and directories to let it work on.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "check.h"
#include "hand/hand-internal.h"

struct kit_run {
    pid_t pid;
    int out, in;       // our ends, or -1
    struct work *work; // shared: what it said in the end
    int *result;
};

// Neither text may go away before the process does.
static inline struct kit_run kit_start(work_fn fn, const char *path, uint32_t flags,
                                       const void *data, size_t data_len)
{
    struct kit_run run = {.out = -1, .in = -1};
    int out[2], in[2];
    void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED && pipe2(out, O_CLOEXEC) == 0 && pipe2(in, O_CLOEXEC) == 0);
    run.work = shared;
    run.result = (int *)(void *)((char *)shared + 2048);
    *run.result = 1; // it ends with 0 or less
    (void)fflush(NULL);
    run.pid = fork();
    assert_true(run.pid >= 0);
    if (run.pid == 0) {
        static struct hand_request req;
        req.flags = flags;
        fd_close(out[0]);
        fd_close(in[1]);
        (void)signal(SIGPIPE, SIG_IGN);
        *run.work = (struct work){
            .req = &req, .texts = {path, "", data, data_len},
                 .out = out[1], .in = in[0]
        };
        int r = fn(run.work);
        int flushed = work_flush(run.work);
        *run.result = r < 0 ? r : flushed;
        _exit(0);
    }
    fd_close(out[1]);
    fd_close(in[0]);
    run.out = out[0];
    run.in = in[1];
    return run;
}

// Its answer; 1 if it was killed.
static inline int kit_end(struct kit_run *run)
{
    int status = 0;
    fd_close(TAKE_FD(run->in));
    fd_close(TAKE_FD(run->out));
    assert_int_equal(waitpid(run->pid, &status, 0), run->pid);
    int r = *run->result;
    assert_true(!WIFEXITED(status) || WEXITSTATUS(status) == 0);
    (void)munmap(run->work, 4096);
    return r;
}

// A fresh directory that is gone after the tests; from it, all names in them are relative.
static char kit_top[64];

static inline int kit_setup(void **state __attribute__((unused)))
{
    (void)snprintf(kit_top, sizeof kit_top, "%s/cay-hand-test-XXXXXX", check_scratch());
    return mkdtemp(kit_top) == NULL || chdir(kit_top) < 0 ? -1 : 0;
}

// Runs a shell's script there; its status.
__attribute__((format(printf, 1, 2))) static inline int kit_sh(const char *fmt, ...)
{
    char script[16384];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(script, sizeof script, fmt, ap);
    va_end(ap);
    assert_true(n > 0 && (size_t)n < sizeof script);
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(2, 1); // what it prints is no result of a test
        (void)execl("/bin/bash", "bash", "-euc", script, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline int kit_teardown(void **state __attribute__((unused)))
{
    int r = kit_sh("cd / && rm -rf %s", kit_top);
    return chdir("/") < 0 ? -1 : r;
}

static inline const char *kit_path(const char *name)
{
    static char path[4][4096];
    static unsigned i;
    char *at = path[i++ % 4];
    (void)snprintf(at, sizeof path[0], "%s/%s", kit_top, name);
    return at;
}

#define KIT_MAIN(...)                                                                              \
    int main(void)                                                                                 \
    {                                                                                              \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                                           \
        (void)signal(SIGPIPE, SIG_IGN);                                                            \
        return cmocka_run_group_tests(tests, NULL, NULL);                                          \
    }
#define KIT_CASE(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)
