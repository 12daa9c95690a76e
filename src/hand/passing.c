// SPDX-License-Identifier: Apache-2.0
// Passing names: those that something has for a moment before it is renamed over what was there. A
// watch is not to tell of them, nor to keep quiet about a file of a user's that is called alike. So
// half of the number in a name follows from the other half, by a key that this hand has drawn:
// those that it has started know it, and none of them outlives it.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "hand/hand-internal.h"

#define PREFIX ".cay-"

static uint64_t key;

void hand_passing_init(void)
{
    (void)getrandom(&key, sizeof key, GRND_NONBLOCK);
}

// It keeps nothing secret: it is to be wrong of a name that somebody else thought of.
static uint32_t second_half(uint32_t first)
{
    uint64_t x = key + first;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(x >> 32);
}

static void write_name(uint32_t first, char ret[HAND_PASSING_SIZE])
{
    (void)snprintf(ret, HAND_PASSING_SIZE, PREFIX "%08x%08x", first, second_half(first));
}

void hand_passing_name(char ret[HAND_PASSING_SIZE])
{
    uint32_t first = 0;
    (void)getrandom(&first, sizeof first, GRND_NONBLOCK);
    write_name(first, ret);
}

int hand_give_name(int fd, int dir, const char *name)
{
    char self[32];
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, self, dir, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

bool hand_is_passing(const char *name)
{
    char digits[9], whole[HAND_PASSING_SIZE];
    size_t len = sizeof PREFIX - 1;
    if (strlen(name) != sizeof whole - 1 || strncmp(name, PREFIX, len) != 0)
        return false;
    memcpy(digits, name + len, 8);
    digits[8] = '\0';
    write_name((uint32_t)strtoul(digits, NULL, 16), whole);
    return strcmp(name, whole) == 0;
}
