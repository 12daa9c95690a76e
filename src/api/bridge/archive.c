// SPDX-License-Identifier: Apache-2.0
// All of /workspace as a tar archive, out and in, of any size.
#include "api/archive.h"

#include <string.h>

#include "api/bridge/bridge.h"

// -- out

static int refuse(struct call *call, const char *why)
{
    call_error(call, ERROR_INVALID_REQUEST, NULL, "?excludes: %s", why);
    return -1;
}

// One of the list, as the archive's names are: without "./" before it and slashes behind.
static int add_exclude(struct call *call, const char *text, size_t len, struct buf *ret)
{
    while (len >= 2 && text[0] == '.' && text[1] == '/') {
        text += 2;
        len -= 2;
    }
    while (len > 0 && text[len - 1] == '/')
        len--;
    if (memmem(text, len, "..", 2) != NULL)
        return refuse(call, "a path must not have '..'");
    if (len > 0 && text[0] == '/')
        return refuse(call, "paths are relative to /workspace");
    if (len > 0 && ret->len > 0)
        (void)buf_append_char(ret, ',');
    (void)buf_append(ret, text, len);
    return ret->failed != 0 ? refuse(call, "the list is too long") : 0;
}

static int read_excludes(struct call *call, struct buf *ret)
{
    const char *text = call_query(call, "excludes");
    while (text != NULL && *text != '\0') {
        size_t len = strcspn(text, ",");
        if (add_exclude(call, text, len, ret) < 0)
            return -1;
        text += len + (text[len] == ',');
    }
    return 0;
}

static int check_persist(struct call *call)
{
    auto_buf excludes;
    buf_init(&excludes, EDGE_TARGET_MAX);
    if (!call->is_head)
        return read_excludes(call, &excludes);
    call_error(call, ERROR_INVALID_REQUEST, NULL,
               "an archive has no HEAD: it is made as it is sent");
    return -1;
}

static void handle_persist(struct call *call)
{
    auto_buf excludes;
    buf_init(&excludes, EDGE_TARGET_MAX);
    if (read_excludes(call, &excludes) < 0)
        return;
    archive_send(call, &(struct archive_out){
                           .path = BRIDGE_WORKSPACE,
                           .type = "application/octet-stream",
                           .flags = HAND_PLAIN,
                           .excludes = buf_str(&excludes),
                       });
}

// -- in

static void reply(struct call *call, const struct hand_ended *ended)
{
    (void)ended;
    bridge_ok(call);
}

static int check_hydrate(struct call *call)
{
    size_t len;
    if (http_is_raw(call->req))
        return 0;
    (void)http_body(call->req, &len);
    if (len > 0)
        return 0;
    call_error(call, ERROR_INVALID_REQUEST, NULL, "the body is to be a tar archive, and is empty");
    return -1;
}

static void handle_hydrate(struct call *call)
{
    archive_take(call, &(struct archive_in){.path = BRIDGE_WORKSPACE, .reply = reply});
}

// Some clients of theirs ask for it with GET.
#define EXCLUDES                                                                                   \
    {                                                                                              \
        "excludes", "Paths relative to /workspace, by commas, that are left out; * stands for "    \
                    "anything, slashes too"                                                        \
    }
#define PERSIST(http, operation)                                                                   \
    BRIDGE_ROUTE(http, "/sandbox/{id}/persist", 200, handle_persist, .flags = ROUTE_SANDBOX,       \
                 .query = {EXCLUDES}, .name = (operation),                                         \
                 .summary = "All of /workspace as a tar archive: directories, files, symbolic "    \
                            "links",                                                               \
                 .answer = "The archive. One whose connection ends early is not whole",            \
                 .type = "application/octet-stream", .check = check_persist)

const struct route bridge_archive[] = {
    PERSIST(HTTP_POST, "persistWorkspace"),
    PERSIST(HTTP_GET, "getWorkspace"),
    BRIDGE_ROUTE(HTTP_POST, "/sandbox/{id}/hydrate", 200, handle_hydrate,
                 .flags = ROUTE_SANDBOX | ROUTE_STREAM_BODY, .name = "hydrateWorkspace",
                 .summary = "Unpack a tar archive of any size into /workspace",
                 .answer = "All of it is there", .shape = &bridge_ok_shape, .check = check_hydrate),
};
const size_t n_bridge_archive = sizeof bridge_archive / sizeof *bridge_archive;
