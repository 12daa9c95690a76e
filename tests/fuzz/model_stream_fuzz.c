// SPDX-License-Identifier: Apache-2.0
// A streamed answer from a stranger: nothing breaks, however it is cut the same comes of it, and
// what is called a message is one: its content parses, and can be sent back and read again. The
// first byte says how it is cut.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json-in.h"
#include "model/message.h"
#include "model/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct told {
    uint64_t hash, n;
};

static bool on_event(void *data, const struct model_event *event)
{
    struct told *told = data;
    told->n++;
    for (size_t i = 0; i < event->len; i++)
        told->hash = 31 * told->hash + (unsigned char)event->text[i];
    return true;
}

static enum stream_state feed(const char *text, size_t len, size_t step, struct message *ret,
                              struct told *told)
{
    struct stream *stream = stream_new(on_event, told);
    for (size_t at = 0; at < len; at += step)
        (void)stream_feed(stream, text + at, len - at < step ? len - at : step);
    enum stream_state state = stream_state(stream);
    *ret = (struct message){0};
    assert(stream_message(stream, ret) == 0);
    stream_free(stream);
    return state;
}

static void check_whole(const struct message *message)
{
    struct json_doc *doc = NULL;
    struct message again = {0};
    struct err err = {0};
    char *body = NULL;
    // A tree is only so deep, and so is what it is put into.
    if (json_read(message->content, message->content_len, &doc, &err) < 0) {
        assert(strstr(err.msg, "deep") != NULL);
        return;
    }
    json_doc_free(doc);
    assert(json_read(message->usage_json, strlen(message->usage_json), &doc, &err) == 0);
    json_doc_free(doc);
    assert(asprintf(&body, "{\"type\":\"message\",\"content\":%s}", message->content) > 0);
    if (message_read(body, strlen(body), &again, &err) == 0) {
        assert(strcmp(again.content, message->content) == 0);
        message_done(&again);
    }
    free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct message one, other;
    struct told first = {0}, second = {0};
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    size_t len = size - 1;
    enum stream_state state = feed(text, len, len + 1, &one, &first);
    assert(feed(text, len, data[0] % 16 + 1u, &other, &second) == state);
    assert(strcmp(one.content, other.content) == 0 && first.hash == second.hash);
    assert(first.n == second.n && memcmp(&one.usage, &other.usage, sizeof one.usage) == 0);
    assert(strcmp(one.usage_json, other.usage_json) == 0);
    if (state == STREAM_WHOLE)
        check_whole(&one);
    message_done(&one);
    message_done(&other);
    if (message_read(text, len, &one, &(struct err){0}) == 0)
        message_done(&one);
    return 0;
}
