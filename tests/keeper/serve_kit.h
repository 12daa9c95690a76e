// SPDX-License-Identifier: Apache-2.0
// What the tests of a keeper that serves share: one is started with a stand-in for its daemon
// (stand-in.h), whose part the test plays, with the calls of kit.h. The program that takes over
// after SIGUSR2 is the test itself: serve_main.
#pragma once

#include "kit.h"
#include "stand-in.h"

#define VOLUME (4ull << 30)
#define MIB    (1ull << 20)

enum { DAEMON_ID = 61500 };

extern pid_t serve_keeper;                // the process
extern int serve_control;                 // to the stand-in
extern struct stand_in_hello serve_hello; // what the daemon that the test plays now was given

struct keeper_config serve_small(void); // eight boxes, a pool, a volume
void serve_start(const struct keeper_config *config);
// With another program for the daemon, and another to take over; NULL for the usual.
void serve_start_with(const struct keeper_config *config, const char *daemon, const char *self);
// SIGTERM, and waits until it has ended well.
void serve_stop(void);
int serve_await_end(void); // of the keeper, in whatever way: its wait status
struct keeper_status serve_status(void);

struct met {
    unsigned n_live;
    struct keeper_live live[64];
    struct kit_box box[64];
    struct keeper_welcome welcome;
};

// Becomes the daemon that the keeper has started: everything up to KEEPER_WELCOME, which must be
// KEEPER_LIVE. Connecting to a listener of the keeper never fails on the way.
struct met serve_meet(void);
void serve_close_guests(struct met *met);
void serve_say_serving(void);
void serve_kill_daemon(void);
void serve_await_end_of(pid_t pid);

int serve_case_end(void **state);
#define SERVE_CASE(name) cmocka_unit_test_setup_teardown(name, NULL, serve_case_end)
// Runs the cases, or only those that argv[1] names.
int serve_main(int argc, char **argv, int (*run)(void));
