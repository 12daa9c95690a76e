// SPDX-License-Identifier: Apache-2.0
// The keeper's state, shared by its files: main.c (start, loop), spawner-link.c (Z and the
// spawner), client-link.c (the client: its socket and what it is told), request.c (what it asks),
// table.c (which box is where), build.c (boxes being made), end.c (boxes being taken apart),
// pool.c, work.c (what is done with disks), space.c (room for them). A keeper that serves has a
// daemon for its client: serve.c (its life), daemon.c (its start), state.c (what a new program
// needs to know of the old one).
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
#include "keeper/work.h"
#include "wire/keeper-msg.h"
#include "wire/spawner-msg.h"

enum {
    KEEPER_IMAGES_MAX = 64,
    ZYGOTES_MAX = 4,
    ZYGOTE_SLOTS = ZYGOTES_MAX + 1, // one of them may be about to be replaced
    PLANTS_MAX = 64,                // forks on their way at once
    KEEPER_SPAWNS_MAX = 64, // asked of the spawner at once. Far fewer than fill a socket: else it
                            // and we could wait for each other to read
};

enum box_state {
    BOX_NONE,    // the slot is free
    BOX_WAITING, // claimed; the spawner has enough to do
    BOX_USERNS,  // waits for the spawner to make B of this slot; the guest is asked for already
    BOX_BLANK,   // guest spawned or being spawned, no root sent
    BOX_ROOTING, // root sent, waits for GUEST_READY
    BOX_READY,   // pooled, with root and blank disk: the client has its socket, and may take it
    BOX_LIVE,    // claimed
    BOX_ZYGOTE,  // no box: a zygote has the slot (zygote.c)
    BOX_DYING,   // killed, waits for the end of its guest
    BOX_STATE_MAX,
};

struct keeper_image {
    int is_open;
    char name[KEEPER_IMAGE_MAX]; // "" when it was opened by the program before: no new users
    struct image image;
    unsigned users;
};

// --- table.c: boxes found without looking at all of them ---

enum box_list {
    LIST_NONE,
    LIST_FREE,
    LIST_BLANK,   // pooled, without a root
    LIST_WAITING, // BOX_WAITING
    LIST_MAX,
};

enum box_count {
    COUNT_USED, // slots that are not free
    COUNT_LIVE,
    COUNT_READY,
    COUNT_BLANK,
    COUNT_BUSY,       // being made or taken apart
    COUNT_POOL_READY, // those of the pool that have or get a root, there or being made
    COUNT_POOL_BLANK, // and those without
    COUNT_MAKING,     // of these two
    COUNT_SPAWNING,   // the spawner owes us an answer
    COUNT_MUTE,
    COUNT_ZYGOTE, // no boxes, but slots in use
    COUNT_MAX,
};

enum box_index { INDEX_NUMBER, INDEX_DISK, INDEX_MAX };

struct box_place { // where the table has a box
    enum box_list list;
    uint32_t prev, next; // slots, 0 for none
    uint32_t counted;    // 1 << enum box_count
    uint64_t key[INDEX_MAX];
    uint32_t chain[INDEX_MAX];
};

struct table {
    uint32_t n[COUNT_MAX];
    uint32_t first[LIST_MAX], last[LIST_MAX];
    uint32_t *bucket[INDEX_MAX];
    uint32_t n_buckets; // a power of two
};

struct box {
    enum box_state state;
    uint64_t number;
    uint32_t slot; // in the keeper's run, from 1
    int userns;    // B, kept for the next box of this slot
    int userns_asked;
    int foreign; // B belongs to the Z of an earlier spawner: no other box can have it
    int guest;   // our end of the guest's socket
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
    int is_zygote;    // and stays so while it is dying
    int mute;         // who had it is gone: nobody is told of its end
    uint32_t request; // id of the message to answer
    uint32_t guest_version;
    struct box_limits limits;
    uint32_t disk_kind;
    uint64_t disk;
    int durable; // fsync in it means it
    struct keeper_image *image;
    struct box_place place;
};

// --- zygote.c

struct zygote { // of one image; unused without
    struct keeper_image *image;
    int is_pools;
    uint32_t slot;       // that is ready; 0: none is
    uint32_t next_slot;  // that loads its libraries, to take its place
    unsigned failures;   // in a row
    unsigned forks;      // of the one that is ready
    int64_t due_ns;      // when the next one shall be started
    int64_t patience_ns; // until when the one that loads shall be ready
    int64_t answer_ns;   // until when the one that is ready shall answer; 0: it was asked nothing
    int64_t used_ns;
    char why[64]; // the last one did not become ready
};

// --- plant.c

struct plant { // a fork that was asked for; id 0: unused
    uint32_t id;
    uint32_t request; // of the client
    uint32_t exec;    // what it will be in its guest
    uint32_t zygote;  // slot
    uint64_t box;
    int seat; // our end
};

struct space { // space.c
    struct volume_space now;
    int64_t looked_ns, worked_ns;
    int64_t forget_ns, trim_ns; // not before
    int dropped;                // a disk was, and the kernel may still count for it
    int64_t copied_ns;          // when a disk was, last
    int unwritten;              // something was dropped since
    unsigned hurry;             // so often the kernel is asked to free what was dropped
    int complained;
};

struct unsent { // a message that the client's socket had no room for
    struct unsent *next;
    int fd; // ours, or -1
    size_t len;
    char bytes[];
};

struct keeper {
    struct keeper_config config;
    struct serve *serve; // NULL when the client is our parent
    int resumed;         // another program was the keeper in this process before
    int client;          // -1: there is none
    int client_reset;    // its socket has said once that the client left without reading all
    int client_over;     // nothing more will come from it
    int greeted;         // it knows of the boxes that were there before it
    uint64_t run;        // random, of this keeper and the programs that it becomes
    uint32_t restarts;   // daemons that were started before this one
    struct unsent *unsent, *unsent_last;
    size_t unsent_bytes;
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
    int zygotes_off; // they cannot be had
    struct zygote zygotes[ZYGOTES_MAX];
    struct plant plants[PLANTS_MAX];
    uint32_t next_plant;
    struct works works;
    struct space space;
    struct box *boxes; // slots.n of them, by slot; 0 is Z's
    struct table table;
};

enum event_kind {
    EVENT_CLIENT,
    EVENT_SPAWNER,
    EVENT_GUEST,
    EVENT_END,
    EVENT_DAEMON, // it has ended
    EVENT_SIGNAL,
    EVENT_WORK,   // a process of work.c has ended
    EVENT_COPIED, // one has made its copy: the box may go on
};

// main.c
int keeper_begin(struct keeper *k, struct err *err);
void keeper_loop(struct keeper *k);
void keeper_finish(struct keeper *k);
void box_init(struct box *box, uint32_t slot); // a free slot that owns nothing
int keeper_watch(struct keeper *k, int fd, enum event_kind kind, uint32_t slot);
// Closes one that is watched, or -1. Closing alone would not do: works are forks of ours and may
// have it open, and as long as they do its events come, for whoever has the slot by then.
void keeper_unwatch(struct keeper *k, int fd);
uint32_t keeper_host_id(const struct keeper *k, uint32_t slot);   // the slot's first id on the host
uint32_t keeper_host_slot(const struct keeper *k, uint32_t slot); // its number on the machine

// table.c
int table_init(struct keeper *k, struct err *err); // all boxes are free
// After a change of any field of a box that decides where it belongs.
void table_update(struct keeper *k, struct box *box);
struct box *table_first(const struct keeper *k, enum box_list list); // NULL if it is empty
struct box *table_free(const struct keeper *k); // for a box; NULL when there are enough
uint32_t table_boxes_max(const struct keeper *k);
// By number, of which the spawner's answers have the lower half.
struct box *table_find(const struct keeper *k, uint64_t number);
struct box *table_find_low(const struct keeper *k, uint32_t number);
struct box *table_find_disk(const struct keeper *k, uint64_t disk); // a kept one

// spawner-link.c
int spawner_link_start(struct keeper *k, struct err *err);
// Asks for B of a box's slot, unless it is there or asked for.
int spawner_link_userns(struct keeper *k, struct box *box, struct err *err);
void spawner_link_event(struct keeper *k);
void spawner_link_end(struct keeper *k); // it ends by itself then
// Waits until it has, and lets go of all that only its boxes could use.
void spawner_link_forget(struct keeper *k);

// request.c
int request_event(struct keeper *k); // whether there was a request

// client-link.c
void client_send(struct keeper *k, const void *msg, size_t len, int fd); // fd -1 for none
// Its socket can take more, or has something for us.
void client_event(struct keeper *k, uint32_t events);
// Tells a new daemon of every box.
void client_greet(struct keeper *k);
// The daemon is dead and all it said was heard: what it had asked for is nobody's any more.
void client_lost(struct keeper *k);
void reply_ok(struct keeper *k, uint32_t request);
void reply_error(struct keeper *k, uint32_t request, const struct err *err);
void reply_claimed(struct keeper *k, struct box *box);
void reply_ready(struct keeper *k, struct box *box);
void reply_ended(struct keeper *k, const struct keeper_ended *msg);
void reply_gone(struct keeper *k, uint64_t number);

// build.c
// Starts those that wait, as far as the spawner can take them.
void build_waiting(struct keeper *k);
// Starts a box in a free slot: with a root when box->image is set, blank otherwise.
void build_start(struct keeper *k, struct box *box);
void build_userns_made(struct keeper *k, struct box *box, int fd);
void build_spawned(struct keeper *k, struct box *box, int pidfd);
void build_guest_event(struct keeper *k, struct box *box);
void build_failed(struct keeper *k, struct box *box, const struct err *err);
// Gives a blank box the root that its image and disk fields describe.
int build_root(struct keeper *k, struct box *box, struct err *err);
// The process behind a pidfd, -1 if it is gone; and one that must be a child of ours, because
// whoever handed it to us is not believed.
pid_t pidfd_pid(int pidfd);
pid_t pidfd_child(int pidfd);
struct keeper_image *build_image(struct keeper *k, const char *name, struct err *err);

// end.c
void end_begin(struct keeper *k, struct box *box);
void end_kill(struct keeper *k, const struct box *box); // one that is dying, as soon as it may be
void end_event(struct keeper *k, struct box *box);
// Of these boxes all that are in one of the states before BOX_LIVE, or all.
void end_unclaimed(struct keeper *k);
void end_all(struct keeper *k);

// zygote.c
uint32_t zygote_slots(const struct keeper *k); // to be had beside those of boxes
void zygote_spawned(struct keeper *k, struct box *box, int pidfd); // takes it
void zygote_event(struct keeper *k, struct box *box);
void zygote_gone(struct keeper *k, uint32_t slot); // its slot is free; 0: it was none
void zygote_spawner_lost(struct keeper *k);        // the next one has another Z
// Begins one for this image; NULL when there are too many.
struct zygote *zygote_want(struct keeper *k, struct keeper_image *image);
void zygote_forget(struct keeper *k, struct zygote *z);
int zygote_wait(const struct keeper *k); // as pool_wait
void zygote_work(struct keeper *k);
// That is ready to fork into the box; else NULL and err, and one is begun.
struct zygote *zygote_of(struct keeper *k, const struct box *box, struct err *err);
// Until when it has to answer what it was asked; `anew`: it has just answered something.
void zygote_expect(struct keeper *k, struct zygote *z, bool anew);

// plant.c
union zygote_answer;
void plant_ask(struct keeper *k, struct box *box, const struct keeper_plant *msg); // answers
// Whether the message has ended one of that zygote's plants.
int plant_heard(struct keeper *k, uint32_t zygote, union zygote_answer *msg, size_t len,
                const struct wire_fds *fds);
int plant_waits(const struct keeper *k, uint32_t zygote); // for that zygote's answer
int plant_is_into(const struct keeper *k, uint64_t box);  // the box of that number
void plant_lose(struct keeper *k, uint32_t zygote);       // they come to nothing with it
void plant_client_lost(struct keeper *k);

// net.c
// Steers the box's connections to its own listener, which stays the caller's.
int net_open(const struct box *box, int listener, struct err *err);

// space.c
int space_wait(const struct keeper *k); // as pool_wait
void space_work(struct keeper *k);
int space_admit(struct keeper *k, struct err *err); // whether there is room for one more
int space_is_short(const struct keeper *k);
void space_dropped(struct keeper *k); // a disk was
void space_copied(struct keeper *k);
// All disks together may have a little more, for what must be done although they are full; until it
// is taken back.
void space_lift(struct keeper *k, int on);
void space_ask(struct keeper *k, uint32_t request); // answers

// pool.c
const char *pool_image(const struct keeper *k); // of boxes that are made ahead
struct box *pool_take_blank(struct keeper *k);
// A box for the pool could not be made: no other is tried for a while.
void pool_rest(struct keeper *k);
// Milliseconds until the pool wants work, -1 for never.
int pool_wait(const struct keeper *k);
void pool_work(struct keeper *k);
// Removes the cgroups that killed keepers have left.
void pool_sweep(struct keeper *k);
void pool_count(const struct keeper *k, struct keeper_state *ret);

// serve.c
int serve_wait(const struct keeper *k); // as pool_wait
void serve_work(struct keeper *k);      // what is due
void serve_daemon_event(struct keeper *k);
void serve_signal_event(struct keeper *k);
void serve_misbehaved(struct keeper *k, const char *what); // the daemon did
void serve_fell_silent(struct keeper *k);                  // it closed its socket
void serve_serving(struct keeper *k);                      // KEEPER_SERVING came
int serve_is_ending(const struct keeper *k); // no new boxes: it stops, or is about to be upgraded

// daemon.c
// Starts it with our end of the socket, non-blocking. -1, or its pidfd.
int daemon_start(const struct keeper_serving *serving, int *ret_sock, struct err *err);
// Whether these files can be run at all: asks each for its version.
int daemon_try(const char *program, struct err *err);
