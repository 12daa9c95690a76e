// SPDX-License-Identifier: Apache-2.0
// Small things that several commands want: words of the server, times, K=V settings, the same
// request for many sandboxes.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/table.h"

const char *remote_text(struct buf *buf, const struct json_node *node, const char *key)
{
    const struct json_node *member = json_get(node, key);
    buf_reset(buf);
    if (json_is(member, JSON_NODE_STRING))
        (void)text_plain(buf, member->text, member->text_len);
    else if (json_is(member, JSON_NODE_NUMBER))
        (void)buf_append_str(buf, member->text);
    else if (json_is(member, JSON_NODE_BOOL))
        (void)buf_append_str(buf, member->is_true ? "yes" : "no");
    return buf_str(buf);
}

void remote_scalar(struct buf *buf, const struct json_node *node)
{
    struct json j;
    json_init(&j, buf);
    if (json_is(node, JSON_NODE_STRING))
        json_put_strn(&j, node->text, node->text_len);
    else if (json_is(node, JSON_NODE_NUMBER))
        json_put_raw(&j, node->text, node->text_len);
    else if (json_is(node, JSON_NODE_BOOL))
        json_put_bool(&j, node->is_true);
    else
        json_put_null(&j);
}

// As deep as the reader lets a document be (JSON_READ_DEPTH_MAX).
static void write_node(struct buf *buf, const struct json_node *node)
{
    bool object = json_is(node, JSON_NODE_OBJECT), first = true;
    if (!object && !json_is(node, JSON_NODE_ARRAY)) {
        remote_scalar(buf, node);
        return;
    }
    (void)buf_append_char(buf, object ? '{' : '[');
    for (const struct json_node *n = json_first(node); n != NULL; n = json_next(n)) {
        struct json j;
        if (!first)
            (void)buf_append_char(buf, ',');
        first = false;
        if (object) {
            json_init(&j, buf);
            json_put_str(&j, n->key);
            (void)buf_append_char(buf, ':');
        }
        write_node(buf, n);
    }
    (void)buf_append_char(buf, object ? '}' : ']');
}

void remote_print_node(const struct json_node *node)
{
    auto_buf raw, text;
    buf_init(&raw, SIZE_MAX / 2);
    buf_init(&text, SIZE_MAX / 2);
    write_node(&raw, node);
    (void)text_plain_json(&text, buf_str(&raw), raw.len);
    (void)fwrite(buf_str(&text), 1, text.len, stdout);
}

int64_t remote_age(const struct json_node *node)
{
    const char *text = json_text(node);
    struct tm parts = {0};
    if (text == NULL || strptime(text, "%Y-%m-%dT%H:%M:%S", &parts) == NULL)
        return -1;
    time_t then = timegm(&parts), now = time(NULL);
    return now > then ? now - then : 0;
}

void remote_cell_ago(struct table *table, const struct json_node *when)
{
    char text[24];
    int64_t age = remote_age(when);
    if (age < 0)
        cli_table_cell(table, NULL);
    else
        cli_table_cellf(table, "%s ago", text_ago(text, sizeof text, age));
}

void remote_cell_size(struct table *table, const struct json_node *bytes)
{
    char text[24];
    int64_t n = json_int(bytes, -1);
    cli_table_cell(table, n >= 0 ? text_size(text, sizeof text, (uint64_t)n) : NULL);
}

int pairs_add(struct pairs *pairs, const char *setting, bool from_env, struct err *err)
{
    size_t len = strcspn(setting, "=");
    if (len == 0)
        return err_set(err, ERR_INVALID, "'%s' has no name before its '='", setting);
    if (len >= PAIR_NAME_MAX)
        return err_set(err, ERR_INVALID, "the name '%.40s...' is too long", setting);
    if (setting[len] == '\0') {
        const char *ours = from_env ? getenv(setting) : NULL;
        if (!from_env)
            return err_set(err, ERR_INVALID, "'%s' is not NAME=VALUE", setting);
        if (ours == NULL)
            return 0;
        setting = ours - len - 1; // "NAME=value" lies in our environment, just before the value
    }
    for (size_t i = 0; i < pairs->n; i++) {
        if (strncmp(pairs->setting[i], setting, len + 1) == 0) {
            pairs->setting[i] = setting;
            return 0;
        }
    }
    if (pairs->n == PAIRS_MAX)
        return err_set(err, ERR_INVALID, "more than %d of them", PAIRS_MAX);
    pairs->setting[pairs->n++] = setting;
    return 0;
}

void pairs_put(struct json *json, const char *key, const struct pairs *pairs)
{
    if (pairs->n == 0)
        return;
    json_key(json, key);
    json_open_object(json);
    for (size_t i = 0; i < pairs->n; i++) {
        char name[PAIR_NAME_MAX];
        const char *setting = pairs->setting[i], *equals = strchr(setting, '=');
        (void)snprintf(name, sizeof name, "%.*s", (int)(equals - setting), setting);
        json_key(json, name);
        json_put_str(json, equals + 1);
    }
    json_close_object(json);
}

static void page_target(struct buf *target, const char *label, const char *status,
                        const char *after)
{
    remote_target(target, "sandbox");
    if (label != NULL)
        remote_query(target, "label", label);
    if (status != NULL)
        remote_query(target, "status", status);
    remote_query(target, "limit", "1000");
    if (after[0] != '\0')
        remote_query(target, "after", after);
}

int remote_list(struct remote *remote, const char *label, const char *status, sandbox_node_fn fn,
                void *data, struct err *err)
{
    char after[256] = "";
    auto_answer answer;
    auto_buf target;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    do {
        page_target(&target, label, status, after);
        if (remote_do(remote, "GET", &target, NULL, &answer, err) < 0)
            return -1;
        const struct json_node *root = answer_root(&answer);
        const struct json_node *list = json_get(root, "sandboxes");
        for (const struct json_node *n = json_first(list); n != NULL; n = json_next(n)) {
            if (fn(data, n, err) != 0)
                return -1;
        }
        const char *next = json_text(json_get(root, "next"));
        // Pages go by id: one that does not come after the last would go round for ever.
        if (next != NULL && strcmp(next, after) <= 0)
            return err_set(err, ERR_INTERNAL, "the server's list does not come to an end");
        (void)snprintf(after, sizeof after, "%s", next != NULL ? next : "");
    } while (after[0] != '\0');
    return 0;
}

int remote_one(struct remote *remote, const char *method, const char *id, const char *action)
{
    struct err err;
    auto_answer answer;
    auto_buf target;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", id, action);
    if (remote_do(remote, method, &target, NULL, &answer, &err) < 0)
        return remote_fail(remote, &err);
    return remote->json ? remote_print(remote, &answer) : CLI_OK;
}

int remote_each(const struct command_line *line, const char *method, const char *action, int argc,
                char **argv)
{
    int code;
    auto_remote remote;
    if (remote_start(&remote, line, argc, argv, &code) < 0)
        return code;
    code = CLI_OK;
    for (size_t i = 0; i < remote.n_words; i++) {
        int one = remote_one(&remote, method, remote.word[i], action);
        code = one != CLI_OK ? one : code;
    }
    return code;
}
