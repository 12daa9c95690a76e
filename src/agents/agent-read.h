// SPDX-License-Identifier: Apache-2.0
// What an agent writes, read by the rules of its file. It is hostile: lines may be endless, deep,
// or no JSON at all, and numbers anything. Never fails; what makes no sense is text for the log.
#pragma once

#include "agents/agent-file.h"
#include "base/buf.h"

enum {
    AGENT_LINE_MAX = 4 * 1024 * 1024, // longer ones are no JSON
    AGENT_LOG_MAX = 2 * 1024 * 1024,  // of what is kept for people: the beginning and the end
    AGENT_RESULT_MAX = 1024 * 1024,
    AGENT_ERROR_MAX = 4 * 1024,
    AGENT_VALUES_MAX = 64 * 1024, // of one line of JSON, which is text else
    AGENT_WARNINGS_MAX = 16,
};

struct agent_reader;
// `message`: one whole JSON object that it wrote, as it is; `log`: a piece of text for people. Both
// may be NULL.
struct agent_reader_fns {
    void (*message)(void *data, const char *json, size_t len);
    void (*log)(void *data, const char *text, size_t len);
};
struct agent_reader *agent_reader_new(const struct agent_file *file,
                                      const struct agent_reader_fns *fns, void *data);
void agent_reader_free(struct agent_reader *reader);                            // takes NULL
void agent_reader_stdout(struct agent_reader *reader, const char *p, size_t n); // any pieces
void agent_reader_stderr(struct agent_reader *reader, const char *p, size_t n);
void agent_reader_end(struct agent_reader *reader); // a last line may be whole without its end

struct agent_report {       // lent, until the reader is freed or fed
    bool wants_result;      // by its file it says how it ended: without a result it has failed
    bool has_result;        // it said how it ended
    bool failed;            // ... that is, badly; also where it says so beside "success"
    const char *text;       // what it answered; NULL: nothing
    const char *error_code; // of its file, for how it failed; NULL: none
    const char *error;      // in its words; NULL: none
    const char *model, *session;
    int64_t turns;     // -1: no word
    int64_t cost_nano; // nano-dollars, as it reckons; -1: no word
    const char *logs;
    size_t logs_len;
    bool logs_truncated;
    const char *const *warnings; // "Bash was not allowed: python3 -c 1"
    unsigned n_warnings;
};
void agent_reader_report(struct agent_reader *reader, struct agent_report *ret);
