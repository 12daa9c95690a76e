// SPDX-License-Identifier: Apache-2.0
// A walk through what is meant of a tree: without what --exclude, --include and, with --gitignore,
// the tree's own .gitignore files leave out.
#pragma once

#include "base/err.h"
#include "pack/walk.h"

struct job;
struct select;

struct select *select_new(const struct job *job, int dir, struct err *err);
void select_free(struct select *select);
int select_next(struct select *select, struct walk_entry *ret, struct err *err); // as walk_next
