// SPDX-License-Identifier: Apache-2.0
// `cay info ID`: everything about one sandbox.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/table.h"

static const struct opt opts[] = {REMOTE_OPTS};

static const struct opt_spec spec = {
    .usage = "cay info ID [flags]",
    .summary = "Shows what a sandbox is, may use and has used. Looking at it does not wake it.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
};

enum { LABEL_WIDTH = 14, DEPTH_MAX = 3 };

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

// The members that count bytes, wherever they stand.
static bool is_size(const char *key)
{
    static const char *const names[] = {"memory", "disk", "peakMemory"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(key, names[i]) == 0)
            return true;
    }
    return false;
}

static void print_value(const struct json_node *node)
{
    char text[24];
    auto_buf plain;
    buf_init(&plain, REMOTE_ERROR_MAX);
    if (is_size(node->key) && json_int(node, -1) >= 0)
        (void)fputs(text_size(text, sizeof text, (uint64_t)json_int(node, 0)), stdout);
    else if (json_is(node, JSON_NODE_STRING) && text_plain(&plain, node->text, node->text_len) == 0)
        (void)fputs(buf_str(&plain), stdout);
    else
        remote_print_node(node);
    if (ends_with(node->key, "At") && remote_age(node) >= 0)
        (void)printf(" (%s ago)", text_ago(text, sizeof text, remote_age(node)));
    (void)fputc('\n', stdout);
}

static void print_members(const struct json_node *object, int indent)
{
    for (const struct json_node *n = json_first(object); n != NULL; n = json_next(n)) {
        // What every answer has, and the id once more: for programs.
        if (strcmp(n->key, "success") == 0 || strcmp(n->key, "sandboxId") == 0)
            continue;
        auto_buf key;
        buf_init(&key, REMOTE_TARGET_MAX);
        (void)text_plain(&key, n->key, strlen(n->key));
        (void)printf("%*s%-*s ", indent * 2, "", LABEL_WIDTH, buf_str(&key));
        if (json_is(n, JSON_NODE_OBJECT) && n->n > 0 && indent < DEPTH_MAX) {
            (void)fputc('\n', stdout);
            print_members(n, indent + 1);
        } else if (json_is(n, JSON_NODE_NULL) || (json_is(n, JSON_NODE_OBJECT) && n->n == 0)) {
            (void)fputs("-\n", stdout);
        } else {
            print_value(n);
        }
    }
}

int cmd_info(int argc, char **argv)
{
    int code;
    auto_remote remote;
    const struct command_line line = {"info", &spec, NULL, NULL, 1, 1, "one ID"};
    if (remote_start(&remote, &line, argc, argv, &code) < 0)
        return code;
    struct err err;
    auto_answer answer;
    auto_buf target;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", remote.word[0]);
    if (remote_do(&remote, "GET", &target, NULL, &answer, &err) < 0)
        return remote_fail(&remote, &err);
    if (remote.json)
        return remote_print(&remote, &answer);
    print_members(answer_root(&answer), 0);
    return remote_flush(&remote);
}
