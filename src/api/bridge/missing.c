// SPDX-License-Identifier: Apache-2.0
// What theirs does and Cay does not: buckets that become directories, and tunnels. A request that
// makes no sense is told so first.
#include "api/bridge/bridge.h"
#include "base/text.h"

struct mount_body {
    const char *bucket, *binding, *path, *options;
};
#define AT(member) offsetof(struct mount_body, member)
static const struct field mount_fields[] = {
    FIELD("bucket", FIELD_STRING, AT(bucket), .max = 1024),
    FIELD("binding", FIELD_STRING, AT(binding), .max = 1024),
    FIELD("mountPath", FIELD_STRING, AT(path), .required = true, .max = FILE_PATH_MAX),
    FIELD("options", FIELD_JSON, AT(options), .required = true, .max = 64 * 1024),
};
static const struct field unmount_fields[] = {
    FIELD("mountPath", FIELD_STRING, AT(path), .required = true, .max = FILE_PATH_MAX),
};
static const struct schema mount_body =
    SCHEMA("BridgeMount", struct mount_body, mount_fields, .lenient = true);
static const struct schema unmount_body =
    SCHEMA("BridgeUnmount", struct mount_body, unmount_fields, .lenient = true);

struct tunnel_body {
    const char *name;
};
static const struct field tunnel_fields[] = {
    FIELD("name", FIELD_STRING, offsetof(struct tunnel_body, name), .max = 63),
};
static const struct schema tunnel_body =
    SCHEMA("BridgeTunnel", struct tunnel_body, tunnel_fields, .lenient = true);

static int check_mount(struct call *call)
{
    const struct mount_body *b = call->body.values;
    if (b->path[0] == '/')
        return 0;
    call_error(call, ERROR_INVALID_REQUEST, NULL, "mountPath: must be an absolute path");
    return -1;
}

static void handle_mount(struct call *call)
{
    bridge_fail(call, 501, "mount_error",
                "Cay mounts no buckets; copy what is needed with PUT /v1/sandbox/{id}/file/{path} "
                "or POST /v1/sandbox/{id}/hydrate, or let the sandbox fetch it itself");
}

static void handle_unmount(struct call *call)
{
    bridge_fail(call, 501, "unmount_error", "Cay mounts no buckets, so that there is none here");
}

static int check_port(struct call *call)
{
    struct err err = {0};
    uint64_t port;
    if (parse_u64(call->param[1], 1, 65535, &port, &err) == 0)
        return 0;
    (void)err_wrap(&err, "the port");
    call_fail(call, &err);
    return -1;
}

static void handle_tunnel(struct call *call)
{
    bridge_fail(call, 501, "tunnel_error",
                "Cay opens no tunnels; POST /sandbox/{id}/ports gives a port of the sandbox a URL "
                "of this server");
}

#define TUNNEL "/sandbox/{id}/tunnel/{port}"

const struct route bridge_missing[] = {
    BRIDGE_ROUTE(HTTP_POST, "/sandbox/{id}/mount", 501, handle_mount, .body = &mount_body,
                 .name = "mountBucket", .summary = "Not here: Cay mounts no buckets",
                 .answer = "Why not", .check = check_mount),
    BRIDGE_ROUTE(HTTP_POST, "/sandbox/{id}/unmount", 501, handle_unmount, .body = &unmount_body,
                 .name = "unmountBucket", .summary = "Not here: Cay mounts no buckets",
                 .answer = "Why not", .check = check_mount),
    BRIDGE_ROUTE(HTTP_POST, TUNNEL, 501, handle_tunnel, .body = &tunnel_body,
                 .name = "createTunnel", .summary = "Not here: Cay opens no tunnels",
                 .answer = "Why not", .check = check_port),
    BRIDGE_ROUTE(HTTP_DELETE, TUNNEL, 501, handle_tunnel, .name = "deleteTunnel",
                 .summary = "Not here: Cay opens no tunnels", .answer = "Why not",
                 .check = check_port),
};
const size_t n_bridge_missing = sizeof bridge_missing / sizeof *bridge_missing;
