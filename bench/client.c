// SPDX-License-Identifier: Apache-2.0
#include "client.h"

#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/limits.h"

// Below these the ids are the lines' own.
enum { REQUEST_CLAIM = 1000, REQUEST_TAKE, REQUEST_DESTROY, REQUEST_STATUS };

#define VOLUME_BYTES (16ull << 30) // sparse

const char *const true_argv[] = {"/bin/true", NULL};

static const char *const environment[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG=C.UTF-8",
    "HOME=/root",
    NULL,
};

struct claim client_claim(void)
{
    return (struct claim){.image = "host", .limits = limits_default(), .disk_kind = DISK_BLANK};
}

struct exec_spec client_exec(const char *const *argv)
{
    return (struct exec_spec){
        .cwd = "/workspace",
        .argv = argv,
        .envp = environment,
        .files = LIMIT_FILES_DEFAULT,
    };
}

// --- waiting for one answer ---

int client_handle(struct client *c, const struct keeper_event *ev)
{
    struct err err = {0};
    switch (ev->msg.head.type) {
    case KEEPER_ERROR:
        (void)keeper_error_take(&ev->msg.error, &err);
        die("the keeper says: %s", err.msg);
    case KEEPER_READY:
        if (c->n_ready == POOL_MAX)
            die("the keeper has more boxes ready than it was told to");
        c->ready[c->n_ready++] = (struct box_handle){.number = ev->msg.box.box, .guest = ev->guest};
        return 1;
    case KEEPER_OK:
        return ev->msg.head.id == REQUEST_TAKE;
    default:
        return 0;
    }
}

void client_recv(struct client *c, struct keeper_event *ev, uint16_t type)
{
    struct err err = {0};
    do {
        if (keeper_recv(c->keeper.sock, ev, 0, &err) <= 0)
            die("%s", err.msg);
    } while (client_handle(c, ev));
    if (ev->msg.head.type != type)
        die("the keeper sent message %d where %d was due", ev->msg.head.type, type);
}

void guest_wait(int guest, struct guest_event *ev, uint16_t type)
{
    struct err err = {0};
    if (guest_recv(guest, ev, 0, &err) <= 0)
        die("%s", err.msg);
    if (ev->msg.head.type == GUEST_FAILED) {
        (void)guest_failed_take(&ev->msg.failed, "the program", "/workspace", &err);
        die("%s", err.msg);
    }
    if (ev->msg.head.type != type)
        die("the guest sent message %d where %d was due", ev->msg.head.type, type);
}

// --- the keeper ---

static struct keeper_state ask_status(struct client *c)
{
    struct keeper_event ev;
    struct err err = {0};
    if (keeper_send_status(c->keeper.sock, REQUEST_STATUS, &err) < 0)
        die("%s", err.msg);
    client_recv(c, &ev, KEEPER_STATE);
    return ev.msg.state;
}

void client_start(struct client *c, const struct bench *b, uint32_t boxes, uint32_t pool_ready,
                  uint32_t pool_blank)
{
    struct err err = {0};
    *c = (struct client){
        .config = {.data = b->data,
                   .boxes = boxes,
                   .pool_ready = pool_ready,
                   .pool_blank = pool_blank,
                   .volume_bytes = VOLUME_BYTES},
    };
    if (pool_ready > POOL_MAX)
        die("a pool of %u is too large for this", pool_ready);
    watchdog("the start of a keeper");
    if (keeper_start(&c->config, &c->keeper, &err) < 0)
        die("%s", err.msg);
    (void)ask_status(c);
}

void client_stop(struct client *c)
{
    watchdog("the end of a keeper");
    for (; c->n_ready > 0; c->n_ready--)
        fd_close(c->ready[c->n_ready - 1].guest);
    keeper_stop(&c->keeper);
}

void client_settle(struct client *c, uint32_t live)
{
    watchdog("the pool to be full");
    for (;;) {
        struct keeper_state s = ask_status(c);
        if (s.live == live && s.busy == 0 && s.ready == c->config.pool_ready &&
            c->n_ready == s.ready && s.blank == c->config.pool_blank)
            return;
        sleep_ms(1);
    }
}

// --- a box ---

int box_take(struct client *c, struct box_handle *ret)
{
    struct err err = {0};
    struct box_limits limits = limits_default();
    if (c->n_ready == 0)
        return 0;
    *ret = c->ready[--c->n_ready];
    if (keeper_send_take(c->keeper.sock, REQUEST_TAKE, ret->number, &limits, 0, &err) < 0)
        die("%s", err.msg);
    return 1;
}

void box_claim(struct client *c, struct box_handle *ret)
{
    struct keeper_event ev;
    struct err err = {0};
    if (box_take(c, ret))
        return;
    struct claim claim = client_claim();
    if (keeper_send_claim(c->keeper.sock, REQUEST_CLAIM, &claim, &err) < 0)
        die("%s", err.msg);
    client_recv(c, &ev, KEEPER_CLAIMED);
    *ret = (struct box_handle){.number = ev.msg.box.box, .guest = ev.guest};
}

void box_start(const struct box_handle *box, const struct exec_spec *spec, struct streams *ret)
{
    static uint32_t
        last_id; // never one twice: an exec keeps its id while it has left processes behind
    struct guest_event ev;
    struct err err = {0};
    if (guest_send_exec(guest_fresh(box->guest), ++last_id, spec, &err) < 0)
        die("%s", err.msg);
    guest_wait(box->guest, &ev, GUEST_STARTED);
    *ret = (struct streams){.out = ev.out, .err = ev.err};
}

static void drain(int *fd)
{
    char bytes[4096];
    while (*fd >= 0 && read(*fd, bytes, sizeof bytes) > 0)
        ;
    fd_close(*fd);
    *fd = -1;
}

void box_finish(const struct box_handle *box, struct streams *streams)
{
    struct guest_event ev;
    drain(&streams->out);
    drain(&streams->err);
    guest_wait(box->guest, &ev, GUEST_EXITED);
    if (ev.msg.exited.status != 0)
        die("the program in the box ended with status 0x%x", (unsigned)ev.msg.exited.status);
}

void box_ended(struct client *c, struct box_handle *box)
{
    struct keeper_event ev;
    client_recv(c, &ev, KEEPER_ENDED);
    if (ev.msg.ended.box != box->number)
        die("another box ended");
    fd_close(box->guest);
    box->guest = -1;
}

void box_destroy(struct client *c, struct box_handle *box)
{
    struct err err = {0};
    if (keeper_send_destroy(c->keeper.sock, REQUEST_DESTROY, box->number, &err) < 0)
        die("%s", err.msg);
    box_ended(c, box);
}

void box_gone(struct client *c, const struct box_handle *box)
{
    struct keeper_event ev;
    client_recv(c, &ev, KEEPER_GONE);
    if (ev.msg.box.box != box->number)
        die("another box is gone");
}
