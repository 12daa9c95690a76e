// SPDX-License-Identifier: Apache-2.0
#include "api/web.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    NAME_MAX_LEN = 64,
    DEFAULT_PORT = 80,
    ORIGIN_MAX = 512, // it is sent back, among headers of which there is not much room
};

// --- whom it is meant for

static bool is_loopback_name(const char *name)
{
    struct in_addr v4;
    if (strcasecmp(name, "localhost") == 0 || strcmp(name, "[::1]") == 0)
        return true;
    return inet_pton(AF_INET, name, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

bool web_host_is_ours(const char *host, uint16_t port)
{
    char name[NAME_MAX_LEN], suffix[8];
    if (host == NULL || strlen(host) >= sizeof name)
        return false;
    (void)snprintf(name, sizeof name, "%s", host);
    (void)snprintf(suffix, sizeof suffix, ":%u", port);
    size_t len = strlen(name), n = strlen(suffix);
    if (len > n && strcmp(name + len - n, suffix) == 0)
        name[len - n] = '\0';
    else if (port != DEFAULT_PORT)
        return false;
    return is_loopback_name(name);
}

// --- who sends it

bool web_origin_is_listed(const char *list, const char *origin)
{
    size_t len = strlen(origin);
    for (const char *p = list; *p != '\0';) {
        p += strspn(p, ", ");
        size_t n = strcspn(p, ", ");
        if ((n == 1 && *p == '*') || (n == len && strncmp(p, origin, n) == 0))
            return true;
        p += n;
    }
    return false;
}

// An origin that is the very one this request goes to. Previews have others: what is in a sandbox
// is nobody to trust.
static bool is_same_origin(const char *origin, const char *host)
{
    static const char scheme[] = "http://";
    size_t n = sizeof scheme - 1;
    return strncasecmp(origin, scheme, n) == 0 && strcasecmp(origin + n, host) == 0;
}

bool web_page_is_ours(const char *origin, const char *site, const char *host, const char *cors)
{
    // "null" is the origin of pages that must not have one, ours with files of sandboxes too.
    if (origin != NULL && strcmp(origin, "null") == 0)
        return false;
    if (origin != NULL)
        return is_same_origin(origin, host) || web_origin_is_listed(cors, origin);
    // Pictures, scripts and links of other pages come without one. "none": somebody has typed it.
    return site == NULL || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0;
}

// --- requests

const char *web_listed_origin(const struct http_request *req, const char *list)
{
    const char *origin = http_header(req, "Origin");
    if (origin == NULL || strlen(origin) > ORIGIN_MAX || http_header_twice(req, "Origin"))
        return NULL;
    return web_origin_is_listed(list, origin) ? origin : NULL;
}

bool web_is_for_us(const struct http_request *req, uint16_t port)
{
    return web_host_is_ours(http_header(req, "Host"), port) && !http_header_twice(req, "Host");
}

bool web_is_from_us(const struct http_request *req, const char *cors)
{
    const char *host = http_header(req, "Host");
    if (host == NULL || http_header_twice(req, "Origin") ||
        http_header_twice(req, "Sec-Fetch-Site"))
        return false;
    return web_page_is_ours(http_header(req, "Origin"), http_header(req, "Sec-Fetch-Site"), host,
                            cors);
}
