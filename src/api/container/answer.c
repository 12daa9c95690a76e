// SPDX-License-Identifier: Apache-2.0
// Answers and events, as the container family writes them.
#include "api/container/container.h"
#include "api/show.h"

static void begin(struct container_answer *answer)
{
    buf_init(&answer->buf, SHOW_MAX);
    json_init(&answer->json, &answer->buf);
    json_open_object(&answer->json);
}

void container_begin(struct container_answer *answer, bool success)
{
    begin(answer);
    show_bool(&answer->json, "success", success);
}

void container_end(struct call *call, struct container_answer *answer)
{
    show_time_now(&answer->json, "timestamp");
    json_close_object(&answer->json);
    call_reply_json(call, 200, &answer->json);
}

void container_event_begin(struct container_answer *event, const char *type)
{
    begin(event);
    show_str(&event->json, "type", type);
}

void container_event_send(struct call *call, struct container_answer *event)
{
    show_time_now(&event->json, "timestamp");
    json_close_object(&event->json);
    stream_event(call, NULL, NULL, &event->json);
}
