// SPDX-License-Identifier: Apache-2.0
// What the files that make images share.
//
// Names in DATA/images: NAME is an image; .new-XXXXXXXX is one being made; .trash-XXXXXXXX is one
// being removed, or an old `host` that boxes still stand on. Each directory is its own lock
// (flock): shared while a box stands on it, exclusive while it is made or removed. The lock stays
// with the directory when it is renamed, so whoever gets the exclusive lock on a .new or .trash
// knows that nobody needs it. DATA/images itself is locked for the moments in which names change.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "box/image.h"
#include "box/tree.h"

// DATA/images. With `create` it is made when missing; without, -1 and ERR_NOT_FOUND.
int images_open(int data_fd, bool create, struct err *err);
int images_lock(int images_fd, struct err *err);
void images_unlock(int images_fd);

// Opens images_fd/name and locks it with LOCK_SH or LOCK_EX, without waiting. The descriptor, or
// -errno: -ENOENT, -EWOULDBLOCK.
int images_hold(int images_fd, const char *name, int lock);
// Takes the directory that `held_fd` holds exclusively out of its name. Call with images locked;
// then unlock, and delete it with tree_remove(images_fd, ret_trash).
enum { TEMP_NAME_SIZE = 24 };
int images_trash(int images_fd, const char *name, char ret_trash[TEMP_NAME_SIZE], struct err *err);
// Deletes what nobody holds. Call with images locked; returns with images unlocked, since it may
// take long.
void images_sweep_unlock(int images_fd);

// An image in the making. image_draft_done removes what was not committed.
struct image_draft {
    int images_fd;
    int dir_fd;  // locked exclusively
    int root_fd; // its rootfs: O_RDONLY | O_DIRECTORY
    char temp[TEMP_NAME_SIZE];
    char name[IMAGE_NAME_MAX];
};

#define IMAGE_DRAFT_NONE                                                                           \
    {                                                                                              \
        .images_fd = -1, .dir_fd = -1, .root_fd = -1                                               \
    }

// Sweeps, refuses a name that is taken, and makes an empty draft.
int image_draft_begin(int data_fd, const char *name, struct image_draft *ret, struct err *err);
// The same in steps, for `host`: call with images locked. images_fd stays the caller's.
int image_draft_make(int images_fd, const char *name, struct image_draft *ret, struct err *err);
int image_draft_meta(const struct image_draft *draft, const char *kind, uint64_t bytes,
                     struct err *err);
// Gives the draft its name. Call with images locked. The lock on it becomes a shared one.
int image_draft_rename(struct image_draft *draft, struct err *err);
// All of it: surveys the tree, writes meta, makes it last through a power cut, and gives it its
// name.
int image_draft_commit(struct image_draft *draft, const char *kind, struct tree_survey *ret,
                       struct err *err);
void image_draft_done(struct image_draft *draft);

// Makes a root ready for boxes: mount points, /workspace, a user, names and hosts of a box's own.
// The tree may be hostile.
int image_prepare(int root_fd, struct err *err);

// The image `host` of the machine whose root is source_fd. image_open passes "/".
int host_image_open(int data_fd, int source_fd, struct image *ret, struct err *err);
// Its parts, for images that stand on the same /usr: the small root, and what is laid over it.
int host_root_fill(int source_fd, int root_fd, struct err *err);
int host_binds_open(int source_fd, struct image *image, struct err *err); // adds to image->binds

// What the image whose directory is dir_fd was made as: `kind` of its meta, "" if it says none.
void image_read_kind(int dir_fd, char ret[IMAGE_KIND_MAX]);

// Unpacks a hostile archive below root_fd (image-import.c).
struct image_watch;
struct import_limits;
int archive_unpack(int archive_fd, int root_fd, const struct import_limits *limits,
                   const struct image_watch *watch, struct err *err);
