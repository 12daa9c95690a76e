// SPDX-License-Identifier: Apache-2.0
// Their codes are few, and say which part of the work failed. So an error before the sandbox is at
// work is one of the request or of the machine, and one after that is its route's, whatever it is;
// the status is ours, and true.
#include "api/bridge/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/show.h"

static const char *const codes[] = {
    "unauthorized",
    "invalid_request",
    "payload_too_large",
    "exec_error",
    "exec_transport_error",
    "workspace_read_not_found",
    "workspace_archive_read_error",
    "workspace_archive_write_error",
    "capacity_exceeded",
    "pool_error",
    "mount_error",
    "unmount_error",
    "session_error",
    "tunnel_error",
};

// What a route's work fails with; the others' with exec_transport_error.
static const struct {
    const char *route; // its name
    const char *code;
    const char *missing; // when there is no such thing; NULL: as any other
} faults[] = {
    {"readFile",         "exec_transport_error",          "workspace_read_not_found"},
    {"writeFile",        "workspace_archive_write_error", NULL                      },
    {"persistWorkspace", "workspace_archive_read_error",  NULL                      },
    {"getWorkspace",     "workspace_archive_read_error",  NULL                      },
    {"hydrateWorkspace", "workspace_archive_write_error", NULL                      },
    {"createSession",    "session_error",                 NULL                      },
    {"deleteSession",    "session_error",                 NULL                      },
};

static const char *code_of_work(const struct refusal *r)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        if (strcmp(faults[i].route, r->route->name) != 0)
            continue;
        return r->kind == ERROR_NOT_FOUND && faults[i].missing != NULL ? faults[i].missing
                                                                       : faults[i].code;
    }
    return "exec_transport_error";
}

static unsigned status_of(const struct refusal *r)
{
    // Also of a sandbox that cannot be had just now, because the one before it is on its way out.
    bool passes = r->kind == ERROR_QUOTA_EXCEEDED || (r->kind == ERROR_CONFLICT && !r->is_at_work);
    return error_status(passes ? ERROR_UNAVAILABLE : r->kind);
}

static const char *code_of(const struct refusal *r)
{
    if (r->kind == ERROR_UNAUTHORIZED || r->kind == ERROR_FORBIDDEN)
        return "unauthorized";
    if (r->kind == ERROR_PAYLOAD_TOO_LARGE)
        return "payload_too_large";
    if (r->is_at_work && r->route != NULL)
        return code_of_work(r);
    if (r->kind == ERROR_UNAVAILABLE || r->kind == ERROR_QUOTA_EXCEEDED ||
        r->kind == ERROR_RATE_LIMITED)
        return "capacity_exceeded";
    return status_of(r) >= 500 ? "pool_error" : "invalid_request";
}

static void write_body(const char *code, const char *message, struct buf *ret)
{
    struct json j;
    json_init(&j, ret);
    json_open_object(&j);
    show_str(&j, "error", message);
    show_str(&j, "code", code);
    json_close_object(&j);
    (void)buf_append_char(ret, '\n');
}

unsigned bridge_write_error(const struct refusal *r, struct buf *ret)
{
    write_body(code_of(r), r->message, ret);
    return status_of(r);
}

void bridge_fail(struct call *call, unsigned status, const char *code, const char *fmt, ...)
{
    struct buf buf;
    char message[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    buf_init(&buf, SIZE_MAX / 2);
    write_body(code, message, &buf);
    call_reply(call, status, "application/json", &buf);
}

static void put_string(struct json *j, const char *key, bool is_code)
{
    json_key(j, key);
    json_open_object(j);
    show_str(j, "type", "string");
    if (is_code) {
        json_key(j, "enum");
        json_open_array(j);
        for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
            json_put_str(j, codes[i]);
        json_close_array(j);
    }
    json_close_object(j);
}

void bridge_put_error(struct json *j)
{
    json_open_object(j);
    show_str(j, "type", "object");
    json_key(j, "properties");
    json_open_object(j);
    put_string(j, "error", false);
    put_string(j, "code", true);
    json_close_object(j);
    json_close_object(j);
}
