// SPDX-License-Identifier: Apache-2.0
// A client of the keeper that waits for each answer, as the timed lines want it. Made of the calls
// of box/client.h and nothing else.
#pragma once

#include <stdint.h>

#include "bench.h"
#include "box/client.h"
#include "keeper/keeper.h"

enum { POOL_MAX = 16 };

struct box_handle {
    uint64_t number;
    int guest;
};

struct client {
    struct keeper_config config;
    struct keeper_process keeper;
    struct box_handle ready[POOL_MAX]; // handed out ahead, not yet taken
    unsigned n_ready;
};

struct streams {
    int out, err;
};

// A keeper with a Btrfs volume, and an answer from it, so that it is known to work.
void client_start(struct client *c, const struct bench *b, uint32_t boxes, uint32_t pool_ready,
                  uint32_t pool_blank);
void client_stop(struct client *c);
// Until the pool is full and nothing is being made or taken apart.
void client_settle(struct client *c, uint32_t live);

struct claim client_claim(void); // the image `host`, default limits, a blank disk
// What both argv of a program in a box and its environment look like.
struct exec_spec client_exec(const char *const *argv);
// Waits for a message of that type; boxes that become ready meanwhile are kept for box_claim.
void client_recv(struct client *c, struct keeper_event *ev, uint16_t type);
// What every message passes through: nonzero if that is all there is to do about it.
int client_handle(struct client *c, const struct keeper_event *ev);
void guest_wait(int guest, struct guest_event *ev, uint16_t type);

// Takes a ready box, if there is one, without waiting for anything; nonzero if there was.
int box_take(struct client *c, struct box_handle *ret);
// Takes a ready box, or has one made.
void box_claim(struct client *c, struct box_handle *ret);
void box_start(const struct box_handle *box, const struct exec_spec *spec, struct streams *ret);
// Reads both streams to their end, closes them, and hears the exit, which must be 0.
void box_finish(const struct box_handle *box, struct streams *streams);
void box_ended(struct client *c, struct box_handle *box);   // waits for KEEPER_ENDED
void box_destroy(struct client *c, struct box_handle *box); // asks for it, and waits for the same
void box_gone(struct client *c, const struct box_handle *box);

extern const char *const true_argv[];
