// SPDX-License-Identifier: Apache-2.0
// The root of a box as detached mounts: an overlay of the image below and the disk above, and one
// more for each further tree of the image (the machine's /usr). Layers are idmapped to the box's
// user namespace B, so that an image and a disk hold plain ids (0, 33, 1000) whatever slot a box
// has.
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "box/image.h"
#include "wire/guest-msg.h"

struct root {
    int overlay;
    unsigned n_binds;
    int binds[GUEST_BINDS_MAX];
    const char *targets[GUEST_BINDS_MAX]; // the image's
    int plain; // idmapping failed: the image shows the host's ids as nobody
    // The shifted trees that the overlays were made of. These have references of their own, but
    // letting go of a mount takes the kernel a while, so that is left to root_done.
    unsigned n_layers;
    int layers[GUEST_BINDS_MAX + 2];
};

struct root_disk {
    int fd;      // the disk's top directory
    int idmap;   // holds plain ids; a tmpfs instead holds the slot's own
    int durable; // fsync shall mean it
};

// `host_uid` is the slot's first id on the host. Working directories "up" and "work" are made on
// the disk as needed.
int root_make(const struct image *image, const struct root_disk *disk, int userns,
              uint32_t host_uid, struct root *ret, struct err *err);
void root_done(struct root *root); // when the box has been sent it: nobody waits any more

// Image and disk as a box would see them, but with the ids that they hold, as one detached mount:
// for the programs that pack and unpack. Nothing can be executed there. Without the image's further
// trees.
int root_view(const struct image *image, int disk_fd, int writable, struct err *err);

// Linux takes an overlay's layers as descriptors of detached mounts from 6.15 on. Before that they
// must be named by paths in the caller's mount namespace, so root_make hangs them below /run/cay
// for the moment: this is set then, and the caller must be in a mount namespace of its own before
// it opens an image.
extern int root_attach_layers;
void root_init(void); // looks which it is; tests set it themselves instead
