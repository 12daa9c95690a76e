// SPDX-License-Identifier: Apache-2.0
// What all checks share: saying what was found, and children to try things in.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/doctor.h"

enum { TRY_MS = 60 * 1000 };

// --- findings ---

static __attribute__((format(printf, 3, 0))) void append(char *text, size_t size, const char *fmt,
                                                         va_list ap)
{
    size_t len = strlen(text);
    if (len > 0 && len + 2 < size) {
        memcpy(text + len, "; ", 3);
        len += 2;
    }
    (void)vsnprintf(text + len, size - len, fmt, ap);
}

void found(struct finding *finding, enum doctor_state state, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    append(finding->detail, sizeof finding->detail, fmt, ap);
    va_end(ap);
    finding->state = state > finding->state ? state : finding->state;
}

void advise(struct finding *finding, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    append(finding->advice, sizeof finding->advice, fmt, ap);
    va_end(ap);
}

// --- a check in its child ---

// In a session of its own, so that Ctrl-C ends only the one who waits: what a check has made it
// then removes by itself.
static _Noreturn void be_check(const struct check *check, const struct doctor *doctor, int answer)
{
    struct finding finding = {0};
    (void)setsid();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)umask(022);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd < 3; fd++)
        (void)dup2(null, fd);
    check->run(check, doctor, &finding);
    _exit(fd_write_all(answer, &finding, sizeof finding) < 0 ? 1 : 0);
}

// Waits for the answer, then for the end: a check is over when it has cleaned up.
static void listen_to(pid_t pid, int answer, struct finding *ret)
{
    struct pollfd ready = {.fd = answer, .events = POLLIN};
    struct finding finding;
    int status = 0, n;
    while ((n = poll(&ready, 1, TRY_MS)) < 0 && errno == EINTR)
        ;
    if (n == 0) {
        (void)kill(pid, SIGKILL);
        found(ret, DOCTOR_MISSING, "no answer within %d seconds", TRY_MS / 1000);
        return; // it may hang in the kernel, where no signal reaches it
    }
    bool whole = fd_read_all(answer, &finding, sizeof finding) == sizeof finding;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (whole)
        *ret = finding;
    else if (WIFSIGNALED(status))
        found(ret, DOCTOR_MISSING, "trying it ended with signal %d", WTERMSIG(status));
    else
        found(ret, DOCTOR_MISSING, "trying it ended without a word");
}

void doctor_try(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    *ret = (struct finding){0};
    if (check->needs_root && !doctor->root) {
        found(ret, DOCTOR_UNTRIED, "not tried without root");
        return;
    }
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        found(ret, DOCTOR_MISSING, "cannot be tried: %s", errno_text(errno));
        return;
    }
    auto_fd hear = ends[0], answer = ends[1];
    pid_t pid = fork();
    if (pid == 0)
        be_check(check, doctor, answer);
    fd_close(TAKE_FD(answer));
    if (pid < 0)
        found(ret, DOCTOR_MISSING, "cannot be tried: %s", errno_text(errno));
    else
        listen_to(pid, hear, ret);
}

int in_child(int (*fn)(void *arg), void *arg)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
            _exit(ECHILD);
        _exit(-fn(arg) & 0xff);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -errno;
    }
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -ECHILD;
}

// --- small things ---

const char *errno_text(int sys_errno)
{
    const char *text = strerrordesc_np(sys_errno);
    return text != NULL ? text : "unknown error";
}

int64_t read_number(const char *path)
{
    char text[32];
    return fd_read_file(AT_FDCWD, path, text, sizeof text) <= 0 ? -1 : strtoll(text, NULL, 10);
}

struct size_text size_text(uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    struct size_text r;
    double n = (double)bytes;
    unsigned unit = 0;
    while (n >= 1024 && unit < 4) {
        n /= 1024;
        unit++;
    }
    (void)snprintf(r.text, sizeof r.text, "%.*f %s", unit > 0 && n < 10 ? 1 : 0, n, units[unit]);
    return r;
}

bool kernel_at_least(unsigned major, unsigned minor)
{
    struct utsname uts;
    char *end;
    if (uname(&uts) < 0)
        return false;
    unsigned long a = strtoul(uts.release, &end, 10);
    unsigned long b = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
    return a > major || (a == major && b >= minor);
}
