// SPDX-License-Identifier: Apache-2.0
// The keeper: the one process that is root on the host. It makes boxes, keeps their descriptors,
// takes them apart, and does nothing else; it is single-threaded, forked before its client has done
// anything, and believes nothing it is asked (wire/keeper-msg.h is all it can be asked).
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct keeper_config {
    const char *data;        // data directory, NULL for the default
    uint32_t boxes;          // at most, at once
    int once;                // there will be one box ever: let go early of what makes more
    const char *image;       // of boxes that are made ahead; NULL: "host"
    uint32_t pool_ready;     // boxes kept ready with a root of that image and a blank disk
    uint32_t pool_blank;     // boxes kept ready without a root
    const char *preload;     // modules that zygotes load, by commas; NULL: there are no zygotes
    int64_t zygote_renew_ms; // how old they get
    const char *pack;        // the program cay-pack; NULL: there is none
    uint64_t volume_bytes;   // size of the Btrfs volume; 0: no volume, disks are tmpfs
    uint64_t disk_spare;     // what stays free on the file system of the data directory
};

enum { KEEPER_LISTENERS_MAX = 4 };

// A keeper that serves: it starts the daemon, which is its client, and another when that dies.
struct keeper_serving {
    struct keeper_config boxes;
    const char *self;   // our own program, for SIGUSR2: whatever lies there then takes over
    const char *daemon; // the daemon's
    uid_t uid;          // whom it runs as
    gid_t gid;
    int conf;   // what it is told, a descriptor for reading
    int status; // a file whose text tells others of us (keeper_status_read), locked; or -1
    unsigned n_listeners;
    int listeners[KEEPER_LISTENERS_MAX];
    int64_t drain_ms;              // how long it may take to end when asked to
    int resume;                    // what the program before has left (keeper_resume), or -1
    void (*on_serving)(void *arg); // once, when requests are taken
    void *arg;
};

struct keeper_process {
    int sock; // wire/keeper-msg.h
    pid_t pid;
};

// Forks it. It ends, with every box, when the socket is closed. What goes wrong while it starts
// comes as the first message, a KEEPER_ERROR. The child keeps no descriptor of the caller's.
int keeper_start(const struct keeper_config *config, struct keeper_process *ret, struct err *err);
// Closes the socket and waits until it has cleaned up and gone.
void keeper_stop(struct keeper_process *keeper);

// Becomes the keeper: returns when SIGTERM or SIGINT has ended everything (0), or when it cannot go
// on (-1). Signals must not be blocked before.
int keeper_serve(const struct keeper_serving *serving, struct err *err);

// In a program that was executed in the place of a keeper: finds what was handed over. Fills uid,
// gid, conf, status, listeners, resume and the number of boxes.
int keeper_resume(int state, struct keeper_serving *ret, struct err *err);

// What the status file tells.
struct keeper_status {
    pid_t pid;
    unsigned generation; // how many programs have taken over before this one
    int serving;         // the daemon takes requests
    unsigned refused;    // how many upgrades could not be done
    char version[32];
    char why[160]; // the last of these
};

int keeper_status_read(int fd, struct keeper_status *ret); // 0 or -errno
