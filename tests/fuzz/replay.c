// SPDX-License-Identifier: Apache-2.0
// A fuzzer's seeds as a plain test, for builds without libFuzzer: every file of the directory, and
// every beginning of it.
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SEED_MAX = 128 * 1024 };

static int replay(int dir, const char *name)
{
    static char seed[SEED_MAX];
    ssize_t n = fd_read_file(dir, name, seed, sizeof seed);
    if (n < 0)
        return -1;
    size_t step = n > 512 ? (size_t)n / 64 : 1;
    for (size_t len = 0; len < (size_t)n; len += step)
        (void)LLVMFuzzerTestOneInput((const uint8_t *)seed, len);
    return LLVMFuzzerTestOneInput((const uint8_t *)seed, (size_t)n);
}

int main(int argc, char **argv)
{
    DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
    int n = 0;
    if (dir == NULL) {
        printf("Bail out! no directory of seeds\n");
        return 1;
    }
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        int r = replay(dirfd(dir), e->d_name);
        printf("%s %d - %s\n", r == 0 ? "ok" : "not ok", ++n, e->d_name);
        (void)fflush(stdout);
    }
    printf("1..%d\n", n);
    (void)closedir(dir);
    return n > 0 ? 0 : 1;
}
