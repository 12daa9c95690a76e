// SPDX-License-Identifier: Apache-2.0
// A task from its beginning to its end. One deadline is over all of it; whoever it meets is killed,
// and what has changed until then is still told.
#include "agents/task.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/task-internal.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/show.h"

enum {
    KILL_GRACE_MS = 10 * 1000, // for what was killed to be gone
    READING_MS = 100,
};

// --- memory

struct task *task_ref(struct task *t)
{
    t->refs++;
    return t;
}

void task_unref(struct task *t)
{
    if (--t->refs > 0)
        return;
    for (unsigned i = 0; i < t->n_warnings; i++)
        free(t->warnings[i]);
    task_asked_done(&t->asked);
    git_moment_free(t->moment);
    agent_start_done(&t->start);
    run_unref(t->run);
    free(t);
}

static void free_timer(uv_handle_t *handle)
{
    free(handle);
}

static void drop_timer(struct task *t)
{
    if (t->timer == NULL)
        return;
    uv_close((uv_handle_t *)t->timer, free_timer);
    t->timer = NULL;
}

// --- what is told on the way

void task_warn(struct task *t, const char *fmt, ...)
{
    va_list ap;
    char *text = NULL;
    if (t->n_warnings == TASK_WARNINGS_MAX)
        return;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        abort();
    t->warnings[t->n_warnings++] = text;
}

struct json *task_event(struct json *j, struct buf *buf)
{
    buf_init(buf, TASK_EVENT_MAX);
    json_init(j, buf);
    json_open_object(j);
    return j;
}

void task_emit(struct task *t, const char *type, struct json *j)
{
    json_close_object(j);
    if (json_finish(j) == 0)
        run_event(t->run, type, j->buf);
    buf_done(j->buf);
}

static void emit_start(struct task *t)
{
    struct buf buf;
    struct json j;
    task_event(&j, &buf);
    show_str(&j, "request_id", run_id(t->run));
    show_str(&j, "task", t->asked.task);
    show_str(&j, "agent", agent_file_name(t->file));
    show_str(&j, "model", t->asked.model);
    show_str(&j, "repo", t->asked.repo);
    if (t->resumed)
        show_bool(&j, "resumed", true);
    task_emit(t, "start", &j);
}

// --- its end

// Nobody will ask what has changed: in a sandbox that stays nothing of ours does.
static void drop_moment(struct task *t)
{
    bool stays = !t->fresh || t->asked.keep;
    bool is_used = t->phase == TASK_CHANGES;
    if (stays && !is_used && !t->is_left && t->moment != NULL && t->s != NULL &&
        sandbox_is_up(t->s))
        git_moment_drop(t->s, t->moment);
}

static void drop(struct task *t)
{
    t->over = true;
    LIST_REMOVE(t, link);
    drop_timer(t);
    git_cancel(t->work);
    t->work = NULL;
    drop_moment(t);
    task_files_drop(t);
    task_agent_drop(t);
    task_box_leave(t);
    task_unref(t);
}

void task_end(struct task *t, const struct run_end *end, const struct buf *body)
{
    run_end(t->run, end, body); // before what `end` is lent by goes
    drop(t);
}

static void fail_with(struct task *t, const struct failure *failure, const struct buf *body)
{
    if (t->s != NULL && !sandbox_is_up(t->s)) { // that is why, whatever it looked like
        task_answer(t, NULL);
        return;
    }
    const struct run_end end = {
        .status = failure->status,
        .error_code = failure->error_code,
        .model = t->asked.model,
        .total_ms = (clock_ns() - t->start_ns) / NS_PER_MS,
        .retry_after_ms = failure->retry_after_ms,
    };
    task_end(t, &end, body);
}

void task_fail(struct task *t, const struct failure *failure)
{
    auto_buf body;
    buf_init(&body, TASK_WORK_MAX);
    failure_write(failure, run_id(t->run), &body);
    fail_with(t, failure, &body);
}

// As the routes of git answer, with git's own words.
void task_fail_git(struct task *t, const struct git_fault *fault)
{
    struct failure failure;
    auto_buf body;
    struct json j;
    failure_set(&failure, fault->status, fault->code, "%s", fault->message);
    buf_init(&body, TASK_WORK_MAX);
    json_init(&j, &body);
    json_open_object(&j);
    show_str(&j, "error", fault->message);
    show_str(&j, "error_code", fault->code);
    if (fault->said[0] != '\0') {
        json_key(&j, "details");
        json_open_object(&j);
        show_str(&j, "stderr", fault->said);
        json_close_object(&j);
    }
    show_str(&j, "request_id", run_id(t->run));
    json_close_object(&j);
    (void)json_finish(&j);
    fail_with(t, &failure, &body);
}

void task_fail_err(struct task *t, const struct err *err)
{
    struct failure failure;
    failure_of_err(err, &failure);
    if (err->code == ERR_CONFLICT) // no context is at fault here, and no language
        failure.error_code = "CONFLICT";
    if (err->code == ERR_UNSUPPORTED)
        failure.error_code = "NOT_IMPLEMENTED";
    task_fail(t, &failure);
}

// --- its time

int64_t task_left_ms(const struct task *t)
{
    int64_t left = t->asked.timeout_ms - (clock_ns() - t->start_ns) / NS_PER_MS;
    return left > 1 ? left : 1;
}

static void on_timer(uv_timer_t *timer);

void task_again(struct task *t, int64_t ms)
{
    (void)uv_timer_start(t->timer, on_timer, (uint64_t)ms, 0);
}

// Its time is over, or somebody has had enough of it.
static void stop(struct task *t, enum task_stop why)
{
    t->stop = why;
    if (t->phase == TASK_AGENT && !t->agents->closing) {
        task_agent_kill(t);
        task_again(t, KILL_GRACE_MS);
    } else {
        task_answer(t, NULL);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct task *t = timer->data;
    bool has_ended = t->reason != END_NONE || t->is_lost;
    if (t->phase >= TASK_LEFT || (t->phase == TASK_AGENT && has_ended))
        task_agent_ended(t);
    else if (task_agent_is_read(t)) // it has ended in time
        task_again(t, READING_MS);
    else if (t->stop == TASK_GOES_ON)
        stop(t, TASK_TIMED_OUT);
    else
        task_answer(t, NULL); // it was killed, and nobody has heard of its end
}

static void on_cancel(void *data)
{
    struct task *t = data;
    if (t->phase >= TASK_LEFT && !t->agents->closing)
        return; // its answer is being written
    stop(t, TASK_CANCELLED);
}

void tasks_stop(struct agents *agents)
{
    while (!LIST_EMPTY(&agents->tasks)) {
        struct task *t = LIST_FIRST(&agents->tasks);
        t->stop = TASK_CANCELLED;
        task_answer(t, NULL);
    }
}

// Nothing is told to anybody, and nothing ended: as if the daemon had been killed.
static void leave(struct task *t)
{
    t->is_left = true;
    run_on_cancel(t->run, NULL, NULL);
    if (t->phase == TASK_CHANGES) {
        git_changes_leave(t->work);
        t->work = NULL;
    }
    drop(t);
}

void tasks_leave(struct agents *agents)
{
    while (!LIST_EMPTY(&agents->tasks))
        leave(LIST_FIRST(&agents->tasks));
}

// --- its beginning

struct task *task_new(struct agents *agents, struct task_asked *asked,
                      const struct agent_file *file)
{
    struct task *t = calloc(1, sizeof *t);
    if (t == NULL)
        abort();
    *t = (struct task){
        .agents = agents,
        .refs = 1,
        .asked = *asked,
        .file = file,
        .fresh = asked->sandbox == NULL,
        .start_ns = clock_ns(),
        .exit_code = -1,
    };
    *asked = (struct task_asked){0};
    return t;
}

void task_begin(struct task *t)
{
    t->timer = calloc(1, sizeof *t->timer);
    if (t->timer == NULL)
        abort();
    (void)uv_timer_init(t->agents->config.loop, t->timer);
    t->timer->data = t;
    LIST_INSERT_HEAD(&t->agents->tasks, t, link);
    run_on_cancel(t->run, on_cancel, t);
    emit_start(t);
    task_again(t, task_left_ms(t));
}

static void copy_asked(const struct task_request *r, const struct agents *agents,
                       struct task_asked *ret)
{
    *ret = (struct task_asked){
        .task = mem_copy_text(r->task),
        .agent = mem_copy_text(r->agent != NULL ? r->agent : "claude"),
        .sandbox = mem_copy_text(r->sandbox),
        .image = mem_copy_text(r->image),
        .repo = mem_copy_text(r->repo),
        .branch = mem_copy_text(r->branch),
        .secret = mem_copy_text(r->secret),
        .network = mem_copy_text(r->network),
        .working_dir = mem_copy_text(r->working_dir),
        .system_prompt = mem_copy_text(r->system_prompt),
        .permission_mode = mem_copy_text(r->permission_mode),
        .model = mem_copy_text(r->model != NULL ? model_resolve(r->model)
                                                : agents->config.default_model),
        .memory = (int64_t)r->memory,
        .max_turns = r->max_turns,
        .timeout_ms = r->timeout_ms,
        .budget_cost = r->budget_cost,
        .budget_tokens = r->budget_tokens,
        .include_diff = r->include_diff,
        .keep = r->keep,
        .components = r->components != NULL ? components_ref(r->components) : NULL,
    };
}

// One that is named has what it has: nothing is given to it.
static int check_sandbox(struct agents *agents, const struct task_request *r,
                         const struct agent_file *file, struct err *err)
{
    if (r->sandbox == NULL)
        return 0;
    struct sandbox *s = fleet_find(agents->config.fleet, r->tenant, r->sandbox, err);
    if (s == NULL)
        return -1;
    const char *secrets = sandbox_row(s)->secrets;
    if (agent_file_needs_model(file) &&
        (secrets == NULL || strstr(secrets, "\"" MODEL_SECRET "\"") == NULL))
        return err_set(err, ERR_INVALID,
                       "options.sandbox_id: '%.128s' may not ask a model: it needs the secret "
                       "'" MODEL_SECRET "': PATCH /sandbox/ID {\"secrets\": [\"" MODEL_SECRET
                       "\"]}",
                       r->sandbox);
    return 0;
}

// What is asked for, as the agent's file knows it; the server's own model is no wish.
static int check_values(const struct task_request *r, const struct agent_file *file,
                        struct err *err)
{
    char turns[24];
    (void)snprintf(turns, sizeof turns, "%" PRId64, r->max_turns);
    const struct agent_values values = {
        .task = r->task,
        .system_prompt = r->system_prompt,
        .permission_mode = r->permission_mode,
        .model = r->model,
        .max_turns = r->max_turns > 0 ? turns : NULL,
    };
    if (agent_file_check(file, &values, err) < 0)
        return -1;
    if (r->components != NULL && !agent_file_has_components(file))
        return err_set(err, ERR_INVALID, "options.components: the agent '%s' has no use for them",
                       agent_file_name(file));
    return 0;
}

static const struct agent_file *find_agent(const struct agents *agents, const char *name,
                                           struct err *err)
{
    const struct agent_files *files = agents->config.agent_files;
    const struct agent_file *file = files != NULL ? agent_files_find(files, name) : NULL;
    if (file == NULL)
        (void)err_set(err, ERR_NOT_FOUND, "there is no agent '%.60s': %.120s", name,
                      files != NULL ? agent_files_names(files) : "none at all");
    return file;
}

struct run *task_start(struct agents *agents, const struct task_request *r, struct err *err)
{
    struct task_asked asked;
    const char *name = r->agent != NULL ? r->agent : "claude";
    const struct agent_file *file = find_agent(agents, name, err);
    if (file == NULL || check_sandbox(agents, r, file, err) < 0 || check_values(r, file, err) < 0)
        return NULL;
    copy_asked(r, agents, &asked);
    struct task *t = task_new(agents, &asked, file);
    const struct run_start start = {.tenant = r->tenant,
                                    .id = r->id,
                                    .kind = "task",
                                    .title = t->asked.task,
                                    .model = t->asked.model};
    t->run = run_new(agents, &start, err);
    if (t->run == NULL) {
        task_unref(t);
        return NULL;
    }
    struct run *run = run_ref(t->run); // it may be over before this returns
    struct err failed = {0};
    task_begin(t);
    if (task_keep_asked(t, &failed) < 0)
        task_fail_err(t, &failed);
    else
        task_box_get(t);
    return run;
}
