// SPDX-License-Identifier: Apache-2.0
// What stands behind sessions in their test: jobs are children of the test, with real pipes and a
// real bash; rows are an array; a sandbox is hardly more than its loop.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "check.h"
#include "sandbox/session-internal.h"

enum { KIT_ROWS = 80, KIT_SHELLS = 256 };

static struct {
    uv_loop_t loop;
    uv_signal_t child;
    struct fleet fleet;
    struct sandbox s;
    struct job *jobs;
    struct session_row rows[KIT_ROWS];
    unsigned starts;          // shells started
    pid_t shells[KIT_SHELLS]; // and which
    bool no_bash;
} kit;

// --- rows

static struct session_row *kit_row(const char *id)
{
    for (int i = 0; i < KIT_ROWS; i++) {
        if (kit.rows[i].id != NULL && strcmp(kit.rows[i].id, id) == 0)
            return &kit.rows[i];
    }
    return NULL;
}

static void copy_row(struct session_row *to, const struct session_row *from)
{
    struct session_row row = *from;
    row.id = strdup(from->id);
    row.cwd = strdup(from->cwd);
    row.env = strdup(from->env);
    session_row_done(to);
    *to = row;
}

void session_row_done(struct session_row *row)
{
    free(row->id);
    free(row->cwd);
    free(row->env);
    *row = (struct session_row){0};
}

int db_session_put(struct db *db, const struct session_row *row, struct err *err)
{
    (void)db;
    (void)err;
    struct session_row *at = kit_row(row->id);
    for (int i = 0; at == NULL; i++) {
        assert_true(i < KIT_ROWS);
        if (kit.rows[i].id == NULL)
            at = &kit.rows[i];
    }
    copy_row(at, row);
    return 0;
}

int db_session_get(struct db *db, int64_t sandbox, const char *id, struct session_row *ret,
                   struct err *err)
{
    (void)db;
    (void)sandbox;
    (void)err;
    if (kit_row(id) != NULL)
        copy_row(ret, kit_row(id));
    return kit_row(id) != NULL;
}

int db_session_each(struct db *db, int64_t sandbox, db_session_fn fn, void *data, struct err *err)
{
    (void)db;
    (void)sandbox;
    (void)err;
    for (int i = 0; i < KIT_ROWS; i++) {
        if (kit.rows[i].id != NULL && fn(data, &kit.rows[i]) != 0)
            break;
    }
    return 0;
}

int db_session_del(struct db *db, int64_t sandbox, const char *id, struct err *err)
{
    (void)db;
    (void)sandbox;
    (void)err;
    struct session_row *row = kit_row(id);
    if (row != NULL)
        session_row_done(row);
    return row != NULL;
}

int64_t db_now_ms(void)
{
    return (int64_t)time(NULL) * 1000;
}

// --- the sandbox

struct db *fleet_db(struct fleet *fleet)
{
    (void)fleet;
    return NULL;
}

void fleet_count_end(struct fleet *fleet, enum end_reason reason)
{
    (void)fleet;
    assert_true(reason > END_NONE && reason < END_REASON_MAX);
}

void fleet_time(struct fleet *fleet, enum fleet_timing which, int64_t ns)
{
    (void)fleet;
    (void)which;
    assert_true(ns >= 0);
}

void name_make(char *ret, size_t size, const char *prefix)
{
    (void)snprintf(ret, size, "%smade", prefix);
}

bool sandbox_id_valid(const char *id)
{
    return id[0] != '\0' && id[0] != '/';
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

void sandbox_busy(struct sandbox *s)
{
    s->busy++;
}

void sandbox_idle(struct sandbox *s)
{
    assert_true(s->busy-- > 0);
}

uint64_t sandbox_box(const struct sandbox *s)
{
    (void)s;
    return 7;
}

// --- jobs

struct job *box_link_find(const struct box_link *box, uint32_t id)
{
    (void)box;
    struct job *job = kit.jobs;
    while (job != NULL && job->id != id)
        job = job->next;
    return job;
}

static void place(int from, int to)
{
    if (dup2(from, to) < 0)
        _exit(126);
}

static void run_child(const struct exec_spec *spec, const int ends[5])
{
    int high[5];
    (void)setsid();
    for (int i = 0; i < 5; i++) // out of the way
        high[i] = fcntl(ends[i], F_DUPFD, 200);
    place(high[0], 0);
    place(high[1], 1);
    place(high[2], 2);
    place(high[3], GUEST_CONTROL_IN);
    place(high[4], GUEST_CONTROL_OUT);
    (void)close_range(3, GUEST_CONTROL_IN - 1, 0);
    (void)close_range(GUEST_CONTROL_OUT + 1, ~0u, 0);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)execve(spec->argv[0], (char **)(uintptr_t)spec->argv, (char **)(uintptr_t)spec->envp);
    _exit(127);
}

static int make_pipe(int ends[2])
{
    return pipe2(ends, O_CLOEXEC);
}

static void job_begin(uv_timer_t *timer)
{
    struct job *job = timer->data;
    struct err err = {0};
    uv_close((uv_handle_t *)timer, (uv_close_cb)free);
    if (!kit.no_bash) {
        job->events->started(job->data, job);
        return;
    }
    job->state = JOB_ENDED;
    job->events->failed(job->data, (err_sys(&err, ENOENT, "start it"), &err));
}

struct job *job_start(struct sandbox *s, const struct exec_spec *spec, int64_t timeout_ms,
                      const struct job_events *events, void *data, struct err *err)
{
    static uint32_t next_id;
    int out[2], errs[2], in[2], control[2];
    struct job *job = calloc(1, sizeof *job);
    uv_timer_t *timer = calloc(1, sizeof *timer);
    (void)s;
    (void)err;
    assert_int_equal(timeout_ms, 0);
    assert_true(job != NULL && timer != NULL);
    assert_true(make_pipe(out) + make_pipe(errs) + make_pipe(in) + make_pipe(control) == 0);
    auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int ends[5] = {null, out[1], errs[1], in[0], control[1]};
    pid_t pid = fork();
    if (pid == 0)
        run_child(spec, ends);
    for (int i = 1; i < 5; i++)
        fd_close(ends[i]);
    *job = (struct job){.id = ++next_id, .pid = pid, .events = events, .data = data};
    job->state = JOB_RUNNING;
    job->streams = (struct job_streams){out[0], errs[0], -1, in[1], control[0]};
    const int ours[] = {out[0], errs[0], in[1], control[0]};
    for (int i = 0; i < 4; i++)
        (void)fd_set_nonblock(ours[i], 1);
    job->next = kit.jobs;
    kit.jobs = job;
    assert_true(kit.starts < KIT_SHELLS);
    kit.shells[kit.starts++] = pid;
    timer->data = job;
    (void)uv_timer_init(&kit.loop, timer);
    (void)uv_timer_start(timer, job_begin, 0, 0);
    return job;
}

static void on_child(uv_signal_t *handle, int sig)
{
    (void)handle;
    (void)sig;
    for (struct job *job = kit.jobs, *next; job != NULL; job = next) {
        int status;
        next = job->next;
        if (job->state != JOB_RUNNING || waitpid(job->pid, &status, WNOHANG) != job->pid)
            continue;
        job->state = JOB_ENDED;
        struct job_end end = {
            .reason = WIFEXITED(status) ? END_EXIT : END_SIGNAL,
            .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
        };
        if (job->events != NULL)
            job->events->exited(job->data, &end);
    }
}

uint32_t job_id(const struct job *job)
{
    return job->id;
}

struct guest_peer job_guest(const struct job *job)
{
    (void)job;
    return (struct guest_peer){.sock = 0, .version = WIRE_VERSION};
}

struct job_streams *job_streams(struct job *job)
{
    return &job->streams;
}

// Every process of the job's session that was started at `ticks` or later.
static void kill_since(const struct job *job, uint64_t ticks, int with_first)
{
    DIR *dir = opendir("/proc");
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[300], text[512];
        int pid = (int)strtol(e->d_name, NULL, 10), session = 0;
        unsigned long long start = 0;
        (void)snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
        if (pid <= 1 || fd_read_file(AT_FDCWD, path, text, sizeof text) <= 0)
            continue;
        if (sscanf(strrchr(text, ')') + 2,
                   "%*c %*d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
                   "%llu",
                   &session, &start) != 2)
            continue;
        if (session == job->pid && (with_first || pid != job->pid) && start >= ticks)
            (void)kill(pid, SIGKILL);
    }
    (void)closedir(dir);
}

int guest_send_signal_first(struct guest_peer guest, uint32_t id, int sig, struct err *err)
{
    (void)guest;
    (void)err;
    const struct job *job = box_link_find(NULL, id);
    return job != NULL && job->state == JOB_RUNNING ? kill(job->pid, sig) : 0;
}

int guest_send_signal_since(struct guest_peer guest, uint32_t id, int sig, uint64_t since,
                            uint32_t since_pid, struct err *err)
{
    (void)guest;
    (void)err;
    (void)sig;
    const struct job *job = box_link_find(NULL, id);
    if (job != NULL) // numbers decide in the guest; here a test leaves a tick between
        kill_since(job, since / 10000000 + (since_pid != 0), 0);
    return 0;
}

void job_kill(struct job *job)
{
    if (job->state == JOB_RUNNING)
        kill_since(job, 0, 1);
}

void job_forget(struct job *job)
{
    (void)job;
}

void job_free(struct job *job)
{
    if (job == NULL)
        return;
    for (struct job **p = &kit.jobs; *p != NULL; p = &(*p)->next) {
        if (*p == job) {
            *p = job->next;
            break;
        }
    }
    if (job->state == JOB_RUNNING) {
        kill_since(job, 0, 1);
        (void)waitpid(job->pid, NULL, 0);
    }
    const int fds[] = {job->streams.out, job->streams.err, job->streams.control_in,
                       job->streams.control_out};
    for (int i = 0; i < 4; i++)
        fd_close(fds[i]);
    free(job);
}

struct job *job_adopt(struct sandbox *s, uint32_t id, const struct job_events *events, void *data)
{
    (void)s;
    struct job *job = box_link_find(NULL, id);
    if (job != NULL) {
        job->events = events;
        job->data = data;
    }
    return job;
}

// --- a case

static int kit_begin(void **state)
{
    (void)state;
    memset(&kit, 0, sizeof kit);
    assert_int_equal(uv_loop_init(&kit.loop), 0);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)uv_signal_init(&kit.loop, &kit.child);
    (void)uv_signal_start(&kit.child, on_child, SIGCHLD);
    uv_unref((uv_handle_t *)&kit.child);
    kit.fleet.config.loop = &kit.loop;
    kit.s.fleet = &kit.fleet;
    kit.s.row.number = 1;
    kit.s.row.id = (char *)(uintptr_t) "test";
    static char *no_env[] = {NULL};
    kit.s.env = no_env;
    kit.s.refs = 1;
    return 0;
}

static int kit_end(void **state)
{
    (void)state;
    sessions_forget(&kit.s);
    while (kit.jobs != NULL)
        job_free(kit.jobs);
    for (unsigned i = 0; i < kit.starts; i++) // what shells that were replaced have left running
        kill_since(&(struct job){.pid = kit.shells[i]}, 0, 1);
    uv_close((uv_handle_t *)&kit.child, NULL);
    (void)uv_run(&kit.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&kit.loop), 0);
    for (int i = 0; i < KIT_ROWS; i++)
        session_row_done(&kit.rows[i]);
    assert_int_equal(kit.s.busy, 0);
    assert_int_equal(kit.s.refs, 1);
    return 0;
}

struct kit_answer {
    bool done, terminated, truncated;
    struct job_end end;
    char out[70000], err[4096];
    size_t out_len;
    struct err failure;
};

static void on_answer(void *data, struct session_result *result, const struct err *err)
{
    struct kit_answer *a = data;
    assert_false(a->done);
    a->done = true;
    if (err != NULL) {
        a->failure = *err;
        return;
    }
    a->terminated = result->terminated;
    a->truncated = result->exec.truncated;
    a->end = result->exec.end;
    a->out_len = result->exec.out->len;
    size_t n = a->out_len < sizeof a->out - 1 ? a->out_len : sizeof a->out - 1;
    if (n > 0)
        memcpy(a->out, result->exec.out->data, n);
    (void)snprintf(a->err, sizeof a->err, "%s", buf_str(result->exec.err));
}

static void kit_late(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

// Runs the loop until the flag is set; a test that waits in vain fails.
static void kit_await(const bool *flag)
{
    bool late = false;
    uv_timer_t timer = {.data = &late};
    (void)uv_timer_init(&kit.loop, &timer);
    uv_update_time(&kit.loop);
    (void)uv_timer_start(&timer, kit_late, 30000, 0);
    while (!*flag && !late)
        (void)uv_run(&kit.loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    (void)uv_run(&kit.loop, UV_RUN_NOWAIT);
    if (late)
        fail_msg("waited in vain");
}

static void kit_make(const char *id, const char *cwd, const char *env)
{
    struct session_row row = {0};
    struct err err = {0};
    assert_int_equal(session_create(&kit.s, id, cwd, env, &row, &err), 0);
    session_row_done(&row);
}

static struct kit_answer *kit_ask(const struct session_request *request)
{
    static struct kit_answer answer;
    struct err err = {0};
    memset(&answer, 0, sizeof answer);
    if (session_exec(&kit.s, "a", request, on_answer, &answer, &err) == NULL)
        fail_msg("%s", err.msg);
    kit_await(&answer.done);
    return &answer;
}

static struct kit_answer *kit_run(const char *command)
{
    return kit_ask(&(struct session_request){.command = command});
}

static void kit_sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}
