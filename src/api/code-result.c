// SPDX-License-Identifier: Apache-2.0
// A cell that has ended, as one answer.
#include "api/code.h"
#include "api/show.h"
#include "sandbox/cell-whole.h"

enum {
    // What the streams may take as JSON, where a byte can become six: beyond it the answer is
    // truncated.
    TEXT_MAX = 2 * CELL_OUTPUT_MAX,
    OBJECTS_MAX = 2 * CELL_OUTPUT_MAX, // with what is put before each, however small they are
    RESULT_MAX = TEXT_MAX + 2 * OBJECTS_MAX + 6 * CELL_CODE_MAX + 1024 * 1024,
};

void code_show_end(struct json *j, const struct cell_end *end, bool truncated)
{
    show_bool(j, "success", end->success);
    show_str(j, "reason", end->reason);
    json_key(j, "executionCount");
    if (end->count > 0)
        json_put_uint(j, end->count);
    else
        json_put_null(j);
    show_ms(j, "duration", (double)(end->duration_ns / 1000) / 1000.0);
    if (truncated)
        show_bool(j, "truncated", true);
    if (end->context_died)
        show_bool(j, "contextDied", true);
    if (end->err.code != ERR_NONE)
        show_str(j, "message", end->err.msg);
}

// While much waits for readers, further answers are cut to what is small: the cell has run.
static void whole_init(struct cell_whole *w, const struct call *call)
{
    bool is_scarce = !call_has_room(call, TEXT_MAX);
    cell_whole_init(w, is_scarce ? CALL_SMALL : TEXT_MAX, is_scarce ? CALL_SMALL : OBJECTS_MAX);
}

// -- as JSON

static void show_stream(struct json *j, const char *key, const struct buf *text)
{
    json_key(j, key);
    json_open_array(j);
    if (text->len > 0)
        json_put_strn(j, text->data, text->len);
    json_close_array(j);
}

static void show_logs(struct json *j, const struct cell_whole *w)
{
    json_key(j, "logs");
    json_open_object(j);
    show_stream(j, "stdout", &w->out);
    show_stream(j, "stderr", &w->err);
    json_close_object(j);
}

static void show_results(struct json *j, const struct cell_whole *w)
{
    json_key(j, "results");
    json_open_array(j);
    if (w->results.len > 0)
        json_put_raw(j, w->results.data, w->results.len);
    json_close_array(j);
}

// What the cell said went wrong; else what was seen from outside.
static void show_error(struct json *j, const struct cell_whole *w, const struct cell_end *end)
{
    if (w->error.len == 0 && end->success)
        return;
    json_key(j, "error");
    if (w->error.len > 0) {
        json_put_raw(j, w->error.data, w->error.len);
        return;
    }
    json_open_object(j);
    show_str(j, "name", end->reason);
    show_str(j, "message", end->err.code != ERR_NONE ? end->err.msg : end->reason);
    show_raw(j, "traceback", "[]");
    show_raw(j, "lineNumber", NULL);
    json_close_object(j);
}

static void show_cell(struct json *j, struct cell *cell, const struct cell_whole *w)
{
    const char *code;
    size_t len;
    const struct cell_end *end = cell_end(cell);
    show_str(j, "id", cell_id(cell));
    show_str(j, "context", cell_context(cell));
    show_str(j, "language", cell_language(cell)->name);
    json_key(j, "code");
    cell_code(cell, &code, &len);
    json_put_strn(j, code, len);
    show_logs(j, w);
    show_results(j, w);
    show_error(j, w, end);
    code_show_end(j, end, end->truncated || w->is_cut);
}

void code_reply(struct call *call, struct cell *cell)
{
    struct buf buf;
    struct json j;
    struct cell_whole w;
    whole_init(&w, call);
    cell_whole_read(&w, cell);
    buf_init(&buf, RESULT_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_cell(&j, cell, &w);
    json_close_object(&j);
    cell_whole_done(&w);
    call_reply_json(call, 200, &j);
}
