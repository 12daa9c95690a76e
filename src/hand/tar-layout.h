// SPDX-License-Identifier: Apache-2.0
// Where things are in a block that is a header.
#pragma once

#include <stdint.h>

struct tar_layout {
    char name[100];
    char mode[8], uid[8], gid[8];
    char size[12], mtime[12];
    char sum[8];
    char type;
    char link[100];
    char magic[6], version[2]; // "ustar" NUL "00"; GNU's own "ustar " " " NUL
    char user[32], group[32];
    char major[8], minor[8];
    union {
        struct {
            char prefix[155];
            char pad[12];
        } posix;
        struct { // GNU's own, where it is no name but what a sparse file needs
            char times[24], offset[12], names[4], unused;
            struct {
                char at[12], len[12];
            } map[4];
            char more;
            char real_size[12];
            char pad[17];
        } gnu;
    } last;
};
_Static_assert(sizeof(struct tar_layout) == 512, "a header is one block");
