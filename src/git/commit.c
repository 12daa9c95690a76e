// SPDX-License-Identifier: Apache-2.0
#include "git/commit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "git/git-internal.h"

struct commit_work {
    struct git_work work;
    git_committed_fn fn;
    void *data;
    char *message;
    bool all;
    char name[GIT_NAME_MAX + 1], email[GIT_NAME_MAX + 1]; // "": not given
};

static void tell(struct git_work *work, const struct git_fault *fault)
{
    const struct commit_work *w = (struct commit_work *)work;
    const struct git_committed done = {
        .dir = work->dir,
        .commit = work->commit[0] != '\0' ? work->commit : NULL,
        .branch = work->head[0] != '\0' ? work->head : NULL,
    };
    w->fn(w->data, fault == NULL ? &done : NULL, fault);
}

static void release(struct git_work *work)
{
    free(((struct commit_work *)work)->message);
}

static void on_committed(struct git_work *work, struct exec_result *result)
{
    int code = git_exit_code(result);
    if (code == 0)
        git_find_head(work, git_finish);
    else if (code == 1 && result->err->len == 0) // it has said so on standard output
        git_fail(work, ERROR_CONFLICT, "there is nothing to commit");
    else
        git_fail_result(work, result);
}

static void run_commit(struct git_work *work)
{
    static const char *const args[] = {"commit",   "--no-verify",          "--no-gpg-sign",
                                       "--file=-", "--cleanup=whitespace", NULL};
    const struct commit_work *w = (struct commit_work *)work;
    work->input = w->message;
    work->input_len = strlen(w->message);
    if (w->name[0] != '\0') {
        work->name = w->name;
        work->email = w->email;
    } else if (!work->has_identity) {
        work->name = "Cay";
        work->email = "cay@localhost";
    }
    git_run(work, args, on_committed);
}

static void on_added(struct git_work *work, struct exec_result *result)
{
    if (git_exit_code(result) == 0)
        run_commit(work);
    else
        git_fail_result(work, result);
}

static void add_untracked(struct git_work *work)
{
    if (work->untracked.len > 0)
        git_add(work, "--all", &work->untracked, on_added);
    else
        run_commit(work);
}

static void on_tracked_added(struct git_work *work, struct exec_result *result)
{
    if (git_exit_code(result) == 0)
        add_untracked(work);
    else
        git_fail_result(work, result);
}

static void on_list(struct git_work *work)
{
    bool all = ((struct commit_work *)work)->all;
    if (!work->is_staged && (!all || (work->tracked.len == 0 && work->untracked.len == 0)))
        git_fail(work, ERROR_CONFLICT, "there is nothing to commit%s",
                 all ? "" : ": nothing is staged, and 'all' is false");
    else if (!all)
        run_commit(work);
    else if (work->tracked.len > 0)
        git_add(work, "--all", &work->tracked, on_tracked_added);
    else
        add_untracked(work);
}

static void on_around(struct git_work *work)
{
    git_list(work, on_list);
}

static void look_around(struct git_work *work)
{
    git_look_around(work, on_around);
}

struct git_work *git_commit_start(struct sandbox *s, const struct git_commit *commit,
                                  git_committed_fn fn, void *data)
{
    struct commit_work *w = git_work_new(sizeof *w, s, 0, tell);
    w->work.release = release;
    w->fn = fn;
    w->data = data;
    w->all = commit->all;
    w->message = strdup(commit->message);
    if (w->message == NULL)
        abort(); // bounded: it is there already
    if (commit->name != NULL) {
        (void)snprintf(w->name, sizeof w->name, "%s", commit->name);
        (void)snprintf(w->email, sizeof w->email, "%s", commit->email);
    }
    (void)snprintf(w->work.dir, sizeof w->work.dir, "%s", commit->dir);
    return git_begin(&w->work, look_around);
}
