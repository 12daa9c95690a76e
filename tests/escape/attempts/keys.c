// SPDX-License-Identifier: Apache-2.0
// 21 the kernel's keys.
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attempt.h"
#include "world.h"

enum {
    SPEC_THREAD = -1,
    SPEC_SESSION = -3,
    SPEC_USER = -4,
    CTL_GET_KEYRING_ID = 0,
    CTL_JOIN_SESSION = 1,
    CTL_UNLINK = 9,
    CTL_SEARCH = 10,
    CTL_READ = 11,
    CTL_GET_PERSISTENT = 22,
};

static enum outcome key_add(const struct attempt *self)
{
    (void)self;
    // The thread's own keyring: gone with the thread.
    return judge_call("add_key",
                      syscall(SYS_add_key, "user", "cay-escape", "x", (size_t)1, SPEC_THREAD),
                      REFUSALS);
}

static enum outcome key_request(const struct attempt *self)
{
    (void)self;
    return judge_call("request_key",
                      syscall(SYS_request_key, "user", "cay-no-such-key", NULL, SPEC_THREAD),
                      REFUSALS);
}

static enum outcome key_session(const struct attempt *self)
{
    (void)self;
    return judge_call("keyctl", syscall(SYS_keyctl, CTL_GET_KEYRING_ID, SPEC_SESSION, 0, 0, 0),
                      REFUSALS);
}

static enum outcome key_persistent(const struct attempt *self)
{
    (void)self;
    long id = syscall(SYS_keyctl, CTL_GET_PERSISTENT, -1, SPEC_THREAD, 0, 0);
    return judge_call("keyctl", id, REFUSALS);
}

static bool read_key(long serial, const char *token)
{
    char text[TOKEN_MAX] = "";
    long n = syscall(SYS_keyctl, CTL_READ, serial, text, sizeof(text) - 1, 0);
    return n > 0 && strncmp(text, token, strlen(token)) == 0;
}

static bool reaches(const struct peer *peer)
{
    char name[TOKEN_MAX + 8];
    snprintf(name, sizeof(name), "cay-%s", peer->token);
    if (peer->key_serial > 0 && read_key(peer->key_serial, peer->token))
        return true;
    static const int rings[] = {SPEC_SESSION, SPEC_USER};
    for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
        long serial = syscall(SYS_keyctl, CTL_SEARCH, rings[i], "user", name, 0);
        if (serial > 0 && read_key(serial, peer->token))
            return true;
    }
    return false;
}

static enum outcome key_of_others(const struct attempt *self)
{
    (void)self;
    if (world.host.key_serial == 0)
        return cannot("the host's witness has no key");
    if (reaches(&world.host))
        return escaped("read the key of the host's witness");
    if (world.neighbour.token[0] != '\0' && reaches(&world.neighbour))
        return escaped("read the key of a neighbour");
    return held("keys of the host and of a neighbour: %s", strerrorname_np(errno));
}

#define KEY_HELD "filter"

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    {.number = 21,
     .name = "key_add",
     .tries = "adds a key",
     .held_by = KEY_HELD,
     .canary = "seccomp",
     .run = key_add},
    {.number = 21,
     .name = "key_request",
     .tries = "has the kernel ask the host for a key",
     .held_by = KEY_HELD,
     .canary = "seccomp",
     .run = key_request},
    {.number = 21,
     .name = "key_session",
     .tries = "asks for its session keyring",
     .held_by = KEY_HELD,
     .canary = "seccomp",
     .run = key_session},
    {.number = 21,
     .name = "key_persistent",
     .tries = "asks for the persistent keyring of its user",
     .held_by = KEY_HELD,
     .canary = "seccomp",
     .run = key_persistent},
    {.number = 21,
     .name = "key_of_others",
     .tries = "reads a key of the host and of a neighbour, by number and by name",
     .held_by = "filter, a session keyring of its own, keys of another user namespace",
     .canary = "keyring," ROOT_POWER,
     .run = key_of_others},
};
// clang-format on

const struct attempt_list key_attempts = ATTEMPTS(attempts);
