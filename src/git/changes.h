// SPDX-License-Identifier: Apache-2.0
// What has changed in a directory of a sandbox between two moments: commits, edits, new files and
// files that are gone, whether or not somebody committed. Works on any directory: one that is no
// repository is looked at with a repository of our own, beside it. Neither the index nor the
// history of the directory's own repository is touched. On the loop's thread.
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

typedef void (*git_moment_fn)(void *data, struct git_moment *moment, const struct git_fault *fault);
struct git_work *git_moment_take(struct db *db, struct sandbox *s, const char *dir,
                                 int64_t timeout_ms, git_moment_fn fn, void *data);

struct git_changes {
    struct buf *diff; // text; binary files as git's "Binary files differ"
    bool truncated;   // there was more than GIT_DIFF_MAX
    // JSON array of {"path", "status": "added|modified|deleted|renamed", "old"?, "added",
    // "removed"} (lines; null for binary files); paths below the directory's repository
    struct buf *files;
    bool files_truncated; // more than 10000
};
typedef void (*git_changes_fn)(void *data, const struct git_changes *changes,
                               const struct git_fault *fault);
// With `diff` false only the files. What .gitignore names is not looked at.
struct git_work *git_changes_since(struct db *db, struct sandbox *s,
                                   const struct git_moment *moment, bool diff, int64_t timeout_ms,
                                   git_changes_fn fn, void *data);
