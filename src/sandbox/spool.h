// SPDX-License-Identifier: Apache-2.0
// What was just read from a terminal, until it is in its log. A pipe's bytes go into the log by
// splice(2) and are always in one or the other; a terminal's have to be read into memory, and those
// would be lost if the daemon were killed before it wrote them. So they are read into a page of a
// file: read(2) puts them there in the same system call that takes them from the terminal, and the
// next daemon finds them.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "sandbox/log.h"

struct spool;

// File "<number>.tty" in the directory, made if it is not there. What it has that the log lacks is
// appended to the log.
int spool_open(int dirfd, int64_t number, struct bytelog *log, struct spool **ret, struct err *err);
void spool_free(struct spool *spool); // takes NULL
void spool_remove(int dirfd, int64_t number);

// Moves what a terminal has into its log, a piece at a time. As bytelog_splice: -EIO when nobody
// has it open on the other side.
ssize_t spool_move(struct spool *spool, struct bytelog *log, int tty);
