// SPDX-License-Identifier: Apache-2.0
// What processes stand on, for their test: a box whose programs are real children with real pipes,
// rows in an array, and a sandbox that counts. A "daemon" may be dropped and come back: the fake
// guest keeps the pipes' ends and how a program ended, as the real one does.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "check.h"
#include "sandbox/process-internal.h"

enum { FAKE_EXECS = 512, FAKE_ROWS = 512, FAKE_BOX = 5 };

struct fake_exec { // of the guest
    uint32_t id;
    uint32_t flags;
    pid_t pid;
    int out, err, in; // what the guest keeps
    bool told_start, ended, told_end, forgotten;
    int status, failed;
    struct job *job; // the owner's; NULL: none
};

static struct {
    uv_loop_t loop;
    struct fleet fleet;
    struct sandbox sandbox;
    struct fake_exec execs[FAKE_EXECS];
    uint32_t n_execs;
    struct process_row rows[FAKE_ROWS];
    size_t n_rows;
    int64_t next_log;
    bool fail_add, fail_started, fail_end;
    unsigned counted[END_REASON_MAX];
    unsigned events;
    char event[512];  // the last one
    int64_t deadline; // last one that was set
    bool hold;        // starts are not told
    uint32_t told;    // whose rest was to be ended last
    char dir[64];
} fake;

// --- jobs

static inline struct fake_exec *fake_exec_of(const struct job *job)
{
    return &fake.execs[job->id];
}

static inline struct job *fake_job_new(struct fake_exec *e, const struct job_events *events,
                                       void *data)
{
    struct job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    job->id = e->id;
    job->events = events;
    job->data = data;
    job->streams = (struct job_streams){-1, -1, -1, -1, -1};
    e->job = job;
    return job;
}

static inline int fake_again(int fd) // another descriptor of the same end
{
    int copy = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
    if (copy >= 0)
        (void)fd_set_nonblock(copy, 1);
    return copy;
}

static inline void fake_streams(const struct fake_exec *e, struct job *job)
{
    job->pid = e->pid;
    job->streams.out = fake_again(e->out);
    job->streams.err = fake_again(e->err);
    job->streams.in = fake_again(e->in);
}

static inline void fake_spawn(struct fake_exec *e, const struct exec_spec *spec)
{
    int out[2], err[2], in[2] = {-1, -1};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    if (spec->flags & GUEST_EXEC_STDIN)
        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    (void)posix_spawn_file_actions_init(&actions);
    if (in[0] >= 0)
        (void)posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    else
        (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    (void)posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    (void)posix_spawnattr_init(&attr);
    sigset_t defaults;
    (void)sigemptyset(&defaults);
    (void)sigaddset(&defaults, SIGPIPE);
    (void)posix_spawnattr_setsigdefault(&attr, &defaults);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    union {
        const char *const *in;
        char *const *out;
    } argv = {spec->argv}, envp = {spec->envp};
    e->failed = posix_spawn(&e->pid, spec->argv[0], &actions, &attr, argv.out, envp.out);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attr);
    fd_close(out[1]);
    fd_close(err[1]);
    fd_close(in[0]);
    e->out = out[0];
    e->err = err[0];
    e->in = in[1];
}

struct job *job_start(struct sandbox *s, const struct exec_spec *spec, int64_t timeout_ms,
                      const struct job_events *events, void *data, struct err *err)
{
    assert_int_equal(spec->flags & (GUEST_EXEC_KEEP | GUEST_EXEC_KEEP_EXIT),
                     GUEST_EXEC_KEEP | GUEST_EXEC_KEEP_EXIT);
    if (s->box == NULL) {
        (void)err_set(err, ERR_UNAVAILABLE, "no box");
        return NULL;
    }
    struct fake_exec *e = &fake.execs[++fake.n_execs];
    assert_true(fake.n_execs < FAKE_EXECS);
    *e = (struct fake_exec){.id = fake.n_execs, .flags = spec->flags};
    fake_spawn(e, spec);
    fake.deadline = timeout_ms;
    return fake_job_new(e, events, data);
}

uint32_t job_id(const struct job *job)
{
    return job->id;
}

int job_pid(const struct job *job)
{
    return job->pid;
}

struct job_streams *job_streams(struct job *job)
{
    return &job->streams;
}

int job_signal(struct job *job, int signal, struct err *err)
{
    if (kill(-fake_exec_of(job)->pid, signal) < 0)
        return err_sys(err, errno, "signal");
    return 0;
}

struct guest_peer box_link_guest(const struct box_link *box)
{
    assert_non_null(box);
    return (struct guest_peer){.sock = -1};
}

int guest_send_signal(struct guest_peer guest, uint32_t id, int signal, struct err *err)
{
    (void)guest;
    (void)err;
    assert_int_equal(signal, SIGKILL);
    fake.told = id;
    return 0;
}

void job_kill(struct job *job)
{
    job->killed = true;
    (void)kill(-fake_exec_of(job)->pid, SIGKILL);
}

void job_set_deadline(struct job *job, int64_t timeout_ms)
{
    (void)job;
    fake.deadline = timeout_ms;
}

void job_close_stdin(struct job *job)
{
    struct fake_exec *e = fake_exec_of(job);
    fd_close(TAKE_FD(job->streams.in));
    fd_close(TAKE_FD(e->in));
}

static inline void fake_forget(struct fake_exec *e)
{
    e->forgotten = true;
    fd_close(TAKE_FD(e->out));
    fd_close(TAKE_FD(e->err));
    fd_close(TAKE_FD(e->in));
}

void job_forget(struct job *job)
{
    fake_forget(fake_exec_of(job));
}

void job_free(struct job *job)
{
    if (job == NULL)
        return;
    fake_exec_of(job)->job = NULL;
    fd_close(job->streams.out);
    fd_close(job->streams.err);
    fd_close(job->streams.in);
    free(job);
}

struct job *job_adopt(struct sandbox *s, uint32_t id, const struct job_events *events, void *data)
{
    (void)s;
    struct fake_exec *e = id <= fake.n_execs ? &fake.execs[id] : NULL;
    if (e == NULL || e->id == 0 || e->forgotten)
        return NULL;
    assert_null(e->job);
    struct job *job = fake_job_new(e, events, data);
    e->told_end = false;
    fake_streams(e, job);
    return job;
}

static inline void fake_tell_start(struct fake_exec *e)
{
    struct job *job = e->job;
    e->told_start = true;
    if (e->failed != 0) {
        struct err err = {0};
        (void)err_set(&err, ERR_NOT_FOUND, "cannot start it");
        fake_forget(e);
        job->events->failed(job->data, &err);
        return;
    }
    fake_streams(e, job);
    if (!(e->flags & GUEST_EXEC_KEEP_STDIN))
        fd_close(TAKE_FD(e->in));
    job->events->started(job->data, job);
}

static inline void fake_tell_end(struct fake_exec *e)
{
    struct job *job = e->job;
    bool by_signal = WIFSIGNALED(e->status);
    struct job_end end = {
        .reason = job->killed ? END_KILLED
                  : by_signal ? END_SIGNAL
                              : END_EXIT,
        .exit_code = by_signal ? -1 : WEXITSTATUS(e->status),
        .signal = by_signal ? WTERMSIG(e->status) : 0,
    };
    e->told_end = true;
    job->events->exited(job->data, &end);
}

// The box goes, with all that runs in it.
static inline void fake_lose_box(void)
{
    for (uint32_t i = 1; i <= fake.n_execs; i++) {
        struct fake_exec *e = &fake.execs[i];
        struct job *job = e->job;
        if (e->failed == 0 && !e->ended) {
            (void)kill(-e->pid, SIGKILL);
            (void)waitpid(e->pid, &e->status, 0);
            e->ended = true;
        }
        if (!e->forgotten)
            fake_forget(e);
        if (job != NULL) {
            const struct job_end end = {.reason = END_BOX_LOST, .exit_code = -1};
            job->events->lost(job->data, &end);
        }
    }
}

// Starts are told last, so that whoever waits for one comes before anything else happens to it.
static inline void fake_turn(void)
{
    for (uint32_t i = 1; i <= fake.n_execs; i++) {
        struct fake_exec *e = &fake.execs[i];
        if (!e->ended && e->failed == 0 && waitpid(e->pid, &e->status, WNOHANG) == e->pid)
            e->ended = true;
        if (e->job != NULL && e->told_start && e->ended && !e->told_end)
            fake_tell_end(e);
    }
    (void)uv_run(&fake.loop, UV_RUN_NOWAIT);
    const struct timespec pause = {.tv_nsec = 200000};
    (void)nanosleep(&pause, NULL);
    for (uint32_t i = 1; i <= fake.n_execs && !fake.hold; i++) {
        if (fake.execs[i].job != NULL && !fake.execs[i].told_start)
            fake_tell_start(&fake.execs[i]);
    }
}

// --- rows

static inline char *fake_text(const char *text)
{
    return text != NULL ? strdup(text) : NULL;
}

static inline struct process_row *fake_row(const char *id)
{
    for (size_t i = 0; i < fake.n_rows; i++) {
        if (strcmp(fake.rows[i].id, id) == 0)
            return &fake.rows[i];
    }
    return NULL;
}

static inline struct process_row fake_row_copy(const struct process_row *row)
{
    struct process_row copy = *row;
    copy.id = fake_text(row->id);
    copy.command = fake_text(row->command);
    copy.cwd = fake_text(row->cwd);
    return copy;
}

void process_row_done(struct process_row *row)
{
    free(row->id);
    free(row->command);
    free(row->cwd);
    *row = (struct process_row){0};
}

int db_process_add(struct db *db, struct process_row *row, struct err *err)
{
    (void)db;
    if (fake.fail_add)
        return err_set(err, ERR_INTERNAL, "disk full");
    if (fake_row(row->id) != NULL)
        return err_set(err, ERR_CONFLICT, "there");
    assert_true(fake.n_rows < FAKE_ROWS);
    row->log = ++fake.next_log;
    fake.rows[fake.n_rows++] = fake_row_copy(row);
    return 0;
}

int db_process_get(struct db *db, int64_t sandbox, const char *id, struct process_row *ret,
                   struct err *err)
{
    const struct process_row *row = fake_row(id);
    (void)db, (void)sandbox, (void)err;
    if (row == NULL)
        return 0;
    *ret = fake_row_copy(row);
    return 1;
}

int db_process_started(struct db *db, const struct process_row *row, struct err *err)
{
    struct process_row *mine = fake_row(row->id);
    (void)db;
    if (fake.fail_started)
        return err_set(err, ERR_INTERNAL, "disk full");
    assert_non_null(mine);
    mine->box = row->box;
    mine->exec = row->exec;
    mine->pid = row->pid;
    return 0;
}

int db_process_end(struct db *db, const struct process_row *row, struct err *err)
{
    struct process_row *mine = fake_row(row->id);
    (void)db;
    if (fake.fail_end)
        return err_set(err, ERR_INTERNAL, "disk full");
    assert_non_null(mine);
    mine->reason = row->reason;
    mine->exit_code = row->exit_code;
    mine->signal = row->signal;
    mine->ended_ms = row->ended_ms;
    return 0;
}

int db_process_each(struct db *db, int64_t sandbox, db_process_fn fn, void *data, struct err *err)
{
    (void)db, (void)sandbox, (void)err;
    for (size_t i = 0; i < fake.n_rows; i++) {
        if (fn(data, &fake.rows[i]) != 0)
            break;
    }
    return 0;
}

int db_process_del(struct db *db, int64_t sandbox, const char *id, struct err *err)
{
    struct process_row *row = fake_row(id);
    (void)db, (void)sandbox, (void)err;
    if (row == NULL)
        return 0;
    process_row_done(row);
    memmove(row, row + 1, (size_t)(&fake.rows[--fake.n_rows] - row) * sizeof *row);
    return 1;
}

int64_t db_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

const char *end_reason_name(enum end_reason reason)
{
    return reason == END_EXIT ? "exit" : "other";
}

// --- the sandbox

struct sandbox *sandbox_ref(struct sandbox *s)
{
    s->refs++;
    return s;
}

void sandbox_unref(struct sandbox *s)
{
    assert_true(s->refs > 0);
    if (--s->refs == 0)
        processes_forget(s);
}

uint64_t sandbox_box(const struct sandbox *s)
{
    return s->box != NULL ? FAKE_BOX : 0;
}

void sandbox_busy(struct sandbox *s)
{
    s->busy++;
}

void sandbox_idle(struct sandbox *s)
{
    assert_true(s->busy > 0);
    s->busy--;
}

void sandbox_event(struct sandbox *s, const char *type, const char *data)
{
    (void)s;
    fake.events++;
    (void)snprintf(fake.event, sizeof fake.event, "%s %s", type, data);
}

bool sandbox_id_valid(const char *id)
{
    return id[0] != '\0' && strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(id);
}

int fleet_logs_fd(const struct fleet *fleet)
{
    return fleet->config.logs_fd;
}

uint64_t fleet_process_log(const struct fleet *fleet)
{
    return fleet->config.process_log;
}

uv_loop_t *fleet_loop(struct fleet *fleet)
{
    return fleet->config.loop;
}

struct db *fleet_db(struct fleet *fleet)
{
    return fleet->config.db;
}

void fleet_count_end(struct fleet *fleet, enum end_reason reason)
{
    (void)fleet;
    fake.counted[reason]++;
}

// --- before and after a case

static inline void fake_init(uint64_t cap)
{
    static char box;
    memset(&fake, 0, sizeof fake);
    (void)signal(SIGPIPE, SIG_IGN);
    assert_int_equal(uv_loop_init(&fake.loop), 0);
    memcpy(fake.dir, "/tmp/process-XXXXXX", sizeof "/tmp/process-XXXXXX");
    assert_non_null(mkdtemp(fake.dir));
    fake.fleet.config.loop = &fake.loop;
    fake.fleet.config.logs_fd = open(fake.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fake.fleet.config.process_log = cap;
    fake.sandbox.fleet = &fake.fleet;
    fake.sandbox.row.number = 1;
    fake.sandbox.row.id = strdup("a");
    fake.sandbox.refs = 1;
    fake.sandbox.box = (struct box_link *)(void *)&box;
}

static inline int fake_log_files(void)
{
    int n = 0;
    DIR *dir = opendir(fake.dir);
    assert_non_null(dir);
    for (struct dirent *d; (d = readdir(dir)) != NULL;)
        n += strstr(d->d_name, ".out") != NULL || strstr(d->d_name, ".err") != NULL;
    (void)closedir(dir);
    return n;
}

// Everything must be given back by what the case has done, but for what runs.
static inline void fake_done(void)
{
    fake_lose_box();
    for (int i = 0; i < 10 || (i < 150000 && fake.sandbox.refs > 1); i++)
        fake_turn(); // until the last of its programs is dead and its pipes have ended
    assert_int_equal(fake.sandbox.refs, 1);
    assert_int_equal(fake.sandbox.busy, 0);
    processes_destroy(&fake.sandbox);
    assert_int_equal(fake.sandbox.refs, 1);
    assert_int_equal(fake.n_rows, 0);
    assert_int_equal(fake_log_files(), 0);
    (void)uv_run(&fake.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&fake.loop), 0);
    fd_close(fake.fleet.config.logs_fd);
    free(fake.sandbox.row.id);
    char command[128];
    (void)snprintf(command, sizeof command, "%s/ref", fake.dir);
    (void)unlink(command);
    (void)snprintf(command, sizeof command, "%s/fifo", fake.dir);
    (void)unlink(command);
    assert_int_equal(rmdir(fake.dir), 0);
}
