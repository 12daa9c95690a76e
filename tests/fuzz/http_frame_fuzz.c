// SPDX-License-Identifier: Apache-2.0
// The framing of messages: however the bytes are cut, the same are handed on, with the same
// verdict; and what is handed on ends with a whole message when something was refused. The first
// byte says how they are cut.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "edge/http-frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// How many of the bytes are handed on.
static size_t feed(struct frame *frame, const char *data, size_t len, size_t step)
{
    size_t handed = 0;
    frame_init(frame);
    for (size_t at = 0; at < len && frame->state != FRAME_REFUSED; at += step) {
        size_t n = len - at < step ? len - at : step;
        size_t held = frame_held(frame);
        size_t good = frame_feed(frame, data + at, n);
        assert(good <= n && frame_held(frame) <= held + good);
        assert(frame_held(frame) <= 16); // what http-recv.c has room for
        handed += held + good - frame_held(frame);
    }
    return handed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame whole;
    struct frame cut;
    if (size < 2)
        return 0;
    size_t step = data[0] % 64 + 1;
    const char *text = (const char *)data + 1;
    size_t all = feed(&whole, text, size - 1, size);
    size_t same = feed(&cut, text, size - 1, step);
    assert(all == same && whole.status == cut.status && whole.heads == cut.heads);
    assert(whole.state == cut.state && whole.refused_at == cut.refused_at);
    if (whole.state == FRAME_REFUSED) {
        assert(whole.status >= 400 && whole.why != NULL && whole.refused_at == whole.heads);
        assert(strcmp(frame_ending(&whole), frame_ending(&cut)) == 0);
    }
    return 0;
}
