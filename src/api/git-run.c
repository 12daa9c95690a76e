// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/git.h"
#include "base/clock.h"
#include "base/mem.h"
#include "sandbox/sandbox.h"

enum { ARGS_MAX = 512 };

// Configuration that is said here wins over the repository's own.
static const char *const settings[] = {
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=true",
    "core.sshCommand=false",
    "core.askPass=",
    "core.alternateRefsCommand=false",
    "credential.helper=", // forgets all that were named before
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "diff.external=",
    "diff.ignoreSubmodules=all",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "safe.directory=*",
    "safe.bareRepository=explicit",
    "protocol.allow=never",
    "protocol.http.allow=always",
    "protocol.https.allow=always",
    "http.lowSpeedLimit=1024",
    "http.lowSpeedTime=60",
    "advice.detachedHead=false",
};

// The user's and the machine's configuration are not read, by old versions either, and nobody is
// asked anything.
static const char *const variables[] = {
    "HOME=/dev/null",
    "XDG_CONFIG_HOME=/dev/null",
    "GIT_CONFIG_NOSYSTEM=1",
    "GIT_CONFIG_SYSTEM=/dev/null",
    "GIT_CONFIG_GLOBAL=/dev/null",
    "GIT_ATTR_NOSYSTEM=1",
    "GIT_TERMINAL_PROMPT=0",
    "GIT_ASKPASS=", // empty: not even SSH_ASKPASS
    "GIT_ALLOW_PROTOCOL=http:https",
    "GIT_PROTOCOL_FROM_USER=0",
    "GIT_OPTIONAL_LOCKS=0",
    "GIT_EDITOR=true",
    "GIT_PAGER=cat",
    "GIT_SSH_COMMAND=false",
    "GIT_ADVICE=0",
    "LC_ALL=C",
};

static bool is_ours(const char *setting)
{
    static const char *const names[] = {
        "GIT_",      "SSH_ASKPASS", "HOME=",   "XDG_CONFIG_HOME=", "LC_",
        "LANGUAGE=", "PAGER=",      "EDITOR=", "VISUAL=",          "EMAIL="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strncmp(setting, names[i], strlen(names[i])) == 0)
            return true;
    }
    return false;
}

// -- arguments and variables

struct list {
    const char *items[ARGS_MAX + 1];
    size_t n;
    bool is_full;
};

static void add(struct list *list, const char *text)
{
    if (list->n < ARGS_MAX)
        list->items[list->n++] = text;
    else
        list->is_full = true;
}

static void add_all(struct list *list, const char *const *texts)
{
    for (; *texts != NULL; texts++)
        add(list, *texts);
}

// "-c filter.NAME.KEY=": no program by that name.
static void add_filters(struct list *list, const struct buf *names, struct buf *texts)
{
    static const char *const forms[] = {".clean=", ".smudge=", ".process=", ".required=false"};
    static const size_t n_forms = sizeof forms / sizeof *forms;
    for (size_t at = 0; at < names->len; at += strlen(names->data + at) + 1) {
        for (size_t i = 0; i < n_forms; i++) {
            (void)buf_append_str(texts, "filter.");
            (void)buf_append_str(texts, names->data + at);
            (void)buf_append(texts, forms[i], strlen(forms[i]) + 1);
        }
    }
    if (texts->failed != 0)
        list->is_full = true;
    for (const char *p = texts->data; !list->is_full && p < texts->data + texts->len;
         p += strlen(p) + 1) {
        add(list, "-c");
        add(list, p);
    }
}

static void add_settings(struct list *list, const struct git *git)
{
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        add(list, "-c");
        add(list, settings[i]);
    }
    if (git->rewrite[0] != '\0') {
        add(list, "-c");
        add(list, git->rewrite);
    }
}

struct environment {
    char **base;
    char identity[4][512];
    char index[sizeof((struct git *)0)->index + 16];
    struct list list;
};

static void put_variable(struct environment *e, size_t i, const char *name, const char *value)
{
    (void)snprintf(e->identity[i], sizeof e->identity[i], "%s=%s", name, value);
    add(&e->list, e->identity[i]);
}

static int fill_environment(struct environment *e, const struct git *git, struct err *err)
{
    e->base = exec_env(git->call->sandbox, NULL, 0, err);
    if (e->base == NULL)
        return -1;
    for (size_t i = 0; e->base[i] != NULL; i++) {
        if (!is_ours(e->base[i]))
            add(&e->list, e->base[i]);
    }
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        add(&e->list, variables[i]);
    if (git->index[0] != '\0') {
        (void)snprintf(e->index, sizeof e->index, "GIT_INDEX_FILE=%s", git->index);
        add(&e->list, e->index);
    }
    if (git->name != NULL) {
        put_variable(e, 0, "GIT_AUTHOR_NAME", git->name);
        put_variable(e, 1, "GIT_COMMITTER_NAME", git->name);
        put_variable(e, 2, "GIT_AUTHOR_EMAIL", git->email);
        put_variable(e, 3, "GIT_COMMITTER_EMAIL", git->email);
    }
    return 0;
}

// -- running

static void release(struct git *git)
{
    buf_done(&git->filters);
    buf_done(&git->files);
    buf_done(&git->tracked);
    buf_done(&git->untracked);
    free(git->problem_kept);
    git->problem_kept = NULL;
    git->call->stop = NULL;
}

void git_fail_with(struct git *git, const struct git_problem *problem)
{
    struct call *call = git->call;
    git->call->stop = NULL;
    git->done(git, problem);
    release(git);
    call_unref(call);
}

void git_fail(struct git *git, enum error_kind kind, const char *fmt, ...)
{
    struct git_problem problem = {.kind = kind};
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(problem.message, sizeof problem.message, fmt, ap);
    va_end(ap);
    git_fail_with(git, &problem);
}

void git_finish(struct git *git)
{
    git_fail_with(git, NULL);
}

int git_exit_code(const struct exec_result *result)
{
    return result->end.exit_code;
}

static void not_started(struct git *git, const struct err *err)
{
    if (err->sys_errno == ENOENT && err->code != ERR_UNAVAILABLE)
        git_fail(git, ERROR_NOT_IMPLEMENTED, "there is no git in this sandbox's image");
    else
        git_fail(git, error_of(err->code), "git cannot be started: %s",
                 err->code != ERR_INTERNAL ? err->msg : "Cay's log may say why");
}

static void on_exec(void *data, struct exec_result *result, const struct err *err)
{
    struct git *git = data;
    git->exec = NULL;
    git->step_ended = true;
    git->input = NULL;
    git->input_len = 0;
    if (result == NULL) {
        not_started(git, err);
    } else if (result->end.reason == END_TIMEOUT) {
        git_fail(git, git->url[0] != '\0' ? ERROR_GIT_CLONE_FAILED : ERROR_GIT_OPERATION_FAILED,
                 "git took longer than %lld s and was ended%s", (long long)git->timeout_ms / 1000,
                 git->url[0] != '\0' ? "; the directory may be there in part. 'timeout' gives it "
                                       "more, 'depth' makes it less"
                                     : "");
    } else if (result->end.reason != END_EXIT) {
        git_fail(git, ERROR_GIT_OPERATION_FAILED, "git did not end by itself (%s)",
                 end_reason_name(result->end.reason));
    } else {
        git->next(git, result);
    }
}

static void start(struct git *git, const struct list *argv, git_step_fn next)
{
    struct err err = {0};
    struct environment *e = calloc(1, sizeof *e);
    if (e == NULL)
        abort();
    int64_t left = git->timeout_ms - (clock_ns() - git->start_ns) / NS_PER_MS;
    int r = fill_environment(e, git, &err);
    const struct exec_request request = {
        .argv = argv->items,
        .envp = e->list.items,
        .cwd = "/",
        .stdin_data = git->input,
        .stdin_len = git->input_len,
        .timeout_ms = left > 1 ? left : 1,
    };
    unsigned step = ++git->step;
    struct call *call = call_ref(git->call); // it may be over before exec_start returns
    git->next = next;
    git->step_ended = false;
    struct exec *exec = NULL;
    if (r == 0 && (argv->is_full || e->list.is_full))
        r = err_set(&err, ERR_INVALID, "too many filters or variables");
    if (r == 0)
        exec = exec_start(git->call->sandbox, &request, on_exec, git, &err);
    exec_env_free(e->base);
    free(e);
    if (exec == NULL)
        not_started(git, &err);
    else if (git->step == step && !git->step_ended)
        git->exec = exec;
    call_unref(call);
}

void git_run_tool(struct git *git, const char *const *argv, git_step_fn next)
{
    struct list list = {0};
    add_all(&list, argv);
    start(git, &list, next);
}

void git_run(struct git *git, const char *const *args, git_step_fn next)
{
    struct list list = {0};
    auto_buf texts;
    buf_init(&texts, 64 * 1024);
    add(&list, "git");
    add(&list, "--no-pager");
    add_settings(&list, git);
    if (git->filters.len > 0)
        add_filters(&list, &git->filters, &texts);
    if (git->in_dir) {
        add(&list, "-C");
        add(&list, git->dir);
    }
    add_all(&list, args);
    start(git, &list, next);
}

// -- beginning and giving up

static void on_ignored(void *data, struct exec_result *result, const struct err *err)
{
    (void)data;
    (void)result;
    (void)err;
}

// Nobody waits any more. A clone that a key can ask for again goes on.
static void stop(struct call *call)
{
    struct git *git = call->state;
    if (call->idem.active || git->exec == NULL)
        return;
    exec_cancel(git->exec);
    git->exec = NULL;
    if (git->index[0] != '\0') {
        static const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", NULL};
        const char *const argv[] = {"rm", "-f", "--", git->index, NULL};
        const struct exec_request rm = {
            .argv = argv, .envp = env, .cwd = "/", .timeout_ms = GIT_TIMEOUT_MS};
        struct err ignored;
        (void)exec_start(call->sandbox, &rm, on_ignored, NULL, &ignored);
    }
    release(git);
    call_unref(call);
}

struct git *git_new(struct call *call, git_done_fn done)
{
    struct git *git = calloc(1, sizeof *git);
    if (git == NULL)
        abort();
    git->call = call;
    git->done = done;
    git->timeout_ms = GIT_TIMEOUT_MS;
    buf_init(&git->filters, 32 * 1024);
    buf_init(&git->files, 8 * 1024 * 1024);
    buf_init(&git->tracked, EXEC_OUTPUT_MAX);
    buf_init(&git->untracked, EXEC_OUTPUT_MAX);
    call->state = git;
    return git;
}

struct beginning {
    struct git *git;
    void (*first)(struct git *git);
};

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct beginning begin = *(struct beginning *)data;
    struct call *call = begin.git->call;
    free(data);
    (void)s;
    (void)created;
    if (err != NULL && err->code != ERR_NONE) {
        release(begin.git);
        call_fail(call, err);
        call_unref(call);
    } else if (call->req == NULL && !call->idem.active) {
        release(begin.git);
        call_unref(call);
    } else {
        call->stop = stop;
        begin.git->start_ns = clock_ns();
        begin.first(begin.git);
    }
}

void git_begin(struct call *call, struct git *git, void (*first)(struct git *git))
{
    struct beginning *begin = malloc(sizeof *begin);
    if (begin == NULL)
        abort();
    *begin = (struct beginning){git, first};
    git->call = call_ref(call);
    sandbox_wake(call->sandbox, on_awake, begin);
}

// -- steps that several have

// "filter.NAME.KEY\nVALUE", NUL: the name, once for each of its keys.
static int take_entry(struct git *git, const char *entry, unsigned *identity)
{
    size_t key_len = strcspn(entry, "\n");
    const char *dot = memrchr(entry, '.', key_len);
    if (strncmp(entry, "user.name", key_len) == 0)
        *identity |= 1;
    else if (strncmp(entry, "user.email", key_len) == 0)
        *identity |= 2;
    if (strncmp(entry, "filter.", 7) != 0 || dot == NULL || dot <= entry + 7)
        return 0;
    const char *name = entry + 7;
    size_t len = (size_t)(dot - name);
    if (memchr(name, '=', len) != NULL)
        return -1;
    for (size_t at = 0; at < git->filters.len; at += strlen(git->filters.data + at) + 1) {
        const char *known = git->filters.data + at;
        if (strlen(known) == len && strncmp(known, name, len) == 0)
            return 0;
    }
    (void)buf_append(&git->filters, name, len);
    return buf_append_char(&git->filters, '\0');
}

static void on_around(struct git *git, struct exec_result *result)
{
    struct git_problem problem = {0};
    unsigned identity = 0;
    if (git_exit_code(result) > 1) { // 1: there is none
        git_problem(git, result, &problem);
        git_fail_with(git, &problem);
        return;
    }
    const struct buf *out = result->out;
    bool ok = !result->truncated;
    for (size_t at = 0; ok && at < out->len; at += strlen(out->data + at) + 1)
        ok = take_entry(git, out->data + at, &identity) >= 0;
    if (!ok) {
        git_fail(git, ERROR_GIT_OPERATION_FAILED,
                 "the repository's filters cannot be switched off: too many, or names with '='");
        return;
    }
    git->has_identity = identity == 3;
    git->then(git);
}

// Two lines: where its files begin, which is what paths are told from, and where git's own are.
static void on_place(struct git *git, struct exec_result *result)
{
    static const char *const args[] = {
        "config", "-z", "--includes", "--get-regexp", "^(filter\\..*|user\\.name|user\\.email)$",
        NULL};
    struct git_problem problem = {0};
    const char *text = buf_str(result->out);
    size_t top = strcspn(text, "\n"), own = text[top] == '\n' ? strcspn(text + top + 1, "\n") : 0;
    if (git_exit_code(result) != 0) {
        git_problem(git, result, &problem);
        git_fail_with(git, &problem);
    } else if (top >= GIT_PATH_MAX || own >= GIT_PATH_MAX || text[0] != '/' ||
               text[top + 1] != '/' || result->out->len != top + own + 2) {
        git_fail(git, ERROR_GIT_OPERATION_FAILED, "git does not say where the repository is");
    } else {
        (void)snprintf(git->dir, sizeof git->dir, "%.*s", (int)top, text);
        (void)snprintf(git->own, sizeof git->own, "%.*s", (int)own, text + top + 1);
        git_run(git, args, on_around);
    }
}

void git_look_around(struct git *git, void (*then)(struct git *git))
{
    static const char *const args[] = {"rev-parse", "--show-toplevel", "--absolute-git-dir", NULL};
    git->then = then;
    git_run(git, args, on_place);
}

static void on_head(struct git *git, struct exec_result *result)
{
    if (git_exit_code(result) == 0) {
        const char *text = buf_str(result->out);
        size_t len = strcspn(text, "\n");
        (void)snprintf(git->commit, sizeof git->commit, "%.*s", (int)len, text);
        text += len + (text[len] == '\n');
        if (strncmp(text, "HEAD\n", 5) != 0) // on no branch
            (void)snprintf(git->head, sizeof git->head, "%.*s", (int)strcspn(text, "\n"), text);
    }
    git->then(git);
}

void git_find_head(struct git *git, void (*then)(struct git *git))
{
    static const char *const args[] = {"rev-parse", "HEAD", "--abbrev-ref", "HEAD", NULL};
    git->then = then;
    git_run(git, args, on_head);
}

void git_reply_problem(struct call *call, const struct git_problem *problem)
{
    auto_buf details;
    struct json j;
    buf_init(&details, 8 * GIT_SAID_MAX);
    json_init(&j, &details);
    json_open_object(&j);
    json_key(&j, "stderr");
    json_put_str(&j, problem->said);
    json_close_object(&j);
    bool has = problem->said[0] != '\0' && json_finish(&j) == 0;
    call_error(call, problem->kind, has ? buf_str(&details) : NULL, "%s", problem->message);
}
