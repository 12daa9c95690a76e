// SPDX-License-Identifier: Apache-2.0
// An index, and the same bytes as records: what is taken is sound, and an index that was taken is
// written as it was read.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "pack/index.h"
#include "pack/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_index(const uint8_t *data, size_t size)
{
    struct index index = {0}, again = {0};
    struct err err = {0};
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    if (index_parse(&index, text, size, &err) == 0) {
        auto_buf out;
        buf_init(&out, 16 * size + 64);
        index_print(&index, &out);
        assert(!out.failed && index_parse(&again, out.data, out.len, &err) == 0);
        assert(again.n == index.n);
        for (size_t i = 0; i < index.n; i++)
            assert(index_is_path(again.entries[i].path) &&
                   strcmp(again.entries[i].path, index.entries[i].path) == 0);
        index_done(&again);
    }
    index_done(&index);
    free(text);
}

static void try_records(const uint8_t *data, size_t size)
{
    struct pack_record record;
    struct err err = {0};
    char path[PACK_PATH_MAX], block[512];
    auto_fd fd = memfd_create("fuzz", MFD_CLOEXEC);
    assert(fd >= 0 && fd_write_all(fd, data, size) == 0 && lseek(fd, 0, SEEK_SET) == 0);
    struct record_in *in = record_in_new(fd);
    while (record_next(in, &record, path, &err) == 1) {
        assert(record.path_len == 0 || index_is_path(path));
        ssize_t n;
        while ((n = record_read(in, block, sizeof block, &err)) > 0)
            ;
        if (n < 0)
            break;
    }
    record_in_free(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_index(data, size);
    try_records(data, size);
    return 0;
}
