// SPDX-License-Identifier: Apache-2.0
#include "api/file-path.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

// -- paths

static int check_component(const char *name, size_t len, struct err *err)
{
    if (len == 0)
        return err_set(err, ERR_INVALID, "the path has '//', or '/' at its end");
    if ((len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.'))
        return err_set(err, ERR_INVALID, "the path has a '%.*s' component", (int)len, name);
    if (len > FILE_NAME_MAX)
        return err_set(err, ERR_INVALID, "a component of the path is longer than %d bytes",
                       FILE_NAME_MAX);
    return 0;
}

int file_path_check(const char *path, struct err *err)
{
    if (path[0] != '/')
        return err_set(err, ERR_INVALID, "the path must begin with '/'");
    if (strlen(path) > FILE_PATH_MAX)
        return err_set(err, ERR_INVALID, "the path is longer than %d bytes", FILE_PATH_MAX);
    if (path[1] == '\0')
        return 0;
    for (const char *p = path + 1;; p++) {
        size_t len = strcspn(p, "/");
        if (check_component(p, len, err) < 0)
            return -1;
        p += len;
        if (*p == '\0')
            return 0;
    }
}

int file_path_of_param(const char *param, char ret[FILE_PATH_MAX + 1], struct err *err)
{
    int n = snprintf(ret, FILE_PATH_MAX + 1, "/%s", param != NULL ? param : "");
    if (n > FILE_PATH_MAX)
        return err_set(err, ERR_INVALID, "the path is longer than %d bytes", FILE_PATH_MAX);
    return file_path_check(ret, err);
}

const char *file_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

void file_path_join(struct buf *ret, const char *dir, const char *relative)
{
    (void)buf_append_str(ret, dir);
    if (*relative == '\0')
        return;
    if (dir[0] != '\0' && dir[strlen(dir) - 1] != '/')
        (void)buf_append_char(ret, '/');
    (void)buf_append_str(ret, relative);
}

// -- modes

int file_mode_read(const char *text, uint32_t *ret, struct err *err)
{
    uint32_t mode = 0;
    size_t n = strspn(text, "01234567");
    if (n == 0 || n > 7 || text[n] != '\0')
        return err_set(err, ERR_INVALID, "'%.20s' is not an octal mode such as 0644", text);
    for (size_t i = 0; i < n; i++)
        mode = mode * 8 + (uint32_t)(text[i] - '0');
    if (mode > FILE_MODE_MAX)
        return err_set(
            err, ERR_INVALID,
            "mode '%.20s' is above 0777: setuid, setgid and sticky bits are not set here", text);
    *ret = mode;
    return 0;
}

// -- media types

static const struct {
    const char *ending;
    const char *type;
} types[] = {
    {"txt",   "text/plain; charset=utf-8"     },
    {"log",   "text/plain; charset=utf-8"     },
    {"md",    "text/markdown; charset=utf-8"  },
    {"csv",   "text/csv; charset=utf-8"       },
    {"html",  "text/html; charset=utf-8"      },
    {"htm",   "text/html; charset=utf-8"      },
    {"css",   "text/css; charset=utf-8"       },
    {"js",    "text/javascript; charset=utf-8"},
    {"mjs",   "text/javascript; charset=utf-8"},
    {"c",     "text/plain; charset=utf-8"     },
    {"h",     "text/plain; charset=utf-8"     },
    {"py",    "text/plain; charset=utf-8"     },
    {"sh",    "text/plain; charset=utf-8"     },
    {"ts",    "text/plain; charset=utf-8"     },
    {"rs",    "text/plain; charset=utf-8"     },
    {"go",    "text/plain; charset=utf-8"     },
    {"java",  "text/plain; charset=utf-8"     },
    {"yaml",  "text/plain; charset=utf-8"     },
    {"yml",   "text/plain; charset=utf-8"     },
    {"toml",  "text/plain; charset=utf-8"     },
    {"ini",   "text/plain; charset=utf-8"     },
    {"json",  "application/json"              },
    {"ipynb", "application/json"              },
    {"xml",   "application/xml"               },
    {"pdf",   "application/pdf"               },
    {"wasm",  "application/wasm"              },
    {"zip",   "application/zip"               },
    {"gz",    "application/gzip"              },
    {"tar",   "application/x-tar"             },
    {"png",   "image/png"                     },
    {"jpg",   "image/jpeg"                    },
    {"jpeg",  "image/jpeg"                    },
    {"gif",   "image/gif"                     },
    {"webp",  "image/webp"                    },
    {"svg",   "image/svg+xml"                 },
    {"ico",   "image/x-icon"                  },
    {"mp3",   "audio/mpeg"                    },
    {"wav",   "audio/wav"                     },
    {"mp4",   "video/mp4"                     },
    {"webm",  "video/webm"                    },
    {"woff2", "font/woff2"                    },
};

const char *file_media_type(const char *path)
{
    const char *dot = strrchr(file_base_name(path), '.');
    for (size_t i = 0; dot != NULL && i < sizeof types / sizeof *types; i++) {
        if (strcasecmp(dot + 1, types[i].ending) == 0)
            return types[i].type;
    }
    return "application/octet-stream";
}

// -- marks

void file_mark_write(struct buf *ret, const char *path)
{
    if (path[0] != '~' && utf8_valid(path, strlen(path))) {
        (void)buf_append_str(ret, path);
        return;
    }
    (void)buf_append_char(ret, '~');
    for (const char *p = path; *p != '\0'; p++)
        (void)buf_printf(ret, "%02x", (unsigned)(unsigned char)*p);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int file_mark_read(const char *mark, struct buf *ret, struct err *err)
{
    if (strlen(mark) > 2 * (size_t)FILE_PATH_MAX)
        return err_set(err, ERR_INVALID, "is longer than any path");
    if (mark[0] != '~')
        return buf_append_str(ret, mark) < 0 ? err_set(err, ERR_INVALID, "is longer than any path")
                                             : 0;
    for (const char *p = mark + 1; *p != '\0'; p += 2) {
        int high = hex_digit(p[0]);
        int low = high < 0 ? -1 : hex_digit(p[1]);
        if (low < 0 || high * 16 + low == 0 || buf_append_char(ret, (char)(high * 16 + low)) < 0)
            return err_set(err, ERR_INVALID, "is not the `next` of a page");
    }
    return 0;
}
