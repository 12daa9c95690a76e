// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/title.h"
#include "base/weaken.h"
#include "box/data.h"
#include "box/root.h"
#include "keeper/keeper-internal.h"

int keeper_watch(struct keeper *k, int fd, enum event_kind kind, uint32_t slot)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = (uint64_t)kind << 32 | slot};
    return epoll_ctl(k->epoll, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

void keeper_unwatch(struct keeper *k, int fd)
{
    if (fd >= 0)
        (void)epoll_ctl(k->epoll, EPOLL_CTL_DEL, fd, NULL);
    fd_close(fd);
}

uint32_t keeper_host_id(const struct keeper *k, uint32_t slot)
{
    return weaken(WEAKEN_USERNS) ? 0 : SLOT_ID_BASE + (k->slots.first + slot) * SLOT_IDS;
}

uint32_t keeper_host_slot(const struct keeper *k, uint32_t slot)
{
    return k->slots.first + slot;
}

void box_init(struct box *box, uint32_t slot)
{
    *box = (struct box){
        .slot = slot,
        .userns = -1,
        .guest = -1,
        .pidfd = -1,
        .mntns = -1,
        .disk_fd = -1,
        .root = {.overlay = -1},
    };
}

// --- starting ---

// One that serves holds four descriptors for each box, and its daemon more.
static void raise_files(const struct keeper *k)
{
    enum { FILES_ENOUGH = 262144 };
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    struct rlimit more = {.rlim_cur = FILES_ENOUGH, .rlim_max = FILES_ENOUGH};
    files.rlim_cur = files.rlim_max;
    if (k->serve == NULL || files.rlim_max >= FILES_ENOUGH || setrlimit(RLIMIT_NOFILE, &more) < 0)
        (void)setrlimit(RLIMIT_NOFILE, &files);
}

static int own_process(struct keeper *k, struct err *err)
{
    // A terminal's signals are for the client; it says when to stop by closing its socket.
    if (k->serve == NULL)
        (void)setsid();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)umask(022);
    raise_files(k);
    if (geteuid() != 0)
        return err_set(err, ERR_DENIED,
                       "boxes need root: run this as root, with sudo for instance");
    // All its mounts are detached, in nobody's view, on kernels that can do with that; a keeper
    // that stays makes sure of it for those that are not yet thought of. One that takes over has
    // the mount namespace of the program before.
    root_init();
    if ((!k->config.once || root_attach_layers) && !k->resumed &&
        (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0))
        return err_sys(err, errno, "make the keeper's mount namespace");
    // Lets root.c take on the file system ids of a box without losing its capabilities.
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
        return err_sys(err, errno, "set securebits");
    return 0;
}

static int make_boxes(struct keeper *k, struct err *err)
{
    if (!k->resumed && slots_take(k->config.boxes + 1 + zygote_slots(k), &k->slots, err) < 0)
        return -1;
    k->boxes = calloc(k->slots.n, sizeof *k->boxes);
    if (k->boxes == NULL)
        return err_sys(err, ENOMEM, "boxes");
    for (uint32_t i = 0; i < k->slots.n; i++)
        box_init(&k->boxes[i], i);
    return table_init(k, err);
}

// Boxes of a keeper that was killed end by themselves, but not one that stood still for a copy: it
// would hold the volume for ever. So what is left of them goes first; and once more when somebody
// who was about to end still held their slots.
static int open_volume(struct keeper *k, struct err *err)
{
    if (k->config.volume_bytes == 0 || k->volume != NULL)
        return 0;
    int may_sweep = k->serve != NULL && !k->resumed; // else boxes that live are not known yet
    if (may_sweep)
        pool_sweep(k);
    int r = volume_open(k->data_fd, k->config.volume_bytes, &k->volume, err);
    if (r == 0 || err->code != ERR_CONFLICT || !may_sweep)
        return r;
    pool_sweep(k);
    *err = (struct err){0};
    return volume_open(k->data_fd, k->config.volume_bytes, &k->volume, err);
}

int keeper_begin(struct keeper *k, struct err *err)
{
    if (own_process(k, err) < 0 || make_boxes(k, err) < 0)
        return -1;
    k->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (k->epoll < 0)
        return err_sys(err, errno, "epoll");
    int r = k->client < 0 ? 0 : keeper_watch(k, k->client, EVENT_CLIENT, 0);
    if (r < 0)
        return err_sys(err, -r, "watch the client");
    if (spawner_link_start(k, err) < 0 || cgroups_open(&k->cgroups, err) < 0)
        return -1;
    k->data_fd = data_open(k->config.data, err);
    return k->data_fd < 0 ? -1 : open_volume(k, err);
}

// --- the loop ---

static void dispatch(struct keeper *k, const struct epoll_event *ev)
{
    uint32_t slot = ev->data.u64 & 0xffffffffu;
    struct box *box = &k->boxes[slot < k->slots.n ? slot : 0];
    switch ((enum event_kind)(ev->data.u64 >> 32)) {
    case EVENT_CLIENT:
        client_event(k, ev->events);
        break;
    case EVENT_SPAWNER:
        if (k->spawner >= 0)
            spawner_link_event(k);
        break;
    case EVENT_GUEST:
        if (box->state == BOX_ZYGOTE)
            zygote_event(k, box);
        else if (box->state == BOX_ROOTING || box->state == BOX_BLANK || box->state == BOX_USERNS)
            build_guest_event(k, box);
        else if (box->guest >= 0)
            (void)epoll_ctl(k->epoll, EPOLL_CTL_DEL, box->guest, NULL);
        break;
    case EVENT_END:
        if (box->pidfd >= 0)
            end_event(k, box);
        break;
    case EVENT_DAEMON:
        serve_daemon_event(k);
        break;
    case EVENT_SIGNAL:
        serve_signal_event(k);
        break;
    case EVENT_WORK:
        work_event(k, slot);
        break;
    case EVENT_COPIED:
        work_copied(k, slot);
        break;
    }
}

static int has_work(const struct keeper *k)
{
    int only_box_was = k->config.once && k->next_number > 0;
    return (!k->closing && !only_box_was) || k->table.n[COUNT_USED] > 0 || work_is_busy(k);
}

// The sooner of two, where -1 is never.
static int sooner(int a, int b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

void keeper_loop(struct keeper *k)
{
    // One event at a time: handling one may close the descriptor that the next would be about.
    struct epoll_event ev;
    while (has_work(k)) {
        int wait = sooner(pool_wait(k), sooner(zygote_wait(k), serve_wait(k)));
        wait = sooner(wait, space_wait(k));
        int n = epoll_wait(k->epoll, &ev, 1, wait);
        if (n > 0)
            dispatch(k, &ev);
        if (n == 0 || serve_wait(k) == 0)
            serve_work(k);
        if (n == 0 && pool_wait(k) == 0)
            pool_work(k);
        if (n == 0 && zygote_wait(k) == 0)
            zygote_work(k);
        if (space_wait(k) == 0)
            space_work(k);
        build_waiting(k);
    }
}

void keeper_finish(struct keeper *k)
{
    spawner_link_end(k);
    if (k->spawner_pid > 0)
        (void)waitpid(k->spawner_pid, NULL, 0);
    volume_free(k->volume);
}

static _Noreturn void keeper_main(const struct keeper_config *config, int client)
{
    static struct keeper k;
    struct err err = {0};
    k = (struct keeper){
        .config = *config,
        .client = client,
        .greeted = 1,
        .spawner = -1,
        .epoll = -1,
        .data_fd = -1,
    };
    if (keeper_begin(&k, &err) < 0) {
        reply_error(&k, 0, &err);
        k.closing = 1;
    } else {
        title_set("cay keeper");
        keeper_loop(&k);
    }
    keeper_finish(&k);
    _exit(0);
}

// Leaves only standard input, output and error, as /dev/null, and the socket.
static int forget_descriptors(int client)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; fd++)
        (void)dup2(null, fd);
    int kept = fcntl(client, F_DUPFD_CLOEXEC, 3);
    if (kept != 3) {
        (void)dup3(client == 3 ? client : kept, 3, O_CLOEXEC);
    }
    (void)close_range(4, ~0u, 0);
    return 3;
}

int keeper_start(const struct keeper_config *config, struct keeper_process *ret, struct err *err)
{
    int ends[2];
    int r = wire_pair(ends);
    if (r < 0)
        return err_sys(err, -r, "make the keeper's socket");
    pid_t pid = fork();
    if (pid < 0) {
        fd_close(ends[0]);
        fd_close(ends[1]);
        return err_sys(err, errno, "fork the keeper");
    }
    if (pid == 0)
        keeper_main(config, forget_descriptors(ends[1]));
    fd_close(ends[1]);
    *ret = (struct keeper_process){.sock = ends[0], .pid = pid};
    return 0;
}

void keeper_stop(struct keeper_process *keeper)
{
    fd_close(keeper->sock);
    keeper->sock = -1;
    while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}
