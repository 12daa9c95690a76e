// SPDX-License-Identifier: Apache-2.0
// The bytes of one event, for tests; and what streams of events ask of the server beyond http.h.
#pragma once

#include "base/buf.h"
#include "edge/http.h"
#include "edge/limits.h"

int sse_format(struct buf *buf, const char *id, const char *event, const char *data, size_t len);

// Bytes (they live for ever) that a reader ignores: sent when the other side has closed its
// sending half, because a reader that has left answers them with a reset.
void http_stream_probe(struct http_request *req, const char *text);
