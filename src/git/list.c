// SPDX-License-Identifier: Apache-2.0
// What `git status --porcelain=v2 -z` says, and the lists that diff and commit make of it. Whatever
// walks over a whole repository by itself, as `git add --all`, would look into its submodules with
// a git of its own, which starts what these are configured to; so files are named one by one.
#include <string.h>

#include "git/git-internal.h"

// The text behind so many words, or NULL.
static const char *after_words(const char *text, unsigned n)
{
    for (; n > 0; n--) {
        text = strchr(text, ' ');
        if (text == NULL)
            return NULL;
        text++;
    }
    return text;
}

// "1 XY ... path", "2 XY ... path" NUL "old", "u XY ... path", "? path", "# branch.head main".
bool git_next_entry(const struct buf *out, size_t *at, struct git_entry *ret)
{
    if (*at >= out->len)
        return false;
    const char *text = out->data + *at;
    size_t len = strlen(text);
    unsigned words = text[0] == '1' ? 8 : text[0] == '2' ? 9 : text[0] == 'u' ? 10 : 1;
    *ret = (struct git_entry){.kind = text[0], .index = '.', .tree = '.'};
    ret->text = after_words(text, words);
    *at += len + 1;
    if (words > 1 && len > 4) {
        ret->index = text[0] == 'u' ? 'U' : text[2];
        ret->tree = text[3];
    }
    if (text[0] == '2' && *at < out->len) {
        ret->old = out->data + *at;
        *at += strlen(ret->old) + 1;
    }
    if (ret->text == NULL) { // none that we know
        ret->kind = '#';
        ret->text = "";
    }
    return true;
}

const char *git_change_name(char c)
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

static void on_listed(struct git_work *work, struct exec_result *result)
{
    struct git_entry entry;
    size_t at = 0;
    if (git_exit_code(result) != 0) {
        git_fail_result(work, result);
        return;
    }
    while (git_next_entry(result->out, &at, &entry)) {
        if (entry.kind == '#' || at > result->out->len) // the last one may be cut
            continue;
        struct buf *list = entry.kind == '?' ? &work->untracked : &work->tracked;
        work->is_staged |= entry.kind != '?' && entry.index != '.';
        if (entry.kind != '?' && entry.tree == '.')
            continue; // all of it is staged
        (void)buf_append_str(list, entry.text);
        (void)buf_append_char(list, '\0');
    }
    work->list_truncated = result->truncated || work->untracked.failed != 0;
    if (work->tracked.failed != 0 || work->untracked.failed != 0)
        git_fail(work, ERROR_GIT_OPERATION_FAILED, "too much is changed to be looked at at once");
    else
        work->then(work);
}

void git_list(struct git_work *work, void (*then)(struct git_work *work))
{
    static const char *const args[] = {"status",
                                       "--porcelain=v2",
                                       "-z",
                                       "--no-renames",
                                       "--untracked-files=all",
                                       "--ignore-submodules=all",
                                       NULL};
    work->then = then;
    git_run(work, args, on_listed);
}

void git_add(struct git_work *work, const char *option, const struct buf *paths, git_step_fn next)
{
    const char *const args[] = {"--literal-pathspecs", "add", option, "--pathspec-from-file=-",
                                "--pathspec-file-nul", NULL};
    work->input = paths->data;
    work->input_len = paths->len;
    git_run(work, args, next);
}
