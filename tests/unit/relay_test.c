// SPDX-License-Identifier: Apache-2.0
// Relays: both directions at once, sides that half-close, close, reset or do not read, and what
// limits them.
#include "move_kit.h"

struct ended {
    unsigned times;
    struct relay_result result;
};

static void on_relay(void *data, const struct relay_result *result)
{
    struct ended *ended = data;
    ended->times++;
    ended->result = *result;
}

// Two pairs with a relay in the middle: [0] of each is a client's, [1] is the relay's.
struct line {
    int a[2], b[2];
    struct ended ended;
    struct relay *relay;
};

static void open_line(struct line *line, enum kind kind, struct relay_config config)
{
    struct err err;
    make_pair(kind, line->a);
    make_pair(kind, line->b);
    assert_int_equal(fd_set_nonblock(line->a[1], 1), 0);
    assert_int_equal(fd_set_nonblock(line->b[1], 1), 0);
    line->ended = (struct ended){0};
    config.a = line->a[1];
    config.b = line->b[1];
    config.done = on_relay;
    config.data = &line->ended;
    line->relay = relay_start(kit.mover, &config, &err);
    assert_non_null(line->relay);
}

static struct relay_result close_line(struct line *line)
{
    settle();
    assert_int_equal(line->ended.times, 1);
    close_pair(line->a);
    close_pair(line->b);
    return line->ended.result;
}

static void assert_ended(struct relay_result got, enum move_why why, uint64_t a_to_b,
                         uint64_t b_to_a)
{
    assert_int_equal(got.why, why);
    assert_int_equal(got.a_to_b, a_to_b);
    assert_int_equal(got.b_to_a, b_to_a);
}

// --- bytes

static void relay_both_ways(enum kind kind, size_t a_len, size_t b_len)
{
    struct line line;
    struct peer a_writer;
    struct peer b_writer;
    struct peer a_reader;
    struct peer b_reader;
    struct relay_share share = {0};
    const char *early = pattern(a_len > b_len ? a_len : b_len);
    size_t a_early = a_len < 700 ? a_len : 700;
    size_t b_early = b_len < 3 ? b_len : 3;
    open_line(&line, kind,
              (struct relay_config){.from_a = early,
                                    .from_a_len = a_early,
                                    .from_b = early,
                                    .from_b_len = b_early,
                                    .share = &share});
    start_reader(&a_reader, line.a[0], b_len + 1);
    start_reader(&b_reader, line.b[0], a_len + 1);
    start_writer(&a_writer, line.a[0], early + a_early, a_len - a_early, true);
    start_writer(&b_writer, line.b[0], early + b_early, b_len - b_early, true);
    join_peer(&a_writer);
    join_peer(&b_writer);
    join_peer(&a_reader);
    join_peer(&b_reader);
    assert_int_equal(a_reader.len, b_len);
    assert_int_equal(b_reader.len, a_len);
    assert_memory_equal(a_reader.data, early, b_len);
    assert_memory_equal(b_reader.data, early, a_len);
    assert_ended(close_line(&line), MOVE_COMPLETE, a_len, b_len);
    assert_int_equal(share.counted, a_len + b_len);
    free_peer(&a_writer);
    free_peer(&b_writer);
    free_peer(&a_reader);
    free_peer(&b_reader);
}

static void test_both_ways(void **state)
{
    enum { MUCH = 5 * 1024 * 1024 + 3 };
    (void)state;
    for (int kind = KIND_UNIX; kind < KIND_MAX; kind++) {
        relay_both_ways((enum kind)kind, 0, 0);
        relay_both_ways((enum kind)kind, 1, 20);
        relay_both_ways((enum kind)kind, 1000, MUCH);
        relay_both_ways((enum kind)kind, MUCH, 1000);
        relay_both_ways((enum kind)kind, MUCH, MUCH);
    }
}

// A question is asked to its end before the answer comes; then small ones back and forth.
static void test_half_close(void **state)
{
    (void)state;
    for (int kind = KIND_UNIX; kind < KIND_MAX; kind++) {
        struct line line;
        char text[16] = {0};
        open_line(&line, (enum kind)kind, (struct relay_config){0});
        for (int i = 0; i < 200; i++) {
            assert_int_equal(write(line.a[0], "ping", 4), 4);
            assert_int_equal(read(line.b[0], text, sizeof text), 4);
            assert_int_equal(write(line.b[0], "pong!", 5), 5);
            assert_int_equal(read(line.a[0], text, sizeof text), 5);
        }
        assert_int_equal(write(line.a[0], "question", 8), 8);
        assert_int_equal(shutdown(line.a[0], SHUT_WR), 0);
        assert_int_equal(fd_read_all(line.b[0], text, sizeof text), 8);
        assert_int_equal(write(line.b[0], "answer", 6), 6);
        assert_int_equal(shutdown(line.b[0], SHUT_WR), 0);
        assert_int_equal(fd_read_all(line.a[0], text, sizeof text), 6);
        assert_memory_equal(text, "answer", 6);
        assert_ended(close_line(&line), MOVE_COMPLETE, 808, 1006);
    }
}

// --- sides that go

static void test_a_side_that_closes(void **state)
{
    (void)state;
    char text[16] = {0};
    struct line line;
    // A unix socket says that nobody is there any more: both directions end.
    open_line(&line, KIND_UNIX, (struct relay_config){0});
    assert_int_equal(write(line.b[0], "bye", 3), 3);
    fd_close(TAKE_FD(line.b[0]));
    assert_int_equal(fd_read_all(line.a[0], text, sizeof text), 3);
    assert_ended(close_line(&line), MOVE_COMPLETE, 0, 3);
}

// It answers without having read all that it was sent, which makes its close a reset.
static void test_an_answer_before_a_reset(void **state)
{
    (void)state;
    for (int kind = KIND_UNIX; kind < KIND_MAX; kind++) {
        char text[16] = {0};
        struct line line;
        struct peer writer;
        open_line(&line, (enum kind)kind, (struct relay_config){0});
        start_writer(&writer, line.a[0], pattern(8000000), 8000000, false);
        assert_true(read(line.b[0], text, sizeof text) > 0);
        assert_int_equal(write(line.b[0], "enough", 6), 6);
        assert_int_equal(read(line.a[0], text, sizeof text), 6);
        fd_close(TAKE_FD(line.b[0]));
        settle();
        assert_true(line.ended.result.why == MOVE_TO_FAILED ||
                    line.ended.result.why == MOVE_FROM_FAILED);
        assert_true(line.ended.result.sys_errno == EPIPE ||
                    line.ended.result.sys_errno == ECONNRESET);
        assert_int_equal(line.ended.result.b_to_a, 6);
        assert_memory_equal(text, "enough", 6);
        fd_close(TAKE_FD(line.a[1]));
        join_peer(&writer);
        free_peer(&writer);
        (void)close_line(&line);
    }
}

static void test_a_reset_of_both(void **state)
{
    (void)state;
    struct line line;
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    open_line(&line, KIND_TCP, (struct relay_config){0});
    assert_int_equal(setsockopt(line.a[0], SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
    fd_close(TAKE_FD(line.a[0]));
    struct relay_result result = close_line(&line);
    assert_true(result.why == MOVE_FROM_FAILED || result.why == MOVE_TO_FAILED);
    assert_int_equal(result.sys_errno, ECONNRESET);
}

// --- limits

static void test_stalled(void **state)
{
    (void)state;
    struct line line;
    open_line(&line, KIND_TCP,
              (struct relay_config){.stall_ms = 100, .from_b = "x", .from_b_len = 1});
    assert_ended(close_line(&line), MOVE_STALLED, 0, 1);
}

static void test_capped(void **state)
{
    enum { CAP = 1000000 };
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct line line;
        struct peer writer;
        struct peer reader;
        struct relay_share share = {.max_bytes = CAP};
        open_line(&line, KIND_TCP,
                  (struct relay_config){.max_bytes = shared ? 0 : CAP,
                                        .share = shared ? &share : NULL,
                                        .from_b = "early",
                                        .from_b_len = 5});
        start_writer(&writer, line.a[0], pattern(2 * CAP), 2 * CAP, false);
        start_reader(&reader, line.b[0], 2 * CAP);
        settle();
        fd_close(TAKE_FD(line.a[1]));
        fd_close(TAKE_FD(line.b[1]));
        join_peer(&writer);
        join_peer(&reader);
        assert_int_equal(reader.len, CAP - 5);
        assert_memory_equal(reader.data, pattern(2 * CAP), CAP - 5);
        free_peer(&writer);
        free_peer(&reader);
        assert_ended(close_line(&line), MOVE_CAPPED, CAP - 5, 5);
    }
}

// Given more than it may move at all.
static void test_capped_at_once(void **state)
{
    (void)state;
    struct line line;
    open_line(&line, KIND_UNIX,
              (struct relay_config){.max_bytes = 7,
                                    .from_a = "hello",
                                    .from_a_len = 5,
                                    .from_b = "world",
                                    .from_b_len = 5});
    assert_ended(close_line(&line), MOVE_CAPPED, 5, 2);
}

// All end when they have used up the share together, and no faster than its rate.
static void test_a_share_of_several(void **state)
{
    enum { N = 6, CAP = 600000, EACH = 300000 };
    (void)state;
    struct line lines[N];
    struct peer writers[N];
    struct peer readers[N];
    struct relay_share share = {.max_bytes = CAP, .rate = 2000000};
    int64_t began = clock_ns();
    uint64_t sum = 0;
    for (int i = 0; i < N; i++) {
        open_line(&lines[i], KIND_TCP, (struct relay_config){.share = &share, .stall_ms = 30000});
        start_reader(&readers[i], lines[i].b[0], EACH);
        start_writer(&writers[i], lines[i].a[0], pattern(EACH), EACH, false);
    }
    settle();
    // 0.3 s, of which the last turns of both threads are owed.
    assert_true(clock_ns() - began >= 90 * NS_PER_MS);
    for (int i = 0; i < N; i++) {
        fd_close(TAKE_FD(lines[i].a[1]));
        fd_close(TAKE_FD(lines[i].b[1]));
        join_peer(&writers[i]);
        join_peer(&readers[i]);
        assert_memory_equal(readers[i].data, pattern(EACH), readers[i].len);
        free_peer(&writers[i]);
        free_peer(&readers[i]);
        sum += lines[i].ended.result.a_to_b;
        struct relay_result result = close_line(&lines[i]);
        assert_int_equal(result.why, MOVE_CAPPED);
    }
    assert_int_equal(share.counted, sum);
    // Two threads may each be in the middle of a turn.
    assert_true(sum >= CAP && sum <= CAP + 2 * 200000);
}

static void test_rate(void **state)
{
    enum { LEN = 400000, RATE = 1000000 };
    (void)state;
    struct line line;
    struct peer writer;
    struct peer reader;
    open_line(&line, KIND_UNIX, (struct relay_config){.rate = RATE, .stall_ms = 60});
    int64_t began = clock_ns();
    start_writer(&writer, line.a[0], pattern(LEN), LEN, true);
    start_reader(&reader, line.b[0], LEN + 1);
    join_peer(&writer);
    assert_int_equal(shutdown(line.b[0], SHUT_WR), 0);
    join_peer(&reader);
    assert_true(clock_ns() - began >= 290 * NS_PER_MS);
    assert_int_equal(reader.len, LEN);
    free_peer(&writer);
    free_peer(&reader);
    assert_ended(close_line(&line), MOVE_COMPLETE, LEN, 0);
}

// --- many, and cancelling

static void on_stopped(void *data)
{
    ++*(unsigned *)data;
}

// Readers that never read cost one buffer or duct each, and nobody waits for them.
static void test_readers_that_do_not_read(void **state)
{
    enum { N = 100 };
    (void)state;
    static struct line lines[N];
    unsigned stopped = 0;
    for (int i = 0; i < N; i++) {
        open_line(&lines[i], KIND_UNIX, (struct relay_config){0});
        assert_int_equal(fd_set_nonblock(lines[i].a[0], 1), 0);
        for (int idle = 0; idle < 5; idle++)
            while (write(lines[i].a[0], pattern(65536), 65536) > 0)
                idle = 0;
    }
    struct line good;
    char text[8];
    open_line(&good, KIND_TCP, (struct relay_config){.from_a = "hello", .from_a_len = 5});
    assert_int_equal(read(good.b[0], text, sizeof text), 5);
    relay_cancel(good.relay, on_stopped, &stopped);
    for (int i = 0; i < N; i++)
        relay_cancel(lines[i].relay, on_stopped, &stopped);
    settle();
    assert_int_equal(stopped, N + 1);
    close_pair(good.a);
    close_pair(good.b);
    for (int i = 0; i < N; i++) {
        close_pair(lines[i].a);
        close_pair(lines[i].b);
    }
}

static void test_cancel(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct line line;
        struct peer writer;
        struct peer reader;
        unsigned stopped = 0;
        open_line(&line, i % 2 ? KIND_TCP : KIND_UNIX, (struct relay_config){.stall_ms = 60000});
        start_writer(&writer, line.a[0], pattern(4000000), 4000000, true);
        start_reader(&reader, line.b[0], 4000000);
        for (uint32_t spin = roll() % 2000; spin > 0; spin--)
            (void)uv_run(&kit.loop, UV_RUN_NOWAIT);
        assert_int_equal(line.ended.times, 0); // b has not ended
        assert_true(relay_bytes(line.relay) <= 4000000);
        relay_cancel(line.relay, on_stopped, &stopped);
        settle();
        assert_int_equal(stopped, 1);
        assert_int_equal(line.ended.times, 0);
        fd_close(TAKE_FD(line.a[1]));
        fd_close(TAKE_FD(line.b[1]));
        join_peer(&writer);
        join_peer(&reader);
        assert_memory_equal(reader.data, pattern(4000000), reader.len);
        free_peer(&writer);
        free_peer(&reader);
        close_pair(line.a);
        close_pair(line.b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_CASE(test_both_ways),
        KIT_CASE(test_half_close),
        KIT_CASE(test_a_side_that_closes),
        KIT_CASE(test_an_answer_before_a_reset),
        KIT_CASE(test_a_reset_of_both),
        KIT_CASE(test_stalled),
        KIT_CASE(test_capped),
        KIT_CASE(test_capped_at_once),
        KIT_CASE(test_a_share_of_several),
        KIT_CASE(test_rate),
        KIT_CASE(test_readers_that_do_not_read),
        KIT_CASE(test_cancel),
    };
    return cmocka_run_group_tests(tests, kit_prepare, NULL);
}
