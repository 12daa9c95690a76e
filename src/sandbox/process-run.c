// SPDX-License-Identifier: Apache-2.0
// A process from its start to its end. The row comes first, without a box; then the program; then
// the row learns where it runs, and only then is anybody told. A daemon that dies in between leaves
// a row that names no box, and the next one says that the process is lost.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/json.h"
#include "base/log.h"
#include "box/limits.h"
#include "sandbox/process-internal.h"

enum {
    STDIN_QUEUE_MAX = 1024 * 1024,
    ID_RANDOM = 8, // letters
    ID_TRIES = 4,
    SIGNAL_MAX = 64,
    EVENT_MAX = 2048,
};

static void set_awake(struct process *p, bool on)
{
    if (p->awake == on)
        return;
    p->awake = on;
    if (on)
        sandbox_busy(p->s);
    else
        sandbox_idle(p->s);
}

// --- the end

static void tell_event(struct sandbox *s, const struct process_row *row)
{
    auto_buf buf;
    struct json json;
    buf_init(&buf, EVENT_MAX);
    json_init(&json, &buf);
    json_open_object(&json);
    json_key(&json, "id");
    json_put_str(&json, row->id);
    json_key(&json, "reason");
    json_put_str(&json, end_reason_name(row->reason));
    json_key(&json, "exitCode");
    if (row->exit_code >= 0)
        json_put_int(&json, row->exit_code);
    else
        json_put_null(&json);
    if (row->signal > 0) {
        json_key(&json, "signal");
        json_put_int(&json, row->signal);
    }
    json_key(&json, "duration");
    json_put_int(&json, row->ended_ms - row->started_ms);
    json_close_object(&json);
    if (json_finish(&json) == 0)
        sandbox_event(s, "process_exited", buf_str(&buf));
}

static void count_end(struct sandbox *s, const struct process_row *row)
{
    processes_of(s)->ended++;
    fleet_count_end(s->fleet, row->reason);
    tell_event(s, row);
}

// What the program wrote is in the log before its end is in the row, and that before the guest may
// forget it: a daemon that dies on the way finds the end again, and the rest of the output.
static void finish(struct process *p, const struct job_end *end)
{
    struct sandbox *s = sandbox_ref(p->s);
    (void)process_ref(p);
    for (enum log_stream i = 0; i < LOG_STREAMS; i++)
        pump_drain(p, i);
    feed_close(p);
    if (process_row_end(s, &p->row, end))
        job_forget(p->job);
    job_free(p->job);
    p->job = NULL;
    processes_of(s)->running--;
    set_awake(p, false);
    count_end(s, &p->row);
    process_tell(p, /*deleted=*/false);
    process_settle(p);
    process_unref(p);
    processes_trim_later(s);
    sandbox_unref(s);
}

// --- the start

// It did not come to life: nothing of it stays.
static void fail_start(struct process *p, const struct err *err)
{
    process_fn fn = p->fn;
    void *data = p->data;
    struct err copy = *err;
    p->fn = NULL;
    job_free(p->job);
    p->job = NULL;
    processes_of(p->s)->running--;
    set_awake(p, false);
    process_erase(p);
    fn(data, NULL, &copy);
}

static void open_streams(struct process *p)
{
    struct job_streams *streams = job_streams(p->job);
    int *outputs[LOG_STREAMS] = {[LOG_STDOUT] = &streams->out, [LOG_STDERR] = &streams->err};
    if (p->row.tty != NULL) // one for each direction: the loop polls a descriptor only once
        streams->in = fcntl(streams->out, F_DUPFD_CLOEXEC, 3);
    for (enum log_stream i = 0; i < LOG_STREAMS; i++) {
        pump_open(p, i, *outputs[i]);
        *outputs[i] = -1;
    }
    int in = streams->in;
    streams->in = -1;
    if (p->feed != NULL || in >= 0)
        feed_open(p, in);
}

static void on_started(void *data, struct job *job)
{
    struct process *p = data;
    struct err err = {0};
    p->job = job;
    p->row.box = (int64_t)sandbox_box(p->s);
    p->row.exec = job_id(job);
    p->row.pid = job_pid(job);
    if (db_process_started(fleet_db(p->s->fleet), &p->row, &err) < 0) {
        job_kill(job);
        fail_start(p, &err);
        return;
    }
    process_fn fn = p->fn;
    p->fn = NULL;
    open_streams(p);
    fn(p->data, p, NULL);
}

static void on_failed(void *data, const struct err *err)
{
    fail_start(data, err);
}

static void on_exited(void *data, const struct job_end *end)
{
    finish(data, end);
}

static void on_lost(void *data, const struct job_end *end)
{
    struct process *p = data;
    struct err err = {0};
    if (p->fn == NULL) {
        finish(p, end);
        return;
    }
    (void)err_set(&err, ERR_UNAVAILABLE, "the sandbox stopped while the process was starting");
    fail_start(p, &err);
}

static const struct job_events events = {
    .started = on_started,
    .failed = on_failed,
    .exited = on_exited,
    .lost = on_lost,
};

void process_drop_job(struct process *p)
{
    if (p->job == NULL)
        return;
    job_free(p->job);
    p->job = NULL;
    processes_of(p->s)->running--;
    set_awake(p, false);
    if (p->fn != NULL) {
        struct err err = {0};
        process_fn fn = p->fn;
        p->fn = NULL;
        (void)err_set(&err, ERR_UNAVAILABLE, "the sandbox is going away");
        fn(p->data, NULL, &err);
    }
}

static int make_id(char id[static 2 + ID_RANDOM + 1], struct err *err)
{
    static const char letters[32] = "abcdefghijklmnopqrstuvwxyz234567";
    uint8_t random[ID_RANDOM];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_sys(err, errno, "make up an id");
    memcpy(id, "p-", 2);
    for (size_t i = 0; i < ID_RANDOM; i++)
        id[2 + i] = letters[random[i] % 32];
    id[2 + ID_RANDOM] = '\0';
    return 0;
}

static char *text_copy(const char *text)
{
    char *copy = strdup(text != NULL ? text : "");
    if (copy == NULL)
        abort();
    return copy;
}

static int add_row(struct sandbox *s, const struct process_request *request, const char *id,
                   struct process_row *ret, struct err *err)
{
    int64_t now = db_now_ms();
    int64_t timeout = request->exec.timeout_ms;
    struct process_row row = {
        .sandbox = s->row.number,
        .id = text_copy(id),
        .command = text_copy(request->command),
        .cwd = text_copy(request->exec.cwd),
        .tty = request->tty != NULL ? text_copy(request->tty) : NULL,
        .note = request->note != NULL ? text_copy(request->note) : NULL,
        .keep_awake = request->keep_awake,
        .deadline_ms = timeout > 0 ? now + timeout : 0,
        .exit_code = -1,
        .started_ms = now,
    };
    if (db_process_add(fleet_db(s->fleet), &row, err) < 0) {
        process_row_done(&row);
        return -1;
    }
    *ret = row;
    return 0;
}

static int add_named_row(struct sandbox *s, const struct process_request *request,
                         struct process_row *ret, struct err *err)
{
    char id[2 + ID_RANDOM + 1];
    if (request->id != NULL) {
        if (!sandbox_id_valid(request->id))
            return err_set(err, ERR_INVALID,
                           "a process id has 1 to 128 letters, digits, '.', '_' and '-'");
        if (add_row(s, request, request->id, ret, err) == 0)
            return 0;
        return err->code == ERR_CONFLICT
                   ? err_set(err, ERR_CONFLICT, "there is a process '%s' already", request->id)
                   : -1;
    }
    for (int i = 0; i < ID_TRIES; i++) {
        if (make_id(id, err) < 0)
            return -1;
        if (add_row(s, request, id, ret, err) == 0)
            return 0;
        if (err->code != ERR_CONFLICT)
            return -1;
    }
    return -1;
}

int process_open_log(struct process *p, enum log_stream stream, struct err *err)
{
    const struct fleet *fleet = p->s->fleet;
    if (p->logs[stream] != NULL)
        return 0;
    return bytelog_open(fleet_logs_fd(fleet), p->row.log, stream, fleet_process_log(fleet),
                        /*make=*/true, &p->logs[stream], err);
}

// Its log has a spool before it. Those of pipes are made when there is something to write.
static int open_terminal_log(struct process *p, struct err *err)
{
    if (p->row.tty == NULL)
        return 0;
    if (process_open_log(p, LOG_STDOUT, err) < 0)
        return -1;
    return p->spool != NULL ? 0
                            : spool_open(fleet_logs_fd(p->s->fleet), p->row.log,
                                         p->logs[LOG_STDOUT], &p->spool, err);
}

// Standard input that comes with the request waits in the feed until there is a pipe.
static int prepare_feed(struct process *p, const struct process_request *request, struct err *err)
{
    const struct exec_request *exec = &request->exec;
    if (request->tty != NULL)
        p->feed = feed_new(STDIN_QUEUE_MAX);
    if (request->tty != NULL || (exec->stdin_data == NULL && !request->keep_stdin))
        return 0;
    p->feed = feed_new(exec->stdin_len > STDIN_QUEUE_MAX ? exec->stdin_len : STDIN_QUEUE_MAX);
    return feed_write(p, exec->stdin_data, exec->stdin_data != NULL ? exec->stdin_len : 0,
                      /*end=*/!request->keep_stdin, err);
}

static struct job *ask(struct process *p, const struct process_request *request, struct err *err)
{
    const struct exec_request *exec = &request->exec;
    struct exec_spec spec = {
        .cwd = exec->cwd,
        .argv = exec->argv,
        .envp = exec->envp,
        .uid = exec->uid,
        .gid = exec->gid,
        .files = LIMIT_FILES_DEFAULT,
        .flags = GUEST_EXEC_KEEP | GUEST_EXEC_KEEP_EXIT,
    };
    if (request->tty != NULL)
        spec.flags |= GUEST_EXEC_TTY;
    else if (p->feed != NULL)
        spec.flags |= GUEST_EXEC_STDIN;
    if (request->keep_stdin && request->tty == NULL)
        spec.flags |= GUEST_EXEC_KEEP_STDIN;
    spec.rows = request->rows;
    spec.cols = request->cols;
    return job_start(p->s, &spec, exec->timeout_ms, &events, p, err);
}

static void begin_life(struct process *p)
{
    p->alive = true;
    (void)process_ref(p);
    processes_of(p->s)->running++;
    set_awake(p, p->row.keep_awake);
}

void process_start(struct sandbox *s, const struct process_request *request, process_fn fn,
                   void *data)
{
    struct err err = {0};
    struct process_row row = {0};
    if (processes_of(s)->running >= PROCESS_RUNNING_MAX) {
        (void)err_set(&err, ERR_EXHAUSTED, "%d processes run in the sandbox: end one first",
                      PROCESS_RUNNING_MAX);
        fn(data, NULL, &err);
        return;
    }
    if (add_named_row(s, request, &row, &err) < 0) {
        fn(data, NULL, &err);
        return;
    }
    struct process *p = process_new(s, &row);
    p->fn = fn;
    p->data = data;
    begin_life(p);
    if (open_terminal_log(p, &err) < 0 || prepare_feed(p, request, &err) < 0 ||
        (p->job = ask(p, request, &err)) == NULL)
        fail_start(p, &err);
}

// --- while it runs

static int not_running(const struct process *p, struct err *err)
{
    if (p->s != NULL && p->row.reason == END_NONE)
        return err_set(err, ERR_UNAVAILABLE, "the process cannot be reached now");
    return err_set(err, ERR_CONFLICT, "the process has ended");
}

int process_signal(struct process *p, int signal, struct err *err)
{
    if (signal < 1 || signal > SIGNAL_MAX)
        return err_set(err, ERR_INVALID, "signals are 1 to %d", SIGNAL_MAX);
    return p->job != NULL ? job_signal(p->job, signal, err) : not_running(p, err);
}

void process_end_rest(struct process *p)
{
    struct err ignored; // a box that cannot be told has ended, or will be by whoever waits for it
    if (p->s == NULL || p->job != NULL || p->row.exec == 0 || p->s->box == NULL ||
        p->row.box != (int64_t)sandbox_box(p->s))
        return;
    (void)guest_send_signal(box_link_guest(p->s->box), (uint32_t)p->row.exec, SIGKILL, &ignored);
}

int process_stdin(struct process *p, const void *data, size_t len, bool end, struct err *err)
{
    if (p->job == NULL)
        return not_running(p, err);
    if (p->feed == NULL)
        return err_set(err, ERR_CONFLICT, "the process has no standard input, or it is closed");
    if (end && p->row.tty != NULL)
        return err_set(err, ERR_CONFLICT,
                       "a terminal's input has no end: programs take the byte 4 (Ctrl-D) for it");
    return feed_write(p, data, len, end, err);
}

// --- after a restart

static void adopt_lost(struct sandbox *s, struct process *p, const char *why)
{
    const struct job_end end = {.reason = END_BOX_LOST, .exit_code = -1};
    log_line(LOG_WARN, "a process is lost", "sandbox", s->row.id, "process", p->row.id, "why", why,
             NULL);
    (void)process_row_end(s, &p->row, &end);
    count_end(s, &p->row);
    process_tell(p, /*deleted=*/false);
}

// The deadline is of the clock on the wall: what passed while nobody looked counts.
static void restore_deadline(const struct process *p)
{
    if (p->row.deadline_ms == 0)
        return;
    int64_t left = p->row.deadline_ms - db_now_ms();
    job_set_deadline(p->job, left > 1 ? left : 1);
}

static void adopt_one(struct sandbox *s, struct process *p)
{
    struct err err = {0};
    if (p->row.exec == 0 || p->row.box != (int64_t)sandbox_box(s)) {
        adopt_lost(s, p, p->row.exec == 0 ? "its start was cut off" : "its box is gone");
        return;
    }
    p->job = job_adopt(s, (uint32_t)p->row.exec, &events, p);
    if (p->job == NULL) {
        adopt_lost(s, p, "its box does not know it");
        return;
    }
    begin_life(p);
    restore_deadline(p);
    if (open_terminal_log(p, &err) < 0)
        log_line(LOG_ERROR, "cannot open a terminal's log, dropping its output", "sandbox",
                 s->row.id, "process", p->row.id, "error", err.msg, NULL);
    if (job_streams(p->job)->in >= 0 || p->row.tty != NULL)
        p->feed = feed_new(STDIN_QUEUE_MAX);
    open_streams(p);
}

void processes_adopt(struct sandbox *s)
{
    struct process_list list = {0};
    struct err err = {0};
    if (process_list_read(fleet_db(s->fleet), s->row.number, /*running_only=*/true, &list, &err) <
        0)
        log_line(LOG_ERROR, "cannot read processes", "sandbox", s->row.id, "error", err.msg, NULL);
    if (list.n > 0)
        (void)processes_of(s);
    for (size_t i = 0; i < list.n; i++) {
        struct process *p = map_get(&s->processes->by_id, list.rows[i].id);
        if (p == NULL)
            p = process_new(s, &list.rows[i]);
        (void)process_ref(p);
        if (p->job == NULL)
            adopt_one(s, p);
        process_unref(p);
    }
    processes_trim(s);
    process_list_done(&list);
}
