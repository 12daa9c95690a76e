// SPDX-License-Identifier: Apache-2.0
// How many boxes a second: a client that waits in poll and always has the same number of boxes
// somewhere between claim and gone. A box counts when it is gone, cgroups and disk too, and only if
// it was claimed after the first second, so that what the pool held at the start is no gift.
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "client.h"

enum {
    FLIGHTS_MAX = 8,
    CORES = 2,
    BOXES = 32,
    WARM_UP_MS = 1000,
    TRIAL_MS = 1500,
};

enum flight_state {
    FLIGHT_CLAIM, // waits for KEEPER_CLAIMED
    FLIGHT_START, // waits for GUEST_STARTED
    FLIGHT_RUN,   // waits for GUEST_EXITED
    FLIGHT_END,   // waits for KEEPER_GONE
    FLIGHT_NONE,
};

struct flight {
    enum flight_state state;
    struct box_handle box;
    struct streams streams;
    int64_t claimed_ns;
};

struct rate {
    struct client client;
    struct flight flights[FLIGHTS_MAX];
    unsigned n;
    int64_t from_ns, until_ns;
    unsigned gone; // that were claimed after from_ns
};

static void exec_true(struct flight *f)
{
    struct err err = {0};
    struct exec_spec spec = client_exec(true_argv);
    spec.flags = GUEST_EXEC_LAST;
    if (guest_send_exec(guest_fresh(f->box.guest), 1, &spec, &err) < 0)
        die("%s", err.msg);
    f->state = FLIGHT_START;
}

static void claim(struct rate *r, struct flight *f)
{
    struct err err = {0};
    struct claim c = client_claim();
    *f = (struct flight){.state = FLIGHT_NONE, .claimed_ns = clock_ns()};
    if (f->claimed_ns >= r->until_ns)
        return;
    if (box_take(&r->client, &f->box)) {
        exec_true(f);
        return;
    }
    f->state = FLIGHT_CLAIM;
    if (keeper_send_claim(r->client.keeper.sock, (uint32_t)(f - r->flights) + 1, &c, &err) < 0)
        die("%s", err.msg);
}

static struct flight *by_number(struct rate *r, uint64_t number)
{
    for (unsigned i = 0; i < r->n; i++) {
        if (r->flights[i].box.number == number)
            return &r->flights[i];
    }
    die("a box that nobody knows is gone");
}

static void keeper_event(struct rate *r)
{
    struct keeper_event ev;
    struct err err = {0};
    int got = keeper_recv(r->client.keeper.sock, &ev, MSG_DONTWAIT, &err);
    if (got < 0)
        die("%s", err.msg);
    if (got == 0 || client_handle(&r->client, &ev))
        return;
    if (ev.msg.head.type == KEEPER_CLAIMED) {
        struct flight *f = &r->flights[ev.msg.head.id - 1];
        f->box = (struct box_handle){.number = ev.msg.box.box, .guest = ev.guest};
        exec_true(f);
    } else if (ev.msg.head.type == KEEPER_GONE) {
        struct flight *f = by_number(r, ev.msg.box.box);
        if (f->state != FLIGHT_END)
            die("a box went by itself");
        r->gone += f->claimed_ns >= r->from_ns && clock_ns() < r->until_ns;
        claim(r, f);
    }
}

static void guest_event(struct flight *f)
{
    struct guest_event ev;
    if (f->state == FLIGHT_START) {
        guest_wait(f->box.guest, &ev, GUEST_STARTED);
        f->streams = (struct streams){.out = ev.out, .err = ev.err};
        f->state = FLIGHT_RUN;
        return;
    }
    // Only the exit can be due, so this does not wait: the streams have ended with the program.
    box_finish(&f->box, &f->streams);
    fd_close(f->box.guest);
    f->box.guest = -1;
    f->state = FLIGHT_END;
}

static unsigned busy(const struct rate *r)
{
    unsigned n = 0;
    for (unsigned i = 0; i < r->n; i++)
        n += r->flights[i].state != FLIGHT_NONE;
    return n;
}

static void turn(struct rate *r)
{
    struct pollfd fds[1 + FLIGHTS_MAX];
    for (unsigned i = 0; i < r->n; i++) {
        const struct flight *f = &r->flights[i];
        int listens = f->state == FLIGHT_START || f->state == FLIGHT_RUN;
        fds[1 + i] = (struct pollfd){.fd = listens ? f->box.guest : -1, .events = POLLIN};
    }
    fds[0] = (struct pollfd){.fd = r->client.keeper.sock, .events = POLLIN};
    if (poll(fds, 1 + r->n, -1) < 0)
        die("poll: %m");
    for (unsigned i = 0; i < r->n; i++) {
        if (fds[1 + i].revents != 0)
            guest_event(&r->flights[i]);
    }
    if (fds[0].revents != 0)
        keeper_event(r);
}

// Boxes per second with `n` in flight.
static double run(const struct bench *b, unsigned n, unsigned pool, unsigned ms)
{
    static struct rate r;
    r = (struct rate){.n = n};
    client_start(&r.client, b, BOXES, pool, 0);
    client_settle(&r.client, 0);
    r.from_ns = clock_ns() + WARM_UP_MS * NS_PER_MS;
    r.until_ns = r.from_ns + ms * NS_PER_MS;
    for (unsigned i = 0; i < n; i++)
        claim(&r, &r.flights[i]);
    watchdog("boxes in flight");
    while (busy(&r) > 0)
        turn(&r);
    client_settle(&r.client, 0);
    client_stop(&r.client);
    return r.gone * 1000.0 / ms;
}

static void use_cores(unsigned n)
{
    cpu_set_t all, some;
    CPU_ZERO(&some);
    if (sched_getaffinity(0, sizeof all, &all) < 0)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&some) < (int)n; cpu++) {
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &some);
    }
    (void)sched_setaffinity(0, sizeof some, &some);
}

struct setting {
    unsigned in_flight, pool;
    double rate;
};

static struct setting find_best(const struct bench *b)
{
    static const unsigned pools[] = {0, 4, 8};
    struct setting best = {.in_flight = 1};
    for (unsigned p = 0; p < sizeof pools / sizeof *pools; p++) {
        for (unsigned n = 1; n <= FLIGHTS_MAX; n = b->quick ? 2 * n : n + 1) {
            double rate = run(b, n, pools[p], TRIAL_MS);
            note("%u in flight, pool of %u: %.0f boxes a second", n, pools[p], rate);
            if (rate > best.rate)
                best = (struct setting){.in_flight = n, .pool = pools[p], .rate = rate};
        }
    }
    return best;
}

void line_rate(const struct bench *b)
{
    use_cores(CORES);
    struct setting best = find_best(b);
    note("%u s with %u in flight, pool of %u", b->seconds, best.in_flight, best.pool);
    print_value("rate", "per_second", run(b, best.in_flight, best.pool, b->seconds * 1000));
    print_value("rate", "in_flight", best.in_flight);
    print_value("rate", "pool", best.pool);
    print_value("rate", "seconds", b->seconds);
}
