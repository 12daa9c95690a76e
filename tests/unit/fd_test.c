// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "check.h"

static int is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static int memory_file(const char *text)
{
    int fd = memfd_create("fd_test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

CHECK_CASE(auto_fd_closes_and_take_hands_over)
{
    int kept = -1, dropped = -1;
    {
        auto_fd a = memory_file("");
        auto_fd b = memory_file("");
        dropped = a;
        kept = TAKE_FD(b);
        assert_int_equal(b, -1);
    }
    assert_false(is_open(dropped));
    assert_true(is_open(kept));
    fd_close(kept);
    assert_false(is_open(kept));
}

CHECK_CASE(close_keeps_errno)
{
    errno = ENOTTY;
    fd_close(-1);
    fd_close(987654);
    assert_int_equal(errno, ENOTTY);
}

CHECK_CASE(nonblock_on_and_off)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    auto_fd out = ends[0], in = ends[1];
    char c;
    assert_int_equal(fd_set_nonblock(out, 1), 0);
    assert_int_equal(fd_read_all(out, &c, 1), -EAGAIN);
    assert_int_equal(fd_set_nonblock(out, 0), 0);
    assert_int_equal(fcntl(out, F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(fd_set_nonblock(-1, 1), -EBADF);
    assert_true(is_open(in));
}

// A writer that writes `step` bytes at a time; the reader must see all of it, whatever it asks for.
static void write_in_steps(int fd, const char *text, size_t len, size_t step)
{
    for (size_t at = 0; at < len; at += step) {
        size_t n = len - at < step ? len - at : step;
        if (fd_write_all(fd, text + at, n) < 0)
            _exit(1);
    }
    _exit(0);
}

CHECK_CASE(read_all_at_every_split)
{
    static const char text[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    const size_t len = sizeof text - 1;
    for (size_t step = 1; step <= len; step++) {
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        auto_fd out = ends[0];
        (void)fflush(NULL);
        pid_t pid = fork();
        if (pid == 0)
            write_in_steps(ends[1], text, len, step);
        fd_close(ends[1]);
        char got[64];
        size_t first = step / 2;
        assert_int_equal(fd_read_all(out, got, first), first);
        assert_int_equal(fd_read_all(out, got + first, sizeof got - first), len - first);
        assert_memory_equal(got, text, len);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

// More than a pipe holds, so that write(2) takes parts.
CHECK_CASE(write_all_through_a_full_pipe)
{
    enum { LEN = 1 << 20 };
    char *data = malloc(LEN), *got = malloc(LEN);
    assert_non_null(data);
    assert_non_null(got);
    for (size_t i = 0; i < LEN; i++)
        data[i] = (char)(i * 7 + i / 251);
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(fd_write_all(ends[1], data, LEN) == 0 ? 0 : 1);
    fd_close(ends[1]);
    assert_int_equal(fd_read_all(ends[0], got, LEN), LEN);
    assert_memory_equal(got, data, LEN);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    fd_close(ends[0]);
    free(data);
    free(got);
}

CHECK_CASE(bad_descriptors_are_errors)
{
    char c;
    assert_int_equal(fd_write_all(-1, "x", 1), -EBADF);
    assert_int_equal(fd_read_all(-1, &c, 1), -EBADF);
    assert_int_equal(fd_write_all(-1, "x", 0), 0);
}

CHECK_CASE(files_whole)
{
    char dir[] = "/tmp/fd_test.XXXXXX", data[8];
    assert_non_null(mkdtemp(dir));
    auto_fd dirfd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(fd_write_file(dirfd, "limit", "1"), -ENOENT);
    auto_fd file = openat(dirfd, "limit", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_int_equal(fd_write_file(dirfd, "limit", "1234567"), 0);
    assert_int_equal(fd_read_file(dirfd, "limit", data, sizeof data), 7);
    assert_string_equal(data, "1234567");
    // The file's size leaves no place for the NUL.
    assert_int_equal(fd_read_file(dirfd, "limit", data, 7), -EFBIG);
    assert_int_equal(fd_read_file(dirfd, "limit", data, 0), -EFBIG);
    assert_int_equal(ftruncate(file, 0), 0);
    assert_int_equal(fd_read_file(dirfd, "limit", data, 1), 0);
    assert_string_equal(data, "");
    assert_int_equal(fd_read_file(dirfd, "missing", data, sizeof data), -ENOENT);
    assert_int_equal(unlinkat(dirfd, "limit", 0), 0);
    assert_int_equal(rmdir(dir), 0);
}

CHECK_CASE(file_that_refuses)
{
    assert_int_equal(fd_write_file(AT_FDCWD, "/dev/full", "x"), -ENOSPC);
}

CHECK_MAIN(cmocka_unit_test(auto_fd_closes_and_take_hands_over),
           cmocka_unit_test(close_keeps_errno), cmocka_unit_test(nonblock_on_and_off),
           cmocka_unit_test(read_all_at_every_split),
           cmocka_unit_test(write_all_through_a_full_pipe),
           cmocka_unit_test(bad_descriptors_are_errors), cmocka_unit_test(files_whole),
           cmocka_unit_test(file_that_refuses))
