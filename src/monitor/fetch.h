// SPDX-License-Identifier: Apache-2.0
// A thread that asks the server, so that the keyboard never waits for it: every interval, and at
// once when it is told something new to do. What it learned is a report, of which only the newest
// is kept. The functions are for the program's first thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/remote.h"
#include "cli/view.h"
#include "monitor/detail.h"

struct report {
    bool connected;
    char trouble[240]; // why not; or what went wrong with what was asked for: "" nothing
    struct view view;  // zeros when not connected
    bool has_detail;
    struct detail detail;
    char note[240]; // what came of the last order; "": there is no news
};
void report_free(struct report *report); // takes NULL

struct fetch;
struct fetch *fetch_start(const struct remote *remote, int64_t interval_ms, struct err *err);
// Waits a moment for the thread; a request that cannot be ended is left behind.
void fetch_stop(struct fetch *fetch);
int fetch_fd(const struct fetch *fetch);              // readable when there is a report
struct report *fetch_take(struct fetch *fetch);       // the caller's; NULL: none is new
void fetch_look(struct fetch *fetch, const char *id); // into a sandbox, too; "": into none
void fetch_destroy(struct fetch *fetch, const char *id);
void fetch_now(struct fetch *fetch);
void fetch_pause(struct fetch *fetch, bool pause);
