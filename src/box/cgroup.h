// SPDX-License-Identifier: Apache-2.0
// The cgroups of boxes: one directory per box in each hierarchy that carries a limit, and one in
// cgroup2 for killing. Where the kernel has the controllers in cgroup2 the two are one; where they
// are spread over v1 hierarchies each has its own. They are used where the host has mounted them,
// or else mounted detached. A directory's name is cay/<slot>.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "wire/keeper-msg.h"

struct cgroups;

struct cgroup_gauges { // for the guest; -1 where there is none; the caller closes them
    int memory;
    int pids;
};

struct cgroup_stats {
    uint64_t memory_peak;
    uint32_t oom_kills;
};

struct cgroup_usage { // 0 where the kernel does not tell
    uint64_t cpu_usec;
    uint64_t memory, memory_peak;
    uint32_t pids;
    uint32_t oom_kills;
};

// Where each controller was found; for `cay doctor` and for tests.
enum cgroup_control {
    CGROUP_MEMORY,
    CGROUP_PIDS,
    CGROUP_CPU,
    CGROUP_CONTROL_MAX,
};

// Finds, mounts and prepares the hierarchies. A controller that is missing is an error: a limit
// that cannot be enforced must not be promised.
int cgroups_open(struct cgroups **ret, struct err *err);
// The same below directories that stand in for the hierarchies: `control[i]` may equal `unified`,
// which then is a v2 tree with controllers. Takes the descriptors. For tests.
int cgroups_open_at(int unified, const int control[CGROUP_CONTROL_MAX], struct cgroups **ret,
                    struct err *err);
void cgroups_free(struct cgroups *cgroups);
int cgroups_is_v2(const struct cgroups *cgroups);

// Makes the directories of a slot with these limits; what a crash left under that name is removed
// first. `owner` is the host uid and gid that may make cgroups below and move processes between
// them.
int cgroups_make(struct cgroups *cgroups, uint32_t slot, uint32_t owner,
                 const struct box_limits *limits, struct err *err);
int cgroups_limit(struct cgroups *cgroups, uint32_t slot, const struct box_limits *limits,
                  struct err *err);
// The box's cgroup2 directory, delegated to the guest. The descriptor is the caller's.
int cgroups_open_dir(struct cgroups *cgroups, uint32_t slot, struct err *err);
// Moves a process, with all its threads, into all of them.
int cgroups_join(struct cgroups *cgroups, uint32_t slot, pid_t pid, struct err *err);
int cgroups_gauges(struct cgroups *cgroups, uint32_t slot, struct cgroup_gauges *ret,
                   struct err *err);
void cgroups_stats(struct cgroups *cgroups, uint32_t slot, struct cgroup_stats *ret);
// The same for a box that runs, and what it uses now.
void cgroups_usage(struct cgroups *cgroups, uint32_t slot, struct cgroup_usage *ret);
void cgroups_kill(struct cgroups *cgroups, uint32_t slot);
// Whether all processes of the box shall stand still; a moment later they do (cgroup.events).
void cgroups_freeze(struct cgroups *cgroups, uint32_t slot, int on);
int cgroups_open_events(struct cgroups *cgroups, uint32_t slot); // -1: there are none
// Which slots have directories, at most `max` of them, some perhaps more than once. How many.
unsigned cgroups_list(struct cgroups *cgroups, uint32_t *ret_slots, unsigned max);
// 0, or -errno: -EBUSY while a process is still in one of them.
int cgroups_remove(struct cgroups *cgroups, uint32_t slot);
// The same after killing whoever is in them, and waiting a moment (500 ms at most) for them to go.
int cgroups_clear(struct cgroups *cgroups, uint32_t slot);
