// SPDX-License-Identifier: Apache-2.0
// ways-bench --port PORT --keeper PID [flags] LINE...: measures lines of the benchmark with servers
// that run; the token is in CAY_TOKEN. bench/run calls it and makes a table of what it prints.
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "ways.h"

struct line {
    const char *name;
    void (*run)(const struct ways *w);
};

static const struct line lines[] = {
    {"download", line_download},
    {"upload",   line_upload  },
    {"beside",   line_beside  },
    {"small",    line_small   },
    {"echo",     line_echo    },
};

static void run_line(const struct ways *w, const char *name)
{
    for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (strcmp(lines[i].name, name) == 0) {
            lines[i].run(w);
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

static uint16_t port(const char *text)
{
    return (uint16_t)number(text, UINT16_MAX);
}

static void set(struct ways *w, const char *name, const char *value)
{
    if (strcmp(name, "--port") == 0)
        w->http.port = port(value);
    else if (strcmp(name, "--keeper") == 0)
        w->http.keeper = (pid_t)number(value, INT32_MAX);
    else if (strcmp(name, "--nginx") == 0)
        w->nginx = port(value);
    else if (strcmp(name, "--plain") == 0)
        w->plain = port(value);
    else if (strcmp(name, "--direct") == 0)
        w->direct = port(value);
    else if (strcmp(name, "--relay") == 0)
        w->relay = port(value);
    else if (strcmp(name, "--preview") == 0)
        w->preview = value;
    else if (strcmp(name, "--volume") == 0)
        w->volume = value;
    else if (strcmp(name, "--bytes") == 0)
        w->bytes = number(value, INT64_MAX);
    else
        die("there is no flag '%s'", name);
}

int main(int argc, char **argv)
{
    struct ways w = {.few = 9, .rounds = 1000, .many = 5000};
    int i = 1;
    report_begin("ways-bench");
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            w.few = 2, w.rounds = 100, w.many = 500;
        else if (i + 1 < argc)
            set(&w, argv[i], argv[i + 1]), i++;
    }
    w.http.token = getenv("CAY_TOKEN");
    if (w.http.port == 0 || w.http.keeper == 0 || w.http.token == NULL)
        die("the server's --port, --keeper and token are missing");
    for (; i < argc; i++)
        run_line(&w, argv[i]);
    return 0;
}
