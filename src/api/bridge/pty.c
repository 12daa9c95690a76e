// SPDX-License-Identifier: Apache-2.0
// A terminal as a WebSocket: the bytes from before, then {"type":"ready"}, then what comes (the
// native one, viewer.h). That of a session is there for whoever names it; one without a session is
// its connection's own, and ends with it.
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/bridge/bridge.h"
#include "api/terminal.h"
#include "edge/ws.h"

enum {
    REPLAY = 256 * 1024,
    RANDOM = 8,
    NAME_SIZE = 32,
};

// The header, or else ?session; NULL: none. 0, or -1 when it was refused and answered.
static int find_session(struct call *call, const char **ret)
{
    if (bridge_session(call, ret) < 0)
        return -1;
    const char *query = call_query(call, "session");
    if (*ret == NULL && query != NULL && query[0] != '\0')
        *ret = query;
    return bridge_session_valid(call, *ret);
}

static int check(struct call *call)
{
    const char *session;
    if (!ws_is_asked(call->req)) {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "this is a WebSocket: ask for one with 'Upgrade: websocket'");
        return -1;
    }
    if (terminal_check(call) < 0 || find_session(call, &session) < 0)
        return -1;
    return terminal_asking_new(call) != NULL ? 0 : -1;
}

// A name that nobody will come with.
static const char *make_name(struct call *call)
{
    uint8_t bytes[RANDOM];
    char hex[2 * RANDOM + 1], *name = malloc(NAME_SIZE);
    if (name == NULL)
        abort();
    randombytes_buf(bytes, sizeof bytes);
    (void)sodium_bin2hex(hex, sizeof hex, bytes, sizeof bytes);
    (void)snprintf(name, NAME_SIZE, "pty-%s", hex);
    body_keep(&call->body, name);
    return name;
}

static void handle_pty(struct call *call)
{
    struct terminal_asking *a = call->state;
    const char *session;
    if (find_session(call, &session) < 0 ||
        (session != NULL && terminal_make_session(call, session) < 0))
        return;
    a->request.name = session != NULL ? session : make_name(call);
    a->viewer.replay = REPLAY;
    a->viewer.ends = session == NULL;
    terminal_begin(call);
}

const struct route bridge_pty[] = {
    BRIDGE_ROUTE(
        HTTP_GET, "/sandbox/{id}/pty", 101, handle_pty, .flags = ROUTE_SANDBOX,
        .query = {{"cols", "Columns; 80 if not given"},
                  {"rows", "Rows; 24 if not given"},
                  {"shell", "A program's name or path; bash if not given"},
                  {"session", "As the Session-Id header. Without either the terminal ends "
                              "with the connection"}},
        .name = "ptyTerminal",
        .summary = "A terminal as a WebSocket: bytes in binary messages, {\"type\": "
                   "\"resize\", \"cols\", \"rows\"} in text",
        .answer = "What was there before, {\"type\": \"ready\"}, and what comes; in the end "
                  "{\"type\": \"exit\", \"code\"}",
        .type = "application/octet-stream", .headers = bridge_session_header, .check = check),
};
const size_t n_bridge_pty = sizeof bridge_pty / sizeof *bridge_pty;
