// SPDX-License-Identifier: Apache-2.0
#include "runner.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "verdict.h"

enum {
    ATTEMPT_SECONDS = 45, // far beyond what any attempt takes; reached only by a hang
};

static const char *const outcome_names[OUTCOME_MAX] = {
    [HELD] = "HELD",
    [ESCAPED] = "ESCAPED",
    [CANNOT] = "CANNOT",
    [BROKEN] = "BROKEN",
};

static _Noreturn void child_main(const struct attempt *attempt, int out)
{
    struct result result = {0};
    setsid(); // its process group is what the runner kills afterwards
    result.outcome = attempt->run(attempt);
    snprintf(result.detail, sizeof(result.detail), "%s", verdict_detail());
    ssize_t n = write(out, &result, sizeof(result));
    _exit(n == (ssize_t)sizeof(result) ? 0 : 1);
}

static void judge_death(const struct attempt *attempt, int status, const char *note,
                        struct result *ret)
{
    ret->outcome = BROKEN;
    if (WIFEXITED(status)) {
        snprintf(ret->detail, sizeof(ret->detail), "ended with code %d and no result",
                 WEXITSTATUS(status));
        return;
    }
    int sig = WTERMSIG(status);
    if (sig == SIGSYS) {
        ret->outcome = HELD;
        snprintf(ret->detail, sizeof(ret->detail), "killed by the system call filter");
    } else if (sig == SIGKILL && attempt->killed_is_held) {
        ret->outcome = HELD;
        snprintf(ret->detail, sizeof(ret->detail), "killed by the kernel: %.150s", note);
    } else {
        snprintf(ret->detail, sizeof(ret->detail), "died by signal %d: %.150s", sig, note);
    }
}

void run_attempt(const struct attempt *attempt, struct result *ret)
{
    int pipe_fds[2];
    char *note = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(ret, 0, sizeof(*ret));
    ret->outcome = BROKEN;
    if (note == MAP_FAILED || pipe(pipe_fds) < 0) {
        snprintf(ret->detail, sizeof(ret->detail), "no memory or pipe for the attempt");
        return;
    }
    progress_share(note);
    scratch_make();
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(pipe_fds[0]);
        child_main(attempt, pipe_fds[1]);
    }
    close(pipe_fds[1]);

    // Descendants may hold the pipe open, so the wait is for the record and not for the end of
    // file.
    struct pollfd pfd = {.fd = pipe_fds[0], .events = POLLIN};
    int ready = pid < 0 ? -1 : poll(&pfd, 1, ATTEMPT_SECONDS * 1000);
    ssize_t n = ready > 0 ? read(pipe_fds[0], ret, sizeof(*ret)) : -1;
    if (pid > 0) {
        int status = 0;
        if (ready <= 0)
            kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        kill(-pid, SIGKILL);
        if (ready <= 0) {
            ret->outcome = BROKEN;
            snprintf(ret->detail, sizeof(ret->detail), "no result after %d s: %.150s",
                     ATTEMPT_SECONDS, note);
        } else if (n != (ssize_t)sizeof(*ret)) {
            judge_death(attempt, status, note, ret);
        }
    } else {
        snprintf(ret->detail, sizeof(ret->detail), "fork: %s", strerrorname_np(errno));
    }
    close(pipe_fds[0]);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    if (attempt->place == TOGETHER)
        scratch_remove(); // the others have a box to themselves, which goes with it
    progress_share(NULL);
    munmap(note, 4096);
}

void print_json_string(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

void print_result_json(const struct attempt *attempt, const struct result *result)
{
    printf("{\"n\":%d,\"name\":\"%s\",\"outcome\":\"%s\",\"detail\":", attempt->number,
           attempt->name, outcome_names[result->outcome]);
    print_json_string(result->detail);
    printf("}\n");
}

void print_result_text(const struct attempt *attempt, const struct result *result)
{
    printf("%2d %-8s %-24s %s\n", attempt->number, outcome_names[result->outcome], attempt->name,
           result->detail);
}
