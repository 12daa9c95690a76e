// SPDX-License-Identifier: Apache-2.0
// server-bench --port PORT --keeper PID [--quick] LINE...: measures lines of the benchmark with a
// server that runs; its token is in CAY_TOKEN. bench/run calls it and makes a table of what it
// prints.
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/text.h"
#include "http-client.h"

#define USAGE "usage: CAY_TOKEN=TOKEN server-bench --port PORT --keeper PID [--quick] LINE..."

struct line {
    const char *name;
    void (*run)(const struct http_bench *b);
};

static const struct line lines[] = {
    {"first",   line_http_first  },
    {"exec",    line_http_exec   },
    {"session", line_http_session},
    {"burst",   line_http_burst  },
    {"many",    line_http_many   },
};

static void run_line(const struct http_bench *b, const char *name)
{
    for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (strcmp(lines[i].name, name) == 0) {
            lines[i].run(b);
            watchdog_off();
            return;
        }
    }
    die("there is no line '%s'", name);
}

static uint64_t number(const char *text, uint64_t max)
{
    struct err err = {0};
    uint64_t n;
    if (parse_u64(text, 1, max, &n, &err) < 0)
        die("'%s': %s", text, err.msg);
    return n;
}

int main(int argc, char **argv)
{
    struct http_bench b = {.rounds = 400, .few = 10, .burst = 100, .many = 1000, .seconds = 30};
    struct rlimit files = {.rlim_cur = 8192, .rlim_max = 8192};
    int i = 1;
    report_begin("server-bench");
    (void)setrlimit(RLIMIT_NOFILE, &files);
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            b.rounds = 50, b.few = 2, b.many = 100, b.seconds = 3;
        else if (strcmp(argv[i], "--port") == 0 && i + 1 < argc)
            b.port = (uint16_t)number(argv[++i], UINT16_MAX);
        else if (strcmp(argv[i], "--keeper") == 0 && i + 1 < argc)
            b.keeper = (pid_t)number(argv[++i], INT32_MAX);
        else
            die(USAGE);
    }
    b.token = getenv("CAY_TOKEN");
    if (b.port == 0 || b.keeper == 0 || b.token == NULL)
        die(USAGE);
    for (; i < argc; i++)
        run_line(&b, argv[i]);
    return 0;
}
