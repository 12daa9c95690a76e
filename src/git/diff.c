// SPDX-License-Identifier: Apache-2.0
// A diff that has new files too needs them in an index, and that is a copy of the repository's own:
// find the index, copy it, put the new files in, compare.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/show.h"
#include "git/git-internal.h"
#include "git/look.h"

struct diff_work {
    struct git_work work;
    git_diff_fn fn;
    void *data;
    struct buf files;
    const char *base;
    const struct exec_result *patch; // while it is told
    bool truncated;
};

static void tell(struct git_work *work, const struct git_fault *fault)
{
    struct diff_work *w = (struct diff_work *)work;
    if (fault != NULL) {
        w->fn(w->data, NULL, fault);
        return;
    }
    const struct git_diff diff = {
        .dir = work->dir,
        .files = &w->files,
        .diff = w->patch->out,
        .truncated = w->truncated || w->patch->truncated,
    };
    w->fn(w->data, &diff, NULL);
}

static void release(struct git_work *work)
{
    buf_done(&((struct diff_work *)work)->files);
}

static void on_patch(struct git_work *work, struct exec_result *result)
{
    struct diff_work *w = (struct diff_work *)work;
    w->patch = result;
    if (git_exit_code(result) != 0 && !result->truncated)
        git_fail_result(work, result);
    else
        git_finish(work);
}

#define DIFF_ARGS                                                                                  \
    "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "--src-prefix=a/",    \
        "--dst-prefix=b/", "--ignore-submodules=all", "--find-renames"

static void run_patch(struct git_work *work)
{
    const struct diff_work *w = (struct diff_work *)work;
    const char *const args[] = {DIFF_ARGS, "--patch", "--binary", w->base, "--", NULL};
    git_run(work, args, on_patch);
}

// "M", NUL, path, NUL; of "R100" and "C75" two paths. Where the next one begins.
static size_t show_name(struct json *j, const struct buf *out, size_t at)
{
    char c = out->data[at];
    const char *old = NULL;
    at += strlen(out->data + at) + 1;
    if (at < out->len && (c == 'R' || c == 'C')) {
        old = out->data + at;
        at += strlen(old) + 1;
    }
    if (at >= out->len)
        return out->len;
    const char *path = out->data + at;
    json_open_object(j);
    show_str(j, "path", path);
    if (old != NULL)
        show_str(j, "oldPath", old);
    show_str(j, "status", git_change_name(c));
    json_close_object(j);
    return at + strlen(path) + 1;
}

static void on_names(struct git_work *work, struct exec_result *result)
{
    struct diff_work *w = (struct diff_work *)work;
    const struct buf *out = result->out;
    struct json j;
    size_t at = 0;
    if (git_exit_code(result) != 0) {
        git_fail_result(work, result);
        return;
    }
    json_init(&j, &w->files);
    json_open_array(&j);
    for (unsigned n = 0; at < out->len && n < GIT_FILES_MAX; n++)
        at = show_name(&j, out, at);
    json_close_array(&j);
    w->truncated = work->list_truncated || at < out->len || result->truncated;
    if (json_finish(&j) < 0)
        git_fail(work, ERROR_GIT_OPERATION_FAILED, "too much is changed to be told at once");
    else
        run_patch(work);
}

static void run_names(struct git_work *work)
{
    const struct diff_work *w = (struct diff_work *)work;
    const char *const args[] = {DIFF_ARGS, "--name-status", "-z", w->base, "--", NULL};
    git_run(work, args, on_names);
}

static void on_added(struct git_work *work, struct exec_result *result)
{
    if (git_exit_code(result) != 0)
        git_fail_result(work, result);
    else
        run_names(work);
}

static void run_add(struct git_work *work)
{
    if (work->untracked.len > 0)
        git_add(work, "--intent-to-add", &work->untracked, on_added);
    else
        run_names(work);
}

static void on_index(struct git_work *work, struct exec_result *result)
{
    (void)result; // an unborn branch has no tree: then the index is empty
    run_add(work);
}

static void on_copied(struct git_work *work, struct exec_result *result)
{
    const struct diff_work *w = (struct diff_work *)work;
    if (git_exit_code(result) == 0) {
        run_add(work);
    } else { // there is none yet, or no cp: what was committed will do
        const char *const args[] = {"read-tree", w->base, NULL};
        git_run(work, args, on_index);
    }
}

static void on_base(struct git_work *work)
{
    struct diff_work *w = (struct diff_work *)work;
    char from[sizeof work->index];
    uint64_t number;
    // The empty tree: what a branch without a commit is compared with.
    w->base = work->commit[0] != '\0' ? work->commit : "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        abort();
    (void)snprintf(from, sizeof from, "%s/index", work->own);
    (void)snprintf(work->index, sizeof work->index, "%s/cay-%016llx", work->own,
                   (unsigned long long)number);
    (void)snprintf(work->litter[0], sizeof work->litter[0], "%s", work->index);
    (void)snprintf(work->litter[1], sizeof work->litter[1], "%s.lock", work->index);
    // With its time: by that git knows which files may have changed since without being any longer.
    const char *const argv[] = {"cp", "-p", "--", from, work->index, NULL};
    git_run_tool(work, argv, on_copied);
}

static void find_base(struct git_work *work)
{
    git_find_head(work, on_base);
}

static void list(struct git_work *work)
{
    git_list(work, find_base);
}

static void look_around(struct git_work *work)
{
    git_look_around(work, list);
}

struct git_work *git_diff_start(struct sandbox *s, const char *dir, git_diff_fn fn, void *data)
{
    struct diff_work *w = git_work_new(sizeof *w, s, 0, tell);
    w->work.release = release;
    w->fn = fn;
    w->data = data;
    buf_init(&w->files, GIT_NAMES_MAX);
    (void)snprintf(w->work.dir, sizeof w->work.dir, "%s", dir);
    return git_begin(&w->work, look_around);
}
