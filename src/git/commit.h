// SPDX-License-Identifier: Apache-2.0
// A commit in a repository in a sandbox that runs. On the loop's thread.
#pragma once

#include <stdbool.h>

#include "git/clone.h"

enum { GIT_NAME_MAX = 200 }; // of an author, and of his address

struct git_commit {           // texts are copied
    const char *dir;          // checked (git_check_dir)
    const char *message;      // not blank
    const char *name, *email; // plain; NULL: the repository's own, or ours
    bool all;                 // not only what is staged
};

struct git_committed {
    const char *dir;             // the repository's top
    const char *commit, *branch; // NULL: none
};

// As those of look.h.
typedef void (*git_committed_fn)(void *data, const struct git_committed *committed,
                                 const struct git_fault *fault);
struct git_work *git_commit_start(struct sandbox *s, const struct git_commit *commit,
                                  git_committed_fn fn, void *data);
