// SPDX-License-Identifier: Apache-2.0
// A program in a box that runs already. Nothing is made or taken apart meanwhile, so both simply
// take turns, each first in every other round.
#include "base/clock.h"
#include "client.h"

enum { BOXES = 1, QUIET_MS = 50, WARM_UP = 10 };

static int64_t one_exec(const struct box_handle *box)
{
    struct exec_spec spec = client_exec(true_argv);
    struct streams streams;
    int64_t began = clock_ns();
    box_start(box, &spec, &streams);
    box_finish(box, &streams);
    return clock_ns() - began;
}

static void measure(const struct box_handle *box, unsigned n, unsigned quiet_ms, const char *line)
{
    struct series bare, ours;
    series_init(&bare, "bare", n);
    series_init(&ours, "exec", n);
    for (unsigned i = 0; i < WARM_UP; i++)
        (void)one_exec(box);
    for (unsigned i = 0; i < 2 * n; i++) {
        watchdog("a program in a box");
        if (quiet_ms > 0)
            sleep_ms(quiet_ms);
        if ((i + i / 2) % 2 == 0)
            series_add(&bare, bare_true());
        else
            series_add(&ours, one_exec(box));
    }
    series_done(&bare, line);
    series_done(&ours, line);
}

void line_exec(const struct bench *b)
{
    struct client c;
    struct box_handle box;
    client_start(&c, b, BOXES, 0, 0);
    box_claim(&c, &box);
    client_settle(&c, 1);
    note("a program in a running box, %u rounds", b->rounds);
    measure(&box, b->rounds, 0, "exec");
    note("the same after %d ms of quiet, %u rounds", QUIET_MS, b->rounds);
    measure(&box, b->rounds, QUIET_MS, "exec-quiet");
    box_destroy(&c, &box);
    box_gone(&c, &box);
    client_stop(&c);
}
