// SPDX-License-Identifier: Apache-2.0
// What the tests of a real keeper share: one keeper at a time on a data directory of the test
// program's own, boxes claimed from it, commands run in them, and a look at the machine from
// outside. Whatever is waited for must come within KIT_PATIENCE_MS; the test fails instead of
// hanging.
#pragma once

#include <stdint.h>

#include "box/client.h"
#include "box/limits.h"
#include "check.h"
#include "keeper/keeper.h"

enum { KIT_PATIENCE_MS = 30000 };

struct kit_box {
    uint64_t number;
    int guest;
    uint32_t next_exec;
};

// A command's end as its guest told it, and what it printed (cut at the size of `out`).
struct kit_ended {
    int status;
    uint32_t limits;
    uint64_t cpu_usec;
    char out[4096];
    char err[1024];
};

// --- the program's own ---

// Group setup and teardown: makes and removes the data directory. Needs root.
int kit_begin(void **state);
int kit_end(void **state);
// Teardown of each case: ends the keeper if the case has not, also after a failed assertion.
int kit_case_end(void **state);
const char *kit_data(void);

#define KIT_CASE(name) cmocka_unit_test_setup_teardown(name, NULL, kit_case_end)
#define KIT_MAIN(...)                                                                              \
    int main(void)                                                                                 \
    {                                                                                              \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                                           \
        return cmocka_run_group_tests(tests, kit_begin, kit_end);                                  \
    }

// --- the keeper ---

void kit_start(const struct keeper_config *config); // .data is filled in
void kit_stop(void);
// A keeper that somebody else has started, and its socket, which becomes the kit's; -1 for none.
void kit_attach(int sock, pid_t pid);
int kit_sock(void);
pid_t kit_pid(void);
// Waits for the next message and checks its type. Boxes handed out ahead (KEEPER_READY) are put
// aside.
void kit_expect(uint16_t type, struct keeper_event *ret);
// Waits until the keeper has closed the connection.
void kit_expect_closed(void);
// Asks for the state until so many boxes wait and nothing is being made or taken apart.
void kit_await_pool(uint32_t n_ahead, uint32_t n_blank);
struct keeper_state kit_state(void);

// --- boxes ---

struct claim kit_claim(enum disk_kind kind, uint64_t disk);
struct kit_box kit_take(const struct claim *claim);
// The next of those that the keeper has handed out ahead; it is not taken yet.
struct kit_box kit_next_ready(void);
// Takes it, with these limits.
struct kit_box kit_take_ready(const struct box_limits *limits);
// The error that a claim ends with.
struct err kit_refused(const struct claim *claim);
// Destroys the box, and waits until it is gone. Returns what it used.
struct keeper_ended kit_destroy(struct kit_box *box);

void kit_expect_guest(struct kit_box *box, uint16_t type, struct guest_event *ret);
// Starts `sh -c script`; the exec's id.
uint32_t kit_exec(struct kit_box *box, const char *script, struct guest_event *ret);
// Runs it to the end.
struct kit_ended kit_run(struct kit_box *box, const char *script);
void kit_collect(struct kit_box *box, uint32_t id, struct guest_event *started,
                 struct kit_ended *ret);

// --- the machine ---

unsigned kit_count_processes(const char *word); // that have it in their arguments, in boxes too
unsigned kit_count_entries(const char *path);   // of a directory
// All the keeper's own.
unsigned kit_count_fds(void);
unsigned kit_count_mounts(void);
unsigned kit_count_children(void);
unsigned kit_count_cgroups(void); // of its slots, in all hierarchies
unsigned kit_count_disks(void);   // subvolumes
// Quota groups of the volume. They go with their subvolume, but only when the file system has
// committed, which this sees to.
unsigned kit_count_qgroups(void);
pid_t kit_child(unsigned i); // the keeper's i-th child, 0 if there is none
// A number that no other process has among its arguments; good for `sleep`.
const char *kit_marker(void);
void kit_sleep_ms(unsigned ms);
// Polls until the condition holds, and fails when it does not.
#define KIT_AWAIT(condition)                                                                       \
    do {                                                                                           \
        unsigned _tries = 0;                                                                       \
        while (!(condition)) {                                                                     \
            if (_tries++ > KIT_PATIENCE_MS / 5)                                                    \
                fail_msg("waited in vain for: %s", #condition);                                    \
            kit_sleep_ms(5);                                                                       \
        }                                                                                          \
    } while (0)
