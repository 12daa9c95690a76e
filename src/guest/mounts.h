// SPDX-License-Identifier: Apache-2.0
// Putting a root together of detached mounts, with nothing of it trusted: mount points are opened
// component by component, without following a link, before anything is put on them. 0 or -errno.
#pragma once

// From path `from_path` of `from` ("" for `from` itself, a detached mount).
int mounts_attach(int root, int from, const char *from_path, const char *target);
int mounts_enter(int root); // it becomes /, and what was / is gone
