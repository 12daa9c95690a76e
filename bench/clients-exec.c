// SPDX-License-Identifier: Apache-2.0
// Commands by the container protocol: sessions, results, much output, streams, processes.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "clients.h"

enum { WARM_UP = 20, SIDES = 3, KILLED = 20 };

// Two ways to run a command, and bash by itself.
enum side { IN_SESSION, WITHOUT, BARE };

static const char *const names[SIDES] = {"session", "sessionless", "bare"};
static const char *const session_ids[BARE] = {"main", "__DISABLE_SESSION__"};

struct command {
    const char *text;  // for bash
    const char *json;  // the same, as a JSON string's content
    const char *route; // that runs it
    const char *mark;  // up to which the clock runs; NULL: to the end
    size_t bytes;      // of its output, at least
};

// Whose turn it is: each has each place equally often.
static enum side turn(unsigned i)
{
    return (i + i / SIDES) % SIDES;
}

static int64_t run_ours(struct http_conn *c, const struct command *command, enum side side)
{
    int64_t began = clock_ns();
    route_begin(c, command->route, "{\"command\":\"%s\",\"sessionId\":\"%s\"}", command->json,
                session_ids[side]);
    struct whole whole = route_read(c, command->mark);
    int64_t end = clock_ns();
    if (whole.marked == 0 || whole.body < command->bytes)
        die("'%s': %zu bytes, and not what was expected", command->text, whole.body);
    return (command->mark != NULL ? whole.marked : end) - began;
}

static int64_t run_bare(const struct command *command)
{
    struct bare_took took = bare_bash(command->text);
    if (took.bytes < command->bytes)
        die("'%s' gave only %zu bytes", command->text, took.bytes);
    return command->mark != NULL && took.bytes > 0 ? took.first : took.end;
}

static void measure(const struct clients *b, const struct command *command, unsigned rounds,
                    const char *line)
{
    static struct http_conn c;
    struct series series[SIDES];
    http_open(&c, &b->http);
    for (unsigned i = 0; i < SIDES; i++)
        series_init(&series[i], names[i], rounds);
    for (unsigned i = 0; i < (rounds < WARM_UP ? 1 : WARM_UP); i++) {
        watchdog(line);
        (void)run_ours(&c, command, IN_SESSION);
        (void)run_ours(&c, command, WITHOUT);
        (void)run_bare(command);
    }
    for (unsigned i = 0; i < SIDES * rounds; i++) {
        watchdog(line);
        enum side side = turn(i);
        series_add(&series[side], side == BARE ? run_bare(command) : run_ours(&c, command, side));
    }
    for (unsigned i = 0; i < SIDES; i++)
        series_done(&series[i], line);
    http_close(&c);
}

// --- a command that does nothing ---

void line_execs(const struct clients *b)
{
    static const struct command nothing = {"true", "true", "/api/execute", NULL, 0};
    note("exec `true`, %u rounds", b->http.rounds);
    measure(b, &nothing, b->http.rounds, "exec");
}

// --- much output ---

#define WORDS "a line of output that is as long as lines are, more or less: 64"

void line_output(const struct clients *b)
{
    static const struct command one = {
        "yes '" WORDS "' | head -c 1000000",
        "yes '" WORDS "' | head -c 1000000",
        "/api/execute",
        NULL,
        999 * 1000,
    };
    static const struct command ten = {
        "yes '" WORDS "' | head -c 10000000",
        "yes '" WORDS "' | head -c 10000000",
        "/api/execute",
        NULL,
        9990 * 1000,
    };
    note("exec printing 1 MB, and 10 MB, %u rounds", b->http.few);
    measure(b, &one, b->http.few, "one-mb");
    measure(b, &ten, b->http.few, "ten-mb");
}

// --- streams ---

void line_streams(const struct clients *b)
{
    static const struct command first = {"echo hi", "echo hi", "/api/execute/stream",
                                         "\"type\":\"stdout\"", 1};
    static const struct command much = {"seq 100000", "seq 100000", "/api/execute/stream", NULL,
                                        588895};
    note("a stream's first byte, %u rounds", b->http.rounds);
    measure(b, &first, b->http.rounds, "first-byte");
    note("a stream of `seq 100000`, %u rounds", b->http.few);
    measure(b, &much, b->http.few, "seq");
}

// --- sessions ---

static int64_t new_session(struct http_conn *c, unsigned number)
{
    int64_t began = clock_ns();
    route_must(c, "/api/session/create", "{\"id\":\"new-%u\"}", number);
    int64_t took = clock_ns() - began;
    route_must(c, "/api/session/delete", "{\"sessionId\":\"new-%u\"}", number);
    return took;
}

void line_sessions(const struct clients *b)
{
    static struct http_conn c;
    struct series ours, bare;
    http_open(&c, &b->http);
    series_init(&ours, "create", b->http.rounds);
    series_init(&bare, "bare", b->http.rounds);
    note("a new session, %u rounds", b->http.rounds);
    for (unsigned i = 0; i < WARM_UP; i++)
        (void)new_session(&c, i);
    for (unsigned i = 0; i < b->http.rounds; i++) {
        watchdog("a session");
        series_add(&ours, new_session(&c, WARM_UP + i));
        series_add(&bare, bare_bash("true").end);
    }
    series_done(&ours, "session");
    series_done(&bare, "session");
    http_close(&c);
}

// --- processes ---

static int64_t start_process(struct http_conn *c, const char *command)
{
    int64_t began = clock_ns();
    route_must(c, "/api/process/start", "{\"command\":\"%s\",\"sessionId\":\"main\"}", command);
    return clock_ns() - began;
}

static int64_t kill_all(struct http_conn *c)
{
    for (unsigned i = 0; i < KILLED; i++)
        (void)start_process(c, "sleep 600");
    int64_t began = clock_ns();
    struct http_answer answer =
        http_must(c, "DELETE", "/sandbox/clients/container/api/process/kill-all", NULL);
    int64_t took = clock_ns() - began;
    if (http_number(&answer, "cleanedCount") != KILLED)
        die("not all were killed: %.200s", answer.body);
    return took;
}

void line_processes(const struct clients *b)
{
    static struct http_conn c;
    struct series start, bare, killed;
    http_open(&c, &b->http);
    series_init(&start, "start", b->http.rounds);
    series_init(&bare, "bare", b->http.rounds);
    series_init(&killed, "kill all", b->http.few);
    note("a process, %u rounds; %d killed, %u rounds", b->http.rounds, KILLED, b->http.few);
    for (unsigned i = 0; i < WARM_UP; i++)
        (void)start_process(&c, "true");
    for (unsigned i = 0; i < 2 * b->http.rounds; i++) {
        watchdog("a process");
        if ((i + i / 2) % 2 == 0)
            series_add(&bare, bare_bash("true").end);
        else
            series_add(&start, start_process(&c, "true"));
    }
    for (unsigned i = 0; i < b->http.few; i++) {
        watchdog("processes that are killed");
        series_add(&killed, kill_all(&c));
    }
    series_done(&start, "process");
    series_done(&bare, "process");
    series_done(&killed, "process");
    http_close(&c);
}
