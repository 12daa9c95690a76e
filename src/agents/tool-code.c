// SPDX-License-Identifier: Apache-2.0
// Code in the default context of its language.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/tool.h"
#include "sandbox/context.h"

enum {
    TIMEOUT_MS = 120 * 1000,
    TIMEOUT_MAX_MS = 600 * 1000,
    OBJECT_MAX = 1024 * 1024, // of a representation that is looked into
};

struct code {
    struct cell *cell; // counted
    struct cell_follower *follower;
};

static void let_go(struct code *c)
{
    cell_follower_free(c->follower);
    cell_unref(c->cell);
    c->follower = NULL;
    c->cell = NULL;
}

static void cancel(struct tool_call *call)
{
    struct code *c = call->state;
    if (c == NULL || c->cell == NULL)
        return;
    struct cell *cell = cell_ref(c->cell);
    let_go(c);
    cell_cancel(cell);
    cell_unref(cell);
    tool_unref(call); // the follower's
}

// --- its answer

static void new_line(struct buf *to)
{
    if (to->len > 0 && to->data[to->len - 1] != '\n')
        (void)buf_append_char(to, '\n');
}

// What a value looks like as text, or at least what kinds of picture of it there are.
static void add_shown(struct buf *to, const struct cell_event *event)
{
    struct err ignored;
    auto_json_doc *doc = NULL;
    new_line(to);
    if (event->len > OBJECT_MAX || json_read(event->bytes, event->len, &doc, &ignored) < 0) {
        (void)buf_append_str(to, "[a value that is too large to be shown]\n");
        return;
    }
    const struct json_node *shown = json_root(doc);
    const struct json_node *text = json_get(shown, "text");
    if (json_is(text, JSON_NODE_STRING))
        (void)buf_append(to, text->text, text->text_len);
    for (const struct json_node *n = json_first(shown); n != NULL; n = json_next(n)) {
        if (strcmp(n->key, "text") != 0 && strcmp(n->key, "metadata") != 0)
            (void)buf_printf(to, "%s[%.40s]", to->len > 0 ? " " : "", n->key);
    }
    (void)buf_append_char(to, '\n');
}

static void add_error(struct buf *to, const struct cell_event *event)
{
    struct err ignored;
    auto_json_doc *doc = NULL;
    new_line(to);
    if (event->len > OBJECT_MAX || json_read(event->bytes, event->len, &doc, &ignored) < 0)
        return;
    const struct json_node *error = json_root(doc);
    const struct json_node *lines = json_get(error, "traceback");
    for (const struct json_node *n = json_first(lines); n != NULL; n = json_next(n)) {
        if (json_is(n, JSON_NODE_STRING))
            (void)buf_append(to, n->text, n->text_len);
        new_line(to);
    }
    const char *name = json_text(json_get(error, "name"));
    const char *message = json_text(json_get(error, "message"));
    if (json_first(lines) == NULL)
        (void)buf_printf(to, "%s: %s\n", name != NULL ? name : "Error",
                         message != NULL ? message : "");
}

static void add_events(struct buf *to, struct cell *cell)
{
    struct err ignored;
    struct cell_event event;
    for (uint64_t n = 0; cell_event(cell, n, &event, &ignored) > 0; n++) {
        switch (event.type) {
        case CELL_STDOUT:
        case CELL_STDERR:
            (void)buf_append(to, event.bytes, event.len);
            break;
        case CELL_RESULT:
        case CELL_DISPLAY:
            add_shown(to, &event);
            break;
        case CELL_ERROR:
            add_error(to, &event);
            break;
        case CELL_END:
            return;
        }
    }
}

static void answer(struct tool_call *call, struct cell *cell)
{
    const struct cell_end *end = cell_end(cell);
    add_events(&call->output, cell);
    if (!end->success && strcmp(end->reason, "error") != 0) {
        new_line(&call->output);
        (void)buf_printf(&call->output, "The code was ended: %s%s%s", end->reason,
                         end->err.code != ERR_NONE ? ": " : "",
                         end->err.code != ERR_NONE ? end->err.msg : "");
    }
    if (call->output.len == 0)
        (void)buf_append_str(&call->output, "(it printed nothing)");
    tool_done(call, !end->success);
}

// --- running it

static void on_news(void *data)
{
    struct tool_call *call = data;
    struct code *c = call->state;
    if (c->cell == NULL || !cell_has_ended(c->cell))
        return;
    struct cell *cell = cell_ref(c->cell);
    let_go(c);
    call->cancel = NULL;
    answer(call, cell);
    cell_unref(cell);
    tool_unref(call);
}

static void on_cell(void *data, struct cell *cell, const struct err *err)
{
    struct tool_call *call = data;
    struct code *c = call->state;
    if (tool_is_over(call)) {
        if (cell != NULL)
            cell_cancel(cell);
    } else if (cell == NULL) {
        tool_fail(call, "the code could not be run: %s", err->msg);
    } else if (cell_has_ended(cell)) {
        answer(call, cell);
    } else {
        c->cell = cell_ref(cell);
        c->follower = cell_follow(cell, on_news, tool_ref(call));
        call->cancel = cancel;
    }
    tool_unref(call);
}

static void list_languages(struct buf *ret)
{
    for (unsigned i = 0; i < n_languages; i++)
        (void)buf_printf(ret, "%s%s", i > 0 ? ", " : "", languages[i].name);
}

void tool_run_code(struct tool_call *call)
{
    struct cell_request request = {0};
    const char *language;
    if (tool_text(call, "code", /* required */ true, &request.code, NULL) < 0 ||
        tool_text(call, "language", /* required */ false, &language, NULL) < 0 ||
        tool_int(call, "timeout", TIMEOUT_MS, 1, TIMEOUT_MAX_MS, &request.timeout_ms) < 0)
        return;
    request.len = strlen(request.code);
    request.language = language_find(language != NULL ? language : "python");
    if (request.language == NULL) {
        auto_buf names;
        buf_init(&names, 1024);
        list_languages(&names);
        tool_fail(call, "language: there is no '%.40s'; there are %s", language, buf_str(&names));
        return;
    }
    if (request.len > CELL_CODE_MAX) {
        tool_fail(call, "code: is longer than %d bytes", CELL_CODE_MAX);
        return;
    }
    call->state = calloc(1, sizeof(struct code));
    if (call->state == NULL)
        abort();
    cell_run(call->sandbox, &request, on_cell, tool_ref(call));
}
