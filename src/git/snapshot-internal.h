// SPDX-License-Identifier: Apache-2.0
// All of a directory in an index: that of a repository of our own, outside of it, made for this.
// The directory's own repository is asked for nothing but its objects, so neither its configuration
// nor its state has a say: what an agent has done to it can make objects missing, and nothing else.
//
//     git init    a repository of ours
//     git add     all that no .gitignore names, into an empty index
//
// and only where there is need for it:
//
// - Repositories below the directory. To git they are one entry each; their files are put in one by
//   one. Git is never let look at such an entry a second time, as it would start itself in there.
// - Files that were tracked though .gitignore names them. They look deleted when they are compared
//   with `base`, and are put in then.
#pragma once

#include "git/changes.h"
#include "git/git-internal.h"

struct git_moment {
    char id[GIT_COMMIT_MAX];         // of a tree or commit; "empty"
    char own[GIT_PATH_MAX];          // a repository of ours that has what `id` is made of; "": none
    char objects[GIT_PATH_MAX + 16]; // of the directory's repository; "": it is in none
    char dir[GIT_PATH_MAX];          // its top
    char *text;
};

// Where a copy of the repository's own exclusions is, of the time when the moment was taken.
void moment_excludes(const char *own, char ret[GIT_PATH_MAX]);

struct snapshot { // begins every work that uses it
    struct git_work work;
    char top[GIT_PATH_MAX];
    char objects[2][GIT_PATH_MAX + 16]; // directories that are looked into, too; "": none
    char base[GIT_COMMIT_MAX];          // what it is compared with
    struct buf variable;                // GIT_ALTERNATE_OBJECT_DIRECTORIES
    struct buf nested;                  // names of repositories below it, NUL after each
    size_t nested_at;
    unsigned n_nested;
    struct buf paths; // of files in them, then of those that look deleted; NUL after each
    struct buf info;  // the latter as `git update-index --index-info` wants them
    bool mended;
    // What the comparison said.
    const char *const *options;
    struct buf out;
    bool out_truncated;
    void (*taken)(struct snapshot *snapshot), (*compared)(struct snapshot *snapshot);
};

void *snapshot_new(size_t size, struct sandbox *s, int64_t timeout_ms,
                   void (*tell)(struct git_work *work, const struct git_fault *fault));
void snapshot_release(struct git_work *work);
// Of snapshot->top.
void snapshot_take(struct snapshot *snapshot, void (*taken)(struct snapshot *snapshot));
// `git diff-index --cached --raw -z` of the base and the index, with more options (static, ends
// with NULL): into `out`.
void snapshot_compare(struct snapshot *snapshot, const char *const *options,
                      void (*compared)(struct snapshot *snapshot));
// Once more, when it has compared, with other options.
void snapshot_compare_again(struct snapshot *snapshot, const char *const *options);

// One of `git diff-index --raw -z`.
struct change {
    char status;            // 'A', 'D', 'M', 'R', 'T'
    const char *mode, *id;  // before
    const char *path, *old; // old: NULL but for 'R'
};
enum { CHANGE_MODE = 6 }; // digits
// False: there are no more; *at is behind the last one.
bool change_next(const struct buf *out, size_t *at, struct change *ret);
#define EMPTY_TREE "4b825dc642cb6eb9a060e54bf8d69288fbee4904" // of SHA-1
