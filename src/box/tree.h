// SPDX-License-Identifier: Apache-2.0
// Directory trees that others may have filled: images being made, images being removed. Nothing
// here follows a symbolic link or enters another mount, whatever the tree holds; depth is bounded,
// so that neither the stack nor the table of descriptors runs out. All answer 0 (or what is said)
// or -errno.
#pragma once

#include <stdint.h>
#include <sys/types.h>

enum {
    TREE_DEPTH_MAX = 100, // of a tree that tree_survey accepts
};

// A directory below dirfd. -ELOOP when a component is a link, -EXDEV when it is a mount.
int tree_open_dir(int dirfd, const char *path);
// A file below dirfd by the same rules, opened for reading. -EINVAL when it is no regular file.
int tree_open_file(int dirfd, const char *path);

// Makes the directory (its parent must exist) or keeps the one that is there; owner and mode are
// set either way. -ENOTDIR when something else has the name.
int tree_mkdir(int dirfd, const char *path, mode_t mode, uid_t uid);
// Makes every directory above `path` that is missing, 0755 and root's.
int tree_mkparents(int dirfd, const char *path);
// Write a whole file or a link in place of whatever file or link has the name.
int tree_write(int dirfd, const char *path, const char *text, size_t len, mode_t mode);
int tree_symlink(int dirfd, const char *path, const char *target);

// Removes `name` and all below it. -EBUSY when something is mounted in it. The tree may be of any
// depth: what lies too deep is moved up before it is entered.
int tree_remove(int dirfd, const char *name);

struct tree_survey {
    uint64_t entries;
    uint64_t bytes;    // on disk, hard links counted once
    uint64_t devices;  // device nodes found, and removed
    uint64_t high_ids; // entries whose owner or group lies above 65535
};

// Walks the whole tree and removes device nodes on the way. -ELOOP when it is too deep.
int tree_survey(int dirfd, struct tree_survey *ret);
