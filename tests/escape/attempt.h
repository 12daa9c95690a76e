// SPDX-License-Identifier: Apache-2.0
// One attempt to get out of a box, or to take more than its share. An attempt is made for real by
// the program `escape` inside a box and ends in an outcome with one line of detail. Everything here
// is single-threaded per process: an attempt runs in a forked child and reports through held(),
// escaped() and cannot(), which keep the detail until the runner sends it home.
//
// Rules for whoever adds one:
// - Every attempt is also made with its defence taken away, on the machine that runs the tests. It
// must
//   do no harm when it succeeds: open a file for writing but do not write, set a value to what it
//   is, pass an argument that is refused only after the permission was granted.
// - Judge the effect and not the return value.
// - An answer that only those get who were let in (EINVAL after the capability check) is an escape.
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

enum outcome {
    HELD,    // refused, or without effect
    ESCAPED, // it worked
    CANNOT,  // could not be made here; the detail says why
    BROKEN,  // the attempt itself crashed or hung: a fault of this program
    OUTCOME_MAX,
};

enum place {
    TOGETHER, // judged by itself, shares a box with others
    ALONE,    // judged by itself, needs a box of its own with small limits
    OUTSIDE,  // acts in the box; what came of it is judged by test_escape.py
    PLACE_MAX,
};

enum {
    ATTEMPT_NUMBER_MAX = 26,
    DETAIL_MAX = 200,
};

struct attempt {
    int number;            // of the list of things a sandbox has to withstand, 1 to 26
    const char *name;      // unique, snake_case
    const char *tries;     // what it does
    const char *held_by;   // what should stop it
    const char *canary;    // names for CAY_WEAKEN with which it must succeed; NULL: see no_canary
    const char *needs;     // what the machine must have for the canary: "file:PATH", "fs:TYPE" or a
                           // name that machine.c knows; NULL: nothing
    const char *no_canary; // why no canary is possible
    enum place place;
    bool killed_is_held; // being killed by the kernel is the defence (memory)
    enum outcome (*run)(const struct attempt *self);
    const void *arg;
};

struct attempt_list {
    const struct attempt *first;
    size_t n;
};

// The box's user code made root of the machine in every respect but its namespaces.
#define ROOT_POWER "seccomp,caps,userns"

#define ATTEMPTS(array)                                                                            \
    {                                                                                              \
        (array), sizeof(array) / sizeof((array)[0])                                                \
    }

enum outcome held(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
enum outcome escaped(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
enum outcome cannot(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
const char *verdict_detail(void);

// A note that survives the child's death, for attempts that end by being killed.
void progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

// What the answer of a system call means, errno included: an error out of `refusals` (ends with 0)
// is held; success, and any error that comes after the permission check, is an escape.
enum outcome judge_call(const char *what, long result, const int *refusals);

#define REFUSALS          ((const int[]){EPERM, EACCES, ENOSYS, EROFS, 0})
#define REFUSALS_AND(...) ((const int[]){EPERM, EACCES, ENOSYS, EROFS, __VA_ARGS__, 0})

// Opens for writing and closes again. A file that is not there is held.
enum outcome try_open_write(const char *path);
// Opens and reads a little. An empty file (a mask) is held.
enum outcome try_read(const char *path);

// A fresh directory in the box for this attempt, removed afterwards.
const char *scratch(void);
const char *scratch_path(const char *name);

extern const struct attempt_list *const all_attempts[];
extern const size_t n_attempt_lists;

extern const struct attempt_list process_attempts, memory_attempts, disk_attempts, files_attempts,
    output_attempts, clock_attempts, exe_attempts, root_attempts, mount_attempts, cgroup_attempts,
    proc_attempts, sys_attempts, device_attempts, namespace_attempts, guest_attempts, key_attempts,
    call_attempts, network_attempts, tty_attempts, privilege_attempts, ipc_attempts;
