// SPDX-License-Identifier: Apache-2.0
// A log against a model that knows the whole stream: byte `i` of it is byte_at(i). Whatever was
// written, in whatever pieces, with the file closed and opened in between, what can be read is that
// stream less one hole, and the hole is where it may be.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "check.h"
#include "sandbox/log.h"

enum { KIB = 1024, MIB = 1024 * KIB, CHUNK_MAX = 64 * KIB, NUMBER = 7 };

// --- a file system that makes no holes, when told to

static bool no_holes;
int __real_fallocate64(int fd, int mode, off_t offset, off_t len);
int __wrap_fallocate64(int fd, int mode, off_t offset, off_t len);
int __wrap_fallocate64(int fd, int mode, off_t offset, off_t len)
{
    if (!no_holes)
        return __real_fallocate64(fd, mode, offset, len);
    errno = EOPNOTSUPP;
    return -1;
}

static bool no_splice;
ssize_t __real_splice(int in, off_t *in_at, int out, off_t *out_at, size_t len, unsigned flags);
ssize_t __wrap_splice(int in, off_t *in_at, int out, off_t *out_at, size_t len, unsigned flags);
ssize_t __wrap_splice(int in, off_t *in_at, int out, off_t *out_at, size_t len, unsigned flags)
{
    if (!no_splice)
        return __real_splice(in, in_at, out, out_at, len, flags);
    errno = EINVAL;
    return -1;
}

// --- the model

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

// With long runs of zeros, which must not be taken for the hole.
static uint8_t byte_at(uint64_t i)
{
    if (i / 70000 % 3 == 1)
        return 0;
    uint64_t h = (i + 1) * 0x9e3779b97f4a7c15u;
    return (uint8_t)(h >> 56);
}

struct bench {
    char dir[64];
    int dirfd;
    int pipe[2];
    uint64_t cap;
    struct bytelog *log;
    uint64_t total; // what was written to the log
};

static void open_log(struct bench *b)
{
    struct err err = {0};
    assert_int_equal(
        bytelog_open(b->dirfd, NUMBER, LOG_STDOUT, b->cap, /*make=*/true, &b->log, &err), 0);
}

static void reopen_log(struct bench *b)
{
    bytelog_free(b->log);
    open_log(b);
}

static void bench_init(struct bench *b, uint64_t cap)
{
    *b = (struct bench){.dir = "/tmp/bytelog-XXXXXX", .cap = cap};
    assert_non_null(mkdtemp(b->dir));
    b->dirfd = open(b->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(b->dirfd >= 0);
    assert_int_equal(pipe2(b->pipe, O_CLOEXEC | O_NONBLOCK), 0);
    open_log(b);
    if (b->cap < BYTELOG_CAP_MIN)
        b->cap = BYTELOG_CAP_MIN;
}

static void bench_done(struct bench *b)
{
    bytelog_free(b->log);
    bytelog_remove(b->dirfd, NUMBER);
    fd_close(b->pipe[0]);
    fd_close(b->pipe[1]);
    fd_close(b->dirfd);
    assert_int_equal(rmdir(b->dir), 0); // bytelog_remove has left nothing
}

static size_t fill_pipe(struct bench *b, size_t len)
{
    static uint8_t data[CHUNK_MAX];
    for (size_t i = 0; i < len; i++)
        data[i] = byte_at(b->total + i);
    ssize_t n = write(b->pipe[1], data, len);
    assert_true(n > 0);
    return (size_t)n;
}

static void push(struct bench *b, size_t len, size_t at_once)
{
    size_t sent = fill_pipe(b, len);
    size_t got = 0;
    while (got < sent) {
        ssize_t n = bytelog_splice(b->log, b->pipe[0], at_once);
        assert_true(n > 0);
        got += (size_t)n;
    }
    assert_int_equal(got, sent);
    assert_int_equal(bytelog_splice(b->log, b->pipe[0], at_once), -EAGAIN);
    b->total += sent;
}

static void append(struct bench *b, size_t len)
{
    static uint8_t data[CHUNK_MAX];
    for (size_t i = 0; i < len; i++)
        data[i] = byte_at(b->total + i);
    assert_int_equal(bytelog_append(b->log, data, len), 0);
    b->total += len;
}

// Reads from `offset` to the end in pieces and compares; how many bytes there were.
static uint64_t check_from(struct bench *b, uint64_t offset, size_t piece)
{
    static uint8_t data[CHUNK_MAX];
    uint64_t from, to, at, seen = 0;
    bytelog_gap(b->log, &from, &to);
    for (;;) {
        ssize_t n = bytelog_read(b->log, offset, data, piece, &at);
        assert_true(n >= 0);
        bool inside = offset >= from && offset < to;
        assert_int_equal(at, inside ? to : offset);
        if (n == 0)
            return seen;
        for (ssize_t i = 0; i < n; i++) {
            if (data[i] != byte_at(at + (uint64_t)i))
                fail_msg("byte %llu is wrong", (unsigned long long)at + (unsigned long long)i);
        }
        offset = at + (uint64_t)n;
        seen += (uint64_t)n;
    }
}

// What the header promises about the hole. `cap` was the same all along.
static void check_gap(struct bench *b)
{
    uint64_t from, to;
    bytelog_gap(b->log, &from, &to);
    uint64_t gone = to - from;
    assert_true(from <= to && to <= b->total);
    if (b->total < b->cap)
        assert_int_equal(gone, 0);
    assert_true(b->total - gone <= b->cap + b->cap / 8);
    if (gone == 0)
        return;
    assert_true(from >= b->cap / 8 && from <= BYTELOG_HEAD);
    assert_true(b->total - to >= b->cap / 2);
    assert_true(b->total - gone >= b->cap - 64 * KIB);
}

static void check_disk(struct bench *b)
{
    struct stat st;
    assert_int_equal(fstatat(b->dirfd, "7.out", &st, 0), 0);
    assert_int_equal(st.st_size, b->total);
    assert_true((uint64_t)st.st_blocks * 512 <= b->cap + b->cap / 8 + 128 * KIB);
}

static void check_whole(struct bench *b)
{
    uint64_t from, to;
    assert_int_equal(bytelog_size(b->log), b->total);
    assert_int_equal(bytelog_lost(b->log), 0);
    bytelog_gap(b->log, &from, &to);
    assert_int_equal(check_from(b, 0, CHUNK_MAX), b->total - (to - from));
}

static void run(uint64_t cap, uint64_t until, uint64_t with_seed)
{
    struct bench b;
    seed = with_seed;
    bench_init(&b, cap);
    while (b.total < until) {
        size_t len = 1 + draw(draw(4) == 0 ? CHUNK_MAX : 3000);
        if (draw(16) == 0)
            append(&b, len);
        else
            push(&b, len, 1 + draw(draw(2) == 0 ? 100000 : 5000));
        if (draw(20) == 0)
            reopen_log(&b);
        check_gap(&b);
        if (draw(10) == 0)
            (void)check_from(&b, b.total - draw(b.total < 9000 ? b.total : 9000), 1 + draw(4000));
        if (draw(200) == 0)
            check_whole(&b);
    }
    check_whole(&b);
    check_disk(&b);
    reopen_log(&b);
    check_whole(&b);
    bench_done(&b);
}

CHECK_CASE(random_pieces_small_cap)
{
    for (uint64_t s = 1; s <= 6; s++)
        run(64 * KIB, 700 * KIB, s * 7919);
}

CHECK_CASE(random_pieces_odd_cap)
{
    run(100001, 800 * KIB, 31337);
    run(1, 300 * KIB, 4711); // as the smallest
}

CHECK_CASE(random_pieces_large_cap)
{
    run(2 * MIB, 9 * MIB, 99);
    run(16 * MIB, 5 * MIB, 100);
}

CHECK_CASE(without_splice)
{
    no_splice = true;
    run(64 * KIB, 300 * KIB, 12);
    no_splice = false;
}

// Every size around every mark: one byte before, at, and after, reopened there.
CHECK_CASE(marks)
{
    struct bench b;
    bench_init(&b, 64 * KIB);
    const uint64_t step = 8 * KIB;
    for (uint64_t mark = 64 * KIB; mark <= 64 * KIB + 5 * step; mark += step) {
        while (b.total < mark - 1)
            push(&b, mark - 1 - b.total < 5000 ? (size_t)(mark - 1 - b.total) : 5000, 5000);
        for (int i = 0; i < 3; i++) {
            uint64_t from, to, again_from, again_to;
            bytelog_gap(b.log, &from, &to);
            check_gap(&b);
            check_whole(&b);
            reopen_log(&b);
            bytelog_gap(b.log, &again_from, &again_to);
            assert_int_equal(from, again_from);
            assert_int_equal(to, again_to);
            check_whole(&b);
            push(&b, 1, 1);
        }
    }
    bench_done(&b);
}

// A crash after the write and before the hole was made: the bytes are there, and are not read.
CHECK_CASE(hole_that_was_not_made)
{
    struct bench b;
    struct stat st;
    bench_init(&b, 64 * KIB);
    while (b.total < 200 * KIB)
        append(&b, 10000);
    uint64_t from, to, again_from, again_to;
    bytelog_gap(b.log, &from, &to);
    assert_true(to > from);
    int fd = openat(b.dirfd, "7.out", O_RDWR | O_CLOEXEC);
    char junk[4096];
    memset(junk, 'x', sizeof junk);
    for (uint64_t at = from; at < to; at += sizeof junk)
        assert_int_equal(pwrite(fd, junk, sizeof junk, (off_t)at), sizeof junk);
    reopen_log(&b);
    bytelog_gap(b.log, &again_from, &again_to);
    assert_int_equal(from, again_from);
    assert_int_equal(to, again_to);
    check_whole(&b);
    assert_int_equal(fstat(fd, &st), 0);
    assert_true((uint64_t)st.st_blocks * 512 <= 64 * KIB + 8 * KIB + 32 * KIB);
    fd_close(fd);
    bench_done(&b);
}

// The cap is configuration: it changes between two openings, and no zero of a hole is read.
CHECK_CASE(other_caps)
{
    static const uint64_t caps[] = {64 * KIB, MIB, 128 * KIB, 4 * MIB, 100000, 2 * MIB, 64 * KIB};
    struct bench b;
    seed = 5;
    bench_init(&b, caps[0]);
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        b.cap = caps[i];
        reopen_log(&b);
        check_whole(&b);
        for (uint64_t until = b.total + caps[i] / 2 + draw(caps[i]); b.total < until;)
            push(&b, 1 + draw(60000), 1 + draw(60000));
        check_whole(&b);
    }
    bench_done(&b);
}

CHECK_CASE(stops_at_the_cap_without_holes)
{
    struct bench b;
    bench_init(&b, 64 * KIB);
    no_holes = true;
    for (uint64_t sent = 0; sent < 200 * KIB;) {
        size_t n = fill_pipe(&b, 3000);
        for (size_t got = 0; got < n;) {
            ssize_t r = bytelog_splice(b.log, b.pipe[0], 1000);
            assert_true(r > 0);
            got += (size_t)r;
        }
        sent += n;
        b.total = bytelog_size(b.log);
        assert_int_equal(bytelog_size(b.log) + bytelog_lost(b.log), sent);
        assert_int_equal(bytelog_append(b.log, "", 0), 0);
    }
    assert_int_equal(bytelog_size(b.log), 64 * KIB);
    assert_int_equal(check_from(&b, 0, 5000), 64 * KIB); // all of the head, no hole
    reopen_log(&b);
    assert_int_equal(check_from(&b, 0, 5000), 64 * KIB);
    assert_int_equal(bytelog_append(b.log, "more", 4), 0);
    assert_int_equal(bytelog_lost(b.log), 4);
    assert_int_equal(bytelog_size(b.log), 64 * KIB);
    no_holes = false;
    bench_done(&b);
}

// A file that cannot grow stands for a full disk: the pipe is emptied all the same, and when there
// is room again the log goes on.
CHECK_CASE(drops_when_it_cannot_write)
{
    struct bench b;
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    bench_init(&b, MIB);
    push(&b, 20000, 20000);
    small = (struct rlimit){.rlim_cur = 30000, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    size_t sent = fill_pipe(&b, 50000);
    size_t got = 0;
    for (ssize_t n; (n = bytelog_splice(b.log, b.pipe[0], 7000)) > 0;)
        got += (size_t)n;
    int appended = bytelog_append(b.log, "more", 4);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(appended, -EFBIG);
    assert_int_equal(got, sent);
    b.total = bytelog_size(b.log);
    assert_int_equal(b.total, 30000);
    assert_int_equal(bytelog_lost(b.log), 20000 + sent - 30000 + 4);
    push(&b, 5000, 5000);
    assert_int_equal(check_from(&b, 0, 4000), 35000);
    bench_done(&b);
}

CHECK_CASE(end_and_errors)
{
    struct bench b;
    struct err err = {0};
    struct bytelog *none = NULL;
    int fds = check_fds();
    bench_init(&b, MIB);
    push(&b, 10, 10);
    (void)fill_pipe(&b, 10);
    fd_close(TAKE_FD(b.pipe[1]));
    assert_int_equal(bytelog_splice(b.log, b.pipe[0], 100), 10);
    assert_int_equal(bytelog_splice(b.log, b.pipe[0], 100), 0);
    assert_int_equal(bytelog_splice(b.log, -1, 100), -EBADF);
    uint64_t at;
    char c;
    assert_int_equal(bytelog_read(b.log, 20, &c, 1, &at), 0);
    assert_int_equal(bytelog_read(b.log, UINT64_MAX, &c, 1, &at), 0);
    assert_int_equal(bytelog_open(b.dirfd, 8, LOG_STDERR, MIB, /*make=*/false, &none, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(symlinkat("7.out", b.dirfd, "9.out"), 0);
    assert_int_equal(bytelog_open(b.dirfd, 9, LOG_STDOUT, MIB, /*make=*/true, &none, &err), -1);
    bytelog_remove(b.dirfd, 9);
    assert_int_equal(mkfifoat(b.dirfd, "9.err", 0600), 0);
    assert_int_equal(bytelog_open(b.dirfd, 9, LOG_STDERR, MIB, /*make=*/true, &none, &err), -1);
    bytelog_remove(b.dirfd, 9);
    assert_null(none);
    bytelog_free(NULL);
    bench_done(&b);
    assert_int_equal(check_fds(), fds);
}

CHECK_MAIN(cmocka_unit_test(random_pieces_small_cap), cmocka_unit_test(random_pieces_odd_cap),
           cmocka_unit_test(random_pieces_large_cap), cmocka_unit_test(without_splice),
           cmocka_unit_test(marks), cmocka_unit_test(hole_that_was_not_made),
           cmocka_unit_test(other_caps), cmocka_unit_test(stops_at_the_cap_without_holes),
           cmocka_unit_test(drops_when_it_cannot_write), cmocka_unit_test(end_and_errors))
