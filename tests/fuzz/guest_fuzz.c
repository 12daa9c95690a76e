// SPDX-License-Identifier: Apache-2.0
// The strings of an exec as the guest finds and splits them, in the message and in a file that
// comes along, against what they mean: exactly as many NULs as strings, the last one at the end.
//
// An input is: one byte of flags (1: in a file; 2: the file is longer; 4: args_len lies), the
// numbers of arguments and of variables as 16 bits each, then the strings.
#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "guest/exec.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    INPUT_FILE = 1,
    INPUT_LONGER = 2,
    INPUT_LIES = 4,
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
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
