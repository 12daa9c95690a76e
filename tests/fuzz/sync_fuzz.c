// SPDX-License-Identifier: Apache-2.0
// An index, and records of cay-pack: nothing that a stranger writes leads out of a directory, takes
// more memory than it may, or is read twice in two ways. The first byte says which.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "saved/sync-index.h"
#include "saved/sync-records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_path(const char *text, size_t len)
{
    char raw[PACK_PATH_MAX], again[PACK_PATH_MAX];
    auto_buf shown;
    buf_init(&shown, 3 * PACK_PATH_MAX);
    ssize_t n = path_unescape(text, len, raw);
    if (n < 0)
        return;
    assert(record_path_valid(raw, (size_t)n));
    path_escape(raw, (size_t)n, &shown);
    assert(shown.failed == 0);
    assert(path_unescape(shown.data, shown.len, again) == n && memcmp(raw, again, (size_t)n) == 0);
}

static void try_index(const char *text, size_t len)
{
    struct index_reader reader;
    struct index_sums sums;
    struct err err;
    struct index_line *line = malloc(sizeof *line);
    char *copy = malloc(len + 1);
    size_t copy_len = len;
    assert(line != NULL && copy != NULL);
    memcpy(copy, text, len);
    if (index_check(text, len, &sums, &err) == 0 && index_open(&reader, text, len) == 0) {
        uint64_t files = 0;
        while (index_next(&reader, line) > 0) {
            files += line->kind == 'f';
            assert(record_path_valid(line->path, line->path_len));
            size_t was = copy_len;
            bool dropped = index_drop(copy, &copy_len, line->path);
            assert(dropped == (copy_len < was) && copy_len <= was);
            if (files > 50)
                break;
        }
        assert(files <= sums.files);
    }
    free(copy);
    free(line);
}

static void try_records(const char *bytes, size_t len)
{
    struct records records;
    struct err err;
    struct record *record = malloc(sizeof *record);
    auto_fd fd = memfd_create("records", MFD_CLOEXEC);
    char some[100];
    assert(record != NULL && fd >= 0 && fd_write_all(fd, bytes, len) == 0);
    assert(lseek(fd, 0, SEEK_SET) == 0);
    records_init(&records, fd, NULL);
    while (records_next(&records, record, &err) > 0) {
        assert(strlen(record->path) == record->head.path_len);
        if (record->head.size % 2 == 1)
            (void)records_read(&records, some, sizeof some, &err);
    }
    free(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *rest = (const char *)data + 1;
    if (data[0] % 3 == 0)
        try_path(rest, size - 1);
    else if (data[0] % 3 == 1)
        try_index(rest, size - 1);
    else
        try_records(rest, size - 1);
    return 0;
}
