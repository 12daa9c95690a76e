// SPDX-License-Identifier: Apache-2.0
// The daemon's end of the keeper's socket. At most so many requests are under way: both sides write
// without looking whether the other reads, and a socket's buffer is finite. What takes longer has a
// lane of its own, so that a thousand copies of disks, or archives that nobody reads, do not keep
// anybody from a box.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "sandbox/exec.h"
#include "sandbox/kernel.h"
#include "sandbox/sandbox-internal.h"

enum lane { LANE_BOXES, LANE_COPIES, LANE_WORK, LANE_MAX };
static const unsigned windows[LANE_MAX] = {[LANE_BOXES] = 96, [LANE_COPIES] = 32, [LANE_WORK] = 32};

enum { BUCKETS = 64 };

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
        struct disk_ref ref;
        struct copy_spec copy; // of KEEPER_DISK_MOVE: from and to
        struct {
            struct work_spec spec;
            char **args;
            char image[KEEPER_IMAGE_MAX];
        } work; // descriptors and texts are ours
        struct {
            uint64_t *numbers; // ours
            unsigned n;
        } used; // of PLACE_KEPT
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
    struct asked *bucket[BUCKETS]; // sent
    struct {
        unsigned under_way;
        struct asked *head, *tail; // not sent yet
    } lanes[LANE_MAX];
};

static enum lane lane_of(const struct asked *a)
{
    if (a->type == KEEPER_DISK_WORK)
        return LANE_WORK;
    return a->type == KEEPER_DISK_COPY || a->type == KEEPER_DISK_DROP ||
                   a->type == KEEPER_DISK_COUNT
               ? LANE_COPIES
               : LANE_BOXES;
}

static void work_done(struct asked *a)
{
    if (a->type == KEEPER_DISK_USED) {
        free(a->u.used.numbers);
        a->u.used.numbers = NULL;
    }
    if (a->type != KEEPER_DISK_WORK)
        return;
    for (size_t i = 0; i < 3; i++) {
        fd_close(a->u.work.spec.fds[i]);
        a->u.work.spec.fds[i] = -1;
    }
    for (size_t i = 0; a->u.work.args != NULL && a->u.work.args[i] != NULL; i++)
        free(a->u.work.args[i]);
    free(a->u.work.args);
    a->u.work.args = NULL;
}

static int send_work(struct keeper_link *k, const struct asked *a, struct err *err)
{
    struct work_spec spec = a->u.work.spec;
    spec.args = (const char *const *)a->u.work.args;
    spec.image = a->u.work.image[0] != '\0' ? a->u.work.image : NULL;
    return keeper_send_disk_work(k->sock, a->id, &spec, err);
}

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
        return keeper_send_disk_drop(k->sock, a->id, a->u.ref, err);
    case KEEPER_DISK_COUNT:
        return keeper_send_disk_count(k->sock, a->id, a->u.ref, err);
    case KEEPER_DISK_LIST:
        return keeper_send_disk_list(k->sock, a->id, a->u.ref, err);
    case KEEPER_USAGE:
        return keeper_send_usage(k->sock, a->id, a->u.box.box, err);
    case KEEPER_NETWORK: {
        auto_fd fd = a->u.box.fd;
        return keeper_send_network(k->sock, a->id, a->u.box.box, fd, err);
    }
    case KEEPER_PLANT:
        return keeper_send_plant(k->sock, a->id, &a->u.plant, err);
    case KEEPER_DISK_COPY:
        return keeper_send_disk_copy(k->sock, a->id, &a->u.copy, err);
    case KEEPER_DISK_MOVE:
        return keeper_send_disk_move(k->sock, a->id, a->u.copy.from, a->u.copy.to, err);
    case KEEPER_DISK_WORK:
        return send_work(k, a, err);
    case KEEPER_SPACE:
        return keeper_send_space(k->sock, a->id, err);
    case KEEPER_DISK_USED:
        return keeper_send_disk_used(k->sock, a->id, PLACE_KEPT, a->u.used.numbers, a->u.used.n,
                                     err);
    case KEEPER_DISKS_USED:
    case KEEPER_DISK_CANCEL:
    case KEEPER_DISK_DONE:
    case KEEPER_SPACED:
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
    work_done(a);
    if (a->planted != NULL)
        a->planted(a->data, a->u.plant.box, a->u.plant.exec, err);
    else if (a->fn != NULL)
        a->fn(a->data, ev, err);
    else if (ev != NULL)
        fd_close(ev->guest);
    free(a);
}

static void pump_lane(struct keeper_link *k, enum lane lane)
{
    while (k->lanes[lane].under_way < windows[lane] && k->lanes[lane].head != NULL) {
        struct asked *a = k->lanes[lane].head;
        struct err err = {0};
        k->lanes[lane].head = a->next;
        if (k->lanes[lane].head == NULL)
            k->lanes[lane].tail = NULL;
        if (send_one(k, a, &err) < 0) {
            answer(a, NULL, &err);
            continue;
        }
        work_done(a); // the keeper has copies
        a->next = k->bucket[a->id % BUCKETS];
        k->bucket[a->id % BUCKETS] = a;
        k->lanes[lane].under_way++;
    }
}

static void pump(struct keeper_link *k)
{
    for (unsigned lane = 0; lane < LANE_MAX; lane++)
        pump_lane(k, lane);
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
    enum lane lane = lane_of(a);
    if (k->lanes[lane].tail != NULL)
        k->lanes[lane].tail->next = a;
    else
        k->lanes[lane].head = a;
    k->lanes[lane].tail = a;
    pump_lane(k, lane);
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

static void submit_disk(struct fleet *fleet, enum keeper_type type, struct disk_ref disk,
                        keeper_fn fn, void *data)
{
    struct asked *a = asked_new(fleet, type, fn, data);
    a->u.ref = disk;
    submit(fleet, a);
}

void keeper_disk_drop(struct fleet *fleet, struct disk_ref disk, keeper_fn fn, void *data)
{
    submit_disk(fleet, KEEPER_DISK_DROP, disk, fn, data);
}

void keeper_disk_count(struct fleet *fleet, struct disk_ref disk, keeper_fn fn, void *data)
{
    submit_disk(fleet, KEEPER_DISK_COUNT, disk, fn, data);
}

void keeper_disk_list(struct fleet *fleet, struct disk_ref above, keeper_fn fn, void *data)
{
    submit_disk(fleet, KEEPER_DISK_LIST, above, fn, data);
}

void keeper_disk_copy(struct fleet *fleet, const struct copy_spec *spec, keeper_fn fn, void *data)
{
    struct asked *a = asked_new(fleet, KEEPER_DISK_COPY, fn, data);
    a->u.copy = *spec;
    submit(fleet, a);
}

void keeper_disk_move(struct fleet *fleet, struct disk_ref from, struct disk_ref to, keeper_fn fn,
                      void *data)
{
    struct asked *a = asked_new(fleet, KEEPER_DISK_MOVE, fn, data);
    a->u.copy = (struct copy_spec){.from = from, .to = to};
    submit(fleet, a);
}

void keeper_disk_used(struct fleet *fleet, const uint64_t *numbers, unsigned n, keeper_fn fn,
                      void *data)
{
    struct asked *a = asked_new(fleet, KEEPER_DISK_USED, fn, data);
    a->u.used.numbers = calloc(n + 1, sizeof *numbers);
    if (a->u.used.numbers == NULL)
        abort();
    memcpy(a->u.used.numbers, numbers, n * sizeof *numbers);
    a->u.used.n = n;
    submit(fleet, a);
}

void keeper_space(struct fleet *fleet, keeper_fn fn, void *data)
{
    submit(fleet, asked_new(fleet, KEEPER_SPACE, fn, data));
}

static char **copy_args(const char *const *args)
{
    size_t n = 0;
    while (args[n] != NULL)
        n++;
    char **made = calloc(n + 1, sizeof *made);
    if (made == NULL)
        abort();
    for (size_t i = 0; i < n; i++)
        made[i] = mem_copy_text(args[i]);
    return made;
}

uint32_t keeper_disk_work(struct fleet *fleet, const struct work_spec *spec, keeper_fn fn,
                          void *data)
{
    struct asked *a = asked_new(fleet, KEEPER_DISK_WORK, fn, data);
    uint32_t id = a->id;
    a->u.work.spec = *spec;
    a->u.work.args = copy_args(spec->args);
    for (size_t i = 0; i < 3; i++)
        a->u.work.spec.fds[i] = spec->fds[i] >= 0 ? fcntl(spec->fds[i], F_DUPFD_CLOEXEC, 3) : -1;
    (void)snprintf(a->u.work.image, sizeof a->u.work.image, "%s",
                   spec->image != NULL ? spec->image : "");
    submit(fleet, a);
    return id;
}

static struct asked *take_waiting(struct keeper_link *k, uint32_t id)
{
    struct asked *before = NULL;
    for (struct asked *a = k->lanes[LANE_WORK].head; a != NULL; before = a, a = a->next) {
        if (a->id != id)
            continue;
        if (before != NULL)
            before->next = a->next;
        else
            k->lanes[LANE_WORK].head = a->next;
        if (k->lanes[LANE_WORK].tail == a)
            k->lanes[LANE_WORK].tail = before;
        return a;
    }
    return NULL;
}

void keeper_disk_cancel(struct fleet *fleet, uint32_t id)
{
    struct err err = {0};
    struct asked *a = take_waiting(fleet->keeper, id);
    if (a != NULL) {
        (void)err_set(&err, ERR_UNAVAILABLE, "it was ended before it began");
        answer(a, NULL, &err);
    } else if (keeper_send_disk_cancel(fleet->keeper->sock, id, &err) < 0) {
        log_line(LOG_WARN, "cannot end work on a disk", "error", err.msg, NULL);
    }
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
            k->lanes[lane_of(a)].under_way--;
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
    case KEEPER_DISK_COPY:
    case KEEPER_DISK_MOVE:
    case KEEPER_DISK_WORK:
    case KEEPER_DISK_CANCEL:
    case KEEPER_SPACE:
    case KEEPER_DISK_USED:
    case KEEPER_DISKS_USED:
    case KEEPER_DISK_COUNT:
    case KEEPER_DISK_DONE:
    case KEEPER_SPACED:
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
        work_done(a);
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
    for (unsigned i = 0; i < LANE_MAX; i++)
        free_list(k->lanes[i].head);
    fleet->keeper = NULL;
    uv_close((uv_handle_t *)&k->poll, on_closed);
}
