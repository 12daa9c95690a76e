// SPDX-License-Identifier: Apache-2.0
// GET .../git/status and .../git/diff. Both leave the repository as it is: a diff that has new
// files too needs them in an index, and that is a copy of the repository's own.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "api/git.h"
#include "api/handlers.h"
#include "api/show.h"
#include "base/clock.h"
#include "base/mem.h"

enum { ANSWER_MAX = 2 * EXEC_OUTPUT_MAX + 16 * 1024 * 1024 };

static void fail_with_result(struct git *git, const struct exec_result *result)
{
    struct git_problem problem = {0};
    git_problem(git, result, &problem);
    git_fail_with(git, &problem);
}

// -- what was asked

static int take_path(struct call *call, struct git *git)
{
    struct err err = {0};
    const char *path = call_query(call, "path");
    if (path == NULL)
        path = "/workspace";
    if (git_check_dir(path, &err) < 0) {
        (void)err_wrap(&err, "?path");
        call_fail(call, &err);
        return -1;
    }
    (void)snprintf(git->dir, sizeof git->dir, "%s", path);
    git->in_dir = true;
    return 0;
}

static const char *status_name(char c)
{
    switch (c) {
    case 'A':
        return "added";
    case 'D':
        return "deleted";
    case 'R':
        return "renamed";
    case 'C':
        return "copied";
    case 'T':
        return "typechange";
    case 'U':
        return "conflicted";
    case '?':
        return "untracked";
    default:
        return "modified";
    }
}

// -- status

struct status {
    struct json j; // the list of files
    unsigned n;
    char branch[GIT_REF_MAX + 1], commit[80], upstream[GIT_REF_MAX + 64];
    long long ahead, behind;
    bool has_ab;
};

static bool is_header(const char *text, const char *name, const char **ret_value)
{
    size_t len = strlen(name);
    if (strncmp(text, name, len) != 0)
        return false;
    *ret_value = text + len;
    return true;
}

static void copy_header(struct status *s, const char *text)
{
    const char *value;
    if (is_header(text, "branch.oid ", &value) && value[0] != '(') // "(initial)"
        (void)snprintf(s->commit, sizeof s->commit, "%s", value);
    else if (is_header(text, "branch.head ", &value) && value[0] != '(') // "(detached)"
        (void)snprintf(s->branch, sizeof s->branch, "%s", value);
    else if (is_header(text, "branch.upstream ", &value))
        (void)snprintf(s->upstream, sizeof s->upstream, "%s", value);
    else if (is_header(text, "branch.ab ", &value))
        s->has_ab = sscanf(value, "+%lld -%lld", &s->ahead, &s->behind) == 2;
}

static void show_file(struct status *s, const struct git_entry *e)
{
    char index[2] = {e->index, '\0'}, tree[2] = {e->tree, '\0'};
    json_open_object(&s->j);
    show_str(&s->j, "path", e->text);
    if (e->old != NULL)
        show_str(&s->j, "oldPath", e->old);
    show_str(&s->j, "status",
             status_name(e->kind == '?'    ? '?'
                         : e->index != '.' ? e->index
                                           : e->tree));
    show_str(&s->j, "index", index);
    show_str(&s->j, "worktree", tree);
    json_close_object(&s->j);
    s->n++;
}

static void reply_status(struct git *git, const struct status *s, bool truncated)
{
    struct buf buf;
    struct json j;
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_str(&j, "path", git->dir);
    show_str(&j, "branch", s->branch[0] != '\0' ? s->branch : NULL);
    show_str(&j, "commit", s->commit[0] != '\0' ? s->commit : NULL);
    show_str(&j, "upstream", s->upstream[0] != '\0' ? s->upstream : NULL);
    if (s->has_ab) {
        show_int(&j, "ahead", s->ahead);
        show_int(&j, "behind", s->behind);
    }
    show_bool(&j, "clean", s->n == 0);
    json_key(&j, "files");
    json_put_raw(&j, git->files.data, git->files.len);
    show_bool(&j, "truncated", truncated);
    json_close_object(&j);
    call_reply_json(git->call, 200, &j);
}

static void on_status(struct git *git, struct exec_result *result)
{
    if (git_exit_code(result) != 0) {
        fail_with_result(git, result);
        return;
    }
    const struct buf *out = result->out;
    struct status s = {0};
    struct git_entry entry;
    size_t at = 0;
    json_init(&s.j, &git->files);
    json_open_array(&s.j);
    while (s.n < GIT_FILES_MAX && git_next_entry(out, &at, &entry)) {
        if (entry.kind == '#')
            copy_header(&s, entry.text);
        else
            show_file(&s, &entry);
    }
    json_close_array(&s.j);
    reply_status(git, &s, at < out->len || result->truncated);
    git_finish(git);
}

static void run_status(struct git *git)
{
    static const char *const args[] = {"status", "--porcelain=v2",        "--branch",
                                       "-z",     "--untracked-files=all", "--ignore-submodules=all",
                                       NULL};
    git_run(git, args, on_status);
}

static void begin_status(struct git *git)
{
    git_look_around(git, run_status);
}

static void answer(struct git *git, const struct git_problem *problem)
{
    if (problem != NULL) // else it is answered; a second answer would be dropped
        git_reply_problem(git->call, problem);
}

void handle_git_status(struct call *call)
{
    struct git *git = git_new(call, answer);
    if (take_path(call, git) == 0)
        git_begin(call, git, begin_status);
}

// -- diff: find the index, copy it, put the new files in, compare, remove it

static void reply_diff(struct git *git, const struct exec_result *result)
{
    struct buf buf;
    struct json j;
    bool truncated = git->truncated || result->truncated;
    buf_init(&buf, ANSWER_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_str(&j, "path", git->dir);
    json_key(&j, "files");
    json_put_raw(&j, git->files.data, git->files.len);
    show_output(&j, "diff", result->out);
    show_bool(&j, "truncated", truncated);
    json_close_object(&j);
    call_reply_json(git->call, 200, &j);
}

static void on_removed(struct git *git, struct exec_result *result)
{
    (void)result;
    if (git->problem_kept != NULL)
        git_fail_with(git, git->problem_kept);
    else
        git_finish(git);
}

// Whatever became of it, its copy of the index goes.
static void remove_index(struct git *git)
{
    char lock[sizeof git->index + 8];
    (void)snprintf(lock, sizeof lock, "%s.lock", git->index);
    const char *const argv[] = {"rm", "-f", "--", git->index, lock, NULL};
    git_run_tool(git, argv, on_removed);
}

static void give_up(struct git *git, const struct exec_result *result)
{
    git->problem_kept = calloc(1, sizeof *git->problem_kept);
    if (git->problem_kept == NULL)
        abort();
    git_problem(git, result, git->problem_kept);
    remove_index(git);
}

static void on_patch(struct git *git, struct exec_result *result)
{
    if (git_exit_code(result) != 0 && !result->truncated) {
        give_up(git, result);
        return;
    }
    reply_diff(git, result);
    remove_index(git);
}

#define DIFF_ARGS                                                                                  \
    "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "--src-prefix=a/",    \
        "--dst-prefix=b/", "--ignore-submodules=all", "--find-renames"

static void run_patch(struct git *git)
{
    const char *const args[] = {DIFF_ARGS, "--patch", "--binary", git->base, "--", NULL};
    git_run(git, args, on_patch);
}

// "M", NUL, path, NUL; of "R100" and "C75" two paths.
static void on_names(struct git *git, struct exec_result *result)
{
    const struct buf *out = result->out;
    struct status s = {0};
    size_t at = 0;
    if (git_exit_code(result) != 0) {
        give_up(git, result);
        return;
    }
    json_init(&s.j, &git->files);
    json_open_array(&s.j);
    while (at < out->len && s.n < GIT_FILES_MAX) {
        char c = out->data[at];
        const char *old = NULL;
        at += strlen(out->data + at) + 1;
        if (at < out->len && (c == 'R' || c == 'C')) {
            old = out->data + at;
            at += strlen(old) + 1;
        }
        if (at >= out->len)
            break;
        const char *path = out->data + at;
        at += strlen(path) + 1;
        json_open_object(&s.j);
        show_str(&s.j, "path", path);
        if (old != NULL)
            show_str(&s.j, "oldPath", old);
        show_str(&s.j, "status", status_name(c));
        json_close_object(&s.j);
        s.n++;
    }
    json_close_array(&s.j);
    git->truncated |= at < out->len || result->truncated;
    run_patch(git);
}

static void run_names(struct git *git)
{
    const char *const args[] = {DIFF_ARGS, "--name-status", "-z", git->base, "--", NULL};
    git_run(git, args, on_names);
}

static void on_added(struct git *git, struct exec_result *result)
{
    if (git_exit_code(result) != 0)
        give_up(git, result);
    else
        run_names(git);
}

static void run_add(struct git *git)
{
    if (git->untracked.len > 0)
        git_add(git, "--intent-to-add", &git->untracked, on_added);
    else
        run_names(git);
}

static void on_index(struct git *git, struct exec_result *result)
{
    (void)result; // an unborn branch has no tree: then the index is empty
    run_add(git);
}

static void on_copied(struct git *git, struct exec_result *result)
{
    if (git_exit_code(result) == 0) {
        run_add(git);
    } else { // there is none yet, or no cp: what was committed will do
        const char *const args[] = {"read-tree", git->base, NULL};
        git_run(git, args, on_index);
    }
}

static void on_base(struct git *git)
{
    char from[sizeof git->index];
    uint64_t number;
    // The empty tree: what a branch without a commit is compared with.
    git->base = git->commit[0] != '\0' ? git->commit : "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        abort();
    (void)snprintf(from, sizeof from, "%s/index", git->own);
    (void)snprintf(git->index, sizeof git->index, "%s/cay-%016llx", git->own,
                   (unsigned long long)number);
    // With its time: by that git knows which files may have changed since without being any longer.
    const char *const argv[] = {"cp", "-p", "--", from, git->index, NULL};
    git_run_tool(git, argv, on_copied);
}

static void find_base(struct git *git)
{
    git_find_head(git, on_base);
}

static void list(struct git *git)
{
    git_list(git, find_base);
}

static void begin_diff(struct git *git)
{
    git_look_around(git, list);
}

void handle_git_diff(struct call *call)
{
    struct git *git = git_new(call, answer);
    if (take_path(call, git) == 0)
        git_begin(call, git, begin_diff);
}
