// SPDX-License-Identifier: Apache-2.0
// A terminal read into its log by readers that are killed at any moment: nothing is missing, and
// nothing is there twice.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <termios.h>
#include <time.h>

#include "base/fd.h"
#include "check.h"
#include "sandbox/spool.h"

enum { KIB = 1024, STREAM = 16 * 1024 * KIB, NUMBER = 3, CAP = 32 * 1024 * KIB };

static char dir[64];
static int dirfd_;

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/cay-spool-XXXXXX");
    assert_non_null(mkdtemp(dir));
    dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(dirfd_ >= 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bytelog_remove(dirfd_, NUMBER);
    fd_close(dirfd_);
    assert_int_equal(rmdir(dir), 0); // nothing else was left in it
    return 0;
}

static struct bytelog *open_log(void)
{
    struct err err = {0};
    struct bytelog *log = NULL;
    assert_int_equal(bytelog_open(dirfd_, NUMBER, LOG_STDOUT, CAP, true, &log, &err), 0);
    return log;
}

static struct spool *open_spool(struct bytelog *log)
{
    struct err err = {0};
    struct spool *spool = NULL;
    assert_int_equal(spool_open(dirfd_, NUMBER, log, &spool, &err), 0);
    return spool;
}

static void open_tty(int *master, int *slave)
{
    struct termios raw;
    assert_int_equal(openpty(master, slave, NULL, NULL, NULL), 0);
    assert_int_equal(tcgetattr(*slave, &raw), 0);
    cfmakeraw(&raw);
    assert_int_equal(tcsetattr(*slave, TCSANOW, &raw), 0);
    assert_int_equal(fd_set_nonblock(*master, 1), 0);
}

static unsigned char byte_at(size_t i)
{
    return (unsigned char)((i * 2654435761u >> 13) % 250);
}

static pid_t start_writer(int slave)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    static unsigned char all[STREAM];
    for (size_t i = 0; i < STREAM; i++)
        all[i] = byte_at(i);
    _exit(fd_write_all(slave, all, STREAM) == 0 ? 0 : 1);
}

static pid_t start_reader(int master, int slave)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    fd_close(slave); // else it never ends
    struct bytelog *log = open_log();
    struct spool *spool = open_spool(log);
    for (;;) {
        struct pollfd wait = {.fd = master, .events = POLLIN};
        ssize_t n = spool_move(spool, log, master);
        if (n == -EAGAIN)
            (void)poll(&wait, 1, 100);
        else if (n <= 0)
            _exit(0);
    }
}

static uint64_t log_size(void)
{
    struct bytelog *log = open_log();
    uint64_t size = bytelog_size(log);
    bytelog_free(log);
    return size;
}

static void check_stream(void)
{
    static unsigned char got[64 * KIB];
    struct bytelog *log = open_log();
    struct spool *spool = open_spool(log); // the last reader was killed too
    assert_int_equal(bytelog_size(log), STREAM);
    for (size_t at = 0; at < STREAM;) {
        uint64_t from;
        ssize_t n = bytelog_read(log, at, got, sizeof got, &from);
        assert_true(n > 0 && from == at);
        for (ssize_t i = 0; i < n; i++) {
            if (got[i] != byte_at(at + (size_t)i))
                fail_msg("byte %zu is wrong", at + (size_t)i);
        }
        at += (size_t)n;
    }
    spool_free(spool);
    bytelog_free(log);
}

static void test_killed_at_any_moment(void **state)
{
    int master, slave;
    unsigned kills = 0;
    (void)state;
    open_tty(&master, &slave);
    pid_t writer = start_writer(slave);
    for (uint64_t size = 0; size + 4 * KIB < STREAM && kills < 20000; kills++) {
        pid_t reader = start_reader(master, slave);
        const struct timespec wait = {.tv_nsec = 1000000 + (kills * 7919 % 3000) * 1000};
        (void)nanosleep(&wait, NULL);
        (void)kill(reader, SIGKILL);
        assert_int_equal(waitpid(reader, NULL, 0), reader);
        size = log_size();
    }
    assert_true(kills > 10);
    pid_t reader = start_reader(master, slave);
    int status;
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);
    fd_close(slave);
    assert_int_equal(waitpid(reader, NULL, 0), reader); // it has read to the end
    fd_close(master);
    check_stream();
}

static void test_what_was_read_is_found_again(void **state)
{
    int master, slave;
    (void)state;
    open_tty(&master, &slave);
    struct bytelog *log = open_log();
    struct spool *spool = open_spool(log);
    assert_int_equal(spool_move(spool, log, master), -EAGAIN);
    assert_int_equal(write(slave, "first", 5), 5);
    assert_int_equal(spool_move(spool, log, master), 5);
    assert_int_equal(bytelog_size(log), 5);
    spool_free(spool);
    bytelog_free(log);
    // As if the daemon had been killed before all of it was in the log.
    char name[32], path[128];
    (void)snprintf(name, sizeof name, "%d.out", NUMBER);
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    for (int left = 5; left >= 0; left--) {
        assert_int_equal(truncate(path, left), 0);
        log = open_log();
        spool = open_spool(log);
        char got[8] = "";
        uint64_t from;
        assert_int_equal(bytelog_size(log), 5);
        assert_int_equal(bytelog_read(log, 0, got, sizeof got, &from), 5);
        assert_string_equal(got, "first");
        spool_free(spool);
        bytelog_free(log);
    }
    fd_close(slave);
    fd_close(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_was_read_is_found_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_killed_at_any_moment, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
