// SPDX-License-Identifier: Apache-2.0
// The first bytes of a TLS client: whatever they are, what is read of them is a name without a NUL,
// and no prefix of a whole hello is understood differently than the whole.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "egress/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hello hello, again;
    enum hello_verdict verdict = hello_parse(data, size, &hello);
    if (size >= HELLO_MAX)
        assert(verdict != HELLO_MORE);
    if (verdict != HELLO_WHOLE)
        return 0;
    if (hello.has_name)
        assert(strlen(hello.name) > 0 && strlen(hello.name) < sizeof hello.name);
    for (size_t n = 0; n < size && size < 1024; n++) {
        enum hello_verdict early = hello_parse(data, n, &again);
        assert(early == HELLO_MORE || early == HELLO_WHOLE);
        if (early == HELLO_WHOLE)
            assert(again.has_name == hello.has_name && again.encrypted == hello.encrypted);
    }
    return 0;
}
