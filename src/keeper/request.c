// SPDX-License-Identifier: Apache-2.0
// The client's side of the keeper: every field of every request is looked at here before anything
// is done for it.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "box/limits.h"
#include "keeper/keeper-internal.h"

static void send_client(struct keeper *k, const void *msg, size_t len, const int *fds, unsigned n)
{
    // A client that is gone shows as the end of its stream; there is nothing to tell it.
    (void)wire_send(k->client, msg, len, NULL, 0, fds, n);
}

static struct wire_head head(uint16_t type, uint32_t id)
{
    return (struct wire_head){.version = WIRE_VERSION, .type = type, .id = id};
}

void reply_error(struct keeper *k, uint32_t request, const struct err *err)
{
    struct keeper_error msg = {.head = head(KEEPER_ERROR, request), .code = err->code};
    (void)snprintf(msg.msg, sizeof msg.msg, "%s", err->msg);
    send_client(k, &msg, sizeof msg, NULL, 0);
}

static void reply_ok(struct keeper *k, uint32_t request)
{
    struct keeper_plain msg = {.head = head(KEEPER_OK, request)};
    send_client(k, &msg, sizeof msg, NULL, 0);
}

// From here on the guest's answers are the client's to read.
static void hand_over(struct keeper *k, struct box *box, uint16_t type)
{
    (void)epoll_ctl(k->epoll, EPOLL_CTL_DEL, box->guest, NULL);
    struct keeper_box msg = {.head = head(type, box->request), .box = box->number};
    send_client(k, &msg, sizeof msg, &box->guest, 1);
    box->request = 0;
}

void reply_claimed(struct keeper *k, struct box *box)
{
    hand_over(k, box, KEEPER_CLAIMED);
    k->claimed = 1;
    if (k->config.once)
        spawner_link_end(k); // it goes while the program runs
}

void reply_ready(struct keeper *k, struct box *box)
{
    hand_over(k, box, KEEPER_READY);
}

void reply_ended(struct keeper *k, const struct keeper_ended *msg)
{
    send_client(k, msg, sizeof *msg, NULL, 0);
}

void reply_gone(struct keeper *k, uint64_t number)
{
    struct keeper_box msg = {.head = head(KEEPER_GONE, 0), .box = number};
    send_client(k, &msg, sizeof msg, NULL, 0);
}

// --- requests ---

static struct box *find(struct keeper *k, uint64_t number, enum box_state state)
{
    for (uint32_t i = 1; i < k->slots.n; i++) {
        if (k->boxes[i].number == number && k->boxes[i].state == state)
            return &k->boxes[i];
    }
    return NULL;
}

static int disk_in_use(const struct keeper *k, uint64_t disk)
{
    for (uint32_t i = 1; i < k->slots.n; i++) {
        const struct box *box = &k->boxes[i];
        if (box->state != BOX_NONE && box->disk_kind == DISK_KEPT && box->disk == disk)
            return 1;
    }
    return 0;
}

static int check_claim(const struct keeper *k, const struct keeper_claim *msg, struct err *err)
{
    if (memchr(msg->image, '\0', sizeof msg->image) == NULL || !image_name_valid(msg->image))
        return err_set(err, ERR_INVALID, "not an image name");
    if (limits_check(&msg->limits, err) < 0)
        return -1;
    if (msg->disk_kind < DISK_TMPFS || msg->disk_kind >= DISK_KIND_MAX)
        return err_set(err, ERR_INVALID, "not a kind of disk");
    if (msg->disk_kind != DISK_TMPFS && k->volume == NULL)
        return err_set(err, ERR_UNSUPPORTED, "this keeper has no volume for disks");
    if ((msg->disk_kind == DISK_KEPT) != (msg->disk != 0))
        return err_set(err, ERR_INVALID, "a kept disk, and only that, has a number");
    if (msg->disk != 0 && disk_in_use(k, msg->disk))
        return err_set(err, ERR_CONFLICT, "disk %llu is in use", (unsigned long long)msg->disk);
    return 0;
}

static int same_limits(const struct box_limits *a, const struct box_limits *b)
{
    return a->memory == b->memory && a->pids == b->pids && a->cpu_milli == b->cpu_milli &&
           a->disk == b->disk;
}

static int set_limits(struct keeper *k, struct box *box, const struct box_limits *limits,
                      struct err *err)
{
    if (same_limits(&box->limits, limits))
        return 0;
    if (cgroups_limit(k->cgroups, keeper_host_slot(k, box->slot), limits, err) < 0)
        return -1;
    box->limits = *limits;
    return 0;
}

// A box out of the pool, or a free slot to build one in.
static struct box *choose(struct keeper *k, struct err *err)
{
    struct box *box = pool_take_blank(k);
    if (box == NULL)
        box = build_find_slot(k);
    if (box == NULL)
        (void)err_set(err, ERR_EXHAUSTED, "all %u boxes are in use", k->slots.n - 1);
    return box;
}

static void claim(struct keeper *k, const struct keeper_claim *msg)
{
    struct err err = {0};
    struct keeper_image *image = NULL;
    struct box *box = NULL;
    if (check_claim(k, msg, &err) == 0 && (image = build_image(k, msg->image, &err)) != NULL)
        box = choose(k, &err);
    if (box == NULL) {
        reply_error(k, msg->head.id, &err);
        return;
    }
    box->request = msg->head.id;
    if (box->state != BOX_NONE && set_limits(k, box, &msg->limits, &err) < 0) {
        build_failed(k, box, &err);
        return;
    }
    box->limits = msg->limits;
    box->disk_kind = msg->disk_kind;
    box->disk = msg->disk;
    box->image = image;
    if (box->state == BOX_NONE) {
        build_start(k, box);
        return;
    }
    image->users++;
    if (build_root(k, box, &err) < 0)
        build_failed(k, box, &err);
}

static void destroy(struct keeper *k, const struct keeper_box *msg)
{
    struct err err = {0};
    struct box *box = find(k, msg->box, BOX_LIVE);
    if (box == NULL) {
        (void)err_set(&err, ERR_NOT_FOUND, "no such box");
        reply_error(k, msg->head.id, &err);
        return;
    }
    box->request = msg->head.id;
    box->asked = 1;
    end_begin(k, box);
}

// KEEPER_LIMIT for a box that is in use, KEEPER_TAKE for one that shall be from now on.
static void change_limits(struct keeper *k, const struct keeper_limit *msg, enum box_state from)
{
    struct err err = {0};
    struct box *box = find(k, msg->box, from);
    int r = limits_check(&msg->limits, &err);
    if (r == 0 && box == NULL)
        r = err_set(&err, ERR_NOT_FOUND, "no such box");
    if (r == 0 && msg->limits.disk != box->limits.disk)
        r = err_set(&err, ERR_UNSUPPORTED, "the disk of a running box keeps its size");
    if (r == 0)
        r = set_limits(k, box, &msg->limits, &err);
    if (r < 0) {
        reply_error(k, msg->head.id, &err);
        return;
    }
    box->state = BOX_LIVE;
    box->in_pool = 0;
    reply_ok(k, msg->head.id);
}

static void drop_disk(struct keeper *k, const struct keeper_disk_drop *msg)
{
    struct err err = {0};
    int r = 0;
    if (k->volume == NULL || msg->disk == 0)
        r = err_set(&err, ERR_NOT_FOUND, "no such disk");
    else if (disk_in_use(k, msg->disk))
        r = err_set(&err, ERR_CONFLICT, "disk is in use");
    else
        r = volume_drop_kept(k->volume, msg->disk, &err);
    if (r < 0)
        reply_error(k, msg->head.id, &err);
    else
        reply_ok(k, msg->head.id);
}

static void status(struct keeper *k, uint32_t request)
{
    struct keeper_state msg = {.head = head(KEEPER_STATE, request)};
    pool_count(k, &msg);
    send_client(k, &msg, sizeof msg, NULL, 0);
}

union request {
    struct wire_head head;
    struct keeper_plain plain;
    struct keeper_claim claim;
    struct keeper_box box;
    struct keeper_limit limit;
    struct keeper_disk_drop drop;
};

// Whether the message is one of the list, exactly as long as its struct.
static int handle(struct keeper *k, const union request *msg, size_t len)
{
    switch (msg->head.type) {
    case KEEPER_CLAIM:
        if (len != sizeof msg->claim)
            return 0;
        claim(k, &msg->claim);
        return 1;
    case KEEPER_DESTROY:
        if (len != sizeof msg->box)
            return 0;
        destroy(k, &msg->box);
        return 1;
    case KEEPER_LIMIT:
        if (len != sizeof msg->limit)
            return 0;
        change_limits(k, &msg->limit, BOX_LIVE);
        return 1;
    case KEEPER_TAKE:
        if (len != sizeof msg->limit)
            return 0;
        change_limits(k, &msg->limit, BOX_READY);
        return 1;
    case KEEPER_STATUS:
        if (len != sizeof msg->plain)
            return 0;
        status(k, msg->head.id);
        return 1;
    case KEEPER_DISK_DROP:
        if (len != sizeof msg->drop)
            return 0;
        drop_disk(k, &msg->drop);
        return 1;
    default:
        return 0;
    }
}

int request_event(struct keeper *k)
{
    union request msg;
    struct wire_fds fds;
    ssize_t n = wire_recv(k->client, &msg, sizeof msg, &fds, MSG_DONTWAIT);
    if (n == -EAGAIN || n == -EINTR)
        return 0;
    wire_fds_close(&fds); // no request carries any
    if (n > 0 && handle(k, &msg, (size_t)n)) {
        if (msg.head.type != KEEPER_STATUS)
            k->last_request_ns = clock_ns();
        return 1;
    }
    k->closing = 1;
    (void)epoll_ctl(k->epoll, EPOLL_CTL_DEL, k->client, NULL);
    for (uint32_t i = 1; i < k->slots.n; i++) {
        if (k->boxes[i].state != BOX_NONE && k->boxes[i].state != BOX_DYING)
            end_begin(k, &k->boxes[i]);
    }
    return 0;
}
