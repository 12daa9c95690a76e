// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "saved/freight-internal.h"
#include "saved/sync-records.h"
#include "store/sha256.h"
#include "wire/pack-msg.h"

enum {
    PIPE_BYTES = 1024 * 1024,
    LOOK_MS = 200, // how long a thread waits before it looks whether it shall stop
    PIECE = 128 * 1024,
};

struct freight {
    struct saved *saved;
    freight_fn fn;
    void *data;
    struct disk_working *working; // NULL: not begun, or ended
    unsigned left;                // parts that are not over: the process, the thread
    bool process_ended;
    struct err process_err;
    struct freight_result result;
    LIST_ENTRY(freight) all;
    // The thread's own, from its start to its end, and `result`.
    int pipe;   // our end of the one that cay-pack has the other end of
    int client; // where it comes from when it is hashed on the way
    int verdict_fd;
    char *key;
    bool is_in, has_sha256;
    uint64_t expect_size;
    uint8_t sha256[STORE_SHA256];
    int (*stored)(void *data, const struct freight_result *result, struct err *err);
    bool was_heard; // the verdict
    bool is_broken; // cay-pack has given up: its own words are the reason
    struct err thread_err, verdict_err;
    atomic_bool stop;
};

static int damaged(struct err *err, const char *what)
{
    (void)err_set(err, ERR_INTERNAL, "%s", what);
    err->sys_errno = EBADMSG;
    return -1;
}

// -- verdicts

static int read_failure(const char *text, struct err *err)
{
    char *end;
    unsigned long code = strtoul(text, &end, 10);
    if (end == text || *end != ' ' || code == ERR_NONE || code >= ERR_CODE_MAX)
        return err_set(err, ERR_INTERNAL, "cay-pack failed, and did not say why");
    (void)err_set(err, (enum err_code)code, "%s", end + 1);
    for (char *c = err->msg; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    }
    return -1;
}

int freight_read_verdict(const char *text, size_t len, struct freight_result *ret, struct err *err)
{
    char line[PACK_VERDICT_MAX + 1], entries[24], raw[24];
    struct err ignored;
    int used = 0;
    if (len == 0)
        return err_set(err, ERR_UNAVAILABLE, "cay-pack was ended before it was done");
    if (len >= sizeof line || text[len - 1] != '\n' || memchr(text, '\0', len) != NULL)
        return err_set(err, ERR_INTERNAL, "cay-pack did not say how it ended");
    memcpy(line, text, len);
    line[len - 1] = '\0';
    if (strncmp(line, "failed ", 7) == 0)
        return read_failure(line + 7, err);
    if (sscanf(line, "ok %23[0-9] %23[0-9]%n", entries, raw, &used) != 2 || line[used] != '\0' ||
        parse_u64(entries, 0, INT64_MAX, &ret->entries, &ignored) < 0 ||
        parse_u64(raw, 0, INT64_MAX, &ret->raw, &ignored) < 0)
        return err_set(err, ERR_INTERNAL, "cay-pack did not say how it ended");
    return 0;
}

// -- on a thread: pipes

// As read(2), 0 at the end.
static ssize_t read_some(struct freight *f, int fd, void *buf, size_t size, struct err *err)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (!atomic_load(&f->stop)) {
        ssize_t n = read(fd, buf, size);
        if (n >= 0)
            return n;
        if (errno != EAGAIN && errno != EINTR)
            return err_sys(err, errno, "read an archive");
        (void)poll(&p, 1, LOOK_MS);
    }
    (void)err_set(err, ERR_UNAVAILABLE, "it was stopped: the server ends, or nobody waits for it");
    err->sys_errno = ECANCELED;
    return -1;
}

static int write_all(struct freight *f, const void *data, size_t size, struct err *err)
{
    if (records_write(f->pipe, &f->stop, data, size, err) == 0)
        return 0;
    f->is_broken = err->sys_errno == EPIPE;
    return -1;
}

// -- on a thread: to the store

// The end of the pipe is the end of the archive only if cay-pack says so.
static ssize_t read_packed(void *data, void *buf, size_t size, struct err *err)
{
    struct freight *f = data;
    char text[PACK_VERDICT_MAX];
    ssize_t n = read_some(f, f->pipe, buf, size, err);
    if (n != 0)
        return n;
    ssize_t len = records_read_text(f->verdict_fd, &f->stop, text, sizeof text, err);
    if (len < 0)
        return -1;
    f->was_heard = len > 0;
    if (freight_read_verdict(text, (size_t)len, &f->result, &f->verdict_err) == 0)
        return 0;
    *err = f->verdict_err;
    f->is_broken = true;
    return -1;
}

static int put(struct freight *f, struct err *err)
{
    struct store_info info;
    const struct store_put config = {
        .key = f->key,
        .read = read_packed,
        .data = f,
        .size = -1,
        .stop = &f->stop,
    };
    if (store_put(f->saved->config.store, &config, &info, err) < 0) {
        if (err->code == ERR_NOT_FOUND)
            err->code = ERR_UNAVAILABLE; // not of the object: of where it was to be
        saved_blame_store(err);
        return -1;
    }
    f->result.size = info.size;
    memcpy(f->result.sha256, info.sha256, sizeof f->result.sha256);
    return f->stored != NULL ? f->stored(f->data, &f->result, err) : 0;
}

// -- on a thread: from the store

static int write_stored(void *data, const void *buf, size_t size, struct err *err)
{
    struct freight *f = data;
    f->result.size += size;
    if (f->result.size > f->expect_size)
        return damaged(err, "the object in the store is larger than it was");
    return write_all(f, buf, size, err);
}

static int get(struct freight *f, struct err *err)
{
    const struct store_get config = {
        .key = f->key,
        .sha256 = f->sha256,
        .write = write_stored,
        .data = f,
        .stop = &f->stop,
    };
    if (store_get(f->saved->config.store, &config, NULL, err) < 0) {
        saved_blame_store(err);
        return -1;
    }
    if (f->result.size != f->expect_size)
        return damaged(err, "the object in the store is shorter than it was");
    memcpy(f->result.sha256, f->sha256, sizeof f->result.sha256);
    return 0;
}

// -- on a thread: from a client, hashed on the way

static int pass_on(struct freight *f, struct err *err)
{
    auto_sha256 hash = {0};
    auto_free char *piece = malloc(PIECE);
    ssize_t n;
    if (piece == NULL || !sha256_init(&hash))
        return err_set(err, ERR_EXHAUSTED, "no memory for an archive");
    while ((n = read_some(f, f->client, piece, PIECE, err)) > 0) {
        sha256_add(&hash, piece, (size_t)n);
        f->result.size += (uint64_t)n;
        if (write_all(f, piece, (size_t)n, err) < 0)
            return -1;
    }
    if (n < 0)
        return -1;
    sha256_end(&hash, f->result.sha256);
    if (memcmp(f->result.sha256, f->sha256, sizeof f->sha256) != 0)
        return err_set(err, ERR_INVALID, "the archive has another SHA-256 than was said");
    return 0;
}

static void work(void *data)
{
    struct freight *f = data;
    int r = f->client >= 0 ? pass_on(f, &f->thread_err)
            : f->is_in     ? get(f, &f->thread_err)
                           : put(f, &f->thread_err);
    if (r < 0 && f->thread_err.code == ERR_NONE)
        (void)err_set(&f->thread_err, ERR_INTERNAL, "an archive got stuck");
    fd_close(TAKE_FD(f->pipe)); // cay-pack sees the end, or that nobody reads
    fd_close(TAKE_FD(f->client));
}

// -- on the loop: the end

// The process has ended: what it said is in the pipe.
static int hear(struct freight *f, struct err *err)
{
    char text[PACK_VERDICT_MAX];
    if (f->was_heard) {
        *err = f->verdict_err;
        return err->code == ERR_NONE ? 0 : -1;
    }
    ssize_t n = read(f->verdict_fd, text, sizeof text);
    if (n <= 0 && f->process_err.code != ERR_NONE) {
        *err = f->process_err;
        return -1;
    }
    return freight_read_verdict(text, n > 0 ? (size_t)n : 0, &f->result, err);
}

// Whoever failed first has the word: the store, unless it did because cay-pack had given up.
static int judge(struct freight *f, struct err *err)
{
    if (f->thread_err.code != ERR_NONE && !f->is_broken) {
        *err = f->thread_err;
        return -1;
    }
    if (hear(f, err) < 0) {
        if (f->is_in && err->code == ERR_EXHAUSTED)
            err->sys_errno = EDQUOT;
        return -1;
    }
    *err = f->process_err.code != ERR_NONE ? f->process_err : f->thread_err;
    return err->code == ERR_NONE ? 0 : -1;
}

static void part_over(struct freight *f)
{
    struct err err = {0};
    struct saved *saved = f->saved;
    if (--f->left > 0)
        return;
    int r = judge(f, &err);
    if (r < 0 && err.sys_errno == EREMOTEIO)
        saved->health.next_ns = 0; // what is told of it may not be true any more
    LIST_REMOVE(f, all);
    fd_close(f->pipe);
    fd_close(f->client);
    fd_close(f->verdict_fd);
    f->fn(f->data, r == 0 ? &f->result : NULL, r == 0 ? NULL : &err);
    free(f->key);
    free(f);
    saved_unref(saved);
}

static void on_thread_over(void *data)
{
    part_over(data);
}

static void on_process_over(void *data, const struct err *err)
{
    struct freight *f = data;
    f->process_ended = true;
    f->working = NULL;
    if (err != NULL)
        f->process_err = *err;
    part_over(f);
}

// What a pool did not begin has no thread_err: it is closing.
static void on_thread_maybe_over(void *data)
{
    struct freight *f = data;
    if (f->pipe >= 0 && f->thread_err.code == ERR_NONE)
        (void)err_set(&f->thread_err, ERR_UNAVAILABLE, "the server ends");
    fd_close(TAKE_FD(f->pipe));
    fd_close(TAKE_FD(f->client));
    on_thread_over(f);
}

// -- on the loop: the start

// Ours does not block; cay-pack's does.
static int make_pipe(int *ret_ours, int *ret_theirs, bool ours_reads, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(err, errno, "make a pipe");
    *ret_ours = ends[ours_reads ? 0 : 1];
    *ret_theirs = ends[ours_reads ? 1 : 0];
    (void)fd_set_nonblock(*ret_ours, 1);
    (void)fcntl(*ret_ours, F_SETPIPE_SZ, PIPE_BYTES); // smaller ones do, too
    return 0;
}

// The three of cay-pack, into fds, which are the caller's to close.
static int make_pipes(struct freight *f, const struct freight_config *config, int fds[3],
                      struct err *err)
{
    int at = f->is_in ? 0 : 1; // what moves
    bool has_thread = config->key != NULL || config->sha256 != NULL;
    fds[at] = config->pipe;
    if (has_thread && make_pipe(&f->pipe, &fds[at], !f->is_in, err) < 0)
        return -1;
    if (has_thread)
        f->client = config->key == NULL ? config->pipe : -1;
    return make_pipe(&f->verdict_fd, &fds[2], true, err);
}

static void start_process(struct freight *f, const struct freight_config *config, const int fds[3])
{
    const struct disk_job job = {
        .making = config->making,
        .work = config->work,
        .image = config->image,
        .args = config->args,
        .fds = {fds[0], fds[1], fds[2]},
    };
    f->left++;
    struct disk_working *working =
        fleet_disk_work(f->saved->config.fleet, &job, on_process_over, f);
    if (!f->process_ended)
        f->working = working;
}

static void nothing(void *data)
{
    (void)data;
}

// Without a thread, fn comes with the end of the process; when there is none any more it is to come
// later all the same, by way of a thread that has nothing to do.
static void start_parts(struct freight *f, const struct freight_config *config)
{
    int fds[3] = {-1, -1, -1};
    bool has_thread = config->key != NULL || config->sha256 != NULL;
    bool is_made = make_pipes(f, config, fds, &f->thread_err) == 0;
    f->left = 1;
    if (is_made)
        start_process(f, config, fds);
    for (int i = 0; i < 3; i++)
        fd_close(fds[i]);
    if (is_made && has_thread)
        store_pool_run(config->key != NULL ? f->saved->pool : f->saved->hashing, work,
                       on_thread_maybe_over, f);
    else if (!is_made || f->process_ended)
        store_pool_run(f->saved->pool, nothing, on_thread_over, f);
    else
        f->left--;
}

struct freight *freight_start(struct saved *saved, const struct freight_config *config,
                              freight_fn fn, void *data)
{
    struct freight *f = calloc(1, sizeof *f);
    if (f == NULL)
        abort();
    *f = (struct freight){
        .saved = saved,
        .fn = fn,
        .data = data,
        .pipe = -1,
        .client = -1,
        .verdict_fd = -1,
        .key = mem_copy_text(config->key),
        .is_in = config->work == WORK_UNPACK_DISK || config->work == WORK_UNPACK_TREE,
        .stored = config->stored,
    };
    if (config->expect != NULL) {
        f->expect_size = config->expect->size;
        memcpy(f->sha256, config->expect->sha256, sizeof f->sha256);
    } else if (config->sha256 != NULL) {
        memcpy(f->sha256, config->sha256, sizeof f->sha256);
    }
    saved_ref(saved);
    LIST_INSERT_HEAD(&saved->freights, f, all);
    start_parts(f, config);
    return f;
}

void freight_stop(struct freight *f)
{
    atomic_store(&f->stop, true);
    if (f->working != NULL)
        disk_working_stop(f->working);
}

static struct freight *first_going(const struct saved *saved)
{
    struct freight *f;
    LIST_FOREACH(f, &saved->freights, all)
    {
        if (!atomic_load(&f->stop))
            return f;
    }
    return NULL;
}

// From the beginning each time: one that was not begun is over at once, and not in the list.
void freights_stop(struct saved *saved)
{
    struct freight *f;
    while ((f = first_going(saved)) != NULL)
        freight_stop(f);
}
