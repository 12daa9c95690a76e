// SPDX-License-Identifier: Apache-2.0
// What stands behind contexts in their test: kernels are the other ends of pipes, which the case
// itself speaks on; rows are an array; a sandbox is hardly more than its loop.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "check.h"
#include "sandbox/context-internal.h"

enum { KIT_ROWS = 300, KIT_KERNELS = 300 };

struct kit_kernel { // the far ends
    struct job *job;
    struct kernel_start asked;
    int in, control, out, err;
    unsigned interrupts;
    bool killed;
};

static struct {
    uv_loop_t loop;
    struct fleet fleet;
    struct sandbox s;
    char box; // its address is the box's
    struct job *jobs;
    struct context_row rows[KIT_ROWS];
    unsigned writes; // of rows
    bool rows_fail;
    struct kit_kernel kernels[KIT_KERNELS];
    unsigned n;   // kernels asked for
    bool forked;  // one that is not ordinary, if that may be
    bool waits;   // `started` comes later, from the case
    bool no_tool; // no stripper of types
    int fds;
    int64_t clock_skew;
} kit;

// --- rows

static struct context_row *kit_row(const char *id)
{
    for (int i = 0; i < KIT_ROWS; i++) {
        if (kit.rows[i].id != NULL && strcmp(kit.rows[i].id, id) == 0)
            return &kit.rows[i];
    }
    return NULL;
}

void context_row_done(struct context_row *row)
{
    free(row->id);
    free(row->language);
    free(row->cwd);
    free(row->env);
    free(row->end);
    *row = (struct context_row){0};
}

int db_context_put(struct db *db, const struct context_row *row, struct err *err)
{
    (void)db;
    if (kit.rows_fail)
        return err_set(err, ERR_EXHAUSTED, "the disk is full");
    struct context_row *at = kit_row(row->id), copy = *row;
    for (int i = 0; at == NULL; i++) {
        assert_true(i < KIT_ROWS);
        if (kit.rows[i].id == NULL)
            at = &kit.rows[i];
    }
    copy.id = strdup(row->id);
    copy.language = strdup(row->language);
    copy.cwd = strdup(row->cwd);
    copy.env = strdup(row->env);
    copy.end = strdup(row->end);
    context_row_done(at);
    *at = copy;
    kit.writes++;
    return 0;
}

int db_context_each(struct db *db, int64_t sandbox, db_context_fn fn, void *data, struct err *err)
{
    (void)db;
    (void)sandbox;
    (void)err;
    for (int i = 0; i < KIT_ROWS; i++) {
        if (kit.rows[i].id != NULL && fn(data, &kit.rows[i]) != 0)
            break;
    }
    return 0;
}

int db_context_del(struct db *db, int64_t sandbox, const char *id, struct err *err)
{
    (void)db;
    (void)sandbox;
    (void)err;
    struct context_row *row = kit_row(id);
    if (row != NULL)
        context_row_done(row);
    return row != NULL;
}

int64_t db_now_ms(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000 + kit.clock_skew;
}

const char *end_reason_name(enum end_reason reason)
{
    static const char *const names[] = {"",       "exit", "signal",  "timeout",
                                        "killed", "oom",  "box_lost"};
    return names[reason];
}

// --- the sandbox

struct db *fleet_db(struct fleet *fleet)
{
    (void)fleet;
    return NULL;
}

uv_loop_t *fleet_loop(struct fleet *fleet)
{
    return fleet->config.loop;
}

int fleet_logs_fd(const struct fleet *fleet)
{
    return fleet->config.logs_fd;
}

void fleet_count_end(struct fleet *fleet, enum end_reason reason)
{
    (void)fleet;
    assert_true(reason > END_NONE && reason < END_REASON_MAX);
}

void fleet_time(struct fleet *fleet, enum fleet_timing which, int64_t ns)
{
    (void)fleet;
    assert_int_equal(which, TIMING_CELL);
    assert_true(ns >= 0);
}

void name_make(char *ret, size_t size, const char *prefix)
{
    static unsigned n;
    (void)snprintf(ret, size, "%smade%u", prefix, n++);
}

bool sandbox_id_valid(const char *id)
{
    return id[0] != '\0' && id[0] != '/';
}

struct sandbox *sandbox_ref(struct sandbox *s)
{
    s->refs++;
    return s;
}

void sandbox_unref(struct sandbox *s)
{
    assert_true(s->refs-- > 0);
}

void sandbox_busy(struct sandbox *s)
{
    s->busy++;
}

void sandbox_idle(struct sandbox *s)
{
    assert_true(s->busy-- > 0);
}

uint64_t sandbox_box(const struct sandbox *s)
{
    return s->box != NULL ? 7 : 0;
}

char *event_data(const char *fmt, ...)
{
    va_list ap;
    char *text = NULL;
    va_start(ap, fmt);
    assert_true(vasprintf(&text, fmt, ap) >= 0);
    va_end(ap);
    return text;
}

// --- languages

static const struct language kit_languages[] = {
    {.name = "python",     .kernel = KERNEL_PYTHON},
    {.name = "typescript", .kernel = KERNEL_NODE  },
    {.name = "c",          .kernel = KERNEL_ONCE  },
};

const struct language *language_find(const char *name)
{
    for (size_t i = 0; i < sizeof kit_languages / sizeof *kit_languages; i++) {
        if (strcmp(kit_languages[i].name, name) == 0)
            return &kit_languages[i];
    }
    return NULL;
}

int language_missing(const struct language *language, const struct sandbox *s, struct err *err)
{
    (void)s;
    return err_set(err, ERR_UNSUPPORTED, "add %s", language->name);
}

struct kernel_source kernel_source(enum kernel_kind kind)
{
    (void)kind;
    return (struct kernel_source){"source", 6};
}

struct kernel_source kernel_typescript_tool(void)
{
    return kit.no_tool ? (struct kernel_source){0} : (struct kernel_source){"strip", 5};
}

// --- jobs

static struct kit_kernel *kernel_of(const struct job *job)
{
    for (unsigned i = 0; i < kit.n; i++) {
        if (kit.kernels[i].job == job)
            return &kit.kernels[i];
    }
    fail_msg("no kernel");
    return NULL;
}

struct job *box_link_find(const struct box_link *box, uint32_t id)
{
    (void)box;
    struct job *job = kit.jobs;
    while (job != NULL && job->id != id)
        job = job->next;
    return job;
}

static void make_pipe(int *read_end, int *write_end)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    *read_end = ends[0];
    *write_end = ends[1];
}

int kernel_start(struct sandbox *s, const struct kernel_start *start,
                 const struct job_events *events, void *data, struct kernel_begun *ret,
                 struct err *err)
{
    if (s->box == NULL || s->state != STATE_RUNNING)
        return err_set(err, ERR_UNAVAILABLE, "the sandbox is not running");
    assert_true(kit.n < KIT_KERNELS);
    struct kit_kernel *k = &kit.kernels[kit.n];
    struct job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    *job = (struct job){.id = ++kit.n, .pid = 100, .events = events, .data = data};
    job->streams = (struct job_streams){-1, -1, -1, -1, -1};
    job->state = kit.waits ? JOB_ASKED : JOB_RUNNING;
    job->next = kit.jobs;
    kit.jobs = job;
    *k = (struct kit_kernel){.job = job, .asked = *start};
    make_pipe(&k->in, &job->streams.control_in);
    make_pipe(&job->streams.control_out, &k->control);
    make_pipe(&job->streams.out, &k->out);
    make_pipe(&job->streams.err, &k->err);
    bool ordinary = start->ordinary || !kit.forked;
    *ret = (struct kernel_begun){
        .job = job, .wants_boot = ordinary, .is_started = !kit.waits, .is_ordinary = ordinary};
    return 0;
}

uint32_t job_id(const struct job *job)
{
    return job->id;
}

int job_pid(const struct job *job)
{
    return job->pid;
}

struct job_streams *job_streams(struct job *job)
{
    return &job->streams;
}

int job_signal(struct job *job, int sig, struct err *err)
{
    (void)err;
    assert_int_equal(sig, SIGINT);
    assert_int_equal(job->state, JOB_RUNNING);
    kernel_of(job)->interrupts++;
    return 0;
}

void job_kill(struct job *job)
{
    if (job->state != JOB_ENDED)
        kernel_of(job)->killed = true;
}

void job_forget(struct job *job)
{
    (void)job;
}

void job_free(struct job *job)
{
    if (job == NULL)
        return;
    for (struct job **p = &kit.jobs; *p != NULL; p = &(*p)->next) {
        if (*p == job) {
            *p = job->next;
            break;
        }
    }
    struct kit_kernel *k = kernel_of(job);
    const int fds[] = {job->streams.out,
                       job->streams.err,
                       job->streams.control_in,
                       job->streams.control_out,
                       k->in,
                       k->control,
                       k->out,
                       k->err};
    for (int i = 0; i < 8; i++)
        fd_close(fds[i]);
    k->job = NULL;
    k->in = k->control = k->out = k->err = -1;
    free(job);
}

struct job *job_adopt(struct sandbox *s, uint32_t id, const struct job_events *events, void *data)
{
    (void)s;
    struct job *job = box_link_find(NULL, id);
    if (job != NULL) {
        job->events = events;
        job->data = data;
    }
    return job;
}

// --- time

static void kit_turn(void)
{
    (void)uv_run(&kit.loop, UV_RUN_NOWAIT);
}

static void kit_turns(void)
{
    for (int i = 0; i < 20; i++)
        kit_turn();
}

// Until it is so; a minute is a hang.
#define KIT_AWAIT(condition)                                                                       \
    do {                                                                                           \
        int64_t kit_end = clock_ns() + 60 * NS_PER_S;                                              \
        while (!(condition)) {                                                                     \
            kit_turn();                                                                            \
            if (clock_ns() > kit_end)                                                              \
                fail_msg("waited in vain for %s", #condition);                                     \
        }                                                                                          \
    } while (0)

// --- a kernel's side

static void kit_say_to(int fd, const char *text, size_t len)
{
    for (size_t at = 0; at < len; kit_turn()) {
        ssize_t n = write(fd, text + at, len - at);
        at += n > 0 ? (size_t)n : 0;
    }
}

static void kit_say(unsigned i, const char *type, unsigned cell, const char *payload)
{
    auto_buf frame;
    buf_init(&frame, 64u * 1024 * 1024);
    (void)frame_put(&frame, type, cell, payload, strlen(payload));
    kit_say_to(kit.kernels[i].control, frame.data, frame.len);
}

static void kit_print(unsigned i, const char *text)
{
    kit_say_to(kit.kernels[i].out, text, strlen(text));
}

// All it was told: "TYPE CELL PAYLOAD|...", NULs as spaces.
static const char *kit_heard(unsigned i)
{
    static char text[256 * 1024];
    struct frame_reader reader;
    struct frame frame;
    size_t at = 0;
    char *to = NULL;
    size_t room = 0;
    frame_reader_init(&reader);
    kit_turns();
    for (ssize_t n = 1; n > 0;) {
        assert_int_equal(frame_reader_reserve(&reader, &to, &room), 0);
        n = read(kit.kernels[i].in, to, room);
        if (n > 0)
            frame_reader_commit(&reader, (size_t)n);
        while (frame_reader_next(&reader, &frame) > 0) {
            for (size_t k = 0; k < frame.len; k++)
                frame.bytes[k] = frame.bytes[k] == '\0' ? ' ' : frame.bytes[k];
            at += (size_t)snprintf(text + at, sizeof text - at, "%s %u %.*s|", frame.type,
                                   frame.cell, (int)(frame.len < 60 ? frame.len : 60), frame.bytes);
        }
    }
    text[at] = '\0';
    frame_reader_done(&reader);
    return text;
}

static void kit_open(unsigned i)
{
    kit_say(i, "ready", 0, "{\"language\":\"python\",\"version\":\"3\"}");
    kit_say(i, "opened", 0, "{}");
    kit_turns();
}

static void kit_exit(unsigned i, struct job_end end)
{
    struct job *job = kit.kernels[i].job;
    job->state = JOB_ENDED;
    job->events->exited(job->data, &end);
    kit_turns();
}

// --- a client's side

struct kit_run {
    struct cell *cell; // held
    struct err err;
    bool told;
    struct cell_follower *follower;
    unsigned news;
};

static void on_news(void *data)
{
    struct kit_run *run = data;
    run->news++;
}

static void on_run(void *data, struct cell *cell, const struct err *err)
{
    struct kit_run *run = data;
    assert_false(run->told);
    assert_true((cell == NULL) != (err == NULL));
    run->told = true;
    if (err != NULL) {
        run->err = *err;
        return;
    }
    run->cell = cell_ref(cell);
    run->follower = cell_follow(cell, on_news, run);
}

static struct kit_run *kit_cell(const char *context, const char *code, int64_t timeout_ms)
{
    struct kit_run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    bool is_once = context != NULL && strcmp(context, "c") == 0;
    struct cell_request request = {
        .code = code,
        .len = strlen(code),
        .context = is_once ? NULL : context,
        .language = language_find(is_once ? "c" : "python"),
        .timeout_ms = timeout_ms,
    };
    cell_run(&kit.s, &request, on_run, run);
    return run;
}

static void kit_done(struct kit_run *run)
{
    cell_follower_free(run->follower);
    cell_unref(run->cell);
    free(run);
}

// Its events so far: "o(text)e(text)r({...})d({...})x({...})." as one text.
static const char *kit_events(const struct kit_run *run)
{
    static char text[64 * 1024];
    static const char letters[] = "oerdx.";
    size_t at = 0;
    struct cell_event event;
    struct err err = {0};
    text[0] = '\0';
    for (uint64_t n = 0; cell_event(run->cell, n, &event, &err) == 1; n++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%c", letters[event.type]);
        if (event.type == CELL_END)
            break;
        at += (size_t)snprintf(text + at, sizeof text - at, "(%.*s)",
                               (int)(event.len < 400 ? event.len : 400), event.bytes);
    }
    return text;
}

#define KIT_EVENTS(run, expected) assert_string_equal(kit_events(run), expected)

// Runs a cell to its end in a context that is open: kernel `i`, cell `number`.
static void kit_finish(unsigned i, unsigned number, unsigned count)
{
    char payload[64];
    (void)snprintf(payload, sizeof payload, "{\"count\":%u}", count);
    kit_say(i, "done", number, payload);
    kit_turns();
}

struct kit_made {
    struct context *c;
    struct err err;
    bool told;
};

static void on_made(void *data, struct context *c, const struct err *err)
{
    struct kit_made *made = data;
    assert_false(made->told);
    assert_true((c == NULL) != (err == NULL));
    made->told = true;
    made->c = c;
    if (err != NULL)
        made->err = *err;
}

static struct kit_made kit_create(const char *id, const char *language)
{
    static struct kit_made made;
    made = (struct kit_made){0};
    struct context_settings settings = {.id = id, .language = language_find(language)};
    unsigned before = kit.n;
    context_create(&kit.s, &settings, on_made, &made);
    if (!made.told) {
        assert_int_equal(kit.n, before + 1);
        kit_open(before);
    }
    assert_true(made.told);
    return made;
}

// --- a case

static int kit_begin(void **state)
{
    (void)state;
    memset(&kit, 0, sizeof kit);
    assert_int_equal(uv_loop_init(&kit.loop), 0); // the first one opens what libuv keeps for ever
    assert_int_equal(uv_loop_close(&kit.loop), 0);
    kit.fds = check_fds();
    assert_int_equal(uv_loop_init(&kit.loop), 0);
    (void)signal(SIGPIPE, SIG_IGN);
    kit.fleet.config.loop = &kit.loop;
    kit.fleet.config.logs_fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    kit.s.fleet = &kit.fleet;
    kit.s.row.number = 1;
    kit.s.row.id = (char *)(uintptr_t) "test";
    static char *no_env[] = {NULL};
    kit.s.env = no_env;
    kit.s.refs = 1;
    kit.s.box = (struct box_link *)(void *)&kit.box;
    kit.s.state = STATE_RUNNING;
    return 0;
}

// The box goes: as bind_detach has it.
static void kit_lose(enum sandbox_state state, enum end_reason reason)
{
    kit.s.state = state;
    while (kit.jobs != NULL) {
        struct job *job = kit.jobs;
        job->state = JOB_ENDED;
        job->events->lost(job->data, &(struct job_end){.reason = reason, .exit_code = -1});
        assert_true(kit.jobs != job); // its owner has let go of it
    }
    kit.s.box = NULL;
    contexts_forget(&kit.s);
    kit.s.state = STATE_SLEEPING;
    assert_null(kit.s.contexts);
}

static int kit_end(void **state)
{
    (void)state;
    kit_lose(STATE_STOPPING, END_KILLED);
    (void)uv_run(&kit.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&kit.loop), 0);
    for (int i = 0; i < KIT_ROWS; i++)
        context_row_done(&kit.rows[i]);
    fd_close(kit.fleet.config.logs_fd);
    assert_int_equal(kit.s.busy, 0);
    assert_int_equal(kit.s.refs, 1);
    assert_int_equal(check_fds(), kit.fds);
    return 0;
}

#define KIT_CASE(name) cmocka_unit_test_setup_teardown(name, kit_begin, kit_end)
