// SPDX-License-Identifier: Apache-2.0
#include "base/weaken.h"

#ifdef CAY_WEAKEN
#    include <stdio.h>
#    include <stdlib.h>
#    include <string.h>

static const char *const names[WEAKEN_MAX] = {
    [WEAKEN_SECCOMP] = "seccomp",
    [WEAKEN_CAPS] = "caps",
    [WEAKEN_NNP] = "nnp",
    [WEAKEN_NOSUID] = "nosuid",
    [WEAKEN_MASKS] = "masks",
    [WEAKEN_DEV] = "dev",
    [WEAKEN_SYS] = "sys",
    [WEAKEN_USERNS] = "userns",
    [WEAKEN_NESTED] = "nested",
    [WEAKEN_GUESTUID] = "guestuid",
    [WEAKEN_DUMPABLE] = "dumpable",
    [WEAKEN_PID] = "pid",
    [WEAKEN_NET] = "net",
    [WEAKEN_IPC] = "ipc",
    [WEAKEN_MNT] = "mnt",
    [WEAKEN_MEMORY] = "memory",
    [WEAKEN_PIDS] = "pids",
    [WEAKEN_CPU] = "cpu",
    [WEAKEN_DISK] = "disk",
    [WEAKEN_FILES] = "files",
    [WEAKEN_OUTPUT] = "output",
    [WEAKEN_FDS] = "fds",
    [WEAKEN_CGROUPKILL] = "cgroupkill",
    [WEAKEN_KEYRING] = "keyring",
    [WEAKEN_CGROUPFS] = "cgroupfs",
    [WEAKEN_CORE] = "core",
    [WEAKEN_CGROUPNS] = "cgroupns",
    [WEAKEN_TERMINALS] = "terminals",
    [WEAKEN_UCOUNTS] = "ucounts",
};

static unsigned weakened; // one bit each
_Static_assert(WEAKEN_MAX <= 8 * sizeof weakened, "a bit for every weakness");

static int find(const char *name, size_t len)
{
    for (int i = 0; i < WEAKEN_MAX; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
            return i;
    }
    return -1;
}

// A name nobody knows ends the program: a canary that weakens nothing would prove nothing.
void weaken_init(void)
{
    const char *list = getenv("CAY_WEAKEN");
    while (list != NULL && *list != '\0') {
        size_t len = strcspn(list, ",");
        int which = find(list, len);
        if (which < 0) {
            (void)fprintf(stderr, "CAY_WEAKEN: unknown name in '%s'\n", list);
            abort();
        }
        weakened |= 1u << which;
        list += len;
        if (*list == ',')
            list++;
    }
}

int weaken(enum weakness what)
{
    return (weakened >> what) & 1;
}
#endif
