// SPDX-License-Identifier: Apache-2.0
// What `git status --porcelain=v2 -z` says, and the lists that diff and commit make of it. Whatever
// walks over a whole repository by itself, as `git add --all`, would look into its submodules with
// a git of its own, which starts what these are configured to; so files are named one by one.
#include <string.h>

#include "api/git.h"

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
    if (ret->text == NULL)
        ret->kind = '#'; // none that we know
    return true;
}

static void on_listed(struct git *git, struct exec_result *result)
{
    struct git_problem problem = {0};
    struct git_entry entry;
    size_t at = 0;
    if (git_exit_code(result) != 0) {
        git_problem(git, result, &problem);
        git_fail_with(git, &problem);
        return;
    }
    while (git_next_entry(result->out, &at, &entry)) {
        if (entry.kind == '#' || at > result->out->len) // the last one may be cut
            continue;
        struct buf *list = entry.kind == '?' ? &git->untracked : &git->tracked;
        git->is_staged |= entry.kind != '?' && entry.index != '.';
        if (entry.kind != '?' && entry.tree == '.')
            continue; // all of it is staged
        (void)buf_append_str(list, entry.text);
        (void)buf_append_char(list, '\0');
    }
    git->truncated = result->truncated || git->untracked.failed != 0;
    if (git->tracked.failed != 0 || git->untracked.failed != 0)
        git_fail(git, ERROR_GIT_OPERATION_FAILED, "too much is changed to be looked at at once");
    else
        git->then(git);
}

void git_list(struct git *git, void (*then)(struct git *git))
{
    static const char *const args[] = {"status",
                                       "--porcelain=v2",
                                       "-z",
                                       "--no-renames",
                                       "--untracked-files=all",
                                       "--ignore-submodules=all",
                                       NULL};
    git->then = then;
    git_run(git, args, on_listed);
}

void git_add(struct git *git, const char *option, const struct buf *paths, git_step_fn next)
{
    const char *const args[] = {"--literal-pathspecs", "add", option, "--pathspec-from-file=-",
                                "--pathspec-file-nul", NULL};
    git->input = paths->data;
    git->input_len = paths->len;
    git_run(git, args, next);
}
