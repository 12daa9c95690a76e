// SPDX-License-Identifier: Apache-2.0
// `cay doctor` in parts: the table of checks and how they are told (doctor.c), what checks share
// (doctor-child.c), and the checks by what they look at (doctor-machine.c, -namespaces.c,
// -mounts.c, -cgroups.c, -disk.c, -box.c). Each check runs in a child of its own, which may change
// whatever a process can change about itself and need not put it back.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum doctor_state {
    DOCTOR_OK,
    DOCTOR_NOTE,    // slower or weaker: something else does the job
    DOCTOR_MISSING, // something of Cay will not work
    DOCTOR_UNTRIED, // needs root
    DOCTOR_STATE_MAX,
};

// What a check has found. Passed from its child as it is, so it holds no pointer.
struct finding {
    enum doctor_state state;
    char detail[512];
    char advice[512]; // empty when there is nothing to do
};

struct doctor {
    const char *data; // the data directory that counts
    bool root;
};

struct check;
typedef void check_fn(const struct check *check, const struct doctor *doctor, struct finding *ret);

struct check {
    const char *name;
    const char *purpose; // completes "for ..."
    check_fn *run;
    bool needs_root;
    const char *arg; // for those that serve more than one line
};

// Adds a part to the detail and makes the state at least this bad.
void found(struct finding *finding, enum doctor_state state, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void advise(struct finding *finding, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Runs one check in a child, which is given up after a while.
void doctor_try(const struct check *check, const struct doctor *doctor, struct finding *ret);

// --- for checks ---

// Runs fn(arg) in a child that dies with us. What it returned, 0 or -errno; -ECHILD when it was
// killed.
int in_child(int (*fn)(void *arg), void *arg);
// The text of an errno, for a detail.
const char *errno_text(int sys_errno);
// The number in a small file such as those below /proc/sys, or -1 when it cannot be read.
int64_t read_number(const char *path);
// "3.5 GiB"
struct size_text {
    char text[24];
};
struct size_text size_text(uint64_t bytes);
// Whether root here is root of the whole machine, with all its user ids (doctor-machine.c).
bool has_all_ids(void);
// Linux MAJOR.MINOR or later runs here.
bool kernel_at_least(unsigned major, unsigned minor);

// doctor-namespaces.c: a user namespace that maps the ids of one slot, as boxes have it. Its
// descriptor, or -1.
int doctor_userns(struct err *err);

// doctor-mounts.c: a mount namespace of the check's own; 0 or -errno. root_make may need it.
int own_mounts(void);
// A root as a box has it, of an image and a disk, made and written to and gone again. 0 or -1.
struct root_disk;
int doctor_root(int lower, const struct root_disk *disk, struct err *err);

// doctor-disk.c
enum {
    DATA_SPARE = 256 << 20, // bytes that a data directory's file system should have free
};

// Where the data directory is, or where it will be made. -errno when there is neither it nor the
// one above it.
int data_place(const struct doctor *doctor, bool *ret_exists);
// Whether something can be written there: 0 or -errno.
int data_writable(int place);
// The name of the file system that holds it.
const char *filesystem_name(int fd);

// A directory of our own inside `base`, gone with scratch_done.
struct scratch {
    int base;
    int fd;
    char name[32];
};
int scratch_make(int base, struct scratch *ret, struct err *err);
void scratch_done(struct scratch *scratch);

// doctor-machine.c
check_fn check_root, check_kernel, check_container, check_capabilities, check_settings;
check_fn check_memory, check_files, check_pids, check_slots, check_program, check_languages;
// doctor-namespaces.c
check_fn check_userns, check_namespaces, check_proc, check_pidfd, check_seccomp;
// doctor-mounts.c
check_fn check_detached, check_overlay, check_volatile, check_idmap;
// doctor-cgroups.c
check_fn check_cgroups, check_limits, check_kill, check_joins;
// doctor-disk.c, doctor-box.c
check_fn check_data, check_btrfs, check_box;
