// SPDX-License-Identifier: Apache-2.0
// POST /api/write: a file has new content, all of it or nothing. Directories above it are made.
// Large bodies are read in write-large.c.
#include <sodium.h>
#include <string.h>

#include "api/container/write.h"
#include "api/file-put.h"
#include "api/show.h"

#define AT(member) offsetof(struct container_write_body, member)
static const struct field write_fields[] = {
    FIELD("path", FIELD_STRING, AT(path), .required = true),
    FIELD("content", FIELD_BYTES, AT(content), .required = true),
    FIELD("encoding", FIELD_STRING, AT(encoding), .max = 32,
          .help = "Of the content: \"utf-8\" if not given, or \"base64\""),
    CONTAINER_SESSION(struct container_write_body),
};
#undef AT
const struct schema container_write_schema =
    SCHEMA("ContainerWrite", struct container_write_body, write_fields, .lenient = true);

struct write_call {
    struct file_call file; // first
    const char *data;      // what is written, in the request's body or decoded behind this
    size_t len;
};

// -- the content

bool container_write_is_base64(const struct container_write_body *b)
{
    return b->encoding != NULL && strcmp(b->encoding, "base64") == 0;
}

int container_write_check(struct call *call, const struct container_write_body *b)
{
    if (b->encoding == NULL || container_write_is_base64(b) || strcmp(b->encoding, "utf-8") == 0 ||
        strcmp(b->encoding, "utf8") == 0)
        return 0;
    container_invalid(call, "encoding", "encoding: must be \"utf-8\" or \"base64\"");
    return -1;
}

static size_t decoded_max(const struct container_write_body *b)
{
    return container_write_is_base64(b) ? b->content.len / 4 * 3 + 3 : 0;
}

static int read_content(struct call *call, struct write_call *w)
{
    const struct container_write_body *b = call->body.values;
    char *bytes = (char *)(w + 1);
    w->data = b->content.data;
    w->len = b->content.len;
    if (container_write_check(call, b) < 0)
        return -1;
    if (!container_write_is_base64(b))
        return 0;
    w->data = bytes;
    if (sodium_base642bin((unsigned char *)bytes, decoded_max(b), b->content.data, b->content.len,
                          "\r\n", &w->len, NULL, sodium_base64_VARIANT_ORIGINAL) == 0)
        return 0;
    container_invalid(call, "content", "content: is not base64, as 'encoding' says");
    return -1;
}

// -- the file

void container_written(struct call *call, struct hand_answer *done, const struct err *err)
{
    const struct container_write_body *b = call->body.values;
    struct container_answer answer;
    if (done == NULL) {
        container_file_fail(call, err);
        return;
    }
    container_begin(&answer, true);
    show_str(&answer.json, "path", b->path);
    container_end(call, &answer);
}

static void start(struct call *call)
{
    const struct write_call *w = call->state;
    const struct file_put put = {
        .path = w->file.path,
        .terms = {.flags = HAND_PARENTS},
        .data = w->data,
        .len = w->len,
    };
    file_put(call, &put, container_written);
}

static void write_small(struct call *call)
{
    const struct container_write_body *b = call->body.values;
    struct write_call *w = container_file_new(call, sizeof *w + decoded_max(b), b->session, "path",
                                              b->path, "file.write");
    if (w != NULL && read_content(call, w) == 0)
        files_wake(call, start);
}

static void handle_write(struct call *call)
{
    struct err err;
    size_t len;
    const char *data = http_body(call->req, &len);
    if (http_is_raw(call->req))
        container_write_large(call);
    else if (body_read(&call->body, &container_write_schema, data, len, &err) < 0)
        call_fail(call, &err);
    else
        write_small(call);
}

bool container_is_raw(const struct http_peek *peek, const char *rest)
{
    return strcmp(peek->method, "POST") == 0 && strcmp(rest, "/api/write") == 0 &&
           peek->length > CONTAINER_WRITE_SMALL && peek->length != HTTP_CHUNKED;
}

const struct route container_files_write[] = {
    {
     .method = HTTP_POST,
     .pattern = CONTAINER "/api/write",
     .handle = handle_write,
     .flags = ROUTE_SANDBOX | ROUTE_STREAM_BODY,
     .body = &container_write_schema,
     .status = 200,
     .subject = SUBJECT_FILE,
     },
};
const size_t n_container_files_write = sizeof container_files_write / sizeof *container_files_write;
