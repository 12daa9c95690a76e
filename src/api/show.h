// SPDX-License-Identifier: Apache-2.0
// Rows and results as JSON. Each writes into an object that is open.
#pragma once

#include "base/show.h"
#include "db/db.h"
#include "sandbox/process.h"
#include "sandbox/sandbox.h"
#include "sandbox/session.h"

enum { SHOW_MAX = 64 * 1024 * 1024 }; // most that a list's JSON may take

void show_usd(struct json *j, const char *key, int64_t nano); // nano-dollars, as dollars
void show_time_now(struct json *j, const char *key);
// Text, or with "encoding":"base64" beside it.
void show_bytes(struct json *j, const char *key, const void *data, size_t len);

// The same for what a program wrote, which may be long: what would grow much by escapes is no text.
void show_output(struct json *j, const char *key, const struct buf *b);
bool show_is_text(const struct buf *b);

void show_sandbox(struct json *j, const struct sandbox_row *row);
void show_synced(struct json *j, struct db *db,
                 const struct sandbox_row *row);                 // when it was stored
void show_limits(struct json *j, const struct sandbox_row *row); // "limits": {...}
struct show_network {                                            // of a running sandbox
    uint64_t bytes; // that it has sent and received, since it runs
    unsigned open;  // its connections
};
void show_usage(struct json *j, const struct keeper_used *used,
                const struct show_network *network); // its own object
void show_process(struct json *j, struct process *p);
void show_session(struct json *j, const struct session_row *row);
void show_event(struct json *j, const struct event_row *row);

const char *show_status(enum sandbox_status status); // "running"

// exitCode, signal, reason, limitsHit, cpu, peakMemory, success.
struct job_end;
void show_end(struct json *j, const struct job_end *end, bool truncated);
// As a shell would say it: 124 for a timeout, 128+n for a signal, 125 when the box was lost.
int show_exit_code(const struct job_end *end);
struct job_end show_end_of(const struct process_row *row);
