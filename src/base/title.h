// SPDX-License-Identifier: Apache-2.0
// What `ps` shows of a process. A fork of ours carries its parent's command line and environment,
// and a guest's can be read from inside its box: both are overwritten.
#pragma once

// Once, first thing in main. Without it title_set does nothing.
void title_init(int argc, char **argv);
// Replaces the command line, and wipes the environment: getenv answers nothing afterwards.
void title_set(const char *title);
