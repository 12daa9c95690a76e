// SPDX-License-Identifier: Apache-2.0
// Where the entries of an archive are put: below one directory, and nowhere else. No component of a
// name is followed where it is a link, whoever made it and when, so that no entry leaves through
// another. Names are clean (tar_clean_name). A file, link or FIFO takes the place of whatever has
// its name unless that is a directory (-EISDIR); a directory takes that of everything else, and one
// that is there stays. Modes are those of the archive without setuid, setgid and sticky.
#pragma once

#include <stdbool.h>

#include "hand/hand-internal.h"
#include "hand/tar-format.h"

enum { TAR_LATER_SIZE = 8 * 1024 * 1024 };

struct tar_place {
    int root;
    bool keep_owner; // else everything is root's
    bool no_replace; // what is there stays, and is -EEXIST
    bool made;       // the root was not there before
    // The directory of the last entry: the next one is likely to be beside it.
    int dir;
    char dir_path[TAR_NAME_MAX];
    // What the file that is being written is called before it takes another's place, or "". It has
    // that name at the last moment only, where it can do without until then.
    char passing[HAND_PASSING_SIZE];
    bool has_name;
    // Directories, which get their modes and times when nothing is put into them any more; when
    // there are so many that this is full, at once.
    size_t later_len;
    char later[TAR_LATER_SIZE];
};

// All of them: 0 or -errno.
// `flags`: HAND_NO_FOLLOW, HAND_OWNER and HAND_NO_REPLACE.
int tar_place_init(struct tar_place *place, const char *path, uint32_t flags);
// Modes and times of the directories.
int tar_place_finish(struct tar_place *place);
void tar_place_done(struct tar_place *place);

// A new, empty file, open for writing. What is there stays until the new one has its content.
int tar_place_file(struct tar_place *place, const struct tar_head *head, int *ret_fd);
// It has its content; takes the descriptor.
int tar_place_file_consume(struct tar_place *place, const struct tar_head *head, int fd);
// It did not get it.
void tar_place_undo(struct tar_place *place, const struct tar_head *head);

int tar_place_dir(struct tar_place *place, const struct tar_head *head);
int tar_place_symlink(struct tar_place *place, const struct tar_head *head);
int tar_place_hardlink(struct tar_place *place, const struct tar_head *head);
int tar_place_fifo(struct tar_place *place, const struct tar_head *head);
