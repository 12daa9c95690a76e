// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "cli/monitor.h"

enum { INTERVAL_MS = 1000, INTERVAL_MIN_MS = 100, INTERVAL_MAX_MS = 3600 * 1000 };
enum monitor_flag { FLAG_ONCE, FLAG_INTERVAL, FLAG_LANGUAGE, FLAG_MODEL };

static const struct opt opts[] = {
    {"once",     '1', NULL,   "print it once, as text or with --json, and end", NULL    },
    {"interval", 'i', "TIME", "how often the screen is made anew",              "1s"    },
    {"language", 'l', "NAME", "of a prompt's code: 'python' or 'javascript'",   "python"},
    {"model",    'm', "NAME", "that answers the prompt",                        NULL    },
    REMOTE_OPTS,
};

static const struct opt_spec spec = {
    .usage = "cay monitor [PROMPT] [flags]",
    .summary =
        "Shows how a server does, live: its boxes and sandboxes, how long things take, what was\n"
        "asked of models, the machine. With a prompt: has it answered, and prints where the time\n"
        "went.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more =
        "Keys: arrows or j and k choose a sandbox, enter looks into it, esc goes back, s sorts,\n"
        "p pauses, r asks again, d destroys, ? explains, q quits.\n\n"
        "Examples:\n"
        "  cay monitor\n"
        "  cay monitor --once --json | jq .stats.latency.requests\n"
        "  cay monitor \"What is the 50th prime?\"",
};

static int take_interval(struct monitor_options *options, const char *value, struct err *err)
{
    int64_t ms;
    if (parse_duration(value, &ms, err) < 0)
        return -1;
    if (ms < INTERVAL_MIN_MS || ms > INTERVAL_MAX_MS)
        return err_set(err, ERR_INVALID, "'%.40s' is not between 100ms and 1h", value);
    options->interval_ms = ms;
    return 0;
}

static int take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct monitor_options *options = data;
    switch ((enum monitor_flag)flag) {
    case FLAG_ONCE:
        options->once = true;
        return 0;
    case FLAG_INTERVAL:
        return take_interval(options, value, err);
    case FLAG_LANGUAGE:
        options->language = value;
        return 0;
    case FLAG_MODEL:
        options->model = value;
        return 0;
    }
    return -1;
}

struct command_line monitor_line(struct monitor_options *options)
{
    *options = (struct monitor_options){.interval_ms = INTERVAL_MS};
    return (struct command_line){"monitor", &spec, take_flag, options, 0, 1, "one prompt at most"};
}
