// SPDX-License-Identifier: Apache-2.0
// Sandboxes in memory, for the files of this room: fleet.c (all of them, and their beginning),
// create.c, lifecycle.c (how one moves from state to state), bind.c (how it gets a box), adopt.c
// (after a restart), admit.c (quotas), keeper-link.c, box-link.c and job.c (what runs in a box),
// event.c.
#pragma once

#include <sys/queue.h>

#include "base/map.h"
#include "base/recent.h"
#include "box/client.h"
#include "sandbox/disk.h"
#include "sandbox/job.h"
#include "sandbox/reach.h"
#include "sandbox/sandbox.h"

struct box_link;  // the guest's socket, and the jobs behind it
struct hand_link; // hand-link.c's: the hand's socket, and what was asked of it
struct processes; // process.c's, made when it needs it, freed by processes_forget
struct sessions;  // session.c's, freed by sessions_forget
struct contexts;  // context-keep.c's, freed by contexts_forget

enum sandbox_state {
    STATE_SLEEPING,   // no box
    STATE_STARTING,   // the keeper was asked for a box
    STATE_RUNNING,    // there is one
    STATE_QUIETING,   // its sessions are being saved and its programs asked to end
    STATE_STOPPING,   // the keeper was asked to end the box
    STATE_HELD,       // no box, and none until whoever works on its disk lets it go
    STATE_DESTROYING, // no box any more; the disk is being removed
    STATE_GONE,       // and the row. Only references hold it in memory
    STATE_MAX,
};

enum sandbox_change {
    CHANGE_START,    // somebody wants to use it
    CHANGE_BOUND,    // its box is there
    CHANGE_FAILED,   // it cannot have one
    CHANGE_QUIET,    // it shall sleep
    CHANGE_STOP,     // now its box shall end
    CHANGE_BOX_GONE, // it did, with everything it held
    CHANGE_HOLD,     // somebody works on its disk
    CHANGE_LET_GO,   // and has done so
    CHANGE_DESTROY,  // its disk shall go
    CHANGE_FORGET,   // it went
    CHANGE_MAX,
};

struct waiter {
    sandbox_fn fn;
    void *data;
    bool created;
    int64_t since_ns;
    struct waiter *next;
};

struct sandbox {
    struct fleet *fleet;
    struct sandbox_row row;
    char **env; // of the row, as NAME=value, ends with NULL
    char *key;  // "tenant/id", in fleet->sandboxes
    unsigned refs;
    unsigned busy;            // how much is at work: it does not fall asleep
    int64_t active_ns;        // clock_ns() of the last activity
    int64_t active_stored;    // row.active_ms that the database has
    enum sandbox_state state; // lifecycle.c alone moves it
    bool destroy_wanted;
    bool replacing;             // its disk is being replaced: copiers wait
    bool recalled;              // it is held for whoever brings back its disk
    int64_t recounted_ns;       // recount.c
    bool disk_in_use;           // by a box that nobody knows, in DESTROYING: tried again
    bool created_now;           // its first box decides whether there is such a sandbox at all
    int64_t memory_counted;     // of its tenant's memory, while it counts as running
    bool limiting;              // the keeper was asked to change its limits
    struct box_limits asked;    // with which its box was asked for
    struct box_link *box;       // NULL when it does not run
    struct hand_link *hand;     // NULL when there is none
    int listen_tcp, listen_udp; // in its box, once there; -1
    void (*reach_done)(struct sandbox *s); // while they are being made
    struct processes *processes;
    struct sessions *sessions;
    struct contexts *contexts;
    struct waiter *wakers, *sleepers, *destroyers;
    struct waiter *holders, *copiers;
    uv_timer_t *grace; // while QUIETING
    int64_t quiet_ns;  // since when
    struct follower *followers;
    char request[40]; // sandbox_set_request's
};

// --- fleet.c

struct tenant { // what a tenant may have and has
    int64_t number;
    char key[24];
    int64_t max_sandboxes, max_running, max_memory, max_disk; // 0: no limit
    int64_t sandboxes, running, memory, disk;
};

struct ready_box { // handed out by the keeper ahead
    uint64_t number;
    int guest;
    unsigned parked; // 1 << enum kernel_kind: asked for at least
};

enum { READY_MAX = 256 };

struct keeper_link;

struct fleet {
    struct fleet_config config;
    struct map sandboxes;      // by key
    struct map tenants;        // by key
    struct map boxes;          // box_link by its number as text
    LIST_HEAD(, drain) drains; // job.c's
    struct keeper_link *keeper;
    struct ready_box ready[READY_MAX];
    unsigned n_ready;
    struct parking *parking; // parking.c's
    struct keeper_welcome welcome;
    unsigned running, starting;
    unsigned held, forking; // sandboxes that are held, and work that makes or removes rows
    recall_fn recall_fn;
    void *recall_data;
    void (*slept_fn)(void *data, struct sandbox *s);
    void *slept_data;
    struct fleet_stats counted;
    struct timing timings[TIMING_MAX];
    struct recent recent[TIMING_MAX];
    uv_timer_t *ticker;
    unsigned ticks;
    int64_t memory_seen_ns;
    uint64_t memory_seen;
    struct adoption *adoption; // while it starts
    void (*ready_fn)(void *data);
    void (*lost_fn)(void *data);
    void (*stopped_fn)(void *data);
    void *data, *stopped_data;
    const struct reach_events *reach;
    void *reach_data;
    bool stopping;
};

// Takes the row's texts. The sandbox is in the fleet, sleeping, without a reference.
struct sandbox *fleet_add(struct fleet *fleet, struct sandbox_row *row);
// In memory or from its row. NULL: there is none (err untouched), or err.
struct sandbox *fleet_look_up(struct fleet *fleet, int64_t tenant, const char *id, struct err *err);
struct sandbox *fleet_in_memory(struct fleet *fleet, int64_t tenant, const char *id); // or NULL
struct tenant *fleet_tenant(struct fleet *fleet, int64_t number, struct err *err);    // NULL: err
void fleet_quotas(struct fleet *fleet, struct tenant *tenant, const struct tenant_row *row);
void name_make(char *ret, size_t size, const char *prefix); // prefix and 12 random letters
int fleet_logs_fd(const struct fleet *fleet);
uint64_t fleet_process_log(const struct fleet *fleet);
void fleet_ready_box(struct fleet *fleet, uint64_t number, int guest); // takes the socket
// Takes one out of the pool. 0, or -1 when it is empty.
int fleet_take_ready(struct fleet *fleet, struct ready_box *ret);
struct box_link *fleet_box(struct fleet *fleet, uint64_t number); // bound to a sandbox; or NULL
void fleet_box_ended(struct fleet *fleet, const struct keeper_ended *msg);
void fleet_box_gone(struct fleet *fleet, uint64_t number);
void fleet_check_stopped(struct fleet *fleet);
void fleet_bind(struct fleet *fleet, struct box_link *box); // found by its number from now on
void fleet_unbind(struct fleet *fleet, struct box_link *box);
void fleet_remove(struct sandbox *s); // nobody finds it any more

// --- admit.c: ERR_EXHAUSTED for what only its owner can change, ERR_UNAVAILABLE for what time does

int admit_sandbox(struct fleet *fleet, const struct tenant *tenant, uint64_t disk, struct err *err);
int admit_box(struct fleet *fleet, const struct tenant *tenant, const struct box_limits *limits,
              struct err *err);

// create.c
int64_t settings_budget(int64_t given); // as a row has it
char *slug_make(int64_t tenant, const char *id);

// --- due.c: sandboxes that nobody has used for their destroyAfter

void due_sweep(struct fleet *fleet); // some of them go

// --- lifecycle.c

void lifecycle_wait(struct waiter **list, sandbox_fn fn, void *data);
void lifecycle_start(struct sandbox *s, sandbox_fn fn, void *data, bool created, int64_t since_ns);
void lifecycle_move(struct sandbox *s, enum sandbox_change change); // asserts that it is possible
void lifecycle_settle(struct sandbox *s);                           // what is wanted next
void lifecycle_tell(struct sandbox *s, struct waiter **list, const struct err *err);
void lifecycle_count_running(struct sandbox *s, int by);
int lifecycle_store(struct sandbox *s, struct err *err);
struct tenant *lifecycle_tenant(struct sandbox *s);
void lifecycle_box_ended(struct sandbox *s, const struct keeper_ended *msg);
void lifecycle_box_gone(struct sandbox *s);
void lifecycle_resume_destroy(struct sandbox *s);
void lifecycle_drop_disk(struct sandbox *s); // of one in DESTROYING; then it is forgotten
// As its box gets them: what its disk shares with others is taken off.
struct box_limits lifecycle_limits(const struct sandbox *s);
// Whether a disk that shares so much leaves enough to write of its limit. ERR_EXHAUSTED.
int lifecycle_check_shared(int64_t disk, int64_t shared, struct err *err);
void lifecycle_count_memory(struct sandbox *s); // after row.memory changed
// What the keeper said, as a client shall hear it: its own troubles are neither quotas nor rights.
struct err lifecycle_told(const struct err *err);

// --- bind.c

void bind_start(struct sandbox *s);          // asks for a box, if there may be one
void bind_detach(struct sandbox *s);         // the keeper has ended its box, or will
uint64_t bind_disk(const struct sandbox *s); // the number of its disk; 0: none is kept
struct disk_ref disk_kept(uint64_t number);
struct disk_ref disk_snapshot(uint64_t number);
struct disk_ref disk_making(uint64_t number);
// A new sandbox takes a box that is ready: its row is written once, with the box. 1 when it did, 0
// when there is none that suits, -1 and err.
int bind_create_ready(struct sandbox *s, struct err *err);
void bind_created(struct sandbox *s); // its row is there: the keeper is told
void bind_abandon(struct sandbox *s); // it has no row: as if it had never been
void bind_adopt(struct sandbox *s, uint64_t box, struct guest_peer guest); // it was running

// --- adopt.c

int adopt_live(struct fleet *fleet, const struct keeper_event *ev); // takes ev->guest
void adopt_welcome(struct fleet *fleet, const struct keeper_welcome *msg);
void adopt_listed(struct sandbox *s);   // its guest has told which jobs it has, or is gone
void adopt_unlisted(struct sandbox *s); // its box went before its guest had told
void adopt_drop(struct fleet *fleet);

// --- disk.c

uint64_t disk_number_make(void);                          // of one in PLACE_MAKING: random
int disk_check(const struct sandbox *s, struct err *err); // it has one, which is here
// Copies the disk to another place, from one instant. `bytes`: what may be written to the copy, 0:
// nothing.
struct disk_copied {
    int64_t shared; // what the copy shares with the sandbox and those before it
    int64_t own;    // of that: written by the sandbox's disk
    int64_t disk;   // which of its disks it was: row.disks
    struct disk_version version;
};
typedef void (*disk_copied_fn)(void *data, const struct disk_copied *copied, const struct err *err);
void disk_copy(struct sandbox *s, struct disk_ref to, uint64_t bytes, disk_copied_fn fn,
               void *data);

// --- recount.c

// What a disk that nobody uses shares with others, at most: `known`, or less.
typedef void (*recounted_fn)(void *data, int64_t shared);
void disk_recount(struct fleet *fleet, struct disk_ref disk, int64_t known, recounted_fn fn,
                  void *data);
void sandbox_recount(struct sandbox *s); // it has fallen asleep: if it is worth it

// --- snapshot.c and fork.c

// One that is there; ERR_NOT_FOUND.
int snapshot_get(struct sandbox *s, const char *id, struct snapshot_row *ret, struct err *err);
// What a disk that begins with it shares: row->bytes, or where the sandbox's limit leaves nothing
// beside that, what is really there. fn may be called at once.
void snapshot_count(struct sandbox *s, const struct snapshot_row *row, recounted_fn fn, void *data);
void snapshots_drop(struct sandbox *s);                  // it is being destroyed: their disks go
char *sessions_dump(struct sandbox *s, struct err *err); // JSON, of its rows; NULL: err
// Its sessions become those of the text. Part of the caller's transaction.
int sessions_undump(struct fleet *fleet, int64_t sandbox, const char *json, struct err *err);
// As sessions_save, if it runs.
void snapshot_save_sessions(struct sandbox *s, void (*done)(void *data), void *data);
// What a snapshot of the tenant's (settings->snapshot) says where `settings` do not: env, image and
// the disk's size. Texts are those of `ret` and of `ret_source`.
int fork_fill_settings(struct fleet *fleet, int64_t tenant, struct sandbox_settings *settings,
                       struct snapshot_row *ret, struct sandbox_row *ret_source, struct err *err);
// A new sandbox from a snapshot, awake. Takes the texts of both rows. It is admitted.
void fork_create(struct fleet *fleet, struct sandbox_row *row, struct snapshot_row *from,
                 sandbox_fn fn, void *data);
void fork_forget_making(struct fleet *fleet); // at the start: what a daemon before did not finish

// --- keeper-link.c: requests to the keeper, answered by callback; a bounded number is under way

typedef void (*keeper_fn)(void *data, const struct keeper_event *ev, const struct err *err);
int keeper_link_open(struct fleet *fleet, struct err *err);
void keeper_link_close(struct fleet *fleet);
// ev->guest of KEEPER_CLAIMED is the callee's. KEEPER_ERROR comes as err. fn may be NULL.
void keeper_claim(struct fleet *fleet, const struct claim *claim, keeper_fn fn, void *data);
void keeper_take(struct fleet *fleet, uint64_t box, const struct box_limits *limits, uint64_t disk,
                 keeper_fn fn, void *data);
void keeper_destroy(struct fleet *fleet, uint64_t box, keeper_fn fn, void *data);
void keeper_limit(struct fleet *fleet, uint64_t box, const struct box_limits *limits, keeper_fn fn,
                  void *data);
void keeper_disk_drop(struct fleet *fleet, struct disk_ref disk, keeper_fn fn, void *data);
void keeper_disk_list(struct fleet *fleet, struct disk_ref above, keeper_fn fn, void *data);
void keeper_disk_count(struct fleet *fleet, struct disk_ref disk, keeper_fn fn, void *data);
void keeper_disk_copy(struct fleet *fleet, const struct copy_spec *spec, keeper_fn fn, void *data);
void keeper_disk_move(struct fleet *fleet, struct disk_ref from, struct disk_ref to, keeper_fn fn,
                      void *data);
// Copies texts and descriptors. Returns its id, which may be answered already.
uint32_t keeper_disk_work(struct fleet *fleet, const struct work_spec *spec, keeper_fn fn,
                          void *data);
void keeper_disk_cancel(struct fleet *fleet, uint32_t id); // it is answered soon
void keeper_space(struct fleet *fleet, keeper_fn fn, void *data);
// Of PLACE_KEPT; at most KEEPER_USED_MAX.
void keeper_disk_used(struct fleet *fleet, const uint64_t *numbers, unsigned n, keeper_fn fn,
                      void *data);
void keeper_usage(struct fleet *fleet, uint64_t box, keeper_fn fn, void *data);
// A fork of the zygote as exec `id` of the box: its guest tells the rest.
typedef void (*plant_fn)(struct fleet *fleet, uint64_t box, uint32_t id, const struct err *err);
void keeper_plant(struct fleet *fleet, uint64_t box, uint32_t id, plant_fn fn);
// Takes the descriptor.
void keeper_network(struct fleet *fleet, uint64_t box, int listener, keeper_fn fn, void *data);

// --- box-link.c

// Takes the socket.
struct box_link *box_link_new(struct sandbox *s, uint64_t number, struct guest_peer guest);
void box_link_free(struct box_link *box); // its jobs hear `lost` before
uint64_t box_link_number(const struct box_link *box);
struct guest_peer box_link_guest(const struct box_link *box);
struct sandbox *box_link_sandbox(const struct box_link *box);
void box_link_list(struct box_link *box);      // asks for its jobs: adopt_listed comes later
void box_link_list_late(struct box_link *box); // ends one that has not told
unsigned box_link_running(const struct box_link *box); // jobs
bool box_link_is_over(const struct box_link *box);     // its guest is gone
void box_link_signal_all(struct box_link *box, int signal);
void box_link_lost(struct box_link *box, enum end_reason reason, uint32_t limits);
void box_link_exited(struct box_link *box, const struct guest_exited *msg);
void box_link_drop_orphans(struct box_link *box); // jobs nobody took over are read and forgotten
uint32_t box_link_next_id(struct box_link *box);
unsigned box_link_forks(const struct box_link *box); // of a zygote, that live
unsigned *box_link_parked(struct box_link *box);     // 1 << enum kernel_kind: what may be in it
void box_link_add(struct box_link *box, struct job *job);
void box_link_remove(struct box_link *box, struct job *job); // job->box is NULL then
struct job *box_link_find(const struct box_link *box, uint32_t id);

// --- job.c, for box-link.c

struct job {
    struct box_link *box; // NULL when the box is gone
    struct job *next;     // in its box
    uint32_t id;
    int pid;
    enum { JOB_ASKED, JOB_RUNNING, JOB_ENDED } state;
    bool killed, timed_out;
    bool keeps_exit; // GUEST_EXEC_KEEP_EXIT
    bool is_fork;    // of a zygote
    bool is_parked;  // nobody's yet, to be had with job_own
    bool listed;     // told by the guest after a restart, not taken over yet
    bool exited;     // with it: how it ended is in `ending`
    struct guest_exited ending;
    int64_t deadline_ms; // of the clock on the wall; 0: none
    uv_timer_t *timer;
    struct job_streams streams;
    char program[64], cwd[128];      // for messages
    const struct job_events *events; // NULL: nobody's
    void *data;
};

void job_on_started(struct job *job, struct guest_event *ev); // takes its descriptors
void job_on_failed(struct job *job, const struct guest_failed *msg);
void job_on_exited(struct job *job, const struct guest_exited *msg);
void job_on_lost(struct job *job, enum end_reason reason, uint32_t limits);
struct job *job_new_listed(struct box_link *box, struct guest_event *ev);
// One that somebody else asks for, in a sandbox that runs.
struct job *job_new_asked(struct sandbox *s, uint32_t id, const struct job_events *events,
                          void *data);
void job_on_refused(struct job *job, const struct err *err); // and it will not come
void job_park(struct job *job);                              // one that has started
void job_own(struct job *job, const struct job_events *events, void *data);
void drains_end(struct fleet *fleet); // what jobs without an owner write is not read any more

// --- parking.c: interpreters in boxes that are ready

enum { PARKED_FIRST = 0x70000000 }; // the id of a parked job is this and its kernel_kind
void parking_open(struct fleet *fleet);
void parking_close(struct fleet *fleet);
void parking_ready(struct fleet *fleet);                          // there is one more box
unsigned parking_count(const struct fleet *fleet, unsigned kind); // parked; enum kernel_kind
// Puts the box that suits best where it is taken next.
void parking_choose(struct fleet *fleet, unsigned wanted); // 1 << enum kernel_kind
// kernel.c: what was to be a job will not be one.
void kernel_plant_failed(struct fleet *fleet, uint64_t number, uint32_t id, const struct err *err);

// --- event.c

void followers_end(struct sandbox *s);
char *event_data(const char *fmt, ...) __attribute__((format(printf, 1, 2))); // malloc'ed

// --- reach.c

struct reach_wait; // something was asked of a guest that answers with sockets
// Sends what `send` sends with the id it is given, and remembers whom to tell. Sockets that the
// callee does not take (sets to -1) are closed.
typedef int (*reach_send_fn)(struct guest_peer guest, uint32_t id, void *data, struct err *err);
typedef void (*reach_fn)(void *data, struct guest_event *ev, const struct err *err);
void reach_ask(struct box_link *box, reach_send_fn send, reach_fn fn, void *data);
void reach_given(struct box_link *box, struct guest_event *ev);
void reach_lost(struct box_link *box); // all who wait are told
struct reach_wait **box_link_waits(struct box_link *box);

bool reach_is_needed(const struct sandbox *s); // its settings want listeners in its box
// It has a box: calls `done` (may be NULL) when what it needs is there, or cannot be; at once when
// it needs nothing. Not when the box goes before.
void reach_bind(struct sandbox *s, void (*done)(struct sandbox *s));
// Whether a box that runs can have listeners. No err also when it has gone: the next one can.
void reach_try(struct sandbox *s, void (*fn)(void *data, const struct err *err), void *data);
void reach_unbind(struct sandbox *s);  // its box goes
void reach_changed(struct sandbox *s); // its network settings are others now

// --- hand-link.c

void hand_link_free(struct hand_link *link); // all who wait are told

// --- env.c

// The strings of a JSON object as NAME=value, ends with NULL.
char **env_parse(const char *json, struct err *err);
