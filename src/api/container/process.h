// SPDX-License-Identifier: Apache-2.0
// Background processes of the container family: those of the native one (process.h), in its words.
// Between its own files.
#pragma once

#include "api/container/container.h"
#include "sandbox/process.h"

void container_process_start(struct call *call); // POST /api/process/start; of a container_command

// The one that the path names, lent for the call; NULL when it was answered that there is none.
struct process *container_process(struct call *call);
const char *container_process_status(const struct process *p);        // "running", "completed"
bool container_process_is_base64(const struct process *p);            // its output is wanted so
void container_process_show(struct json *j, const struct process *p); // members of an open object
void container_process_command(struct json *j, const struct process *p); // its text
bool container_process_is_over(const struct process *p); // to be cleaned up, as was asked

void container_process_logs(struct call *call);
void container_process_stream(struct call *call);
void container_process_kill(struct call *call);
void container_process_kill_all(struct call *call);
extern const struct schema container_signal_body;
