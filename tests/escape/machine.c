// SPDX-License-Identifier: Apache-2.0
#include "machine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "world.h"

// Arguments that every kernel refuses, but only after it found the call.
static bool has_call(long nr)
{
    return syscall(nr, -1L, -1L, -1L, -1L, -1L, -1L) >= 0 || errno != ENOSYS;
}

static bool has_family(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 && errno == ESOCKTNOSUPPORT)
        fd = socket(family, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    close(fd);
    return true;
}

static bool sysctl_is(const char *path, const char *value)
{
    char buf[32];
    long n = slurp(path, buf, sizeof(buf));
    return n > 0 && strncmp(buf, value, strlen(value)) == 0 && buf[strlen(value)] == '\n';
}

static bool kexec(void)
{
    return has_call(SYS_kexec_load);
}

static bool kexec_file(void)
{
    return has_call(SYS_kexec_file_load);
}

static bool modules(void)
{
    return has_call(SYS_delete_module);
}

static bool port_io(void)
{
#ifdef SYS_iopl
    return has_call(SYS_iopl);
#else
    return false;
#endif
}

static bool bpf(void)
{
    return has_call(SYS_bpf);
}

static bool io_uring(void)
{
    return has_call(SYS_io_uring_setup) && !sysctl_is("/proc/sys/kernel/io_uring_disabled", "1") &&
           !sysctl_is("/proc/sys/kernel/io_uring_disabled", "2");
}

static bool move_pages_call(void)
{
    return has_call(SYS_move_pages);
}

// A call by the 32-bit gate kills a process whose kernel has none.
static bool ia32(void)
{
#ifdef __x86_64__
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        long r;
        __asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
        _exit(r > 0 ? 0 : 1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
#else
    return false;
#endif
}

static bool x32(void)
{
#ifdef __x86_64__
    return syscall(0x40000000L | SYS_getpid) > 0;
#else
    return false;
#endif
}

static bool af_alg(void)
{
    return has_family(AF_ALG);
}

static bool af_vsock(void)
{
    return has_family(AF_VSOCK);
}

static bool tiocsti(void)
{
    return !sysctl_is("/proc/sys/dev/tty/legacy_tiocsti", "0");
}

static bool conntrack(void)
{
    char buf[32];
    return slurp("/proc/sys/net/netfilter/nf_conntrack_count", buf, sizeof(buf)) > 0 &&
           strtol(buf, NULL, 10) > 0;
}

// Connecting a datagram socket sends nothing.
static bool route(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    to.sin_addr.s_addr = inet_addr("198.51.100.1");
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0;
    if (fd >= 0)
        close(fd);
    return ok;
}

static const struct {
    const char *name;
    bool (*there)(void);
} features[] = {
    {"kexec",      kexec          },
    {"kexec_file", kexec_file     },
    {"modules",    modules        },
    {"port_io",    port_io        },
    {"bpf",        bpf            },
    {"io_uring",   io_uring       },
    {"move_pages", move_pages_call},
    {"ia32",       ia32           },
    {"x32",        x32            },
    {"af_alg",     af_alg         },
    {"af_vsock",   af_vsock       },
    {"tiocsti",    tiocsti        },
    {"conntrack",  conntrack      },
    {"route",      route          },
};

int features_print(void)
{
    size_t n = sizeof(features) / sizeof(features[0]);
    printf("{");
    for (size_t i = 0; i < n; i++)
        printf("%s\"%s\":%s", i > 0 ? "," : "", features[i].name,
               features[i].there() ? "true" : "false");
    printf("}\n");
    return 0;
}
