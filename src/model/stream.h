// SPDX-License-Identifier: Apache-2.0
// Puts a streamed answer together: events in, the message out that the API would have sent in one
// piece, byte for byte where it can be. Blocks of kinds that it does not know stay as they began.
// Bounded: what it keeps of a message is at most MESSAGE_MAX. No loop, any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "model/message.h"
#include "model/model.h"

struct stream;

enum stream_state {
    STREAM_OPEN,
    STREAM_WHOLE,  // message_stop was there
    STREAM_ERROR,  // an error came as an event: stream_error
    STREAM_BROKEN, // what came is not a message: stream_error has a sentence
    STREAM_LARGE,  // it is longer than a message may be
    STREAM_HALTED, // the callback wanted no more
};

// Answers whether to go on.
typedef bool (*stream_event_fn)(void *data, const struct model_event *event);
struct stream *stream_new(stream_event_fn event, void *data); // event may be NULL
void stream_free(struct stream *stream);                      // takes NULL
enum stream_state stream_feed(struct stream *stream, const char *bytes, size_t len);
enum stream_state stream_state(const struct stream *stream);
void stream_usage(const struct stream *stream, struct model_usage *ret); // until now, about
size_t stream_size(const struct stream *stream);                         // bytes that it has, about
const struct api_error *stream_error(const struct stream *stream);
// The message, of one that is not whole what was told of it (without content). 0, or -ENOMEM and
// the content is not all there.
int stream_message(const struct stream *stream, struct message *ret);
