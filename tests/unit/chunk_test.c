// SPDX-License-Identifier: Apache-2.0
// Chunked bodies: the decoder at every split, and moves that decode.
#include <stdio.h>

#include "move/chunk.h"
#include "move_kit.h"

static const char chunked[] =
    "5\r\nhello\r\n00b\r\n, dear worl\r\n1\r\nd\r\n10\r\n0123456789abcdef\r\n"
    "A\r\n!!!!!!!!!!\r\n0\r\n\r\n";
static const char decoded[] = "hello, dear world0123456789abcdef!!!!!!!!!!";
enum { CHUNKED_LEN = sizeof chunked - 1, DECODED_LEN = sizeof decoded - 1 };

static void test_chunk_at_every_split(void **state)
{
    (void)state;
    for (size_t a = 0; a <= CHUNKED_LEN; a++) {
        for (size_t b = a; b <= CHUNKED_LEN; b++) {
            const size_t cuts[] = {0, a, b, CHUNKED_LEN};
            char out[CHUNKED_LEN] = {0};
            size_t len = 0;
            struct chunk chunk;
            chunk_init(&chunk);
            for (int i = 0; i < 3; i++) {
                char part[CHUNKED_LEN];
                size_t n = cuts[i + 1] - cuts[i];
                size_t got = 0;
                memcpy(part, chunked + cuts[i], n);
                assert_true(chunk_need(&chunk) <= CHUNKED_LEN - cuts[i]);
                assert_int_equal(chunk_decode(&chunk, part, n, &got), n);
                memcpy(out + len, part, got);
                len += got;
            }
            assert_int_equal(chunk.state, CHUNK_DONE);
            assert_int_equal(len, DECODED_LEN);
            assert_int_equal(chunk.total, DECODED_LEN);
            assert_memory_equal(out, decoded, DECODED_LEN);
        }
    }
}

// `first` of them come with the start, the rest by a socket, followed by another request.
static void run_chunked(size_t first, enum kind kind)
{
    int from[2];
    int to[2];
    char got[256] = {0};
    struct peer writer;
    const char *all = "5\r\nhello\r\n00b\r\n, dear worl\r\n1\r\nd\r\n10\r\n0123456789abcdef\r\n"
                      "A\r\n!!!!!!!!!!\r\n0\r\n\r\nGET / HTTP/1.1\r\n";
    make_pair(kind, from);
    unix_pair(to);
    assert_int_equal(fd_set_nonblock(from[1], 1), 0);
    assert_int_equal(fd_set_nonblock(to[0], 1), 0);
    start_writer(&writer, from[0], all + first, strlen(all) - first, true);
    struct move_result result = run_move((struct move_config){
        .from = from[1],
        .to = to[0],
        .from_offset = MOVE_NO_OFFSET,
        .to_offset = MOVE_NO_OFFSET,
        .first = all,
        .first_len = first,
        .first_is_body = true,
        .chunked = true,
        .max_bytes = DECODED_LEN,
    });
    join_peer(&writer);
    from[0] = writer.fd;
    free_peer(&writer);
    assert_result(result, MOVE_COMPLETE, 0, DECODED_LEN);
    assert_int_equal(result.first_used, first < CHUNKED_LEN ? first : CHUNKED_LEN);
    assert_int_equal(read(to[1], got, sizeof got), DECODED_LEN);
    assert_memory_equal(got, decoded, DECODED_LEN);
    size_t behind = strlen(all) - (first < CHUNKED_LEN ? CHUNKED_LEN : first);
    assert_int_equal(read(from[1], got, sizeof got), behind);
    assert_memory_equal(got, all + strlen(all) - behind, behind);
    close_pair(from);
    close_pair(to);
}

static void test_chunked(void **state)
{
    (void)state;
    for (size_t first = 0; first <= CHUNKED_LEN + 5; first++)
        run_chunked(first, first % 2 == 0 ? KIND_UNIX : KIND_PIPE);
}

// Large chunks to a reader that is slower, so that bytes are held.
static void test_chunked_much(void **state)
{
    enum { LEN = 2 * 1024 * 1024, STEP = 70000 };
    (void)state;
    int from[2];
    int to[2];
    struct peer writer;
    struct peer reader;
    char *body = malloc(LEN + 4096);
    size_t n = 0;
    for (size_t at = 0; at < LEN; at += STEP) {
        size_t len = LEN - at < STEP ? LEN - at : STEP;
        n += (size_t)snprintf(body + n, 16, "%zx\r\n", len);
        memcpy(body + n, pattern(LEN) + at, len);
        memcpy(body + n + len, "\r\n", 2);
        n += len + 2;
    }
    memcpy(body + n, "0\r\n\r\n", 5);
    tcp_pair(from);
    make_pair(KIND_PIPE, to);
    assert_int_equal(fd_set_nonblock(from[1], 1), 0);
    assert_int_equal(fd_set_nonblock(to[0], 1), 0);
    start_writer(&writer, from[0], body, n + 5, false);
    start_reader(&reader, to[1], LEN);
    assert_result(run_move((struct move_config){.from = from[1],
                                                .to = to[0],
                                                .from_offset = MOVE_NO_OFFSET,
                                                .to_offset = MOVE_NO_OFFSET,
                                                .chunked = true}),
                  MOVE_COMPLETE, 0, LEN);
    join_peer(&writer);
    join_peer(&reader);
    assert_memory_equal(reader.data, pattern(LEN), LEN);
    free_peer(&writer);
    free_peer(&reader);
    free(body);
    close_pair(from);
    close_pair(to);
}

static void test_bad_chunks(void **state)
{
    static const struct {
        const char *text;
        enum move_why why;
        int sys_errno;
    } rows[] = {
        {"",                                     MOVE_ENDED_EARLY, 0    },
        {"5\r\nhel",                             MOVE_ENDED_EARLY, 0    },
        {"5\r\nhello\r\n",                       MOVE_ENDED_EARLY, 0    },
        {"5\r\nhello\r\n0\r\n\r",                MOVE_ENDED_EARLY, 0    },
        {"\r\n",                                 MOVE_BAD_CHUNKS,  0    },
        {"x\r\n",                                MOVE_BAD_CHUNKS,  0    },
        {" 5\r\nhello\r\n0\r\n\r\n",             MOVE_BAD_CHUNKS,  0    },
        {"5 \r\nhello\r\n0\r\n\r\n",             MOVE_BAD_CHUNKS,  0    },
        {"+5\r\nhello\r\n0\r\n\r\n",             MOVE_BAD_CHUNKS,  0    },
        {"0x5\r\nhello\r\n0\r\n\r\n",            MOVE_BAD_CHUNKS,  0    },
        {"-5\r\nhello\r\n0\r\n\r\n",             MOVE_BAD_CHUNKS,  0    },
        {"5;a=b\r\nhello\r\n0\r\n\r\n",          MOVE_BAD_CHUNKS,  0    },
        {"5\nhello\r\n0\r\n\r\n",                MOVE_BAD_CHUNKS,  0    },
        {"5\r\nhello\n0\r\n\r\n",                MOVE_BAD_CHUNKS,  0    },
        {"5\r\nhello!\r\n0\r\n\r\n",             MOVE_BAD_CHUNKS,  0    },
        {"5\r\nhello\r\n0\r\nA: b\r\n\r\n",      MOVE_BAD_CHUNKS,  0    },
        {"5\r\nhello\r\n0\n\n",                  MOVE_BAD_CHUNKS,  0    },
        {"0000000000000005\r\nhello\r\n",        MOVE_BAD_CHUNKS,  0    },
        {"ffffffffffffffff\r\nhello",            MOVE_BAD_CHUNKS,  0    },
        {"1\r\na\r\nfffffffffffffff\r\nhello\n", MOVE_FROM_FAILED, EFBIG},
        {"41\r\n",                               MOVE_FROM_FAILED, EFBIG},
        {"40\r\n",                               MOVE_ENDED_EARLY, 0    },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int with_start = 0; with_start < 2; with_start++) {
            struct move_result result =
                move_text(rows[i].text, with_start == 1,
                          (struct move_config){.chunked = true, .max_bytes = 0x40});
            assert_int_equal(result.why, rows[i].why);
            assert_int_equal(result.sys_errno, rows[i].sys_errno);
        }
    }
}

// The other way round: what is put into chunks is what comes out of them.
static void put_into_chunks(enum kind from_kind, enum kind to_kind, size_t len, uint64_t max_bytes)
{
    static const char head[] = "HTTP/1.1 200 OK\r\n\r\n";
    size_t head_len = sizeof head - 1;
    int from[2];
    int to[2];
    struct peer writer;
    struct peer reader;
    struct chunk chunk;
    size_t out = 0;
    make_pair(from_kind, from);
    make_pair(to_kind, to);
    assert_int_equal(fd_set_nonblock(from[1], 1), 0);
    assert_int_equal(fd_set_nonblock(to[0], 1), 0);
    start_writer(&writer, from[0], pattern(len), len, true);
    start_reader(&reader, to[1], 10 * len + 100);
    struct move_result result = run_move((struct move_config){
        .from = from[1],
        .to = to[0],
        .from_offset = MOVE_NO_OFFSET,
        .to_offset = MOVE_NO_OFFSET,
        .length = MOVE_TO_END,
        .first = head,
        .first_len = head_len,
        .to_chunked = true,
        .max_bytes = max_bytes,
    });
    bool over = max_bytes > 0 && max_bytes < len;
    assert_int_equal(result.why, over ? MOVE_FROM_FAILED : MOVE_COMPLETE);
    assert_int_equal(result.sys_errno, over ? EFBIG : 0);
    fd_close(TAKE_FD(to[0]));
    fd_close(TAKE_FD(from[1]));
    join_peer(&reader);
    join_peer(&writer);
    assert_int_equal(reader.len, head_len + result.bytes);
    assert_memory_equal(reader.data, head, head_len);
    memcpy(reader.data + reader.len, "0\r\n\r\n", 5);
    chunk_init(&chunk);
    assert_int_equal(chunk_decode(&chunk, reader.data + head_len, result.bytes + 5, &out),
                     result.bytes + 5);
    assert_int_equal(chunk.state, CHUNK_DONE);
    assert_true(over ? out <= max_bytes : out == len);
    assert_memory_equal(reader.data + head_len, pattern(len), out);
    from[0] = writer.fd;
    free_peer(&writer);
    free_peer(&reader);
    close_pair(from);
    close_pair(to);
}

static void test_into_chunks(void **state)
{
    (void)state;
    for (int from = KIND_PIPE; from < KIND_MAX; from++) {
        for (int to = KIND_PIPE; to < KIND_MAX; to++) {
            put_into_chunks((enum kind)from, (enum kind)to, 0, 0);
            put_into_chunks((enum kind)from, (enum kind)to, 1, 1);
            put_into_chunks((enum kind)from, (enum kind)to, 1500000, 0);
            put_into_chunks((enum kind)from, (enum kind)to, 1500000, 1500000);
            put_into_chunks((enum kind)from, (enum kind)to, 1500000, 1499999);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_CASE(test_chunk_at_every_split), KIT_CASE(test_chunked),
        KIT_CASE(test_chunked_much),         KIT_CASE(test_bad_chunks),
        KIT_CASE(test_into_chunks),
    };
    return cmocka_run_group_tests(tests, kit_prepare, NULL);
}
