// SPDX-License-Identifier: Apache-2.0
// A witness stands on the host and another in a neighbour box. It owns one of everything that an
// attempt might reach: a process, a port, an abstract socket, System V and POSIX shared memory, a
// semaphore, message queues, a key, a terminal, a file. It says where they are ("PEER ...") and
// then, ten times a second, whether all of it is intact and whether it can still get what every
// process may expect ("BEAT ...").
#pragma once

// Runs until SIGTERM or the death of its parent, then removes what it made.
int witness_run(const char *token);
