// SPDX-License-Identifier: Apache-2.0
#include "base/weaken.h"

#ifdef CAY_WEAKEN
#    include <stdlib.h>
#    include <string.h>

static const char *const names[WEAKEN_MAX] = {
    [WEAKEN_SECCOMP] = "seccomp",       [WEAKEN_CAPS] = "caps",
    [WEAKEN_NNP] = "nnp",               [WEAKEN_NOSUID] = "nosuid",
    [WEAKEN_MASKS] = "masks",           [WEAKEN_DEV] = "dev",
    [WEAKEN_SYS] = "sys",               [WEAKEN_USERNS] = "userns",
    [WEAKEN_NESTED] = "nested",         [WEAKEN_GUESTUID] = "guestuid",
    [WEAKEN_DUMPABLE] = "dumpable",     [WEAKEN_PID] = "pid",
    [WEAKEN_NET] = "net",               [WEAKEN_IPC] = "ipc",
    [WEAKEN_MNT] = "mnt",               [WEAKEN_MEMORY] = "memory",
    [WEAKEN_PIDS] = "pids",             [WEAKEN_CPU] = "cpu",
    [WEAKEN_DISK] = "disk",             [WEAKEN_FILES] = "files",
    [WEAKEN_OUTPUT] = "output",         [WEAKEN_FDS] = "fds",
    [WEAKEN_CGROUPKILL] = "cgroupkill", [WEAKEN_KEYRING] = "keyring",
    [WEAKEN_CGROUPFS] = "cgroupfs",     [WEAKEN_CORE] = "core",
};

static unsigned weakened;

// A name nobody knows ends the program: a canary that weakens nothing would prove nothing.
void weaken_init(void)
{
    const char *list = getenv("CAY_WEAKEN");
    while (list != NULL && *list != '\0') {
        size_t len = strcspn(list, ",");
        int found = 0;
        for (int i = 0; i < WEAKEN_MAX; i++) {
            if (strlen(names[i]) == len && strncmp(names[i], list, len) == 0) {
                weakened |= 1u << i;
                found = 1;
            }
        }
        if (!found)
            abort();
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
