// SPDX-License-Identifier: Apache-2.0
// Server-sent events as they arrive, cut anywhere (the HTML standard, 9.2.6: lines end with CR, LF
// or both). It keeps no bytes: the data of an event is handed on in pieces as they come, several
// data lines with a line end between them, and then its end is told. Names of events, ids and
// comments are passed over: the API says in the data of which type an event is.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum sse_state {
    SSE_FIELD, // the name of a field, up to its colon
    SSE_SPACE, // one space behind it does not count
    SSE_DATA,
    SSE_SKIP, // a line that does not matter, up to its end
};

struct sse {
    // Both answer whether to go on.
    bool (*piece)(void *data, const char *bytes, size_t len);
    bool (*end)(void *data);
    void *data;
    enum sse_state state;
    unsigned field_len, mark_len;
    bool is_field_data; // so far
    bool after_cr, has_data;
};

void sse_init(struct sse *sse, bool (*piece)(void *data, const char *bytes, size_t len),
              bool (*end)(void *data), void *data);
// False: it was told not to go on, and the rest was not looked at.
bool sse_feed(struct sse *sse, const char *bytes, size_t len);
