// SPDX-License-Identifier: Apache-2.0
// Outcomes and the few moves that many attempts share.
#include "verdict.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attempt.h"

static char detail[DETAIL_MAX];
static char *shared_note; // one page, shared with the runner

#define KEEP_DETAIL(fmt)                                                                           \
    do {                                                                                           \
        va_list ap;                                                                                \
        va_start(ap, fmt);                                                                         \
        vsnprintf(detail, sizeof(detail), fmt, ap);                                                \
        va_end(ap);                                                                                \
    } while (0)

enum outcome held(const char *fmt, ...)
{
    KEEP_DETAIL(fmt);
    return HELD;
}

enum outcome escaped(const char *fmt, ...)
{
    KEEP_DETAIL(fmt);
    return ESCAPED;
}

enum outcome cannot(const char *fmt, ...)
{
    KEEP_DETAIL(fmt);
    return CANNOT;
}

const char *verdict_detail(void)
{
    return detail;
}

void progress_share(char *page)
{
    shared_note = page;
}

void progress(const char *fmt, ...)
{
    va_list ap;
    if (shared_note == NULL)
        return;
    va_start(ap, fmt);
    vsnprintf(shared_note, DETAIL_MAX, fmt, ap);
    va_end(ap);
}

enum outcome judge_call(const char *what, long result, const int *refusals)
{
    int error = errno;
    if (result >= 0)
        return escaped("%s succeeded", what);
    for (; *refusals != 0; refusals++) {
        if (error == *refusals)
            return held("%s: %s", what, strerrorname_np(error));
    }
    return escaped("%s got past the refusal: %s", what, strerrorname_np(error));
}

enum outcome try_open_write(const char *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    enum outcome outcome = judge_call(path, fd, REFUSALS_AND(ENOENT, ENOTDIR));
    if (fd >= 0)
        close(fd);
    return outcome;
}

enum outcome try_read(const char *path)
{
    char word[8]; // some files give no less
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return judge_call(path, fd, REFUSALS_AND(ENOENT, ENOTDIR));
    ssize_t n = read(fd, word, sizeof(word));
    int error = errno;
    close(fd);
    if (n == 0)
        return held("%s is empty", path);
    if (n < 0)
        return held("%s: read: %s", path, strerrorname_np(error));
    return escaped("%s can be read", path);
}

static char scratch_dir[64];

// One level deep, which is all that attempts make; what is deeper goes with the box.
void scratch_remove(void)
{
    DIR *dir = scratch_dir[0] != '\0' ? opendir(scratch_dir) : NULL;
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (unlinkat(dirfd(dir), entry->d_name, 0) < 0)
            (void)unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
    }
    if (dir != NULL)
        closedir(dir);
    rmdir(scratch_dir);
    scratch_dir[0] = '\0';
}

bool scratch_make(void)
{
    snprintf(scratch_dir, sizeof(scratch_dir), "/tmp/cay-escape-XXXXXX");
    if (mkdtemp(scratch_dir) != NULL)
        return true;
    scratch_dir[0] = '\0';
    return false;
}

const char *scratch(void)
{
    return scratch_dir;
}

const char *scratch_path(const char *name)
{
    static char path[sizeof(scratch_dir) + 64];
    snprintf(path, sizeof(path), "%s/%s", scratch_dir, name);
    return path;
}
