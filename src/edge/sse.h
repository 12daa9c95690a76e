// SPDX-License-Identifier: Apache-2.0
// Server-sent events over a streamed answer: "id: ...\nevent: ...\ndata: ...\n\n". Data with line
// ends is sent as several data lines, as the format wants it; ids and event names never have any.
#pragma once

#include "edge/http.h"

void sse_begin(struct http_request *req); // 200, text/event-stream, no caching or buffering
// `id` and `event` may be NULL. `data` is one JSON value, or any text.
void sse_send(struct http_request *req, const char *id, const char *event, const char *data,
              size_t len);
// One that is too long to be written at once: begin, any number of pieces of its data, end. Line
// ends become spaces, which is the same in JSON. Nothing else may be sent in between.
void sse_long_begin(struct http_request *req, const char *id, const char *event);
void sse_long_data(struct http_request *req, const char *data, size_t len);
void sse_long_end(struct http_request *req);
void sse_comment(struct http_request *req); // ":\n\n", to keep a quiet connection open
