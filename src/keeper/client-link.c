// SPDX-License-Identifier: Apache-2.0
// The client's socket, and what the client is told. A daemon may be slow to read while it sends, so
// what its socket has no room for waits here: two that wait for each other to read would wait for
// ever. (`cay run` reads all the time, and its socket is a blocking one.)
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fd.h"
#include "keeper/keeper-internal.h"

enum { UNSENT_MAX = 8 * 1024 * 1024 }; // bytes; above, no request is read until some are gone

// --- sending ---

static void watch_client(struct keeper *k)
{
    uint32_t events = k->unsent != NULL ? EPOLLOUT : 0;
    events |= k->unsent_bytes < UNSENT_MAX ? EPOLLIN : 0;
    struct epoll_event ev = {.events = events, .data.u64 = (uint64_t)EVENT_CLIENT << 32};
    (void)epoll_ctl(k->epoll, EPOLL_CTL_MOD, k->client, &ev);
}

static void drop_first(struct keeper *k)
{
    struct unsent *first = k->unsent;
    k->unsent = first->next;
    k->unsent_last = k->unsent != NULL ? k->unsent_last : NULL;
    k->unsent_bytes -= first->len;
    fd_close(first->fd);
    free(first);
}

static void keep_unsent(struct keeper *k, const void *msg, size_t len, int fd)
{
    struct unsent *u = malloc(sizeof *u + len);
    int copy = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
    if (u == NULL || (fd >= 0 && copy < 0)) {
        free(u);
        fd_close(copy);
        serve_misbehaved(k, "it does not read what it is told, and memory is short");
        return;
    }
    *u = (struct unsent){.fd = copy, .len = len};
    memcpy(u->bytes, msg, len);
    *(k->unsent_last != NULL ? &k->unsent_last->next : &k->unsent) = u;
    k->unsent_last = u;
    k->unsent_bytes += len;
    watch_client(k);
}

void client_send(struct keeper *k, const void *msg, size_t len, int fd)
{
    if (k->client < 0 || k->client_over)
        return;
    // A client that is gone shows as the end of its stream; there is nothing to tell it.
    int r =
        k->unsent != NULL ? -EAGAIN : wire_send(k->client, msg, len, NULL, 0, &fd, fd >= 0 ? 1 : 0);
    if (r == -EAGAIN)
        keep_unsent(k, msg, len, fd);
}

static void send_unsent(struct keeper *k)
{
    while (k->unsent != NULL) {
        struct unsent *u = k->unsent;
        if (wire_send(k->client, u->bytes, u->len, NULL, 0, &u->fd, u->fd >= 0 ? 1 : 0) == -EAGAIN)
            break;
        drop_first(k);
    }
    watch_client(k);
}

void client_event(struct keeper *k, uint32_t events)
{
    if (k->client >= 0 && events & EPOLLOUT)
        send_unsent(k);
    if (k->client >= 0 && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        (void)request_event(k);
}

// --- what it is told ---

static struct wire_head head(uint16_t type, uint32_t id)
{
    return (struct wire_head){.version = WIRE_VERSION, .type = type, .id = id};
}

void reply_error(struct keeper *k, uint32_t request, const struct err *err)
{
    struct keeper_error msg = {.head = head(KEEPER_ERROR, request), .code = err->code};
    (void)snprintf(msg.msg, sizeof msg.msg, "%s", err->msg);
    client_send(k, &msg, sizeof msg, -1);
}

void reply_ok(struct keeper *k, uint32_t request)
{
    struct keeper_plain msg = {.head = head(KEEPER_OK, request)};
    client_send(k, &msg, sizeof msg, -1);
}

// From here on the guest's answers are the client's to read.
static void hand_over(struct keeper *k, struct box *box, uint16_t type)
{
    (void)epoll_ctl(k->epoll, EPOLL_CTL_DEL, box->guest, NULL);
    struct keeper_box msg = {.head = head(type, box->request), .box = box->number};
    if (k->greeted)
        client_send(k, &msg, sizeof msg, box->guest);
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
    client_send(k, msg, sizeof *msg, -1);
}

void reply_gone(struct keeper *k, uint64_t number)
{
    struct keeper_box msg = {.head = head(KEEPER_GONE, 0), .box = number};
    client_send(k, &msg, sizeof msg, -1);
}

// --- one daemon after another ---

static void tell_live(struct keeper *k, const struct box *box)
{
    struct keeper_live msg = {
        .head = head(KEEPER_LIVE, 0),
        .box = box->number,
        .disk = box->disk_kind == DISK_KEPT ? box->disk : 0,
        .limits = box->limits,
        .disk_kind = box->disk_kind,
        .guest_version = box->guest_version,
    };
    client_send(k, &msg, sizeof msg, box->guest);
}

static void tell_welcome(struct keeper *k)
{
    struct keeper_welcome msg = {
        .head = head(KEEPER_WELCOME, 0),
        .run = k->run,
        .boxes = table_boxes_max(k),
        .has_volume = k->volume != NULL,
        .pool_ready = k->config.pool_ready,
        .pool_blank = k->config.pool_blank,
        .restarts = k->restarts,
    };
    client_send(k, &msg, sizeof msg, -1);
}

void client_greet(struct keeper *k)
{
    if (keeper_watch(k, k->client, EVENT_CLIENT, 0) < 0) {
        k->client_over = 1;
        serve_misbehaved(k, "its socket cannot be watched");
        return;
    }
    for (uint32_t i = 1; i < k->slots.n; i++) {
        if (k->boxes[i].state == BOX_LIVE)
            tell_live(k, &k->boxes[i]);
    }
    tell_welcome(k);
    k->greeted = 1;
    for (uint32_t i = 1; i < k->slots.n; i++) {
        if (k->boxes[i].state == BOX_READY)
            reply_ready(k, &k->boxes[i]);
    }
}

// Whether a box was being made for the daemon, which will never hear of it.
static int was_awaited(const struct box *box)
{
    return !box->in_pool && box->state != BOX_NONE && box->state != BOX_LIVE &&
           box->state != BOX_DYING && box->state != BOX_ZYGOTE;
}

void client_lost(struct keeper *k)
{
    while (k->unsent != NULL)
        drop_first(k);
    keeper_unwatch(k, TAKE_FD(k->client));
    k->client_reset = k->client_over = k->greeted = 0;
    plant_client_lost(k);
    work_client_lost(k);
    for (uint32_t i = 1; i < k->slots.n; i++) {
        struct box *box = &k->boxes[i];
        box->request = 0;
        if (was_awaited(box)) {
            box->mute = 1;
            end_begin(k, box);
        } else if (box->state == BOX_DYING) {
            box->mute = 1;
            table_update(k, box);
        }
    }
}
