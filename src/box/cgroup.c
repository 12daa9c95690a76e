// SPDX-License-Identifier: Apache-2.0
#include "box/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/weaken.h"

enum { CPU_PERIOD_US = 100000 };

struct cgroups {
    int v2;                          // the controllers are in cgroup2
    int unified;                     // cay/ in cgroup2
    int control[CGROUP_CONTROL_MAX]; // cay/ in each controller's hierarchy; with v2 all are
                                     // `unified`
    int repeats[CGROUP_CONTROL_MAX]; // it is the hierarchy of one before it, so it is there already
};

static const char *const control_names[CGROUP_CONTROL_MAX] = {"memory", "pids", "cpu"};

// --- finding the hierarchies ---

static int has_word(const char *list, size_t len, const char *word, char separator)
{
    size_t n = strlen(word);
    for (const char *p = list, *end = list + len; p < end;) {
        const char *stop = memchr(p, separator, (size_t)(end - p));
        size_t w = (size_t)((stop != NULL ? stop : end) - p);
        if (w == n && memcmp(p, word, n) == 0)
            return 1;
        p += w + 1;
    }
    return 0;
}

// One line of /proc/self/mountinfo: is it a mount of `type`, for cgroup v1 with `controller`?
static int is_mount_of(const char *line, size_t len, const char *type, const char *controller)
{
    const char *tail = memmem(line, len, " - ", 3);
    if (tail == NULL)
        return 0;
    tail += 3;
    size_t left = len - (size_t)(tail - line), n = strlen(type);
    if (left <= n || memcmp(tail, type, n) != 0 || tail[n] != ' ')
        return 0;
    const char *options = memrchr(tail, ' ', left);
    return controller == NULL ||
           has_word(options + 1, left - (size_t)(options + 1 - tail), controller, ',');
}

// Opens the mount point of such a line, its fifth field. Octal escapes mean a strange place: not
// ours.
static int open_mount(const char *line, size_t len)
{
    char path[256];
    for (int field = 0; field < 4; field++) {
        const char *space = memchr(line, ' ', len);
        if (space == NULL)
            return -EINVAL;
        len -= (size_t)(space + 1 - line);
        line = space + 1;
    }
    size_t n = strcspn(line, " ");
    if (n >= sizeof path || memchr(line, '\\', n) != NULL)
        return -EINVAL;
    (void)snprintf(path, sizeof path, "%.*s", (int)n, line);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

// The hierarchy where the host has mounted it. Mounting cgroup2 once more would be simpler, but
// resets its options for the whole machine. -ENOENT when it is nowhere.
static int find_mount(const char *mountinfo, const char *type, const char *controller)
{
    for (const char *line = mountinfo; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        int fd = is_mount_of(line, len, type, controller) ? open_mount(line, len) : -1;
        if (fd >= 0)
            return fd;
        line += len;
        line += *line == '\n';
    }
    return -ENOENT;
}

static int mount_detached(const char *type, const char *flag)
{
    auto_fd fs = fsopen(type, FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    if (flag != NULL && fsconfig(fs, FSCONFIG_SET_FLAG, flag, NULL, 0) < 0)
        return -errno;
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    int fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    return fd < 0 ? -errno : fd;
}

// Whether a controller sits in a v1 hierarchy, by the lines "ID:LIST:PATH" of /proc/self/cgroup.
static int is_in_v1(const char *proc_text, const char *controller)
{
    for (const char *line = proc_text; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        const char *list = memchr(line, ':', len);
        const char *end =
            list != NULL ? memchr(list + 1, ':', len - (size_t)(list + 1 - line)) : NULL;
        if (end != NULL && has_word(list + 1, (size_t)(end - list - 1), controller, ','))
            return 1;
        line += len;
        line += *line == '\n';
    }
    return 0;
}

// Joining a cgroup normally waits for a grace period of all CPUs, 13 ms on a quiet machine.
// Mounting any hierarchy with favordynmods once makes joins cheap (about 30 us) until the next
// boot, on kernels from 6.18; forks become dearer by less than can be measured. On older ones it
// lasts as long as the mount, so the descriptor stays open. The mark in /run says that it was done
// since boot.
static void favour_joins(void)
{
    static int kept = -1;
    if (kept >= 0 || access("/run/cay/joins-favoured", F_OK) == 0)
        return;
    auto_fd fs = fsopen("cgroup", FSOPEN_CLOEXEC);
    if (fs < 0 || fsconfig(fs, FSCONFIG_SET_FLAG, "none", NULL, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "name", "cay", 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FLAG, "favordynmods", NULL, 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return;               // slower, not weaker
    kept = fsmount(fs, 0, 0); // a program that takes over in our place shall have it, too
    fd_close(open("/run/cay/joins-favoured", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
}

static int open_parent(int root, struct err *err)
{
    if (mkdirat(root, "cay", 0755) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make cgroup 'cay'");
    int fd = openat(root, "cay", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? err_sys(err, errno, "open cgroup 'cay'") : fd;
}

// Hands the three controllers down to cay/ and to the boxes below it.
static int enable_v2(int root, int parent, struct err *err)
{
    char have[256];
    if (fd_read_file(root, "cgroup.controllers", have, sizeof have) < 0)
        have[0] = '\0';
    for (int i = 0; i < CGROUP_CONTROL_MAX; i++) {
        char add[16];
        if (!has_word(have, strcspn(have, "\n"), control_names[i], ' '))
            return err_set(err, ERR_UNSUPPORTED,
                           "the kernel offers no '%s' cgroup controller, so a limit could not be "
                           "enforced; enable it (cgroup_enable=%s)",
                           control_names[i], control_names[i]);
        (void)snprintf(add, sizeof add, "+%s", control_names[i]);
        int r = fd_write_file(root, "cgroup.subtree_control", add);
        if (r == 0)
            r = fd_write_file(parent, "cgroup.subtree_control", add);
        if (r < 0)
            return err_sys(err, -r, "enable cgroup controller '%s'", control_names[i]);
    }
    return 0;
}

static int is_same(int a, int b)
{
    struct stat one, other;
    return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

// With v2 the one directory is the unified one; in v1 several controllers may share a hierarchy.
static void find_repeats(struct cgroups *c)
{
    for (int i = 0; i < CGROUP_CONTROL_MAX; i++) {
        c->repeats[i] = c->v2;
        for (int j = 0; j < i; j++)
            c->repeats[i] = c->repeats[i] || is_same(c->control[i], c->control[j]);
    }
}

int cgroups_open_at(int unified, const int control[CGROUP_CONTROL_MAX], struct cgroups **ret,
                    struct err *err)
{
    struct cgroups *c = calloc(1, sizeof *c);
    if (c == NULL)
        return err_sys(err, ENOMEM, "cgroups");
    c->v2 = control[CGROUP_MEMORY] == unified;
    c->unified = open_parent(unified, err);
    int r = c->unified < 0 ? -1 : 0;
    if (r == 0 && c->v2)
        r = enable_v2(unified, c->unified, err);
    for (int i = 0; i < CGROUP_CONTROL_MAX; i++) {
        c->control[i] = r < 0 ? -1 : c->v2 ? c->unified : open_parent(control[i], err);
        if (c->control[i] < 0)
            r = -1;
        if (control[i] != unified)
            fd_close(control[i]);
    }
    fd_close(unified);
    if (r < 0) {
        cgroups_free(c);
        return r;
    }
    find_repeats(c);
    *ret = c;
    return 0;
}

static int open_unified(const char *mountinfo)
{
    int fd = find_mount(mountinfo, "cgroup2", NULL);
    return fd == -ENOENT ? mount_detached("cgroup2", "favordynmods") : fd;
}

// All three controllers, either all from v1 hierarchies or all from cgroup2. On failure none is
// open.
static int open_controls(const char *mountinfo, const char *proc_text, int unified,
                         int ret_control[CGROUP_CONTROL_MAX], struct err *err)
{
    int in_v1 = is_in_v1(proc_text, control_names[0]);
    for (int i = 0; i < CGROUP_CONTROL_MAX; i++) {
        const char *name = control_names[i];
        int r = unified;
        if (is_in_v1(proc_text, name) != in_v1) {
            r = err_set(
                err, ERR_UNSUPPORTED,
                "the cgroup controllers memory and %s are in different versions of cgroups; "
                "mount memory, pids and cpu the same way",
                name);
        } else if (in_v1) {
            r = find_mount(mountinfo, "cgroup", name);
            if (r == -ENOENT)
                r = mount_detached("cgroup", name);
            if (r < 0)
                (void)err_sys(err, -r, "open the cgroup hierarchy of '%s'", name);
        }
        if (r < 0) {
            while (in_v1 && --i >= 0)
                fd_close(ret_control[i]);
            return -1;
        }
        ret_control[i] = r;
    }
    return 0;
}

int cgroups_open(struct cgroups **ret, struct err *err)
{
    enum { MOUNTINFO_MAX = 1 << 20 };
    char text[4096];
    int control[CGROUP_CONTROL_MAX];
    if (fd_read_file(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) < 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "this kernel has no cgroups, so limits cannot be enforced");
    auto_free char *mountinfo = malloc(MOUNTINFO_MAX);
    if (mountinfo == NULL ||
        fd_read_file(AT_FDCWD, "/proc/self/mountinfo", mountinfo, MOUNTINFO_MAX) < 0)
        return err_set(err, ERR_INTERNAL, "cannot read /proc/self/mountinfo");
    favour_joins();
    int unified = open_unified(mountinfo);
    if (unified < 0)
        return err_sys(err, -unified, "open the cgroup2 hierarchy");
    if (open_controls(mountinfo, text, unified, control, err) < 0) {
        fd_close(unified);
        return -1;
    }
    return cgroups_open_at(unified, control, ret, err);
}

void cgroups_free(struct cgroups *cgroups)
{
    if (cgroups == NULL)
        return;
    for (int i = 0; !cgroups->v2 && i < CGROUP_CONTROL_MAX; i++)
        fd_close(cgroups->control[i]);
    fd_close(cgroups->unified);
    free(cgroups);
}

int cgroups_is_v2(const struct cgroups *cgroups)
{
    return cgroups->v2;
}

// --- one box ---

struct name {
    char text[48];
};

static struct name name_of(uint32_t slot, const char *file)
{
    struct name n;
    (void)snprintf(n.text, sizeof n.text, "%" PRIu32 "%s%s", slot, file != NULL ? "/" : "",
                   file != NULL ? file : "");
    return n;
}

static int set(int parent, uint32_t slot, const char *file, uint64_t value)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    return fd_write_file(parent, name_of(slot, file).text, text);
}

static int limit_v1(struct cgroups *c, uint32_t slot, const struct box_limits *l)
{
    int memory = c->control[CGROUP_MEMORY], cpu = c->control[CGROUP_CPU];
    int r = weaken(WEAKEN_MEMORY) ? 0 : set(memory, slot, "memory.limit_in_bytes", l->memory);
    // Present only where swap is accounted. It may never be below the limit above, so that going up
    // it has to go first.
    int swap =
        weaken(WEAKEN_MEMORY) ? 0 : set(memory, slot, "memory.memsw.limit_in_bytes", l->memory);
    if (r == -EINVAL)
        r = set(memory, slot, "memory.limit_in_bytes", l->memory);
    if (r == 0 && swap < 0 && swap != -ENOENT)
        r = swap;
    if (r == 0 && !weaken(WEAKEN_PIDS))
        r = set(c->control[CGROUP_PIDS], slot, "pids.max", l->pids);
    if (r == 0 && l->cpu_milli > 0 && !weaken(WEAKEN_CPU))
        r = set(cpu, slot, "cpu.cfs_quota_us", (uint64_t)l->cpu_milli * (CPU_PERIOD_US / 1000));
    return r;
}

static int limit_v2(struct cgroups *c, uint32_t slot, const struct box_limits *l)
{
    char cpu[48];
    (void)snprintf(cpu, sizeof cpu, "%" PRIu64 " %d",
                   (uint64_t)l->cpu_milli * (CPU_PERIOD_US / 1000), CPU_PERIOD_US);
    int r = weaken(WEAKEN_MEMORY) ? 0 : set(c->unified, slot, "memory.max", l->memory);
    int swap = weaken(WEAKEN_MEMORY) ? 0 : set(c->unified, slot, "memory.swap.max", 0);
    if (r == 0 && swap < 0 && swap != -ENOENT)
        r = swap;
    if (r == 0 && !weaken(WEAKEN_PIDS))
        r = set(c->unified, slot, "pids.max", l->pids);
    if (r == 0 && l->cpu_milli > 0 && !weaken(WEAKEN_CPU))
        r = fd_write_file(c->unified, name_of(slot, "cpu.max").text, cpu);
    return r;
}

int cgroups_limit(struct cgroups *c, uint32_t slot, const struct box_limits *limits,
                  struct err *err)
{
    int r = c->v2 ? limit_v2(c, slot, limits) : limit_v1(c, slot, limits);
    return r < 0 ? err_sys(err, -r, "set the limits of a box") : 0;
}

static int make_dir(int parent, uint32_t slot)
{
    struct name name = name_of(slot, NULL);
    if (mkdirat(parent, name.text, 0755) == 0)
        return 0;
    return -errno;
}

static int make_dirs(struct cgroups *c, uint32_t slot)
{
    int r = make_dir(c->unified, slot);
    for (int i = 0; r == 0 && i < CGROUP_CONTROL_MAX; i++)
        r = c->repeats[i] ? 0 : make_dir(c->control[i], slot);
    return r;
}

// The guest makes a cgroup for each exec below its own; that takes the directory and its
// cgroup.procs.
static int delegate(struct cgroups *c, uint32_t slot, uint32_t owner)
{
    if (fchownat(c->unified, name_of(slot, NULL).text, owner, owner, AT_SYMLINK_NOFOLLOW) < 0 ||
        fchownat(c->unified, name_of(slot, "cgroup.procs").text, owner, owner, 0) < 0)
        return -errno;
    return 0;
}

int cgroups_make(struct cgroups *c, uint32_t slot, uint32_t owner, const struct box_limits *limits,
                 struct err *err)
{
    int r = make_dirs(c, slot);
    if (r == -EEXIST) { // the slot is ours, so whoever made it is dead
        r = cgroups_clear(c, slot);
        if (r == 0)
            r = make_dirs(c, slot);
    }
    if (r == 0)
        r = delegate(c, slot, owner);
    if (r < 0)
        (void)err_sys(err, -r, "make the cgroups of a box");
    else
        r = cgroups_limit(c, slot, limits, err);
    if (r < 0)
        (void)cgroups_remove(c, slot);
    return r < 0 ? -1 : 0;
}

int cgroups_open_dir(struct cgroups *c, uint32_t slot, struct err *err)
{
    int fd = openat(c->unified, name_of(slot, NULL).text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? err_sys(err, errno, "open the cgroup of a box") : fd;
}

int cgroups_join(struct cgroups *c, uint32_t slot, pid_t pid, struct err *err)
{
    int r = set(c->unified, slot, "cgroup.procs", (uint64_t)pid);
    for (int i = 0; r == 0 && i < CGROUP_CONTROL_MAX; i++)
        r = c->repeats[i] ? 0 : set(c->control[i], slot, "cgroup.procs", (uint64_t)pid);
    return r < 0 ? err_sys(err, -r, "put a box into its cgroups") : 0;
}

int cgroups_gauges(struct cgroups *c, uint32_t slot, struct cgroup_gauges *ret, struct err *err)
{
    const char *memory = c->v2 ? "memory.events" : "memory.oom_control";
    int m = openat(c->control[CGROUP_MEMORY], name_of(slot, memory).text, O_RDONLY | O_CLOEXEC);
    int p =
        openat(c->control[CGROUP_PIDS], name_of(slot, "pids.events").text, O_RDONLY | O_CLOEXEC);
    if (m < 0 || p < 0) {
        (void)err_sys(err, errno, "open the gauges of a box");
        fd_close(m);
        fd_close(p);
        return -1;
    }
    ret->memory = m;
    ret->pids = p;
    return 0;
}

void cgroups_stats(struct cgroups *c, uint32_t slot, struct cgroup_stats *ret)
{
    char text[512];
    int memory = c->control[CGROUP_MEMORY];
    *ret = (struct cgroup_stats){0};
    const char *peak = c->v2 ? "memory.peak" : "memory.max_usage_in_bytes";
    if (fd_read_file(memory, name_of(slot, peak).text, text, sizeof text) > 0)
        ret->memory_peak = strtoull(text, NULL, 10);
    const char *events = c->v2 ? "memory.events" : "memory.oom_control";
    if (fd_read_file(memory, name_of(slot, events).text, text, sizeof text) > 0) {
        const char *kills = strstr(text, "\noom_kill ");
        ret->oom_kills = kills != NULL ? (uint32_t)strtoul(kills + 10, NULL, 10) : 0;
    }
}

static uint64_t read_number(int parent, uint32_t slot, const char *file)
{
    char text[64];
    ssize_t n = fd_read_file(parent, name_of(slot, file).text, text, sizeof text);
    return n > 0 ? strtoull(text, NULL, 10) : 0;
}

void cgroups_usage(struct cgroups *c, uint32_t slot, struct cgroup_usage *ret)
{
    char text[512];
    struct cgroup_stats stats;
    cgroups_stats(c, slot, &stats);
    *ret = (struct cgroup_usage){
        .memory = read_number(c->control[CGROUP_MEMORY], slot,
                              c->v2 ? "memory.current" : "memory.usage_in_bytes"),
        .memory_peak = stats.memory_peak,
        .pids = (uint32_t)read_number(c->control[CGROUP_PIDS], slot, "pids.current"),
        .oom_kills = stats.oom_kills,
    };
    // In cgroup2 this is there without any controller.
    static const char key[] = "usage_usec ";
    struct name file = name_of(slot, "cpu.stat");
    if (fd_read_file(c->unified, file.text, text, sizeof text) > 0 &&
        strncmp(text, key, sizeof key - 1) == 0)
        ret->cpu_usec = strtoull(text + sizeof key - 1, NULL, 10);
}

void cgroups_freeze(struct cgroups *c, uint32_t slot, int on)
{
    (void)fd_write_file(c->unified, name_of(slot, "cgroup.freeze").text, on ? "1" : "0");
}

int cgroups_open_events(struct cgroups *c, uint32_t slot)
{
    return openat(c->unified, name_of(slot, "cgroup.events").text, O_RDONLY | O_CLOEXEC);
}

void cgroups_kill(struct cgroups *c, uint32_t slot)
{
    (void)fd_write_file(c->unified, name_of(slot, "cgroup.kill").text, "1");
}

static int remove_dir(int parent, const char *name)
{
    return unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

// Everything below a directory, whatever its name: the guest may have made it, and a guest can go
// bad.
static void clear_dir(int parent, int depth)
{
    enum { DEPTH_MAX = 8 };
    int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        fd_close(fd);
        return;
    }
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (e->d_type != DT_DIR || e->d_name[0] == '.')
            continue;
        auto_fd sub = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (sub >= 0 && depth < DEPTH_MAX)
            clear_dir(sub, depth + 1);
        (void)unlinkat(fd, e->d_name, AT_REMOVEDIR);
    }
    (void)closedir(dir);
}

// The box's directory and, below it, those of its execs: e0, e1, ... which is mostly all there is.
static int remove_tree(struct cgroups *c, uint32_t slot)
{
    struct name name = name_of(slot, NULL);
    for (unsigned i = 0;; i++) {
        char file[16];
        (void)snprintf(file, sizeof file, "e%u", i);
        if (unlinkat(c->unified, name_of(slot, file).text, AT_REMOVEDIR) < 0)
            break;
    }
    int r = remove_dir(c->unified, name.text);
    if (r != -EBUSY && r != -ENOTEMPTY)
        return r;
    auto_fd dir = openat(c->unified, name.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0)
        clear_dir(dir, 0);
    return remove_dir(c->unified, name.text);
}

int cgroups_remove(struct cgroups *c, uint32_t slot)
{
    int r = remove_tree(c, slot);
    for (int i = 0; i < CGROUP_CONTROL_MAX; i++) {
        int q = c->repeats[i] ? 0 : remove_dir(c->control[i], name_of(slot, NULL).text);
        if (r == 0)
            r = q;
    }
    return r;
}

// What is killed takes a moment to go, and who was waited for may still be counted for one.
int cgroups_clear(struct cgroups *c, uint32_t slot)
{
    enum { TRIES = 500 };
    int r = cgroups_remove(c, slot);
    for (int i = 0; i < TRIES && r == -EBUSY; i++) {
        cgroups_kill(c, slot);
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        r = cgroups_remove(c, slot);
    }
    return r;
}

static unsigned list_dir(int parent, uint32_t *ret_slots, unsigned max)
{
    unsigned n = 0;
    int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        fd_close(fd);
        return 0;
    }
    for (struct dirent *e; n < max && (e = readdir(dir)) != NULL;) {
        char *end;
        unsigned long slot = strtoul(e->d_name, &end, 10);
        if (e->d_type == DT_DIR && end != e->d_name && *end == '\0' && slot <= UINT32_MAX)
            ret_slots[n++] = (uint32_t)slot;
    }
    (void)closedir(dir);
    return n;
}

unsigned cgroups_list(struct cgroups *c, uint32_t *ret_slots, unsigned max)
{
    unsigned n = list_dir(c->unified, ret_slots, max);
    for (int i = 0; !c->v2 && i < CGROUP_CONTROL_MAX; i++)
        n += list_dir(c->control[i], ret_slots + n, max - n);
    return n;
}
