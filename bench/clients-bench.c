// SPDX-License-Identifier: Apache-2.0
// clients-bench --port PORT --dir DIR [--quick] LINE...: measures the container protocol of a
// server that runs, in its sandbox "clients", beside `bash -c` in DIR; its token is in CAY_TOKEN.
// bench/run calls it and makes a table of what it prints.
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "clients.h"

#define USAGE "usage: CAY_TOKEN=TOKEN clients-bench --port PORT --dir DIR [--quick] LINE..."

struct line {
    const char *name;
    void (*run)(const struct clients *b);
};

static const struct line lines[] = {
    {"sessions",  line_sessions },
    {"execs",     line_execs    },
    {"output",    line_output   },
    {"streams",   line_streams  },
    {"files",     line_files    },
    {"processes", line_processes},
    {"during",    line_during   },
};

static void run_line(const struct clients *b, const char *name)
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

static uint16_t port_of(const char *text)
{
    struct err err = {0};
    uint64_t n;
    if (parse_u64(text, 1, UINT16_MAX, &n, &err) < 0)
        die("'%s': %s", text, err.msg);
    return (uint16_t)n;
}

int main(int argc, char **argv)
{
    struct clients b = {
        .http = {.rounds = 400, .few = 30}
    };
    int i = 1;
    report_begin("clients-bench");
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            b.http.rounds = 50, b.http.few = 2;
        else if (strcmp(argv[i], "--port") == 0 && i + 1 < argc)
            b.http.port = port_of(argv[++i]);
        else if (strcmp(argv[i], "--dir") == 0 && i + 1 < argc)
            b.dir = argv[++i];
        else
            die(USAGE);
    }
    b.http.token = getenv("CAY_TOKEN");
    if (b.http.port == 0 || b.dir == NULL || b.http.token == NULL)
        die(USAGE);
    for (; i < argc; i++)
        run_line(&b, argv[i]);
    return 0;
}
