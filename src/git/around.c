// SPDX-License-Identifier: Apache-2.0
// Where a repository is, what its configuration names, and what it is at.
#include <stdio.h>
#include <string.h>

#include "git/git-internal.h"

// "filter.NAME.KEY\nVALUE", NUL: the name, once for each of its keys.
static int take_entry(struct git_work *work, const char *entry, unsigned *identity)
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
    for (size_t at = 0; at < work->filters.len; at += strlen(work->filters.data + at) + 1) {
        const char *known = work->filters.data + at;
        if (strlen(known) == len && strncmp(known, name, len) == 0)
            return 0;
    }
    (void)buf_append(&work->filters, name, len);
    return buf_append_char(&work->filters, '\0');
}

static void on_around(struct git_work *work, struct exec_result *result)
{
    unsigned identity = 0;
    if (git_exit_code(result) > 1) { // 1: there is none
        git_fail_result(work, result);
        return;
    }
    const struct buf *out = result->out;
    bool ok = !result->truncated;
    for (size_t at = 0; ok && at < out->len; at += strlen(out->data + at) + 1)
        ok = take_entry(work, out->data + at, &identity) >= 0;
    if (!ok) {
        git_fail(work, ERROR_GIT_OPERATION_FAILED,
                 "the repository's filters cannot be switched off: too many, or names with '='");
        return;
    }
    work->has_identity = identity == 3;
    work->then(work);
}

// Two lines: where its files begin, which is what paths are told from, and where git's own are.
static void on_place(struct git_work *work, struct exec_result *result)
{
    static const char *const args[] = {
        "config", "-z", "--includes", "--get-regexp", "^(filter\\..*|user\\.name|user\\.email)$",
        NULL};
    const char *text = buf_str(result->out);
    size_t top = strcspn(text, "\n"), own = text[top] == '\n' ? strcspn(text + top + 1, "\n") : 0;
    if (git_exit_code(result) != 0) {
        git_fail_result(work, result);
    } else if (top >= GIT_PATH_MAX || own >= GIT_PATH_MAX || text[0] != '/' ||
               text[top + 1] != '/' || result->out->len != top + own + 2) {
        git_fail(work, ERROR_GIT_OPERATION_FAILED, "git does not say where the repository is");
    } else {
        (void)snprintf(work->dir, sizeof work->dir, "%.*s", (int)top, text);
        (void)snprintf(work->own, sizeof work->own, "%.*s", (int)own, text + top + 1);
        git_run(work, args, on_around);
    }
}

void git_look_around(struct git_work *work, void (*then)(struct git_work *work))
{
    static const char *const args[] = {"rev-parse", "--show-toplevel", "--absolute-git-dir", NULL};
    work->then = then;
    git_run(work, args, on_place);
}

static void on_head(struct git_work *work, struct exec_result *result)
{
    if (git_exit_code(result) == 0) {
        const char *text = buf_str(result->out);
        size_t len = strcspn(text, "\n");
        (void)snprintf(work->commit, sizeof work->commit, "%.*s", (int)len, text);
        text += len + (text[len] == '\n');
        if (strncmp(text, "HEAD\n", 5) != 0) // on no branch
            (void)snprintf(work->head, sizeof work->head, "%.*s", (int)strcspn(text, "\n"), text);
    }
    work->then(work);
}

void git_find_head(struct git_work *work, void (*then)(struct git_work *work))
{
    static const char *const args[] = {"rev-parse", "HEAD", "--abbrev-ref", "HEAD", NULL};
    work->then = then;
    git_run(work, args, on_head);
}
