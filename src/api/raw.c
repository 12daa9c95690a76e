// SPDX-License-Identifier: Apache-2.0
// Which requests' bodies are left in the socket. It is asked before anything else is known of a
// request, so it only says who would read: whether the path makes sense, and who asks, is found out
// on the usual way.
#include <string.h>

#include "api/api-internal.h"
#include "api/family.h"
#include "api/preview.h"
#include "edge/limits.h"

// The part of "/sandbox/ID/..." behind the id. NULL for any other path.
static const char *behind_id(const char *target)
{
    static const char prefix[] = "/sandbox/";
    if (strncmp(target, prefix, sizeof prefix - 1) != 0)
        return NULL;
    return strchr(target + sizeof prefix - 1, '/');
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

bool api_is_raw(void *data, const struct http_peek *peek)
{
    const struct api *api = data;
    if (preview_is_host(api->previews, peek->host))
        return true;
    const char *rest;
    const struct family *family = family_of(peek->target, &rest);
    if (family != &family_native)
        return family->is_raw != NULL && family->is_raw(peek, rest);
    rest = behind_id(peek->target);
    if (rest == NULL)
        return false;
    if (strcmp(peek->method, "PUT") == 0 &&
        (begins(rest, "/files/") || begins(rest, "/archive") || begins(rest, "/stored/")))
        return peek->length > EDGE_SMALL_BODY;
    if (strcmp(peek->method, "POST") == 0 && begins(rest, "/import"))
        return peek->length > EDGE_SMALL_BODY;
    return preview_is_path(peek->target);
}
