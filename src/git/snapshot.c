// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "git/check.h"
#include "git/snapshot-internal.h"

enum {
    NESTED_MAX = 256,
    INFO_MAX = EXEC_OUTPUT_MAX,
};

// -- memory

void *snapshot_new(size_t size, struct sandbox *s, int64_t timeout_ms,
                   void (*tell)(struct git_work *work, const struct git_fault *fault))
{
    struct snapshot *snapshot = git_work_new(size, s, timeout_ms, tell);
    struct git_work *work = &snapshot->work;
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        abort();
    (void)snprintf(work->own, sizeof work->own, "/tmp/.cay-git-%016llx",
                   (unsigned long long)number);
    (void)snprintf(work->litter[0], sizeof work->litter[0], "%s", work->own);
    work->release = snapshot_release;
    buf_init(&snapshot->variable, 8 * GIT_PATH_MAX);
    buf_init(&snapshot->nested, 1024 * 1024);
    buf_init(&snapshot->paths, EXEC_OUTPUT_MAX);
    buf_init(&snapshot->info, INFO_MAX);
    buf_init(&snapshot->out, EXEC_OUTPUT_MAX);
    return snapshot;
}

void snapshot_release(struct git_work *work)
{
    struct snapshot *snapshot = (struct snapshot *)work;
    buf_done(&snapshot->variable);
    buf_done(&snapshot->nested);
    buf_done(&snapshot->paths);
    buf_done(&snapshot->info);
    buf_done(&snapshot->out);
}

// -- where objects are

// Directories are told apart by colons; those in quotes may have them.
static void set_alternates(struct snapshot *snapshot)
{
    struct buf *v = &snapshot->variable;
    buf_reset(v);
    (void)buf_append_str(v, "GIT_ALTERNATE_OBJECT_DIRECTORIES=");
    for (size_t i = 0; i < 2; i++) {
        if (snapshot->objects[i][0] == '\0')
            continue;
        (void)buf_append_str(v, v->data[v->len - 1] == '=' ? "\"" : ":\"");
        for (const char *p = snapshot->objects[i]; *p != '\0'; p++) {
            if (*p == '"' || *p == '\\')
                (void)buf_append_char(v, '\\');
            (void)buf_append_char(v, *p);
        }
        (void)buf_append_char(v, '"');
    }
    snapshot->work.variable = buf_str(v);
}

static void broken(struct git_work *work, const struct exec_result *result)
{
    const struct snapshot *snapshot = (struct snapshot *)work;
    struct git_fault fault = {0};
    git_fault_read(snapshot->top, result, &fault);
    if (fault.kind != ERROR_NO_SPACE)
        git_fault_set(&fault, ERROR_GIT_REPO_NOT_FOUND,
                      "the repository that was at '%.200s' is broken or gone, so that nobody can "
                      "tell what has changed: has its .git been deleted or replaced?",
                      snapshot->top);
    git_fail_with(work, &fault);
}

// -- repositories below it

static void put_in(struct snapshot *snapshot);

static void go_on(struct snapshot *snapshot)
{
    snapshot->work.index[0] = '\0';
    (void)snprintf(snapshot->work.dir, sizeof snapshot->work.dir, "%s", snapshot->top);
    snapshot->taken(snapshot);
}

static int note_nested(struct snapshot *snapshot, const char *parent, const char *name, size_t len)
{
    if (++snapshot->n_nested > NESTED_MAX || len == 0)
        return -1;
    return buf_printf(&snapshot->nested, "%s%s%.*s", parent, parent[0] != '\0' ? "/" : "", (int)len,
                      name) < 0
               ? -1
               : buf_append_char(&snapshot->nested, '\0');
}

static void too_deep(struct git_work *work)
{
    git_fail(work, ERROR_GIT_OPERATION_FAILED,
             "there are more than %d repositories below '%.200s', or files in them than can be "
             "looked at",
             NESTED_MAX, ((struct snapshot *)work)->top);
}

// Names of its files; one that ends with a slash is a repository again.
static void on_nested(struct git_work *work, struct exec_result *result)
{
    struct snapshot *snapshot = (struct snapshot *)work;
    char parent[GIT_PATH_MAX];
    const struct buf *out = result->out;
    (void)snprintf(parent, sizeof parent, "%s", snapshot->nested.data + snapshot->nested_at);
    if (git_exit_code(result) != 0) {
        git_fail_result(work, result);
        return;
    }
    int r = result->truncated ? -1 : 0;
    for (size_t at = 0; r == 0 && at < out->len;) {
        const char *name = out->data + at;
        size_t len = strlen(name);
        at += len + 1;
        if (len > 0 && name[len - 1] == '/')
            r = note_nested(snapshot, parent, name, len - 1);
        else
            r = buf_printf(&snapshot->paths, "%s/%s", parent, name) < 0
                    ? -1
                    : buf_append_char(&snapshot->paths, '\0');
    }
    snapshot->nested_at += strlen(parent) + 1;
    if (r < 0)
        too_deep(work);
    else
        put_in(snapshot);
}

static void on_put_in(struct git_work *work, struct exec_result *result)
{
    if (git_exit_code(result) != 0)
        git_fail_result(work, result);
    else
        go_on((struct snapshot *)work);
}

// Looks into the next one, or puts in what was found.
static void put_in(struct snapshot *snapshot)
{
    static const char *const list[] = {"ls-files", "-z", "--others", "--exclude-standard", NULL};
    static const char *const update[] = {"update-index", "-z",      "--add",
                                         "--replace",    "--stdin", NULL};
    struct git_work *work = &snapshot->work;
    struct err err;
    work->index[0] = '\0';
    if (snapshot->nested_at < snapshot->nested.len) {
        const char *name = snapshot->nested.data + snapshot->nested_at;
        int n = snprintf(work->dir, sizeof work->dir, "%s/%s", snapshot->top, name);
        (void)snprintf(work->index, sizeof work->index, "%s/none", work->own);
        if (n >= GIT_PATH_MAX || git_check_dir(work->dir, &err) < 0)
            git_fail(work, ERROR_GIT_OPERATION_FAILED,
                     "the repository in '%.200s' cannot be looked into: its name is too long, or "
                     "not a plain one",
                     name);
        else
            git_run(work, list, on_nested);
    } else if (snapshot->paths.len > 0) {
        (void)snprintf(work->dir, sizeof work->dir, "%s", snapshot->top);
        work->input = snapshot->paths.data;
        work->input_len = snapshot->paths.len;
        git_run(work, update, on_put_in);
    } else {
        go_on(snapshot);
    }
}

// -- all that is there

static bool begins(const char *line, const char *words)
{
    return strncmp(line, words, strlen(words)) == 0;
}

enum heard { HEARD_NOTHING, HEARD_NESTED, HEARD_TOO_MANY, HEARD_ERROR };

// One line of what `git add` says.
static enum heard hear(struct snapshot *snapshot, const char *line, size_t len)
{
    static const char nested[] = "warning: adding embedded git repository: ", error[] = "error: '";
    static const char bare[] = "/' does not have a commit checked out";
    const size_t n = sizeof nested - 1, b = sizeof bare - 1, e = sizeof error - 1;
    const char *name = NULL;
    size_t name_len = 0;
    if (len > n && begins(line, nested)) {
        name = line + n;
        name_len = len - n;
    } else if (len > e + b && begins(line, error) && begins(line + len - b, bare)) {
        name = line + e;
        name_len = len - e - b;
    }
    if (name != NULL)
        return note_nested(snapshot, "", name, name_len) < 0 ? HEARD_TOO_MANY : HEARD_NESTED;
    // Where objects were and are not any more: it shows when they are needed.
    if (begins(line, "error: object directory ") || begins(line, "error: unable to normalize alt"))
        return HEARD_NOTHING;
    return begins(line, "error: ") ? HEARD_ERROR : HEARD_NOTHING;
}

// It ends with 1 when there was something that it could not put in.
static void on_added(struct git_work *work, struct exec_result *result)
{
    struct snapshot *snapshot = (struct snapshot *)work;
    int code = git_exit_code(result);
    bool ok = code <= 1 && !result->truncated, fits = true;
    for (const char *p = buf_str(result->err); *p != '\0' && !snapshot->mended;) {
        size_t len = strcspn(p, "\n");
        enum heard heard = hear(snapshot, p, len);
        ok &= heard != HEARD_ERROR || code == 0;
        fits &= heard != HEARD_TOO_MANY;
        p += len + (p[len] == '\n');
    }
    if (!fits)
        too_deep(work);
    else if (!ok)
        git_fail_result(work, result);
    else if (snapshot->mended)
        go_on(snapshot); // what is below is in already
    else
        put_in(snapshot);
}

static void run_add(struct snapshot *snapshot)
{
    struct git_work *work = &snapshot->work;
    size_t len = strlen(snapshot->top);
    // Ours may be below it.
    bool around = strncmp(work->own, snapshot->top, len) == 0;
    const char *const args[] = {"-c",
                                "core.bigFileThreshold=64m", // larger ones are nothing to read
                                "-c",
                                "core.fsync=none",
                                "-c",
                                "advice.addEmbeddedRepo=false",
                                "add",
                                "--all",
                                "--ignore-errors",
                                "--",
                                ".",
                                around ? ":(exclude,glob)**/.cay-git-*/**" : NULL,
                                NULL};
    (void)snprintf(work->dir, sizeof work->dir, "%s", snapshot->top);
    git_run(work, args, on_added);
}

static void on_init(struct git_work *work, struct exec_result *result)
{
    struct snapshot *snapshot = (struct snapshot *)work;
    if (git_exit_code(result) != 0) {
        git_fail_result(work, result);
        return;
    }
    work->apart = true;
    set_alternates(snapshot);
    run_add(snapshot);
}

void snapshot_take(struct snapshot *snapshot, void (*taken)(struct snapshot *snapshot))
{
    struct git_work *work = &snapshot->work;
    bool is_sha256 = strlen(snapshot->base) == 64;
    const char *const args[] = {
        "init",    "--quiet", "--bare", "--template=", is_sha256 ? "--object-format=sha256" : "--",
        work->own, NULL};
    snapshot->taken = taken;
    work->dir[0] = '\0';
    git_run(work, args, on_init);
}

// -- comparing it

static bool take_word(const char **p, size_t len, const char **ret)
{
    *ret = *p;
    if (strcspn(*p, " ") != len || (*p)[len] != ' ')
        return false;
    *p += len + 1;
    return true;
}

// ":MODE MODE ID ID STATUS" NUL path NUL; of a rename two paths.
bool change_next(const struct buf *out, size_t *at, struct change *ret)
{
    const char *other, *p, *end = out->data + out->len;
    if (*at >= out->len || out->data[*at] != ':')
        return false;
    p = out->data + *at + 1;
    const char *next = p + strlen(p) + 1;
    *ret = (struct change){0};
    if (!take_word(&p, CHANGE_MODE, &ret->mode) || !take_word(&p, CHANGE_MODE, &other))
        return false;
    size_t id = strcspn(p, " ");
    if (!take_word(&p, id, &ret->id) || !take_word(&p, id, &other))
        return false;
    ret->status = *p;
    if (ret->status == 'R' && next < end) {
        ret->old = next;
        next += strlen(next) + 1;
    }
    if (next >= end || next + strlen(next) >= end)
        return false; // it was cut
    ret->path = next;
    *at = (size_t)(next - out->data) + strlen(next) + 1;
    return true;
}

static void run_compare(struct snapshot *snapshot);

// Those that are not there any more, or are there and not looked at.
static void find_missing(struct snapshot *snapshot)
{
    struct change c;
    size_t at = 0;
    buf_reset(&snapshot->paths);
    buf_reset(&snapshot->info);
    while (change_next(&snapshot->out, &at, &c)) {
        const char *path = c.status == 'R' ? c.old : c.path;
        if ((c.status != 'D' && c.status != 'R') || strncmp(c.mode, "160000", CHANGE_MODE) == 0)
            continue;
        (void)buf_append_str(&snapshot->paths, path);
        (void)buf_append_char(&snapshot->paths, '\0');
        (void)buf_printf(&snapshot->info, "%.*s %.*s 0\t%s", CHANGE_MODE, c.mode,
                         (int)strcspn(c.id, " "), c.id, path);
        (void)buf_append_char(&snapshot->info, '\0');
    }
}

static void on_mended(struct git_work *work, struct exec_result *result)
{
    struct snapshot *snapshot = (struct snapshot *)work;
    if (git_exit_code(result) != 0) {
        git_fail_result(work, result);
        return;
    }
    snapshot->taken = run_compare;
    run_add(snapshot);
}

// As they were, for `git add` to find out what has become of them. Entries of repositories go: it
// must not look into them.
static void mend(struct snapshot *snapshot)
{
    static const char *const args[] = {"update-index", "-z", "--index-info", NULL};
    static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";
    struct git_work *work = &snapshot->work;
    const struct buf *nested = &snapshot->nested;
    for (size_t at = 0; at < nested->len; at += strlen(nested->data + at) + 1) {
        (void)buf_printf(&snapshot->info, "0 %.*s 0\t%s", (int)strlen(snapshot->base), zeros,
                         nested->data + at);
        (void)buf_append_char(&snapshot->info, '\0');
    }
    snapshot->mended = true;
    work->input = snapshot->info.data;
    work->input_len = snapshot->info.len;
    git_run(work, args, on_mended);
}

// 1: .gitignore names none of them, so they are gone. More than that: it cannot tell.
static void on_ignored(struct git_work *work, struct exec_result *result)
{
    struct snapshot *snapshot = (struct snapshot *)work;
    if (git_exit_code(result) == 1)
        snapshot->compared(snapshot);
    else
        mend(snapshot);
}

static void on_compared(struct git_work *work, struct exec_result *result)
{
    static const char *const args[] = {
        "--literal-pathspecs", "check-ignore", "--no-index", "-z", "--stdin", NULL};
    struct snapshot *snapshot = (struct snapshot *)work;
    if (git_exit_code(result) != 0 && !result->truncated) {
        broken(work, result);
        return;
    }
    buf_done(&snapshot->out);
    snapshot->out = *result->out; // takes its bytes
    buf_init(result->out, EXEC_OUTPUT_MAX);
    snapshot->out_truncated = result->truncated;
    if (!snapshot->mended)
        find_missing(snapshot);
    if (snapshot->mended || snapshot->paths.len == 0) {
        snapshot->compared(snapshot);
    } else if (snapshot->info.failed != 0) {
        git_fail(work, ERROR_GIT_OPERATION_FAILED, "too much is deleted to be looked at at once");
    } else {
        work->input = snapshot->paths.data;
        work->input_len = snapshot->paths.len;
        git_run(work, args, on_ignored);
    }
}

static void run_compare(struct snapshot *snapshot)
{
    const char *args[32] = {
        "diff-index",    "--cached",      "--raw",      "-z",
        "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all"};
    size_t n = 8;
    for (const char *const *option = snapshot->options; *option != NULL; option++)
        args[n++] = *option;
    args[n++] = snapshot->base;
    args[n++] = "--";
    git_run(&snapshot->work, args, on_compared);
}

void snapshot_compare(struct snapshot *snapshot, const char *const *options,
                      void (*compared)(struct snapshot *snapshot))
{
    snapshot->options = options;
    snapshot->compared = compared;
    run_compare(snapshot);
}

void snapshot_compare_again(struct snapshot *snapshot, const char *const *options)
{
    snapshot->mended = true; // what was to be mended has been
    snapshot->options = options;
    run_compare(snapshot);
}
