// SPDX-License-Identifier: Apache-2.0
// What OpenCode's server answers. It is a program in a box, so that it may be anything.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/opencode-internal.h"
#include "base/mem.h"
#include "base/text.h"

enum {
    VALUES_MAX = 100 * 1000, // of one answer: each takes memory
    DEPTH_MAX = 64,
    TEXT_MAX = 8 * 1024 * 1024,
    WORDS_MAX = 300,
    NAME_MAX_LEN = 60,
};

// --- its words, made plain

// Behind ESC '[': up to the letter that ends a sequence of a terminal.
static size_t skip_escape(const char *data, size_t len)
{
    size_t n = 1;
    if (n < len && data[n] == '[') {
        n++;
        while (n < len && (data[n] < '@' || data[n] > '~'))
            n++;
        n++;
    }
    return n < len ? n : len;
}

void opencode_plain_text(const char *data, size_t len, struct buf *ret)
{
    size_t begin = ret->len;
    bool ended = ret->len > 0; // a line before this
    for (size_t i = 0; i < len;) {
        size_t step = utf8_step(data + i, len - i);
        if (data[i] == '\033') {
            i += skip_escape(data + i, len - i);
            continue;
        }
        if (data[i] == '\n') {
            ended = ret->len > 0;
        } else if (step > 1 || (step == 1 && (unsigned char)data[i] >= ' ' && data[i] != 0x7f)) {
            if (ended && (ret->len > begin || begin > 0))
                (void)buf_append_str(ret, " | ");
            ended = false;
            if (ret->max - ret->len < step)
                return;
            (void)buf_append(ret, data + i, step);
        }
        i += step > 0 ? step : 1;
    }
}

// --- its JSON

// Whether it is small enough as a tree. What is no JSON is found out by the parser.
static bool is_bounded(const char *text, size_t len)
{
    size_t values = 0, depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '{' || c == '[')) {
            values++;
            if (++depth > DEPTH_MAX)
                return false;
        } else if (!in_string && (c == '}' || c == ']'))
            depth -= depth > 0;
        else if (!in_string && c == ',')
            values++;
        if (values > VALUES_MAX)
            return false;
    }
    return true;
}

static json_t *parse(const char *text, size_t len)
{
    size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    return is_bounded(text, len) ? json_loadb(text, len, flags, NULL) : NULL;
}

int opencode_read_id(const char *text, size_t len, char *ret, size_t size)
{
    json_auto_t *root = parse(text, len);
    const char *id = json_string_value(json_object_get(root, "id"));
    if (id == NULL || strlen(id) >= size)
        return -1;
    (void)snprintf(ret, size, "%s", id);
    return 0;
}

// --- failures

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static void set_failure(struct failure *ret, unsigned status, const char *code, const char *name,
                        const char *words)
{
    auto_buf plain;
    auto_buf title;
    buf_init(&plain, WORDS_MAX);
    buf_init(&title, NAME_MAX_LEN);
    opencode_plain_text(words, strlen(words), &plain);
    opencode_plain_text(name, strlen(name), &title);
    failure_set(ret, status, code, "%s%s%s", buf_str(&title),
                plain.len > 0 && title.len > 0 ? ": " : "", buf_str(&plain));
    if (ret->message[0] == '\0')
        failure_set(ret, status, code, "OpenCode says that it failed, and not why");
}

// {name, data: {message, statusCode}}, of an answer or inside of one.
static void read_error(json_t *error, unsigned status, struct failure *ret)
{
    static const struct {
        json_int_t of;
        unsigned status;
        const char *code;
    } known[] = {
        {401, 401, "AUTH_ERROR"       },
        {402, 402, "BUDGET_EXCEEDED"  },
        {403, 403, "FORBIDDEN"        },
        {429, 429, "RATE_LIMITED"     },
        {504, 504, "EXECUTION_TIMEOUT"},
    };
    json_t *data = json_object_get(error, "data");
    const char *name = text_of(error, "name");
    const char *words = text_of(data, "message");
    json_int_t code = json_integer_value(json_object_get(data, "statusCode"));
    if (words[0] == '\0')
        words = text_of(error, "message");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (code == known[i].of) {
            set_failure(ret, known[i].status, known[i].code, name, words);
            return;
        }
    }
    if (strcmp(name, "MessageAbortedError") == 0)
        set_failure(ret, 409, "CANCELLED", name, words);
    else if (strstr(name, "ModelNotFound") != NULL || strstr(name, "ProviderAuth") != NULL ||
             (code == 0 && status == 400))
        set_failure(ret, 400, "INVALID_REQUEST", name, words);
    else if (code != 0)
        set_failure(ret, 502, "API_ERROR", name, words);
    else
        set_failure(ret, 502, "AGENT_FAILED", name, words);
}

void opencode_read_failure(unsigned status, const char *text, size_t len, struct failure *ret)
{
    char name[64];
    json_auto_t *root = parse(text, len);
    (void)snprintf(name, sizeof name, "OpenCode's server answered %u", status);
    if (json_is_object(json_object_get(root, "error")))
        read_error(json_object_get(root, "error"), status, ret);
    else if (json_is_object(root) && json_object_get(root, "name") != NULL)
        read_error(root, status, ret);
    else
        set_failure(ret, 502, "BAD_GATEWAY", name, "");
}

// --- an answer

void opencode_read_done(struct opencode_read *read)
{
    buf_done(&read->text);
    free(read->parts);
    free(read->info);
    *read = (struct opencode_read){0};
}

static char *dump(json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    if (text == NULL)
        abort();
    return text;
}

static void join_texts(json_t *parts, struct buf *ret)
{
    size_t i;
    json_t *part;
    json_array_foreach(parts, i, part)
    {
        json_t *text = json_object_get(part, "text");
        if (strcmp(text_of(part, "type"), "text") != 0 || !json_is_string(text) ||
            json_is_true(json_object_get(part, "synthetic")))
            continue;
        if (ret->len > 0)
            (void)buf_append_char(ret, '\n');
        (void)buf_append(ret, json_string_value(text), json_string_length(text));
    }
}

int opencode_read_answer(const char *text, size_t len, struct opencode_read *ret,
                         struct failure *failure)
{
    json_auto_t *root = parse(text, len);
    json_t *info = json_object_get(root, "info"), *parts = json_object_get(root, "parts");
    json_t *error = json_object_get(info, "error");
    if (json_is_object(error)) {
        read_error(error, 200, failure);
        return -1;
    }
    if (!json_is_object(info) || !json_is_array(parts)) {
        failure_set(failure, 502, "BAD_GATEWAY",
                    "OpenCode's server answered with something that is no answer");
        return -1;
    }
    *ret = (struct opencode_read){.parts = dump(parts), .info = dump(info)};
    buf_init(&ret->text, TEXT_MAX);
    join_texts(parts, &ret->text);
    return 0;
}
