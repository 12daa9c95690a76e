// SPDX-License-Identifier: Apache-2.0
#include "model/meter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "model/scan.h"
#include "model/sse.h"
#include "model/usage.h"

// A token is seldom shorter.
enum { BYTES_PER_TOKEN = 4 };

enum event_type { EVENT_OTHER, EVENT_START, EVENT_PIECE, EVENT_DELTA, EVENT_STOP };

static const char *const event_names[] = {
    [EVENT_OTHER] = "",
    [EVENT_START] = "message_start",
    [EVENT_PIECE] = "content_block_delta",
    [EVENT_DELTA] = "message_delta",
    [EVENT_STOP] = "message_stop",
};

// What one JSON text says: the answer, or one event of it.
struct findings {
    enum event_type type;
    char model[sizeof(((struct meter_reading *)NULL)->model)];
    struct usage_told usage;
    uint64_t piece;
};

struct meter {
    bool is_error, is_stream;
    struct sse sse;
    struct scan_json scan;
    struct findings found;
    char model[sizeof(((struct meter_reading *)NULL)->model)];
    struct usage_told usage;
    bool has_total, is_final; // output was told in the end
    uint64_t bytes;
};

static bool is_path(const struct scan_value *value, unsigned from, const char *a, const char *b)
{
    return value->n_keys == from + (b != NULL ? 2 : 1) && strcmp(value->keys[from], a) == 0 &&
           (b == NULL || strcmp(value->keys[from + 1], b) == 0);
}

static void find_type(struct findings *found, const struct scan_value *value)
{
    for (unsigned i = 0; i < sizeof event_names / sizeof *event_names; i++)
        if (value->is_plain && strcmp(value->text, event_names[i]) == 0)
            found->type = (enum event_type)i;
}

// Whole numbers alone; null was not told.
static int64_t number(const struct scan_value *value)
{
    int64_t n = 0;
    if (!value->is_plain || value->is_string || value->len == 0)
        return -1;
    for (const char *p = value->text; *p != '\0'; p++) {
        if (*p < '0' || *p > '9' || n > INT64_MAX / 100)
            return -1;
        n = 10 * n + (*p - '0');
    }
    return n;
}

// {"usage": {NAME: n, GROUP: {NAME: n}}}, below `from` keys.
static void find_usage(struct findings *found, const struct scan_value *value, unsigned from)
{
    unsigned n = value->n_keys - from;
    if (value->n_keys < from + 2 || n > 3 || strcmp(value->keys[from], "usage") != 0)
        return;
    const char *group = n == 3 ? value->keys[from + 1] : "";
    if (n == 3 && *group == '\0') // an array's
        return;
    enum usage_field field = usage_field_find(group, value->keys[value->n_keys - 1]);
    usage_told_set(&found->usage, field, number(value));
}

static void on_value(void *data, const struct scan_value *value)
{
    struct meter *meter = data;
    struct findings *found = &meter->found;
    // In a stream the message is in its first event, and usage in later ones.
    bool is_inside =
        meter->is_stream && value->n_keys > 0 && strcmp(value->keys[0], "message") == 0;
    unsigned from = is_inside ? 1 : 0;
    if (value->n_keys == 0)
        return;
    if (is_path(value, 0, "type", NULL) && value->is_string)
        find_type(found, value);
    else if (is_path(value, from, "model", NULL) && value->is_string && value->is_plain)
        (void)snprintf(found->model, sizeof found->model, "%s", value->text);
    else if (is_path(value, 0, "delta", "text") || is_path(value, 0, "delta", "partial_json") ||
             is_path(value, 0, "delta", "thinking"))
        found->piece += value->len;
    else
        find_usage(found, value, from);
}

static void take(struct meter *meter, const struct findings *found)
{
    if (*found->model != '\0')
        memcpy(meter->model, found->model, sizeof meter->model);
    usage_told_merge(&meter->usage, &found->usage);
}

static bool on_event_end(void *data)
{
    struct meter *meter = data;
    const struct findings *found = &meter->found;
    switch (found->type) {
    case EVENT_START:
        take(meter, found);
        break;
    case EVENT_DELTA:
        take(meter, found);
        meter->has_total = (found->usage.mask & 1u << USAGE_OUTPUT) != 0;
        break;
    case EVENT_PIECE:
        meter->bytes += found->piece;
        break;
    case EVENT_STOP:
        meter->is_final = true;
        break;
    case EVENT_OTHER:
        break;
    }
    meter->found = (struct findings){0};
    scan_json_init(&meter->scan, on_value, meter);
    return true;
}

static bool on_piece(void *data, const char *bytes, size_t len)
{
    struct meter *meter = data;
    scan_json_feed(&meter->scan, bytes, len);
    return true;
}

struct meter *meter_new(unsigned status, const char *content_type)
{
    struct meter *meter = calloc(1, sizeof *meter);
    if (meter == NULL)
        abort();
    meter->is_error = status < 200 || status >= 300;
    meter->is_stream =
        content_type != NULL && strncasecmp(content_type, "text/event-stream", 17) == 0;
    sse_init(&meter->sse, on_piece, on_event_end, meter);
    scan_json_init(&meter->scan, on_value, meter);
    return meter;
}

void meter_free(struct meter *meter)
{
    free(meter);
}

void meter_feed(struct meter *meter, const void *data, size_t len)
{
    if (meter->is_error)
        return;
    if (meter->is_stream) {
        (void)sse_feed(&meter->sse, data, len);
        return;
    }
    scan_json_feed(&meter->scan, data, len);
    meter->is_final = meter->scan.state == SCAN_END;
}

void meter_read(const struct meter *meter, struct meter_reading *ret)
{
    struct usage_told told = meter->usage;
    uint64_t guess = meter->bytes / BYTES_PER_TOKEN;
    *ret = (struct meter_reading){.is_final = meter->is_final || meter->is_error};
    memcpy(ret->model, meter->model, sizeof ret->model);
    if (!meter->is_stream) {
        memcpy(ret->model, meter->found.model, sizeof ret->model);
        told = meter->found.usage;
    }
    usage_told_sum(&told, &ret->usage);
    if (!meter->has_total && (int64_t)guess > ret->usage.output)
        ret->usage.output = (int64_t)guess;
}
