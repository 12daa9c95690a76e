// SPDX-License-Identifier: Apache-2.0
// The bytes of a file of a call's sandbox, of any size, with conditions and ranges as HTTP has
// them. On the loop's thread.
#pragma once

#include "api/files.h"

struct file_get {
    const char *type;         // the answer's media type; NULL: by the file's name
    const char *of_directory; // what is added to the error that it is one
};

// Answers with the file that the route's {path*} names. Texts live as long as the program.
void file_get(struct call *call, const struct file_get *get);
