// SPDX-License-Identifier: Apache-2.0
// A sandbox for the tests of src/git: its programs are children of the test, in directories below
// /tmp. Each exec waits until the test lets it run, so that there is a moment between any two.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "check.h"
#include "git/changes.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox.h"

enum { KIT_EXECS = 16, KIT_ARGS = 600, KIT_OWN = 256, KIT_TEXT = 4096 };

struct sandbox {
    int refs;
};

struct exec {
    char *argv[KIT_ARGS], *envp[KIT_ARGS];
    char *in;
    size_t in_len;
    int64_t timeout_ms;
    exec_fn fn;
    void *data;
};

static struct {
    struct sandbox sandbox;
    struct exec *waiting[KIT_EXECS];
    size_t n_waiting;
    unsigned started;      // programs, so far
    bool at_once;          // they are over before exec_start returns
    bool down;             // none can be started
    char top[64];          // directory of this case
    char own[KIT_OWN][64]; // repositories that the room has made for itself
    size_t n_own;
} kit;

static inline void kit_copy(char **to, const char *const *from)
{
    size_t n = 0;
    for (; from[n] != NULL; n++) {
        assert_true(n < KIT_ARGS - 1);
        to[n] = strdup(from[n]);
    }
    to[n] = NULL;
}

static inline void kit_exec_free(struct exec *exec)
{
    for (size_t i = 0; exec->argv[i] != NULL; i++)
        free(exec->argv[i]);
    for (size_t i = 0; exec->envp[i] != NULL; i++)
        free(exec->envp[i]);
    free(exec->in);
    free(exec);
}

// In a group of its own. Not by fork: copying what a sanitizer has mapped takes longer than git
// does.
static inline pid_t kit_spawn(const struct exec *exec, int in, int out, int err)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    pid_t pid = -1;
    int fds[] = {in, out, err};
    assert_int_equal(posix_spawn_file_actions_init(&files) | posix_spawnattr_init(&attr), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(posix_spawn_file_actions_adddup2(&files, fds[i], i), 0);
    assert_int_equal(posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP), 0);
    assert_int_equal(posix_spawnp(&pid, exec->argv[0], &files, &attr, exec->argv, exec->envp), 0);
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&attr);
    return pid;
}

// Reads both until they end, or time is over. False: it is over.
static inline bool kit_read(int fds[2], struct buf *bufs[2], int64_t timeout_ms, bool *truncated)
{
    static char piece[65536];
    int64_t end = clock_ns() + timeout_ms * NS_PER_MS;
    while (fds[0] >= 0 || fds[1] >= 0) {
        struct pollfd p[2] = {
            {.fd = fds[0], .events = POLLIN},
            {.fd = fds[1], .events = POLLIN}
        };
        int64_t left = (end - clock_ns()) / NS_PER_MS;
        if (left <= 0 || poll(p, 2, (int)left) == 0)
            return false;
        for (int i = 0; i < 2; i++) {
            ssize_t n = p[i].revents != 0 ? read(fds[i], piece, sizeof piece) : -1;
            if (n > 0 && buf_append(bufs[i], piece, (size_t)n) < 0)
                *truncated = true;
            if (p[i].revents != 0 && n <= 0) {
                fd_close(fds[i]);
                fds[i] = -1;
            }
        }
    }
    return true;
}

static inline void kit_run_exec(struct exec *exec)
{
    int out[2], err[2];
    struct buf bufs[2];
    bool truncated = false;
    FILE *in = tmpfile();
    assert_non_null(in);
    assert_int_equal(fwrite(exec->in != NULL ? exec->in : "", 1, exec->in_len, in), exec->in_len);
    rewind(in);
    assert_int_equal(pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
    pid_t pid = kit_spawn(exec, fileno(in), out[1], err[1]);
    (void)fclose(in);
    fd_close(out[1]);
    fd_close(err[1]);
    buf_init(&bufs[0], EXEC_OUTPUT_MAX);
    buf_init(&bufs[1], EXEC_OUTPUT_MAX);
    int fds[2] = {out[0], err[0]};
    struct buf *both[2] = {&bufs[0], &bufs[1]};
    bool in_time = kit_read(fds, both, exec->timeout_ms, &truncated);
    if (!in_time)
        (void)kill(-pid, SIGKILL);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    fd_close(fds[0]);
    fd_close(fds[1]);
    struct exec_result result = {
        .end = {.reason = in_time ? END_EXIT : END_TIMEOUT,
                .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 137},
        .out = both[0],
        .err = both[1],
        .truncated = truncated,
    };
    exec->fn(exec->data, &result, NULL);
    buf_done(&bufs[0]);
    buf_done(&bufs[1]);
    kit_exec_free(exec);
}

// "git ... init ... PATH"
static inline void kit_note_own(char *const *argv)
{
    const char *last = argv[0];
    bool is_init = false;
    for (; *argv != NULL; argv++) {
        last = *argv;
        is_init |= strcmp(last, "init") == 0;
    }
    if (!is_init)
        return;
    assert_true(kit.n_own < KIT_OWN && strncmp(last, "/tmp/.cay-git-", 14) == 0);
    (void)snprintf(kit.own[kit.n_own++], sizeof kit.own[0], "%s", last);
}

// --- what the room stands on

const char *end_reason_name(enum end_reason reason)
{
    (void)reason;
    return "ended";
}

struct sandbox *sandbox_ref(struct sandbox *s)
{
    s->refs++;
    return s;
}

void sandbox_unref(struct sandbox *s)
{
    assert_true(s->refs-- > 0);
}

// With variables in it that must not reach git.
char **exec_env(const struct sandbox *s, const char *extra, uint32_t uid, struct err *err)
{
    static const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "GIT_DIR=/nowhere",
                                      "GIT_EXTERNAL_DIFF=/bin/false", "GIT_INDEX_FILE=/nowhere",
                                      NULL};
    char **ret = calloc(8, sizeof *ret);
    (void)s;
    (void)extra;
    (void)uid;
    (void)err;
    assert_non_null(ret);
    kit_copy(ret, env);
    return ret;
}

void exec_env_free(char **env)
{
    for (size_t i = 0; env != NULL && env[i] != NULL; i++)
        free(env[i]);
    free(env);
}

struct exec *exec_start(struct sandbox *s, const struct exec_request *request, exec_fn fn,
                        void *data, struct err *err)
{
    assert_ptr_equal(s, &kit.sandbox);
    if (kit.down) {
        (void)err_set(err, ERR_UNAVAILABLE, "the box is gone");
        return NULL;
    }
    struct exec *exec = calloc(1, sizeof *exec);
    assert_non_null(exec);
    kit_copy(exec->argv, request->argv);
    kit_copy(exec->envp, request->envp);
    exec->in_len = request->stdin_len;
    exec->in = malloc(request->stdin_len + 1);
    assert_non_null(exec->in);
    if (request->stdin_data != NULL)
        memcpy(exec->in, request->stdin_data, request->stdin_len);
    exec->timeout_ms = request->timeout_ms;
    exec->fn = fn;
    exec->data = data;
    kit.started++;
    kit_note_own(exec->argv);
    if (kit.at_once) {
        kit_run_exec(exec);
    } else {
        assert_true(kit.n_waiting < KIT_EXECS);
        kit.waiting[kit.n_waiting++] = exec;
    }
    return exec;
}

void exec_cancel(struct exec *exec)
{
    size_t i = 0;
    while (i < kit.n_waiting && kit.waiting[i] != exec)
        i++;
    assert_true(i < kit.n_waiting);
    memmove(kit.waiting + i, kit.waiting + i + 1, (kit.n_waiting - i - 1) * sizeof *kit.waiting);
    kit.n_waiting--;
    kit_exec_free(exec);
}

// --- for cases

// Lets the first one that waits run. False: none does.
static inline bool kit_step(void)
{
    if (kit.n_waiting == 0)
        return false;
    struct exec *exec = kit.waiting[0];
    kit.n_waiting--;
    memmove(kit.waiting, kit.waiting + 1, kit.n_waiting * sizeof *kit.waiting);
    kit_run_exec(exec);
    return true;
}

static inline void kit_run(void)
{
    while (kit_step())
        ;
}

static inline char *kit_path(const char *name)
{
    static char path[8][256];
    static unsigned next;
    char *ret = path[next++ % 8];
    (void)snprintf(ret, 256, "%s/%s", kit.top, name);
    return ret;
}

static inline void kit_on_script(void *data, struct exec_result *result, const struct err *err)
{
    char *text = data;
    (void)err;
    if (result->end.exit_code != 0)
        fail_msg("exit code %d: %s", result->end.exit_code, buf_str(result->err));
    (void)snprintf(text, KIT_TEXT, "%s", buf_str(result->out));
    size_t len = strlen(text);
    if (len > 0 && text[len - 1] == '\n')
        text[len - 1] = '\0';
}

// A script in the case's directory; what it prints, without its last newline. Fails if it does.
static inline const char *kit_sh(const char *script)
{
    static char text[KIT_TEXT];
    static const char before[] =
        "set -e; cd \"$1\"; export HOME=\"$1\" GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b "
        "GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_NOSYSTEM=1; eval \"$2\"";
    const char *const argv[] = {"sh", "-c", before, "sh", kit.top, script, NULL};
    const char *const envp[] = {"PATH=/usr/local/bin:/usr/bin:/bin", NULL};
    struct exec *exec = calloc(1, sizeof *exec);
    assert_non_null(exec);
    kit_copy(exec->argv, argv);
    kit_copy(exec->envp, envp);
    exec->timeout_ms = 300000;
    exec->fn = kit_on_script;
    exec->data = text;
    kit_run_exec(exec);
    return text;
}

static inline bool kit_is_clean(void)
{
    char exclude[128];
    bool clean = true;
    for (size_t i = 0; i < kit.n_own; i++) {
        (void)snprintf(exclude, sizeof exclude, "%s-exclude", kit.own[i]);
        clean &= access(kit.own[i], F_OK) < 0 && access(exclude, F_OK) < 0;
    }
    return clean;
}

// As if somebody had cleaned up /tmp.
static inline void kit_lose_own(void)
{
    char command[128];
    for (size_t i = 0; i < kit.n_own; i++) {
        (void)snprintf(command, sizeof command, "rm -rf '%s'", kit.own[i]);
        (void)kit_sh(command);
    }
}

static inline int kit_setup(void **state)
{
    (void)state;
    memset(&kit, 0, sizeof kit);
    (void)snprintf(kit.top, sizeof kit.top, "/tmp/cay-git-test-XXXXXX");
    return mkdtemp(kit.top) != NULL ? 0 : -1;
}

static inline int kit_teardown(void **state)
{
    (void)state;
    kit_run();
    assert_int_equal(kit.sandbox.refs, 0);
    (void)kit_sh("rm -rf \"$1\"");
    return 0;
}
