// SPDX-License-Identifier: Apache-2.0
#include "cli/output.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cli.h"

// A reader that has gone (`| head`) ends us as it would end any filter.
static int write_out(int fd, const void *bytes, size_t len, struct err *err)
{
    int r = fd_write_all(fd, bytes, len);
    if (r == -EPIPE) {
        (void)signal(SIGPIPE, SIG_DFL);
        (void)raise(SIGPIPE);
    }
    return r < 0 ? err_sys(err, -r, "pass on what it wrote") : 0;
}

static int take_bytes(int fd, const struct json_node *node, struct err *err)
{
    const struct json_node *data = json_get(node, "data");
    const char *encoding = json_text(json_get(node, "encoding"));
    if (!json_is(data, JSON_NODE_STRING))
        return err_set(err, ERR_INTERNAL, "the server sent an event without data");
    if (encoding == NULL)
        return write_out(fd, data->text, data->text_len, err);
    auto_buf bytes;
    buf_init(&bytes, EVENT_MAX);
    if (strcmp(encoding, "base64") != 0 || base64_decode(&bytes, data->text, data->text_len) < 0)
        return err_set(err, ERR_INTERNAL, "the server sent bytes that cannot be decoded");
    return write_out(fd, buf_str(&bytes), bytes.len, err);
}

static void say_gap(const struct json_node *node)
{
    const char *stream = json_text(json_get(node, "stream"));
    int64_t from = json_int(json_get(node, "from"), 0), to = json_int(json_get(node, "to"), 0);
    bool is_out = stream != NULL && strcmp(stream, "stdout") == 0;
    (void)fprintf(stderr, "cay: %" PRId64 " bytes of %s, from %" PRId64 ", are no longer kept\n",
                  to - from, is_out ? "stdout" : "stderr", from);
}

int output_exit_code(const struct json_node *node)
{
    int64_t code = json_int(json_get(node, "exitCode"), -1);
    return code >= 0 && code <= 255 ? (int)code : CLI_FAILED;
}

static void copy_text(char *ret, size_t size, const struct json_node *node)
{
    const char *text = json_text(node);
    if (text != NULL && strlen(text) < size)
        (void)snprintf(ret, size, "%s", text);
}

int output_event(struct output *output, const struct event *event, struct err *err)
{
    auto_json_doc *doc = NULL;
    if (json_read(event->data, event->len, &doc, err) < 0)
        return err_wrap(err, "the server sent an event that is no JSON");
    const struct json_node *root = json_root(doc);
    copy_text(output->process, sizeof output->process, json_get(root, "processId"));
    if (strcmp(event->name, "stdout") == 0)
        return take_bytes(output->out, root, err);
    if (strcmp(event->name, "stderr") == 0)
        return take_bytes(output->err, root, err);
    if (strcmp(event->name, "gap") == 0)
        say_gap(root);
    if (strcmp(event->name, "exit") == 0) {
        output->has_exit = true;
        output->exit_code = output_exit_code(root);
        copy_text(output->reason, sizeof output->reason, json_get(root, "reason"));
    }
    return 0; // "start", and what a newer server may tell
}

void output_explain(const char *reason)
{
    static const struct {
        const char *reason, *text;
    } table[] = {
        {"timeout",  "ended after its time was up (--timeout)"        },
        {"oom",      "ended: it wanted more than the sandbox's memory"},
        {"box_lost", "the box was lost while the command ran"         },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].reason, reason) == 0)
            (void)fprintf(stderr, "cay: %s\n", table[i].text);
    }
}
