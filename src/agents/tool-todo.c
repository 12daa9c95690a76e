// SPDX-License-Identifier: Apache-2.0
// The list of what is to be done. It is the model's own: nothing is done with it but to keep it.
#include <string.h>

#include "agents/talk-internal.h"
#include "agents/tool.h"
#include "base/json.h"
#include "base/show.h"

enum { TODOS_MAX = 200, TODOS_BYTES_MAX = 64 * 1024 };

static const char *const statuses[] = {"pending", "in_progress", "completed"};
enum { N_STATUSES = sizeof statuses / sizeof *statuses };

static int status_of(const struct json_node *todo)
{
    const char *text = json_text(json_get(todo, "status"));
    for (int i = 0; text != NULL && i < N_STATUSES; i++) {
        if (strcmp(text, statuses[i]) == 0)
            return i;
    }
    return -1;
}

// 0, or -1 when it was refused.
static int add(struct tool_call *call, struct json *j, const struct json_node *todo,
               unsigned count[N_STATUSES])
{
    const char *content = json_text(json_get(todo, "content"));
    int status = status_of(todo);
    if (content == NULL || status < 0) {
        tool_fail(call, "todos: each must have a 'content' and a 'status' that is \"pending\", "
                        "\"in_progress\" or \"completed\"");
        return -1;
    }
    json_open_object(j);
    show_str(j, "content", content);
    show_str(j, "status", statuses[status]);
    if (json_text(json_get(todo, "activeForm")) != NULL)
        show_str(j, "activeForm", json_text(json_get(todo, "activeForm")));
    json_close_object(j);
    count[status]++;
    return 0;
}

void tool_todo(struct tool_call *call)
{
    const struct json_node *todos = json_get(call->input, "todos");
    unsigned count[N_STATUSES] = {0};
    struct json j;
    auto_buf list;
    if (!json_is(todos, JSON_NODE_ARRAY) || todos->n > TODOS_MAX) {
        tool_fail(call, "todos: must be an array of at most %d tasks", TODOS_MAX);
        return;
    }
    buf_init(&list, TODOS_BYTES_MAX);
    json_init(&j, &list);
    json_open_array(&j);
    for (const struct json_node *t = json_first(todos); t != NULL; t = json_next(t)) {
        if (add(call, &j, t, count) < 0)
            return;
    }
    json_close_array(&j);
    if (json_finish(&j) < 0) {
        tool_fail(call, "todos: are longer than %d bytes in all", TODOS_BYTES_MAX);
        return;
    }
    buf_reset(&call->talk->todos);
    (void)buf_append(&call->talk->todos, list.data, list.len);
    (void)buf_printf(&call->output, "The list is kept: %u pending, %u in progress, %u completed.",
                     count[0], count[1], count[2]);
    tool_done(call, /* is_error */ false);
}
