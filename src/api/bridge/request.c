// SPDX-License-Identifier: Apache-2.0
// What requests of the bridge have in common.
#include <stdio.h>
#include <string.h>

#include "api/bridge/bridge.h"

void bridge_ok(struct call *call)
{
    struct buf buf;
    buf_init(&buf, 64);
    (void)buf_append_str(&buf, "{\"ok\":true}\n");
    call_reply(call, 200, "application/json", &buf);
}

// -- paths

// Appends one component to a path that has none yet where `ret` is "".
static int descend(char *ret, const char *name, size_t len)
{
    size_t at = strlen(ret);
    if (len > FILE_NAME_MAX || at + 1 + len > FILE_PATH_MAX)
        return -1;
    ret[at] = '/';
    memcpy(ret + at + 1, name, len);
    ret[at + 1 + len] = '\0';
    return 0;
}

static void ascend(char *ret)
{
    char *slash = strrchr(ret, '/');
    if (slash != NULL)
        *slash = '\0';
}

static bool is_inside(const char *path)
{
    size_t len = strlen(BRIDGE_WORKSPACE);
    return strncmp(path, BRIDGE_WORKSPACE, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

int bridge_path(const char *text, char ret[FILE_PATH_MAX + 1])
{
    (void)snprintf(ret, FILE_PATH_MAX + 1, "%s", text[0] == '/' ? "" : BRIDGE_WORKSPACE);
    while (*text != '\0') {
        size_t len = strcspn(text, "/");
        if (len == 2 && text[0] == '.' && text[1] == '.')
            ascend(ret);
        else if (len > 0 && !(len == 1 && text[0] == '.') && descend(ret, text, len) < 0)
            return -1;
        text += len + (text[len] == '/');
    }
    return is_inside(ret) ? 0 : -1;
}

// -- sessions

const struct query bridge_session_header[] = {
    {"Session-Id", "The session whose shell it is for; it is made on first use. Without one: none"},
    {NULL,         NULL                                                                           },
};

int bridge_session_valid(struct call *call, const char *name)
{
    if (name == NULL || sandbox_id_valid(name))
        return 0;
    call_error(call, ERROR_INVALID_REQUEST, NULL,
               "a session's id has 1 to %d letters, digits, '.', '_' and '-', with a letter or "
               "digit at both ends",
               EDGE_NAME_MAX);
    return -1;
}

int bridge_session(struct call *call, const char **ret)
{
    const char *name = http_header(call->req, "Session-Id");
    *ret = name != NULL && name[0] != '\0' ? name : NULL; // an empty one is none, as with theirs
    if (http_header_twice(call->req, "Session-Id")) {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "there is more than one Session-Id header");
        return -1;
    }
    return bridge_session_valid(call, *ret);
}

int bridge_check_session(struct call *call)
{
    const char *session;
    return bridge_session(call, &session);
}
