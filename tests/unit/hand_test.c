// SPDX-License-Identifier: Apache-2.0
// The hand at its quick work: reading, writing, and changing names; what it says to nonsense; and
// what somebody can do to it who changes the files at the same time.
#include <sys/un.h>

#include "hand_talk.h"

static struct answer got; // large

#ifdef HAND_NO_TMPFILE
// All of it once more on a file system where every file must have a name.
int __real_openat64(int dirfd, const char *path, int flags, mode_t mode);
int __wrap_openat64(int dirfd, const char *path, int flags, mode_t mode);
int __wrap_openat64(int dirfd, const char *path, int flags, mode_t mode)
{
    if ((flags & O_TMPFILE) != O_TMPFILE)
        return __real_openat64(dirfd, path, flags, mode);
    errno = EOPNOTSUPP;
    return -1;
}
#endif

// --- helpers

static int put(struct talk *talk, const char *path, const char *text, uint32_t flags)
{
    const struct ask ask = {
        .type = HAND_WRITE, .flags = flags, .path = path, .data = text, .data_len = strlen(text)};
    return talk_ask(talk, &ask, &got);
}

static int get(struct talk *talk, const char *path, uint32_t flags)
{
    return talk_ask(talk, &(struct ask){.type = HAND_READ, .flags = flags, .path = path}, &got);
}

static int look(struct talk *talk, const char *path, uint32_t flags)
{
    return talk_ask(talk, &(struct ask){.type = HAND_STAT, .flags = flags, .path = path}, &got);
}

static int plain(struct talk *talk, enum hand_type type, const char *path, const char *path2,
                 uint32_t flags)
{
    return talk_ask(talk, &(struct ask){.type = type, .flags = flags, .path = path, .path2 = path2},
                    &got);
}

#define assert_reads(talk, name, text)                                                             \
    do {                                                                                           \
        assert_int_equal(get(talk, talk_path(talk, name), 0), 0);                                  \
        assert_string_equal(got.data, text);                                                       \
    } while (0)

static int count_named(const struct talk *talk, const char *name)
{
    int n = 0;
    DIR *dir = opendir(talk_path(talk, name));
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        n += strncmp(e->d_name, ".cay-", 5) == 0;
    (void)closedir(dir);
    return n;
}

// No passing name may stay.
static void assert_clean(const struct talk *talk, const char *name)
{
    assert_int_equal(count_named(talk, name), 0);
}

// --- reading

static void test_read(void **state)
{
    struct talk *talk = *state;
    static char big[HAND_INLINE + 1];
    memset(big, 'x', sizeof big);
    talk_put(talk, "big", big, sizeof big);
    talk_put(talk, "most", big, HAND_INLINE);
    talk_put(talk, "none", "", 0);
    assert_int_equal(get(talk, talk_path(talk, "most"), 0), 0);
    assert_int_equal(got.done.data_len, HAND_INLINE);
    assert_memory_equal(got.data, big, HAND_INLINE);
    assert_int_equal(got.fd[0], -1);
    assert_reads(talk, "none", "");

    assert_int_equal(get(talk, talk_path(talk, "big"), 0), 0);
    assert_int_equal(got.done.data_len, 0);
    assert_int_equal(got.done.st.size, sizeof big);
    struct stat st;
    assert_int_equal(fstat(got.fd[0], &st), 0);
    assert_true(S_ISREG(st.st_mode) && st.st_size == (off_t)sizeof big);
    assert_int_equal(fcntl(got.fd[0], F_GETFL) & O_ACCMODE, O_RDONLY);
    fd_close(got.fd[0]);
    assert_int_equal(get(talk, talk_path(talk, "none"), HAND_NO_INLINE), 0);
    assert_true(got.fd[0] >= 0);
    fd_close(got.fd[0]);
}

static void test_read_refused(void **state)
{
    struct talk *talk = *state;
    assert_int_equal(mkfifo(talk_path(talk, "fifo"), 0600), 0);
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    (void)snprintf(addr.sun_path, sizeof addr.sun_path, "%s", talk_path(talk, "sock"));
    assert_int_equal(bind(sock, (struct sockaddr *)&addr, sizeof addr), 0);
    (void)close(sock);
    talk_put_text(talk, "file", "x");
    assert_int_equal(symlink("file", talk_path(talk, "link")), 0);
    assert_int_equal(symlink("loop", talk_path(talk, "loop")), 0);
    assert_int_equal(symlink("/proc/self/fd/0", talk_path(talk, "magic")), 0);

    assert_int_equal(get(talk, talk_path(talk, "fifo"), 0), EINVAL);
    assert_int_equal(get(talk, talk_path(talk, "sock"), 0), EINVAL);
    assert_int_equal(get(talk, "/dev/zero", 0), EINVAL);
    assert_int_equal(get(talk, "/dev/ptmx", 0), EINVAL);
    assert_int_equal(get(talk, "/proc/uptime", 0), EINVAL);
    assert_int_equal(get(talk, "/proc/sys/kernel/hostname", 0), EINVAL);
    assert_int_equal(get(talk, talk->dir, 0), EISDIR);
    assert_int_equal(get(talk, "/", 0), EISDIR);
    assert_int_equal(get(talk, talk_path(talk, "no"), 0), ENOENT);
    assert_int_equal(get(talk, talk_path(talk, "file/x"), 0), ENOTDIR);
    assert_int_equal(get(talk, talk_path(talk, "loop"), 0), ELOOP);
    assert_int_equal(get(talk, talk_path(talk, "magic"), 0), ELOOP);
    assert_int_equal(get(talk, "/proc/self/root/etc/passwd", 0), ELOOP);
    assert_int_equal(get(talk, "/proc/self/fd/3", 0), ELOOP);
    assert_int_equal(get(talk, talk_path(talk, "link"), HAND_NO_FOLLOW), ELOOP);
    assert_reads(talk, "link", "x");
}

static void test_stat(void **state)
{
    struct talk *talk = *state;
    talk_put_text(talk, "file", "1234");
    assert_int_equal(link(talk_path(talk, "file"), talk_path(talk, "hard")), 0);
    assert_int_equal(symlink("file", talk_path(talk, "link")), 0);
    assert_int_equal(mkfifo(talk_path(talk, "fifo"), 0600), 0);
    assert_int_equal(look(talk, talk_path(talk, "link"), 0), 0);
    assert_int_equal(got.done.st.kind, HAND_FILE);
    assert_int_equal(got.done.st.size, 4);
    assert_int_equal(got.done.st.nlink, 2);
    uint64_t ino = got.done.st.ino;
    assert_int_equal(look(talk, talk_path(talk, "hard"), HAND_NO_FOLLOW), 0);
    assert_int_equal(got.done.st.ino, ino);
    assert_int_equal(look(talk, talk_path(talk, "link"), HAND_NO_FOLLOW), 0);
    assert_int_equal(got.done.st.kind, HAND_SYMLINK);
    assert_string_equal(got.data, "file");
    assert_int_equal(look(talk, talk_path(talk, "fifo"), 0), 0);
    assert_int_equal(got.done.st.kind, HAND_OTHER);
    assert_int_equal(look(talk, "/", 0), 0);
    assert_int_equal(got.done.st.kind, HAND_DIR);
    assert_int_equal(look(talk, talk_path(talk, "no"), 0), ENOENT);
    assert_int_equal(look(talk, "/proc/1", 0), 0);

    // The end of time, and before its beginning.
    struct timespec far[2] = {{.tv_sec = INT64_MAX / 2}, {.tv_sec = INT64_MAX / 2}};
    (void)utimensat(AT_FDCWD, talk_path(talk, "file"), far, 0);
    assert_int_equal(look(talk, talk_path(talk, "file"), 0), 0);
    far[1].tv_sec = INT64_MIN / 2;
    (void)utimensat(AT_FDCWD, talk_path(talk, "file"), far, 0);
    assert_int_equal(look(talk, talk_path(talk, "file"), 0), 0);
}

// --- writing

static void test_write(void **state)
{
    struct talk *talk = *state;
    assert_int_equal(put(talk, talk_path(talk, "f"), "hello", 0), 0);
    assert_int_equal(got.done.existed, 0);
    assert_int_equal(got.done.st.size, 5);
    assert_int_equal(got.done.st.mode, 0644);
    assert_int_equal(got.done.st.nlink, 1);
    char etag[HAND_ETAG];
    memcpy(etag, got.done.st.etag, sizeof etag);
    assert_reads(talk, "f", "hello");
    assert_string_equal(got.done.st.etag, etag);
    assert_int_equal(got.done.st.kind, HAND_FILE);
    assert_int_equal(put(talk, talk_path(talk, "f"), "again", 0), 0);
    assert_int_equal(got.done.existed, 1);
    assert_string_not_equal(got.done.st.etag, etag);
    memcpy(etag, got.done.st.etag, sizeof etag);
    assert_reads(talk, "f", "again");
    assert_string_equal(got.done.st.etag, etag);

    static char most[HAND_DATA_MAX];
    memset(most, 'm', sizeof most);
    struct ask ask = {.type = HAND_WRITE, .path = talk_path(talk, "most"), .data = most};
    ask.data_len = sizeof most;
    assert_int_equal(talk_ask(talk, &ask, &got), 0);
    assert_int_equal(got.done.st.size, sizeof most);
    assert_clean(talk, "");
}

static void test_write_keeps(void **state)
{
    struct talk *talk = *state;
    talk_put_text(talk, "f", "old");
    assert_int_equal(chown(talk_path(talk, "f"), 1234, 4321), 0);
    assert_int_equal(chmod(talk_path(talk, "f"), 06751), 0);
    assert_int_equal(put(talk, talk_path(talk, "f"), "new", 0), 0);
    assert_int_equal(got.done.st.mode, 0751); // but not the rights of its owner
    assert_int_equal(got.done.st.uid, 1234);
    assert_int_equal(got.done.st.gid, 4321);
    struct ask ask = {.type = HAND_WRITE,
                      .flags = HAND_MODE | HAND_OWNER,
                      .mode = 0600,
                      .uid = 7,
                      .gid = 8,
                      .path = talk_path(talk, "f")};
    assert_int_equal(talk_ask(talk, &ask, &got), 0);
    assert_int_equal(got.done.st.mode, 0600);
    assert_int_equal(got.done.st.uid, 7);
    assert_int_equal(got.done.st.gid, 8);
    assert_int_equal(got.done.st.size, 0);
}

static void test_write_conditions(void **state)
{
    struct talk *talk = *state;
    const char *f = talk_path(talk, "f");
    struct ask ask = {.type = HAND_WRITE, .flags = HAND_ETAG_GIVEN, .path = f, .etag = "0"};
    assert_int_equal(put(talk, f, "1", HAND_EXISTING), ENOENT);
    assert_int_equal(talk_do(talk, &ask), ESTALE);
    assert_int_equal(put(talk, f, "1", HAND_EXCLUSIVE), 0);
    assert_int_equal(put(talk, f, "2", HAND_EXCLUSIVE), EEXIST);
    assert_int_equal(put(talk, f, "3", HAND_EXISTING), 0);
    assert_int_equal(talk_do(talk, &ask), ESTALE);
    char etag[HAND_ETAG];
    memcpy(etag, got.done.st.etag, sizeof etag);
    ask.etag = etag;
    assert_int_equal(talk_do(talk, &ask), 0);
    assert_int_equal(talk_do(talk, &ask), ESTALE); // it is another one now
    assert_int_equal(put(talk, f, "4", HAND_EXCLUSIVE | HAND_EXISTING), EINVAL);
    ask.path = talk_path(talk, "no/where");
    assert_int_equal(talk_do(talk, &ask), ESTALE);
}

static void test_write_parents(void **state)
{
    struct talk *talk = *state;
    const char *deep = talk_path(talk, "a/b/c/f");
    assert_int_equal(put(talk, deep, "x", 0), ENOENT);
    assert_int_equal(put(talk, deep, "x", HAND_PARENTS), 0);
    assert_int_equal(look(talk, talk_path(talk, "a/b"), 0), 0);
    assert_int_equal(got.done.st.mode, 0755);
    assert_int_equal(put(talk, talk_path(talk, "a/b/c/f/g"), "x", HAND_PARENTS), ENOTDIR);
    assert_int_equal(symlink("nowhere", talk_path(talk, "dangling")), 0);
    assert_int_equal(put(talk, talk_path(talk, "dangling/f"), "x", HAND_PARENTS), ENOENT);
    assert_false(talk_is_there(talk, "nowhere"));
}

static void test_write_links(void **state)
{
    struct talk *talk = *state;
    talk_mkdir(talk, "d");
    talk_put_text(talk, "d/file", "old");
    assert_int_equal(symlink("d/file", talk_path(talk, "to")), 0);
    assert_int_equal(symlink("../to", talk_path(talk, "d/toto")), 0);
    assert_int_equal(put(talk, talk_path(talk, "d/toto"), "new", 0), 0);
    assert_int_equal(got.done.existed, 1);
    assert_reads(talk, "d/file", "new");
    assert_int_equal(look(talk, talk_path(talk, "to"), HAND_NO_FOLLOW), 0);
    assert_int_equal(got.done.st.kind, HAND_SYMLINK);

    char target[HAND_PATH_MAX];
    (void)snprintf(target, sizeof target, "%s/d/made", talk->dir);
    assert_int_equal(symlink(target, talk_path(talk, "dangling")), 0);
    assert_int_equal(put(talk, talk_path(talk, "dangling"), "made", 0), 0);
    assert_int_equal(got.done.existed, 0);
    assert_reads(talk, "d/made", "made");
    assert_clean(talk, "d");

    assert_int_equal(symlink("loop2", talk_path(talk, "loop")), 0);
    assert_int_equal(symlink("loop", talk_path(talk, "loop2")), 0);
    assert_int_equal(symlink("d/", talk_path(talk, "slash")), 0);
    assert_int_equal(symlink("..", talk_path(talk, "up")), 0);
    assert_int_equal(symlink("no/where", talk_path(talk, "nowhere")), 0);
    assert_int_equal(put(talk, talk_path(talk, "loop"), "x", 0), ELOOP);
    assert_int_equal(put(talk, talk_path(talk, "slash"), "x", 0), EISDIR);
    assert_int_equal(put(talk, talk_path(talk, "up"), "x", 0), EISDIR);
    assert_int_equal(put(talk, talk_path(talk, "nowhere"), "x", 0), ENOENT);
    for (int i = 0; i < 45; i++) { // a chain: 40 links are followed, more are not
        char from[16], to[16];
        (void)snprintf(from, sizeof from, "l%d", i + 1);
        (void)snprintf(to, sizeof to, "l%d", i);
        assert_int_equal(symlink(to, talk_path(talk, from)), 0);
    }
    assert_int_equal(put(talk, talk_path(talk, "l40"), "chain", 0), 0);
    assert_reads(talk, "l0", "chain");
    assert_int_equal(put(talk, talk_path(talk, "l41"), "x", 0), ELOOP);
}

static void test_write_refused(void **state)
{
    struct talk *talk = *state;
    talk_mkdir(talk, "d");
    assert_int_equal(mkfifo(talk_path(talk, "fifo"), 0600), 0);
    assert_int_equal(put(talk, talk_path(talk, "d"), "x", 0), EISDIR);
    assert_int_equal(put(talk, talk_path(talk, "fifo"), "x", 0), EINVAL);
    assert_int_equal(put(talk, "/", "x", 0), EISDIR);
    assert_int_equal(put(talk, "/dev/null", "x", 0), EINVAL);
    assert_int_not_equal(put(talk, "/proc/sys/kernel/hostname", "x", 0), 0);
    assert_int_not_equal(put(talk, "/proc/x", "x", HAND_PARENTS), 0);
    assert_int_not_equal(put(talk, "/sys/x/y", "x", HAND_PARENTS), 0);
    assert_clean(talk, "");
}

static uint64_t create(struct talk *talk, const char *path, uint32_t flags)
{
    struct ask ask = {.type = HAND_CREATE, .flags = flags, .path = path};
    assert_int_equal(talk_ask(talk, &ask, &got), 0);
    assert_true(got.fd[0] >= 0 && got.done.handle != 0);
    return got.done.handle;
}

static int settle(struct talk *talk, enum hand_type type, uint64_t handle)
{
    return talk_ask(talk, &(struct ask){.type = type, .handle = handle}, &got);
}

static void test_create(void **state)
{
    struct talk *talk = *state;
    const char *f = talk_path(talk, "d/f");
    uint64_t handle = create(talk, f, HAND_PARENTS);
    assert_int_equal(fd_write_all(got.fd[0], "content", 7), 0);
    fd_close(got.fd[0]);
    assert_false(talk_is_there(talk, "d/f"));
#ifdef HAND_NO_TMPFILE
    assert_int_equal(count_named(talk, "d"), 1);
#else
    assert_int_equal(count_named(talk, "d"), 0);
#endif
    assert_int_equal(settle(talk, HAND_COMMIT, handle), 0);
    assert_int_equal(got.done.existed, 0);
    assert_int_equal(got.done.st.size, 7);
    assert_reads(talk, "d/f", "content");
    assert_int_equal(settle(talk, HAND_COMMIT, handle), EBADF);
    assert_int_equal(settle(talk, HAND_ABORT, handle), EBADF);
    assert_int_equal(settle(talk, HAND_COMMIT, 0), EBADF);
    assert_int_equal(settle(talk, HAND_ABORT, UINT64_MAX), EBADF);

    handle = create(talk, f, 0);
    assert_int_equal(fd_write_all(got.fd[0], "lost", 4), 0);
    fd_close(got.fd[0]);
    assert_int_equal(settle(talk, HAND_ABORT, handle), 0);
    assert_reads(talk, "d/f", "content");
    assert_int_equal(talk_do(talk, &(struct ask){.type = HAND_CREATE, .path = talk->dir}), EISDIR);
    assert_int_equal(plain(talk, HAND_CREATE, f, NULL, HAND_EXCLUSIVE), EEXIST);
    assert_clean(talk, "d");
}

// What was promised when it began must still be so when it ends.
static void test_create_late(void **state)
{
    struct talk *talk = *state;
    const char *f = talk_path(talk, "f");
    uint64_t handle = create(talk, f, HAND_EXCLUSIVE);
    fd_close(got.fd[0]);
    talk_put_text(talk, "f", "mine");
    assert_int_equal(settle(talk, HAND_COMMIT, handle), EEXIST);
    assert_reads(talk, "f", "mine");

    struct ask ask = {.type = HAND_CREATE, .flags = HAND_ETAG_GIVEN, .path = f};
    ask.etag = got.done.st.etag;
    assert_int_equal(talk_ask(talk, &ask, &got), 0);
    handle = got.done.handle;
    fd_close(got.fd[0]);
    talk_put_text(talk, "f", "other");
    assert_int_equal(settle(talk, HAND_COMMIT, handle), ESTALE);
    assert_reads(talk, "f", "other");

    handle = create(talk, f, HAND_EXISTING);
    fd_close(got.fd[0]);
    assert_int_equal(unlink(f), 0);
    assert_int_equal(settle(talk, HAND_COMMIT, handle), ENOENT);
#ifndef HAND_NO_TMPFILE // else the directory is not empty
    talk_mkdir(talk, "d");
    handle = create(talk, talk_path(talk, "d/f"), 0);
    fd_close(got.fd[0]);
    assert_int_equal(rmdir(talk_path(talk, "d")), 0);
    assert_int_equal(settle(talk, HAND_COMMIT, handle), ENOENT);
#endif
    handle = create(talk, talk_path(talk, "becomes"), 0);
    fd_close(got.fd[0]);
    talk_mkdir(talk, "becomes");
    assert_int_equal(settle(talk, HAND_COMMIT, handle), EISDIR);
    assert_clean(talk, "");
}

static void test_create_many(void **state)
{
    struct talk *talk = *state;
    uint64_t handles[HAND_OPEN_MAX];
    char name[16];
    for (unsigned i = 0; i < HAND_OPEN_MAX; i++) {
        (void)snprintf(name, sizeof name, "f%u", i);
        handles[i] = create(talk, talk_path(talk, name), 0);
        fd_close(got.fd[0]);
    }
    assert_int_equal(plain(talk, HAND_CREATE, talk_path(talk, "more"), NULL, 0), EMFILE);
    for (unsigned i = 0; i < HAND_OPEN_MAX; i += 2)
        assert_int_equal(settle(talk, HAND_COMMIT, handles[i]), 0);
    for (unsigned i = 1; i < HAND_OPEN_MAX; i += 2)
        assert_int_equal(settle(talk, HAND_ABORT, handles[i]), 0);
    (void)create(talk, talk_path(talk, "left"), 0); // and never settled
    fd_close(got.fd[0]);
    assert_true(talk_is_there(talk, "f0"));
    assert_false(talk_is_there(talk, "f1"));
}

// --- names

static void test_mkdir(void **state)
{
    struct talk *talk = *state;
    const char *d = talk_path(talk, "d");
    struct ask ask = {.type = HAND_MKDIR,
                      .flags = HAND_MODE | HAND_OWNER,
                      .mode = 0711,
                      .uid = 5,
                      .gid = 6,
                      .path = d};
    assert_int_equal(talk_ask(talk, &ask, &got), 0);
    assert_int_equal(got.done.st.kind, HAND_DIR);
    assert_int_equal(got.done.st.mode, 0711);
    assert_int_equal(got.done.st.uid, 5);
    assert_int_equal(plain(talk, HAND_MKDIR, d, NULL, 0), EEXIST);
    assert_int_equal(plain(talk, HAND_MKDIR, d, NULL, HAND_PARENTS), 0);
    assert_int_equal(got.done.existed, 1);
    assert_int_equal(got.done.st.mode, 0711);
    assert_int_equal(plain(talk, HAND_MKDIR, talk_path(talk, "x/y/z"), NULL, 0), ENOENT);
    assert_int_equal(plain(talk, HAND_MKDIR, talk_path(talk, "x/y/z"), NULL, HAND_PARENTS), 0);
    assert_int_equal(plain(talk, HAND_MKDIR, "/", NULL, 0), EEXIST);
    assert_int_equal(plain(talk, HAND_MKDIR, "/", NULL, HAND_PARENTS), 0);
    talk_put_text(talk, "f", "");
    assert_int_equal(plain(talk, HAND_MKDIR, talk_path(talk, "f"), NULL, HAND_PARENTS), EEXIST);
    assert_int_equal(plain(talk, HAND_MKDIR, talk_path(talk, "f/g"), NULL, HAND_PARENTS), ENOTDIR);
}

static void test_move(void **state)
{
    struct talk *talk = *state;
    const char *a = talk_path(talk, "a"), *b = talk_path(talk, "b"), *c = talk_path(talk, "x/c");
    const char *elsewhere = strcmp(check_scratch(), "/tmp") == 0 ? "/dev/shm/x" : "/var/tmp/x";
    talk_put_text(talk, "a", "a");
    talk_put_text(talk, "b", "b");
    assert_int_equal(plain(talk, HAND_MOVE, a, b, HAND_NO_REPLACE), EEXIST);
    assert_int_equal(plain(talk, HAND_MOVE, a, b, 0), 0);
    assert_int_equal(got.done.existed, 1);
    assert_reads(talk, "b", "a");
    assert_int_equal(plain(talk, HAND_MOVE, a, b, 0), ENOENT);
    assert_int_equal(plain(talk, HAND_MOVE, a, c, HAND_PARENTS), ENOENT);
    assert_false(talk_is_there(talk, "x"));
    assert_int_equal(plain(talk, HAND_MOVE, b, c, 0), ENOENT);
    assert_int_equal(plain(talk, HAND_MOVE, b, c, HAND_PARENTS), 0);
    assert_int_equal(got.done.existed, 0);
    assert_reads(talk, "x/c", "a");
    assert_int_equal(plain(talk, HAND_MOVE, "/", b, 0), EBUSY);
    assert_int_equal(plain(talk, HAND_MOVE, c, "/", 0), EBUSY);
    assert_int_equal(plain(talk, HAND_MOVE, talk_path(talk, "x"), talk_path(talk, "x/y"), 0),
                     EINVAL);
    assert_int_equal(plain(talk, HAND_MOVE, c, elsewhere, 0), EXDEV);
}

static void test_chmod_chown(void **state)
{
    struct talk *talk = *state;
    talk_put_text(talk, "f", "");
    assert_int_equal(mkfifo(talk_path(talk, "fifo"), 0600), 0);
    assert_int_equal(symlink("f", talk_path(talk, "l")), 0);
    struct ask ask = {.type = HAND_CHMOD, .mode = 0541, .path = talk_path(talk, "l")};
    assert_int_equal(talk_ask(talk, &ask, &got), 0);
    assert_int_equal(got.done.st.kind, HAND_FILE);
    assert_int_equal(got.done.st.mode, 0541);
    ask.path = talk_path(talk, "fifo");
    assert_int_equal(talk_do(talk, &ask), 0);
    ask.mode = 04755;
    assert_int_equal(talk_do(talk, &ask), EINVAL);
    ask = (struct ask){.type = HAND_CHOWN,
                       .flags = HAND_NO_FOLLOW,
                       .uid = 11,
                       .gid = UINT32_MAX,
                       .path = talk_path(talk, "l")};
    assert_int_equal(talk_ask(talk, &ask, &got), 0);
    assert_int_equal(got.done.st.kind, HAND_SYMLINK);
    assert_int_equal(got.done.st.uid, 11);
    assert_int_equal(got.done.st.gid, 0);
    assert_int_equal(look(talk, talk_path(talk, "f"), 0), 0);
    assert_int_equal(got.done.st.uid, 0);
    ask.path = talk_path(talk, "no");
    assert_int_equal(talk_do(talk, &ask), ENOENT);
}

static void test_delete_link(void **state)
{
    struct talk *talk = *state;
    talk_mkdir(talk, "d");
    talk_put_text(talk, "d/f", "");
    assert_int_equal(plain(talk, HAND_LINK, "../any thing", talk_path(talk, "d/l"), 0), 0);
    assert_int_equal(got.done.st.kind, HAND_SYMLINK);
    assert_int_equal(plain(talk, HAND_LINK, "d", talk_path(talk, "l"), 0), 0);
    assert_int_equal(plain(talk, HAND_LINK, "d", talk_path(talk, "l"), 0), EEXIST);
    assert_int_equal(plain(talk, HAND_LINK, "d", talk_path(talk, "p/q/l"), HAND_PARENTS), 0);
    assert_int_equal(plain(talk, HAND_LINK, "d", "/", 0), EBUSY);
    assert_int_equal(look(talk, talk_path(talk, "d/l"), HAND_NO_FOLLOW), 0);
    assert_string_equal(got.data, "../any thing");

    assert_int_equal(plain(talk, HAND_DELETE, talk_path(talk, "l"), NULL, 0), 0);
    assert_true(talk_is_there(talk, "d/f"));
    assert_int_equal(plain(talk, HAND_DELETE, talk_path(talk, "d"), NULL, 0), ENOTEMPTY);
    assert_int_equal(plain(talk, HAND_DELETE, talk_path(talk, "d/f"), NULL, 0), 0);
    assert_int_equal(plain(talk, HAND_DELETE, talk_path(talk, "d/l"), NULL, 0), 0);
    assert_int_equal(plain(talk, HAND_DELETE, talk_path(talk, "d"), NULL, 0), 0);
    assert_int_equal(plain(talk, HAND_DELETE, talk_path(talk, "d"), NULL, 0), ENOENT);
    assert_int_equal(plain(talk, HAND_DELETE, "/", NULL, 0), EBUSY);
    assert_int_equal(plain(talk, HAND_DELETE, "/proc", NULL, 0), EBUSY);
}

// --- names at their limits

static void test_limits(void **state)
{
    struct talk *talk = *state;
    char path[HAND_PATH_MAX + 2], *at;
    char name[NAME_MAX + 2];
    memset(name, 'n', sizeof name);
    name[NAME_MAX + 1] = '\0';
    assert_int_equal(put(talk, talk_path(talk, name), "x", 0), ENAMETOOLONG);
    name[NAME_MAX] = '\0';
    assert_int_equal(put(talk, talk_path(talk, name), "x", 0), 0);
    assert_int_equal(put(talk, talk_path(talk, name), "y", 0), 0);
    assert_reads(talk, name, "y");

    at = path + snprintf(path, sizeof path, "%s", talk->dir);
    while (at - path < HAND_PATH_MAX - 1 - 2) {
        *at++ = '/';
        *at++ = 'p';
    }
    while (at - path < HAND_PATH_MAX - 1)
        *at++ = 'q';
    *at = '\0';
    assert_int_equal(strlen(path), HAND_PATH_MAX - 1);
    assert_int_equal(put(talk, path, "deep", HAND_PARENTS), 0);
    assert_int_equal(put(talk, path, "deeper", 0), 0);
    assert_int_equal(get(talk, path, 0), 0);
    assert_string_equal(got.data, "deeper");
    *at++ = 'q';
    *at = '\0';
    assert_int_equal(put(talk, path, "x", HAND_PARENTS), ENAMETOOLONG);
}

static void test_paths_refused(void **state)
{
    struct talk *talk = *state;
    static const char *const bad[] = {
        "x",      "./x",   "//",    "/x/",    "//x",    "/x//y",    "/.",          "/..",
        "/x/./y", "/x/..", "/../x", "/x/../", "/x/y/.", "relative", "/tmp/../etc", "",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(look(talk, bad[i], 0), EINVAL);
        assert_int_equal(plain(talk, HAND_MOVE, "/tmp/x", bad[i], 0), EINVAL);
        assert_int_equal(plain(talk, HAND_LIST, bad[i], NULL, 0), EINVAL);
    }
    assert_int_equal(look(talk, "/tmp/...", 0), ENOENT);
    assert_int_equal(look(talk, "/tmp/..x", 0), ENOENT);
    assert_int_equal(plain(talk, HAND_STAT, "/tmp", "/tmp", 0), EINVAL);
    assert_int_equal(plain(talk, HAND_LINK, "", "/tmp/x", 0), EINVAL);
    assert_int_equal(settle(talk, HAND_STAT, 1), EINVAL);
}

// --- nonsense

static void send_raw(struct talk *talk, const void *msg, size_t len)
{
    assert_int_equal(wire_send(talk->sock, msg, len, NULL, 0, NULL, 0), 0);
}

static int raw(struct talk *talk, const void *msg, size_t len)
{
    send_raw(talk, msg, len);
    return talk_done(talk, ((const struct wire_head *)msg)->id, &got);
}

static void test_nonsense(void **state)
{
    struct talk *talk = *state;
    struct {
        struct hand_request req;
        char tail[64];
    } msg = {
        .req = {.head = {WIRE_VERSION, HAND_STAT, 9}, .path_len = 4},
          .tail = "/tmp"
    };
    size_t len = sizeof msg.req + 6;
    assert_int_equal(raw(talk, &msg, len), 0);
    assert_int_equal(raw(talk, &msg, len + 1), EINVAL);
    assert_int_equal(raw(talk, &msg, len - 1), EINVAL);
    assert_int_equal(raw(talk, &msg, sizeof msg.req), EINVAL);
    assert_int_equal(raw(talk, &msg, sizeof msg.req - 1), EINVAL);
    assert_int_equal(raw(talk, &msg, sizeof(struct wire_head)), EINVAL);
    static const uint32_t lens[] = {0, 1, 3, 5, 6, HAND_PATH_MAX - 1, HAND_PATH_MAX, UINT32_MAX};
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        msg.req.path_len = lens[i];
        assert_int_not_equal(raw(talk, &msg, len), 0);
        msg.req.path_len = 4;
        msg.req.path2_len = lens[i];
        assert_true(lens[i] == 0 || raw(talk, &msg, len) != 0);
        msg.req.path2_len = 0;
        msg.req.data_len = lens[i];
        assert_true(lens[i] == 0 || raw(talk, &msg, len) != 0);
        msg.req.data_len = 0;
    }
    memset(msg.req.etag, 'e', sizeof msg.req.etag);
    assert_int_equal(raw(talk, &msg, len), EINVAL);
    memset(msg.req.etag, 0, sizeof msg.req.etag);
    for (uint32_t bit = 0; bit < 32; bit++) {
        msg.req.flags = 1u << bit;
        assert_int_equal(raw(talk, &msg, len), msg.req.flags == HAND_NO_FOLLOW ? 0 : EINVAL);
    }
    msg.req.flags = 0;
    msg.req.head.id = 0;
    assert_int_equal(raw(talk, &msg, len), EINVAL);
    msg.req.head.id = 9;
    static const uint16_t types[] = {0, 14, 63, 72, 127, HAND_DONE, HAND_ENDED, 130, UINT16_MAX};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        msg.req.head.type = types[i];
        assert_int_equal(raw(talk, &msg, len), ENOSYS);
    }
    // Without a head there is nobody to answer; a cancel is not answered; the rest goes on.
    msg.req.head.type = HAND_CANCEL;
    send_raw(talk, &msg, len);
    send_raw(talk, "x", 1);
    msg.req.head.version = 99;
    send_raw(talk, &msg, len);
    assert_int_equal(look(talk, "/tmp", 0), 0);
}

// Random changes of a good message: each is answered once, and the hand lives.
static void test_noise(void **state)
{
    struct talk *talk = *state;
    struct {
        struct hand_request req;
        char tail[300];
    } msg;
    unsigned seed = 12345;
    for (int i = 0; i < 3000; i++) {
        msg.req = (struct hand_request){
            .head = {WIRE_VERSION, HAND_STAT, 9},
              .path_len = 4
        };
        memset(msg.tail, 0, sizeof msg.tail);
        memcpy(msg.tail, "/tmp", 5);
        for (int j = rand_r(&seed) % 6; j >= 0; j--)
            ((char *)&msg)[8 + (unsigned)rand_r(&seed) % 200] = (char)rand_r(&seed);
        size_t len = sizeof msg.req + (unsigned)rand_r(&seed) % 300;
        (void)raw(talk, &msg, rand_r(&seed) % 2 ? len : sizeof msg.req + 6);
        fd_close(got.fd[0]);
    }
}

// Descriptors that come with requests are closed.
static void test_stray_fds(void **state)
{
    struct talk *talk = *state;
    char path[64];
    struct stat st;
    int fds[3] = {0, 0, 0};
    struct wire_head head = {WIRE_VERSION, HAND_STAT, 5};
    for (int i = 0; i < 50; i++) {
        assert_int_equal(wire_send(talk->sock, &head, sizeof head, NULL, 0, fds, 3), 0);
        assert_int_equal(talk_done(talk, 5, &got), EINVAL);
    }
    (void)snprintf(path, sizeof path, "/proc/%d/fd/4", talk->pid);
    assert_int_equal(lstat(path, &st), -1);
}

// --- at the same time as others

// Ends with its parent, or when it is told to.
#define in_background(pid, body)                                                                   \
    do {                                                                                           \
        (void)fflush(NULL);                                                                        \
        pid = fork();                                                                              \
        if (pid == 0) {                                                                            \
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);                                                \
            (void)close_range(3, ~0u, 0); /* the hand must see that we are gone */                 \
            for (;;) {                                                                             \
                body;                                                                              \
            }                                                                                      \
        }                                                                                          \
    } while (0)

static void end_background(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

// Reads without end; dies by 1 if it ever sees part of a file, or none.
static void read_whole(const char *path)
{
    static char bytes[8192];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        _exit(2);
    ssize_t n = read(fd, bytes, sizeof bytes);
    for (ssize_t i = 0; i < n; i++)
        if (bytes[i] != bytes[0])
            _exit(1);
    (void)close(fd);
    if (n != 4096)
        _exit(3);
}

static void test_atomic(void **state)
{
    struct talk *talk = *state;
    char path[HAND_PATH_MAX], text[4097];
    (void)snprintf(path, sizeof path, "%s", talk_path(talk, "f"));
    memset(text, 'a', 4096);
    text[4096] = '\0';
    assert_int_equal(put(talk, path, text, 0), 0);
    pid_t pid;
    in_background(pid, read_whole(path));
    for (int i = 0; i < 1000; i++) {
        memset(text, 'a' + i % 26, 4096);
        assert_int_equal(put(talk, path, text, 0), 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0); // it has nothing to complain about
    end_background(pid);
    assert_clean(talk, "");
}

static void swap(const char *a, const char *b)
{
    (void)renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
}

// A directory and a link to another one change places all the time. Everything is answered, and
// nothing but what was asked for is in either.
static void test_swapped(void **state)
{
    struct talk *talk = *state;
    char a[HAND_PATH_MAX], b[HAND_PATH_MAX];
    talk_mkdir(talk, "dir");
    talk_mkdir(talk, "other");
    assert_int_equal(symlink("other", talk_path(talk, "link")), 0);
    (void)snprintf(a, sizeof a, "%s", talk_path(talk, "dir"));
    (void)snprintf(b, sizeof b, "%s", talk_path(talk, "link"));
    pid_t pid;
    in_background(pid, swap(a, b));
    for (int i = 0; i < 10000; i++) {
        int r = 0;
        switch (i % 6) {
        case 0:
            r = put(talk, talk_path(talk, "dir/f"), "x", 0);
            break;
        case 1:
            r = get(talk, talk_path(talk, "dir/f"), 0);
            break;
        case 2:
            r = plain(talk, HAND_MKDIR, talk_path(talk, "dir/d/e"), NULL, HAND_PARENTS);
            break;
        case 3:
            r = plain(talk, HAND_DELETE, talk_path(talk, "dir/d/e"), NULL, 0);
            break;
        case 4:
            r = plain(talk, HAND_MOVE, talk_path(talk, "dir/f"), talk_path(talk, "link/g"), 0);
            break;
        case 5:
            r = look(talk, talk_path(talk, "dir"), HAND_NO_FOLLOW);
            break;
        }
        if (r != 0 && r != ENOENT && r != EISDIR && r != ENOTEMPTY)
            fail_msg("call %d: errno %d", i, r);
        fd_close(got.fd[0]);
    }
    end_background(pid);
    assert_clean(talk, "other");
    assert_clean(talk, "");
}

// The same with files. If the link is there only between our last look and the rename, it is lost,
// and a file is in its place; all else is well.
static void test_swapped_file(void **state)
{
    struct talk *talk = *state;
    char a[HAND_PATH_MAX], b[HAND_PATH_MAX];
    talk_put_text(talk, "file", "x");
    talk_put_text(talk, "other", "x");
    assert_int_equal(symlink("other", talk_path(talk, "link")), 0);
    (void)snprintf(a, sizeof a, "%s", talk_path(talk, "file"));
    (void)snprintf(b, sizeof b, "%s", talk_path(talk, "link"));
    pid_t pid;
    in_background(pid, swap(a, b));
    for (int i = 0; i < 3000; i++) {
        int r = put(talk, i % 2 ? a : b, "x", 0);
        if (r != 0 && r != ELOOP)
            fail_msg("call %d: errno %d", i, r);
        assert_int_equal(get(talk, a, 0), 0);
        assert_string_equal(got.data, "x");
    }
    end_background(pid);
    assert_clean(talk, "");
}

// A file that others make and remove all the time is replaced or made, one of both.
static void test_write_contended(void **state)
{
    struct talk *talk = *state;
    char path[HAND_PATH_MAX];
    (void)snprintf(path, sizeof path, "%s", talk_path(talk, "f"));
    pid_t pid;
    in_background(pid, {
        fd_close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        (void)unlink(path);
    });
    for (int i = 0; i < 3000; i++) {
        int r = put(talk, path, "x", i % 2 ? HAND_EXCLUSIVE : 0);
        assert_true(r == 0 || (r == EEXIST && i % 2));
    }
    end_background(pid);
    assert_clean(talk, "");
}

// Somebody holds a lease: nobody waits for them.
static void test_lease(void **state)
{
    struct talk *talk = *state;
    talk_put_text(talk, "f", "x");
    auto_fd fd = open(talk_path(talk, "f"), O_RDWR | O_CLOEXEC);
    (void)signal(SIGIO, SIG_IGN);
    assert_int_equal(fcntl(fd, F_SETLEASE, F_WRLCK), 0);
    assert_int_equal(get(talk, talk_path(talk, "f"), 0), EAGAIN);
    assert_int_equal(put(talk, talk_path(talk, "f"), "y", 0), 0);
    assert_reads(talk, "f", "y");
}

CHECK_MAIN(TALK_CASE(test_read), TALK_CASE(test_read_refused), TALK_CASE(test_stat),
           TALK_CASE(test_write), TALK_CASE(test_write_keeps), TALK_CASE(test_write_conditions),
           TALK_CASE(test_write_parents), TALK_CASE(test_write_links),
           TALK_CASE(test_write_refused), TALK_CASE(test_create), TALK_CASE(test_create_late),
           TALK_CASE(test_create_many), TALK_CASE(test_mkdir), TALK_CASE(test_move),
           TALK_CASE(test_chmod_chown), TALK_CASE(test_delete_link), TALK_CASE(test_limits),
           TALK_CASE(test_paths_refused), TALK_CASE(test_nonsense), TALK_CASE(test_noise),
           TALK_CASE(test_stray_fds), TALK_CASE(test_atomic), TALK_CASE(test_swapped),
           TALK_CASE(test_swapped_file), TALK_CASE(test_write_contended), TALK_CASE(test_lease))
