// SPDX-License-Identifier: Apache-2.0
// Everything that the bridge family has, file by file.
#include <string.h>

#include "api/bridge/bridge.h"
#include "api/bridge/error.h"

static const struct route_table tables[] = {
    ROUTE_TABLE(bridge_sandbox),  ROUTE_TABLE(bridge_exec),
    ROUTE_TABLE(bridge_files),    ROUTE_TABLE(bridge_archive),
    ROUTE_TABLE(bridge_sessions), ROUTE_TABLE(bridge_pty),
    ROUTE_TABLE(bridge_missing),  ROUTE_TABLE(bridge_pool),
    ROUTE_TABLE(bridge_about),    ROUTE_TABLE_END,
};

// Files and archives: "/sandbox/ID/file/..." and "/sandbox/ID/hydrate".
static bool is_raw(const struct http_peek *peek, const char *rest)
{
    static const char begin[] = "/sandbox/";
    if (peek->length <= EDGE_SMALL_BODY || strncmp(rest, begin, sizeof begin - 1) != 0)
        return false;
    rest = strchr(rest + sizeof begin - 1, '/');
    if (rest == NULL)
        return false;
    if (strcmp(peek->method, "PUT") == 0)
        return strncmp(rest, "/file/", strlen("/file/")) == 0;
    return strcmp(peek->method, "POST") == 0 && strncmp(rest, "/hydrate", strlen("/hydrate")) == 0;
}

const struct family family_bridge = {
    .name = "bridge",
    .tables = tables,
    .write_error = bridge_write_error,
    .is_raw = is_raw,
    .creates = true,
    .lenient = true,
};
