// SPDX-License-Identifier: Apache-2.0
// Paths as parts of keys, indexes of stored workspaces, and records of cay-pack: what is not
// exactly as it should be is refused, however it comes.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "check.h"
#include "saved/sync-index.h"
#include "saved/sync-records.h"

#define SHA                   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define FILE_LINE(path, size) "f\t" size "\t-5\t420\t0\t1000\t" SHA "\t" path "\t\n"
#define DIR_LINE(path)        "d\t0\t1\t493\t0\t0\t-\t" path "\t\n"
#define LINK_LINE(path)       "l\t0\t1\t511\t0\t0\t-\t" path "\t../x\n"
#define HEAD                  PACK_INDEX_HEAD "\n"

// -- paths

CHECK_CASE(escaped_and_back)
{
    static const struct {
        const char *raw, *shown;
    } pairs[] = {
        {"a/b",                     "a/b"                    },
        {"caf\xc3\xa9",             "caf\xc3\xa9"            },
        {"new\nline\t\x7f",         "new%0Aline%09%7F"       },
        {"100%",                    "100%25"                 },
        {"%41",                     "%2541"                  },
        {"bad\xff\xc3",             "bad%FF%C3"              },
        {"c1\xc2\x85",              "c1%C2%85"               },
        {"\xed\xa0\x80",            "%ED%A0%80"              },
        {"\xf0\x9f\x98\x80 spa ce", "\xf0\x9f\x98\x80 spa ce"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char raw[PACK_PATH_MAX];
        auto_buf shown;
        buf_init(&shown, 1000);
        path_escape(pairs[i].raw, strlen(pairs[i].raw), &shown);
        assert_string_equal(buf_str(&shown), pairs[i].shown);
        assert_int_equal(path_unescape(shown.data, shown.len, raw), strlen(pairs[i].raw));
        assert_string_equal(raw, pairs[i].raw);
        assert_true(path_read(pairs[i].shown, raw) >= 0);
        assert_string_equal(raw, pairs[i].raw);
    }
}

CHECK_CASE(as_somebody_wrote_it)
{
    char raw[PACK_PATH_MAX];
    assert_true(path_read("100%", raw) >= 0);
    assert_string_equal(raw, "100%");
    assert_true(path_read("a%41", raw) >= 0); // not as it would be shown: itself
    assert_string_equal(raw, "a%41");
    assert_true(path_read("a%0a", raw) >= 0);
    assert_string_equal(raw, "a%0a");
    static const char *const bad[] = {"", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(path_read(bad[i], raw), -1);
    // What hides behind escapes is found behind them.
    assert_true(path_read("%2E%2E/x", raw) >= 0);
    assert_string_equal(raw, "%2E%2E/x");
    assert_int_equal(path_unescape("%2E%2E/x", 8, raw), -1);
    assert_int_equal(path_unescape("a%2F%2Fb", 8, raw), -1);
    assert_int_equal(path_unescape("a%00b", 5, raw), -1);
    char *longer = malloc(PACK_PATH_MAX + 10);
    memset(longer, 'x', PACK_PATH_MAX + 9);
    longer[PACK_PATH_MAX + 9] = '\0';
    assert_int_equal(path_read(longer, raw), -1);
    longer[PACK_PATH_MAX - 1] = '\0';
    assert_int_equal(path_read(longer, raw), PACK_PATH_MAX - 1);
    free(longer);
}

// -- indexes

static int check(const char *text, struct index_sums *ret)
{
    struct err err;
    return index_check(text, strlen(text), ret, &err);
}

CHECK_CASE(sound_and_damaged)
{
    struct index_sums sums;
    assert_int_equal(check(HEAD, &sums), 0);
    assert_true(sums.files == 0 && sums.bytes == 0);
    static const char good[] =
        HEAD DIR_LINE("a") FILE_LINE("a/f", "10") LINK_LINE("a/l") FILE_LINE("b%0A", "5");
    assert_int_equal(check(good, &sums), 0);
    assert_true(sums.files == 2 && sums.bytes == 15);
    // Cut anywhere but behind a line it is none.
    for (size_t n = 0; n < sizeof good - 1; n++) {
        struct err err;
        int r = index_check(good, n, &sums, &err);
        assert_int_equal(r, n >= sizeof HEAD - 1 && good[n - 1] == '\n' ? 0 : -1);
    }
    static const char *const bad[] = {
        "",
        "cay index 2\n",
        HEAD "\n",
        HEAD FILE_LINE("../x", "1"),
        HEAD FILE_LINE("%2E%2E", "1"),
        HEAD FILE_LINE("a%2F%2Fb", "1"),
        HEAD FILE_LINE("", "1"),
        HEAD FILE_LINE("/abs", "1"),
        HEAD FILE_LINE("a", "-1"),
        HEAD FILE_LINE("a", "0x1"),
        HEAD FILE_LINE("a", " 1"),
        HEAD FILE_LINE("a", "99999999999999999999"),
        HEAD FILE_LINE("a", "9223372036854775807") FILE_LINE("b", "9223372036854775807"),
        HEAD "f\t1\t1\t4096\t0\t0\t" SHA "\ta\t\n",
        HEAD "f\t1\t1\t420\t0\t0\t-\ta\t\n",
        HEAD "f\t1\t1\t420\t0\t0\t" SHA "\ta\n",
        HEAD "f\t1\t1\t420\t0\t0\t" SHA "\ta\t\t\n",
        HEAD "d\t0\t1\t420\t0\t0\t" SHA "\ta\t\n",
        HEAD "l\t0\t1\t420\t0\t0\t-\ta\t\n",
        HEAD "x\t0\t1\t420\t0\t0\t-\ta\t\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(check(bad[i], &sums), -1);
}

static void drop(const char *before, const char *path, const char *after)
{
    char *text = strdup(before);
    size_t len = strlen(before);
    assert_int_equal(index_drop(text, &len, path), strcmp(before, after) != 0);
    assert_int_equal(len, strlen(after));
    assert_memory_equal(text, after, len);
    free(text);
}

CHECK_CASE(dropping)
{
    drop(HEAD, "a", HEAD);
    drop(HEAD FILE_LINE("a", "1") FILE_LINE("b", "1"), "a", HEAD FILE_LINE("b", "1"));
    drop(HEAD FILE_LINE("a", "1"), "ab", HEAD FILE_LINE("a", "1"));
    drop(HEAD FILE_LINE("ab", "1"), "a", HEAD FILE_LINE("ab", "1"));
    drop(HEAD FILE_LINE("n%0A", "1"), "n\n", HEAD);
    // A file where a directory was, and the reverse.
    drop(HEAD DIR_LINE("a") FILE_LINE("a/b", "1") FILE_LINE("c", "1"), "a",
         HEAD FILE_LINE("c", "1"));
    drop(HEAD FILE_LINE("a", "1"), "a/b/c", HEAD);
    drop(HEAD LINK_LINE("a"), "a/b", HEAD);
    drop(HEAD DIR_LINE("a") FILE_LINE("a/b", "1"), "a/b", HEAD DIR_LINE("a"));
}

CHECK_CASE(distrusted)
{
    static const char before[] =
        HEAD DIR_LINE("a") FILE_LINE("a/n%0A", "0") LINK_LINE("a/l") FILE_LINE("b", "5");
    struct index_reader reader;
    struct index_line line;
    auto_buf after;
    auto_buf none;
    buf_init(&after, 10000);
    buf_init(&none, 10000);
    assert_true(index_distrust(before, sizeof before - 1, &after));
    assert_int_equal(index_open(&reader, after.data, after.len), 0);
    static const char *const names[] = {"a", "a/n\n", "a/l", "b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        static const uint8_t zeros[PACK_SHA256];
        assert_int_equal(index_next(&reader, &line), 1);
        assert_string_equal(line.path, names[i]);
        if (line.kind == 'f') {
            assert_true(line.size == INT64_MAX);
            assert_memory_equal(line.sha256, zeros, sizeof zeros);
        }
    }
    assert_int_equal(index_next(&reader, &line), 0);
    assert_true(index_distrust("", 0, &none) && none.len == 0);
}

// -- records

struct wire {
    char bytes[64 * 1024];
    size_t len;
};

static void add(struct wire *w, struct pack_record head, const char *path, const char *content)
{
    head.path_len = head.path_len > 0 ? head.path_len : (uint32_t)strlen(path);
    memcpy(w->bytes + w->len, &head, sizeof head);
    w->len += sizeof head;
    memcpy(w->bytes + w->len, path, strlen(path));
    w->len += strlen(path);
    memcpy(w->bytes + w->len, content, strlen(content));
    w->len += strlen(content);
}

// Another process writes it, in steps.
static int open_wire(const struct wire *w, size_t step)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        for (size_t at = 0; at < w->len; at += step)
            (void)fd_write_all(ends[1], w->bytes + at, w->len - at < step ? w->len - at : step);
        _exit(0);
    }
    close(ends[1]);
    return ends[0];
}

// What it comes to: how many records, or -1.
static int read_all(const struct wire *w, size_t step, bool takes)
{
    struct records records;
    struct record *record = malloc(sizeof *record);
    struct err err = {0};
    char *text = NULL;
    size_t len;
    int n = 0, r, fd = open_wire(w, step);
    records_init(&records, fd, NULL);
    while ((r = records_next(&records, record, &err)) > 0) {
        n++;
        if (takes && record->head.size > 0 && record->head.type != PACK_PROGRESS) {
            r = records_read_all(&records, &text, &len, &err);
            free(text);
            text = NULL;
            if (r < 0)
                break;
            assert_int_equal(len, record->head.size);
        }
    }
    close(fd);
    (void)wait(NULL);
    free(record);
    return r < 0 ? -1 : n;
}

CHECK_CASE(records_at_every_split)
{
    static struct wire w;
    w.len = 0;
    add(&w, (struct pack_record){.type = PACK_PROGRESS, .seen = 5, .size = 50}, "", "");
    add(&w, (struct pack_record){.type = PACK_PUT, .size = 5, .mode = 0644}, "a/b", "hello");
    add(&w, (struct pack_record){.type = PACK_PUT}, "empty", "");
    add(&w, (struct pack_record){.type = PACK_DELETE}, "gone\n", "");
    add(&w, (struct pack_record){.type = PACK_INDEX, .size = sizeof HEAD - 1}, "", HEAD);
    for (size_t step = 1; step < w.len; step += step < 20 ? 1 : 37) {
        assert_int_equal(read_all(&w, step, true), 5);
        assert_int_equal(read_all(&w, step, false), 5);
    }
    for (size_t len = w.len; len-- > 0;) {
        static struct wire cut;
        memcpy(&cut, &w, sizeof cut);
        cut.len = len;
        assert_int_equal(read_all(&cut, 1000, len % 2 == 0), -1);
    }
    add(&w, (struct pack_record){.type = PACK_PROGRESS}, "", "");
    assert_int_equal(read_all(&w, 1000, true), -1); // something behind the index
}

CHECK_CASE(records_that_are_none)
{
    static const struct {
        struct pack_record head;
        const char *path;
    } bad[] = {
        {{.type = 0},                                     ""    },
        {{.type = PACK_END},                              ""    },
        {{.type = 99},                                    ""    },
        {{.type = PACK_PUT},                              ""    },
        {{.type = PACK_PUT},                              "../x"},
        {{.type = PACK_PUT},                              "/x"  },
        {{.type = PACK_PUT},                              "a//b"},
        {{.type = PACK_DELETE},                           ".."  },
        {{.type = PACK_PROGRESS},                         "p"   },
        {{.type = PACK_INDEX},                            "p"   },
        {{.type = PACK_INDEX, .size = UINT64_C(1) << 40}, ""    },
        {{.type = PACK_PUT, .size = UINT64_MAX},          "a"   },
        {{.type = PACK_PUT, .mode = 010000},              "a"   },
        {{.type = PACK_PUT, .pad = 1},                    "a"   },
        {{.type = PACK_PUT, .path_len = PACK_PATH_MAX},   "a"   },
        {{.type = PACK_PUT, .path_len = UINT32_MAX},      "a"   },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        static struct wire w;
        w.len = 0;
        add(&w, bad[i].head, bad[i].path, "");
        add(&w, (struct pack_record){.type = PACK_INDEX, .size = sizeof HEAD - 1}, "", HEAD);
        assert_int_equal(read_all(&w, 1000, true), -1);
    }
}

CHECK_CASE(one_that_waits_hears_that_it_is_to_stop)
{
    int ends[2];
    atomic_bool stop;
    struct records records;
    struct record *record = malloc(sizeof *record);
    struct err err = {0};
    assert_int_equal(pipe(ends), 0);
    atomic_init(&stop, true);
    records_init(&records, ends[0], &stop);
    assert_int_equal(records_next(&records, record, &err), -1);
    assert_int_equal(err.sys_errno, ECANCELED);
    char *much = calloc(1, 1 << 20);
    assert_int_equal(records_write(ends[1], &stop, much, 1 << 20, &err), -1);
    free(much);
    free(record);
    close(ends[0]);
    close(ends[1]);
}

CHECK_MAIN(cmocka_unit_test(escaped_and_back), cmocka_unit_test(as_somebody_wrote_it),
           cmocka_unit_test(sound_and_damaged), cmocka_unit_test(dropping),
           cmocka_unit_test(distrusted), cmocka_unit_test(records_at_every_split),
           cmocka_unit_test(records_that_are_none),
           cmocka_unit_test(one_that_waits_hears_that_it_is_to_stop))
