// SPDX-License-Identifier: Apache-2.0
#include "model/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/usage.h"

void message_done(struct message *message)
{
    free(message->id);
    free(message->model);
    free(message->content);
    free(message->stop_reason);
    free(message->stop_details);
    free(message->usage_json);
    *message = (struct message){0};
}

char *message_copy(struct raw raw, const char *otherwise)
{
    char *copy = raw.at != NULL ? strndup(raw.at, raw.len) : strdup(otherwise);
    if (copy == NULL)
        abort();
    return copy;
}

char *message_text(const struct json_node *node, const char *otherwise)
{
    const char *text = json_text(node);
    return mem_copy_text(text != NULL ? text : otherwise);
}

static bool is_message(const struct json_node *root)
{
    const char *type = json_text(json_get(root, "type"));
    return type != NULL && strcmp(type, "message") == 0 &&
           json_is(json_get(root, "content"), JSON_NODE_ARRAY);
}

// Names are short; what is not is none.
static char *name_of(const struct json_node *node)
{
    return message_text(node != NULL && node->text_len <= MESSAGE_NAME_MAX ? node : NULL, "");
}

int message_read(const char *body, size_t len, struct message *ret, struct err *err)
{
    auto_json_doc *doc = NULL;
    if (raw_read((struct raw){body, len}, &doc, err) < 0)
        return -1;
    const struct json_node *root = json_root(doc);
    if (!is_message(root))
        return err_set(err, ERR_INVALID, "it is no message");
    const struct raw raw = {body, len};
    struct usage_told told = {0};
    usage_told_read(&told, json_get(root, "usage"));
    *ret = (struct message){
        .id = name_of(json_get(root, "id")),
        .model = name_of(json_get(root, "model")),
        .content = message_copy(raw_get(raw, "content"), "[]"),
        .stop_reason = name_of(json_get(root, "stop_reason")),
        .stop_details = message_copy(raw_get(raw, "stop_details"), "null"),
        .usage_json = message_copy(raw_get(raw, "usage"), "{}"),
    };
    ret->content_len = strlen(ret->content);
    usage_told_sum(&told, &ret->usage);
    return 0;
}

static void put(char *to, size_t size, const char *text)
{
    (void)snprintf(to, size, "%s", text != NULL ? text : "");
}

bool api_error_get(const struct json_node *root, struct api_error *ret)
{
    const struct json_node *error = json_get(root, "error");
    if (json_is(error, JSON_NODE_STRING)) {
        put(ret->type, sizeof ret->type, json_text(error));
        put(ret->message, sizeof ret->message, json_text(json_get(root, "error_description")));
        return true;
    }
    if (!json_is(error, JSON_NODE_OBJECT))
        return false;
    put(ret->type, sizeof ret->type, json_text(json_get(error, "type")));
    put(ret->message, sizeof ret->message, json_text(json_get(error, "message")));
    return true;
}

bool api_error_read(const char *body, size_t len, struct api_error *ret)
{
    auto_json_doc *doc = NULL;
    struct err err = {0};
    return raw_read((struct raw){body, len}, &doc, &err) == 0 && api_error_get(json_root(doc), ret);
}
