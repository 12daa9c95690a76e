// SPDX-License-Identifier: Apache-2.0
// One block of a message while its pieces arrive: how it began, and what each kind of piece adds to
// which of its members.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/json-in.h"
#include "model/raw.h"

enum block_part {
    BLOCK_TEXT,
    BLOCK_THINKING,
    BLOCK_SIGNATURE,
    BLOCK_CITATIONS,
    BLOCK_INPUT,
    BLOCK_PART_MAX,
};

struct block {
    struct buf start; // the object it began with
    struct buf parts[BLOCK_PART_MAX];
    bool ended;
};

int block_init(struct block *block, struct raw start); // 0 or -ENOMEM
void block_done(struct block *block);
// Which part a piece is for; BLOCK_PART_MAX: one of a kind that is not known, to be passed over.
enum block_part block_part_of(const char *delta_type);
// `raw` and `node` are the same delta. 0, -EINVAL: it lacks what it should have, -ENOMEM, -E2BIG.
int block_add(struct block *block, enum block_part part, struct raw raw,
              const struct json_node *node);
int block_write(const struct block *block, struct buf *out);
