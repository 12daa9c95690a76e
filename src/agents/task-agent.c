// SPDX-License-Identifier: Apache-2.0
// The agent while it runs: a process of the sandbox, whose log is read as it grows. It may write
// what it likes, as long as it likes: of a flood the beginning is read and the end, where its
// result is. Whatever it has started ends with it.
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/task-internal.h"
#include "base/clock.h"
#include "base/show.h"

enum {
    READ_MAX = 32 * 1024 * 1024,             // of each stream, as it comes
    TAIL_MAX = AGENT_LINE_MAX + 1024 * 1024, // of one that has more, in the end
    PIECE = 16 * 1024,
    SAID_MAX = 64 * 1024, // of text that is told at once
    PAUSE_MS = 8,         // between two slices, for each that has more to read
    NAMES_MAX = PROCESS_KEPT + PROCESS_RUNNING_MAX,
    ENV_MAX = 256 * 1024,
    DYING_MS = 30, // for what was ending by itself
};

#define SLICE_NS (4 * NS_PER_MS) // that the loop reads without a pause

static void free_timer(uv_handle_t *handle)
{
    free(handle);
}

static void stop_reading(struct task *t)
{
    if (t->slices == NULL)
        return;
    uv_close((uv_handle_t *)t->slices, free_timer);
    t->slices = NULL;
    t->agents->n_reading--;
}

void task_agent_drop(struct task *t)
{
    bool runs = t->process != NULL && t->reason == END_NONE && !t->is_lost && !t->is_left;
    stop_reading(t);
    buf_done(&t->said);
    process_watch_free(t->watch);
    t->watch = NULL;
    if (runs)
        task_agent_kill(t);
    process_unref(t->process);
    t->process = NULL;
    agent_reader_free(t->reader);
    t->reader = NULL;
}

void task_agent_kill(struct task *t)
{
    struct err ignored; // it has ended, or its box is gone
    if (t->process != NULL)
        (void)process_signal(t->process, SIGKILL, &ignored);
}

// --- what it writes

// Lines come by the thousand: text is told in larger pieces.
static void tell_said(struct task *t)
{
    struct buf buf;
    struct json j;
    if (t->said.len == 0)
        return;
    task_event(&j, &buf);
    json_key(&j, "text");
    json_put_strn(&j, t->said.data, t->said.len);
    task_emit(t, "log", &j);
    buf_reset(&t->said);
}

static void on_message(void *data, const char *json, size_t len)
{
    struct task *t = data;
    struct buf event;
    if (!run_takes_events(t->run))
        return;
    tell_said(t);
    buf_init(&event, TASK_EVENT_MAX);
    (void)buf_append(&event, json, len);
    run_event(t->run, "message", &event);
    buf_done(&event);
}

static void on_log(void *data, const char *text, size_t len)
{
    struct task *t = data;
    while (len > 0 && run_takes_events(t->run)) {
        size_t some = len < SAID_MAX ? len : SAID_MAX;
        if (t->said.len + some > SAID_MAX)
            tell_said(t);
        (void)buf_append(&t->said, text, some);
        text += some;
        len -= some;
    }
}

static void feed(struct task *t, enum log_stream stream, const char *p, size_t n)
{
    if (stream == LOG_STDOUT)
        agent_reader_stdout(t->reader, p, n);
    else
        agent_reader_stderr(t->reader, p, n);
}

// A line that lacks its middle is none.
static void skip_to(struct task *t, enum log_stream stream, uint64_t at)
{
    t->read[stream] = at;
    t->skips[stream] = true;
    feed(t, stream, "\n", 1);
}

// One piece. Whether there may be more of it before `end`.
static bool read_piece(struct task *t, enum log_stream stream, uint64_t end)
{
    static char piece[PIECE];
    uint64_t at;
    struct bytelog *log = process_log(t->process, stream);
    if (log == NULL || t->read[stream] >= end)
        return false;
    uint64_t want = end - t->read[stream] < PIECE ? end - t->read[stream] : PIECE;
    ssize_t n = bytelog_read(log, t->read[stream], piece, want, &at);
    if (n <= 0)
        return false;
    if (at > t->read[stream])
        skip_to(t, stream, at);
    feed(t, stream, piece, (size_t)n);
    t->read[stream] += (uint64_t)n;
    return true;
}

// How far it is read now. What lies beyond READ_MAX waits for the end, of which the last is read.
static uint64_t read_until(struct task *t, enum log_stream stream)
{
    const struct bytelog *log = process_log(t->process, stream);
    uint64_t size = log != NULL ? bytelog_size(log) : 0;
    bool has_ended = process_row(t->process)->reason != END_NONE;
    if (size <= READ_MAX)
        return size;
    if (!has_ended)
        return READ_MAX;
    if (size - t->read[stream] > TAIL_MAX)
        skip_to(t, stream, size - TAIL_MAX);
    return size;
}

static void note_end(struct task *t, const struct process_row *row)
{
    t->reason = row->reason;
    t->exit_code = row->exit_code;
    t->signal = row->signal;
    t->limits = row->limits;
    t->is_lost = row->reason == END_BOX_LOST;
    t->agent_ms = row->ended_ms - row->started_ms;
}

static void finish_reading(struct task *t)
{
    if (process_row(t->process)->reason == END_NONE)
        return;
    note_end(t, process_row(t->process));
    agent_reader_end(t->reader);
    tell_said(t);
    task_again(t, 0); // not in the midst of whatever has ended it
}

static void on_slice(uv_timer_t *timer);

static void read_later(struct task *t)
{
    if (t->slices == NULL) {
        t->slices = calloc(1, sizeof *t->slices);
        if (t->slices == NULL)
            abort();
        (void)uv_timer_init(t->agents->config.loop, t->slices);
        t->slices->data = t;
        t->agents->n_reading++;
    }
    (void)uv_timer_start(t->slices, on_slice, (uint64_t)PAUSE_MS * t->agents->n_reading, 0);
}

// Others have the loop, too: who writes more than can be read in a slice is read with pauses.
static void read_slice(struct task *t)
{
    int64_t until = clock_ns() + SLICE_NS;
    bool has_more = true;
    while (has_more && clock_ns() < until) {
        has_more = false;
        for (enum log_stream i = 0; i < LOG_STREAMS; i++)
            has_more |= read_piece(t, i, read_until(t, i));
    }
    tell_said(t);
    if (has_more) {
        read_later(t);
    } else {
        stop_reading(t);
        finish_reading(t);
    }
}

static void on_slice(uv_timer_t *timer)
{
    read_slice(timer->data);
}

bool task_agent_is_read(const struct task *t)
{
    return t->slices != NULL && process_row(t->process)->reason != END_NONE;
}

static void keep_work(struct task *t, const struct process *p)
{
    struct err err = {0};
    t->is_fed = process_stdin_waiting(p) == 0;
    if (task_keep_work(t, &err) < 0)
        task_warn(t, "a new server could not go on with it: %s", err.msg);
}

static void on_news(void *data, struct process *p)
{
    struct task *t = data;
    if (t->reason != END_NONE || t->is_lost)
        return;
    if (p != NULL && !t->is_fed && process_stdin_waiting(p) == 0)
        keep_work(t, p);
    if (p == NULL) { // it was deleted, and its log with it
        stop_reading(t);
        t->is_lost = true;
        agent_reader_end(t->reader);
        task_again(t, 0);
    } else if (t->slices == NULL) {
        read_slice(t);
    }
}

// --- how it has ended

static void on_changes(void *data, const struct git_changes *changes, const struct git_fault *fault)
{
    struct task *t = data;
    t->work = NULL;
    if (fault != NULL)
        task_warn(t, "what has changed cannot be told: %s", fault->message);
    task_answer(t, changes);
}

static void look_at_changes(struct task *t)
{
    t->phase = TASK_CHANGES;
    if (t->moment == NULL || !sandbox_is_up(t->s)) {
        task_answer(t, NULL);
        return;
    }
    task_again(t, 2 * TASK_CHANGES_MS); // its own time should be over long before
    struct git_work *work =
        git_changes_since(t->agents->config.db, t->s, t->moment, t->asked.include_diff,
                          TASK_CHANGES_MS, on_changes, task_ref(t));
    if (work != NULL)
        t->work = work;
    task_unref(t);
}

static void end_rest(struct task *t, uint32_t left)
{
    if (left > 0)
        task_warn(t, "%" PRIu32 " process%s that it left %s ended", left, left > 1 ? "es" : "",
                  left > 1 ? "were" : "was");
    if (t->process != NULL)
        process_end_rest(t->process);
    look_at_changes(t);
}

static void on_left(void *data, const struct keeper_used *used, const struct err *err)
{
    struct task *t = data;
    bool is_second = t->phase == TASK_LEFT;
    if (t->over || t->phase == TASK_CHANGES) { // it took so long that another has asked
        task_unref(t);
        return;
    }
    uint32_t left = err == NULL && used != NULL && used->pids > t->pids_before
                        ? used->pids - t->pids_before
                        : 0;
    if (left > 0 && !is_second) { // some may just be ending
        t->phase = TASK_LEFT;
        task_again(t, DYING_MS);
    } else {
        end_rest(t, left);
    }
    task_unref(t);
}

void task_agent_ended(struct task *t)
{
    if (t->phase == TASK_CHANGES) { // nobody has answered
        task_warn(t, "what has changed cannot be told: it took too long");
        task_answer(t, NULL);
    } else if (t->is_lost || t->reason == END_BOX_LOST || !sandbox_is_up(t->s)) {
        task_answer(t, NULL);
    } else if (t->pids_before > 0) {
        sandbox_usage(t->s, on_left, task_ref(t));
    } else {
        end_rest(t, 0);
    }
}

// --- its start

void task_agent_watch(struct task *t, struct process *p)
{
    static const struct agent_reader_fns fns = {.message = on_message, .log = on_log};
    t->has_run = true;
    if (t->process == NULL)
        t->process = process_ref(p);
    buf_init(&t->said, SAID_MAX);
    t->reader = agent_reader_new(t->file, &fns, t);
    t->watch = process_watch(p, on_news, t);
    on_news(t, p); // what is there already
}

static void fail_start(struct task *t, const struct err *err)
{
    struct failure failure;
    struct err said = *err;
    if (err->sys_errno != ENOENT && err->sys_errno != EACCES) {
        (void)err_wrap(&said, "start %s", agent_file_program(t->file));
        task_fail_err(t, &said);
        return;
    }
    const char *image = agent_file_image(t->file);
    failure_set(
        &failure, 501, "AGENT_NOT_INSTALLED", "'%s' is not in the sandbox's image '%.100s'%s%s: %s",
        agent_file_program(t->file), sandbox_row(t->s)->image,
        image != NULL ? "; it is in the image " : "", image != NULL ? image : "",
        image != NULL && strcmp(image, "agents") == 0 ? "`cay image build agents` makes it"
                                                      : "name one that has it with options.image");
    task_fail(t, &failure);
}

static void try_start(struct task *t);

static void on_started(void *data, struct process *p, const struct err *err)
{
    struct task *t = data;
    struct err failed = {0};
    if (t->over) {
        if (p != NULL)
            (void)process_delete(p, &failed);
    } else if (p == NULL && err->code == ERR_CONFLICT && t->name < NAMES_MAX) {
        try_start(t); // somebody has that name
    } else if (p == NULL) {
        fail_start(t, err);
    } else {
        agent_start_done(&t->start); // the task is in its input: once is enough
        t->process = process_ref(p);
        keep_work(t, p); // before it is looked at, which may be its end
        task_agent_watch(t, p);
        if (t->stop != TASK_GOES_ON)
            task_agent_kill(t);
    }
    task_unref(t);
}

// "NAME=value" as the object that exec_env takes.
static int add_env(const struct task *t, struct buf *ret)
{
    struct json j;
    buf_init(ret, ENV_MAX);
    json_init(&j, ret);
    json_open_object(&j);
    for (char **at = t->start.env; at != NULL && *at != NULL; at++) {
        const char *sign = strchr(*at, '=');
        char name[256];
        if (sign == NULL || (size_t)(sign - *at) >= sizeof name)
            continue;
        (void)snprintf(name, sizeof name, "%.*s", (int)(sign - *at), *at);
        show_str(&j, name, sign + 1);
    }
    json_close_object(&j);
    return json_finish(&j);
}

static void try_start(struct task *t)
{
    struct err err = {0};
    char id[32] = "agent", command[AGENT_NAME_MAX + 8];
    auto_buf extra;
    char **env = add_env(t, &extra) == 0 ? exec_env(t->s, buf_str(&extra), 0, &err) : NULL;
    if (env == NULL) {
        task_fail_err(t, &err);
        return;
    }
    if (++t->name > 1)
        (void)snprintf(id, sizeof id, "agent-%u", t->name);
    (void)snprintf(command, sizeof command, "\"%s\"", agent_file_name(t->file));
    const struct process_request request = {
        .id = id,
        .command = command,
        .exec = {.argv = (const char *const *)t->start.argv,
                 .envp = (const char *const *)env,
                 .cwd = t->cwd,
                 .stdin_data = t->start.input,
                 .stdin_len = t->start.input_len,
                 .timeout_ms = task_left_ms(t)},
        .keep_awake = true,
    };
    process_start(t->s, &request, on_started, task_ref(t));
    exec_env_free(env);
}

static void on_before(void *data, const struct keeper_used *used, const struct err *err)
{
    struct task *t = data;
    if (!t->over && t->stop != TASK_GOES_ON) {
        task_answer(t, NULL);
    } else if (!t->over) {
        t->pids_before = err == NULL && used != NULL ? used->pids : 0;
        try_start(t);
    }
    task_unref(t);
}

static const char *settings_path(const struct task *t, char *ret, size_t size)
{
    const struct components *components = t->asked.components;
    const char *path = components != NULL ? components_settings(components) : NULL;
    if (path == NULL)
        return NULL;
    (void)snprintf(ret, size, "%s/%s", t->dir, path);
    return ret;
}

void task_agent_start(struct task *t)
{
    struct err err = {0};
    char turns[24], settings[HAND_PATH_MAX];
    (void)snprintf(turns, sizeof turns, "%" PRId64, t->asked.max_turns);
    const struct agent_values values = {
        .task = t->asked.task,
        .system_prompt = t->asked.system_prompt,
        .permission_mode = t->asked.permission_mode,
        .model = t->asked.model,
        .max_turns = t->asked.max_turns > 0 ? turns : NULL,
        .settings = settings_path(t, settings, sizeof settings),
    };
    t->phase = TASK_AGENT;
    t->agent_ns = clock_ns();
    if (agent_file_start(t->file, &values, &t->start, &err) < 0)
        task_fail_err(t, &err);
    else if (t->fresh) // in others' sandboxes processes come and go
        sandbox_usage(t->s, on_before, task_ref(t));
    else if (task_keep_work(t, &err) < 0) // somebody else's: not to be started there twice
        task_fail_err(t, &err);
    else
        try_start(t);
}
