// SPDX-License-Identifier: Apache-2.0
// What programs there are in the box: the names in its PATH.
#include <stdlib.h>
#include <string.h>

#include "api/container/exec.h"
#include "api/show.h"

enum { LOOK_MS = 30000 };

static const char script[] = "IFS=:; for d in $PATH; do for f in \"$d\"/*; do"
                             " [ -f \"$f\" ] && [ -x \"$f\" ] && echo \"${f##*/}\"; done; done"
                             " | sort -u";

static void show_names(struct json *j, struct buf *names)
{
    int64_t n = 0;
    (void)buf_append_char(names, '\0');
    char *rest = names->data;
    json_key(j, "availableCommands");
    json_open_array(j);
    for (char *name; (name = strsep(&rest, "\n")) != NULL;) {
        if (*name == '\0')
            continue;
        json_put_str(j, name);
        n++;
    }
    json_close_array(j);
    show_int(j, "count", n);
}

static void on_names(struct call *call, const struct perform_end *end)
{
    struct container_answer a;
    if (end->result == NULL) {
        call_fail(call, end->err);
    } else if (end->result->end.reason == END_BOX_LOST) {
        container_unavailable(call, "box_lost", "the sandbox's box has ended: ask again");
    } else if (end->result->end.reason != END_EXIT) {
        container_fail(call, CONTAINER_COMMAND_EXECUTION_ERROR, NULL,
                       "looking for programs took more than %d s", LOOK_MS / 1000);
    } else {
        container_begin(&a, true);
        show_names(&a.json, end->result->out);
        container_end(call, &a);
    }
}

void container_commands(struct call *call)
{
    struct command_body *b = calloc(1, sizeof *b);
    if (b == NULL)
        abort();
    b->command = script;
    b->timeout = (struct body_int){.value = LOOK_MS, .given = true};
    call->body.values = b; // freed with the body
    perform_prepare(call, &(struct perform_request){.ended = on_names});
    perform_begin(call);
}
