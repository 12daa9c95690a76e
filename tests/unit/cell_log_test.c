// SPDX-License-Identifier: Apache-2.0
// The events of a cell against a plain list of them, in memory and in a file.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "check.h"
#include "sandbox/cell-log.h"

enum { EVENTS_MAX = 20000 };

struct model {
    enum cell_event_type type;
    char *bytes;
    size_t len;
};

static int directory(void)
{
    return open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static uint32_t random_below(uint32_t *dice, uint32_t n)
{
    *dice = *dice * 1664525u + 1013904223u;
    return (*dice >> 8) % n;
}

static void check_event(struct cell_log *log, const struct model *model, uint64_t n)
{
    struct cell_event event;
    assert_int_equal(cell_log_get(log, n, &event), 1);
    assert_int_equal(event.type, model[n].type);
    assert_int_equal(event.len, model[n].len);
    assert_memory_equal(event.bytes, model[n].bytes, event.len);
}

// Everything is read the moment it is written, so that nothing grows together.
static void run_model(uint32_t seed, unsigned events, uint32_t largest, bool filed)
{
    static struct model model[EVENTS_MAX];
    uint32_t dice = seed;
    struct cell_log log;
    int dir = directory(), fds = check_fds();
    cell_log_init(&log, dir);
    for (unsigned i = 0; i < events; i++) {
        size_t len = 1 + random_below(&dice, largest);
        char *bytes = malloc(len);
        memset(bytes, 'a' + (int)(i % 26), len);
        bool is_output = random_below(&dice, 2) == 0;
        model[i] = (struct model){is_output ? CELL_STDERR : CELL_RESULT, bytes, len};
        int r = is_output ? cell_log_grow(&log, CELL_STDERR, filed, bytes, len)
                          : cell_log_add(&log, CELL_RESULT, filed, bytes, len);
        assert_int_equal(r, 0);
        assert_int_equal(cell_log_count(&log), i + 1);
        check_event(&log, model, i);
        check_event(&log, model, random_below(&dice, i + 1));
    }
    assert_int_equal(cell_log_close(&log, filed), 0);
    for (unsigned i = 0; i < events; i++)
        check_event(&log, model, i);
    for (unsigned i = 0; i < 500; i++)
        check_event(&log, model, random_below(&dice, events));
    struct cell_event event;
    assert_int_equal(cell_log_get(&log, events, &event), 0);
    assert_true(cell_log_memory(&log) < 2 * CELL_LOG_MEMORY + CELL_LOG_PIECE);
    cell_log_done(&log);
    assert_int_equal(check_fds(), fds);
    for (unsigned i = 0; i < events; i++)
        free(model[i].bytes);
    fd_close(dir);
}

CHECK_CASE(events_come_back_as_they_went)
{
    run_model(1, 10, 10, false);
    run_model(2, 5000, 3, false);
    run_model(3, 2000, 400, false);
    run_model(4, 300, 20000, false);
    run_model(5, 20, CELL_LOG_PIECE, true);
    run_model(6, EVENTS_MAX, 40, false);
}

CHECK_CASE(output_grows_into_pieces)
{
    struct cell_log log;
    struct cell_event event;
    int dir = directory();
    uint64_t total = 0;
    char bytes[1000];
    memset(bytes, 'x', sizeof bytes);
    cell_log_init(&log, dir);
    for (int i = 0; i < 2000; i++)
        assert_int_equal(cell_log_grow(&log, CELL_STDOUT, false, bytes, sizeof bytes), 0);
    for (uint64_t n = 0; n < cell_log_count(&log); n++) {
        assert_int_equal(cell_log_get(&log, n, &event), 1);
        assert_true(event.len <= CELL_LOG_PIECE);
        total += event.len;
    }
    assert_int_equal(total, 2000 * sizeof bytes);
    assert_true(cell_log_count(&log) <= total / CELL_LOG_PIECE + 1);
    cell_log_done(&log);
    fd_close(dir);
}

CHECK_CASE(without_a_directory_memory_is_all_there_is)
{
    struct cell_log log;
    struct cell_event event;
    char bytes[CELL_LOG_PIECE];
    memset(bytes, 'x', sizeof bytes);
    cell_log_init(&log, -1);
    int r = 0;
    unsigned n = 0;
    while ((r = cell_log_add(&log, CELL_RESULT, false, bytes, sizeof bytes)) == 0)
        n++;
    assert_true(r < 0);
    assert_int_equal(cell_log_count(&log), n);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(cell_log_get(&log, i, &event), 1);
    cell_log_done(&log);
}

CHECK_MAIN(cmocka_unit_test(events_come_back_as_they_went),
           cmocka_unit_test(output_grows_into_pieces),
           cmocka_unit_test(without_a_directory_memory_is_all_there_is))
