// SPDX-License-Identifier: Apache-2.0
// What a kernel sends: frames come out the same however they were cut, and what is logged of their
// payloads is an object again that is left as it is the second time. What our other reader of JSON
// takes, this one takes.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json-in.h"
#include "sandbox/kernel-frame.h"
#include "sandbox/kernel-json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_logged(const char *payload, size_t len, const struct buf *logged)
{
    auto_buf again;
    size_t n = logged->len > 0 ? logged->len : len;
    char *copy = malloc(n + 1);
    assert(copy != NULL);
    memcpy(copy, logged->len > 0 ? logged->data : payload, n);
    buf_init(&again, 1 << 20);
    assert(kernel_json_representation(copy, n, &again) == 0);
    assert(again.len == 0 && memcmp(copy, logged->len > 0 ? logged->data : payload, n) == 0);
    free(copy);
}

static void check_representation(const char *payload, size_t len)
{
    struct err err;
    struct json_doc *doc = NULL;
    auto_buf logged;
    char *copy = malloc(len + 1); // of its own, so that a byte too many shows
    assert(copy != NULL);
    memcpy(copy, payload, len);
    buf_init(&logged, 1 << 20);
    int taken = json_read(payload, len, &doc, &err);
    int r = kernel_json_representation(copy, len, &logged);
    if (taken == 0 && json_is(json_root(doc), JSON_NODE_OBJECT) &&
        json_root(doc)->n <= KERNEL_JSON_FIELDS)
        assert(r == 0);
    if (r == 0 && (logged.len > 0 || len > 0))
        check_logged(copy, len, &logged);
    json_doc_free(doc);
    free(copy);
}

static void check_failure(const char *payload, size_t len)
{
    bool interrupted;
    struct kernel_object object;
    const struct kernel_timeout timeout = {(int64_t)len % 3};
    char text[32];
    auto_buf logged;
    char *copy = malloc(len + 1);
    assert(copy != NULL);
    memcpy(copy, payload, len);
    buf_init(&logged, 1 << 20);
    if (kernel_json_scan(copy, len, &object) == KERNEL_JSON_OK) {
        kernel_json_text(&object, "message", text, sizeof text);
        assert(strlen(text) < sizeof text);
        assert(kernel_json_number(&object, "count") >= -1);
    }
    if (kernel_json_failure(copy, len, &timeout, &logged, &interrupted) == 0) {
        assert(kernel_json_scan(logged.data, logged.len, &object) == KERNEL_JSON_OK);
        assert(object.n == 4 && !object.has_twice);
    }
    free(copy);
}

static void read_all(const uint8_t *data, size_t size, size_t piece, bool resume, struct buf *ret)
{
    struct frame_reader reader;
    struct frame frame;
    int r = 0;
    frame_reader_init(&reader);
    if (resume)
        frame_reader_resume(&reader);
    for (size_t at = 0; at < size && r == 0;) {
        char *to = NULL;
        size_t room = 0;
        assert(frame_reader_reserve(&reader, &to, &room) == 0);
        size_t n = size - at < piece ? size - at : piece;
        n = n < room ? n : room;
        memcpy(to, data + at, n);
        frame_reader_commit(&reader, n);
        at += n;
        while ((r = frame_reader_next(&reader, &frame)) > 0) {
            assert(strlen(frame.type) > 0 && strlen(frame.type) <= FRAME_TYPE_MAX);
            (void)frame_put(ret, frame.type, frame.cell, frame.bytes, frame.len);
            if (piece >= size) {
                check_representation(frame.bytes, frame.len);
                check_failure(frame.bytes, frame.len);
            }
        }
    }
    (void)buf_printf(ret, "%d", r);
    frame_reader_done(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    bool resume = data[0] & 1;
    size_t piece = 1 + (size_t)data[0] / 2;
    auto_buf whole, parts;
    buf_init(&whole, 1 << 22);
    buf_init(&parts, 1 << 22);
    read_all(data + 1, size - 1, size, resume, &whole);
    read_all(data + 1, size - 1, piece, resume, &parts);
    if (!resume) // else what looks like a header depends on where it was cut
        assert(whole.len == parts.len && memcmp(whole.data, parts.data, whole.len) == 0);
    check_representation((const char *)data + 1, size - 1);
    check_failure((const char *)data + 1, size - 1);
    return 0;
}
