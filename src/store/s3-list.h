// SPDX-License-Identifier: Apache-2.0
// A page of an S3's list, as it is written in XML.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct s3_item {
    char *key; // with the store's prefix; not checked
    uint64_t size;
    int64_t modified_ms;
};

struct s3_page {
    struct s3_item *items;
    unsigned n, cap;
    bool is_list, has_more, is_encoded;
    char *token;         // of the next one
    struct s3_item item; // that is being read
    bool item_has_size;
};

int s3_page_read(struct s3_page *page, const char *text, size_t len); // 0 or -errno
void s3_page_done(struct s3_page *page);
