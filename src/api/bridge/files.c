// SPDX-License-Identifier: Apache-2.0
// Files in /workspace: their bytes, of any size, in the body and nothing else.
#include <strings.h>

#include "api/bridge/bridge.h"
#include "api/file-get.h"
#include "api/file-put.h"

// The path is checked as it is written. Links in the box lead where they lead there, and no
// further than the box.
static int check_path(struct call *call)
{
    char path[FILE_PATH_MAX + 1], plain[FILE_PATH_MAX + 1];
    struct err err = {0};
    if (bridge_check_session(call) < 0)
        return -1;
    if (file_path_of_param(call->param[1], path, &err) < 0) {
        call_fail(call, &err);
        return -1;
    }
    if (bridge_path(path, plain) == 0)
        return 0;
    bridge_fail(
        call, 403, "invalid_request",
        "'%.200s' is not in /workspace; a file's path is /v1/sandbox/{id}/file/workspace/...",
        path);
    return -1;
}

static int check_write(struct call *call)
{
    const char *encoding = http_header(call->req, "Content-Encoding");
    if (encoding == NULL || strcasecmp(encoding, "identity") == 0)
        return check_path(call);
    call_error(call, ERROR_UNSUPPORTED_MEDIA_TYPE, NULL,
               "Content-Encoding: the bytes are stored as they come; send them without it");
    return -1;
}

static void handle_read(struct call *call)
{
    file_get(call, &(struct file_get){.type = "application/octet-stream", .of_directory = ""});
}

static void on_put(struct call *call, struct hand_answer *answer, const struct err *err)
{
    (void)answer;
    if (err != NULL)
        files_fail(call, err);
    else
        bridge_ok(call);
}

static void start(struct call *call)
{
    const struct file_call *f = call->state;
    struct file_put put = {.path = f->path, .terms = {.flags = HAND_PARENTS}};
    if (!http_is_raw(call->req))
        put.data = http_body(call->req, &put.len);
    file_put(call, &put, on_put);
}

static void handle_write(struct call *call)
{
    if (files_new(call, sizeof(struct file_call)) != NULL)
        files_wake(call, start);
}

#define FILE_PATH "/sandbox/{id}/file/{path*}"

const struct route bridge_files[] = {
    BRIDGE_ROUTE(HTTP_GET, FILE_PATH, 200, handle_read, .flags = ROUTE_SANDBOX, .name = "readFile",
                 .summary = "A file's bytes, or a range of them; the path begins with workspace/",
                 .answer = "The bytes", .type = "application/octet-stream", .check = check_path,
                 .headers = bridge_session_header),
    BRIDGE_ROUTE(HTTP_PUT, FILE_PATH, 200, handle_write, .flags = ROUTE_SANDBOX | ROUTE_STREAM_BODY,
                 .name = "writeFile",
                 .summary = "Write a file, of any size: all of it, or nothing is changed. "
                            "Directories above it are made",
                 .answer = "It is written", .shape = &bridge_ok_shape, .check = check_write,
                 .headers = bridge_session_header),
};
const size_t n_bridge_files = sizeof bridge_files / sizeof *bridge_files;
