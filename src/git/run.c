// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "git/git-internal.h"
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

struct place { // what add_place writes
    char own[GIT_PATH_MAX + 16], tree[GIT_PATH_MAX + 16], excludes[GIT_PATH_MAX + 32];
};

static void add_settings(struct list *list, const struct git_work *work)
{
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        add(list, "-c");
        add(list, settings[i]);
    }
    if (work->rewrite[0] != '\0') {
        add(list, "-c");
        add(list, work->rewrite);
    }
}

struct environment {
    char **base;
    char identity[4][512];
    char index[sizeof((struct git_work *)0)->index + 16];
    struct list list;
};

static void put_variable(struct environment *e, size_t i, const char *name, const char *value)
{
    (void)snprintf(e->identity[i], sizeof e->identity[i], "%s=%s", name, value);
    add(&e->list, e->identity[i]);
}

static int fill_environment(struct environment *e, const struct git_work *work, struct err *err)
{
    e->base = exec_env(work->s, NULL, 0, err);
    if (e->base == NULL)
        return -1;
    for (size_t i = 0; e->base[i] != NULL; i++) {
        if (!is_ours(e->base[i]))
            add(&e->list, e->base[i]);
    }
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        add(&e->list, variables[i]);
    if (work->index[0] != '\0') {
        (void)snprintf(e->index, sizeof e->index, "GIT_INDEX_FILE=%s", work->index);
        add(&e->list, e->index);
    }
    if (work->variable != NULL)
        add(&e->list, work->variable);
    if (work->name != NULL) {
        put_variable(e, 0, "GIT_AUTHOR_NAME", work->name);
        put_variable(e, 1, "GIT_COMMITTER_NAME", work->name);
        put_variable(e, 2, "GIT_AUTHOR_EMAIL", work->email);
        put_variable(e, 3, "GIT_COMMITTER_EMAIL", work->email);
    }
    return 0;
}

// -- the end

static void unref(struct git_work *work)
{
    if (--work->refs > 0)
        return;
    if (work->release != NULL)
        work->release(work);
    buf_done(&work->filters);
    buf_done(&work->tracked);
    buf_done(&work->untracked);
    sandbox_unref(work->s);
    free(work);
}

static void on_ignored(void *data, struct exec_result *result, const struct err *err)
{
    (void)data;
    (void)result;
    (void)err;
}

// What it has put into the box for itself goes, and nobody waits for that.
static void clean_up(struct git_work *work)
{
    static const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", NULL};
    const char *argv[8] = {"rm", "-rf", "--"};
    size_t n = 3;
    for (size_t i = 0; i < sizeof work->litter / sizeof *work->litter; i++) {
        if (work->litter[i][0] != '\0')
            argv[n++] = work->litter[i];
    }
    const struct exec_request rm = {
        .argv = argv, .envp = env, .cwd = "/", .timeout_ms = GIT_TIMEOUT_MS, .ends_rest = true};
    struct err ignored;
    if (n > 3)
        (void)exec_start(work->s, &rm, on_ignored, NULL, &ignored);
}

void git_fail_with(struct git_work *work, const struct git_fault *fault)
{
    if (work->over)
        return;
    work->over = true;
    clean_up(work);
    work->tell(work, fault);
    unref(work);
}

void git_fail(struct git_work *work, enum error_kind kind, const char *fmt, ...)
{
    struct git_fault fault = {0};
    char message[sizeof fault.message];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    git_fault_set(&fault, kind, "%s", message);
    git_fail_with(work, &fault);
}

void git_fail_result(struct git_work *work, const struct exec_result *result)
{
    struct git_fault fault = {0};
    git_fault_read(work->dir, result, &fault);
    git_fail_with(work, &fault);
}

void git_finish(struct git_work *work)
{
    git_fail_with(work, NULL);
}

void git_cancel(struct git_work *work)
{
    if (work == NULL || work->over)
        return;
    work->over = true;
    if (work->exec != NULL)
        exec_cancel(work->exec);
    work->exec = NULL;
    clean_up(work);
    unref(work);
}

// -- running

int git_exit_code(const struct exec_result *result)
{
    return result->end.exit_code;
}

static void not_started(struct git_work *work, const struct err *err)
{
    if (err->sys_errno == ENOENT && err->code != ERR_UNAVAILABLE)
        git_fail(work, ERROR_NOT_IMPLEMENTED, "there is no git in this sandbox's image");
    else
        git_fail(work, error_of(err->code), "git cannot be started: %s",
                 err->code != ERR_INTERNAL ? err->msg : "Cay's log may say why");
}

static void on_exec(void *data, struct exec_result *result, const struct err *err)
{
    struct git_work *work = data;
    work->exec = NULL;
    work->step_ended = true;
    work->input = NULL;
    work->input_len = 0;
    if (result == NULL) {
        not_started(work, err);
    } else if (result->end.reason == END_TIMEOUT) {
        git_fail(work, work->late, "git took longer than %lld s and was ended%s",
                 (long long)work->timeout_ms / 1000, work->late_hint);
    } else if (result->end.reason != END_EXIT) {
        git_fail(work, ERROR_GIT_OPERATION_FAILED, "git did not end by itself (%s)",
                 end_reason_name(result->end.reason));
    } else {
        work->next(work, result);
    }
}

static void start(struct git_work *work, const struct list *argv, git_step_fn next)
{
    struct err err = {0};
    struct environment *e = calloc(1, sizeof *e);
    if (e == NULL)
        abort();
    int64_t left = work->timeout_ms - (clock_ns() - work->start_ns) / NS_PER_MS;
    int r = fill_environment(e, work, &err);
    const struct exec_request request = {
        .argv = argv->items,
        .envp = e->list.items,
        .cwd = "/",
        .stdin_data = work->input,
        .stdin_len = work->input_len,
        .timeout_ms = left > 1 ? left : 1,
        .ends_rest = true, // the program may be somebody else's by now
    };
    unsigned step = ++work->step;
    work->refs++; // it may be over before exec_start returns
    work->next = next;
    work->step_ended = false;
    struct exec *exec = NULL;
    if (r == 0 && (argv->is_full || e->list.is_full))
        r = err_set(&err, ERR_INVALID, "too many filters or variables");
    if (r == 0)
        exec = exec_start(work->s, &request, on_exec, work, &err);
    exec_env_free(e->base);
    free(e);
    if (exec == NULL)
        not_started(work, &err);
    else if (work->step == step && !work->step_ended)
        work->exec = exec;
    unref(work);
}

void git_run_tool(struct git_work *work, const char *const *argv, git_step_fn next)
{
    struct list list = {0};
    add_all(&list, argv);
    start(work, &list, next);
}

// Where it works, and with which repository.
static void add_place(struct list *list, const struct git_work *work, struct place *place)
{
    if (work->dir[0] != '\0') {
        add(list, "-C");
        add(list, work->dir);
    }
    if (!work->apart)
        return;
    (void)snprintf(place->own, sizeof place->own, "--git-dir=%s", work->own);
    (void)snprintf(place->tree, sizeof place->tree, "--work-tree=%s", work->dir);
    add(list, place->own);
    add(list, place->tree);
    if (work->excludes != NULL) {
        (void)snprintf(place->excludes, sizeof place->excludes, "core.excludesFile=%s",
                       work->excludes);
        add(list, "-c");
        add(list, place->excludes);
    }
}

void git_run(struct git_work *work, const char *const *args, git_step_fn next)
{
    struct list list = {0};
    struct place place;
    auto_buf texts;
    buf_init(&texts, 64 * 1024);
    add(&list, "git");
    add(&list, "--no-pager");
    add_settings(&list, work);
    if (work->filters.len > 0)
        add_filters(&list, &work->filters, &texts);
    add_place(&list, work, &place);
    add_all(&list, args);
    start(work, &list, next);
}

// -- the beginning

void *git_work_new(size_t size, struct sandbox *s, int64_t timeout_ms,
                   void (*tell)(struct git_work *work, const struct git_fault *fault))
{
    struct git_work *work = calloc(1, size);
    if (work == NULL)
        abort();
    work->s = sandbox_ref(s);
    work->refs = 1;
    work->tell = tell;
    work->timeout_ms = timeout_ms > 0 ? timeout_ms : GIT_TIMEOUT_MS;
    work->late = ERROR_GIT_OPERATION_FAILED;
    work->late_hint = "";
    buf_init(&work->filters, 32 * 1024);
    buf_init(&work->tracked, EXEC_OUTPUT_MAX);
    buf_init(&work->untracked, EXEC_OUTPUT_MAX);
    return work;
}

struct git_work *git_begin(struct git_work *work, void (*first)(struct git_work *work))
{
    work->start_ns = clock_ns();
    work->refs++;
    first(work);
    bool over = work->over;
    unref(work);
    return over ? NULL : work;
}
