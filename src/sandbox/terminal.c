// SPDX-License-Identifier: Apache-2.0
#include "sandbox/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "sandbox/process-internal.h"
#include "sandbox/session.h"

enum { COMMAND_JSON_MAX = 64 * 1024 };

#define TERM_SETTING "TERM=xterm-256color"

struct waiting {
    terminal_fn fn;
    void *data;
    struct waiting *next;
};

// One that is being started, and those who wait for it.
struct opening {
    struct sandbox *s; // counted
    char *name, *shell, *command, *cwd, *env;
    uint32_t uid, gid;
    uint16_t rows, cols;
    bool plain;       // bash was not there
    bool session_cwd; // that of the session, which may be gone
    struct waiting *waiting;
    struct opening *next;
};

static void *must(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

static char *copy(const char *text)
{
    return text != NULL ? must(strdup(text)) : NULL;
}

// --- finding

static bool is_terminal(const struct process *p)
{
    return p->row.tty != NULL && p->row.reason == END_NONE && p->fn == NULL && p->job != NULL;
}

// What runs is in memory, so that is all there is to look at.
struct process *terminal_find(struct sandbox *s, const char *name)
{
    struct process *p;
    for (size_t at = 0;
         s->processes != NULL && (p = map_next(&s->processes->by_id, &at)) != NULL;) {
        if (is_terminal(p) && strcmp(p->row.tty, name) == 0)
            return p;
    }
    return NULL;
}

void terminal_each(struct sandbox *s, void (*fn)(void *data, struct process *p), void *data)
{
    struct process *p;
    for (size_t at = 0;
         s->processes != NULL && (p = map_next(&s->processes->by_id, &at)) != NULL;) {
        if (is_terminal(p))
            fn(data, p);
    }
}

// --- starting one

static void opening_free(struct opening *o)
{
    struct sandbox *s = o->s;
    free(o->name);
    free(o->shell);
    free(o->command);
    free(o->cwd);
    free(o->env);
    free(o);
    sandbox_unref(s);
}

static void finish(struct opening *o, struct process *p, const struct err *err)
{
    struct opening **at = &processes_of(o->s)->openings;
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    bool created = true; // of the first, who asked for it
    while (o->waiting != NULL) {
        struct waiting *w = o->waiting;
        o->waiting = w->next;
        w->fn(w->data, p, created, err);
        created = false;
        free(w);
    }
    opening_free(o);
}

// Whether it knows "-l" and "-c".
static bool is_shell(const char *program)
{
    static const char *const shells[] = {"bash", "sh", "dash", "ash", "zsh", "ksh", "mksh", "fish"};
    const char *slash = strrchr(program, '/');
    const char *name = slash != NULL ? slash + 1 : program;
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(name, shells[i]) == 0)
            return true;
    }
    return false;
}

static const char *shell_of(const struct opening *o)
{
    if (o->shell != NULL)
        return o->shell;
    return o->plain ? "/bin/sh" : "bash";
}

static void set_argv(const struct opening *o, const char *argv[static 5])
{
    size_t n = 0;
    argv[n++] = shell_of(o);
    if (is_shell(argv[0]))
        argv[n++] = "-l";
    if (o->command != NULL) {
        argv[n++] = "-c";
        argv[n++] = o->command;
    }
    argv[n] = NULL;
}

static void show_argv(const char *const *argv, struct buf *ret)
{
    struct json json;
    json_init(&json, ret);
    json_open_array(&json);
    for (; *argv != NULL; argv++)
        json_put_str(&json, *argv);
    json_close_array(&json);
    if (json_finish(&json) < 0) {
        buf_reset(ret);
        (void)buf_append_str(ret, "[]");
    }
}

static char **environment(const struct opening *o, struct err *err)
{
    size_t n = 0;
    char **env = exec_env(o->s, o->env, o->uid, err);
    if (env == NULL)
        return NULL;
    while (env[n] != NULL && strncmp(env[n], "TERM=", 5) != 0)
        n++;
    if (env[n] != NULL) {
        free(env[n]);
        env[n] = copy(TERM_SETTING);
        return env;
    }
    env = must(reallocarray(env, n + 2, sizeof *env));
    env[n] = copy(TERM_SETTING);
    env[n + 1] = NULL;
    return env;
}

static void start(struct opening *o);

static void on_started(void *data, struct process *p, const struct err *err)
{
    struct opening *o = data;
    bool again = p == NULL && err->sys_errno == ENOENT && o->s->state == STATE_RUNNING;
    if (again && o->shell == NULL && !o->plain) {
        o->plain = true;
        start(o);
    } else if (again && o->session_cwd) {
        free(o->cwd);
        o->cwd = NULL;
        o->plain = o->session_cwd = false;
        start(o);
    } else {
        finish(o, p, err);
    }
}

static void start(struct opening *o)
{
    struct err err = {0};
    const char *argv[5];
    auto_buf text;
    char **env = environment(o, &err);
    if (env == NULL) {
        finish(o, NULL, &err);
        return;
    }
    set_argv(o, argv);
    buf_init(&text, COMMAND_JSON_MAX);
    show_argv(argv, &text);
    const struct process_request request = {
        .command = buf_str(&text),
        .exec = {.argv = argv,
                 .envp = (const char *const *)env,
                 .cwd = o->cwd != NULL ? o->cwd : "/workspace",
                 .uid = o->uid,
                 .gid = o->gid},
        .tty = o->name,
        .rows = o->rows,
        .cols = o->cols,
    };
    process_start(o->s, &request, on_started, o);
    exec_env_free(env);
}

static void wait_for(struct opening *o, terminal_fn fn, void *data)
{
    struct waiting **at = &o->waiting;
    while (*at != NULL)
        at = &(*at)->next;
    *at = must(calloc(1, sizeof **at));
    **at = (struct waiting){.fn = fn, .data = data};
}

static struct opening *find_opening(struct sandbox *s, const char *name)
{
    struct opening *o = processes_of(s)->openings;
    while (o != NULL && strcmp(o->name, name) != 0)
        o = o->next;
    return o;
}

// Directory and variables of the session of its name, if there is one.
static void on_session(void *data, const struct session_row *row, const struct err *err)
{
    struct opening *o = data;
    (void)err;
    if (row != NULL && o->cwd == NULL) {
        o->cwd = copy(row->cwd);
        o->session_cwd = row->cwd != NULL;
    }
    if (row != NULL)
        o->env = copy(row->env);
    start(o);
}

static struct opening *opening_new(struct sandbox *s, const struct terminal_request *r)
{
    struct opening *o = must(calloc(1, sizeof *o));
    *o = (struct opening){
        .s = sandbox_ref(s),
        .name = copy(r->name),
        .shell = copy(r->shell),
        .command = copy(r->command),
        .cwd = copy(r->cwd),
        .uid = r->uid,
        .gid = r->gid,
        .rows = r->rows,
        .cols = r->cols,
        .next = processes_of(s)->openings,
    };
    processes_of(s)->openings = o;
    return o;
}

void terminal_open(struct sandbox *s, const struct terminal_request *request, terminal_fn fn,
                   void *data)
{
    struct process *p = terminal_find(s, request->name);
    if (p != NULL) {
        fn(data, p, /*created=*/false, NULL);
        return;
    }
    struct opening *o = find_opening(s, request->name);
    if (o != NULL) {
        wait_for(o, fn, data);
        return;
    }
    o = opening_new(s, request);
    wait_for(o, fn, data);
    session_ask(s, o->name, on_session, o);
}

// --- one of them

int terminal_set_size(struct process *p, uint16_t rows, uint16_t cols, struct err *err)
{
    int r = process_set_size(p, rows, cols);
    return r < 0 ? err_sys(err, -r, "set the terminal's size") : 0;
}

void terminal_get_size(const struct process *p, uint16_t *ret_rows, uint16_t *ret_cols)
{
    *ret_rows = *ret_cols = 0;
    (void)process_get_size(p, ret_rows, ret_cols);
}

const char *terminal_end_reason(const struct process *p)
{
    if (p->s == NULL || p->s->destroy_wanted)
        return "destroyed";
    if (p->s->state != STATE_RUNNING && p->row.reason != END_BOX_LOST && p->row.reason != END_OOM)
        return "sleep";
    return end_reason_name(p->row.reason);
}

static void hang_up(void *data, struct process *p)
{
    struct err ignored;
    (void)data;
    (void)job_signal(p->job, SIGHUP, &ignored);
}

void terminals_hang_up(struct sandbox *s)
{
    terminal_each(s, hang_up, NULL);
}
