// SPDX-License-Identifier: Apache-2.0
// Taking a defence away, for the escape suite only: an attempt proves something only if it succeeds
// once the defence it meets is gone. In every build but the suite's own (CAY_WEAKEN) the question
// is the constant false and the compiler drops the branch. The list is the environment variable
// CAY_WEAKEN, names separated by commas, read once at start.
#pragma once

enum weakness {
    WEAKEN_SECCOMP,    // no system call filter
    WEAKEN_CAPS,       // root in the box keeps every capability of its user namespace
    WEAKEN_NNP,        // no_new_privs not set
    WEAKEN_NOSUID,     // set-user-id bits and file capabilities count
    WEAKEN_MASKS,      // nothing of /proc is masked or read-only
    WEAKEN_DEV,        // the host's /dev and the box's mounts allow device nodes
    WEAKEN_SYS,        // the host's /sys instead of ours
    WEAKEN_USERNS,     // user code runs in the initial user namespace (no Z, no B)
    WEAKEN_NESTED,     // user namespaces may be nested
    WEAKEN_GUESTUID,   // the guest has the box root's uid
    WEAKEN_DUMPABLE,   // the guest may be traced
    WEAKEN_PID,        // no pid namespace
    WEAKEN_NET,        // no network namespace
    WEAKEN_IPC,        // no ipc namespace
    WEAKEN_MNT,        // the host's root stays reachable below /oldroot
    WEAKEN_MEMORY,     // no memory limit
    WEAKEN_PIDS,       // no pids limit
    WEAKEN_CPU,        // no cpu limit
    WEAKEN_DISK,       // no disk limit
    WEAKEN_FILES,      // no limit of open files
    WEAKEN_OUTPUT,     // no limit of kept output
    WEAKEN_FDS,        // descriptors of the guest are left open in user code
    WEAKEN_CGROUPKILL, // killing an exec signals its first process only
    WEAKEN_KEYRING,    // session keyring shared with the host
    WEAKEN_CGROUPFS,   // the host's cgroup file system visible and writable
    WEAKEN_CORE,       // core files allowed
    WEAKEN_CGROUPNS,   // no cgroup namespace
    WEAKEN_TERMINALS,  // no limit of pseudo-terminals
    WEAKEN_UCOUNTS,    // no limit of inotify instances and the like per box
    WEAKEN_MAX,
};

#ifdef CAY_WEAKEN
void weaken_init(void);
int weaken(enum weakness what);
#else
static inline void weaken_init(void)
{
}
#    define weaken(what) 0
#endif
