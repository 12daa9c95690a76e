// SPDX-License-Identifier: Apache-2.0
// The mirrors and proxies that this machine's own apt uses.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "box/image-steps.h"
#include "box/tool.h"

#define KEYRING "/usr/share/keyrings/debian-archive-keyring.gpg"

enum { SETTINGS_SIZE = 4096 };

static bool is_part_of(const char *release, const char *suite)
{
    size_t len = strlen(suite);
    if (strncmp(release, suite, len) != 0)
        return false;
    const char *rest = release + len;
    return rest[0] == '\0' || strcmp(rest, "-updates") == 0 || strcmp(rest, "-security") == 0 ||
           strcmp(rest, "/updates") == 0;
}

static bool is_debian_part(const char *component, const char *origin)
{
    // The origin is known once apt has fetched its lists; before that it is the name of the
    // question.
    if (origin[0] != '\0' && origin[0] != '$' && strcmp(origin, "Debian") != 0)
        return false;
    return strcmp(component, "main") == 0 || strcmp(component, "contrib") == 0 ||
           strncmp(component, "non-free", 8) == 0;
}

// apt leaves out user names and passwords in $(SITE).
unsigned apt_find_mirrors(const char *suite, unsigned max, struct buf *ret)
{
    static const char *const argv[] = {"apt-get",
                                       "indextargets",
                                       "--format",
                                       "$(SITE)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)",
                                       "Created-By: Packages",
                                       NULL};
    auto_buf out;
    buf_init(&out, 256 * 1024);
    if (tool_ask(argv, &out) != 0 || out.len == 0)
        return 0;
    const char *signed_by = access(KEYRING, R_OK) == 0 ? "[signed-by=" KEYRING "] " : "";
    unsigned n = 0;
    char *rest = NULL;
    for (char *line = strtok_r(out.data, "\n", &rest); line != NULL && n < max;
         line = strtok_r(NULL, "\n", &rest)) {
        char *fields[4] = {strsep(&line, "|"), strsep(&line, "|"), strsep(&line, "|"), line};
        if (fields[3] == NULL || strncmp(fields[0], "http", 4) != 0 ||
            strchr(fields[0], ' ') != NULL || !is_part_of(fields[1], suite) ||
            !is_debian_part(fields[2], fields[3]))
            continue;
        char entry[512];
        int len = snprintf(entry, sizeof entry, "deb %s%s %s %s", signed_by, fields[0], fields[1],
                           fields[2]);
        if (len < 0 || (size_t)len >= sizeof entry ||
            (ret->len > 0 && memmem(ret->data, ret->len, entry, (size_t)len + 1) != NULL))
            continue;
        if (buf_append(ret, entry, (size_t)len + 1) < 0)
            break;
        n++;
    }
    return n;
}

// A setting as `apt-config shell` prints it: NAME='value'.
static void take_setting(const char *text, const char *name, char *ret, size_t size)
{
    const char *at = strstr(text, name);
    if (at == NULL)
        return;
    at += strlen(name);
    size_t len = strcspn(at, "'\n");
    if (len == 0 || len >= size || strncmp(at, "DIRECT", len) == 0)
        return;
    memcpy(ret, at, len);
    ret[len] = '\0';
}

void apt_find_settings(struct apt_settings *ret)
{
    static const char *const argv[] = {"apt-config", "shell",
                                       "HP",         "Acquire::http::Proxy",
                                       "SP",         "Acquire::https::Proxy",
                                       "CV/b",       "Acquire::Check-Valid-Until",
                                       NULL};
    *ret = (struct apt_settings){.path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
    char http[256] = "", https[256] = "", check[16] = "";
    const char *value = getenv("http_proxy");
    (void)snprintf(http, sizeof http, "%s", value != NULL ? value : "");
    value = getenv("https_proxy");
    (void)snprintf(https, sizeof https, "%s", value != NULL ? value : "");
    auto_buf out;
    buf_init(&out, SETTINGS_SIZE);
    if (tool_ask(argv, &out) == 0) {
        take_setting(buf_str(&out), "HP='", http, sizeof http);
        take_setting(buf_str(&out), "SP='", https, sizeof https);
        take_setting(buf_str(&out), "CV='", check, sizeof check);
    }
    ret->old_lists = strcmp(check, "false") == 0;
    if (http[0] != '\0')
        (void)snprintf(ret->http_proxy, sizeof ret->http_proxy, "http_proxy=%s", http);
    if (https[0] != '\0')
        (void)snprintf(ret->https_proxy, sizeof ret->https_proxy, "https_proxy=%s", https);
}

void apt_environment(const struct apt_settings *settings, const char *ret[APT_ENV_MAX])
{
    unsigned n = 0;
    ret[n++] = settings->path;
    ret[n++] = "LC_ALL=C.UTF-8";
    ret[n++] = "HOME=/root";
    ret[n++] = "DEBIAN_FRONTEND=noninteractive";
    if (settings->http_proxy[0] != '\0')
        ret[n++] = settings->http_proxy;
    if (settings->https_proxy[0] != '\0')
        ret[n++] = settings->https_proxy;
    ret[n] = NULL;
}
