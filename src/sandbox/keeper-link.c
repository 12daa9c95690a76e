// SPDX-License-Identifier: Apache-2.0
// The daemon's end of the keeper's socket. At most WINDOW requests are under way: both sides write
// without looking whether the other reads, and a socket's buffer is finite.
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "sandbox/exec.h"
#include "sandbox/kernel.h"
#include "sandbox/sandbox-internal.h"

enum { WINDOW = 96, BUCKETS = 64 };

struct asked {
    struct asked *next;
    uint32_t id;
    uint16_t type; // enum keeper_type
    union {
        struct {
            struct claim claim;
            char image[KEEPER_IMAGE_MAX];
        } claim;
        struct {
            uint64_t box, disk;
            struct box_limits limits;
            int fd; // KEEPER_NETWORK: ours, closed once it is sent
        } box;
        struct plant_spec plant;
    } u;
    keeper_fn fn;
    plant_fn planted; // of KEEPER_PLANT, instead
    void *data;
};

struct keeper_link {
    struct fleet *fleet;
    int sock;
    uv_poll_t poll;
    uint32_t next_id;
    unsigned under_way;
    struct asked *bucket[BUCKETS];         // sent
    struct asked *queue_head, *queue_tail; // not sent yet
};

static int send_one(struct keeper_link *k, const struct asked *a, struct err *err)
{
    switch ((enum keeper_type)a->type) {
    case KEEPER_CLAIM: {
        struct claim claim = a->u.claim.claim;
        claim.image = a->u.claim.image;
        return keeper_send_claim(k->sock, a->id, &claim, err);
    }
    case KEEPER_TAKE:
        return keeper_send_take(k->sock, a->id, a->u.box.box, &a->u.box.limits, a->u.box.disk, err);
    case KEEPER_DESTROY:
        return keeper_send_destroy(k->sock, a->id, a->u.box.box, err);
    case KEEPER_LIMIT:
        return keeper_send_limit(k->sock, a->id, a->u.box.box, &a->u.box.limits, err);
    case KEEPER_DISK_DROP:
        return keeper_send_disk_drop(k->sock, a->id, a->u.box.disk, err);
    case KEEPER_DISK_LIST:
        return keeper_send_disk_list(k->sock, a->id, a->u.box.disk, err);
    case KEEPER_USAGE:
        return keeper_send_usage(k->sock, a->id, a->u.box.box, err);
    case KEEPER_NETWORK: {
        auto_fd fd = a->u.box.fd;
        return keeper_send_network(k->sock, a->id, a->u.box.box, fd, err);
    }
    case KEEPER_PLANT:
        return keeper_send_plant(k->sock, a->id, &a->u.plant, err);
    case KEEPER_STATUS:
    case KEEPER_SERVING:
    case KEEPER_CLAIMED:
    case KEEPER_READY:
    case KEEPER_ENDED:
    case KEEPER_GONE:
    case KEEPER_STATE:
    case KEEPER_LIVE:
    case KEEPER_WELCOME:
    case KEEPER_DISKS:
    case KEEPER_USED:
    case KEEPER_OK:
    case KEEPER_ERROR:
    case KEEPER_TYPE_MAX:
        break;
    }
    return err_set(err, ERR_INTERNAL, "not a request");
}

static void answer(struct asked *a, const struct keeper_event *ev, const struct err *err)
{
    if (a->planted != NULL)
        a->planted(a->data, a->u.plant.box, a->u.plant.exec, err);
    else if (a->fn != NULL)
        a->fn(a->data, ev, err);
    else if (ev != NULL)
        fd_close(ev->guest);
    free(a);
}

static void pump(struct keeper_link *k)
{
    while (k->under_way < WINDOW && k->queue_head != NULL) {
        struct asked *a = k->queue_head;
        struct err err = {0};
        k->queue_head = a->next;
        if (k->queue_head == NULL)
            k->queue_tail = NULL;
        if (send_one(k, a, &err) < 0) {
            answer(a, NULL, &err);
            continue;
        }
        a->next = k->bucket[a->id % BUCKETS];
        k->bucket[a->id % BUCKETS] = a;
        k->under_way++;
    }
}

static struct asked *asked_new(struct fleet *fleet, enum keeper_type type, keeper_fn fn, void *data)
{
    struct asked *a = calloc(1, sizeof *a);
    if (a == NULL)
        abort();
    struct keeper_link *k = fleet->keeper;
    if (++k->next_id == 0)
        k->next_id = 1;
    a->id = k->next_id;
    a->type = (uint16_t)type;
    a->fn = fn;
    a->data = data;
    return a;
}

static void submit(struct fleet *fleet, struct asked *a)
{
    struct keeper_link *k = fleet->keeper;
    if (k->queue_tail != NULL)
        k->queue_tail->next = a;
    else
        k->queue_head = a;
    k->queue_tail = a;
    pump(k);
}

void keeper_claim(struct fleet *fleet, const struct claim *claim, keeper_fn fn, void *data)
{
    struct asked *a = asked_new(fleet, KEEPER_CLAIM, fn, data);
    a->u.claim.claim = *claim;
    (void)snprintf(a->u.claim.image, sizeof a->u.claim.image, "%s", claim->image);
    submit(fleet, a);
}

static void submit_box(struct fleet *fleet, enum keeper_type type, uint64_t box,
                       const struct box_limits *limits, uint64_t disk, keeper_fn fn, void *data)
{
    struct asked *a = asked_new(fleet, type, fn, data);
    a->u.box.box = box;
    a->u.box.disk = disk;
    if (limits != NULL)
        a->u.box.limits = *limits;
    submit(fleet, a);
}

void keeper_take(struct fleet *fleet, uint64_t box, const struct box_limits *limits, uint64_t disk,
                 keeper_fn fn, void *data)
{
    submit_box(fleet, KEEPER_TAKE, box, limits, disk, fn, data);
}

void keeper_destroy(struct fleet *fleet, uint64_t box, keeper_fn fn, void *data)
{
    submit_box(fleet, KEEPER_DESTROY, box, NULL, 0, fn, data);
}

void keeper_limit(struct fleet *fleet, uint64_t box, const struct box_limits *limits, keeper_fn fn,
                  void *data)
{
    submit_box(fleet, KEEPER_LIMIT, box, limits, 0, fn, data);
}

void keeper_disk_drop(struct fleet *fleet, uint64_t disk, keeper_fn fn, void *data)
{
    submit_box(fleet, KEEPER_DISK_DROP, 0, NULL, disk, fn, data);
}

void keeper_disk_list(struct fleet *fleet, uint64_t above, keeper_fn fn, void *data)
{
    submit_box(fleet, KEEPER_DISK_LIST, 0, NULL, above, fn, data);
}

void keeper_usage(struct fleet *fleet, uint64_t box, keeper_fn fn, void *data)
{
    submit_box(fleet, KEEPER_USAGE, box, NULL, 0, fn, data);
}

void keeper_plant(struct fleet *fleet, uint64_t box, uint32_t id, plant_fn fn)
{
    struct asked *a = asked_new(fleet, KEEPER_PLANT, NULL, fleet);
    a->planted = fn;
    a->u.plant = (struct plant_spec){
        .box = box, .exec = id, .uid = KERNEL_UID, .gid = KERNEL_GID, .files = EXEC_FILES};
    submit(fleet, a);
}

void keeper_network(struct fleet *fleet, uint64_t box, int listener, keeper_fn fn, void *data)
{
    struct asked *a = asked_new(fleet, KEEPER_NETWORK, fn, data);
    a->u.box.box = box;
    a->u.box.fd = listener;
    submit(fleet, a);
}

void fleet_serving(struct fleet *fleet)
{
    struct err err = {0};
    if (keeper_send_serving(fleet->keeper->sock, &err) < 0)
        log_line(LOG_WARN, "cannot tell the keeper that we serve", "error", err.msg, NULL);
}

// --- what comes

static struct asked *take_asked(struct keeper_link *k, uint32_t id)
{
    for (struct asked **p = &k->bucket[id % BUCKETS]; *p != NULL; p = &(*p)->next) {
        struct asked *a = *p;
        if (a->id == id) {
            *p = a->next;
            k->under_way--;
            return a;
        }
    }
    return NULL;
}

static void on_answer(struct keeper_link *k, struct keeper_event *ev)
{
    struct err err = {0};
    struct asked *a = take_asked(k, ev->msg.head.id);
    if (a == NULL) {
        fd_close(ev->guest);
        return;
    }
    if (ev->msg.head.type == KEEPER_ERROR) {
        (void)keeper_error_take(&ev->msg.error, &err);
        answer(a, NULL, &err);
    } else {
        answer(a, ev, NULL);
    }
}

static void on_event(struct keeper_link *k, struct keeper_event *ev)
{
    struct fleet *fleet = k->fleet;
    switch ((enum keeper_type)ev->msg.head.type) {
    case KEEPER_LIVE:
        (void)adopt_live(fleet, ev);
        return;
    case KEEPER_WELCOME:
        adopt_welcome(fleet, &ev->msg.welcome);
        return;
    case KEEPER_READY:
        fleet_ready_box(fleet, ev->msg.box.box, ev->guest);
        return;
    case KEEPER_ENDED:
        fleet_box_ended(fleet, &ev->msg.ended);
        return;
    case KEEPER_GONE:
        fleet_box_gone(fleet, ev->msg.box.box);
        return;
    case KEEPER_ERROR:
        log_line(LOG_ERROR, "the keeper cannot go on", "error", ev->msg.error.msg, NULL);
        return;
    case KEEPER_CLAIM:
    case KEEPER_TAKE:
    case KEEPER_DESTROY:
    case KEEPER_LIMIT:
    case KEEPER_STATUS:
    case KEEPER_DISK_DROP:
    case KEEPER_DISK_LIST:
    case KEEPER_NETWORK:
    case KEEPER_PLANT:
    case KEEPER_USAGE:
    case KEEPER_SERVING:
    case KEEPER_CLAIMED:
    case KEEPER_STATE:
    case KEEPER_DISKS:
    case KEEPER_USED:
    case KEEPER_OK:
    case KEEPER_TYPE_MAX:
        break;
    }
    fd_close(ev->guest);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    enum { AT_ONCE = 64 }; // then others get their turn
    struct keeper_link *k = poll->data;
    struct fleet *fleet = k->fleet;
    struct keeper_event ev;
    struct err err = {0};
    (void)status;
    (void)events;
    for (int i = 0; i < AT_ONCE; i++) {
        int r = keeper_recv(k->sock, &ev, MSG_DONTWAIT, &err);
        if (r == 0)
            break;
        if (r < 0) {
            (void)uv_poll_stop(poll);
            log_line(LOG_ERROR, "the keeper is gone", "error", err.msg, NULL);
            fleet->lost_fn(fleet->data);
            return;
        }
        // The end of a box that we asked for answers by the request's id, and is an event as well.
        if (ev.msg.head.type == KEEPER_ENDED && ev.msg.head.id != 0) {
            fleet_box_ended(fleet, &ev.msg.ended);
            on_answer(k, &ev);
        } else if (ev.msg.head.id != 0) {
            on_answer(k, &ev);
        } else {
            on_event(k, &ev);
        }
    }
    pump(k);
}

int keeper_link_open(struct fleet *fleet, struct err *err)
{
    struct keeper_link *k = calloc(1, sizeof *k);
    if (k == NULL)
        abort();
    k->fleet = fleet;
    k->sock = fleet->config.keeper;
    k->poll.data = k;
    int r = uv_poll_init(fleet->config.loop, &k->poll, k->sock);
    if (r == 0)
        r = uv_poll_start(&k->poll, UV_READABLE, on_readable);
    if (r < 0) {
        free(k);
        return err_sys(err, -r, "watch the keeper");
    }
    fleet->keeper = k;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void free_list(struct asked *a)
{
    while (a != NULL) {
        struct asked *next = a->next;
        free(a);
        a = next;
    }
}

void keeper_link_close(struct fleet *fleet)
{
    struct keeper_link *k = fleet->keeper;
    if (k == NULL)
        return;
    for (unsigned i = 0; i < BUCKETS; i++)
        free_list(k->bucket[i]);
    free_list(k->queue_head);
    fleet->keeper = NULL;
    uv_close((uv_handle_t *)&k->poll, on_closed);
}
