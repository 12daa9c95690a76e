// SPDX-License-Identifier: Apache-2.0
// 2 memory of every kind, each taken until twice the box's limit is in use. Only the box may
// suffer.
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include "attempt.h"
#include "world.h"

enum {
    STEP = 1 << 20,
};

static long goal(void)
{
    return world.memory * 2 + 32 * (long)STEP;
}

static enum outcome judge_bytes(const char *what, long got, int error)
{
    if (got >= goal())
        return escaped("%ld MiB of %s beside a limit of %ld MiB", got / STEP, what,
                       world.memory / STEP);
    return held("stopped at %ld MiB of %s: %s", got / STEP, what, strerrorname_np(error));
}

static long touch(char *memory, long size, const char *what)
{
    for (long at = 0; at < size; at += STEP) {
        memset(memory + at, 0x5a, STEP);
        progress("%ld MiB of %s", at / STEP, what);
    }
    return size;
}

static enum outcome memory_anonymous(const struct attempt *self)
{
    (void)self;
    if (world.memory == 0)
        return cannot("needs --memory");
    char *memory = mmap(NULL, (size_t)goal(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return judge_bytes("anonymous memory", 0, errno);
    return judge_bytes("anonymous memory", touch(memory, goal(), "anonymous memory"), 0);
}

// Writes until the goal is reached or a write fails.
static enum outcome fill(int fd, const char *what)
{
    static char block[STEP];
    long got = 0;
    memset(block, 0x5a, sizeof(block));
    while (got < goal()) {
        ssize_t n = write(fd, block, sizeof(block));
        if (n <= 0)
            break;
        got += n;
        progress("%ld MiB of %s", got / STEP, what);
    }
    int error = errno;
    close(fd);
    return judge_bytes(what, got, error);
}

static enum outcome memory_shm_files(const struct attempt *self)
{
    (void)self;
    if (world.memory == 0)
        return cannot("needs --memory");
    const char *path = "/dev/shm/cay-escape-hog";
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return cannot("%s: %s", path, strerrorname_np(errno));
    unlink(path);
    return fill(fd, "/dev/shm");
}

static enum outcome memory_memfd(const struct attempt *self)
{
    (void)self;
    if (world.memory == 0)
        return cannot("needs --memory");
    int fd = memfd_create("hog", MFD_CLOEXEC);
    if (fd < 0)
        return held("memfd_create: %s", strerrorname_np(errno));
    return fill(fd, "memfd");
}

static enum outcome memory_sysv(const struct attempt *self)
{
    (void)self;
    if (world.memory == 0)
        return cannot("needs --memory");
    int id = shmget(IPC_PRIVATE, (size_t)goal(), IPC_CREAT | 0600);
    char *memory = id < 0 ? (char *)-1 : shmat(id, NULL, 0);
    int error = errno;
    if (id >= 0)
        shmctl(id, IPC_RMID, NULL); // goes with the last who is attached
    if (memory == (char *)-1)
        return judge_bytes("System V memory", 0, error);
    return judge_bytes("System V memory", touch(memory, goal(), "System V memory"), 0);
}

static enum outcome memory_locked(const struct attempt *self)
{
    (void)self;
    if (world.memory == 0)
        return cannot("needs --memory");
    char *memory = mmap(NULL, (size_t)goal(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    long locked = 0;
    if (memory == MAP_FAILED)
        return judge_bytes("locked memory", 0, errno);
    while (locked < goal() && mlock(memory + locked, STEP) == 0) {
        locked += STEP;
        progress("%ld MiB of locked memory", locked / STEP);
    }
    return judge_bytes("locked memory", locked, errno);
}

// Huge pages are outside the memory limit where the host has set some aside, or lets us do it.
static enum outcome memory_huge_pages(const struct attempt *self)
{
    (void)self;
    size_t size = 64 << 20;
    char *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (memory != MAP_FAILED) {
        munmap(memory, size);
        return escaped("mapped 64 MiB of the host's huge pages");
    }
    return try_open_write("/proc/sys/vm/nr_hugepages");
}

static long cached;

static int read_through(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    static char block[STEP];
    (void)ftw;
    if (flag != FTW_F || st->st_size < 65536)
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n;
    while (fd >= 0 && (n = read(fd, block, sizeof(block))) > 0)
        cached += n;
    if (fd >= 0)
        close(fd);
    return cached > goal();
}

static enum outcome memory_page_cache(const struct attempt *self)
{
    (void)self;
    if (world.memory == 0)
        return cannot("needs --memory");
    nftw("/usr", read_through, 32, FTW_PHYS);
    return held("read %ld MiB through the page cache", cached / STEP);
}

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    {.number = 2,
     .name = "memory_anonymous",
     .tries = "touches twice the allowed memory",
     .held_by = "memory limit of the box's cgroup",
     .canary = "memory",
     .place = ALONE,
     .killed_is_held = true,
     .run = memory_anonymous},
    {.number = 2,
     .name = "memory_shm_files",
     .tries = "fills /dev/shm",
     .held_by = "size of that tmpfs, and the memory limit",
     .canary = "memory,disk",
     .place = ALONE,
     .killed_is_held = true,
     .run = memory_shm_files},
    {.number = 2,
     .name = "memory_memfd",
     .tries = "fills a memfd",
     .held_by = "memory limit of the box's cgroup",
     .canary = "memory",
     .place = ALONE,
     .killed_is_held = true,
     .run = memory_memfd},
    {.number = 2,
     .name = "memory_sysv",
     .tries = "fills a System V segment that no process owns",
     .held_by = "memory limit of the box's cgroup",
     .canary = "memory",
     .place = ALONE,
     .killed_is_held = true,
     .run = memory_sysv},
    {.number = 2,
     .name = "memory_locked",
     .tries = "locks twice the allowed memory",
     .held_by = "RLIMIT_MEMLOCK, and the memory limit",
     .canary = "memory,seccomp,caps,userns",
     .place = ALONE,
     .killed_is_held = true,
     .run = memory_locked},
    {.number = 2,
     .name = "memory_huge_pages",
     .tries = "maps huge pages, or has the host set some aside",
     .held_by = "/proc/sys is read-only, and owned by a user the box does not have",
     .canary = "masks,caps,userns",
     .needs = "file:/proc/sys/vm/nr_hugepages",
     .run = memory_huge_pages},
    {.number = 2,
     .name = "memory_page_cache",
     .tries = "reads more files than fit",
     .held_by = "the memory limit counts cached pages, and reclaims them",
     .no_canary =
         "pages that others have read before are theirs, so the sum differs from run to run",                            .place = OUTSIDE,
     .run = memory_page_cache},
};
// clang-format on

const struct attempt_list memory_attempts = ATTEMPTS(attempts);
