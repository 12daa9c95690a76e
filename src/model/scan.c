// SPDX-License-Identifier: Apache-2.0
#include "model/scan.h"

#include <string.h>

void scan_json_init(struct scan_json *scan, scan_json_fn value, void *data)
{
    *scan = (struct scan_json){.value = value, .data = data};
}

static bool in_object(const struct scan_json *scan)
{
    return scan->depth > 0 && (scan->is_object & UINT64_C(1) << (scan->depth - 1)) != 0;
}

static void put(struct scan_json *scan, char c)
{
    if (scan->len < sizeof scan->text)
        scan->text[scan->len] = c;
    scan->len++;
}

static bool is_plain(const struct scan_json *scan)
{
    return scan->len < sizeof scan->text && !scan->has_escape;
}

static void end_key(struct scan_json *scan)
{
    if (scan->depth > SCAN_KEYS_MAX)
        return;
    // A long key, or one with escapes, is none that anybody looks for.
    bool fits = is_plain(scan) && scan->len < SCAN_KEY_MAX;
    char *key = scan->keys[scan->depth - 1];
    memcpy(key, fits ? scan->text : "?", fits ? (size_t)scan->len : 1);
    key[fits ? scan->len : 1] = '\0';
}

static void tell(struct scan_json *scan, bool is_string)
{
    struct scan_value value = {
        .n_keys = scan->depth,
        .is_string = is_string,
        .is_plain = is_plain(scan),
        .text = scan->text,
        .len = scan->len,
    };
    if (scan->depth > SCAN_KEYS_MAX)
        return;
    for (unsigned i = 0; i < scan->depth; i++)
        value.keys[i] = scan->keys[i];
    if (value.is_plain)
        scan->text[scan->len] = '\0';
    scan->value(scan->data, &value);
}

static void end_value(struct scan_json *scan)
{
    scan->state = scan->depth == 0 ? SCAN_END : SCAN_BETWEEN;
}

static void open_nested(struct scan_json *scan, bool is_object)
{
    if (scan->depth == SCAN_DEPTH_MAX) {
        scan->state = SCAN_LOST;
        return;
    }
    uint64_t bit = UINT64_C(1) << scan->depth;
    scan->is_object = is_object ? scan->is_object | bit : scan->is_object & ~bit;
    if (scan->depth < SCAN_KEYS_MAX)
        scan->keys[scan->depth][0] = '\0';
    scan->depth++;
    scan->wants_key = is_object;
}

static void close_nested(struct scan_json *scan, bool is_object)
{
    if (scan->depth == 0 || in_object(scan) != is_object) {
        scan->state = SCAN_LOST;
        return;
    }
    scan->depth--;
    scan->wants_key = false;
    end_value(scan);
}

static void begin(struct scan_json *scan, enum scan_state state)
{
    scan->state = state;
    scan->len = 0;
    scan->has_escape = false;
    scan->is_key = scan->wants_key;
}

static void between(struct scan_json *scan, char c)
{
    switch (c) {
    case ' ':
    case '\t':
    case '\r':
    case '\n':
    case ':':
        break;
    case ',':
        scan->wants_key = in_object(scan);
        break;
    case '{':
    case '[':
        open_nested(scan, c == '{');
        break;
    case '}':
    case ']':
        close_nested(scan, c == '}');
        break;
    case '"':
        begin(scan, SCAN_STRING);
        break;
    default:
        begin(scan, SCAN_WORD);
        put(scan, c);
        break;
    }
}

static void end_string(struct scan_json *scan)
{
    if (!scan->is_key) {
        tell(scan, /*is_string=*/true);
        end_value(scan);
        return;
    }
    end_key(scan);
    scan->wants_key = false;
    scan->state = SCAN_BETWEEN;
}

static void in_word(struct scan_json *scan, char c)
{
    if (strchr(" \t\r\n,:]}[{\"", c) == NULL || c == '\0') {
        put(scan, c);
        return;
    }
    tell(scan, /*is_string=*/false);
    end_value(scan);
    if (scan->state == SCAN_BETWEEN)
        between(scan, c);
}

static void step(struct scan_json *scan, char c)
{
    switch (scan->state) {
    case SCAN_BETWEEN:
        between(scan, c);
        break;
    case SCAN_STRING:
        if (c == '"') {
            end_string(scan);
            break;
        }
        if (c == '\\') {
            scan->has_escape = true;
            scan->state = SCAN_ESCAPE;
        }
        put(scan, c);
        break;
    case SCAN_ESCAPE:
        put(scan, c);
        scan->state = SCAN_STRING;
        break;
    case SCAN_WORD:
        in_word(scan, c);
        break;
    case SCAN_END:
    case SCAN_LOST:
        break;
    }
}

void scan_json_feed(struct scan_json *scan, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len && scan->state != SCAN_LOST; i++)
        step(scan, bytes[i]);
}
