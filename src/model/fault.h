// SPDX-License-Identifier: Apache-2.0
// Why there is no message: what it is called, what is said to people, and whether asking again may
// help, and when.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/fetch.h"
#include "model/message.h"
#include "model/model.h"
#include "model/stream.h"

struct fault {
    enum model_end end;
    bool may_ask_again;
    int64_t retry_after_ms; // -1: nothing was said
    char type[64];
    char message[1200];
};

void fault_set(struct fault *fault, enum model_end end, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// An answer that says that it is none; `body` as far as it was kept.
void fault_of_status(struct fault *fault, const struct fetch_head *head, const char *body,
                     size_t len);
void fault_of_stream(struct fault *fault, const struct stream *stream);
// The connection failed, or ended in the middle of an answer that had begun well.
void fault_of_network(struct fault *fault, const struct fetch_end *end, bool had_begun);

// Takes whatever is secret in that header line out of a text, wherever the API echoes it, and what
// does not belong into a line for people.
void fault_hide(char *text, const char *header);
void fault_hide_secret(char *text, const char *secret);

// How long to wait before asking again for the nth time (from 0).
int64_t fault_wait_ms(const struct fault *fault, unsigned n);
