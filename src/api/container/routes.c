// SPDX-License-Identifier: Apache-2.0
// Everything that the container family has, file by file.
#include "api/container/container.h"
#include "api/container/error.h"
#include "api/container/write.h"

// clang-format off: one a line
static const struct route_table tables[] = {
    ROUTE_TABLE(container_base),
    ROUTE_TABLE(container_files_read),
    ROUTE_TABLE(container_files_write),
    ROUTE_TABLE(container_files_list),
    ROUTE_TABLE(container_files_ops),
    ROUTE_TABLE(container_watch),
    ROUTE_TABLE(container_watch_check),
    ROUTE_TABLE(container_sessions),
    ROUTE_TABLE(container_exec),
    ROUTE_TABLE(container_processes),
    ROUTE_TABLE(container_port_watch),
    ROUTE_TABLE(container_terminal),
    ROUTE_TABLE(container_git),
    ROUTE_TABLE(container_contexts),
    ROUTE_TABLE(container_code),
    ROUTE_TABLE(container_backup),
    ROUTE_TABLE_END,
};
// clang-format on

const struct family family_container = {
    .name = "container",
    .tables = tables,
    .write_error = container_write_error,
    .is_raw = container_is_raw,
    .creates = true,
    .lenient = true,
};
