// SPDX-License-Identifier: Apache-2.0
// A program that asks for the same host in a loop, or for a million of them, writes neither a row
// each nor hides what came before: the same decision is told once in a while with a count, and of
// all together so many.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "egress/egress-internal.h"

enum { WINDOW_MS = 10 * 1000, WINDOW_EVENTS = 50 };

static const char *const via_names[] = {
    [VIA_CONNECT] = "connect", [VIA_HTTP] = "http",     [VIA_TRANSPARENT] = "transparent",
    [VIA_DNS] = "dns",         [VIA_SECRET] = "secret",
};

static uint64_t now_ms(const struct outlet *outlet)
{
    return uv_now(outlet->egress->config.loop);
}

static void tell(struct outlet *outlet, const char *type, const char *data)
{
    struct notes *notes = outlet->notes;
    if (notes->told >= WINDOW_EVENTS) {
        notes->suppressed++;
        return;
    }
    notes->told++;
    sandbox_event(outlet->s, type, data);
}

// `data` without its last brace.
static void tell_again(struct outlet *outlet, struct note *note)
{
    char text[sizeof note->data + 32];
    size_t len = strlen(note->data);
    (void)snprintf(text, sizeof text, "%.*s,\"count\":%u}", (int)(len - 1), note->data,
                   note->again);
    note->again = 0;
    tell(outlet, "egress", text);
}

// The note of that key, or the one that was told longest ago.
static struct note *find(struct outlet *outlet, const char *key, bool *ret_new)
{
    struct note *oldest = &outlet->notes->list[0];
    for (unsigned i = 0; i < NOTES_MAX; i++) {
        struct note *note = &outlet->notes->list[i];
        if (strcmp(note->key, key) == 0) {
            *ret_new = now_ms(outlet) - note->since_ms >= WINDOW_MS && note->again == 0;
            return note;
        }
        if (note->since_ms < oldest->since_ms)
            oldest = note;
    }
    if (oldest->again > 0)
        tell_again(outlet, oldest);
    *ret_new = true;
    return oldest;
}

void note_decision(struct outlet *outlet, const char *host, uint16_t port, bool allowed,
                   const char *why, enum via via)
{
    char key[sizeof outlet->notes->list[0].key];
    auto_buf buf;
    struct json json;
    bool is_new;
    uint64_t *count = allowed ? &outlet->egress->stats.allowed : &outlet->egress->stats.denied;
    (*count)++;
    (void)snprintf(key, sizeof key, "%s:%u %d", host, port, allowed);
    struct note *note = find(outlet, key, &is_new);
    if (!is_new) {
        note->again++;
        return;
    }
    buf_init(&buf, sizeof note->data - 1);
    json_init(&json, &buf);
    json_open_object(&json);
    json_key(&json, "host");
    json_put_str(&json, host);
    json_key(&json, "port");
    json_put_uint(&json, port);
    json_key(&json, "decision");
    json_put_str(&json, allowed ? "allow" : "deny");
    json_key(&json, "why");
    json_put_str(&json, why);
    json_key(&json, "via");
    json_put_str(&json, via_names[via]);
    json_close_object(&json);
    if (json_finish(&json) < 0)
        return;
    (void)memcpy(note->key, key, sizeof key);
    (void)snprintf(note->data, sizeof note->data, "%s", buf_str(&buf));
    note->since_ms = now_ms(outlet);
    note->again = 0;
    tell(outlet, "egress", note->data);
}

void note_end(struct outlet *outlet, const char *host, uint16_t port, uint64_t bytes,
              const char *why)
{
    auto_buf buf;
    struct json json;
    if (bytes == 0 && why == NULL)
        return;
    buf_init(&buf, 640);
    json_init(&json, &buf);
    json_open_object(&json);
    json_key(&json, "host");
    json_put_str(&json, host);
    json_key(&json, "port");
    json_put_uint(&json, port);
    json_key(&json, "bytes");
    json_put_uint(&json, bytes);
    if (why != NULL) {
        json_key(&json, "why");
        json_put_str(&json, why);
    }
    json_close_object(&json);
    if (json_finish(&json) == 0)
        tell(outlet, "egress_end", buf_str(&buf));
}

static void next_window(struct outlet *outlet)
{
    struct notes *notes = outlet->notes;
    char text[48];
    if (notes->suppressed > 0) {
        (void)snprintf(text, sizeof text, "{\"count\":%u}", notes->suppressed);
        sandbox_event(outlet->s, "egress_suppressed", text);
    }
    notes->window_ms = now_ms(outlet);
    notes->told = notes->suppressed = 0;
}

void notes_tick(struct outlet *outlet)
{
    struct notes *notes = outlet->notes;
    uint64_t now = now_ms(outlet);
    if (now - notes->window_ms >= WINDOW_MS)
        next_window(outlet);
    for (unsigned i = 0; i < NOTES_MAX; i++) {
        struct note *note = &notes->list[i];
        if (note->again == 0 || now - note->since_ms < WINDOW_MS)
            continue;
        note->since_ms = now;
        tell_again(outlet, note);
    }
}

void notes_flush(struct outlet *outlet)
{
    for (unsigned i = 0; i < NOTES_MAX; i++) {
        if (outlet->notes->list[i].again > 0)
            tell_again(outlet, &outlet->notes->list[i]);
    }
    next_window(outlet);
}
