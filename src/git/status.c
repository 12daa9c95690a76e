// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/show.h"
#include "git/git-internal.h"
#include "git/look.h"

struct status_work {
    struct git_work work;
    git_status_fn fn;
    void *data;
    struct git_status found;
    struct buf files;
    struct json j; // the list of files
    unsigned n;
    char branch[GIT_REF_MAX + 1], commit[GIT_COMMIT_MAX], upstream[GIT_REF_MAX + 64];
};

static const char *or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static void tell(struct git_work *work, const struct git_fault *fault)
{
    struct status_work *w = (struct status_work *)work;
    w->found.dir = work->dir;
    w->found.branch = or_null(w->branch);
    w->found.commit = or_null(w->commit);
    w->found.upstream = or_null(w->upstream);
    w->found.clean = w->n == 0;
    w->found.files = &w->files;
    w->fn(w->data, fault == NULL ? &w->found : NULL, fault);
}

static void release(struct git_work *work)
{
    buf_done(&((struct status_work *)work)->files);
}

static bool is_header(const char *text, const char *name, const char **ret_value)
{
    size_t len = strlen(name);
    if (strncmp(text, name, len) != 0)
        return false;
    *ret_value = text + len;
    return true;
}

static void copy_header(struct status_work *w, const char *text)
{
    struct git_status *s = &w->found;
    const char *value;
    if (is_header(text, "branch.oid ", &value) && value[0] != '(') // "(initial)"
        (void)snprintf(w->commit, sizeof w->commit, "%s", value);
    else if (is_header(text, "branch.head ", &value) && value[0] != '(') // "(detached)"
        (void)snprintf(w->branch, sizeof w->branch, "%s", value);
    else if (is_header(text, "branch.upstream ", &value))
        (void)snprintf(w->upstream, sizeof w->upstream, "%s", value);
    else if (is_header(text, "branch.ab ", &value))
        s->has_ahead = sscanf(value, "+%lld -%lld", &s->ahead, &s->behind) == 2;
}

static void show_file(struct status_work *w, const struct git_entry *e)
{
    char index[2] = {e->index, '\0'}, tree[2] = {e->tree, '\0'};
    char c = e->kind == '?' ? '?' : e->index != '.' ? e->index : e->tree;
    json_open_object(&w->j);
    show_str(&w->j, "path", e->text);
    if (e->old != NULL)
        show_str(&w->j, "oldPath", e->old);
    show_str(&w->j, "status", git_change_name(c));
    show_str(&w->j, "index", index);
    show_str(&w->j, "worktree", tree);
    json_close_object(&w->j);
    w->n++;
}

static void on_status(struct git_work *work, struct exec_result *result)
{
    struct status_work *w = (struct status_work *)work;
    const struct buf *out = result->out;
    struct git_entry entry;
    size_t at = 0;
    if (git_exit_code(result) != 0) {
        git_fail_result(work, result);
        return;
    }
    json_init(&w->j, &w->files);
    json_open_array(&w->j);
    while (w->n < GIT_FILES_MAX && git_next_entry(out, &at, &entry)) {
        if (entry.kind == '#')
            copy_header(w, entry.text);
        else
            show_file(w, &entry);
    }
    json_close_array(&w->j);
    w->found.truncated = at < out->len || result->truncated;
    if (json_finish(&w->j) < 0)
        git_fail(work, ERROR_GIT_OPERATION_FAILED, "too much is changed to be told at once");
    else
        git_finish(work);
}

static void run(struct git_work *work)
{
    static const char *const args[] = {"status", "--porcelain=v2",        "--branch",
                                       "-z",     "--untracked-files=all", "--ignore-submodules=all",
                                       NULL};
    git_run(work, args, on_status);
}

static void look_around(struct git_work *work)
{
    git_look_around(work, run);
}

struct git_work *git_status_start(struct sandbox *s, const char *dir, git_status_fn fn, void *data)
{
    struct status_work *w = git_work_new(sizeof *w, s, 0, tell);
    w->work.release = release;
    w->fn = fn;
    w->data = data;
    buf_init(&w->files, GIT_NAMES_MAX);
    (void)snprintf(w->work.dir, sizeof w->work.dir, "%s", dir);
    return git_begin(&w->work, look_around);
}
