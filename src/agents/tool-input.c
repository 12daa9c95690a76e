// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <string.h>

#include "agents/tool.h"
#include "base/text.h"

enum { COMPONENT_MAX = 255 }; // bytes of one name in a path

// --- values

static const struct json_node *get(const struct tool_call *call, const char *key)
{
    const struct json_node *node = json_get(call->input, key);
    return json_is(node, JSON_NODE_NULL) ? NULL : node;
}

int tool_text(struct tool_call *call, const char *key, bool required, const char **ret,
              size_t *ret_len)
{
    const struct json_node *node = get(call, key);
    if (node == NULL && !required) {
        *ret = NULL;
        return 0;
    }
    if (!json_is(node, JSON_NODE_STRING)) {
        tool_fail(call, node == NULL ? "%s: is needed" : "%s: must be a string", key);
        return -1;
    }
    if (ret_len == NULL && strlen(node->text) != node->text_len) {
        tool_fail(call, "%s: must not contain NUL", key);
        return -1;
    }
    *ret = node->text;
    if (ret_len != NULL)
        *ret_len = node->text_len;
    return 0;
}

int tool_int(struct tool_call *call, const char *key, int64_t fallback, int64_t min, int64_t max,
             int64_t *ret)
{
    const struct json_node *node = get(call, key);
    int64_t value = node == NULL ? fallback : json_int(node, INT64_MIN);
    if (value < min || value > max) {
        tool_fail(call, "%s: must be a whole number from %" PRId64 " to %" PRId64, key, min, max);
        return -1;
    }
    *ret = value;
    return 0;
}

int tool_bool(struct tool_call *call, const char *key, bool fallback, bool *ret)
{
    const struct json_node *node = get(call, key);
    if (node != NULL && !json_is(node, JSON_NODE_BOOL)) {
        tool_fail(call, "%s: must be true or false", key);
        return -1;
    }
    *ret = json_bool(node, fallback);
    return 0;
}

// --- paths

// A ".." cannot be taken away without knowing what is a symbolic link: it is refused.
static int add_component(struct buf *path, const char *name, size_t len, struct err *err)
{
    if (len == 0 || (len == 1 && name[0] == '.'))
        return 0;
    if (len == 2 && name[0] == '.' && name[1] == '.')
        return err_set(err, ERR_INVALID, "must not have a '..': write the path without it");
    if (len > COMPONENT_MAX)
        return err_set(err, ERR_INVALID, "a name in it is longer than %d bytes", COMPONENT_MAX);
    (void)buf_append_char(path, '/');
    (void)buf_append(path, name, len);
    return 0;
}

static int add_path(struct buf *path, const char *text, struct err *err)
{
    while (*text != '\0') {
        size_t len = strcspn(text, "/");
        if (add_component(path, text, len, err) < 0)
            return -1;
        text += len;
        text += *text == '/';
    }
    return 0;
}

int tool_path_clean(const char *text, char ret[TOOL_PATH_MAX], struct err *err)
{
    auto_buf path;
    buf_init(&path, TOOL_PATH_MAX - 1);
    if (text[0] == '\0')
        return err_set(err, ERR_INVALID, "must not be empty");
    if (text[0] != '/')
        (void)buf_append_str(&path, "/workspace");
    if (add_path(&path, text, err) < 0)
        return -1;
    if (path.failed != 0)
        return err_set(err, ERR_INVALID, "is longer than %d bytes", TOOL_PATH_MAX - 1);
    if (path.len == 0)
        (void)buf_append_char(&path, '/');
    memcpy(ret, buf_str(&path), path.len + 1);
    return 0;
}

int tool_path(struct tool_call *call, const char *key, char ret[TOOL_PATH_MAX])
{
    struct err err = {0};
    const char *text;
    if (tool_text(call, key, /* required */ true, &text, NULL) < 0)
        return -1;
    if (tool_path_clean(text, ret, &err) == 0)
        return 0;
    tool_fail(call, "%s: %s", key, err.msg);
    return -1;
}

// --- output

// Where a character begins, at or before `at`. Bytes that are no text end anywhere.
static size_t char_before(const struct buf *text, size_t at)
{
    size_t back = at;
    while (back > 0 && at - back < 4 && ((unsigned char)text->data[back] & 0xc0) == 0x80)
        back--;
    return at - back < 4 ? back : at;
}

void tool_cut(struct buf *text)
{
    auto_buf tail = {0};
    text->failed = 0;
    if (text->len <= TOOL_OUTPUT_MAX)
        return;
    size_t head = char_before(text, TOOL_OUTPUT_HEAD);
    size_t rest = char_before(text, text->len - (TOOL_OUTPUT_MAX - TOOL_OUTPUT_HEAD));
    buf_init(&tail, TOOL_OUTPUT_MAX);
    (void)buf_append(&tail, text->data + rest, text->len - rest);
    text->len = head;
    (void)buf_printf(text, "\n\n... [%zu bytes are left out here] ...\n\n", rest - head);
    (void)buf_append(text, buf_str(&tail), tail.len);
}
