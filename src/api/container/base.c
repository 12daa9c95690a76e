// SPDX-License-Identifier: Apache-2.0
// Whether it is there, and which version it is.
#include "api/container/container.h"
#include "api/show.h"

// Theirs asks for this to see whether the container has started. Any answer does.
static void handle_root(struct call *call)
{
    struct buf buf;
    buf_init(&buf, 256);
    (void)buf_printf(&buf, "Cay %s: a sandbox that speaks the container protocol\n", CAY_VERSION);
    call_reply(call, 200, "text/plain", &buf);
}

static void handle_ping(struct call *call)
{
    struct container_answer a;
    container_begin(&a, true);
    show_str(&a.json, "status", "healthy");
    show_str(&a.json, "message", "pong");
    container_end(call, &a);
}

static void handle_version(struct call *call)
{
    struct container_answer a;
    container_begin(&a, true);
    show_str(&a.json, "version", CONTAINER_VERSION);
    show_str(&a.json, "cay", CAY_VERSION);
    container_end(call, &a);
}

const struct route container_base[] = {
    CONTAINER_ROUTE(HTTP_GET, "", SUBJECT_NONE, handle_root),
    CONTAINER_ROUTE(HTTP_GET, "/api/ping", SUBJECT_NONE, handle_ping),
    CONTAINER_ROUTE(HTTP_GET, "/api/version", SUBJECT_NONE, handle_version),
};
const size_t n_container_base = sizeof container_base / sizeof *container_base;
