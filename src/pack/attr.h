// SPDX-License-Identifier: Apache-2.0
// Extended attributes between files and entries of archives: which of them there are.
#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <stdbool.h>

#include "base/err.h"

// Adds those of the open file to the entry.
int attr_read(int fd, bool is_disk, struct archive_entry *entry, struct err *err);
// Gives the open file those of the entry. Of those that are not a box's business some are passed
// over, and what overlayfs would obey is refused.
int attr_write(int fd, bool is_disk, struct archive_entry *entry, struct err *err);
// Whether the entry has any that would be refused: for what no attributes are set on.
int attr_check(bool is_disk, struct archive_entry *entry, struct err *err);
