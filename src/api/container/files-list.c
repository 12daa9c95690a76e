// SPDX-License-Identifier: Apache-2.0
// POST /api/list-files: what is in a directory, or in all of a tree, in one answer.
#include "api/container/files.h"
#include "api/show.h"
#include "base/clock.h"

enum {
    LIST_BYTES = 64 * 1024 * 1024, // of JSON, some 200,000 entries
    ENTRY_BYTES = 64 * 1024,       // what one takes at most: every byte of its texts escaped
};

struct list_options {
    struct body_bool recursive, hidden;
};
struct list_body {
    const char *path, *session;
    struct list_options options;
};

static const struct field option_fields[] = {
    FIELD("recursive", FIELD_BOOL, offsetof(struct list_options, recursive)),
    FIELD("includeHidden", FIELD_BOOL, offsetof(struct list_options, hidden),
          .help = "Also names that begin with a dot"),
};
static const struct schema option_schema =
    SCHEMA("ContainerListOptions", struct list_options, option_fields, .lenient = true);
static const struct field list_fields[] = {
    FIELD("path", FIELD_STRING, offsetof(struct list_body, path), .required = true),
    FIELD("options", FIELD_OBJECT, offsetof(struct list_body, options), .sub = &option_schema),
    CONTAINER_SESSION(struct list_body),
};
static const struct schema list_schema =
    SCHEMA("ContainerListFiles", struct list_body, list_fields, .lenient = true);

struct list_call {
    struct file_call file; // first
    struct container_answer answer;
    int64_t n;
};

// -- entries

static void show_mode(struct json *j, uint32_t mode)
{
    static const char letters[] = "rwxrwxrwx";
    char text[sizeof letters];
    for (unsigned i = 0; i < sizeof letters - 1; i++)
        text[i] = mode & (0400u >> i) ? letters[i] : '-';
    text[sizeof letters - 1] = '\0';
    show_str(j, "mode", text);
    json_key(j, "permissions");
    json_open_object(j);
    show_bool(j, "readable", mode & 0400u);
    show_bool(j, "writable", mode & 0200u);
    show_bool(j, "executable", mode & 0100u);
    json_close_object(j);
}

static void add_entry(struct list_call *l, const struct hand_entry *entry)
{
    struct json *j = &l->answer.json;
    const char *path = (const char *)(entry + 1);
    auto_buf whole;
    buf_init(&whole, 2 * HAND_PATH_MAX);
    file_path_join(&whole, l->file.path, path);
    json_open_object(j);
    show_str(j, "name", file_base_name(path));
    show_str(j, "absolutePath", buf_str(&whole));
    show_str(j, "relativePath", path);
    show_str(j, "type", files_type(entry->st.kind));
    json_key(j, "size");
    json_put_uint(j, entry->st.size);
    show_time(j, "modifiedAt", entry->st.mtime_ns / NS_PER_MS);
    show_mode(j, entry->st.mode);
    json_close_object(j);
    l->n++;
}

// -- the list

static void forget(struct call *call)
{
    struct list_call *l = call->state;
    buf_done(&l->answer.buf);
}

static void on_record(void *data, const struct hand_record *rec)
{
    struct call *call = data;
    struct list_call *l = call->state;
    if (rec->type != HAND_REC_ENTRY)
        return;
    size_t len = l->answer.buf.len + ENTRY_BYTES;
    if (len <= LIST_BYTES && call_hold(call, len)) {
        add_entry(l, (const struct hand_entry *)rec);
        return;
    }
    if (len <= LIST_BYTES)
        call_scarce(call);
    else
        container_fail(call, CONTAINER_FILE_TOO_LARGE, NULL,
                       "'%.200s' has more than %lld entries, too many for one answer: list its "
                       "directories one by one, or GET /sandbox/{id}/files/...?list page by page",
                       l->file.path, (long long)l->n);
    files_cancel(call);
}

static void on_done(void *data, const struct hand_ended *ended, const struct err *err)
{
    struct call *call = data;
    struct list_call *l = call->state;
    struct err failed = {0};
    if (err != NULL || files_ended(ended, l->file.path, &failed) < 0) {
        container_file_fail(call, err != NULL ? err : &failed);
    } else {
        json_close_array(&l->answer.json);
        show_int(&l->answer.json, "count", l->n);
        container_end(call, &l->answer);
    }
    forget(call);
    files_work_over(call);
}

static void start(struct call *call)
{
    static const struct hand_long_ops ops = {.record = on_record, .done = on_done};
    const struct list_body *b = call->body.values;
    struct list_call *l = call->state;
    struct json *j = &l->answer.json;
    const struct hand_ask ask = {
        .type = HAND_LIST,
        .path = l->file.path,
        .flags = (b->options.recursive.value ? HAND_RECURSIVE : 0u) |
                 (b->options.hidden.value ? HAND_HIDDEN : 0u),
    };
    container_begin(&l->answer, true);
    show_str(j, "path", b->path);
    json_key(j, "files");
    json_open_array(j);
    l->file.cleanup = forget;
    files_work(call, &ask, &ops);
}

static void handle_list(struct call *call)
{
    const struct list_body *b = call->body.values;
    if (container_file_new(call, sizeof(struct list_call), b->session, "path", b->path,
                           "directory.list") != NULL)
        files_wake(call, start);
}

const struct route container_files_list[] = {
    CONTAINER_ROUTE(HTTP_POST, "/api/list-files", SUBJECT_FILE, handle_list, .body = &list_schema),
};
const size_t n_container_files_list = sizeof container_files_list / sizeof *container_files_list;
