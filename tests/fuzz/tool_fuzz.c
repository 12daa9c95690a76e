// SPDX-License-Identifier: Apache-2.0
// What a model says to a tool, and what a file has in it: any bytes. A path that was taken is in
// its one form; lines do not depend on how the text was cut; what is cut is short, and text stays
// text.
#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "agents/lines.h"
#include "agents/tool.h"
#include "base/text.h"

void tool_fail(struct tool_call *call, const char *fmt, ...)
{
    (void)call;
    (void)fmt;
}

static void try_path(const char *text)
{
    char once[TOOL_PATH_MAX], twice[TOOL_PATH_MAX];
    struct err err = {0};
    if (tool_path_clean(text, once, &err) < 0)
        return;
    assert(once[0] == '/' && strstr(once, "//") == NULL);
    assert(strstr(once, "/../") == NULL && strstr(once, "/./") == NULL);
    assert(tool_path_clean(once, twice, &err) == 0 && strcmp(once, twice) == 0);
}

static void try_input(const char *data, size_t len)
{
    struct err err = {0};
    auto_json_doc *doc = NULL;
    const char *text;
    size_t text_len;
    int64_t n;
    bool b;
    char path[TOOL_PATH_MAX];
    if (json_read(data, len, &doc, &err) < 0)
        return;
    struct tool_call call = {.input = json_root(doc)};
    (void)tool_text(&call, "a", true, &text, &text_len);
    (void)tool_text(&call, "a", false, &text, NULL);
    if (tool_int(&call, "a", 5, 1, 10, &n) == 0)
        assert(n >= 1 && n <= 10);
    (void)tool_bool(&call, "a", false, &b);
    (void)tool_path(&call, "a", path);
}

static void read_lines(struct buf *out, const char *data, size_t len, size_t piece)
{
    struct lines l;
    lines_init(&l, out, 2, 3);
    bool more = true;
    for (size_t at = 0; at < len && more; at += piece)
        more = lines_feed(&l, data + at, len - at < piece ? len - at : piece);
    assert(out->failed == 0);
}

static void try_lines(const char *data, size_t len)
{
    auto_buf whole, pieces;
    if (memchr(data, '\0', len) != NULL) // how much of it is shown depends on where it is found
        return;
    buf_init(&whole, TOOL_OUTPUT_MAX);
    buf_init(&pieces, TOOL_OUTPUT_MAX);
    read_lines(&whole, data, len, len);
    read_lines(&pieces, data, len, 1 + len % 7);
    assert(strcmp(buf_str(&whole), buf_str(&pieces)) == 0);
}

static void try_cut(const char *data, size_t len)
{
    auto_buf text;
    buf_init(&text, 4 * TOOL_OUTPUT_MAX);
    for (size_t i = 0; i < 2000 && text.len + len <= text.max; i++)
        (void)buf_append(&text, data, len);
    bool is_text = utf8_valid(buf_str(&text), text.len);
    tool_cut(&text);
    assert(text.len < TOOL_OUTPUT_MAX + 100);
    assert(!is_text || utf8_valid(buf_str(&text), text.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_buf text;
    buf_init(&text, len + 1);
    (void)buf_append(&text, data, len);
    if (len == 0)
        return 0;
    try_path(buf_str(&text));
    try_input(text.data, text.len);
    try_lines(text.data, text.len);
    try_cut(text.data, text.len);
    return 0;
}
