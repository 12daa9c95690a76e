// SPDX-License-Identifier: Apache-2.0
// Paths and modes of files in a sandbox, as requests have them: the one place where they are
// refused. A path is absolute and written in one way only, so that what was checked is what is
// opened. No state, any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    FILE_PATH_MAX = 4095, // bytes
    FILE_NAME_MAX = 255,  // of one component
    FILE_MODE_MAX = 0777, // no setuid, setgid or sticky bit comes from outside
};

int file_path_check(const char *path, struct err *err); // "/", "/a/b"
// "/" and what a route's {path*} took.
int file_path_of_param(const char *param, char ret[FILE_PATH_MAX + 1], struct err *err);
// "644", "0644". At most FILE_MODE_MAX.
int file_mode_read(const char *text, uint32_t *ret, struct err *err);
const char *file_media_type(const char *path); // by its ending
const char *file_base_name(const char *path);  // behind the last slash
// "/a" and "b" are "/a/b"; "" adds nothing.
void file_path_join(struct buf *ret, const char *dir, const char *relative);

// Where a page of a listing ended, as text that survives a URL: the path itself, or "~" and
// hexadecimal digits where it is not UTF-8 (or begins with "~").
void file_mark_write(struct buf *ret, const char *path);
int file_mark_read(const char *mark, struct buf *ret, struct err *err);
