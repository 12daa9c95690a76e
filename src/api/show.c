// SPDX-License-Identifier: Apache-2.0
#include "api/show.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "wire/guest-msg.h"

enum {
    EXIT_TIMEOUT = 124,
    EXIT_BOX_LOST = 125,
    // Text is written with escapes, of which the longest take six bytes for one; what would grow so
    // much is written as base64 instead.
    ESCAPES_FREE = 16 * 1024,
};

void show_time_now(struct json *j, const char *key)
{
    show_time(j, key, db_now_ms());
}

void show_usd(struct json *j, const char *key, int64_t nano)
{
    json_key(j, key);
    json_put_double(j, (double)nano / 1e9);
}

void show_bytes(struct json *j, const char *key, const void *data, size_t len)
{
    bool text = utf8_valid(data, len);
    json_key(j, key);
    if (text) {
        json_put_strn(j, data, len);
        return;
    }
    json_put_base64(j, data, len);
    show_str(j, "encoding", "base64");
}

// Bytes that would be written as \u00XX.
static size_t escaped(const struct buf *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->len; i++) {
        unsigned char c = (unsigned char)b->data[i];
        n += c < 0x20 && c != '\n' && c != '\t' && c != '\r';
    }
    return n;
}

bool show_is_text(const struct buf *b)
{
    return utf8_valid(b->data, b->len) && escaped(b) <= b->len / 8 + ESCAPES_FREE;
}

void show_output(struct json *j, const char *key, const struct buf *b)
{
    json_key(j, key);
    if (show_is_text(b)) {
        json_put_strn(j, b->data, b->len);
        return;
    }
    json_put_base64(j, b->data, b->len);
    show_str(j, "encoding", "base64");
}

// -- sandboxes

const char *show_status(enum sandbox_status status)
{
    switch (status) {
    case SANDBOX_SLEEPING:
        return "sleeping";
    case SANDBOX_RUNNING:
        return "running";
    case SANDBOX_DESTROYING:
        return "destroying";
    case SANDBOX_MAKING:
        return "making";
    }
    return "unknown";
}

void show_limits(struct json *j, const struct sandbox_row *row)
{
    json_key(j, "limits");
    json_open_object(j);
    show_int(j, "memory", row->memory);
    show_int(j, "disk", row->disk);
    show_int(j, "pids", row->pids);
    json_key(j, "cpus");
    json_put_double(j, (double)row->cpu_milli / 1000.0);
    json_close_object(j);
}

// What it may spend on models, each null where there is no limit, and what it has spent.
static void show_budget(struct json *j, const struct sandbox_row *row)
{
    json_key(j, "budget");
    json_open_object(j);
    if (row->budget_cost >= 0)
        show_usd(j, "usd", row->budget_cost);
    else
        show_raw(j, "usd", NULL);
    if (row->budget_tokens >= 0)
        show_int(j, "tokens", row->budget_tokens);
    else
        show_raw(j, "tokens", NULL);
    json_key(j, "spent");
    json_open_object(j);
    show_usd(j, "usd", row->spent_cost);
    show_int(j, "tokens", row->spent_tokens);
    json_close_object(j);
    json_close_object(j);
}

void show_sandbox(struct json *j, const struct sandbox_row *row)
{
    show_str(j, "id", row->id);
    show_str(j, "slug", row->slug);
    show_str(j, "status", show_status(row->status));
    show_str(j, "image", row->image);
    show_limits(j, row);
    show_raw(j, "labels", row->labels != NULL ? row->labels : "{}");
    show_str(j, "userId", row->user_id);
    show_raw(j, "network", row->network != NULL ? row->network : "\"none\"");
    show_raw(j, "secrets", row->secrets != NULL ? row->secrets : "[]");
    show_raw(j, "languages", row->languages != NULL ? row->languages : "[]");
    show_bool(j, "sharedZygote", row->shared_zygote);
    show_str(j, "provider", "local");
    json_key(j, "box");
    if (row->box > 0)
        json_put_int(j, row->box);
    else
        json_put_null(j);
    show_int(j, "boxes", row->boxes);
    show_ms(j, "sleepAfter", (double)row->sleep_after_ms / 1000.0);
    if (row->destroy_after_ms > 0)
        show_ms(j, "destroyAfter", (double)row->destroy_after_ms / 1000.0);
    else
        show_raw(j, "destroyAfter", NULL);
    if (row->archive_after_ms > 0)
        show_ms(j, "archiveAfter", (double)row->archive_after_ms / 1000.0);
    else
        show_raw(j, "archiveAfter", NULL);
    show_budget(j, row);
    show_bool(j, "keepAlive", row->keep_alive);
    show_bool(j, "ephemeral", row->ephemeral);
    show_bool(j, "durable", row->durable);
    show_bool(j, "sync", row->sync);
    show_bool(j, "archived", row->archive != NULL);
    show_time(j, "createdAt", row->created_ms);
    show_time(j, "updatedAt", row->updated_ms);
    show_time(j, "lastActiveAt", row->active_ms);
}

void show_synced(struct json *j, struct db *db, const struct sandbox_row *row)
{
    struct err ignored;
    struct sync_row sync = {0};
    (void)db_sync_get(db, row->tenant, row->id, &sync, &ignored);
    show_time(j, "workspaceSyncedAt", sync.synced_ms);
    sync_row_done(&sync);
}

void show_usage(struct json *j, const struct keeper_used *used, const struct show_network *network)
{
    json_open_object(j);
    show_ms(j, "cpu", (double)used->cpu_usec / 1000.0);
    show_int(j, "memory", (int64_t)used->memory);
    show_int(j, "peakMemory", (int64_t)used->memory_peak);
    show_int(j, "disk", (int64_t)used->disk);
    show_int(j, "pids", used->pids);
    show_int(j, "oomKills", used->oom_kills);
    show_int(j, "networkBytes", (int64_t)network->bytes);
    show_int(j, "connections", network->open);
    json_close_object(j);
}

// -- ends

int show_exit_code(const struct job_end *end)
{
    switch (end->reason) {
    case END_EXIT:
        return end->exit_code;
    case END_SIGNAL:
    case END_KILLED:
        return 128 + (end->signal > 0 ? end->signal : SIGKILL);
    case END_OOM:
        return 128 + SIGKILL;
    case END_TIMEOUT:
        return EXIT_TIMEOUT;
    case END_NONE:
    case END_BOX_LOST:
    case END_REASON_MAX:
        break;
    }
    return EXIT_BOX_LOST;
}

static void show_limits_hit(struct json *j, const struct job_end *end, bool truncated)
{
    if ((end->limits & (GUEST_LIMIT_OOM | GUEST_LIMIT_PIDS | GUEST_LIMIT_DISK)) == 0 && !truncated)
        return;
    json_key(j, "limitsHit");
    json_open_array(j);
    if (end->limits & GUEST_LIMIT_OOM)
        json_put_str(j, "memory");
    if (end->limits & GUEST_LIMIT_PIDS)
        json_put_str(j, "pids");
    if (end->limits & GUEST_LIMIT_DISK)
        json_put_str(j, "disk");
    if (truncated)
        json_put_str(j, "output");
    json_close_array(j);
}

void show_end(struct json *j, const struct job_end *end, bool truncated)
{
    int code = show_exit_code(end);
    show_bool(j, "success", end->reason == END_EXIT && code == 0);
    show_int(j, "exitCode", code);
    if (end->signal > 0)
        show_int(j, "signal", end->signal);
    show_str(j, "reason", end_reason_name(end->reason));
    show_limits_hit(j, end, truncated);
    if (end->memory_peak == 0)
        return; // nobody has measured: a shell's command, or a box that was lost
    show_ms(j, "cpu", (double)end->cpu_usec / 1000.0);
    show_int(j, "peakMemory", (int64_t)end->memory_peak);
}

struct job_end show_end_of(const struct process_row *row)
{
    return (struct job_end){
        .reason = row->reason,
        .exit_code = (int)row->exit_code,
        .signal = (int)row->signal,
        .limits = (uint32_t)row->limits,
        .cpu_usec = (uint64_t)row->cpu_usec,
        .memory_peak = (uint64_t)row->memory_peak,
    };
}

// -- what runs in one

static void show_log(struct json *j, const char *key, struct bytelog *log)
{
    uint64_t from, to;
    json_key(j, key);
    if (log == NULL) {
        json_put_null(j);
        return;
    }
    bytelog_gap(log, &from, &to);
    json_open_object(j);
    show_int(j, "size", (int64_t)bytelog_size(log));
    if (from != to) {
        json_key(j, "gap");
        json_open_array(j);
        json_put_uint(j, from);
        json_put_uint(j, to);
        json_close_array(j);
    }
    if (bytelog_lost(log) > 0)
        show_int(j, "lost", (int64_t)bytelog_lost(log));
    json_close_object(j);
}

void show_process(struct json *j, struct process *p)
{
    const struct process_row *row = process_row(p);
    struct job_end end = show_end_of(row);
    show_str(j, "id", row->id);
    show_int(j, "pid", row->pid);
    show_str(j, "status", row->reason == END_NONE ? "running" : "ended");
    show_raw(j, "command", row->command);
    show_str(j, "cwd", row->cwd);
    show_bool(j, "keepAwake", row->keep_awake);
    if (row->tty != NULL)
        show_str(j, "terminal", row->tty);
    if (row->reason != END_NONE)
        show_end(j, &end, /*truncated=*/false);
    show_time(j, "startedAt", row->started_ms);
    show_time(j, "endedAt", row->ended_ms);
    show_int(j, "duration", process_duration_ms(p));
    json_key(j, "logs");
    json_open_object(j);
    show_log(j, "stdout", process_log(p, LOG_STDOUT));
    show_log(j, "stderr", process_log(p, LOG_STDERR));
    json_close_object(j);
}

void show_session(struct json *j, const struct session_row *row)
{
    show_str(j, "id", row->id);
    show_str(j, "cwd", row->cwd);
    show_bool(j, "running", row->box > 0);
    show_time(j, "createdAt", row->created_ms);
    show_time(j, "lastUsedAt", row->used_ms);
}

void show_event(struct json *j, const struct event_row *row)
{
    show_int(j, "id", row->seq);
    show_str(j, "type", row->type);
    show_time(j, "timestamp", row->time_ms);
    show_raw(j, "data", row->data != NULL && *row->data != '\0' ? row->data : "{}");
}
