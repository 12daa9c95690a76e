// SPDX-License-Identifier: Apache-2.0
// What one program hands to the next that is executed in its place: text in a sealed memfd, a line
// for each thing, numbers of descriptors among them. A word that a program does not know it skips,
// so that older and newer ones understand each other as far as they can.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "keeper/keeper-internal.h"
#include "keeper/serve-internal.h"

enum { STATE_MAX = 4 * 1024 * 1024 };

// --- saving ---

// A descriptor that stays open across an exec; -1 stays -1.
static int kept(int fd)
{
    if (fd >= 0)
        (void)fcntl(fd, F_SETFD, 0);
    return fd;
}

static void save_process(const struct keeper *k, struct buf *out)
{
    const struct keeper_serving *c = k->serve->config;
    (void)buf_printf(out, "conf %d\nstatus %d\nids %u %u\n", kept(c->conf), kept(c->status), c->uid,
                     c->gid);
    for (unsigned i = 0; i < c->n_listeners; i++)
        (void)buf_printf(out, "listener %d\n", kept(c->listeners[i]));
    (void)buf_printf(out, "run %" PRIu64 " %u\n", k->run, k->restarts);
    (void)buf_printf(out, "upgrades %u %u\n", k->serve->generation, k->serve->refused);
    (void)buf_printf(out, "number %" PRIu64 "\n", k->next_number);
    (void)buf_printf(out, "slots %d %u %u\n", kept(k->slots.lock_fd), k->slots.first, k->slots.n);
    if (k->volume != NULL) {
        int fds[2];
        volume_descriptors(k->volume, fds);
        (void)buf_printf(out, "volume %d %d\n", kept(fds[0]), kept(fds[1]));
    }
}

static int is_same_file(int a, int b)
{
    struct stat x, y;
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

// The entry that stands for an image: two of one directory, from before and after an earlier
// upgrade, become one.
static unsigned image_number(const struct keeper *k, const struct keeper_image *image)
{
    unsigned i = 0;
    while (
        &k->images[i] != image &&
        !(k->images[i].users > 0 && is_same_file(k->images[i].image.lock_fd, image->image.lock_fd)))
        i++;
    return i;
}

static void save_images(const struct keeper *k, struct buf *out)
{
    for (unsigned i = 0; i < KEEPER_IMAGES_MAX; i++) {
        const struct keeper_image *e = &k->images[i];
        if (e->users > 0 && image_number(k, e) == i)
            (void)buf_printf(out, "image %u %d\n", i, kept(e->image.lock_fd));
    }
}

static void save_box(const struct keeper *k, const struct box *box, struct buf *out)
{
    const struct box_limits *l = &box->limits;
    (void)buf_printf(out, "box %u %" PRIu64 " %d %d %d", box->slot, box->number, kept(box->guest),
                     kept(box->pidfd), kept(box->mntns));
    (void)buf_printf(out, " %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %u", box->disk_kind,
                     box->disk, l->memory, l->disk, l->pids, l->cpu_milli);
    (void)buf_printf(out, " %u %u\n", box->guest_version, image_number(k, box->image));
}

static int write_sealed(const struct buf *text, struct err *err)
{
    auto_fd fd = memfd_create("cay-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r = fd < 0 ? -errno : fd_write_all(fd, text->data, text->len);
    if (r == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) < 0)
        r = -errno;
    return r < 0 ? err_sys(err, -r, "write down the state") : kept(TAKE_FD(fd));
}

int state_save(const struct keeper *k, struct err *err)
{
    auto_buf out;
    buf_init(&out, STATE_MAX);
    (void)buf_printf(&out, "cay-state 1\n");
    save_process(k, &out);
    save_images(k, &out);
    for (uint32_t i = 1; i < k->slots.n; i++) {
        if (k->boxes[i].state == BOX_LIVE)
            save_box(k, &k->boxes[i], &out);
    }
    return out.failed < 0 ? err_sys(err, -out.failed, "write down the state")
                          : write_sealed(&out, err);
}

// --- loading ---

struct loading {
    struct keeper *k;               // or
    struct keeper_serving *serving; // that which is being filled
};

struct word {
    const char *name;
    int (*load)(const struct loading *to, const char *rest); // 0 or -errno
};

// A descriptor of the program before is ours now.
static int adopt(int fd)
{
    return fd < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? -EBADF : 0;
}

static int load_conf(const struct loading *to, const char *rest)
{
    return sscanf(rest, "%d", &to->serving->conf) == 1 ? adopt(to->serving->conf) : -EINVAL;
}

static int load_status(const struct loading *to, const char *rest)
{
    if (sscanf(rest, "%d", &to->serving->status) != 1)
        return -EINVAL;
    return to->serving->status < 0 ? 0 : adopt(to->serving->status);
}

static int load_ids(const struct loading *to, const char *rest)
{
    return sscanf(rest, "%u %u", &to->serving->uid, &to->serving->gid) == 2 ? 0 : -EINVAL;
}

static int load_listener(const struct loading *to, const char *rest)
{
    struct keeper_serving *s = to->serving;
    if (s->n_listeners == KEEPER_LISTENERS_MAX ||
        sscanf(rest, "%d", &s->listeners[s->n_listeners]) != 1)
        return -EINVAL;
    return adopt(s->listeners[s->n_listeners++]);
}

static int load_run(const struct loading *to, const char *rest)
{
    struct keeper *k = to->k;
    // Its daemon counts, too: the next is not the first.
    int r = sscanf(rest, "%" SCNu64 " %u", &k->run, &k->restarts) == 2 ? 0 : -EINVAL;
    k->serve->has_started = 1;
    return r;
}

static int load_upgrades(const struct loading *to, const char *rest)
{
    struct serve *s = to->k->serve;
    int r = sscanf(rest, "%u %u", &s->generation, &s->refused) == 2 ? 0 : -EINVAL;
    s->generation++;
    return r;
}

static int load_number(const struct loading *to, const char *rest)
{
    return sscanf(rest, "%" SCNu64, &to->k->next_number) == 1 ? 0 : -EINVAL;
}

static int load_slots(const struct loading *to, const char *rest)
{
    struct slots s;
    if (sscanf(rest, "%d %u %u", &s.lock_fd, &s.first, &s.n) != 3 || s.n < 2 || s.n > SLOTS_TOTAL ||
        s.first > SLOTS_TOTAL - s.n)
        return -EINVAL;
    to->k->slots = s;
    to->k->resumed = 1;
    return adopt(s.lock_fd);
}

static int load_volume(const struct loading *to, const char *rest)
{
    int fds[2];
    struct err err = {0};
    if (sscanf(rest, "%d %d", &fds[0], &fds[1]) != 2 || adopt(fds[0]) < 0 || adopt(fds[1]) < 0)
        return -EINVAL;
    return volume_adopt(fds, &to->k->volume, &err) < 0 ? -EIO : 0;
}

static int load_image(const struct loading *to, const char *rest)
{
    unsigned i;
    int lock;
    if (sscanf(rest, "%u %d", &i, &lock) != 2 || i >= KEEPER_IMAGES_MAX || adopt(lock) < 0)
        return -EINVAL;
    to->k->images[i] = (struct keeper_image){
        .is_open = 1,
        .image = {.root_fd = -1, .lock_fd = lock},
    };
    return 0;
}

static int adopt_box(struct keeper *k, struct box *box)
{
    if (adopt(box->guest) < 0 || adopt(box->pidfd) < 0)
        return -EBADF;
    if (adopt(box->mntns) < 0)
        box->mntns = -1;
    box->state = BOX_LIVE;
    box->has_cgroups = box->joined = box->foreign = 1;
    box->image->users++;
    k->claimed = 1;
    table_update(k, box);
    return keeper_watch(k, box->pidfd, EVENT_END, box->slot);
}

static int load_box(const struct loading *to, const char *rest)
{
    struct keeper *k = to->k;
    struct box in;
    unsigned image;
    struct box_limits *l = &in.limits;
    box_init(&in, 0);
    int n =
        sscanf(rest, "%u %" SCNu64 " %d %d %d %u %" SCNu64 " %" SCNu64 " %" SCNu64 " %u %u %u %u",
               &in.slot, &in.number, &in.guest, &in.pidfd, &in.mntns, &in.disk_kind, &in.disk,
               &l->memory, &l->disk, &l->pids, &l->cpu_milli, &in.guest_version, &image);
    if (n != 13 || in.slot == 0 || in.slot >= k->slots.n || image >= KEEPER_IMAGES_MAX ||
        k->boxes[in.slot].state != BOX_NONE || !k->images[image].is_open)
        return -EINVAL;
    struct box *box = &k->boxes[in.slot];
    in.place = box->place;
    in.userns = box->userns;
    in.image = &k->images[image];
    *box = in;
    return adopt_box(k, box);
}

static const struct word process_words[] = {
    {"conf",     load_conf    },
    {"status",   load_status  },
    {"ids",      load_ids     },
    {"listener", load_listener},
    {NULL,       NULL         },
};
static const struct word keeper_words[] = {
    {"run",      load_run     },
    {"upgrades", load_upgrades},
    {"number",   load_number  },
    {"slots",    load_slots   },
    {"volume",   load_volume  },
    {NULL,       NULL         },
};
static const struct word box_words[] = {
    {"image", load_image},
    {"box",   load_box  },
    {NULL,    NULL      },
};

static int load_line(const struct word *words, const struct loading *to, const char *line)
{
    size_t len = strcspn(line, " ");
    for (; words->name != NULL; words++) {
        if (strlen(words->name) == len && strncmp(words->name, line, len) == 0)
            return words->load(to, line + len);
    }
    return 0;
}

static char *read_state(int fd, struct err *err)
{
    int seals = fcntl(fd, F_GET_SEALS);
    char *text = seals >= 0 && (seals & F_SEAL_WRITE) != 0 ? malloc(STATE_MAX + 1) : NULL;
    ssize_t n = text != NULL ? pread(fd, text, STATE_MAX, 0) : -1;
    if (n < 0 || strncmp(text, "cay-state ", 10) != 0) {
        (void)err_set(err, ERR_INVALID, "descriptor %d is not what another cay serve has left", fd);
        free(text);
        return NULL;
    }
    text[n] = '\0';
    return text;
}

static int load(int fd, const struct word *words, const struct loading *to, struct err *err)
{
    auto_free char *text = read_state(fd, err);
    if (text == NULL)
        return -1;
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;) {
        int r = load_line(words, to, line);
        if (r < 0)
            return err_sys(err, -r, "take over from the program before: '%.60s'", line);
    }
    return 0;
}

int keeper_resume(int fd, struct keeper_serving *ret, struct err *err)
{
    ret->conf = ret->status = -1;
    ret->n_listeners = 0;
    ret->resume = fd;
    return load(fd, process_words, &(struct loading){.serving = ret}, err);
}

int state_load_early(struct keeper *k, int fd, struct err *err)
{
    if (load(fd, keeper_words, &(struct loading){.k = k}, err) < 0)
        return -1;
    return k->resumed ? 0 : err_set(err, ERR_INVALID, "the program before has left no slots");
}

int state_load_boxes(struct keeper *k, int fd, struct err *err)
{
    int r = load(fd, box_words, &(struct loading){.k = k}, err);
    fd_close(fd);
    return r;
}
