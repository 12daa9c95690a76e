// SPDX-License-Identifier: Apache-2.0
// What the files of previews share: preview.c has the connections, preview-door.c finds out who may
// come in.
#pragma once

#include <stdbool.h>
#include <sys/queue.h>

#include "api/preview.h"
#include "base/buf.h"
#include "base/err.h"
#include "edge/error.h"

struct preview;
struct sandbox;
TAILQ_HEAD(preview_list, preview);

struct previews {
    struct api *api;
    struct preview_where where;
    struct preview_list list;
    unsigned n;
    bool draining;
};

// Somebody who may come in.
struct preview_visit {
    struct http_request *req;
    struct sandbox *s;
    uint16_t port;
    bool opencode;       // what listens there is OpenCode, which is started on first use
    const char *prefix;  // by path: what is cut off the target; NULL: by host
    struct token *token; // the API's, that let him in; NULL: the port's did
    const char *origin;  // of a page that may read the answer, by the API's word; or NULL
};

// Takes the request's connection. -1 and err: it is still there to be answered.
int preview_start(struct previews *previews, const struct preview_visit *visit, struct err *err);

// --- answers that a preview gives itself

enum { PREVIEW_ID_MAX = 48 };
void preview_make_id(struct api *api, char ret[PREVIEW_ID_MAX]); // of a request

struct preview_error {
    enum error_kind kind;
    const char *message;
    const char *id;  // of the request
    bool wants_html; // a person looks at it
};

// Appends the body; its media type.
const char *preview_write_error(const struct preview_error *error, struct buf *ret);
// What went wrong with the box, as an error for `message` (of `size` bytes).
enum error_kind preview_error_of(const struct err *err, uint16_t port, char *message, size_t size);
