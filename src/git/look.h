// SPDX-License-Identifier: Apache-2.0
// What is changed in a repository in a sandbox that runs, as git itself sees it: against its index
// and its last commit (changes.h compares moments, and needs no repository). The repository is left
// as it is. Directories have been checked (git_check_dir). On the loop's thread.
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "git/clone.h"

struct git_status {
    const char *dir;                        // the repository's top
    const char *branch, *commit, *upstream; // NULL: none
    bool has_ahead;                         // of the upstream, if it is known
    long long ahead, behind;
    bool clean;
    // JSON array of {"path", "oldPath"?, "status", "index", "worktree"}
    const struct buf *files;
    bool truncated; // there are more
};

struct git_diff {
    const char *dir;
    const struct buf *files; // JSON array of {"path", "oldPath"?, "status"}
    const struct buf *diff;  // a patch that `git apply` takes
    bool truncated;
};

// All: exactly one of outcome and fault, once, perhaps before the call returns, which then returns
// NULL. What is told is lent for the call.
typedef void (*git_status_fn)(void *data, const struct git_status *status,
                              const struct git_fault *fault);
struct git_work *git_status_start(struct sandbox *s, const char *dir, git_status_fn fn, void *data);

typedef void (*git_diff_fn)(void *data, const struct git_diff *diff, const struct git_fault *fault);
struct git_work *git_diff_start(struct sandbox *s, const char *dir, git_diff_fn fn, void *data);
