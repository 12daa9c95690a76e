// SPDX-License-Identifier: Apache-2.0
// What has changed in a directory of a sandbox between two moments: commits, edits, new files and
// files that are gone, whether or not somebody committed. Works on any directory, with a repository
// of our own below /tmp: of the directory's own only the objects are read, so nothing in it is
// touched, and neither its configuration nor its index has a say. Files of repositories below it
// are files like others. Directories have been checked (git_check_dir). On the loop's thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "git/clone.h"

enum { GIT_DIFF_MAX = 8 * 1024 * 1024 }; // bytes of a diff that are kept

// A moment of a directory. Owned by who asked; may be written down as text and read again.
struct git_moment;
void git_moment_free(struct git_moment *moment); // takes NULL
// Of a directory that is empty: nothing need be run for it.
struct git_moment *git_moment_empty(const char *dir);
// Of a clone that nobody has touched.
struct git_moment *git_moment_clone(const struct git_cloned *cloned);
// One line of text without spaces, for git_moment_parse; NULL for what it did not write.
const char *git_moment_text(const struct git_moment *moment);
struct git_moment *git_moment_parse(const char *text);

// Exactly one of moment (the callee's from now on) and fault, once, perhaps before git_moment_take
// returns: then it returns NULL. What the directory consists of stays in the box, below /tmp, until
// git_changes_since is over, or until it is dropped.
typedef void (*git_moment_fn)(void *data, struct git_moment *moment, const struct git_fault *fault);
struct git_work *git_moment_take(struct db *db, struct sandbox *s, const char *dir,
                                 int64_t timeout_ms, git_moment_fn fn, void *data);

// Nobody will ask for what has changed since. In a sandbox that runs.
void git_moment_drop(struct sandbox *s, const struct git_moment *moment);

struct git_changes {
    // Text, "" if it was not asked for. `git apply` takes it, binary files too; where it would be
    // too long with these they are git's "Binary files differ".
    struct buf *diff;
    bool truncated; // there was more than GIT_DIFF_MAX
    // JSON array of {"path", "status": "added|modified|deleted|renamed", "old"?, "added",
    // "removed"} (lines; null for binary files); paths below the directory's repository
    struct buf *files;
    bool files_truncated; // more than 10000
};
typedef void (*git_changes_fn)(void *data, const struct git_changes *changes,
                               const struct git_fault *fault);
// With `diff` false only the files. What .gitignore names is not looked at, unless it is tracked.
// GIT_REPO_NOT_FOUND: what the moment was taken of is gone, as when somebody has deleted .git.
// A moment that was taken (git_moment_take) is used up by it.
struct git_work *git_changes_since(struct db *db, struct sandbox *s,
                                   const struct git_moment *moment, bool diff, int64_t timeout_ms,
                                   git_changes_fn fn, void *data);
// As git_cancel, but the moment is not used up: somebody will ask again.
void git_changes_leave(struct git_work *work); // takes NULL
