// SPDX-License-Identifier: Apache-2.0
#include "api/container/content.h"

#include <stdio.h>
#include <string.h>

#include "api/file-path.h"
#include "base/text.h"

static const struct {
    const char *type;
    const char *begins;
    size_t len;
} beginnings[] = {
    {"application/x-executable",
     "\x7f"
     "ELF",                                           4},
    {"image/png",                "\x89PNG\r\n\x1a\n", 8},
    {"image/jpeg",               "\xff\xd8\xff",      3},
    {"image/gif",                "GIF8",              4},
    {"application/pdf",          "%PDF-",             5},
    {"application/zip",          "PK\x03\x04",        4},
    {"application/gzip",         "\x1f\x8b",          2},
    {"application/zstd",         "\x28\xb5\x2f\xfd",  4},
    {"application/x-xz",
     "\xfd"
     "7zXZ",                                          5},
};

static bool is_text(const char *data, size_t len, bool is_all)
{
    size_t rest = is_all ? 0 : utf8_unfinished(data, len);
    return memchr(data, '\0', len) == NULL && utf8_valid(data, len - rest);
}

static const char *type_by_look(const char *data, size_t len, bool is_all)
{
    if (len == 0)
        return "inode/x-empty";
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        if (len >= beginnings[i].len && memcmp(data, beginnings[i].begins, beginnings[i].len) == 0)
            return beginnings[i].type;
    }
    return is_text(data, len, is_all) ? "text/plain" : "application/octet-stream";
}

static bool names_text(const char *type)
{
    return strncmp(type, "text/", 5) == 0 || strstr(type, "json") != NULL ||
           strstr(type, "xml") != NULL || strstr(type, "javascript") != NULL ||
           strcmp(type, "inode/x-empty") == 0;
}

struct content content_of(const char *path, const char *data, size_t len, bool is_all)
{
    struct content content = {0};
    const char *type = file_media_type(path);
    if (strcmp(type, "application/octet-stream") == 0)
        type = type_by_look(data, len, is_all);
    (void)snprintf(content.type, sizeof content.type, "%.*s", (int)strcspn(type, ";"), type);
    content.is_text = names_text(content.type);
    return content;
}
