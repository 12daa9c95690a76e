// SPDX-License-Identifier: Apache-2.0
// The hand's long work: listing, deleting, copying, searching and replacing, in processes of their
// own: what they do, what becomes of them, and what user code can do to them meanwhile.
#include "hand/hand-internal.h"
#include "hand_talk.h"

static struct answer got; // large

// --- listing

// All paths of the records, each behind a comma; with a mark for its kind.
static char *paths_of(const struct output *out)
{
    size_t cap = out->len + 1, len = 0;
    char *text = calloc(1, cap);
    assert_non_null(text);
    for (const struct hand_entry *e = NULL; (e = talk_next(out, e)) != NULL;) {
        static const char kinds[] = {[HAND_FILE] = ' ', '/', '@', '?'};
        const char *path = (const char *)(e + 1);
        assert_int_equal(e->rec.type, HAND_REC_ENTRY);
        assert_int_equal(strlen(path), e->path_len);
        assert_int_equal(strlen(path + e->path_len + 1), e->link_len);
        len += (size_t)snprintf(text + len, cap - len, "%s%c,", path, kinds[e->st.kind]);
    }
    return text;
}

static int list(struct talk *talk, const char *path, const char *after, uint64_t limit,
                uint32_t flags, struct output *ret)
{
    char data[HAND_PATH_MAX + sizeof(struct hand_list)] = {0};
    struct hand_list head = {.after_len = (uint32_t)strlen(after)};
    memcpy(data, &head, sizeof head);
    memcpy(data + sizeof head, after, head.after_len);
    struct ask ask = {.type = HAND_LIST, .flags = flags, .limit = limit, .path = path};
    ask.data = data;
    ask.data_len = sizeof head + head.after_len + 1;
    return talk_long(talk, &ask, ret);
}

#define assert_list(talk, name, after, limit, flags, want)                                         \
    do {                                                                                           \
        struct output out_;                                                                        \
        assert_int_equal(list(talk, talk_path(talk, name), after, limit, flags, &out_), 0);        \
        char *text_ = paths_of(&out_);                                                             \
        assert_string_equal(text_, want);                                                          \
        free(text_);                                                                               \
        free(out_.bytes);                                                                          \
    } while (0)

static void make_tree(const struct talk *talk)
{
    talk_mkdir(talk, "t");
    talk_mkdir(talk, "t/b");
    talk_mkdir(talk, "t/b/c");
    talk_mkdir(talk, "t/.h");
    talk_put_text(talk, "t/a", "1");
    talk_put_text(talk, "t/b.x", "22");
    talk_put_text(talk, "t/b/z", "333");
    talk_put_text(talk, "t/b/c/d", "4444");
    talk_put_text(talk, "t/.h/i", "5");
    talk_put_text(talk, "t/\xc3\xa4", "6");
    assert_int_equal(symlink("b/c", talk_path(talk, "t/l")), 0);
    assert_int_equal(mkfifo(talk_path(talk, "t/p"), 0600), 0);
}

static void test_list(void **state)
{
    struct talk *talk = *state;
    enum { ALL = HAND_RECURSIVE | HAND_HIDDEN };
    make_tree(talk);
    assert_list(talk, "t", "", 0, 0, "a ,b/,b.x ,l@,p?,\xc3\xa4 ,");
    assert_list(talk, "t", "", 0, HAND_HIDDEN, ".h/,a ,b/,b.x ,l@,p?,\xc3\xa4 ,");
    assert_list(talk, "t", "", 3, 0, "a ,b/,b.x ,");
    assert_list(talk, "t", "b.x", 2, 0, "l@,p?,");
    assert_list(talk, "t", "b", 0, 0, "b.x ,l@,p?,\xc3\xa4 ,");
    assert_list(talk, "t", "not there", 0, 0, "p?,\xc3\xa4 ,");
    assert_list(talk, "t", "\xff", 0, 0, "");
    assert_list(talk, "t", "", 0, ALL, ".h/,.h/i ,a ,b/,b/c/,b/c/d ,b/z ,b.x ,l@,p?,\xc3\xa4 ,");
    assert_list(talk, "t", "b", 0, ALL, "b/c/,b/c/d ,b/z ,b.x ,l@,p?,\xc3\xa4 ,");
    assert_list(talk, "t", "b/c", 2, ALL, "b/c/d ,b/z ,");
    assert_list(talk, "t", "b/c/d", 0, ALL, "b/z ,b.x ,l@,p?,\xc3\xa4 ,");
    assert_list(talk, "t", "b/gone/x/y", 2, ALL, "b/z ,b.x ,");
    assert_list(talk, "t", "a/under a file", 1, ALL, "b/,");
    assert_list(talk, "t/l", "", 0, 0, "d ,");
}

static void test_list_refused(void **state)
{
    struct talk *talk = *state;
    struct output out;
    make_tree(talk);
    static const struct {
        const char *name;
        uint32_t flags;
        int want;
    } bad[] = {
        {"no",   0,              ENOENT },
        {"t/a",  0,              ENOTDIR},
        {"t/p",  0,              ENOTDIR},
        {"t/l",  HAND_NO_FOLLOW, ENOTDIR},
        {"t/a/", 0,              0      },
    };
    for (unsigned i = 0; bad[i].want != 0; i++) {
        assert_int_equal(list(talk, talk_path(talk, bad[i].name), "", 0, bad[i].flags, &out),
                         bad[i].want);
        assert_int_equal(out.len, 0);
        assert_string_equal(out.ended.path, talk_path(talk, bad[i].name));
        free(out.bytes);
    }
    // What the kernel makes up is listed, but not gone through.
    assert_int_equal(list(talk, "/proc", "", 0, HAND_RECURSIVE, &out), 0);
    assert_true(out.ended.n > 10);
    for (const struct hand_entry *e = NULL; (e = talk_next(&out, e)) != NULL;)
        assert_null(strchr((const char *)(e + 1), '/'));
    free(out.bytes);
    static const char *const after[] = {"/a", "a/", "a//b", ".", "..", "a/../b"};
    for (unsigned i = 0; i < 6; i++) {
        char data[32] = {0};
        struct hand_list head = {.after_len = (uint32_t)strlen(after[i])};
        memcpy(data, &head, sizeof head);
        memcpy(data + sizeof head, after[i], head.after_len);
        struct ask ask = {.type = HAND_LIST, .path = "/", .data = data};
        ask.data_len = sizeof head + head.after_len + 1;
        assert_int_equal(talk_do(talk, &ask), EINVAL);
        ask.data_len--;
        assert_int_equal(talk_do(talk, &ask), EINVAL);
    }
}

static void test_list_without_some(void **state)
{
    struct talk *talk = *state;
    static const struct {
        const char *exclude, *want;
        uint64_t limit;
    } cases[] = {
        {"",          ".h/,.h/i ,a ,b/,b/c/,b/c/d ,b/z ,b.x ,l@,p?,\xc3\xa4 ,", 0},
        {"b",         ".h/,.h/i ,a ,b.x ,l@,p?,\xc3\xa4 ,",                     0},
        {".h,c,?",    "b.x ,\xc3\xa4 ,",                                        0},
        {"nobody,*x", ".h/,.h/i ,a ,",                                          3},
        {"*",         "",                                                       0},
    };
    make_tree(talk);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct output out;
        struct hand_list head = {0};
        char data[64] = {0};
        memcpy(data, &head, sizeof head);
        memcpy(data + sizeof head + 1, cases[i].exclude, strlen(cases[i].exclude));
        struct ask ask = {.type = HAND_LIST,
                          .flags = HAND_RECURSIVE | HAND_HIDDEN,
                          .limit = cases[i].limit,
                          .path = talk_path(talk, "t"),
                          .data = data};
        ask.data_len = sizeof head + 1 + strlen(cases[i].exclude) + 1;
        assert_int_equal(talk_long(talk, &ask, &out), 0);
        char *text = paths_of(&out);
        assert_string_equal(text, cases[i].want);
        free(text);
        free(out.bytes);
    }
    char unended[sizeof(struct hand_list) + 3] = "\0\0\0\0\0ab";
    struct ask bad = {.type = HAND_LIST, .path = "/", .data = unended, .data_len = sizeof unended};
    assert_int_equal(talk_do(talk, &bad), EINVAL);
}

// Names in no order, in pages of any size, each once and in order.
static void test_list_pages(void **state)
{
    enum { N = 30000 };
    struct talk *talk = *state;
    talk_mkdir(talk, "big");
    auto_fd dir = open(talk_path(talk, "big"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char name[128], after[128] = "";
    for (unsigned i = N; i-- > 0;) {
        (void)snprintf(name, sizeof name, "%08x-a rather long name, of which there are many",
                       i * 2654435761u);
        fd_close(openat(dir, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    }
    unsigned n = 0;
    for (unsigned page = 1;; page = page * 3 % 8191) {
        struct output out;
        assert_int_equal(list(talk, talk_path(talk, "big"), after, page, 0, &out), 0);
        unsigned here = 0;
        for (const struct hand_entry *e = NULL; (e = talk_next(&out, e)) != NULL; here++) {
            assert_true(strcmp((const char *)(e + 1), after) > 0);
            (void)snprintf(after, sizeof after, "%s", (const char *)(e + 1));
        }
        free(out.bytes);
        n += here;
        assert_int_equal(out.ended.n, here);
        if (here < page)
            break;
    }
    assert_int_equal(n, N);
}

// --- deep trees

enum { DEEP = 6000 };

static void make_deep(const struct talk *talk, const char *name)
{
    talk_mkdir(talk, name);
    int dir = open(talk_path(talk, name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < DEEP; i++) {
        assert_int_equal(mkdirat(dir, "d", 0755), 0);
        if (i % 100 == 0)
            fd_close(openat(dir, "e", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        int next = openat(dir, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        (void)close(dir);
        dir = next;
    }
    (void)close(dir);
}

static void test_deep(void **state)
{
    struct talk *talk = *state;
    struct output out;
    make_deep(talk, "deep");
    talk_put_text(talk, "zzz", "");
    assert_int_equal(list(talk, talk->dir, "", 0, HAND_RECURSIVE, &out), ENAMETOOLONG);
    const char *last = NULL;
    for (const struct hand_entry *e = NULL; (e = talk_next(&out, e)) != NULL;)
        last = (const char *)(e + 1);
    assert_string_equal(last, "zzz"); // all the rest was listed
    assert_true(out.ended.n > 2000);
    free(out.bytes);
    struct ask ask = {.type = HAND_COPY, .path = talk_path(talk, "deep")};
    ask.path2 = talk_path(talk, "copy");
    assert_int_equal(talk_long_do(talk, &ask), ENAMETOOLONG);
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "deep" : "copy";
        ask = (struct ask){.type = HAND_DELETE_TREE, .path = talk_path(talk, name)};
        assert_int_equal(talk_long(talk, &ask, &out), 0);
        assert_true(out.ended.n > 2000);
        free(out.bytes);
        assert_false(talk_is_there(talk, name));
    }
}

// --- deleting

static int delete_tree(struct talk *talk, const char *path)
{
    return talk_long_do(talk, &(struct ask){.type = HAND_DELETE_TREE, .path = path});
}

static void test_delete_tree(void **state)
{
    struct talk *talk = *state;
    make_tree(talk);
    talk_mkdir(talk, "out");
    talk_put_text(talk, "out/stays", "");
    char target[HAND_PATH_MAX];
    (void)snprintf(target, sizeof target, "%s", talk_path(talk, "out"));
    assert_int_equal(symlink(target, talk_path(talk, "t/b/c/out")), 0);
    assert_int_equal(symlink("../..", talk_path(talk, "t/b/up")), 0);
    assert_int_equal(symlink("t", talk_path(talk, "link")), 0);
    assert_int_equal(delete_tree(talk, talk_path(talk, "link")), 0); // only the link
    assert_true(talk_is_there(talk, "t/a"));
    assert_int_equal(delete_tree(talk, talk_path(talk, "t")), 0);
    assert_false(talk_is_there(talk, "t"));
    assert_true(talk_is_there(talk, "out/stays"));
    assert_int_equal(delete_tree(talk, talk_path(talk, "out/stays")), 0);
    assert_int_equal(delete_tree(talk, talk_path(talk, "out/stays")), ENOENT);
}

// In a root of its own, of which nothing would be missed.
static void test_delete_mounted(void **state)
{
    struct talk *talk = *state;
    talk_mkdir(talk, "mnt");
    talk_mkdir(talk, "d");
    talk_put_text(talk, "d/f", "");
    talk_stop(talk);
    talk->boxed = true;
    talk_start(talk);
    assert_int_equal(delete_tree(talk, "/"), EBUSY);
    assert_int_equal(delete_tree(talk, "/mnt"), EBUSY);
    assert_int_equal(talk_do(talk, &(struct ask){.type = HAND_STAT, .path = "/mnt/stays"}), 0);
    assert_int_equal(talk_do(talk, &(struct ask){.type = HAND_STAT, .path = "/d/f"}), 0);
    assert_int_equal(talk_do(talk, &(struct ask){.type = HAND_MOVE, .path = "/mnt", .path2 = "/x"}),
                     EBUSY);
    assert_int_equal(
        talk_do(talk, &(struct ask){.type = HAND_MOVE, .path = "/d/f", .path2 = "/mnt/f"}), EXDEV);
}

static pid_t background(void (*fn)(const char *), const char *arg)
{
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close_range(3, ~0u, 0);
        for (;;)
            fn(arg);
    }
    return pid;
}

static void end_background(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

// Directories of the tree become links out of it, and directories again.
static void swap_links(const char *dir)
{
    (void)chdir(dir);
    for (int i = 0; i < 8; i++) {
        char a[16], b[16];
        (void)snprintf(a, sizeof a, "t/%d", i);
        (void)snprintf(b, sizeof b, "swap%d", i);
        (void)renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
    }
}

static void test_delete_swapped(void **state)
{
    struct talk *talk = *state;
    char name[64], target[HAND_PATH_MAX];
    talk_mkdir(talk, "out");
    for (int i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof name, "out/%d", i);
        talk_put_text(talk, name, "");
    }
    (void)snprintf(target, sizeof target, "%s", talk_path(talk, "out"));
    for (int round = 0; round < 8; round++) {
        talk_mkdir(talk, "t");
        for (int i = 0; i < 8; i++) {
            (void)snprintf(name, sizeof name, "t/%d", i);
            talk_mkdir(talk, name);
            for (int j = 0; j < 100; j++) {
                (void)snprintf(name, sizeof name, "t/%d/%d", i, j);
                talk_put_text(talk, name, "");
            }
            (void)snprintf(name, sizeof name, "swap%d", i);
            (void)unlink(talk_path(talk, name));
            (void)rename(talk_path(talk, name), talk_path(talk, "t/left"));
            assert_int_equal(symlink(target, talk_path(talk, name)), 0);
        }
        pid_t pid = background(swap_links, talk->dir);
        int r = delete_tree(talk, talk_path(talk, "t"));
        assert_true(r == 0 || r == ENOTEMPTY);
        end_background(pid);
        assert_int_equal(delete_tree(talk, talk_path(talk, "t")), r == 0 ? ENOENT : 0);
        for (int i = 0; i < 8; i++) {
            (void)snprintf(name, sizeof name, "swap%d", i);
            assert_int_equal(delete_tree(talk, talk_path(talk, name)), 0);
        }
    }
    struct output out;
    assert_int_equal(list(talk, target, "", 0, 0, &out), 0);
    assert_int_equal(out.ended.n, 100);
    free(out.bytes);
}

static void test_delete_many_dirs(void **state)
{
    struct talk *talk = *state;
    char name[64];
    talk_mkdir(talk, "t");
    for (int i = 0; i < 1500; i++) {
        (void)snprintf(name, sizeof name, "t/%d", i);
        talk_mkdir(talk, name);
        (void)snprintf(name, sizeof name, "t/%d/f", i);
        talk_put_text(talk, name, "");
    }
    struct output out;
    struct ask ask = {.type = HAND_DELETE_TREE, .path = talk_path(talk, "t")};
    assert_int_equal(talk_long(talk, &ask, &out), 0);
    assert_int_equal(out.ended.n, 3001);
    free(out.bytes);
}

// --- copying

static int copy(struct talk *talk, const char *from, const char *to, uint32_t flags)
{
    struct ask ask = {.type = HAND_COPY, .flags = flags};
    ask.path = talk_path(talk, from);
    ask.path2 = talk_path(talk, to);
    return talk_long_do(talk, &ask);
}

static void assert_content(const struct talk *talk, const char *name, const char *want)
{
    char text[256];
    assert_true(fd_read_file(AT_FDCWD, talk_path(talk, name), text, sizeof text) >= 0);
    assert_string_equal(text, want);
}

static void test_copy(void **state)
{
    struct talk *talk = *state;
    struct stat st;
    make_tree(talk);
    assert_int_equal(chown(talk_path(talk, "t/b/z"), 77, 88), 0);
    assert_int_equal(chmod(talk_path(talk, "t/b/z"), 04711), 0);
    assert_int_equal(chmod(talk_path(talk, "t/b"), 01700), 0);
    assert_int_equal(copy(talk, "t", "u", 0), 0);
    assert_list(talk, "u", "", 0, HAND_RECURSIVE | HAND_HIDDEN,
                ".h/,.h/i ,a ,b/,b/c/,b/c/d ,b/z ,b.x ,l@,\xc3\xa4 ,"); // no FIFO
    assert_content(talk, "u/b/c/d", "4444");
    assert_int_equal(stat(talk_path(talk, "u/b/z"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 04711);
    assert_int_equal(st.st_uid, 77);
    assert_int_equal(st.st_gid, 88);
    assert_int_equal(stat(talk_path(talk, "u/b"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 01700);

    assert_int_equal(copy(talk, "t", "u", HAND_NO_REPLACE), EEXIST);
    talk_put_text(talk, "u/more", "stays");
    talk_put_text(talk, "t/a", "changed");
    assert_int_equal(copy(talk, "t", "u", 0), 0);
    assert_content(talk, "u/a", "changed");
    assert_content(talk, "u/more", "stays");
    assert_int_equal(copy(talk, "t/a", "x/y/a", 0), ENOENT);
    assert_int_equal(copy(talk, "t/a", "x/y/a", HAND_PARENTS), 0);
    assert_int_equal(copy(talk, "t/a", "x/y/a", HAND_NO_REPLACE), EEXIST);
    assert_int_equal(copy(talk, "t/l", "l2", 0), 0);
    assert_int_equal(copy(talk, "t/l", "x/y/a", 0), 0);
    assert_int_equal(lstat(talk_path(talk, "x/y/a"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
}

static void test_copy_refused(void **state)
{
    struct talk *talk = *state;
    make_tree(talk);
    assert_int_equal(symlink("t/b", talk_path(talk, "into")), 0);
    assert_int_equal(copy(talk, "t", "t/b/copy", 0), EINVAL);
    assert_int_equal(copy(talk, "t", "into/copy", 0), EINVAL);
    assert_int_equal(copy(talk, "t", "t", 0), EINVAL);
    assert_int_equal(copy(talk, "t/a", "t/a", 0), EINVAL);
    assert_int_equal(copy(talk, "t/p", "p", 0), EINVAL);
    assert_int_equal(copy(talk, "t", "t/a", 0), EINVAL);
    talk_put_text(talk, "file", "");
    assert_int_equal(copy(talk, "t", "file", 0), ENOTDIR);
    assert_int_equal(copy(talk, "file", "t", 0), EISDIR);
    assert_int_equal(copy(talk, "t/l", "t/b", 0), EISDIR);
    assert_int_equal(copy(talk, "no", "new/x", HAND_PARENTS), ENOENT);
    assert_false(talk_is_there(talk, "new"));
    struct ask ask = {.type = HAND_COPY, .path = "/proc/sys", .path2 = talk_path(talk, "sys")};
    assert_int_equal(talk_long_do(talk, &ask), EINVAL);
    ask.path = "/proc/uptime";
    assert_int_equal(talk_long_do(talk, &ask), EINVAL);
    ask.path = "/dev/zero";
    assert_int_equal(talk_long_do(talk, &ask), EINVAL);
    ask.path = "/";
    assert_int_equal(talk_long_do(talk, &ask), EBUSY);
}

// A terabyte of nothing, with a word in the middle and at the end of nothing.
static void test_copy_sparse(void **state)
{
    struct talk *talk = *state;
    const off_t size = (off_t)1 << 40;
    struct stat st;
    talk_put_text(talk, "s", "begin");
    auto_fd fd = open(talk_path(talk, "s"), O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "middle", 6, size / 2), 6);
    assert_int_equal(ftruncate(fd, size), 0);
    assert_int_equal(copy(talk, "s", "c", 0), 0);
    assert_int_equal(stat(talk_path(talk, "c"), &st), 0);
    assert_int_equal(st.st_size, size);
    assert_true(st.st_blocks < 1000);
    auto_fd c = open(talk_path(talk, "c"), O_RDONLY | O_CLOEXEC);
    char text[7] = "";
    assert_int_equal(pread(c, text, 6, size / 2), 6);
    assert_string_equal(text, "middle");
    assert_int_equal(pread(c, text, 5, 0), 5);
    assert_memory_equal(text, "begin", 5);
}

// --- searching

static int search(struct talk *talk, enum hand_type type, const char *path, const char *text,
                  const char *name, const char *with, uint32_t flags, uint64_t limit,
                  struct output *ret)
{
    static char data[HAND_DATA_MAX];
    struct hand_search head = {
        .flags = flags,
        .text_len = (uint32_t)strlen(text),
        .name_len = (uint32_t)strlen(name),
        .with_len = (uint32_t)strlen(with),
    };
    char *at = data;
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    memcpy(at, text, head.text_len + 1);
    at += head.text_len + 1;
    memcpy(at, name, head.name_len + 1);
    at += head.name_len + 1;
    memcpy(at, with, head.with_len + 1);
    at += head.with_len + 1;
    struct ask ask = {.type = type, .path = path, .limit = limit, .data = data};
    ask.data_len = (size_t)(at - data);
    return talk_long(talk, &ask, ret);
}

// "path:line:column:text" of each match, each in a line.
static char *matches_of(struct output *out)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    assert_non_null(f);
    for (const struct hand_match *m = NULL; (m = talk_next(out, m)) != NULL;) {
        const char *path = (const char *)(m + 1);
        assert_int_equal(m->rec.type, HAND_REC_MATCH);
        assert_int_equal(strlen(path), m->path_len);
        assert_int_equal(strlen(path + m->path_len + 1), m->text_len);
        (void)fprintf(f, "%s:%lu:%lu:%s\n", path, m->line, m->column, path + m->path_len + 1);
    }
    (void)fclose(f);
    free(out->bytes);
    return text;
}

#define assert_search(talk, path, text, name, flags, limit, want)                                  \
    do {                                                                                           \
        struct output out_;                                                                        \
        assert_int_equal(                                                                          \
            search(talk, HAND_SEARCH, talk_path(talk, path), text, name, "", flags, limit, &out_), \
            0);                                                                                    \
        char *found_ = matches_of(&out_);                                                          \
        assert_string_equal(found_, want);                                                         \
        free(found_);                                                                              \
    } while (0)

static void test_search(void **state)
{
    struct talk *talk = *state;
    make_tree(talk);
    talk_put_text(talk, "t/one.c", "first\nneedle and needle\n\nlast Needle");
    talk_put_text(talk, "t/b/two.h", "needle\n");
    talk_put_text(talk, "t/.h/three.c", "needle");
    talk_put(talk, "t/binary", "needle\0needle", 13);
    assert_int_equal(symlink("one.c", talk_path(talk, "t/sym.c")), 0);
    assert_search(talk, "t", "needle", "", 0, 0,
                  "b/two.h:1:1:needle\n"
                  "one.c:2:1:needle and needle\none.c:2:12:needle and needle\n");
    assert_search(talk, "t", "needle", "*.c", HAND_SEARCH_HIDDEN, 0,
                  ".h/three.c:1:1:needle\n"
                  "one.c:2:1:needle and needle\none.c:2:12:needle and needle\n");
    assert_search(talk, "t", "NEEDLE", "one*", HAND_SEARCH_NO_CASE, 0,
                  "one.c:2:1:needle and needle\none.c:2:12:needle and needle\n"
                  "one.c:4:6:last Needle\n");
    assert_search(talk, "t", "NEEDLE", "", 0, 0, "");
    assert_search(talk, "t", "needle", "", 0, 2,
                  "b/two.h:1:1:needle\none.c:2:1:needle and needle\n");
    assert_search(talk, "t", "", "*[bh]", 0, 0, "b:0:0:\nb/two.h:0:0:\n");
    assert_search(talk, "t/one.c", "last", "", 0, 0, ":4:1:last Needle\n");
    assert_search(talk, "t/sym.c", "last", "", 0, 0, ":4:1:last Needle\n");
    assert_search(talk, "t/p", "last", "", 0, 0, "");
    assert_search(talk, "t", "needle\n\nlast", "", 0, 0, "one.c:2:12:needle and needle\n");
    struct output out;
    assert_int_equal(search(talk, HAND_SEARCH, talk_path(talk, "no"), "x", "", "", 0, 0, &out),
                     ENOENT);
    free(out.bytes);
}

// Matches at every place around the edges of what is read at a time, in one line without end.
static void test_search_long(void **state)
{
    enum { SIZE = 3 * 1024 * 1024 / 2, STEP = 4099 };
    struct talk *talk = *state;
    char *text = malloc(SIZE);
    assert_non_null(text);
    memset(text, '.', SIZE);
    unsigned n = 0;
    for (size_t at = 1; at + 6 < SIZE; at += STEP, n++)
        memcpy(text + at, "needle", 6);
    for (size_t at = 262144 - 40; at < 262144 + 40; at += 7) // the window's own edge
        if (at % STEP > 10 && at % STEP < STEP - 10) {
            memcpy(text + at, "needle", 6);
            n++;
        }
    talk_put(talk, "f", text, SIZE);
    struct output out;
    assert_int_equal(search(talk, HAND_SEARCH, talk_path(talk, "f"), "NEEDLE", "", "",
                            HAND_SEARCH_NO_CASE, 0, &out),
                     0);
    assert_int_equal(out.ended.n, n);
    for (const struct hand_match *m = NULL; (m = talk_next(&out, m)) != NULL;) {
        const char *line = (const char *)(m + 1) + 1;
        assert_int_equal(m->line, 1);
        assert_memory_equal(text + m->column - 1, "needle", 6);
        assert_true(m->text_len <= 1024 && strstr(line, "needle") != NULL);
    }
    free(out.bytes);
    free(text);
}

static void test_replace(void **state)
{
    struct talk *talk = *state;
    struct output out;
    struct stat st;
    make_tree(talk);
    talk_put_text(talk, "t/one", "a needle, a needle\nneedle");
    talk_put_text(talk, "t/b/two", "needle");
    talk_put_text(talk, "t/none", "nothing");
    talk_put(talk, "t/binary", "needle\0", 7);
    assert_int_equal(chown(talk_path(talk, "t/one"), 12, 13), 0);
    assert_int_equal(chmod(talk_path(talk, "t/one"), 0750), 0);
    assert_int_equal(stat(talk_path(talk, "t/none"), &st), 0);
    ino_t none = st.st_ino;
    assert_int_equal(
        search(talk, HAND_REPLACE, talk_path(talk, "t"), "needle", "", "pin", 0, 0, &out), 0);
    char *found = matches_of(&out);
    assert_string_equal(found, "b/two:1:0:\none:3:0:\n");
    free(found);
    assert_content(talk, "t/one", "a pin, a pin\npin");
    assert_content(talk, "t/b/two", "pin");
    assert_content(talk, "t/binary", "needle");
    assert_int_equal(stat(talk_path(talk, "t/one"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0750);
    assert_int_equal(st.st_uid, 12);
    assert_int_equal(stat(talk_path(talk, "t/none"), &st), 0);
    assert_int_equal(st.st_ino, none);
    assert_int_equal(
        search(talk, HAND_REPLACE, talk_path(talk, "t/one"), "pin", "", "", 0, 0, &out), 0);
    free(out.bytes);
    assert_content(talk, "t/one", "a , a \n");
    assert_list(talk, "t", "", 0, HAND_HIDDEN,
                ".h/,a ,b/,b.x ,binary ,l@,none ,one ,p?,\xc3\xa4 ,");
}

// Against a plain model: pieces longer and shorter than what is read and written at a time.
static void test_replace_model(void **state)
{
    struct talk *talk = *state;
    unsigned seed = 99;
    for (int round = 0; round < 12; round++) {
        char *old = NULL, *want = NULL;
        size_t old_len = 0, want_len = 0;
        char with[64];
        (void)snprintf(with, sizeof with, "%.*s", rand_r(&seed) % 40,
                       "something that may be longer than before");
        FILE *a = open_memstream(&old, &old_len), *b = open_memstream(&want, &want_len);
        assert_true(a != NULL && b != NULL);
        for (int i = rand_r(&seed) % 60; i >= 0; i--) {
            int gap = rand_r(&seed) % (round % 2 ? 200000 : 50);
            for (int j = 0; j < gap; j++) {
                char c = (char)('a' + rand_r(&seed) % 3);
                (void)fputc(c, a);
                (void)fputc(c, b);
            }
            (void)fputs("NEEDLE", a);
            (void)fputs(with, b);
        }
        (void)fclose(a);
        (void)fclose(b);
        talk_put(talk, "f", old, old_len);
        struct output out;
        const char *f = talk_path(talk, "f");
        assert_int_equal(search(talk, HAND_REPLACE, f, "NEEDLE", "", with, 0, 0, &out), 0);
        free(out.bytes);
        auto_fd fd = open(f, O_RDONLY | O_CLOEXEC);
        char *now = malloc(want_len + 1);
        assert_non_null(now);
        assert_int_equal(fd_read_all(fd, now, want_len + 1), want_len);
        assert_memory_equal(now, want, want_len);
        free(now);
        free(old);
        free(want);
    }
}

static void test_search_refused(void **state)
{
    struct talk *talk = *state;
    char data[sizeof(struct hand_search) + 8] = {0};
    struct hand_search head = {0};
    struct ask ask = {.type = HAND_REPLACE, .path = "/tmp/none", .data = data};
    ask.data_len = sizeof head + 3;
    assert_int_equal(talk_do(talk, &ask), EINVAL); // nothing to replace
    ask.type = HAND_SEARCH;
    for (size_t len = 0; len < sizeof head + 3; len++) {
        ask.data_len = len;
        assert_int_equal(talk_do(talk, &ask), EINVAL);
    }
    ask.data_len = sizeof head + 3;
    static const struct hand_search bad[] = {
        {.flags = 4},
        {.text_len = 1},
        {.name_len = UINT32_MAX},
        {.with_len = 9},
    };
    for (unsigned i = 0; i < 4; i++) {
        memcpy(data, &bad[i], sizeof head);
        assert_int_equal(talk_do(talk, &ask), EINVAL);
    }
}

CHECK_CASE(test_glob)
{
    static const struct {
        const char *pattern, *name;
        bool want;
    } cases[] = {
        {"*",           "",            true },
        {"",            "",            true },
        {"",            "a",           false},
        {"a*c",         "abbbc",       true },
        {"a*c",         "abbbcd",      false},
        {"*.c",         ".c",          true },
        {"a?c",         "ac",          false},
        {"[a-c]x",      "bx",          true },
        {"[!a-c]x",     "bx",          false},
        {"[^a]",        "b",           true },
        {"[]]",         "]",           true },
        {"[]-a]",       "_",           true },
        {"[a-]",        "-",           true },
        {"[",           "[",           true },
        {"[a",          "[a",          true },
        {"[a",          "a",           false},
        {"\\*",         "*",           true },
        {"\\*",         "x",           false},
        {"\\",          "\\",          true },
        {"[\\]]",       "]",           true },
        {"*a*b*c*",     "xxaxxbxxcxx", true },
        {"*a*b*c",      "xxaxxbxxcxx", false},
        {"**",          "x",           true },
        {"[\x80-\xff]", "\xc3",        true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (hand_glob(cases[i].pattern, cases[i].name) != cases[i].want)
            fail_msg("%s on %s", cases[i].pattern, cases[i].name);
    char pattern[HAND_GLOB_MAX + 1], name[NAME_MAX + 1]; // no time without end
    for (int i = 0; i < HAND_GLOB_MAX; i++)
        pattern[i] = i % 2 ? '*' : 'a';
    pattern[HAND_GLOB_MAX] = '\0';
    memset(name, 'a', NAME_MAX);
    name[NAME_MAX] = '\0';
    assert_false(hand_glob(pattern, name));
}

// --- the processes

static int count_in(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    (void)closedir(dir);
    return n;
}

static int hand_fds(const struct talk *talk)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd", talk->pid);
    return count_in(path);
}

// The hand's children.
static unsigned workers(const struct talk *talk, pid_t *ret, unsigned max)
{
    char path[64], text[4096], *at = text;
    unsigned n = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", talk->pid, talk->pid);
    assert_true(fd_read_file(AT_FDCWD, path, text, sizeof text) >= 0);
    for (char *word; n < max && (word = strsep(&at, " ")) != NULL;)
        if (*word != '\0')
            ret[n++] = (pid_t)strtol(word, NULL, 10);
    return n;
}

// Enough to fill a pipe many times.
static void make_many(const struct talk *talk)
{
    char name[64];
    talk_mkdir(talk, "many");
    for (int i = 0; i < 1500; i++) {
        (void)snprintf(name, sizeof name, "many/%d", i);
        talk_put_text(talk, name, "");
    }
}

// A listing that stands still, because nobody reads it.
static uint32_t start(struct talk *talk, int *ret_fd)
{
    struct ask ask = {.type = HAND_LIST, .path = talk_path(talk, "many")};
    assert_int_equal(talk_ask(talk, &ask, &got), 0);
    *ret_fd = got.fd[0];
    return got.done.head.id;
}

static void test_many_at_once(void **state)
{
    struct talk *talk = *state;
    int fds[HAND_LONG_MAX];
    uint32_t ids[HAND_LONG_MAX];
    pid_t pids[HAND_LONG_MAX + 1];
    make_many(talk);
    assert_int_equal(talk_do(talk, &(struct ask){.type = HAND_STAT, .path = "/"}), 0); // it is up
    int before = hand_fds(talk);
    for (int i = 0; i < HAND_LONG_MAX; i++)
        ids[i] = start(talk, &fds[i]);
    assert_int_equal(workers(talk, pids, HAND_LONG_MAX + 1), HAND_LONG_MAX);
    assert_int_equal(talk_do(talk, &(struct ask){.type = HAND_LIST, .path = "/"}), EAGAIN);
    assert_int_equal(talk_do(talk, &(struct ask){.type = HAND_STAT, .path = "/"}), 0);
    assert_int_equal(hand_fds(talk), before);     // nothing of theirs stays with the hand
    for (int i = 0; i < HAND_LONG_MAX; i += 16) { // three pipes: 0, 1, 2, and its own
        char path[64];
        (void)snprintf(path, sizeof path, "/proc/%d/fd", pids[i]);
        assert_true(count_in(path) - 2 <= 3 + 2);
    }
    struct hand_ended ended;
    for (int i = 0; i < HAND_LONG_MAX; i++) {
        if (i % 2) { // read to the end, or closed
            size_t len;
            free(talk_drain(fds[i], &len));
            assert_int_equal(talk_ended(talk, ids[i], &ended), 0);
            assert_int_equal(ended.n, 1500);
        } else {
            fd_close(fds[i]);
            assert_int_equal(talk_ended(talk, ids[i], &ended), EPIPE);
        }
    }
    assert_int_equal(workers(talk, pids, 1), 0);
    assert_int_equal(hand_fds(talk), before);
}

static void test_cancel(void **state)
{
    struct talk *talk = *state;
    struct hand_ended ended;
    pid_t pid;
    int fd;
    make_many(talk);
    uint32_t id = start(talk, &fd);
    (void)talk_send(talk, &(struct ask){.type = HAND_CANCEL, .handle = id + 100}); // nobody
    (void)talk_send(talk, &(struct ask){.type = HAND_CANCEL, .handle = UINT64_MAX});
    (void)talk_send(talk, &(struct ask){.type = HAND_CANCEL, .handle = id});
    assert_int_equal(talk_ended(talk, id, &ended), ECANCELED);
    fd_close(fd);

    id = start(talk, &fd); // one that somebody has stopped
    assert_int_equal(workers(talk, &pid, 1), 1);
    (void)kill(pid, SIGSTOP);
    (void)talk_send(talk, &(struct ask){.type = HAND_CANCEL, .handle = id});
    assert_int_equal(talk_ended(talk, id, &ended), ECANCELED);
    fd_close(fd);

    id = start(talk, &fd); // one that somebody has killed
    assert_int_equal(workers(talk, &pid, 1), 1);
    (void)kill(pid, SIGKILL);
    assert_int_equal(talk_ended(talk, id, &ended), ECHILD);
    fd_close(fd);
    (void)talk_send(talk, &(struct ask){.type = HAND_CANCEL, .handle = id}); // too late
    assert_int_equal(talk_do(talk, &(struct ask){.type = HAND_STAT, .path = "/"}), 0);
}

static void test_same_id(void **state)
{
    struct talk *talk = *state;
    struct hand_ended ended;
    int fd;
    make_many(talk);
    uint32_t id = start(talk, &fd);
    talk->last_id = id - 1;
    assert_int_equal(talk_do(talk, &(struct ask){.type = HAND_LIST, .path = "/"}), EEXIST);
    fd_close(fd);
    assert_int_equal(talk_ended(talk, id, &ended), EPIPE);
}

// The teardown sees that the hand ends, and that its workers do.
static void test_hand_ends(void **state)
{
    struct talk *talk = *state;
    int fds[8];
    make_many(talk);
    for (int i = 0; i < 8; i++)
        (void)start(talk, &fds[i]);
    talk_stop(talk);
    for (int i = 0; i < 8; i++)
        fd_close(fds[i]);
    talk_start(talk);
}

// When somebody kills the hand, its workers end too, and their pipes with them.
static void test_hand_killed(void **state)
{
    struct talk *talk = *state;
    int fd, status;
    make_many(talk);
    (void)start(talk, &fd);
    (void)kill(talk->pid, SIGKILL);
    assert_int_equal(waitpid(talk->pid, &status, 0), talk->pid);
    assert_true(waitpid(-1, &status, 0) > 0); // the worker, which became ours
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    fd_close(fd);
    fd_close(talk->sock);
    talk_start(talk);
}

CHECK_MAIN(TALK_CASE(test_list), TALK_CASE(test_list_refused), TALK_CASE(test_list_without_some),
           TALK_CASE(test_list_pages), TALK_CASE(test_deep), TALK_CASE(test_delete_tree),
           TALK_CASE(test_delete_swapped), TALK_CASE(test_delete_mounted),
           TALK_CASE(test_delete_many_dirs), TALK_CASE(test_copy), TALK_CASE(test_copy_refused),
           TALK_CASE(test_copy_sparse), TALK_CASE(test_search), TALK_CASE(test_search_long),
           TALK_CASE(test_replace), TALK_CASE(test_replace_model), TALK_CASE(test_search_refused),
           cmocka_unit_test(test_glob), TALK_CASE(test_many_at_once), TALK_CASE(test_cancel),
           TALK_CASE(test_same_id), TALK_CASE(test_hand_ends), TALK_CASE(test_hand_killed))
