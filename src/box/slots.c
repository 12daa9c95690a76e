// SPDX-License-Identifier: Apache-2.0
#include "box/slots.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

static int open_lock_file(struct err *err)
{
    if (mkdir("/run/cay", 0700) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make /run/cay");
    int fd = open("/run/cay/slots", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? err_sys(err, errno, "open /run/cay/slots") : fd;
}

// Where to look first: neighbours in time should not fight over the same bytes.
static uint32_t first_guess(uint32_t n)
{
    uint32_t runs = SLOTS_TOTAL / n;
    return (uint32_t)getpid() % runs * n;
}

static struct flock lock_of(uint32_t first, uint32_t n, short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = n};
}

// Where runs of other sizes lie in between: wherever there is room, from one lock to the next.
static int take_between(int fd, uint32_t n, uint32_t *ret_first)
{
    for (off_t first = 0; first + n <= SLOTS_TOTAL;) {
        struct flock lock = lock_of((uint32_t)first, n, F_WRLCK), in_way = lock;
        if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
            *ret_first = (uint32_t)first;
            return 0;
        }
        if (fcntl(fd, F_OFD_GETLK, &in_way) < 0)
            return -errno;
        if (in_way.l_type != F_UNLCK) // else it has gone meanwhile
            first = in_way.l_len > 0 ? in_way.l_start + in_way.l_len : SLOTS_TOTAL;
    }
    return -EAGAIN;
}

int slots_take(uint32_t n, struct slots *ret, struct err *err)
{
    if (n < 2 || n > SLOTS_TOTAL)
        return err_set(err, ERR_INVALID, "a keeper takes 2 to %d slots", SLOTS_TOTAL);
    auto_fd fd = open_lock_file(err);
    if (fd < 0)
        return -1;
    uint32_t start = first_guess(n), last = SLOTS_TOTAL / n * n;
    for (uint32_t step = 0; step < last; step += n) {
        uint32_t first = (start + step) % last;
        struct flock lock = lock_of(first, n, F_WRLCK);
        if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
            *ret = (struct slots){.lock_fd = TAKE_FD(fd), .first = first, .n = n};
            return 0;
        }
        if (errno != EAGAIN && errno != EACCES)
            return err_sys(err, errno, "lock /run/cay/slots");
    }
    if (take_between(fd, n, &start) == 0) {
        *ret = (struct slots){.lock_fd = TAKE_FD(fd), .first = start, .n = n};
        return 0;
    }
    return err_set(err, ERR_EXHAUSTED, "no run of %u free slots: too many boxes on this machine",
                   n);
}

void slots_done(struct slots *slots)
{
    fd_close(slots->lock_fd);
    slots->lock_fd = -1;
}

static int set_lock(const struct slots *slots, uint32_t slot, short type)
{
    struct flock lock = lock_of(slot, 1, type);
    return fcntl(slots->lock_fd, F_OFD_SETLK, &lock);
}

int slots_hold(const struct slots *slots, uint32_t slot)
{
    int ours = slot >= slots->first && slot < slots->first + slots->n;
    return !ours && slot < SLOTS_TOTAL && set_lock(slots, slot, F_WRLCK) == 0;
}

void slots_release(const struct slots *slots, uint32_t slot)
{
    (void)set_lock(slots, slot, F_UNLCK);
}
