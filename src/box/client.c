// SPDX-License-Identifier: Apache-2.0
#include "box/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"

static struct wire_head head(uint16_t type, uint32_t id)
{
    return (struct wire_head){.version = WIRE_VERSION, .type = type, .id = id};
}

static int sent(int r, const char *whom, struct err *err)
{
    return r < 0 ? err_sys(err, -r, "talk to the %s", whom) : 0;
}

// --- the keeper ---

int keeper_send_claim(int sock, uint32_t id, const struct claim *claim, struct err *err)
{
    struct keeper_claim msg = {
        .head = head(KEEPER_CLAIM, id),
        .limits = claim->limits,
        .disk = claim->disk,
        .disk_kind = claim->disk_kind,
        .durable = claim->durable != 0,
    };
    if ((size_t)snprintf(msg.image, sizeof msg.image, "%s", claim->image) >= sizeof msg.image)
        return err_set(err, ERR_INVALID, "the image's name is too long");
    return sent(wire_send(sock, &msg, sizeof msg, NULL, 0, NULL, 0), "keeper", err);
}

int keeper_send_destroy(int sock, uint32_t id, uint64_t box, struct err *err)
{
    struct keeper_box msg = {.head = head(KEEPER_DESTROY, id), .box = box};
    return sent(wire_send(sock, &msg, sizeof msg, NULL, 0, NULL, 0), "keeper", err);
}

int keeper_send_status(int sock, uint32_t id, struct err *err)
{
    struct keeper_plain msg = {.head = head(KEEPER_STATUS, id)};
    return sent(wire_send(sock, &msg, sizeof msg, NULL, 0, NULL, 0), "keeper", err);
}

int keeper_send_limit(int sock, uint32_t id, uint64_t box, const struct box_limits *limits,
                      struct err *err)
{
    struct keeper_limit msg = {.head = head(KEEPER_LIMIT, id), .box = box, .limits = *limits};
    return sent(wire_send(sock, &msg, sizeof msg, NULL, 0, NULL, 0), "keeper", err);
}

int keeper_send_take(int sock, uint32_t id, uint64_t box, const struct box_limits *limits,
                     uint64_t disk, struct err *err)
{
    struct keeper_take msg = {
        .head = head(KEEPER_TAKE, id),
        .box = box,
        .limits = *limits,
        .disk = disk,
    };
    return sent(wire_send(sock, &msg, sizeof msg, NULL, 0, NULL, 0), "keeper", err);
}

int keeper_send_disk_drop(int sock, uint32_t id, struct disk_ref disk, struct err *err)
{
    struct keeper_disk_drop msg = {.head = head(KEEPER_DISK_DROP, id), .disk = disk};
    return sent(wire_send(sock, &msg, sizeof msg, NULL, 0, NULL, 0), "keeper", err);
}

int keeper_send_disk_list(int sock, uint32_t id, struct disk_ref above, struct err *err)
{
    struct keeper_disk_list msg = {
        .head = head(KEEPER_DISK_LIST, id), .place = above.place, .above = above.number};
    return sent(wire_send(sock, &msg, sizeof msg, NULL, 0, NULL, 0), "keeper", err);
}

int keeper_send_disk_used(int sock, uint32_t id, enum disk_place place, const uint64_t *numbers,
                          unsigned n, struct err *err)
{
    struct keeper_disk_used msg = {
        .head = head(KEEPER_DISK_USED, id),
        .place = (uint32_t)place,
        .n = n,
    };
    if (n > KEEPER_USED_MAX)
        return err_set(err, ERR_INVALID, "more than %d disks at once", KEEPER_USED_MAX);
    for (unsigned i = 0; i < n; i++)
        msg.disk[i] = numbers[i];
    return sent(wire_send(sock, &msg, sizeof msg, NULL, 0, NULL, 0), "keeper", err);
}

int keeper_send_disk_copy(int sock, uint32_t id, const struct copy_spec *spec, struct err *err)
{
    struct keeper_disk_copy msg = {
        .head = head(KEEPER_DISK_COPY, id),
        .from = spec->from,
        .to = spec->to,
        .bytes = spec->bytes,
        .box = spec->box,
    };
    return sent(wire_send(sock, &msg, sizeof msg, NULL, 0, NULL, 0), "keeper", err);
}

int keeper_send_disk_move(int sock, uint32_t id, struct disk_ref from, struct disk_ref to,
                          struct err *err)
{
    struct keeper_disk_move msg = {.head = head(KEEPER_DISK_MOVE, id), .from = from, .to = to};
    return sent(wire_send(sock, &msg, sizeof msg, NULL, 0, NULL, 0), "keeper", err);
}

int keeper_send_disk_count(int sock, uint32_t id, struct disk_ref disk, struct err *err)
{
    struct keeper_disk_count msg = {.head = head(KEEPER_DISK_COUNT, id), .disk = disk};
    return sent(wire_send(sock, &msg, sizeof msg, NULL, 0, NULL, 0), "keeper", err);
}

// The arguments one after the other, each with its NUL.
static int pack_args(const char *const *args, char *out, struct keeper_disk_work *msg,
                     struct err *err)
{
    size_t len = 0;
    for (; args[msg->n_args] != NULL; msg->n_args++) {
        size_t more = strlen(args[msg->n_args]) + 1;
        if (more > KEEPER_ARGS_MAX - len)
            return err_set(err, ERR_INVALID, "more than %d bytes of arguments", KEEPER_ARGS_MAX);
        memcpy(out + len, args[msg->n_args], more);
        len += more;
    }
    msg->args_len = (uint32_t)len;
    return 0;
}

// A message has all three descriptors or none, so nothing is /dev/null.
static int fill_fds(const struct work_spec *spec, int null, int ret_fds[3])
{
    for (int i = 0; i < 3; i++)
        ret_fds[i] = spec->fds[i] >= 0 ? spec->fds[i] : null;
    return null < 0 ? -errno : 0;
}

int keeper_send_disk_work(int sock, uint32_t id, const struct work_spec *spec, struct err *err)
{
    struct keeper_disk_work msg = {
        .head = head(KEEPER_DISK_WORK, id),
        .disk = spec->disk,
        .work = spec->work,
    };
    char args[KEEPER_ARGS_MAX];
    int fds[3];
    const char *image = spec->image != NULL ? spec->image : "";
    if ((size_t)snprintf(msg.image, sizeof msg.image, "%s", image) >= sizeof msg.image)
        return err_set(err, ERR_INVALID, "the image's name is too long");
    if (pack_args(spec->args, args, &msg, err) < 0)
        return -1;
    auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int r = fill_fds(spec, null, fds);
    if (r == 0)
        r = wire_send(sock, &msg, sizeof msg, args, msg.args_len, fds, 3);
    return sent(r, "keeper", err);
}

int keeper_send_disk_cancel(int sock, uint32_t id, struct err *err)
{
    struct keeper_plain msg = {.head = head(KEEPER_DISK_CANCEL, id)};
    return sent(wire_send(sock, &msg, sizeof msg, NULL, 0, NULL, 0), "keeper", err);
}

int keeper_send_space(int sock, uint32_t id, struct err *err)
{
    struct keeper_plain msg = {.head = head(KEEPER_SPACE, id)};
    return sent(wire_send(sock, &msg, sizeof msg, NULL, 0, NULL, 0), "keeper", err);
}

int keeper_send_usage(int sock, uint32_t id, uint64_t box, struct err *err)
{
    struct keeper_box msg = {.head = head(KEEPER_USAGE, id), .box = box};
    return sent(wire_send(sock, &msg, sizeof msg, NULL, 0, NULL, 0), "keeper", err);
}

int keeper_send_network(int sock, uint32_t id, uint64_t box, int listener, struct err *err)
{
    struct keeper_box msg = {.head = head(KEEPER_NETWORK, id), .box = box};
    return sent(wire_send(sock, &msg, sizeof msg, NULL, 0, &listener, 1), "keeper", err);
}

int keeper_send_plant(int sock, uint32_t id, const struct plant_spec *spec, struct err *err)
{
    struct keeper_plant msg = {
        .head = head(KEEPER_PLANT, id),
        .box = spec->box,
        .exec = spec->exec,
        .uid = spec->uid,
        .gid = spec->gid,
        .files = spec->files,
    };
    return sent(wire_send(sock, &msg, sizeof msg, NULL, 0, NULL, 0), "keeper", err);
}

int keeper_send_serving(int sock, struct err *err)
{
    struct keeper_plain msg = {.head = head(KEEPER_SERVING, 0)};
    return sent(wire_send(sock, &msg, sizeof msg, NULL, 0, NULL, 0), "keeper", err);
}

static const struct answer {
    size_t len;
    unsigned n_fds;
} keeper_answers[KEEPER_TYPE_MAX] = {
    [KEEPER_CLAIMED] = {sizeof(struct keeper_box),        1},
    [KEEPER_READY] = {sizeof(struct keeper_box),        1},
    [KEEPER_LIVE] = {sizeof(struct keeper_live),       1},
    [KEEPER_ENDED] = {sizeof(struct keeper_ended),      0},
    [KEEPER_GONE] = {sizeof(struct keeper_box),        0},
    [KEEPER_STATE] = {sizeof(struct keeper_state),      0},
    [KEEPER_WELCOME] = {sizeof(struct keeper_welcome),    0},
    [KEEPER_DISKS] = {sizeof(struct keeper_disks),      0},
    [KEEPER_USED] = {sizeof(struct keeper_used),       0},
    [KEEPER_OK] = {sizeof(struct keeper_plain),      0},
    [KEEPER_ERROR] = {sizeof(struct keeper_error),      0},
    [KEEPER_DISK_DONE] = {sizeof(struct keeper_disk_done),  0},
    [KEEPER_SPACED] = {sizeof(struct keeper_spaced),     0},
    [KEEPER_DISKS_USED] = {sizeof(struct keeper_disks_used), 0},
};

// Common to both kinds of peer: 1 for a message, 0 for none yet, -1 for the end or a fault.
static int receive(int sock, void *msg, size_t size, struct wire_fds *fds, int flags,
                   const char *whom, struct err *err)
{
    ssize_t n;
    int resets = 0; // a peer that left something unread gives this once, before its last words
    do
        n = wire_recv(sock, msg, size, fds, flags);
    while (n == -EINTR || (n == -ECONNRESET && resets++ == 0));
    if (n == -EAGAIN)
        return 0;
    if (n == 0 || n == -ECONNRESET)
        return err_set(err, ERR_UNAVAILABLE, "the %s is gone", whom);
    if (n < 0)
        return err_sys(err, (int)-n, "hear from the %s", whom);
    return (int)n;
}

int keeper_recv(int sock, struct keeper_event *ret, int flags, struct err *err)
{
    struct wire_fds fds;
    int n = receive(sock, &ret->msg, sizeof ret->msg, &fds, flags, "keeper", err);
    if (n <= 0)
        return n;
    uint16_t type = ret->msg.head.type;
    const struct answer *want = &keeper_answers[type < KEEPER_TYPE_MAX ? type : 0];
    int sound = (size_t)n == want->len && fds.n == want->n_fds;
    if (sound && type == KEEPER_DISKS)
        sound = ret->msg.disks.n <= KEEPER_DISKS_MAX;
    if (sound && type == KEEPER_DISKS_USED)
        sound = ret->msg.disks_used.n <= KEEPER_USED_MAX;
    if (!sound) {
        wire_fds_close(&fds);
        return err_set(err, ERR_INTERNAL, "the keeper sent nonsense");
    }
    ret->guest = wire_fds_take(&fds, 0);
    return 1;
}

int keeper_error_take(const struct keeper_error *msg, struct err *err)
{
    enum err_code code =
        msg->code > ERR_NONE && msg->code < ERR_CODE_MAX ? (enum err_code)msg->code : ERR_INTERNAL;
    return err_set(err, code, "%.*s", (int)sizeof msg->msg - 1, msg->msg);
}

// --- a guest: exec ---

struct sizes {
    uint32_t argc, envc;
    size_t bytes;
};

static int measure(const struct exec_spec *spec, struct sizes *ret, struct err *err)
{
    struct sizes s = {.bytes = strlen(spec->cwd) + 1};
    for (; spec->argv[s.argc] != NULL; s.argc++)
        s.bytes += strlen(spec->argv[s.argc]) + 1;
    for (; spec->envp[s.envc] != NULL; s.envc++)
        s.bytes += strlen(spec->envp[s.envc]) + 1;
    if (s.argc == 0)
        return err_set(err, ERR_INVALID, "no program to run");
    if (s.bytes > GUEST_ARGS_MAX || 1ull + s.argc + s.envc > GUEST_STRINGS_MAX)
        return err_set(err, ERR_INVALID, "more than 2 MiB or %d of arguments and variables",
                       GUEST_STRINGS_MAX);
    *ret = s;
    return 0;
}

static void pack(const struct exec_spec *spec, char *out)
{
    out = stpcpy(out, spec->cwd) + 1;
    for (unsigned i = 0; spec->argv[i] != NULL; i++)
        out = stpcpy(out, spec->argv[i]) + 1;
    for (unsigned i = 0; spec->envp[i] != NULL; i++)
        out = stpcpy(out, spec->envp[i]) + 1;
}

static int send_inline(int sock, const struct guest_exec *msg, const struct exec_spec *spec)
{
    char bytes[WIRE_MSG_MAX];
    pack(spec, bytes);
    return wire_send(sock, msg, sizeof *msg, bytes, msg->args_len, NULL, 0);
}

static int send_memfd(int sock, struct guest_exec *msg, const struct exec_spec *spec)
{
    auto_fd fd = memfd_create("args", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, msg->args_len) < 0)
        return -errno;
    char *bytes = mmap(NULL, msg->args_len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        return -errno;
    pack(spec, bytes);
    (void)munmap(bytes, msg->args_len);
    msg->flags |= GUEST_EXEC_ARGS_FD;
    int passed = fd;
    return wire_send(sock, msg, sizeof *msg, NULL, 0, &passed, 1);
}

static struct wire_head guest_head(struct guest_peer guest, uint16_t type, uint32_t id)
{
    return (struct wire_head){.version = guest.version, .type = type, .id = id};
}

int guest_send_exec(struct guest_peer guest, uint32_t id, const struct exec_spec *spec,
                    struct err *err)
{
    struct sizes sizes = {0};
    if (measure(spec, &sizes, err) < 0)
        return -1;
    struct guest_exec msg = {
        .head = guest_head(guest, GUEST_EXEC, id),
        .flags = spec->flags,
        .uid = spec->uid,
        .gid = spec->gid,
        .files = spec->files,
        .argc = sizes.argc,
        .envc = sizes.envc,
        .args_len = (uint32_t)sizes.bytes,
        .rows = spec->rows,
        .cols = spec->cols,
        .tag = spec->tag,
    };
    int fits = sizes.bytes <= WIRE_MSG_MAX - sizeof msg;
    int r = fits ? send_inline(guest.sock, &msg, spec) : send_memfd(guest.sock, &msg, spec);
    return sent(r, "guest", err);
}

static int send_signal(struct guest_peer guest, uint32_t id, struct guest_signal msg,
                       struct err *err)
{
    msg.head = guest_head(guest, GUEST_SIGNAL, id);
    return sent(wire_send(guest.sock, &msg, sizeof msg, NULL, 0, NULL, 0), "guest", err);
}

int guest_send_signal(struct guest_peer guest, uint32_t id, int signal, struct err *err)
{
    struct guest_signal msg = {.signal = signal, .scope = GUEST_SCOPE_EXEC};
    return send_signal(guest, id, msg, err);
}

int guest_send_signal_first(struct guest_peer guest, uint32_t id, int signal, struct err *err)
{
    struct guest_signal msg = {.signal = signal, .scope = GUEST_SCOPE_FIRST};
    return send_signal(guest, id, msg, err);
}

int guest_send_signal_since(struct guest_peer guest, uint32_t id, int signal, uint64_t since,
                            uint32_t since_pid, struct err *err)
{
    struct guest_signal msg = {
        .signal = signal,
        .scope = GUEST_SCOPE_SINCE,
        .since = since,
        .since_pid = since_pid,
    };
    return send_signal(guest, id, msg, err);
}

int guest_send_list(struct guest_peer guest, uint32_t id, struct err *err)
{
    struct guest_plain msg = {.head = guest_head(guest, GUEST_LIST, id)};
    return sent(wire_send(guest.sock, &msg, sizeof msg, NULL, 0, NULL, 0), "guest", err);
}

int guest_send_forget(struct guest_peer guest, uint32_t id, enum guest_forget_what what,
                      struct err *err)
{
    struct guest_forget msg = {.head = guest_head(guest, GUEST_FORGET, id), .what = what};
    return sent(wire_send(guest.sock, &msg, sizeof msg, NULL, 0, NULL, 0), "guest", err);
}

static int is_new_enough(struct guest_peer guest, uint16_t version, struct err *err)
{
    if (guest.version >= version)
        return 0;
    return err_set(err, ERR_UNSUPPORTED,
                   "this box was made by an older version: put the sandbox to sleep and wake it");
}

int guest_send_hand(struct guest_peer guest, uint32_t id, struct err *err)
{
    struct guest_plain msg = {.head = guest_head(guest, GUEST_HAND, id)};
    if (is_new_enough(guest, 2, err) < 0)
        return -1;
    return sent(wire_send(guest.sock, &msg, sizeof msg, NULL, 0, NULL, 0), "guest", err);
}

int guest_send_dial(struct guest_peer guest, uint32_t id, uint16_t port, struct err *err)
{
    struct guest_dial msg = {.head = guest_head(guest, GUEST_DIAL, id), .port = port};
    if (is_new_enough(guest, 2, err) < 0)
        return -1;
    return sent(wire_send(guest.sock, &msg, sizeof msg, NULL, 0, NULL, 0), "guest", err);
}

int guest_send_listen(struct guest_peer guest, uint32_t id, uint16_t tcp_port, uint16_t udp_port,
                      struct err *err)
{
    struct guest_listen msg = {
        .head = guest_head(guest, GUEST_LISTEN, id), .tcp_port = tcp_port, .udp_port = udp_port};
    if (is_new_enough(guest, 2, err) < 0)
        return -1;
    return sent(wire_send(guest.sock, &msg, sizeof msg, NULL, 0, NULL, 0), "guest", err);
}

int guest_send_listen_unix(struct guest_peer guest, uint32_t id, int on, struct err *err)
{
    struct guest_listen_unix msg = {.head = guest_head(guest, GUEST_LISTEN_UNIX, id),
                                    .on = on ? 1 : 0};
    if (is_new_enough(guest, 3, err) < 0)
        return -1;
    return sent(wire_send(guest.sock, &msg, sizeof msg, NULL, 0, NULL, 0), "guest", err);
}

// --- a guest: answers ---

static size_t guest_length(uint16_t type)
{
    static const size_t lengths[GUEST_TYPE_MAX] = {
        [GUEST_STARTED] = sizeof(struct guest_started),
        [GUEST_FAILED] = sizeof(struct guest_failed),
        [GUEST_EXITED] = sizeof(struct guest_exited),
        [GUEST_LISTED] = sizeof(struct guest_listed),
        [GUEST_GIVEN] = sizeof(struct guest_given),
    };
    return type < GUEST_TYPE_MAX ? lengths[type] : 0;
}

static int is_kind(int fd, mode_t kind)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == kind;
}

// Pipes where pipes belong, a terminal where one does: a guest gone bad must not have us read a
// device.
static int are_pipes(const struct wire_fds *fds)
{
    for (unsigned i = 0; i < fds->n; i++) {
        if (!is_kind(fds->fd[i], S_IFIFO))
            return 0;
    }
    return 1;
}

static int take_streams(struct guest_event *ev, struct wire_fds *fds)
{
    uint32_t flags = ev->msg.started.flags;
    if (flags & GUEST_EXEC_TTY) {
        if (fds->n != 1 || !is_kind(fds->fd[0], S_IFCHR) || !isatty(fds->fd[0]))
            return -1;
        ev->out = wire_fds_take(fds, 0);
        return 0;
    }
    unsigned in = flags & GUEST_EXEC_STDIN ? 1 : 0, control = flags & GUEST_EXEC_CONTROL ? 2 : 0;
    if (fds->n != 2 + in + control || !are_pipes(fds))
        return -1;
    ev->out = wire_fds_take(fds, 0);
    ev->err = wire_fds_take(fds, 1);
    if (in)
        ev->in = wire_fds_take(fds, 2);
    if (control) {
        ev->control_in = wire_fds_take(fds, 2 + in);
        ev->control_out = wire_fds_take(fds, 3 + in);
    }
    return 0;
}

static int take_sockets(struct guest_event *ev, struct wire_fds *fds)
{
    unsigned max = ev->msg.given.sys_errno == 0 ? 2 : 0;
    for (unsigned i = 0; i < fds->n; i++) {
        if (i >= max || !is_kind(fds->fd[i], S_IFSOCK))
            return -1;
    }
    if (fds->n > 0)
        ev->out = wire_fds_take(fds, 0);
    if (fds->n > 1)
        ev->err = wire_fds_take(fds, 1);
    return 0;
}

int guest_recv(int guest, struct guest_event *ret, int flags, struct err *err)
{
    struct wire_fds fds;
    ret->out = ret->err = ret->in = ret->control_in = ret->control_out = -1;
    int n = receive(guest, &ret->msg, sizeof ret->msg, &fds, flags, "box", err);
    if (n <= 0)
        return n;
    int ok = (size_t)n == guest_length(ret->msg.head.type);
    if (ok && ret->msg.head.type == GUEST_STARTED)
        ok = take_streams(ret, &fds) == 0;
    else if (ok && ret->msg.head.type == GUEST_GIVEN)
        ok = take_sockets(ret, &fds) == 0;
    else if (ok)
        ok = fds.n == 0;
    wire_fds_close(&fds);
    return ok ? 1 : err_set(err, ERR_INTERNAL, "the guest sent nonsense");
}

int guest_failed_take(const struct guest_failed *msg, const char *program, const char *cwd,
                      struct err *err)
{
    int e = msg->sys_errno > 0 && msg->sys_errno < 4096 ? msg->sys_errno : EIO;
    switch ((enum guest_step)msg->step) {
    case STEP_CWD:
        return err_sys(err, e, "working directory '%.100s'", cwd);
    case STEP_EXEC:
        return err_sys(err, e, "'%.100s' cannot be started", program);
    case STEP_NONE:
    case STEP_ARGS:
    case STEP_SETUP:
    case STEP_MAX:
        break;
    }
    if (e == EAGAIN) // the box's own limit, or that of execs: what its owner can do is the same
        return err_set(err, ERR_EXHAUSTED,
                       "start '%.100s': the box has as many processes as it may have; end some, or "
                       "raise its limit (pids)",
                       program);
    return err_sys(err, e, "start '%.100s'", program);
}
