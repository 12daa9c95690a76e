// SPDX-License-Identifier: Apache-2.0
// The keeper's state, shared by its files: main.c (start, loop), spawner-link.c (Z and the
// spawner), request.c (the client), build.c (boxes being made), end.c (boxes being taken apart),
// pool.c.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "box/cgroup.h"
#include "box/disk.h"
#include "box/image.h"
#include "box/root.h"
#include "box/slots.h"
#include "keeper/keeper.h"
#include "wire/keeper-msg.h"
#include "wire/spawner-msg.h"

enum { KEEPER_IMAGES_MAX = 16 };

enum box_state {
    BOX_NONE,    // the slot is free
    BOX_USERNS,  // waits for the spawner to make B of this slot; the guest is asked for already
    BOX_BLANK,   // guest spawned or being spawned, no root sent
    BOX_ROOTING, // root sent, waits for GUEST_READY
    BOX_READY,   // pooled, with root and blank disk: the client has its socket, and may take it
    BOX_LIVE,    // claimed
    BOX_DYING,   // killed, waits for the end of its guest
    BOX_STATE_MAX,
};

struct keeper_image {
    char name[KEEPER_IMAGE_MAX];
    struct image image;
    unsigned users;
};

struct box {
    enum box_state state;
    uint64_t number;
    uint32_t slot; // in the keeper's run, from 1
    int userns;    // B, kept for the next box of this slot
    int userns_asked;
    int guest; // our end of the guest's socket
    int pidfd;
    int mntns; // so that the mounts go when we say, after the end was reported
    int has_cgroups;
    int joined;       // the guest is in them
    struct root root; // made, not sent yet; overlay -1 if there is none
    int disk_fd;      // with it
    int in_pool;      // built ahead, nobody has asked yet
    int pooled_root;  // of those, gets a root too
    int rehearse;     // and has started a program before anybody asks
    int asked;        // KEEPER_DESTROY came
    uint32_t request; // id of the message to answer
    struct box_limits limits;
    uint32_t disk_kind;
    uint64_t disk;
    struct keeper_image *image;
};

struct keeper {
    struct keeper_config config;
    int client;
    int spawner;
    pid_t spawner_pid;
    int epoll;
    int data_fd;
    struct slots slots;
    struct cgroups *cgroups;
    struct volume *volume;
    uint64_t next_number;
    int64_t last_request_ns;
    int64_t pool_rests_until_ns;
    int closing; // the client is gone
    int claimed; // the first box is in use: a good moment for what nobody waits for
    int swept;   // of what killed keepers left
    struct keeper_image images[KEEPER_IMAGES_MAX];
    struct box *boxes; // slots.n of them, by slot; 0 is Z's
};

enum event_kind { EVENT_CLIENT, EVENT_SPAWNER, EVENT_GUEST, EVENT_END };

void box_init(struct box *box, uint32_t slot); // a free slot that owns nothing
int keeper_watch(struct keeper *k, int fd, enum event_kind kind, uint32_t slot);
uint32_t keeper_host_id(const struct keeper *k, uint32_t slot);   // the slot's first id on the host
uint32_t keeper_host_slot(const struct keeper *k, uint32_t slot); // its number on the machine

// spawner-link.c
int spawner_link_start(struct keeper *k, struct err *err);
// Asks for B of a box's slot, unless it is there or asked for.
int spawner_link_userns(struct keeper *k, struct box *box, struct err *err);
void spawner_link_event(struct keeper *k);
void spawner_link_end(struct keeper *k); // it ends by itself then

// request.c
int request_event(struct keeper *k); // whether there was a request
void reply_error(struct keeper *k, uint32_t request, const struct err *err);
void reply_claimed(struct keeper *k, struct box *box);
void reply_ready(struct keeper *k, struct box *box);
void reply_ended(struct keeper *k, const struct keeper_ended *msg);
void reply_gone(struct keeper *k, uint64_t number);

// build.c
struct box *build_find_slot(const struct keeper *k);
// Starts a box in a free slot: with a root when box->image is set, blank otherwise.
void build_start(struct keeper *k, struct box *box);
void build_userns_made(struct keeper *k, struct box *box, int fd);
void build_spawned(struct keeper *k, struct box *box, int pidfd);
void build_guest_event(struct keeper *k, struct box *box);
void build_failed(struct keeper *k, struct box *box, const struct err *err);
// Gives a blank box the root that its image and disk fields describe.
int build_root(struct keeper *k, struct box *box, struct err *err);
struct keeper_image *build_image(struct keeper *k, const char *name, struct err *err);

// end.c
void end_begin(struct keeper *k, struct box *box);
void end_event(struct keeper *k, struct box *box);
unsigned end_pending(const struct keeper *k);

// pool.c
struct box *pool_take_blank(struct keeper *k);
// A box for the pool could not be made: no other is tried for a while.
void pool_rest(struct keeper *k);
// Milliseconds until the pool wants work, -1 for never.
int pool_wait(const struct keeper *k);
void pool_work(struct keeper *k);
void pool_count(const struct keeper *k, struct keeper_state *ret);
