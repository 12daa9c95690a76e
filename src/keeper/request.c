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

static struct wire_head head(uint16_t type, uint32_t id)
{
    return (struct wire_head){.version = WIRE_VERSION, .type = type, .id = id};
}

static struct box *find(struct keeper *k, uint64_t number, enum box_state state)
{
    struct box *box = table_find(k, number);
    return box != NULL && box->state == state ? box : NULL;
}

static struct disk_ref kept_disk(uint64_t number)
{
    return (struct disk_ref){.place = PLACE_KEPT, .number = number};
}

// By no box, nor by a work that is about to change it.
static int check_unused(const struct keeper *k, uint64_t disk, struct err *err)
{
    if (table_find_disk(k, disk) == NULL && !work_writes(k, kept_disk(disk)))
        return 0;
    return err_set(err, ERR_CONFLICT, "disk %llu is in use", (unsigned long long)disk);
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
    if (msg->durable > 1 || msg->pad != 0)
        return err_set(err, ERR_INVALID, "not a claim");
    return msg->disk != 0 ? check_unused(k, msg->disk, err) : 0;
}

static int open_disk(struct keeper *k, const struct box *box, struct err *err)
{
    return box->disk_kind == DISK_KEPT ? volume_open_disk(k->volume, kept_disk(box->disk), err)
                                       : volume_open_blank(k->volume, box->disk, err);
}

// Of a disk on the volume, whose limit is a quota; a tmpfs keeps its size.
static int set_quota(struct keeper *k, struct box *box, uint64_t bytes, struct err *err)
{
    if (bytes == box->limits.disk)
        return 0;
    if (box->disk_kind == DISK_TMPFS)
        return err_set(err, ERR_UNSUPPORTED, "a disk in memory keeps its size");
    auto_fd fd = open_disk(k, box, err);
    return fd < 0 ? -1 : volume_limit(k->volume, fd, bytes, err);
}

static int set_cgroups(struct keeper *k, struct box *box, const struct box_limits *limits,
                       struct err *err)
{
    const struct box_limits *is = &box->limits;
    if (is->memory == limits->memory && is->pids == limits->pids &&
        is->cpu_milli == limits->cpu_milli)
        return 0;
    return cgroups_limit(k->cgroups, keeper_host_slot(k, box->slot), limits, err);
}

// All of them, or none.
static int set_limits(struct keeper *k, struct box *box, const struct box_limits *limits,
                      struct err *err)
{
    struct err ignored;
    struct box_limits before = box->limits;
    if (set_quota(k, box, limits->disk, err) < 0)
        return -1;
    if (set_cgroups(k, box, limits, err) < 0) {
        box->limits.disk = limits->disk;
        (void)set_quota(k, box, before.disk, &ignored);
        box->limits.disk = before.disk;
        return -1;
    }
    box->limits = *limits;
    return 0;
}

static int check_room(struct keeper *k, const struct keeper_claim *msg, struct err *err)
{
    // Who has a disk may have to wake up to delete something; all together still get no more.
    int has_disk = msg->disk_kind == DISK_KEPT && k->volume != NULL &&
                   volume_has(k->volume, (struct disk_ref){PLACE_KEPT, .number = msg->disk});
    return has_disk || msg->disk_kind == DISK_TMPFS ? 0 : space_admit(k, err);
}

// A box out of the pool, or a free slot to build one in.
static struct box *choose(struct keeper *k, struct err *err)
{
    struct box *box = pool_take_blank(k);
    if (box == NULL)
        box = table_free(k);
    if (box == NULL)
        (void)err_set(err, ERR_EXHAUSTED, "all %u boxes are in use", table_boxes_max(k));
    return box;
}

static void describe(struct keeper *k, struct box *box, const struct keeper_claim *msg,
                     struct keeper_image *image)
{
    box->request = msg->head.id;
    box->disk_kind = msg->disk_kind;
    box->disk = msg->disk;
    box->durable = (int)msg->durable;
    box->image = image;
    image->users++;
    table_update(k, box);
}

static void claim(struct keeper *k, const struct keeper_claim *msg)
{
    struct err err = {0};
    struct keeper_image *image = NULL;
    struct box *box = NULL;
    if (check_claim(k, msg, &err) == 0 && check_room(k, msg, &err) == 0 &&
        (image = build_image(k, msg->image, &err)) != NULL)
        box = choose(k, &err);
    if (box == NULL) {
        reply_error(k, msg->head.id, &err);
        return;
    }
    int pooled = box->state != BOX_NONE;
    int r = pooled ? set_cgroups(k, box, &msg->limits, &err) : 0;
    box->limits = msg->limits;
    box->state = pooled ? box->state : BOX_WAITING;
    describe(k, box, msg, image);
    if (!pooled)
        build_waiting(k);
    else if (r < 0 || build_root(k, box, &err) < 0)
        build_failed(k, box, &err);
}

static void no_such_box(struct keeper *k, uint32_t request)
{
    struct err err = {0};
    (void)err_set(&err, ERR_NOT_FOUND, "no such box");
    reply_error(k, request, &err);
}

static void destroy(struct keeper *k, const struct keeper_box *msg)
{
    struct box *box = find(k, msg->box, BOX_LIVE);
    if (box == NULL) {
        no_such_box(k, msg->head.id);
        return;
    }
    box->request = msg->head.id;
    box->asked = 1;
    end_begin(k, box);
}

static void limit(struct keeper *k, const struct keeper_limit *msg)
{
    struct err err = {0};
    struct box *box = find(k, msg->box, BOX_LIVE);
    int r = limits_check(&msg->limits, &err);
    if (r == 0)
        r = box != NULL ? set_limits(k, box, &msg->limits, &err)
                        : err_set(&err, ERR_NOT_FOUND, "no such box");
    if (r < 0)
        reply_error(k, msg->head.id, &err);
    else
        reply_ok(k, msg->head.id);
}

// The blank disk of a box that is ready becomes the kept one of that number.
static int keep_disk(struct keeper *k, struct box *box, uint64_t disk, struct err *err)
{
    if (disk == 0)
        return 0;
    if (box->disk_kind != DISK_BLANK)
        return err_set(err, ERR_UNSUPPORTED, "this keeper has no volume for disks");
    if (check_unused(k, disk, err) < 0)
        return -1;
    if (volume_keep_blank(k->volume, box->disk, disk, err) < 0)
        return -1;
    box->disk_kind = DISK_KEPT;
    box->disk = disk;
    return 0;
}

static void take(struct keeper *k, const struct keeper_take *msg)
{
    struct err err = {0};
    struct box *box = find(k, msg->box, BOX_READY);
    int r = limits_check(&msg->limits, &err);
    if (r == 0 && box == NULL)
        r = err_set(&err, ERR_NOT_FOUND, "no such box");
    struct box_limits before = box != NULL ? box->limits : msg->limits;
    if (r == 0)
        r = set_limits(k, box, &msg->limits, &err);
    if (r == 0 && (r = keep_disk(k, box, msg->disk, &err)) < 0)
        (void)set_limits(k, box, &before, &(struct err){0});
    if (r < 0) {
        reply_error(k, msg->head.id, &err);
        return;
    }
    box->state = BOX_LIVE;
    box->in_pool = 0;
    table_update(k, box);
    k->claimed = 1;
    reply_ok(k, msg->head.id);
}

static void status(struct keeper *k, uint32_t request)
{
    struct keeper_state msg = {.head = head(KEEPER_STATE, request)};
    pool_count(k, &msg);
    client_send(k, &msg, sizeof msg, -1);
}

static void list_disks(struct keeper *k, const struct keeper_disk_list *ask)
{
    struct keeper_disks msg = {.head = head(KEEPER_DISKS, ask->head.id)};
    struct err err = {0};
    struct disk_ref above = {.place = ask->place, .number = ask->above};
    int n = 0;
    if (ask->place < PLACE_KEPT || ask->place >= PLACE_MAX || ask->pad != 0)
        n = err_set(&err, ERR_INVALID, "no such place");
    else if (k->volume != NULL)
        n = volume_list(k->volume, above, msg.disk, KEEPER_DISKS_MAX, &err);
    if (n < 0) {
        reply_error(k, ask->head.id, &err);
        return;
    }
    msg.n = (uint32_t)n;
    client_send(k, &msg, sizeof msg, -1);
}

static int check_disk_used(const struct keeper_disk_used *ask, struct err *err)
{
    int good = ask->place >= PLACE_KEPT && ask->place < PLACE_MAX && ask->n <= KEEPER_USED_MAX;
    for (uint32_t i = 0; good && i < KEEPER_USED_MAX; i++)
        good = (ask->disk[i] != 0) == (i < ask->n);
    return good ? 0 : err_set(err, ERR_INVALID, "not disks");
}

static void disks_used(struct keeper *k, const struct keeper_disk_used *ask)
{
    struct keeper_disks_used msg = {.head = head(KEEPER_DISKS_USED, ask->head.id), .n = ask->n};
    struct err err = {0}, ignored;
    if (check_disk_used(ask, &err) < 0) {
        reply_error(k, ask->head.id, &err);
        return;
    }
    for (uint32_t i = 0; k->volume != NULL && i < ask->n; i++) {
        struct disk_ref disk = {.place = ask->place, .number = ask->disk[i]};
        auto_fd fd = volume_open_disk(k->volume, disk, &ignored);
        msg.bytes[i] = fd < 0 ? 0 : volume_disk_bytes(k->volume, fd);
    }
    client_send(k, &msg, sizeof msg, -1);
}

static void usage(struct keeper *k, const struct keeper_box *ask)
{
    struct box *box = find(k, ask->box, BOX_LIVE);
    struct cgroup_usage used;
    if (box == NULL) {
        no_such_box(k, ask->head.id);
        return;
    }
    cgroups_usage(k->cgroups, keeper_host_slot(k, box->slot), &used);
    struct keeper_used msg = {
        .head = head(KEEPER_USED, ask->head.id),
        .box = box->number,
        .cpu_usec = used.cpu_usec,
        .memory = used.memory,
        .memory_peak = used.memory_peak,
        .pids = used.pids,
        .oom_kills = used.oom_kills,
    };
    struct err ignored;
    auto_fd disk = box->disk_kind != DISK_TMPFS ? open_disk(k, box, &ignored) : -1;
    if (disk >= 0)
        msg.disk = volume_disk_bytes(k->volume, disk);
    client_send(k, &msg, sizeof msg, -1);
}

union request {
    struct wire_head head;
    struct keeper_plain plain;
    struct keeper_claim claim;
    struct keeper_box box;
    struct keeper_limit limit;
    struct keeper_take take;
    struct keeper_disk_drop drop;
    struct keeper_disk_list list;
    struct keeper_disk_used used;
    struct keeper_plant plant;
    struct keeper_disk_copy copy;
    struct keeper_disk_move move;
    struct keeper_disk_count count;
    struct {
        struct keeper_disk_work msg;
        char args[KEEPER_ARGS_MAX];
    } work;
};

static size_t length_of(uint16_t type)
{
    static const size_t lengths[KEEPER_TYPE_MAX] = {
        [KEEPER_CLAIM] = sizeof(struct keeper_claim),
        [KEEPER_TAKE] = sizeof(struct keeper_take),
        [KEEPER_DESTROY] = sizeof(struct keeper_box),
        [KEEPER_LIMIT] = sizeof(struct keeper_limit),
        [KEEPER_STATUS] = sizeof(struct keeper_plain),
        [KEEPER_DISK_DROP] = sizeof(struct keeper_disk_drop),
        [KEEPER_DISK_LIST] = sizeof(struct keeper_disk_list),
        [KEEPER_USAGE] = sizeof(struct keeper_box),
        [KEEPER_SERVING] = sizeof(struct keeper_plain),
        [KEEPER_NETWORK] = sizeof(struct keeper_box),
        [KEEPER_PLANT] = sizeof(struct keeper_plant),
        [KEEPER_DISK_COPY] = sizeof(struct keeper_disk_copy),
        [KEEPER_DISK_MOVE] = sizeof(struct keeper_disk_move),
        [KEEPER_DISK_WORK] = sizeof(struct keeper_disk_work),
        [KEEPER_DISK_CANCEL] = sizeof(struct keeper_plain),
        [KEEPER_SPACE] = sizeof(struct keeper_plain),
        [KEEPER_DISK_USED] = sizeof(struct keeper_disk_used),
        [KEEPER_DISK_COUNT] = sizeof(struct keeper_disk_count),
    };
    return type < KEEPER_TYPE_MAX ? lengths[type] : 0;
}

static void network(struct keeper *k, const struct keeper_box *msg, struct wire_fds *fds)
{
    struct err err = {0};
    struct box *box = find(k, msg->box, BOX_LIVE);
    int r = box != NULL ? net_open(box, fds->n == 1 ? fds->fd[0] : -1, &err)
                        : err_set(&err, ERR_NOT_FOUND, "no such box");
    if (r < 0)
        reply_error(k, msg->head.id, &err);
    else
        reply_ok(k, msg->head.id);
}

static void plant(struct keeper *k, const struct keeper_plant *msg)
{
    enum { FILES_MAX = 65536 };
    struct err err = {0};
    struct box *box = find(k, msg->box, BOX_LIVE);
    if (box == NULL)
        box = find(k, msg->box, BOX_READY);
    if (box == NULL) {
        no_such_box(k, msg->head.id);
    } else if (msg->uid >= SLOT_BOX_IDS || msg->gid >= SLOT_BOX_IDS || msg->files > FILES_MAX) {
        (void)err_set(&err, ERR_INVALID, "no such user in a box");
        reply_error(k, msg->head.id, &err);
    } else {
        plant_ask(k, box, msg);
    }
}

static int is_whole(const union request *msg, size_t len)
{
    size_t want = length_of(msg->head.type);
    if (want == 0 || len < want)
        return 0;
    if (msg->head.type == KEEPER_DISK_WORK)
        return msg->work.msg.args_len <= KEEPER_ARGS_MAX && len - want == msg->work.msg.args_len;
    return len == want;
}

// Whether the message is one of the list, exactly as long as its struct, and what follows that.
static int handle(struct keeper *k, const union request *msg, size_t len, struct wire_fds *fds)
{
    if (!is_whole(msg, len) || msg->head.version != WIRE_VERSION)
        return 0;
    switch (msg->head.type) {
    case KEEPER_CLAIM:
        claim(k, &msg->claim);
        return 1;
    case KEEPER_TAKE:
        take(k, &msg->take);
        return 1;
    case KEEPER_DESTROY:
        destroy(k, &msg->box);
        return 1;
    case KEEPER_LIMIT:
        limit(k, &msg->limit);
        return 1;
    case KEEPER_STATUS:
        status(k, msg->head.id);
        return 1;
    case KEEPER_DISK_DROP:
        work_ask_drop(k, &msg->drop);
        return 1;
    case KEEPER_DISK_LIST:
        list_disks(k, &msg->list);
        return 1;
    case KEEPER_USAGE:
        usage(k, &msg->box);
        return 1;
    case KEEPER_SERVING:
        serve_serving(k);
        return 1;
    case KEEPER_PLANT:
        plant(k, &msg->plant);
        return 1;
    case KEEPER_NETWORK:
        network(k, &msg->box, fds);
        return 1;
    case KEEPER_DISK_COPY:
        work_ask_copy(k, &msg->copy);
        return 1;
    case KEEPER_DISK_MOVE:
        work_ask_move(k, &msg->move);
        return 1;
    case KEEPER_DISK_WORK:
        pack_ask(k, &msg->work.msg, msg->work.args, fds);
        return 1;
    case KEEPER_DISK_CANCEL:
        pack_cancel(k, msg->head.id);
        return 1;
    case KEEPER_SPACE:
        space_ask(k, msg->head.id);
        return 1;
    case KEEPER_DISK_USED:
        disks_used(k, &msg->used);
        return 1;
    case KEEPER_DISK_COUNT:
        work_ask_count(k, &msg->count);
        return 1;
    default:
        return 0;
    }
}

// Requests that nobody waits for do not put off the filling of the pool.
static int is_quiet(uint16_t type)
{
    return type == KEEPER_SPACE || type == KEEPER_STATUS || type == KEEPER_USAGE ||
           type == KEEPER_DISK_LIST || type == KEEPER_DISK_USED || type == KEEPER_PLANT;
}

// The client has gone, or has said what nobody can understand.
static void client_ended(struct keeper *k, int nonsense)
{
    k->client_over = 1;
    (void)epoll_ctl(k->epoll, EPOLL_CTL_DEL, k->client, NULL);
    if (k->serve != NULL && nonsense)
        serve_misbehaved(k, "it asked for what makes no sense");
    else if (k->serve != NULL)
        serve_fell_silent(k);
    if (k->serve != NULL)
        return;
    k->closing = 1;
    work_client_lost(k);
    end_all(k);
}

int request_event(struct keeper *k)
{
    union request msg;
    struct wire_fds fds;
    if (k->client < 0 || k->client_over)
        return 0;
    ssize_t n = wire_recv(k->client, &msg, sizeof msg, &fds, MSG_DONTWAIT);
    if (n == -EAGAIN || n == -EINTR)
        return 0;
    // A daemon that died without having read all: what it sent before comes after this.
    if (n == -ECONNRESET && k->serve != NULL && !k->client_reset) {
        k->client_reset = 1;
        return 1;
    }
    if (n > 0 && msg.head.type != KEEPER_NETWORK && msg.head.type != KEEPER_DISK_WORK)
        wire_fds_close(&fds); // no other request carries any
    int sound = n > 0 && handle(k, &msg, (size_t)n, &fds);
    wire_fds_close(&fds); // those that were not taken
    if (sound) {
        if (!is_quiet(msg.head.type))
            k->last_request_ns = clock_ns();
        return 1;
    }
    client_ended(k, n != 0 && n != -ECONNRESET);
    return 0;
}
