// SPDX-License-Identifier: Apache-2.0
// Commands of the container family: what they are asked with, and how they are told. Between its
// own files.
#pragma once

#include "api/command.h"
#include "api/container/container.h"
#include "api/perform.h"

// A command's body. The first member is what perform.h and launch.h take it for; its `session` is
// the one that was named (container_session), once container_command_check has seen it.
struct container_command {
    struct command_body command;
    const char *encoding;
    struct body_bool background, auto_cleanup;
};
extern const struct schema container_command_body;

// 0, or -1 when it was refused and answered.
int container_command_check(struct call *call);
bool container_is_base64(const struct container_command *c); // its output is wanted so

// Whether it ended with its box.
bool container_box_is_gone(const struct call *call, const struct exec_result *r);

// Of a stream that cannot go on, before its end: "error", with the message where their client looks
// for it, and where it should.
void container_event_error(struct call *call, const char *message);
// Text as it was written, with U+FFFD for what is not UTF-8; or base64.
void container_put_output(struct json *j, const char *data, size_t len, bool base64);

void container_exec_stream(struct call *call); // POST /api/execute/stream
void container_commands(struct call *call);    // GET /api/commands
