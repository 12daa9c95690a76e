// SPDX-License-Identifier: Apache-2.0
// Looking for names and texts in a tree, and putting another text in the place of one.
#include <stdlib.h>
#include <string.h>

#include "api/files.h"
#include "api/handlers.h"
#include "api/schemas.h"
#include "api/show.h"

enum {
    TEXT_MAX = 4096,
    NAME_MAX_BYTES = 256,
    WITH_MAX = 16 * 1024,
    LIMIT_DEFAULT = 1000,
    LIMIT_MAX = 10000,
    MATCH_BYTES = 64 * 1024, // of JSON: path and line with every byte escaped
    PAGE_BYTES = 16 * 1024 * 1024,
};

struct search_body {
    const char *path, *text, *name, *with;
    struct body_bool ignore_case, hidden;
    struct body_int limit, max_file;
};

struct search_call {
    struct file_call file; // first
    bool replaces, more;
    uint64_t limit, n, replaced;
    struct call_list list;
};

#define AT(member) offsetof(struct search_body, member)
#define SEARCH_FIELDS                                                                              \
    FIELD("path", FIELD_STRING, AT(path), .required = true, .max = FILE_PATH_MAX,                  \
          .help = "A directory, or a file"),                                                       \
        FIELD("name", FIELD_STRING, AT(name), .max = NAME_MAX_BYTES,                               \
              .help = "Only files whose name fits: * ? [a-z]"),                                    \
        FIELD("ignoreCase", FIELD_BOOL, AT(ignore_case), .help = "A is a; of ASCII only"),         \
        FIELD("hidden", FIELD_BOOL, AT(hidden), .help = "Also names that begin with a dot"),       \
        FIELD("maxFileSize", FIELD_SIZE, AT(max_file), .min = 1,                                   \
              .help = "Larger ones are skipped")
static const struct field search_fields[] = {
    SEARCH_FIELDS,
    FIELD("text", FIELD_STRING, AT(text), .max = TEXT_MAX,
          .help = "What to look for in files; without it names are listed"),
    FIELD("limit", FIELD_INT, AT(limit), .min = 1, .max = LIMIT_MAX, .help = "Matches at most"),
};
static const struct field replace_fields[] = {
    SEARCH_FIELDS,
    FIELD("text", FIELD_STRING, AT(text), .required = true, .max = TEXT_MAX),
    FIELD("with", FIELD_STRING, AT(with), .required = true, .max = WITH_MAX),
};
const struct schema file_search_schema = SCHEMA("SearchFiles", struct search_body, search_fields);
const struct schema file_replace_schema =
    SCHEMA("ReplaceInFiles", struct search_body, replace_fields);

// -- results

static void show_match(struct search_call *s, const char *root, const struct hand_match *match)
{
    const char *path = (const char *)(match + 1);
    struct json *j = &s->list.json;
    auto_buf whole;
    buf_init(&whole, 2 * HAND_PATH_MAX);
    file_path_join(&whole, root, path);
    json_open_object(j);
    files_show_text(j, "path", buf_str(&whole));
    if (s->replaces) {
        show_int(j, "replacements", (int64_t)match->line);
        s->replaced += match->line;
    } else if (match->line > 0) {
        show_int(j, "line", (int64_t)match->line);
        show_int(j, "column", (int64_t)match->column);
        json_key(j, "text");
        json_put_strn(j, path + match->path_len + 1, match->text_len);
    }
    json_close_object(j);
}

static void reply(struct call *call)
{
    struct search_call *s = call->state;
    struct json *j = &s->list.json;
    json_close_array(j);
    if (s->replaces)
        show_int(j, "replacements", (int64_t)s->replaced);
    show_bool(j, "truncated", s->more);
    json_close_object(j);
    call_reply_json(call, 200, j);
}

static void on_record(void *data, const struct hand_record *rec)
{
    struct call *call = data;
    struct search_call *s = call->state;
    const struct search_body *body = call->body.values;
    if (rec->type != HAND_REC_MATCH || s->more)
        return;
    bool full = s->list.buf.len + MATCH_BYTES > PAGE_BYTES;
    s->more = full || (!s->replaces && s->n == s->limit);
    if (!s->more) {
        s->n++;
        show_match(s, body->path, (const struct hand_match *)rec);
    } else if (!s->replaces) { // what is to be replaced is replaced, told or not
        reply(call);
        files_cancel(call); // and perhaps the call with it
    }
}

static void cleanup(struct call *call)
{
    struct search_call *s = call->state;
    buf_done(&s->list.buf);
}

static void on_done(void *data, const struct hand_ended *ended, const struct err *err)
{
    struct call *call = data;
    const struct search_body *body = call->body.values;
    struct err failed = {0};
    if (err != NULL || files_ended(ended, body->path, &failed) < 0)
        files_fail(call, err != NULL ? err : &failed);
    else
        reply(call);
    cleanup(call);
    files_work_over(call);
}

// -- the request

static void append_text(struct buf *data, const char *text)
{
    if (text != NULL)
        (void)buf_append_str(data, text);
    (void)buf_append_char(data, '\0');
}

static uint32_t length(const char *text)
{
    return text != NULL ? (uint32_t)strlen(text) : 0;
}

static void write_request(const struct search_body *body, struct buf *data)
{
    const struct hand_search head = {
        .flags = (body->ignore_case.value ? HAND_SEARCH_NO_CASE : 0u) |
                 (body->hidden.value ? HAND_SEARCH_HIDDEN : 0u),
        .text_len = length(body->text),
        .name_len = length(body->name),
        .with_len = length(body->with),
        .max_file = (uint64_t)body->max_file.value,
    };
    (void)buf_append(data, &head, sizeof head);
    append_text(data, body->text);
    append_text(data, body->name);
    append_text(data, body->with);
}

static void start(struct call *call)
{
    static const struct hand_long_ops ops = {.record = on_record, .done = on_done};
    struct search_call *s = call->state;
    const struct search_body *body = call->body.values;
    struct json *j = &s->list.json;
    auto_buf data;
    buf_init(&data, HAND_DATA_MAX);
    write_request(body, &data);
    buf_init(&s->list.buf, PAGE_BYTES + MATCH_BYTES);
    json_init(j, &s->list.buf);
    json_open_object(j);
    show_bool(j, "success", true);
    show_str(j, "path", body->path);
    json_key(j, s->replaces ? "files" : "matches");
    json_open_array(j);
    s->file.cleanup = cleanup;
    const struct hand_ask ask = {
        .type = s->replaces ? HAND_REPLACE : HAND_SEARCH,
        .path = body->path,
        .limit = s->replaces ? 0 : s->limit + 1, // to see whether there is more
        .data = data.data,
        .data_len = data.len,
    };
    files_work(call, &ask, &ops);
}

static void handle(struct call *call, bool replaces)
{
    const struct search_body *body = call->body.values;
    struct err err = {0};
    struct search_call *s = files_new(call, sizeof *s);
    if (s == NULL)
        return;
    s->replaces = replaces;
    s->limit = body->limit.given ? (uint64_t)body->limit.value : LIMIT_DEFAULT;
    if (file_path_check(body->path, &err) < 0) {
        (void)err_wrap(&err, "path");
        call_fail(call, &err);
    } else if (body->text != NULL && body->text[0] == '\0') {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "text: must not be empty");
    } else if (body->text == NULL && body->name == NULL) {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "give a text, a name, or both");
    } else {
        files_wake(call, start);
    }
}

void handle_file_search(struct call *call)
{
    handle(call, /*replaces=*/false);
}

void handle_file_replace(struct call *call)
{
    handle(call, /*replaces=*/true);
}
