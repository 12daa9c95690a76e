// SPDX-License-Identifier: Apache-2.0
// What the container protocol reads that strangers write: targets, answers of programs on ports,
// and output that comes in pieces cut anywhere.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/container/port-status.h"
#include "api/family-path.h"
#include "base/json.h"
#include "base/pieces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// -- targets

static void check_rest(const char *target, const char *rest)
{
    if (rest == NULL)
        return;
    assert(rest > target && rest <= target + strlen(target));
    assert(*rest == '\0' || *rest == '/' || *rest == '?');
}

static void check_target(const char *target)
{
    const char *of[] = {path_of_container(target), path_of_capability(target),
                        path_of_bridge(target)};
    int families = 0;
    for (int i = 0; i < 3; i++) {
        check_rest(target, of[i]);
        families += of[i] != NULL;
    }
    assert(families <= 1);
    (void)probe_path_valid(target);
}

// -- answers

static void check_status(const char *text, size_t len)
{
    int whole = probe_status(text, len);
    assert(whole == -1 || whole == 0 || (whole >= 100 && whole <= 999));
    for (size_t n = 0; n < len && n < 16; n++) { // told once, and then always the same
        int part = probe_status(text, n);
        assert(part == -1 || part == whole);
    }
}

// -- pieces

static void more(void *data, const char *bytes, size_t len)
{
    assert(len > 0);
    json_more_text(data, bytes, len);
}

static void check_pieces(const char *text, size_t len, size_t step)
{
    struct pieces pieces = {0};
    struct json whole, parts;
    auto_buf one, many;
    buf_init(&one, 8 * len + 16);
    buf_init(&many, 8 * len + 16);
    json_init(&whole, &one);
    json_init(&parts, &many);
    json_put_strn(&whole, text, len);
    json_open_text(&parts);
    for (size_t at = 0; at < len; at += step)
        pieces_take(&pieces, text + at, len - at < step ? len - at : step, 8 + step, more, &parts);
    pieces_end(&pieces, more, &parts);
    json_close_text(&parts);
    assert(json_finish(&whole) == 0 && json_finish(&parts) == 0);
    assert(one.len == many.len && memcmp(one.data, many.data, one.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 4096)
        return 0;
    char *text = malloc(size);
    if (text == NULL)
        abort();
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    check_target(text);
    check_status(text, size - 1);
    check_pieces(text, size - 1, 1 + data[0] % 16);
    free(text);
    return 0;
}
