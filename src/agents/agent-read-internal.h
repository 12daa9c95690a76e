// SPDX-License-Identifier: Apache-2.0
// A reader, for the two halves that it is made of: bytes to lines (agent-read.c), and what a line
// means (agent-mean.c).
#pragma once

#include "agents/agent-file-internal.h"
#include "agents/agent-read.h"
#include "agents/kept.h"

enum {
    PIECE_MAX = 16 * 1024, // of text without an end of line, before it goes on
    KEPT_LINE_MAX = 80,    // that says how much is left out
    SHOWN_VALUE_MAX = 200, // bytes of one value among other words
};

struct gathered {
    struct buf line;
    bool is_long; // it is no JSON any more, and goes to the log as it comes
};

struct agent_reader {
    const struct agent_file *file;
    struct agent_reader_fns fns;
    void *data;
    struct gathered out, err;
    struct kept log;
    struct kept said;          // of `output text`
    struct buf logs, all_said; // both, put together for a report

    bool has_end, failed;
    char *text, *error, *model, *session;
    const char *code; // of the file
    int64_t turns, cost_nano;
    char *warnings[AGENT_WARNINGS_MAX];
    unsigned n_warnings;
};

void agent_log(struct agent_reader *reader, const char *text, size_t len);
void agent_rule_apply(struct agent_reader *reader, const struct agent_rule *rule,
                      const struct json_node *line);
