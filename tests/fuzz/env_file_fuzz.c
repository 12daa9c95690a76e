// SPDX-License-Identifier: Apache-2.0
// .env files: what is taken stays within its bound, and is a part of what was written.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "cli/env-file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { MAX = 64 };
    struct err err = {0};
    auto_buf value;
    buf_init(&value, MAX);
    int r = env_file_get((const char *)data, size, "K", &value, &err);
    assert(r >= -1 && r <= 1);
    assert((r < 0) == (err.code == ERR_INVALID));
    if (r > 0) {
        assert(value.len <= MAX && value.len < size && value.failed == 0);
        assert(memchr(buf_str(&value), '\0', value.len) == NULL);
        assert(data != NULL && memchr(data, 'K', size) != NULL && memchr(data, '=', size) != NULL);
    }
    return 0;
}
