// SPDX-License-Identifier: Apache-2.0
// The strings of an exec as the guest finds and splits them, in the message and in a file that
// comes along, against what they mean: exactly as many NULs as strings, the last one at the end.
//
// An input is: one byte of flags (1: in a file; 2: the file is longer; 4: args_len lies), the
// numbers of arguments and of variables as 16 bits each, then the strings. With flag 8 it is a line
// of /proc/PID/stat instead. With flag 16 it is what happens to execs that are kept, two bytes
// each: which, and what (started with flags, ended, listed, forgotten); nothing may stay open.
#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "guest/exec.c"
#include "guest/keep.c"
#include "guest/since.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    INPUT_FILE = 1,
    INPUT_LONGER = 2,
    INPUT_LIES = 4,
    INPUT_STAT = 8,
    INPUT_KEEP = 16,
    INPUT_HEAD = 5,
};

static int memory_file(const uint8_t *bytes, size_t len, size_t more)
{
    int fd = memfd_create("guest_fuzz", MFD_CLOEXEC);
    assert(fd >= 0);
    assert(fd_write_all(fd, bytes, len) == 0);
    assert(ftruncate(fd, (off_t)(len + more)) == 0);
    return fd;
}

static int is_sound(const struct guest_exec *msg, const uint8_t *bytes)
{
    uint64_t total = 1ull + msg->argc + msg->envc, nuls = 0;
    for (size_t i = 0; i < msg->args_len; i++)
        nuls += bytes[i] == 0;
    return msg->argc > 0 && total <= GUEST_STRINGS_MAX && nuls == total &&
           bytes[msg->args_len - 1] == 0;
}

// What the plan points to must be the very bytes, one string after the other.
static void check_plan(const struct guest_exec *msg, const struct plan *plan, const char *bytes)
{
    const char *at = bytes;
    assert(plan->cwd == at);
    at += strlen(at) + 1;
    for (uint32_t i = 0; i < msg->argc; i++, at += strlen(at) + 1)
        assert(plan->argv[i] == at);
    assert(plan->argv[msg->argc] == NULL);
    for (uint32_t i = 0; i < msg->envc; i++, at += strlen(at) + 1)
        assert(plan->envp[i] == at);
    assert(plan->envp[msg->envc] == NULL);
    assert(at == bytes + msg->args_len);
}

static void try_stat(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    pid_t parent = 0;
    uint64_t ticks = 0;
    assert(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    if (parse_stat(text, &parent, &ticks) == 0) { // twenty fields lie behind the name
        unsigned spaces = 0;
        for (const char *p = strrchr(text, ')'); *p != '\0'; p++)
            spaces += *p == ' ';
        assert(spaces >= 20);
    }
    free(text);
}

static int count_open(void)
{
    int n = 0;
    for (int fd = 0; fd < 64; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

// As `started` would, with as many ends as the flags ask for.
static void begin(struct exec *exec, uint32_t flags)
{
    int ends[EXEC_STREAMS] = {-1, -1, -1, -1, -1};
    unsigned n = flags & GUEST_EXEC_TTY ? 1 : 2;
    if (exec->state == EXEC_RUNNING || exec->state == EXEC_ENDED)
        return;
    if (n == 2)
        n += (flags & GUEST_EXEC_STDIN ? 1 : 0) + (flags & GUEST_EXEC_CONTROL ? 2 : 0);
    for (unsigned i = 0; i < n; i++)
        ends[i] = fcntl(FD_SOCK, F_DUPFD_CLOEXEC, 32);
    exec->state = EXEC_RUNNING;
    exec->flags = flags;
    exec->n_kept = 0;
    if (flags & GUEST_EXEC_KEEP)
        guest_keep(exec, ends, n);
    for (unsigned i = 0; i < EXEC_STREAMS; i++)
        fd_close(ends[i]);
}

static void finish(struct exec *exec)
{
    enum { KEPT = GUEST_EXEC_KEEP | GUEST_EXEC_KEEP_EXIT };
    if (exec->state != EXEC_RUNNING)
        return;
    exec->state = EXEC_ENDED;
    if ((exec->flags & KEPT) != KEPT) {
        guest_drop_kept(exec);
        exec->state = EXEC_LINGERING;
    }
}

// Every exec that is told of has as many descriptors as its flags say.
static void check_list(struct guest *guest, int sock)
{
    char bytes[256];
    struct wire_fds fds;
    guest_list(guest, 1);
    while (wire_recv(sock, bytes, sizeof bytes, &fds, MSG_DONTWAIT) > 0) {
        struct guest_started msg;
        memcpy(&msg, bytes, sizeof msg);
        unsigned in = msg.flags & GUEST_EXEC_STDIN ? 1 : 0;
        unsigned want = 2 + in + (msg.flags & GUEST_EXEC_CONTROL ? 2 : 0);
        if (msg.head.type == GUEST_STARTED)
            assert(fds.n == (msg.flags & GUEST_EXEC_TTY ? 1 : want));
        else
            assert(fds.n == 0);
        wire_fds_close(&fds);
    }
}

static void try_keep(const uint8_t *data, size_t size)
{
    static struct guest guest;
    enum { EXECS = 4 };
    int ends[2], saved = fcntl(FD_SOCK, F_DUPFD_CLOEXEC, 40);
    int before = count_open();
    assert(wire_pair(ends) == 0 && dup2(ends[0], FD_SOCK) == FD_SOCK);
    int sock = fcntl(ends[1], F_DUPFD_CLOEXEC, 20);
    fd_close(ends[0] != FD_SOCK ? ends[0] : -1);
    fd_close(ends[1] != FD_SOCK ? ends[1] : -1);
    guest = (struct guest){.n_execs = EXECS};
    for (uint32_t i = 0; i < EXECS; i++)
        guest.execs[i].id = i + 1;
    for (size_t i = 0; i + 1 < size; i += 2) {
        struct guest_forget forget = {.head = {.id = data[i] % 8}, .what = data[i + 1] % 4};
        struct exec *exec = &guest.execs[data[i] % EXECS];
        if (data[i] & 128)
            begin(exec, data[i + 1]);
        else if (data[i] & 64)
            finish(exec);
        else if (data[i] & 32)
            check_list(&guest, sock);
        else
            guest_forget(&guest, &forget);
    }
    for (uint32_t i = 0; i < EXECS; i++)
        guest_drop_kept(&guest.execs[i]);
    fd_close(sock);
    if (saved >= 0)
        assert(dup2(saved, FD_SOCK) == FD_SOCK);
    else
        fd_close(FD_SOCK);
    assert(count_open() == before);
    fd_close(saved);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && size <= 4096 && (data[0] & (INPUT_STAT | INPUT_KEEP))) {
        (data[0] & INPUT_STAT ? try_stat : try_keep)(data + 1, size - 1);
        return 0;
    }
    if (size < INPUT_HEAD || size > WIRE_MSG_MAX)
        return 0;
    const uint8_t *bytes = data + INPUT_HEAD;
    size_t n = size - INPUT_HEAD;
    int in_file = data[0] & INPUT_FILE;
    size_t len = sizeof(struct guest_exec) + (in_file ? 0 : n);
    struct guest_exec *msg = calloc(1, len); // no byte longer, so that a reader beyond it is seen
    struct wire_fds fds = {0};
    if (msg == NULL)
        return 0;
    msg->flags = in_file ? GUEST_EXEC_ARGS_FD : 0;
    msg->argc = (uint32_t)data[1] | (uint32_t)data[2] << 8;
    msg->envc = (uint32_t)data[3] | (uint32_t)data[4] << 8;
    if (msg->argc == UINT16_MAX) // so that sums which overflow are tried too
        msg->argc = UINT32_MAX;
    if (msg->envc == UINT16_MAX)
        msg->envc = UINT32_MAX;
    msg->args_len = (uint32_t)n + (data[0] & INPUT_LIES ? 1 : 0);
    if (in_file)
        fds = (struct wire_fds){.n = 1,
                                .fd = {memory_file(bytes, n, data[0] & INPUT_LONGER ? 9 : 0)}};
    else
        memcpy(msg + 1, bytes, n);

    struct plan plan = {.msg = msg};
    char *found = NULL;
    int lies = (data[0] & INPUT_LIES) && !(in_file && data[0] & INPUT_LONGER);
    int r = find_strings(msg, len, &fds, &found);
    assert((r == 0) == (msg->args_len > 0 && !lies));
    if (r == 0 && msg->args_len == n) {
        int sound = is_sound(msg, bytes);
        assert((split(msg, found, &plan) == 0) == sound);
        assert(memcmp(found, bytes, n) == 0); // splitting changes nothing
        if (sound)
            check_plan(msg, &plan, found);
    }
    if (r == 0 && in_file)
        (void)munmap(found, msg->args_len);
    wire_fds_close(&fds);
    free(msg);
    return 0;
}
