// SPDX-License-Identifier: Apache-2.0
// A session's terminal as a WebSocket: the bytes from before, then {"type":"ready"}, then what
// comes. It is the native one (viewer.h), of the session's name; also their end is told.
#include "api/terminal.h"

#include "api/container/container.h"

enum { REPLAY = 256 * 1024 };

static void handle_pty(struct call *call)
{
    const char *session = call_query(call, "sessionId");
    if (terminal_check(call) < 0)
        return;
    if (session == NULL || !sandbox_id_valid(session)) {
        container_invalid(call, "sessionId",
                          "?sessionId must name the session whose terminal it "
                          "is, by letters, digits, '.', '_' and '-'");
        return;
    }
    struct terminal_asking *a = terminal_asking_new(call);
    if (a == NULL || terminal_make_session(call, session) < 0)
        return;
    a->request.name = session;
    a->viewer.replay = REPLAY;
    terminal_begin(call);
}

// The two transports besides HTTP, whose frames carry the same requests.
static void handle_transport(struct call *call)
{
    container_fail(call, CONTAINER_NOT_IMPLEMENTED, NULL,
                   "Cay speaks the HTTP transport alone: leave out `transport`, or set it to "
                   "\"http\"");
}

const struct route container_terminal[] = {
    CONTAINER_ROUTE(HTTP_GET, "/ws/pty", SUBJECT_SESSION, handle_pty),
    CONTAINER_ROUTE(HTTP_GET, "/ws", SUBJECT_NONE, handle_transport),
    CONTAINER_ROUTE(HTTP_GET, "/api/ws", SUBJECT_NONE, handle_transport),
    CONTAINER_ROUTE(HTTP_GET, "/rpc", SUBJECT_NONE, handle_transport),
};
const size_t n_container_terminal = sizeof container_terminal / sizeof *container_terminal;
