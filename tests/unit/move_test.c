// SPDX-License-Identifier: Apache-2.0
// Moves: every kind of end to every other, bodies that are cut short, too long or not read, and
// threads that take turns.
#include "move/chunk.h"
#include "move_kit.h"

// --- all directions

struct way {
    enum kind from, to;
    size_t len;
    bool to_end;
    size_t skip; // offset in a file
    const char *head;
    size_t first_body; // this much of the body is given with the start
};

static void put_source(const struct way *way, int pair[2], struct peer *writer, const char *body,
                       size_t len)
{
    if (way->from != KIND_FILE) {
        start_writer(writer, pair[0], body, len, true);
        assert_int_equal(fd_set_nonblock(pair[1], 1), 0);
        return;
    }
    assert_int_equal(pwrite(pair[0], body, len, (off_t)way->skip), (ssize_t)len);
}

static void check_sink(const struct way *way, int fd, struct peer *reader, const char *body)
{
    size_t head_len = way->head != NULL ? strlen(way->head) : 0;
    size_t len = head_len + way->len;
    char *got = NULL;
    if (way->to == KIND_FILE) {
        got = malloc(len + 1);
        assert_int_equal(pread(fd, got, len + 1, (off_t)way->skip), (ssize_t)len);
    } else {
        join_peer(reader);
        got = reader->data;
        assert_int_equal(reader->len, len);
    }
    if (head_len > 0)
        assert_memory_equal(got, way->head, head_len);
    assert_memory_equal(got + head_len, body, way->len);
    free(got);
}

static void run_way(const struct way *way)
{
    const char *body = pattern(way->len);
    size_t head_len = way->head != NULL ? strlen(way->head) : 0;
    size_t first = way->first_body < way->len ? way->first_body : way->len;
    int from[2];
    int to[2];
    struct peer writer = {.fd = -1};
    struct peer reader;
    make_pair(way->from, from);
    make_pair(way->to, to);
    put_source(way, from, &writer, body + first, way->len - first);
    if (way->to != KIND_FILE) {
        assert_int_equal(fd_set_nonblock(to[0], 1), 0);
        start_reader(&reader, to[1], head_len + way->len);
    }
    struct move_result result = run_move((struct move_config){
        .from = from[1],
        .to = to[0],
        .from_offset = way->from == KIND_FILE ? (int64_t)way->skip : MOVE_NO_OFFSET,
        .to_offset = way->to == KIND_FILE ? (int64_t)way->skip : MOVE_NO_OFFSET,
        .length = way->to_end ? MOVE_TO_END : way->len,
        .first = first > 0 ? body : way->head,
        .first_len = first > 0 ? first : head_len,
        .first_is_body = first > 0,
    });
    assert_result(result, MOVE_COMPLETE, 0, way->len);
    assert_int_equal(result.first_used, first);
    check_sink(way, to[0], &reader, body);
    if (way->from != KIND_FILE) {
        join_peer(&writer);
        assert_int_equal(writer.failed, 0);
        from[0] = writer.fd;
        free_peer(&writer);
    }
    close_pair(from);
    close_pair(to);
}

static void test_all_ways(void **state)
{
    static const size_t lens[] = {0, 1, 4096, 100001, 3 * 1024 * 1024 + 17};
    (void)state;
    for (int from = 0; from < KIND_MAX; from++)
        for (int to = 0; to < KIND_MAX; to++)
            for (size_t i = 0; i < sizeof lens / sizeof *lens; i++)
                for (int variant = 0; variant < 4; variant++)
                    run_way(&(struct way){
                        .from = (enum kind)from,
                        .to = (enum kind)to,
                        .len = lens[i],
                        .to_end = variant % 2 == 1,
                        .skip = variant == 2 ? 4093 : 0,
                        .head = variant < 2 ? "HTTP/1.1 200 OK\r\n\r\n" : NULL,
                        .first_body = variant == 3 ? 5000 : 0,
                    });
}

// Chunks that are written are those that are read; the last one is the caller's.
static void run_to_chunks(enum kind kind, size_t len)
{
    const char *head = "HTTP/1.1 200 OK\r\n\r\n";
    size_t head_len = strlen(head), used = 0, got = 0;
    int from[2], to[2];
    struct peer writer = {.fd = -1};
    const struct way way = {.from = kind, .len = len};
    make_pair(kind, from);
    make_pair(KIND_FILE, to);
    put_source(&way, from, &writer, pattern(len), len);
    struct move_result result = run_move((struct move_config){
        .from = from[1],
        .to = to[0],
        .from_offset = kind == KIND_FILE ? 0 : MOVE_NO_OFFSET,
        .length = MOVE_TO_END,
        .first = head,
        .first_len = head_len,
        .to_chunked = true,
    });
    assert_int_equal(result.why, MOVE_COMPLETE);
    size_t max = head_len + 2 * len + 4096;
    char *text = malloc(max);
    ssize_t n = pread(to[0], text, max, 0);
    assert_true(n >= (ssize_t)head_len);
    assert_memory_equal(text, head, head_len);
    memcpy(text + n, "0\r\n\r\n", 5);
    struct chunk chunk;
    chunk_init(&chunk);
    used = chunk_decode(&chunk, text + head_len, (size_t)n + 5 - head_len, &got);
    assert_int_equal(chunk.state, CHUNK_DONE);
    assert_int_equal(used, (size_t)n + 5 - head_len);
    assert_int_equal(got, len);
    assert_memory_equal(text + head_len, pattern(len), len);
    free(text);
    if (kind != KIND_FILE) {
        join_peer(&writer);
        from[0] = writer.fd;
        free_peer(&writer);
    }
    close_pair(from);
    close_pair(to);
}

static void test_to_chunks(void **state)
{
    static const size_t lens[] = {0, 1, 15, 16, 65536, 100001, 1024 * 1024 + 17};
    (void)state;
    for (int kind = 0; kind < KIND_MAX; kind++)
        for (size_t i = 0; i < sizeof lens / sizeof *lens; i++)
            run_to_chunks((enum kind)kind, lens[i]);
}

// What comes behind the body's length is the next request's.
static void test_nothing_behind_is_read(void **state)
{
    (void)state;
    int from[2];
    char rest[64];
    const size_t len = 200000;
    auto_fd to = temp_file();
    struct peer writer;
    tcp_pair(from);
    start_writer(&writer, from[0], pattern(len + 10), len + 10, false);
    assert_int_equal(fd_set_nonblock(from[1], 1), 0);
    assert_result(run_move((struct move_config){
                      .from = from[1], .from_offset = MOVE_NO_OFFSET, .to = to, .length = len}),
                  MOVE_COMPLETE, 0, len);
    join_peer(&writer);
    free_peer(&writer);
    assert_int_equal(recv(from[1], rest, sizeof rest, 0), 10);
    assert_memory_equal(rest, pattern(len + 10) + len, 10);
    close_pair(from);
}

// --- ends before their time

static void test_too_short_and_too_long(void **state)
{
    (void)state;
    for (int start = 0; start < 2; start++) {
        assert_result(move_text("hello", start == 1, (struct move_config){.length = 6}),
                      MOVE_ENDED_EARLY, 0, 5);
        assert_result(move_text("hello", start == 1, (struct move_config){.length = 4}),
                      MOVE_COMPLETE, 0, 4);
        assert_result(move_text("hello", start == 1,
                                (struct move_config){.length = MOVE_TO_END, .max_bytes = 5}),
                      MOVE_COMPLETE, 0, 5);
        struct move_result result = move_text(
            "hello", start == 1, (struct move_config){.length = MOVE_TO_END, .max_bytes = 4});
        assert_int_equal(result.why, MOVE_FROM_FAILED);
        assert_int_equal(result.sys_errno, EFBIG);
        assert_true(result.bytes <= 4);
    }
}

// A cap far behind the beginning, by way of splices.
static void test_much_too_long(void **state)
{
    enum { LEN = 1024 * 1024 };
    (void)state;
    for (int over = 0; over < 2; over++) {
        for (int kind = KIND_PIPE; kind < KIND_MAX; kind++) {
            int from[2];
            auto_fd to = temp_file();
            struct peer writer;
            make_pair((enum kind)kind, from);
            assert_int_equal(fd_set_nonblock(from[1], 1), 0);
            start_writer(&writer, from[0], pattern(LEN), LEN, true);
            struct move_result result =
                run_move((struct move_config){.from = from[1],
                                              .to = to,
                                              .from_offset = MOVE_NO_OFFSET,
                                              .length = MOVE_TO_END,
                                              .max_bytes = LEN - (uint64_t)over});
            assert_int_equal(result.why, over ? MOVE_FROM_FAILED : MOVE_COMPLETE);
            assert_int_equal(result.sys_errno, over ? EFBIG : 0);
            join_peer(&writer);
            from[0] = writer.fd;
            free_peer(&writer);
            close_pair(from);
        }
    }
}

static void test_file_shorter_than_said(void **state)
{
    (void)state;
    int to[2];
    auto_fd from = temp_file();
    struct peer reader;
    assert_int_equal(fd_write_all(from, pattern(5000), 5000), 0);
    tcp_pair(to);
    assert_int_equal(fd_set_nonblock(to[0], 1), 0);
    start_reader(&reader, to[1], 4000);
    assert_result(run_move((struct move_config){.from = from,
                                                .to = to[0],
                                                .from_offset = 1000,
                                                .to_offset = MOVE_NO_OFFSET,
                                                .length = 9000}),
                  MOVE_ENDED_EARLY, 0, 4000);
    join_peer(&reader);
    assert_memory_equal(reader.data, pattern(5000) + 1000, 4000);
    free_peer(&reader);
    close_pair(to);
}

// Whether it is closed before or while bytes come; also when the source has nothing to give.
static void test_readers_that_leave(void **state)
{
    (void)state;
    for (int from_kind = 0; from_kind < KIND_MAX; from_kind++) {
        for (int to_kind = KIND_PIPE; to_kind < KIND_MAX; to_kind++) {
            int from[2];
            int to[2];
            struct told told;
            make_pair((enum kind)from_kind, from);
            make_pair((enum kind)to_kind, to);
            if (from_kind == KIND_FILE)
                assert_int_equal(ftruncate(from[0], INT64_C(1) << 40), 0);
            else
                assert_int_equal(fd_write_all(from[0], pattern(4000), 4000), 0);
            assert_int_equal(fd_set_nonblock(from[1], 1), 0);
            assert_int_equal(fd_set_nonblock(to[0], 1), 0);
            (void)start_move(
                (struct move_config){
                    .from = from[1],
                    .to = to[0],
                    .from_offset = from_kind == KIND_FILE ? 0 : MOVE_NO_OFFSET,
                    .to_offset = MOVE_NO_OFFSET,
                    .length = MOVE_TO_END,
                },
                &told);
            char some[1000];
            assert_true(read(to[1], some, sizeof some) > 0);
            // Bytes that nobody read make it a reset.
            fd_close(TAKE_FD(to[1]));
            settle();
            assert_int_equal(told.result.why, MOVE_TO_FAILED);
            assert_true(told.result.sys_errno == EPIPE || told.result.sys_errno == ECONNRESET);
            close_pair(from);
            close_pair(to);
        }
    }
}

static void test_a_full_disk(void **state)
{
    enum { LEN = 1024 * 1024, MOST = 300000 };
    struct rlimit before;
    struct rlimit small = {.rlim_cur = MOST, .rlim_max = RLIM_INFINITY};
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    for (int kind = KIND_PIPE; kind < KIND_MAX; kind++) {
        int from[2];
        auto_fd to = temp_file();
        struct peer writer;
        make_pair((enum kind)kind, from);
        assert_int_equal(fd_set_nonblock(from[1], 1), 0);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        start_writer(&writer, from[0], pattern(LEN), LEN, false);
        struct move_result result = run_move((struct move_config){
            .from = from[1], .to = to, .from_offset = MOVE_NO_OFFSET, .length = LEN});
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_result(result, MOVE_TO_FAILED, EFBIG, MOST);
        fd_close(TAKE_FD(from[1]));
        join_peer(&writer);
        free_peer(&writer);
        close_pair(from);
    }
}

// A file that only grows at its end takes no splice: its bytes go by memory.
static void test_what_cannot_be_spliced(void **state)
{
    enum { LEN = 1024 * 1024 };
    (void)state;
    for (int kind = KIND_PIPE; kind < KIND_MAX; kind++) {
        int from[2];
        auto_fd to = temp_file();
        char *got = malloc(LEN + 1);
        struct peer writer;
        make_pair((enum kind)kind, from);
        assert_int_equal(fd_set_nonblock(from[1], 1), 0);
        assert_int_equal(fcntl(to, F_SETFL, O_APPEND), 0);
        start_writer(&writer, from[0], pattern(LEN), LEN, false);
        assert_result(run_move((struct move_config){
                          .from = from[1], .to = to, .from_offset = MOVE_NO_OFFSET, .length = LEN}),
                      MOVE_COMPLETE, 0, LEN);
        assert_int_equal(pread(to, got, LEN + 1, 0), LEN);
        assert_memory_equal(got, pattern(LEN), LEN);
        join_peer(&writer);
        free_peer(&writer);
        free(got);
        close_pair(from);
    }
}

static void test_refused_at_the_start(void **state)
{
    (void)state;
    struct err err;
    int blocking[2];
    auto_fd file = temp_file();
    auto_fd device = open("/dev/null", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    unix_pair(blocking);
    const struct move_config rows[] = {
        {.from = blocking[0],            .from_offset = MOVE_NO_OFFSET, .to = file},
        {.from = file,                              .to = blocking[0],                                                .to_offset = MOVE_NO_OFFSET},
        {.from = device,   .from_offset = MOVE_NO_OFFSET,.to = file},
        {.from = file,.from_offset = MOVE_NO_OFFSET,                                  .to = file},
        {.from = file,                   .to = -1                    },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_null(move_start(kit.mover, &rows[i], &err));
    struct relay_config relay = {.a = file, .b = file};
    assert_null(relay_start(kit.mover, &relay, &err));
    close_pair(blocking);
}

// --- time

static void test_stalled(void **state)
{
    (void)state;
    for (int silent = 0; silent < 2; silent++) {
        int from[2];
        int to[2];
        unix_pair(from);
        unix_pair(to);
        assert_int_equal(fd_set_nonblock(from[1], 1), 0);
        assert_int_equal(fd_set_nonblock(from[0], 1), 0);
        assert_int_equal(fd_set_nonblock(to[0], 1), 0);
        // Either nothing comes, or it comes and is not read.
        while (!silent && write(from[0], pattern(65536), 65536) > 0)
            continue;
        int64_t began = clock_ns();
        struct move_result result = run_move((struct move_config){.from = from[1],
                                                                  .to = to[0],
                                                                  .from_offset = MOVE_NO_OFFSET,
                                                                  .to_offset = MOVE_NO_OFFSET,
                                                                  .length = MOVE_TO_END,
                                                                  .stall_ms = 120});
        assert_int_equal(result.why, MOVE_STALLED);
        assert_true(clock_ns() - began >= 120 * NS_PER_MS);
        assert_true(silent == (result.bytes == 0));
        close_pair(from);
        close_pair(to);
    }
}

static void test_rate(void **state)
{
    enum { LEN = 600000, RATE = 1500000 };
    (void)state;
    int to[2];
    auto_fd from = temp_file();
    struct peer reader;
    assert_int_equal(fd_write_all(from, pattern(LEN), LEN), 0);
    tcp_pair(to);
    assert_int_equal(fd_set_nonblock(to[0], 1), 0);
    start_reader(&reader, to[1], LEN);
    int64_t began = clock_ns();
    assert_result(run_move((struct move_config){.from = from,
                                                .to = to[0],
                                                .to_offset = MOVE_NO_OFFSET,
                                                .length = LEN,
                                                .rate = RATE,
                                                .stall_ms = 50}),
                  MOVE_COMPLETE, 0, LEN);
    // The last tenth of a second is owed when the last byte goes.
    assert_true(clock_ns() - began >= NS_PER_S * 3 / 10 - 10 * NS_PER_MS);
    join_peer(&reader);
    assert_memory_equal(reader.data, pattern(LEN), LEN);
    free_peer(&reader);
    close_pair(to);
}

// --- many

enum { MANY = 200, MANY_LEN = 300007 };

// Some of them read so late that the others would wait for ever if a thread did.
static void test_many_at_once(void **state)
{
    (void)state;
    static int pairs[MANY][2];
    static struct told told[MANY];
    static struct peer readers[MANY];
    auto_fd from = temp_file();
    assert_int_equal(fd_write_all(from, pattern(MANY_LEN * 2), MANY_LEN * 2), 0);
    for (int i = 0; i < MANY; i++) {
        make_pair(i % 2 == 0 ? KIND_UNIX : KIND_PIPE, pairs[i]);
        assert_int_equal(fd_set_nonblock(pairs[i][0], 1), 0);
        (void)start_move((struct move_config){.from = from,
                                              .to = pairs[i][0],
                                              .from_offset = i,
                                              .to_offset = MOVE_NO_OFFSET,
                                              .length = MANY_LEN},
                         &told[i]);
    }
    assert_int_equal(mover_running(kit.mover), MANY);
    // From the last to the first, a few at a time.
    for (int i = MANY; i > 0; i -= 20) {
        for (int j = i - 20; j < i; j++)
            start_reader(&readers[j], pairs[j][1], MANY_LEN);
        for (int j = i - 20; j < i; j++)
            join_peer(&readers[j]);
    }
    settle();
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(told[i].times, 1);
        assert_result(told[i].result, MOVE_COMPLETE, 0, MANY_LEN);
        assert_int_equal(readers[i].len, MANY_LEN);
        assert_memory_equal(readers[i].data, pattern(MANY_LEN * 2) + i, MANY_LEN);
        free_peer(&readers[i]);
        close_pair(pairs[i]);
    }
}

// --- cancelling

static void on_stopped(void *data)
{
    ++*(unsigned *)data;
}

static void cancel_at_random(enum kind from_kind, enum kind to_kind)
{
    enum { LEN = 4 * 1024 * 1024 };
    int from[2];
    int to[2];
    struct peer writer = {.fd = -1};
    struct peer reader = {.fd = -1};
    struct told told;
    unsigned stopped = 0;
    make_pair(from_kind, from);
    make_pair(to_kind, to);
    struct way way = {.from = from_kind};
    put_source(&way, from, &writer, pattern(LEN), LEN);
    if (to_kind != KIND_FILE) {
        assert_int_equal(fd_set_nonblock(to[0], 1), 0);
        start_reader(&reader, to[1], LEN);
    }
    struct move *move =
        start_move((struct move_config){.from = from[1],
                                        .to = to[0],
                                        .from_offset = from_kind == KIND_FILE ? 0 : MOVE_NO_OFFSET,
                                        .to_offset = to_kind == KIND_FILE ? 0 : MOVE_NO_OFFSET,
                                        .length = LEN,
                                        .stall_ms = 60000},
                   &told);
    for (uint32_t spin = roll() % 3000; spin > 0 && told.times == 0; spin--)
        (void)uv_run(&kit.loop, UV_RUN_NOWAIT);
    bool late = told.times > 0;
    if (!late) {
        assert_true(move_bytes(move) <= LEN);
        move_cancel(move, on_stopped, &stopped);
        move_cancel(move, on_stopped, &stopped);
    }
    assert_int_equal(stopped, 0);
    settle();
    assert_int_equal(told.times, late ? 1 : 0);
    assert_int_equal(stopped, late ? 0 : 1);
    // Nobody uses them any more: the peers find them closed.
    fd_close(TAKE_FD(to[0]));
    if (from_kind != KIND_FILE) {
        fd_close(TAKE_FD(from[1]));
        join_peer(&writer);
        from[0] = writer.fd;
    }
    if (to_kind != KIND_FILE) {
        join_peer(&reader);
        assert_memory_equal(reader.data, pattern(LEN), reader.len);
        fd_close(to[1]);
    }
    fd_close(from[0]);
    free_peer(&writer);
    free_peer(&reader);
}

static void test_cancel(void **state)
{
    (void)state;
    for (int i = 0; i < 400; i++)
        cancel_at_random((enum kind)(i % KIND_MAX), (enum kind)(i / KIND_MAX % KIND_MAX));
}

// Those that were cancelled are told once more, the others never.
static void test_close_with_moves(void **state)
{
    enum { N = 12 };
    (void)state;
    struct err err;
    struct mover *mover = NULL;
    int pairs[N][2];
    struct told told[N];
    unsigned stopped = 0;
    assert_int_equal(mover_open(&kit.loop, 3, &mover, &err), 0);
    for (int i = 0; i < N; i++) {
        unix_pair(pairs[i]);
        assert_int_equal(fd_set_nonblock(pairs[i][0], 1), 0);
        assert_int_equal(fd_set_nonblock(pairs[i][1], 1), 0);
    }
    for (int i = 0; i + 1 < N; i += 2) {
        told[i] = (struct told){0};
        struct move *move = move_start(mover,
                                       &(struct move_config){.from = pairs[i][0],
                                                             .to = pairs[i + 1][0],
                                                             .from_offset = MOVE_NO_OFFSET,
                                                             .to_offset = MOVE_NO_OFFSET,
                                                             .first = "x",
                                                             .first_len = 1,
                                                             .length = MOVE_TO_END,
                                                             .done = on_move,
                                                             .data = &told[i]},
                                       &err);
        assert_non_null(move);
        if (i % 4 == 0)
            move_cancel(move, on_stopped, &stopped);
    }
    mover_close(mover);
    for (int i = 0; i < N; i++)
        close_pair(pairs[i]);
    (void)uv_run(&kit.loop, UV_RUN_DEFAULT);
    assert_int_equal(stopped, 3);
    for (int i = 0; i + 1 < N; i += 2)
        assert_int_equal(told[i].times, 0);
}

static void close_mover(void *data, const struct move_result *result)
{
    assert_int_equal(result->why, MOVE_COMPLETE);
    mover_close(*(struct mover **)data);
    *(struct mover **)data = NULL;
}

// Whoever is told first closes it, when others are over too and wait to be told.
static void test_close_when_told(void **state)
{
    (void)state;
    struct err err;
    struct mover *mover = NULL;
    auto_fd file = temp_file();
    assert_int_equal(mover_open(&kit.loop, 2, &mover, &err), 0);
    struct move_config config = {
        .from = file, .to = file, .length = 0, .done = close_mover, .data = &mover};
    for (int i = 0; i < 10; i++)
        assert_non_null(move_start(mover, &config, &err));
    (void)uv_run(&kit.loop, UV_RUN_DEFAULT);
    assert_null(mover);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_CASE(test_all_ways),
        KIT_CASE(test_to_chunks),
        KIT_CASE(test_nothing_behind_is_read),
        KIT_CASE(test_too_short_and_too_long),
        KIT_CASE(test_much_too_long),
        KIT_CASE(test_file_shorter_than_said),
        KIT_CASE(test_readers_that_leave),
        KIT_CASE(test_a_full_disk),
        KIT_CASE(test_what_cannot_be_spliced),
        KIT_CASE(test_refused_at_the_start),
        KIT_CASE(test_stalled),
        KIT_CASE(test_rate),
        KIT_CASE(test_many_at_once),
        KIT_CASE(test_cancel),
        KIT_CASE(test_close_with_moves),
        KIT_CASE(test_close_when_told),
    };
    return cmocka_run_group_tests(tests, kit_prepare, NULL);
}
