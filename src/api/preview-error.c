// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "api/api-internal.h"
#include "api/preview-internal.h"

void preview_make_id(struct api *api, char ret[PREVIEW_ID_MAX])
{
    (void)snprintf(ret, PREVIEW_ID_MAX, "%s-%" PRIx64, api->id_prefix, api->requests++);
}

static void append_escaped(struct buf *ret, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            (void)buf_append_str(ret, "&amp;");
            break;
        case '<':
            (void)buf_append_str(ret, "&lt;");
            break;
        case '>':
            (void)buf_append_str(ret, "&gt;");
            break;
        default:
            (void)buf_append_char(ret, *text);
            break;
        }
    }
}

static void write_page(const struct preview_error *error, struct buf *ret)
{
    unsigned status = error_status(error->kind);
    const char *name = error_name(error->kind);
    (void)buf_printf(ret,
                     "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                     "<title>%u %s</title></head>\n"
                     "<body style=\"font-family: sans-serif; margin: 4em auto; max-width: 40em\">"
                     "<h1>%u %s</h1>\n<p>",
                     status, name, status, name);
    append_escaped(ret, error->message);
    (void)buf_append_str(ret, "</p>\n<p><small>");
    append_escaped(ret, error->id);
    (void)buf_append_str(ret, "</small></p></body></html>\n");
}

const char *preview_write_error(const struct preview_error *error, struct buf *ret)
{
    if (error->wants_html) {
        write_page(error, ret);
        return "text/html; charset=utf-8";
    }
    error_write(ret, error->kind, error->message, error->id, NULL);
    return "application/json";
}

enum error_kind preview_error_of(const struct err *err, uint16_t port, char *message, size_t size)
{
    if (err->sys_errno == ECONNREFUSED) {
        (void)snprintf(message, size,
                       "nobody listens on port %u in this sandbox: start a server there, on "
                       "127.0.0.1 or 0.0.0.0, and try again",
                       port);
        return ERROR_BAD_GATEWAY;
    }
    if (err->code == ERR_INTERNAL) { // for the log
        (void)snprintf(message, size, "something went wrong inside Cay");
        return ERROR_INTERNAL;
    }
    (void)snprintf(message, size, "%s", err->msg);
    return error_of(err->code);
}
