// SPDX-License-Identifier: Apache-2.0
// Watches on directories of this machine. Whatever is done to them, it is told, or it is told that
// something was not.
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "hand_kit.h"

enum { WAIT_MS = 60000 }; // nothing takes that long unless it never comes

struct change {
    uint32_t kind, is_dir, cookie;
    char path[4352];
};

static struct kit_run run;

// Whether this is a file system where every file must have a name.
static bool no_nameless;
int __real_openat64(int dirfd, const char *path, int flags, mode_t mode);
int __wrap_openat64(int dirfd, const char *path, int flags, mode_t mode);
int __wrap_openat64(int dirfd, const char *path, int flags, mode_t mode)
{
    if (!no_nameless || (flags & O_TMPFILE) != O_TMPFILE)
        return __real_openat64(dirfd, path, flags, mode);
    errno = EOPNOTSUPP;
    return -1;
}

static void start_with(const char *path, uint32_t flags, const char *include, const char *exclude)
{
    static char data[1024];
    struct hand_watch head = {(uint32_t)strlen(include), (uint32_t)strlen(exclude)};
    memcpy(data, &head, sizeof head);
    memcpy(data + sizeof head, include, head.include_len + 1);
    memcpy(data + sizeof head + head.include_len + 1, exclude, head.exclude_len + 1);
    run = kit_start(work_watch, path, flags, data,
                    sizeof head + head.include_len + head.exclude_len + 2);
}

// The next record. False: there is none within the time, or the pipe ended.
static bool next_within(struct change *ret, int ms)
{
    union {
        struct hand_change change;
        char bytes[HAND_RECORD_MAX];
    } rec;
    struct pollfd p = {.fd = run.out, .events = POLLIN};
    if (poll(&p, 1, ms) <= 0)
        return false;
    ssize_t n = fd_read_all(run.out, &rec, sizeof rec.change.rec);
    if (n == 0)
        return false;
    assert_int_equal(n, sizeof rec.change.rec);
    assert_int_equal(rec.change.rec.type, HAND_REC_CHANGE);
    assert_true(rec.change.rec.len <= sizeof rec && rec.change.rec.len % 8 == 0);
    size_t left = rec.change.rec.len - sizeof rec.change.rec;
    assert_int_equal(fd_read_all(run.out, rec.bytes + n, left), left);
    assert_true(sizeof rec.change + rec.change.path_len < rec.change.rec.len);
    *ret = (struct change){rec.change.kind, rec.change.is_dir, rec.change.cookie, ""};
    assert_true(rec.change.path_len < sizeof ret->path);
    memcpy(ret->path, rec.bytes + sizeof rec.change, rec.change.path_len + 1);
    assert_int_equal(strlen(ret->path), rec.change.path_len);
    return true;
}

static struct change next(void)
{
    struct change c;
    if (!next_within(&c, WAIT_MS))
        fail_msg("nothing is told");
    return c;
}

static void expect(uint32_t kind, const char *path)
{
    struct change c = next();
    if (c.kind != kind || strcmp(c.path, path) != 0)
        fail_msg("told %u '%s', not %u '%s'", c.kind, c.path, kind, path);
}

// All until this one.
static struct change wait_for(uint32_t kind, const char *path)
{
    struct change c;
    for (;;) {
        if (!next_within(&c, WAIT_MS))
            fail_msg("%u '%s' is not told", kind, path);
        if (c.kind == kind && strcmp(c.path, path) == 0)
            return c;
    }
}

static void start(const char *path, uint32_t flags)
{
    start_with(kit_path(path), flags, "", "");
    expect(HAND_WATCHING, "");
}

static void make(const char *path)
{
    fd_close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

static void add_to(const char *path)
{
    auto_fd fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(write(fd, "x", 1), 1);
}

// Watched, from the top down, until it is told.
static void assert_watched(const char *path)
{
    char file[5000];
    (void)snprintf(file, sizeof file, "w/%s", path);
    make(file);
    (void)wait_for(HAND_CREATED, path);
}

static int probe(const char *path, const struct stat *st __attribute__((unused)), int type,
                 struct FTW *ftw __attribute__((unused)))
{
    static int n;
    char file[5000];
    if (type != FTW_D)
        return 0;
    (void)snprintf(file, sizeof file, "%s/probe%d", path + 2 + (path[1] == '\0' ? -1 : 0), n++);
    assert_watched(file + (file[0] == '/'));
    return 0;
}

// Every directory that is there, by its right name.
static void assert_all_watched(void)
{
    assert_int_equal(nftw("w", probe, 16, FTW_PHYS), 0);
}

static void stop(void)
{
    assert_int_equal(kit_end(&run), -EPIPE);
}

// --- kinds

CHECK_CASE(every_kind)
{
    struct change c;
    assert_int_equal(mkdir("w", 0700), 0);
    start("w", 0);
    make("w/f");
    expect(HAND_CREATED, "f");
    add_to("w/f");
    expect(HAND_MODIFIED, "f");
    assert_int_equal(chmod("w/f", 0644), 0);
    expect(HAND_ATTRIB, "f");
    assert_int_equal(rename("w/f", "w/g"), 0);
    c = next();
    assert_true(c.kind == HAND_MOVED_FROM && strcmp(c.path, "f") == 0 && c.cookie != 0);
    uint32_t cookie = c.cookie;
    c = next();
    assert_true(c.kind == HAND_MOVED_TO && strcmp(c.path, "g") == 0 && c.cookie == cookie);
    assert_int_equal(unlink("w/g"), 0);
    expect(HAND_DELETED, "g");
    assert_int_equal(mkdir("w/d", 0700), 0);
    c = next();
    assert_true(c.kind == HAND_CREATED && c.is_dir == 1);
    make("w/d/below"); // not recursive
    assert_int_equal(symlink("/etc", "w/l"), 0);
    c = next();
    assert_true(c.kind == HAND_CREATED && strcmp(c.path, "l") == 0 && c.is_dir == 0);
    assert_int_equal(chmod("w", 0750), 0);
    expect(HAND_ATTRIB, "");
    stop();
}

CHECK_CASE(modifications_in_one_go_are_one)
{
    struct change c;
    assert_int_equal(mkdir("w", 0700), 0);
    make("w/f");
    make("w/g");
    start("w", 0);
    assert_int_equal(kill(run.pid, SIGSTOP), 0);
    for (int i = 0; i < 100; i++)
        add_to("w/f");
    add_to("w/g");
    add_to("w/f");
    assert_int_equal(kill(run.pid, SIGCONT), 0);
    expect(HAND_MODIFIED, "f");
    expect(HAND_MODIFIED, "g");
    expect(HAND_MODIFIED, "f");
    add_to("w/f"); // but each time after it was told
    expect(HAND_MODIFIED, "f");
    assert_false(next_within(&c, 100));
    stop();
}

CHECK_CASE(the_end_of_what_is_watched)
{
    static const char *const ends[] = {"rm -r w", "mv w v", "mv top/w top/v; rm -rf top/v",
                                       "mv top top2"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        for (uint32_t flags = 0; flags <= HAND_RECURSIVE; flags += HAND_RECURSIVE) {
            const char *path = i < 2 ? "w" : "top/w";
            assert_int_equal(kit_sh("rm -rf w v top top2; mkdir -p top %s/d", path), 0);
            start(path, flags);
            assert_int_equal(kit_sh("%s", ends[i]), 0);
            (void)wait_for(HAND_ROOT_GONE, "");
            struct change c;
            assert_false(next_within(&c, WAIT_MS)); // the last one
            assert_int_equal(kit_end(&run), 0);
        }
    }
}

CHECK_CASE(held_open_it_is_gone_too)
{
    assert_int_equal(mkdir("w", 0700), 0);
    auto_fd fd = open("w", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    start("w", HAND_RECURSIVE);
    assert_int_equal(rmdir("w"), 0);
    (void)wait_for(HAND_ROOT_GONE, "");
    assert_int_equal(kit_end(&run), 0);
}

CHECK_CASE(a_file)
{
    make("f");
    start("f", HAND_RECURSIVE);
    add_to("f");
    expect(HAND_MODIFIED, "");
    assert_int_equal(chmod("f", 0644), 0);
    expect(HAND_ATTRIB, "");
    assert_int_equal(unlink("f"), 0);
    (void)wait_for(HAND_ROOT_GONE, "");
    assert_int_equal(kit_end(&run), 0);
}

CHECK_CASE(what_cannot_be_watched)
{
    static const struct {
        const char *path;
        int error;
    } cases[] = {
        {"/not/there", ENOENT    },
        {"/proc",      EOPNOTSUPP},
        {"/proc/self", EOPNOTSUPP},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct change c;
        start_with(cases[i].path, HAND_RECURSIVE, "", "");
        assert_false(next_within(&c, WAIT_MS));
        assert_int_equal(kit_end(&run), -cases[i].error);
    }
    // Data that is not what it says.
    run = kit_start(work_watch, kit_top, 0, "\xff\xff\xff\xff\xff\xff\xff\xff\0\0", 10);
    assert_int_equal(kit_end(&run), -EINVAL);
}

// The reader goes while nothing happens.
CHECK_CASE(a_closed_pipe_ends_it)
{
    assert_int_equal(mkdir("w", 0700), 0);
    start("w", HAND_RECURSIVE);
    stop();
}

// --- names

CHECK_CASE(globs)
{
    assert_int_equal(kit_sh("mkdir -p w/.git/deep w/src/node_modules/x"), 0);
    start_with(kit_path("w"), HAND_RECURSIVE, "", ".git,node_modules,,*.swp");
    expect(HAND_WATCHING, "");
    make("w/.git/index");
    make("w/.git/deep/x");
    make("w/src/node_modules/x/y");
    make("w/src/.a.swp");
    make("w/src/a");
    expect(HAND_CREATED, "src/a");
    assert_int_equal(kit_sh("mkdir -p w/new/.git w/new/sub; touch w/new/.git/f"), 0);
    (void)wait_for(HAND_CREATED, "new/sub");
    // A directory whose name becomes one that is excluded is not watched any more, and back.
    assert_int_equal(rename("w/src", "w/node_modules"), 0);
    (void)wait_for(HAND_MOVED_FROM, "src");
    make("w/node_modules/unseen");
    assert_int_equal(rename("w/node_modules", "w/src"), 0);
    (void)wait_for(HAND_MOVED_TO, "src");
    (void)wait_for(HAND_CREATED, "src/unseen");
    assert_watched("src/seen");
    stop();

    start_with(kit_path("w"), HAND_RECURSIVE, "*.c,*.[h]", "");
    expect(HAND_WATCHING, "");
    make("w/a.txt");
    make("w/src/a.c");
    expect(HAND_CREATED, "src/a.c");
    assert_int_equal(kit_sh("mkdir w/other; touch w/other/x w/other/b.h"), 0);
    (void)wait_for(HAND_CREATED, "other/b.h");
    make("w/other/c.c");
    (void)wait_for(HAND_CREATED, "other/c.c");
    stop();
}

CHECK_CASE(any_letters)
{
    static const char *const names[] = {"\xff\xfe", "line\nbreak", " ",   "-rf",
                                        "%s",       "\x01",        "...", "\xe4\xb8\xad"};
    char path[600];
    assert_int_equal(mkdir("w", 0700), 0);
    start("w", HAND_RECURSIVE);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(path, sizeof path, "w/%s", names[i]);
        assert_int_equal(mkdir(path, 0700), 0);
        (void)snprintf(path, sizeof path, "w/%s/%s", names[i], names[i]);
        make(path);
        (void)wait_for(HAND_CREATED, path + 2);
    }
    (void)snprintf(path, sizeof path, "w/%0255d", 0);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "w/%0255d/%0255d", 0, 1);
    make(path);
    (void)wait_for(HAND_CREATED, path + 2);
    stop();
}

// --- files that are put

// As the hand puts a file: with `named`, where none may be without a name.
static void put(const char *path, bool named, uint32_t flags)
{
    const struct hand_terms terms = {.flags = flags};
    struct hand_place place;
    struct hand_draft draft;
    struct stat st;
    bool existed;
    assert_int_equal(hand_place(kit_path(path), false, &place), 0);
    no_nameless = named;
    int r = hand_draft_open(&draft, &place, &terms);
    no_nameless = false;
    assert_int_equal(r, 0);
    assert_int_equal(write(draft.fd, "x", 1), 1);
    assert_int_equal(hand_draft_commit(&draft, &terms, &existed, &st), 0);
    hand_draft_done(&draft);
    assert_int_equal(st.st_nlink, 1);
}

CHECK_CASE(a_put_file_is_one_change)
{
    struct change c;
    hand_passing_init();
    assert_int_equal(kit_sh("mkdir -p w/d; touch w/old w/d/old"), 0);
    start("w", HAND_RECURSIVE);
    for (int named = 0; named < 2; named++) {
        const char *fresh = named ? "w/d/new2" : "w/d/new1";
        put("w/old", named, 0);
        put(fresh, named, 0);
        put("w/d/old", named, HAND_MODE);
        put(fresh, named, 0);
        expect(HAND_MODIFIED, "old");
        expect(HAND_CREATED, fresh + 2);
        expect(HAND_MODIFIED, "d/old");
        c = next();
        assert_true(c.kind == HAND_MODIFIED && strcmp(c.path, fresh + 2) == 0 && c.cookie == 0);
    }
    assert_false(next_within(&c, 50));
    stop();

    start_with(kit_path("w"), HAND_RECURSIVE, "", ".*"); // passing names go first
    expect(HAND_WATCHING, "");
    put("w/old", false, 0);
    expect(HAND_MODIFIED, "old");
    stop();
}

// Those of a user, however alike.
CHECK_CASE(names_like_ours_are_told)
{
    hand_passing_init();
    assert_int_equal(mkdir("w", 0700), 0);
    start("w", HAND_RECURSIVE);
    make("w/#123");
    expect(HAND_CREATED, "#123");
    add_to("w/#123");
    expect(HAND_MODIFIED, "#123");
    assert_int_equal(chmod("w/#123", 0640), 0);
    expect(HAND_ATTRIB, "#123");
    make("w/.cay-0123456789abcdef");
    expect(HAND_CREATED, ".cay-0123456789abcdef");
    assert_int_equal(rename("w/.cay-0123456789abcdef", "w/#123"), 0);
    expect(HAND_MOVED_FROM, ".cay-0123456789abcdef");
    expect(HAND_MOVED_TO, "#123");
    assert_int_equal(unlink("w/#123"), 0);
    expect(HAND_DELETED, "#123");
    // A user's own files without names are nobody's either.
    auto_fd fd = open("w", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(write(fd, "x", 1) == 1 && fchmod(fd, 0644) == 0);
    make("w/end");
    expect(HAND_CREATED, "end");
    stop();
}

CHECK_CASE(a_file_that_is_replaced)
{
    struct change c;
    hand_passing_init();
    make("f");
    auto_fd held = open("f", O_RDONLY | O_CLOEXEC); // its end alone would not tell
    start("f", 0);
    for (int i = 0; i < 3; i++) {
        put("f", i == 1, 0);
        expect(HAND_MODIFIED, "");
    }
    add_to("f");
    expect(HAND_MODIFIED, "");
    make("g");
    assert_int_equal(rename("g", "f"), 0); // by an editor
    expect(HAND_MODIFIED, "");
    assert_false(next_within(&c, 50));
    assert_int_equal(unlink("f"), 0);
    (void)wait_for(HAND_ROOT_GONE, "");
    assert_int_equal(kit_end(&run), 0);
}

// --- trees

CHECK_CASE(a_tree)
{
    assert_int_equal(kit_sh("mkdir -p w/a/b/c w/d outside; ln -s ../outside w/link"), 0);
    start("w", HAND_RECURSIVE);
    assert_watched("a/b/c/f");
    assert_watched("d/f");
    make("outside/f"); // not through links
    assert_int_equal(mkdir("w/d/e", 0700), 0);
    expect(HAND_CREATED, "d/e");
    assert_watched("d/e/g");
    assert_int_equal(kit_sh("rm -r w/a"), 0);
    (void)wait_for(HAND_DELETED, "a/b/c");
    (void)wait_for(HAND_DELETED, "a");
    assert_int_equal(kit_sh("mkdir -p w/a/b"), 0);
    (void)wait_for(HAND_CREATED, "a/b");
    assert_watched("a/b/again");
    stop();
}

// Directories that are filled at once: every file of every round is told.
CHECK_CASE(filled_at_once)
{
    assert_int_equal(mkdir("w", 0700), 0);
    start("w", HAND_RECURSIVE);
    for (int i = 0; i < 500; i++) {
        char dir[64], file[128];
        (void)snprintf(dir, sizeof dir, "w/%d", i);
        assert_int_equal(mkdir(dir, 0700), 0);
        for (int k = 0; k < 4; k++) {
            size_t len = strlen(dir);
            (void)snprintf(dir + len, sizeof dir - len, "/%c", 'a' + k);
            assert_int_equal(mkdir(dir, 0700), 0);
        }
        (void)snprintf(file, sizeof file, "%s/file", dir);
        make(file);
        (void)wait_for(HAND_CREATED, file + 2);
        if (i % 10 == 0)
            assert_int_equal(kit_sh("rm -r w/%d", i), 0);
    }
    stop();
}

// The same with the directories made elsewhere and moved in, and renamed right away.
CHECK_CASE(filled_and_renamed)
{
    assert_int_equal(kit_sh("mkdir w out"), 0);
    start("w", HAND_RECURSIVE);
    for (int i = 0; i < 500; i++) {
        char from[64], to[64], path[128];
        (void)snprintf(from, sizeof from, "%s/from%d", i % 2 ? "w" : "out", i);
        (void)snprintf(path, sizeof path, "%s/sub", from);
        assert_true(mkdir(from, 0700) == 0 && mkdir(path, 0700) == 0);
        (void)snprintf(to, sizeof to, "w/to%d", i);
        assert_int_equal(rename(from, to), 0);
        (void)snprintf(path, sizeof path, "%s/sub/file", to);
        make(path);
        (void)wait_for(HAND_CREATED, path + 2);
    }
    stop();
}

CHECK_CASE(renames_keep_paths_right)
{
    assert_int_equal(kit_sh("mkdir -p w/a/b/c w/x/y outside"), 0);
    start("w", HAND_RECURSIVE);
    assert_int_equal(rename("w/a", "w/x/y/a2"), 0);
    assert_watched("x/y/a2/b/c/1");
    assert_int_equal(rename("w/x", "w/z"), 0);
    assert_watched("z/y/a2/b/c/2");
    // Stopped, so that all of it is known only afterwards.
    assert_int_equal(kill(run.pid, SIGSTOP), 0);
    assert_int_equal(kit_sh("mkdir w/z/new; mv w/z w/q; touch w/q/new/file w/q/y/file; mv w/q w/r;"
                            "mkdir w/r/new/er; mv w/r/new w/n; touch w/n/er/f"),
                     0);
    assert_int_equal(kill(run.pid, SIGCONT), 0);
    (void)wait_for(HAND_CREATED, "q/y/file"); // by the name that it had then
    assert_watched("n/er/3");
    assert_watched("r/y/a2/b/c/3");
    // Out, and in again.
    assert_int_equal(rename("w/r", "outside/r"), 0);
    (void)wait_for(HAND_MOVED_FROM, "r");
    make("outside/r/unseen");
    assert_int_equal(rename("outside/r", "w/back"), 0);
    (void)wait_for(HAND_CREATED, "back/unseen");
    assert_watched("back/y/a2/b/c/4");
    stop();
}

static int exchange(const char *a, const char *b)
{
    return (int)syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, 2 /* RENAME_EXCHANGE */);
}

CHECK_CASE(exchanged_and_overwritten)
{
    assert_int_equal(kit_sh("mkdir -p w/a/in-a w/b/in-b w/empty w/c/in-c"), 0);
    start("w", HAND_RECURSIVE);
    assert_int_equal(exchange("w/a", "w/b"), 0);
    assert_watched("b/in-a/1");
    assert_watched("a/in-b/1");
    assert_int_equal(exchange("w/a", "w/b"), 0);
    assert_int_equal(exchange("w/a", "w/b"), 0);
    assert_int_equal(exchange("w/a", "w/b"), 0);
    assert_watched("a/in-a/2");
    assert_watched("b/in-b/2");
    // Over a directory that somebody has open, and on.
    auto_fd held = open("w/empty", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(rename("w/c", "w/empty"), 0);
    assert_int_equal(rename("w/empty", "w/d"), 0);
    assert_int_equal(mkdir("w/empty", 0700), 0);
    assert_watched("d/in-c/3");
    assert_watched("empty/3");
    stop();
}

// Renames of everything while it is watched. Afterwards all of it is watched by its right name.
CHECK_CASE(a_storm_of_renames)
{
    assert_int_equal(mkdir("w", 0700), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(kit_sh("mkdir -p w/d%d/sub/sub", i), 0);
    start("w", HAND_RECURSIVE);
    pid_t pid = fork();
    if (pid == 0) {
        char a[64], b[64];
        unsigned seed = 1;
        for (int i = 0; i < 30000; i++) {
            seed = seed * 1103515245 + 12345;
            unsigned from = seed >> 16 & 7, to = seed >> 20 & 7, how = seed >> 24 & 3;
            (void)snprintf(a, sizeof a, "w/d%u%s", from, how & 1 ? "/sub" : "");
            (void)snprintf(b, sizeof b, "w/d%u%s", to, how & 2 ? "/sub" : "");
            if (exchange(a, b) < 0)
                (void)rename(a, b);
        }
        _exit(0);
    }
    struct change c;
    while (waitpid(pid, NULL, WNOHANG) != pid)
        (void)next_within(&c, 10);
    assert_all_watched();
    stop();
}

// Directories appear, move and go, all at once, by several hands.
CHECK_CASE(a_storm_of_everything)
{
    assert_int_equal(mkdir("w", 0700), 0);
    start("w", HAND_RECURSIVE);
    pid_t pids[3];
    for (unsigned n = 0; n < 3; n++) {
        pids[n] = fork();
        if (pids[n] != 0)
            continue;
        unsigned seed = n + 1;
        char a[64], b[64];
        for (int i = 0; i < 8000; i++) {
            seed = seed * 1103515245 + 12345;
            (void)snprintf(a, sizeof a, "w/%u/%u/%u", seed >> 16 & 3, seed >> 18 & 3,
                           seed >> 20 & 3);
            (void)snprintf(b, sizeof b, "w/%u/%u", seed >> 22 & 3, seed >> 24 & 3);
            a[3] = seed >> 26 & 1 ? '/' : '\0';
            if (i % 5 == 0)
                (void)rename(a, b);
            else if (i % 7 == 0)
                (void)rmdir(a);
            else
                (void)mkdir(a, 0700);
        }
        _exit(0);
    }
    struct change c;
    for (unsigned n = 0; n < 3; n++)
        while (waitpid(pids[n], NULL, WNOHANG) != pids[n])
            (void)next_within(&c, 10);
    assert_all_watched();
    stop();
}

// --- too much

// As many events as the kernel's queue has not room for while nobody reads.
CHECK_CASE(a_reader_that_stops)
{
    char path[64];
    assert_int_equal(kit_sh("mkdir -p w/sub"), 0);
    start("w", HAND_RECURSIVE);
    for (int i = 0; i < 100000; i++) {
        (void)snprintf(path, sizeof path, "w/%s%d", i % 2 ? "" : "sub/", i / 2 % 10000);
        if (unlink(path) < 0)
            make(path);
    }
    // Nobody hears of these, but they are watched.
    assert_int_equal(kit_sh("mkdir -p w/new/er; mv w/sub w/bus; rm -rf w/old; mkdir w/sub"), 0);
    (void)wait_for(HAND_OVERFLOW, "");
    assert_watched("new/er/f");
    assert_watched("bus/f");
    assert_watched("sub/f");
    assert_all_watched();
    stop();
}

// A process that may have 20 watches, as a box may have some number of them.
static int few_watches(struct work *work)
{
    if (unshare(CLONE_NEWUSER) < 0)
        return -ENOTSUP;
    int r = fd_write_file(AT_FDCWD, "/proc/sys/user/max_inotify_watches", "20");
    return r < 0 ? -ENOTSUP : work_watch(work);
}

CHECK_CASE(watches_run_out)
{
    assert_int_equal(kit_sh("mkdir -p w/{1..15} many/{1..30}"), 0);
    run = kit_start(few_watches, kit_path("many"), HAND_RECURSIVE, NULL, 0);
    struct change c;
    bool any = next_within(&c, WAIT_MS);
    int r = kit_end(&run);
    if (r == -ENOTSUP)
        skip();
    assert_false(any);
    assert_int_equal(r, -ENOSPC);

    run = kit_start(few_watches, kit_path("w"), HAND_RECURSIVE, NULL, 0);
    expect(HAND_WATCHING, "");
    assert_int_equal(kit_sh("mkdir -p w/more{1..10}"), 0);
    (void)wait_for(HAND_OVERFLOW, "");
    (void)wait_for(HAND_CREATED, "more10"); // what is watched still is
    // When others go they get theirs.
    assert_int_equal(kit_sh("touch w/more10/early; rmdir w/{1..15}"), 0);
    (void)wait_for(HAND_CREATED, "more10/early");
    assert_all_watched();
    stop();
}

CHECK_CASE(many_directories)
{
    assert_int_equal(kit_sh("mkdir -p w/{1..50}/{1..50}"), 0);
    start("w", HAND_RECURSIVE);
    assert_watched("50/50/f");
    assert_int_equal(kit_sh("mv w/50 w/x; rm -rf w/{1..49}"), 0);
    (void)wait_for(HAND_DELETED, "49");
    assert_watched("x/1/g");
    stop();
}

KIT_MAIN(KIT_CASE(every_kind), KIT_CASE(modifications_in_one_go_are_one),
         KIT_CASE(the_end_of_what_is_watched), KIT_CASE(held_open_it_is_gone_too), KIT_CASE(a_file),
         KIT_CASE(what_cannot_be_watched), KIT_CASE(a_closed_pipe_ends_it), KIT_CASE(globs),
         KIT_CASE(any_letters), KIT_CASE(a_put_file_is_one_change),
         KIT_CASE(names_like_ours_are_told), KIT_CASE(a_file_that_is_replaced), KIT_CASE(a_tree),
         KIT_CASE(filled_at_once), KIT_CASE(filled_and_renamed), KIT_CASE(renames_keep_paths_right),
         KIT_CASE(exchanged_and_overwritten), KIT_CASE(a_storm_of_renames),
         KIT_CASE(a_storm_of_everything), KIT_CASE(a_reader_that_stops), KIT_CASE(watches_run_out),
         KIT_CASE(many_directories))
