// SPDX-License-Identifier: Apache-2.0
// What can be read off the machine: who we are, which kernel this is and how it is set, how much
// there is of what boxes use up, which programs are installed.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "box/limits.h"
#include "box/slots.h"
#include "box/tool.h"
#include "cli/doctor.h"
#include "cli/host-tools.h"
#include "wire/spawner-msg.h"

// --- who and where ---

void check_root(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    if (doctor->root) {
        found(ret, DOCTOR_OK, "running as root");
        return;
    }
    found(ret, DOCTOR_MISSING, "running as uid %u, but only root can make boxes", geteuid());
    advise(ret, "run cay as root, with sudo for instance");
}

void check_kernel(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    (void)doctor;
    struct utsname uts;
    if (uname(&uts) < 0) {
        found(ret, DOCTOR_MISSING, "uname: %s", errno_text(errno));
        return;
    }
    found(ret, DOCTOR_OK, "Linux %s on %s", uts.release, uts.machine);
    if (!kernel_at_least(5, 19)) {
        found(ret, DOCTOR_MISSING, "older than 5.19: overlayfs takes no idmapped layers");
        advise(ret, "boot Linux 6.15 or later");
    } else if (!kernel_at_least(6, 15)) {
        found(ret, DOCTOR_NOTE, "older than 6.15; the lines below say what that means");
        advise(ret, "boot Linux 6.15 or later for all that Cay can use");
    }
}

bool has_all_ids(void)
{
    char text[64];
    unsigned long inside, outside, n;
    if (fd_read_file(AT_FDCWD, "/proc/self/uid_map", text, sizeof text) < 0)
        return false;
    char *p = text;
    inside = strtoul(p, &p, 10);
    outside = strtoul(p, &p, 10);
    n = strtoul(p, &p, 10);
    return inside == 0 && outside == 0 && n == UINT32_MAX;
}

// Container tools hide parts of /proc by mounting something on them.
static bool proc_is_masked(void)
{
    enum { MOUNTS_MAX = 1 << 20 };
    auto_free char *text = malloc(MOUNTS_MAX);
    if (text == NULL || fd_read_file(AT_FDCWD, "/proc/self/mounts", text, MOUNTS_MAX) < 0)
        return false;
    for (const char *p = text; (p = strstr(p, " /proc/")) != NULL; p++) {
        if (strncmp(p, " /proc/sys/fs/binfmt_misc ", 26) != 0 && strncmp(p, " /proc/fs/", 10) != 0)
            return true;
    }
    return false;
}

void check_container(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    (void)doctor;
    struct statfs fs;
    bool on_overlay = statfs("/", &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC;
    bool marked = access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0;
    if (!has_all_ids()) {
        found(ret, DOCTOR_MISSING,
              "inside a user namespace that lacks the ids of boxes (%d and up)", SLOT_ID_BASE);
        advise(ret, "run Cay on the machine itself or in a container without user namespace");
    }
    if (proc_is_masked()) {
        found(ret, DOCTOR_NOTE, "parts of /proc are masked, as container tools do it");
        advise(ret, "start the container with an unmasked /proc "
                    "(docker run --security-opt systempaths=unconfined)");
    }
    if (on_overlay)
        found(ret, DOCTOR_NOTE,
              "the root file system is overlayfs, as in a container: its files "
              "cannot change owners for a box");
    if (ret->state == DOCTOR_OK)
        found(ret, DOCTOR_OK,
              marked ? "a container's mark, but nothing that stands in the way"
                     : "none: Cay runs on the machine itself");
}

// --- capabilities ---

static const struct {
    unsigned cap;
    bool essential;
    const char *name, *meaning;
} wanted_caps[] = {
    {CAP_SYS_ADMIN,    true,  "CAP_SYS_ADMIN",    "nothing can be mounted"                      },
    {CAP_SETUID,       true,  "CAP_SETUID",       "a box's users cannot be mapped"              },
    {CAP_SETGID,       true,  "CAP_SETGID",       "a box's groups cannot be mapped"             },
    {CAP_SETPCAP,      true,  "CAP_SETPCAP",      "a box's root cannot be mounted on its behalf"},
    {CAP_MKNOD,        true,  "CAP_MKNOD",        "a box's /dev cannot be made"                 },
    {CAP_CHOWN,        true,  "CAP_CHOWN",        "a box cannot be handed its own cgroup"       },
    {CAP_DAC_OVERRIDE, true,  "CAP_DAC_OVERRIDE", "files of boxes cannot be reached"            },
    {CAP_FOWNER,       true,  "CAP_FOWNER",       "files of images cannot be permitted"         },
    {CAP_SYS_RESOURCE, false, "CAP_SYS_RESOURCE",
     "root cannot raise its own limits, so that of open files stays as it is"                   },
};

void check_capabilities(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    (void)doctor;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {0};
    if (syscall(SYS_capget, &head, caps) < 0) {
        found(ret, DOCTOR_MISSING, "capget: %s", errno_text(errno));
        return;
    }
    uint64_t have = (uint64_t)caps[1].effective << 32 | caps[0].effective;
    for (unsigned i = 0; i < sizeof wanted_caps / sizeof *wanted_caps; i++) {
        if (have >> wanted_caps[i].cap & 1)
            continue;
        found(ret, wanted_caps[i].essential ? DOCTOR_MISSING : DOCTOR_NOTE, "no %s: %s",
              wanted_caps[i].name, wanted_caps[i].meaning);
    }
    if (ret->state == DOCTOR_OK)
        found(ret, DOCTOR_OK, "root has all that Cay uses");
    else if (ret->state == DOCTOR_MISSING)
        advise(ret, "start Cay with these capabilities (a service's CapabilityBoundingSet=, a "
                    "container's --cap-add or --privileged)");
}

// --- settings ---

void check_settings(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    (void)doctor;
    int64_t yama = read_number("/proc/sys/kernel/yama/ptrace_scope");
    int64_t tiocsti = read_number("/proc/sys/dev/tty/legacy_tiocsti");
    if (yama < 0)
        found(ret, DOCTOR_OK, "no Yama (boxes do not rest on it)");
    else
        found(ret, DOCTOR_OK, "Yama's ptrace_scope is %" PRId64, yama);
    if (tiocsti == 0) {
        found(ret, DOCTOR_OK, "TIOCSTI is off");
    } else {
        found(ret, DOCTOR_NOTE,
              "TIOCSTI works outside of boxes: a program can type into a "
              "terminal that it shares (boxes are refused it)");
        if (tiocsti > 0)
            advise(ret, "sysctl dev.tty.legacy_tiocsti=0");
    }
    if (read_number("/proc/sys/kernel/unprivileged_userns_clone") == 0) {
        found(ret, DOCTOR_NOTE, "unprivileged user namespaces are off; boxes nest two");
        advise(ret,
               "sysctl kernel.unprivileged_userns_clone=1 if the line 'user namespaces' fails");
    }
    if (read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") > 0)
        found(ret, DOCTOR_OK, "AppArmor restricts unprivileged user namespaces");
}

// --- how much there is ---

static uint64_t meminfo(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at != NULL ? strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

void check_memory(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    (void)doctor;
    char text[8192];
    if (fd_read_file(AT_FDCWD, "/proc/meminfo", text, sizeof text) < 0) {
        found(ret, DOCTOR_NOTE, "/proc/meminfo cannot be read");
        return;
    }
    uint64_t free_bytes = meminfo(text, "MemAvailable:");
    uint64_t swap = meminfo(text, "SwapTotal:");
    found(ret, free_bytes < LIMIT_MEMORY_DEFAULT ? DOCTOR_NOTE : DOCTOR_OK,
          "%s of %s available, %s", size_text(free_bytes).text,
          size_text(meminfo(text, "MemTotal:")).text, swap > 0 ? "with swap" : "no swap");
    if (free_bytes < LIMIT_MEMORY_DEFAULT)
        advise(ret,
               "a box may take %s unless told otherwise: give less (cay run --memory) or free "
               "some",
               size_text(LIMIT_MEMORY_DEFAULT).text);
}

void check_files(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    (void)doctor;
    enum { FILES_PER_BOX = 8, FILES_GOOD = 32768 }; // sockets, pipes, namespaces, the end of each
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    uint64_t most = limit.rlim_max;
    found(ret, DOCTOR_OK, "a process may have %" PRIu64 ", enough for %" PRIu64 " boxes at once",
          most, most / FILES_PER_BOX);
    if (most < LIMIT_FILES_DEFAULT)
        found(ret, DOCTOR_MISSING, "a program in a box is to have %d", LIMIT_FILES_DEFAULT);
    if (most < FILES_GOOD) {
        ret->state = ret->state == DOCTOR_OK ? DOCTOR_NOTE : ret->state;
        advise(ret,
               "raise the hard limit before Cay starts: ulimit -Hn 1048576, or LimitNOFILE= in "
               "its service");
    }
}

void check_pids(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    (void)doctor;
    enum { PIDS_GOOD = 100000 };
    int64_t pid_max = read_number("/proc/sys/kernel/pid_max");
    int64_t threads = read_number("/proc/sys/kernel/threads-max");
    int64_t most = threads > 0 && threads < pid_max ? threads : pid_max;
    if (most <= 0) {
        found(ret, DOCTOR_NOTE, "the kernel does not tell how many there may be");
        return;
    }
    found(ret, most < PIDS_GOOD ? DOCTOR_NOTE : DOCTOR_OK,
          "the machine may have %" PRId64 ", so %" PRId64 " boxes that all use their %d", most,
          most / LIMIT_PIDS_DEFAULT, LIMIT_PIDS_DEFAULT);
    if (most < PIDS_GOOD)
        advise(ret, "sysctl %s=%d for more",
               most == pid_max ? "kernel.pid_max" : "kernel.threads-max", 4 << 20);
}

// Locked bytes of the file that src/box/slots.c keeps. One by one: which of several locks the
// kernel names for a longer range is its own choice.
static unsigned count_slots(int fd)
{
    unsigned n = 0;
    for (off_t at = 0; at < SLOTS_TOTAL; at++) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
        n += fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    }
    return n;
}

void check_slots(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    auto_fd fd = open("/run/cay/slots", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == EACCES && !doctor->root) {
        found(ret, DOCTOR_UNTRIED, "not tried without root");
        return;
    }
    unsigned used = fd < 0 ? 0 : count_slots(fd);
    unsigned left = SLOTS_TOTAL - used;
    found(ret,
          left < 2                  ? DOCTOR_MISSING
          : left < SLOTS_TOTAL / 10 ? DOCTOR_NOTE
                                    : DOCTOR_OK,
          "%u of %d in use", used, SLOTS_TOTAL);
    if (left < SLOTS_TOTAL / 10)
        advise(ret, "end boxes, or keepers that reserve more than they use");
}

// --- programs ---

// The version: the first word of the first line that has a dot and begins with a digit, perhaps
// after a v.
static void cut_version(const char *text, char *ret, size_t size)
{
    size_t line = strcspn(text, "\n");
    ret[0] = '\0';
    for (size_t i = 0; i < line;) {
        size_t len = strcspn(text + i, " ,\n*()");
        size_t skip = text[i] == 'v' ? 1 : 0;
        bool number = len > skip && text[i + skip] >= '0' && text[i + skip] <= '9';
        if (number && memchr(text + i, '.', len) != NULL) {
            (void)snprintf(ret, size, "%.*s", (int)(len - skip), text + i + skip);
            return;
        }
        i += len + 1;
    }
}

void check_program(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)doctor;
    const char *const argv[] = {check->name, "--version", NULL};
    char version[32];
    auto_buf out;
    buf_init(&out, 16384);
    int code = tool_ask(argv, &out);
    if (code == 0) {
        cut_version(buf_str(&out), version, sizeof version);
        found(ret, DOCTOR_OK, "%s", version[0] != '\0' ? version : "there");
    } else if (code == TOOL_BROKEN) {
        found(ret, DOCTOR_MISSING, "not installed, or not in PATH");
        advise(ret, "apt-get install %s", check->arg);
    } else {
        found(ret, DOCTOR_MISSING, "there, but '%s --version' fails", check->name);
        advise(ret, "apt-get install --reinstall %s", check->arg);
    }
}

void check_languages(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    (void)doctor;
    struct host_tools tools = host_tools_find("");
    auto_buf there, missing, command;
    buf_init(&there, 256);
    buf_init(&missing, 256);
    buf_init(&command, 256);
    host_tools_present(tools, &there);
    host_tools_missing(tools, &missing);
    host_tools_command(tools, "", &command);
    if (there.len > 0)
        found(ret, DOCTOR_OK, "%s", buf_str(&there));
    if (missing.len == 0)
        return;
    found(ret, DOCTOR_NOTE, "without %s", buf_str(&missing));
    advise(ret, "%s%s'cay image build data' makes an image that has them", buf_str(&command),
           command.len > 0 ? "; or " : "");
}
