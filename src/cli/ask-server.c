// SPDX-License-Identifier: Apache-2.0
// A server where there is none: `cay serve`, in a session of its own, so that it stays when we go.
// What it says goes to a file in its data directory.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "cli/ask.h"
#include "cli/signals.h"

enum {
    TRY_MS = 20,
    READY_S = 120,   // that it may take; a first start makes the volume for the disks
    OTHERS_S = 5,    // when ours has ended: somebody else may be starting one, too
    LOG_TOLD = 2000, // bytes at most
};

#define LOG_NAME "serve.log"

struct starting {
    struct remote *remote;
    struct ask_show *show;
    char *data; // its path, from the root
    int data_fd;
    off_t log_from; // where what it says begins; earlier ones have said theirs before
    pid_t pid;
    int64_t until_ns;
    bool has_ended;
};

// -- starting

static void give_key(const struct ask_key *key)
{
    if (key->value[0] == '\0')
        return;
    (void)setenv(key->is_bearer ? "ANTHROPIC_AUTH_TOKEN" : "ANTHROPIC_API_KEY", key->value, 1);
    if (key->base_url[0] != '\0')
        (void)setenv("ANTHROPIC_BASE_URL", key->base_url, 1);
}

// A child of a program with one thread: it may do as it likes.
static _Noreturn void be_server(const struct starting *s, int log, const struct ask_key *key)
{
    static char name[] = "cay", serve[] = "serve", flag[] = "--data";
    char *args[] = {name, serve, flag, s->data, NULL};
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)setsid();
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0 ||
        dup2(log, STDERR_FILENO) < 0 || chdir("/") < 0)
        _exit(127);
    give_key(key);
    (void)execv("/proc/self/exe", args);
    _exit(127);
}

static int start(struct starting *s, const struct ask_key *key, struct err *err)
{
    const char *path = data_path(s->remote->data);
    s->data_fd = data_open(path, err);
    if (s->data_fd < 0)
        return -1;
    s->data = realpath(path, NULL);
    if (s->data == NULL)
        return err_sys(err, errno, "the data directory '%.100s'", path);
    auto_fd log =
        openat(s->data_fd, LOG_NAME, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (log < 0)
        return err_sys(err, errno, "open '%.100s/" LOG_NAME "'", s->data);
    s->log_from = lseek(log, 0, SEEK_END);
    s->pid = fork();
    if (s->pid == 0)
        be_server(s, log, key);
    return s->pid < 0 ? err_sys(err, errno, "start the server") : 0;
}

// -- waiting for it

static bool answers(struct starting *s)
{
    struct err ignored;
    auto_answer answer;
    auto_buf target;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "health");
    return remote_do(s->remote, "GET", &target, NULL, &answer, &ignored) == 0;
}

static void look_whether_ended(struct starting *s)
{
    int status;
    if (s->has_ended || waitpid(s->pid, &status, WNOHANG) != s->pid)
        return;
    s->has_ended = true;
    int64_t others = clock_ns() + OTHERS_S * NS_PER_S;
    s->until_ns = others < s->until_ns ? others : s->until_ns;
}

// The end of what it said: the reason stands there.
static void print_log(const struct starting *s)
{
    char text[LOG_TOLD + 1];
    auto_buf plain;
    auto_fd fd = openat(s->data_fd, LOG_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    off_t from = size - LOG_TOLD > s->log_from ? size - LOG_TOLD : s->log_from;
    if (size < 0 || from < 0 || lseek(fd, from, SEEK_SET) < 0)
        return;
    ssize_t n = fd_read_all(fd, text, LOG_TOLD);
    buf_init(&plain, 8 * (size_t)LOG_TOLD);
    if (n > 0)
        (void)text_plain_lines(&plain, text, (size_t)n, NULL);
    (void)fputs(buf_str(&plain), stderr);
}

static int wait_ready(struct starting *s, struct err *err)
{
    s->until_ns = clock_ns() + READY_S * NS_PER_S;
    while (!answers(s)) {
        struct pollfd wake = {.fd = s->show->wake_fd, .events = POLLIN};
        (void)poll(&wake, 1, TRY_MS);
        spinner_tick(&s->show->spinner);
        look_whether_ended(s);
        if (signals_take() != 0) {
            (void)kill(s->pid, SIGTERM);
            return err_set(err, ERR_CONFLICT, "interrupted; the server is ended again");
        }
        if (clock_ns() < s->until_ns)
            continue;
        spinner_stop(&s->show->spinner);
        print_log(s);
        if (!s->has_ended)
            (void)kill(s->pid, SIGTERM);
        return err_set(err, ERR_UNAVAILABLE,
                       "the server did not start; '%.120s/" LOG_NAME "' says why", s->data);
    }
    return 0;
}

static int start_and_wait(struct starting *s, const struct ask_key *key, struct err *err)
{
    if (start(s, key, err) < 0)
        return -1;
    ask_show_wait(s->show, "the server starts");
    int r = wait_ready(s, err);
    spinner_stop(&s->show->spinner);
    look_whether_ended(s);
    if (r < 0)
        return -1;
    if (s->has_ended)
        (void)fprintf(stderr, "cay: a server has just been started by somebody else\n");
    else
        (void)fprintf(stderr,
                      "cay: started a server at %s; it says what it does in %s/" LOG_NAME
                      ", and 'kill %d' stops it\n",
                      s->remote->place.text, s->data, (int)s->pid);
    return 0;
}

// -- whether

bool ask_server_fits(const struct remote *remote)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/cay.sock", data_path(remote->data));
    return strcmp(remote->place.socket, path) == 0;
}

static int confirm(const struct remote *remote, const struct ask_options *options, struct err *err)
{
    char question[512];
    if (geteuid() != 0)
        return err_set(err, ERR_DENIED,
                       "no server at %s, and only root can start one: 'sudo cay serve', or name "
                       "another with --url or CAY_URL",
                       remote->place.text);
    (void)snprintf(question, sizeof question, "No server is running at %s. Start one?",
                   remote->place.text);
    int answer = ask_confirm(options, /*fallback=*/true, question);
    if (answer > 0)
        return 0;
    return err_set(err, ERR_UNAVAILABLE, "no server at %s: %s", remote->place.text,
                   answer < 0 ? "with -y one is started, or start it with 'cay serve'"
                              : "start one with 'cay serve'");
}

int ask_server_start(struct remote *remote, const struct ask_options *options,
                     struct ask_show *show, struct err *err)
{
    struct starting s = {.remote = remote, .show = show, .data_fd = -1, .pid = -1};
    struct ask_key key;
    if (confirm(remote, options, err) < 0)
        return -1;
    int r = ask_key_find(&key, options, err);
    if (r > 0)
        (void)fprintf(stderr, "cay: it gets the key from %s\n", key.from);
    r = r < 0 ? -1 : start_and_wait(&s, &key, err);
    ask_key_forget(&key);
    fd_close(s.data_fd);
    free(s.data);
    return r;
}
