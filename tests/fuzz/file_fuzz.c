// SPDX-License-Identifier: Apache-2.0
// What requests say about files: ranges, entity tags, paths, modes, marks of pages. The first
// eight bytes are a file's size, the rest is the text.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/conditional.h"
#include "api/file-path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_range(const char *text, uint64_t size)
{
    struct range r = range_read(text, size);
    if (r.kind == RANGE_PART)
        assert(r.len > 0 && r.from < size && r.len <= size - r.from);
    else if (r.kind == RANGE_ALL)
        assert(r.from == 0 && r.len == size);
}

static void try_tags(const char *text)
{
    char tag[48];
    if (etag_read(text, tag, sizeof tag) == 0) {
        assert(strlen(tag) < sizeof tag && strchr(tag, '"') == NULL);
        assert(etag_listed(text, tag, true) && etag_in_range(text, tag));
    }
    (void)etag_listed(text, "abc", false);
    (void)etag_is_plain(text, strlen(text) + 1);
}

static void try_path(const char *text)
{
    struct err err;
    char path[FILE_PATH_MAX + 1];
    uint32_t mode = 0;
    if (file_path_check(text, &err) == 0)
        assert(text[0] == '/' && strstr(text, "//") == NULL && strstr(text, "/../") == NULL);
    if (file_path_of_param(text, path, &err) == 0)
        assert(strcmp(path + 1, text) == 0);
    if (file_mode_read(text, &mode, &err) == 0)
        assert(mode <= FILE_MODE_MAX);
    assert(file_media_type(text) != NULL);
}

static void try_mark(const char *text)
{
    struct err err;
    auto_buf mark, back, again;
    buf_init(&mark, 3 * FILE_PATH_MAX);
    buf_init(&back, FILE_PATH_MAX);
    buf_init(&again, FILE_PATH_MAX);
    (void)file_mark_read(text, &back, &err);
    if (strlen(text) >= FILE_PATH_MAX)
        return;
    file_mark_write(&mark, text);
    assert(file_mark_read(buf_str(&mark), &again, &err) == 0);
    assert(strcmp(buf_str(&again), text) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t length = 0;
    if (size < sizeof length)
        return 0;
    memcpy(&length, data, sizeof length);
    char *text = strndup((const char *)data + sizeof length, size - sizeof length);
    if (text == NULL)
        return 0;
    try_range(text, length);
    try_tags(text);
    try_path(text);
    try_mark(text);
    free(text);
    return 0;
}
