// SPDX-License-Identifier: Apache-2.0
// Sessions: their rows, and the commands that wait for their shell. A shell is replaced often and
// without much ado (session-script.c says when); what a session is lies in its row and its state.
#include "sandbox/session.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "sandbox/session-internal.h"

enum { TICK_NS = 10000000 }; // what the kernel tells the start of a process in

static uint64_t boottime_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

// --- in memory

static struct session *find(const struct sandbox *s, const char *id)
{
    struct session *session = s->sessions != NULL ? s->sessions->first : NULL;
    while (session != NULL && strcmp(session->row.id, id) != 0)
        session = session->next;
    return session;
}

struct session *session_load(struct sandbox *s, const struct session_row *row)
{
    struct session *session = calloc(1, sizeof *session);
    if (s->sessions == NULL)
        s->sessions = calloc(1, sizeof *s->sessions);
    if (session == NULL || s->sessions == NULL)
        abort();
    session->s = s;
    session->refs = 1;
    session->row = *row;
    session->row.id = mem_copy_text(row->id);
    session->row.cwd = mem_copy_text(row->cwd);
    session->row.env = mem_copy_text(row->env);
    session->made_cwd = mem_copy_text(row->cwd);
    session->made_env = mem_copy_text(row->env);
    buf_init(&session->out, EXEC_OUTPUT_MAX);
    buf_init(&session->err, EXEC_OUTPUT_MAX);
    session->next = s->sessions->first;
    s->sessions->first = session;
    return session;
}

void session_unref(struct session *session)
{
    if (--session->refs > 0)
        return;
    session_row_done(&session->row);
    free(session->made_cwd);
    free(session->made_env);
    free(session->state);
    buf_done(&session->out);
    buf_done(&session->err);
    free(session);
}

void session_store(struct session *session)
{
    struct err err = {0};
    if (!session->dead && db_session_put(fleet_db(session->s->fleet), &session->row, &err) < 0)
        log_line(LOG_WARN, "cannot store a session, going on", "sandbox", session->s->row.id,
                 "session", session->row.id, "error", err.msg, NULL);
}

// --- commands

static void command_free(struct session_command *c)
{
    struct sandbox *s = c->session->s;
    free(c->command);
    free(c->cwd);
    exec_env_free(c->envp);
    free(c->stdin_data);
    free(c);
    sandbox_idle(s);
    sandbox_unref(s);
}

static struct session_command *take_first(struct session *session)
{
    struct session_command *c = session->commands;
    session->commands = c->next;
    session->n_commands--;
    return c;
}

void session_renew_output(struct session *session)
{
    buf_done(&session->out);
    buf_done(&session->err);
    session->truncated = false;
}

// Hands over what is there of a command whose output is told as it comes.
void session_on_output(struct session *session)
{
    struct session_command *c = session->commands;
    struct buf *const bufs[LOG_STREAMS] = {&session->out, &session->err};
    if (c == NULL || c->seq == 0 || c->output == NULL)
        return;
    for (int i = 0; i < LOG_STREAMS; i++) {
        if (c->fn != NULL && bufs[i]->len > 0)
            c->output(c->data, (enum log_stream)i, bufs[i]->data, bufs[i]->len);
        buf_reset(bufs[i]);
    }
}

// Ends the first command. The callee may do anything to the session.
static void finish(struct session *session, struct job_end end, bool terminated)
{
    struct session_command *c = take_first(session);
    struct session_result result = {
        .exec = {.end = end,
                 .out = &session->out,
                 .err = &session->err,
                 .truncated = session->truncated,
                 .duration_ns = clock_ns() - c->begun_ns},
        .terminated = terminated,
    };
    if (c->stopped != END_NONE) {
        result.exec.end = (struct job_end){.reason = c->stopped, .exit_code = -1};
        result.exec.end.limits = end.limits;
        result.terminated = false;
    }
    session->ended = boottime_ns();
    if (session->shell != NULL)
        shell_pause(session->shell, false);
    fleet_count_end(session->s->fleet, result.exec.end.reason);
    fleet_time(session->s->fleet, TIMING_EXEC, result.exec.duration_ns);
    session->refs++;
    if (c->fn != NULL)
        c->fn(c->data, &result, NULL);
    command_free(c);
    session_renew_output(session);
    session_unref(session);
}

static void fail_first(struct session *session, const struct err *err)
{
    struct session_command *c = take_first(session);
    if (c->refusal != NULL) {
        *c->refusal = *err;
        *c->refused = true;
    } else if (c->fn != NULL) {
        c->fn(c->data, NULL, err);
    }
    command_free(c);
}

static void fail_all(struct session *session, const struct err *err)
{
    struct err copy = *err;
    session->refs++;
    while (session->commands != NULL)
        fail_first(session, &copy);
    session_unref(session);
}

static int send_command(struct session *session, struct session_command *c, struct err *err)
{
    uint64_t now = boottime_ns();
    struct script_command message = {
        .seq = ++session->seq,
        .mark = now / TICK_NS == session->ended / TICK_NS,
        .command = c->command,
        .cwd = c->cwd,
        .envp = c->envp,
        .stdin_data = c->stdin_data,
        .stdin_len = c->stdin_len,
    };
    struct buf *out = shell_outgoing(session->shell);
    size_t before = out->len;
    if (script_command(out, &message, err) < 0) {
        out->len = before;
        out->failed = 0;
        return -1;
    }
    c->seq = message.seq;
    c->begun_ns = clock_ns();
    c->since = now;
    shell_set_deadline(session->shell, c->timeout_ms);
    shell_flush(session->shell);
    return 0;
}

// Gives the shell its next command, and the session a shell.
void session_pump(struct session *session)
{
    struct err err = {0};
    session->refs++;
    while (session->commands != NULL && session->commands->seq == 0 && !session->dead) {
        if (session->shell != NULL && !shell_ready(session->shell))
            break;
        if (session->shell != NULL && session->exports_seq != 0) {
            // What a daemon before us began may last: the time of the one that waits for it counts.
            if (session->n_commands == 1)
                shell_set_deadline(session->shell, session->commands->timeout_ms);
            break;
        }
        int r = session->shell == NULL ? shell_start(session, &err)
                                       : send_command(session, session->commands, &err);
        if (r < 0)
            fail_first(session, &err);
        else if (session->shell != NULL && session->commands->seq == 0)
            break; // it is told when the shell has started
    }
    session_unref(session);
}

// --- what the shell tells

void session_on_started(struct session *session, uint32_t exec)
{
    session->row.box = (int64_t)sandbox_box(session->s);
    session->row.exec = exec;
    session_store(session);
    session_pump(session);
}

static void moved(struct session *session, const char *cwd)
{
    if (cwd[0] == '/' && session_set_text(&session->row.cwd, cwd))
        session_store(session);
}

void session_on_record(struct session *session, const struct script_record *record)
{
    struct session_command *c = session->commands;
    bool is_first = c != NULL && c->seq != 0 && c->seq == record->seq;
    if (record->seq == session->exports_seq) {
        shell_drain(session->shell);
        session_renew_output(session);
        moved(session, record->text);
        saving_saw(session);
        session_pump(session);
        return;
    }
    if (!is_first) // of a command that a daemon before us has sent, or of the shell's beginning
        return;
    shell_drain(session->shell);
    shell_set_deadline(session->shell, 0);
    moved(session, record->text);
    session->refs++;
    finish(session, (struct job_end){.reason = END_EXIT, .exit_code = (int)record->number}, false);
    session_pump(session);
    session_unref(session);
}

void session_on_deadline(struct session *session)
{
    struct session_command *c = session->commands;
    if (c == NULL || session->shell == NULL)
        return;
    c->stopped = END_TIMEOUT;
    shell_stop(session->shell, c->since);
}

// What the next shell begins with.
static void inherit(struct session *session, const struct shell_end *end)
{
    session->row.box = session->row.exec = 0;
    (void)session_set_text(&session->state, NULL);
    if (end->exit_called) {
        (void)session_set_text(&session->row.cwd, session->made_cwd);
        (void)session_set_text(&session->row.env, session->made_env);
    } else if (end->has_state) {
        (void)session_set_text(&session->state, end->state);
        if (end->cwd[0] == '/')
            (void)session_set_text(&session->row.cwd, end->cwd);
    }
    session_store(session);
}

// How the command ended with which the shell did.
static void finish_with_shell(struct session *session, const struct shell_end *end)
{
    struct session_command *c = session->commands;
    struct job_end job = end->job;
    bool begun = !end->has_state || end->begun == c->seq;
    if (!begun && c->stopped == END_NONE && !c->again) {
        c->again = true;
        c->seq = 0;
        return;
    }
    if (end->has_state && !end->exit_called && !end->lost) {
        job.reason = END_EXIT;
        job.exit_code = job.signal > 0 ? 128 + job.signal : end->status; // as shells tell it
        job.signal = 0;
    }
    finish(session, job,
           !end->lost && (end->exit_called || (!end->has_state && job.reason == END_EXIT)));
}

void session_on_ended(struct session *session, const struct shell_end *end)
{
    const struct err gone = {.code = ERR_UNAVAILABLE, .msg = "the box is gone"};
    session->refs++;
    if (session->exports_seq != 0)
        saving_saw(session);
    if (end->err != NULL) {
        fail_all(session, end->err);
    } else {
        inherit(session, end);
        struct session_command *c = session->commands;
        if (c != NULL && (c->seq != 0 || c->stopped != END_NONE))
            finish_with_shell(session, end);
        if (end->lost)
            fail_all(session, &gone);
        else
            session_pump(session);
    }
    session_unref(session);
}

// --- the door

static int count_one(void *data, const struct session_row *row)
{
    (void)row;
    ++*(unsigned *)data;
    return 0;
}

static int check_new(struct sandbox *s, const char *id, const char *env, struct err *err)
{
    struct db *db = fleet_db(s->fleet);
    struct session_row there = {0};
    unsigned n = 0;
    if (!sandbox_id_valid(id))
        return err_set(err, ERR_INVALID, "not a name for a session");
    int r = db_session_get(db, s->row.number, id, &there, err);
    session_row_done(&there);
    if (r > 0)
        return err_set(err, ERR_CONFLICT, "there is a session '%.100s' already", id);
    if (r < 0 || db_session_each(db, s->row.number, count_one, &n, err) < 0)
        return -1;
    if (n >= SESSIONS_MAX)
        return err_set(err, ERR_EXHAUSTED, "a sandbox has at most %d sessions", SESSIONS_MAX);
    char **parsed = env_parse(env, err);
    exec_env_free(parsed);
    return parsed == NULL ? -1 : 0;
}

int session_create(struct sandbox *s, const char *id, const char *cwd, const char *env,
                   struct session_row *ret, struct err *err)
{
    char made_up[40];
    name_make(made_up, sizeof made_up, "session-");
    if (id == NULL)
        id = made_up;
    if (check_new(s, id, env, err) < 0)
        return -1;
    struct session_row row = {
        .sandbox = s->row.number,
        .id = mem_copy_text(id),
        .cwd = mem_copy_text(cwd != NULL ? cwd : "/workspace"),
        .env = mem_copy_text(env != NULL ? env : "{}"),
        .created_ms = db_now_ms(),
        .used_ms = db_now_ms(),
    };
    if (db_session_put(fleet_db(s->fleet), &row, err) < 0) {
        session_row_done(&row);
        return -1;
    }
    *ret = row;
    return 0;
}

int session_get(struct sandbox *s, const char *id, struct session_row *ret, struct err *err)
{
    int r = db_session_get(fleet_db(s->fleet), s->row.number, id, ret, err);
    if (r == 0)
        return err_set(err, ERR_NOT_FOUND, "there is no session '%.100s'", id);
    return r < 0 ? -1 : 0;
}

int session_each(struct sandbox *s, db_session_fn fn, void *data, struct err *err)
{
    return db_session_each(fleet_db(s->fleet), s->row.number, fn, data, err);
}

// Out of the list. Those who wait hear that it was killed.
static void drop(struct session *session, const struct err *err)
{
    struct sessions *all = session->s->sessions;
    for (struct session **p = &all->first; *p != NULL; p = &(*p)->next) {
        if (*p == session) {
            *p = session->next;
            break;
        }
    }
    session->dead = true;
    if (session->exports_seq != 0)
        saving_saw(session);
    session_answer(session);
    shell_let_go(session->shell);
    if (err == NULL && session->commands != NULL && session->commands->seq != 0)
        finish(session, (struct job_end){.reason = END_KILLED, .exit_code = -1}, false);
    const struct err deleted = {.code = ERR_NOT_FOUND, .msg = "the session was deleted"};
    fail_all(session, err != NULL ? err : &deleted);
    session_unref(session);
}

int session_delete(struct sandbox *s, const char *id, struct err *err)
{
    int r = db_session_del(fleet_db(s->fleet), s->row.number, id, err);
    if (r < 0)
        return -1;
    struct session *session = find(s, id);
    if (session != NULL)
        drop(session, NULL);
    return r > 0 ? 0 : err_set(err, ERR_NOT_FOUND, "there is no session '%.100s'", id);
}

struct session *session_find(struct sandbox *s, const char *id, struct err *err)
{
    struct session_row row = {0};
    struct session *session = find(s, id);
    if (session != NULL)
        return session;
    if (session_get(s, id, &row, err) < 0)
        return NULL;
    session = session_load(s, &row);
    session_row_done(&row);
    return session;
}

int session_set_timeout(struct sandbox *s, const char *id, int64_t timeout_ms, struct err *err)
{
    struct session *session = session_find(s, id, err);
    if (session == NULL)
        return -1;
    session->row.timeout_ms = timeout_ms;
    return db_session_put(fleet_db(s->fleet), &session->row, err);
}

static struct session_command *command_new(struct session *session,
                                           const struct session_request *request, struct err *err)
{
    struct session_command *c = calloc(1, sizeof *c);
    if (c == NULL)
        abort();
    c->session = session;
    sandbox_busy(sandbox_ref(session->s));
    c->begun_ns = clock_ns();
    c->since = boottime_ns();
    c->timeout_ms = request->timeout_ms > 0 ? request->timeout_ms : session->row.timeout_ms;
    c->command = mem_copy_text(request->command);
    c->cwd = request->cwd != NULL ? mem_copy_text(request->cwd) : NULL;
    c->stdin_len = request->stdin_len;
    if (request->stdin_data != NULL) {
        c->stdin_data = malloc(request->stdin_len + 1);
        if (c->stdin_data == NULL)
            abort(); // bounded by EDGE_BODY_MAX, and the body itself is there
        memcpy(c->stdin_data, request->stdin_data, request->stdin_len);
    }
    if (request->env != NULL && (c->envp = env_parse(request->env, err)) == NULL) {
        command_free(c);
        return NULL;
    }
    return c;
}

struct session_command *session_exec(struct sandbox *s, const char *id,
                                     const struct session_request *request, session_fn fn,
                                     void *data, struct err *err)
{
    struct session *session = session_find(s, id, err);
    if (session == NULL)
        return NULL;
    if (session->n_commands >= SESSION_QUEUE_MAX) {
        (void)err_set(err, ERR_EXHAUSTED, "%d commands wait for this session", SESSION_QUEUE_MAX);
        return NULL;
    }
    if (strlen(request->command) > SCRIPT_COMMAND_MAX) {
        (void)err_set(err, ERR_INVALID, "a command of more than 1 MiB");
        return NULL;
    }
    struct session_command *c = command_new(session, request, err);
    if (c == NULL)
        return NULL;
    struct session_command **last = &session->commands;
    while (*last != NULL)
        last = &(*last)->next;
    *last = c;
    session->n_commands++;
    c->fn = fn;
    c->output = request->output;
    c->data = data;
    bool refused = false;
    c->refusal = err;
    c->refused = &refused;
    session->row.used_ms = db_now_ms();
    session_pump(session);
    if (refused)
        return NULL;
    c->refusal = NULL;
    return c;
}

void session_cancel(struct session_command *c)
{
    struct session *session = c->session;
    c->fn = NULL;
    if (c->seq != 0) {
        session_pause(c, false);
        if (c->stopped == END_NONE && session->shell != NULL) {
            c->stopped = END_KILLED;
            shell_stop(session->shell, c->since);
        }
        return;
    }
    struct session_command **p = &session->commands;
    while (*p != c)
        p = &(*p)->next;
    *p = c->next;
    session->n_commands--;
    command_free(c);
}

void session_pause(struct session_command *c, bool paused)
{
    if (c->seq != 0 && c->session->shell != NULL)
        shell_pause(c->session->shell, paused);
}

void sessions_forget(struct sandbox *s)
{
    const struct err gone = {.code = ERR_UNAVAILABLE, .msg = "the sandbox is not running"};
    while (s->sessions != NULL && s->sessions->first != NULL)
        drop(s->sessions->first, &gone);
    free(s->sessions);
    s->sessions = NULL;
}
