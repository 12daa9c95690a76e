// SPDX-License-Identifier: Apache-2.0
// The page is cleared, and gets the log's size, before each read. So whatever is found in it has
// come behind that size; the part that is in the log already is what the log has grown by since.
// How much was read is not stored anywhere: a daemon may be killed inside read(2). It is all before
// the last byte that is not CLEAR, a byte that text never has.
#include "sandbox/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"

enum {
    PAGE = 4096, // a terminal hands out no more at once
    CLEAR = 0xff,
    NAME_SIZE = 32,
};

struct page {
    uint64_t at; // size of the log before it
    uint8_t data[PAGE - sizeof(uint64_t)];
};

struct spool {
    int fd;
    struct page *page;   // of the file
    uint8_t clear[PAGE]; // how it is before a read
};

static void name_of(char name[static NAME_SIZE], int64_t number)
{
    (void)snprintf(name, NAME_SIZE, "%" PRId64 ".tty", number);
}

static void recover(const struct spool *spool, struct bytelog *log)
{
    const struct page *page = spool->page;
    uint64_t size = bytelog_size(log);
    size_t len = sizeof page->data;
    while (len > 0 && page->data[len - 1] == CLEAR)
        len--;
    if (page->at <= size && size - page->at < len)
        (void)bytelog_append(log, page->data + (size - page->at), len - (size_t)(size - page->at));
}

// Written, not stored through the mapping: a full disk is an error then, and not a signal.
static int clear(struct spool *spool, uint64_t at)
{
    memcpy(spool->clear, &at, sizeof at);
    ssize_t n = pwrite(spool->fd, spool->clear, PAGE, 0);
    return n == PAGE ? 0 : n < 0 ? -errno : -EIO;
}

static int open_page(struct spool *spool, int dirfd, const char *name, struct bytelog *log)
{
    struct page found;
    spool->fd = openat(dirfd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (spool->fd < 0)
        return -errno;
    bool is_new = pread(spool->fd, &found, sizeof found, 0) != sizeof found;
    int r = is_new ? clear(spool, bytelog_size(log)) : 0;
    if (r < 0)
        return r;
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, spool->fd, 0);
    if (page == MAP_FAILED)
        return -errno;
    spool->page = page;
    return 0;
}

int spool_open(int dirfd, int64_t number, struct bytelog *log, struct spool **ret, struct err *err)
{
    char name[NAME_SIZE];
    struct spool *spool = calloc(1, sizeof *spool);
    if (spool == NULL)
        abort();
    memset(spool->clear, CLEAR, sizeof spool->clear);
    name_of(name, number);
    int r = open_page(spool, dirfd, name, log);
    if (r < 0) {
        spool_free(spool);
        return err_sys(err, -r, "open %s", name);
    }
    recover(spool, log);
    *ret = spool;
    return 0;
}

void spool_free(struct spool *spool)
{
    if (spool == NULL)
        return;
    if (spool->page != NULL)
        (void)munmap(spool->page, PAGE);
    fd_close(spool->fd);
    free(spool);
}

void spool_remove(int dirfd, int64_t number)
{
    char name[NAME_SIZE];
    name_of(name, number);
    (void)unlinkat(dirfd, name, 0);
}

ssize_t spool_move(struct spool *spool, struct bytelog *log, int tty)
{
    uint8_t plain[PAGE];
    ssize_t n;
    // Without room for the page there is none in the log either.
    void *to = clear(spool, bytelog_size(log)) == 0 ? spool->page->data : plain;
    do {
        n = read(tty, to, sizeof spool->page->data);
        if (n < 0 && errno == EFAULT && to != plain) { // a full disk, seen late
            to = plain;
            errno = EINTR;
        }
    } while (n < 0 && errno == EINTR);
    if (n > 0)
        (void)bytelog_append(log, to, (size_t)n);
    return n < 0 ? -errno : n;
}
