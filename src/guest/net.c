// SPDX-License-Identifier: Apache-2.0
#include "guest/net.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/fd.h"

int net_raise_loopback(void)
{
    auto_fd fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq req = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &req) < 0)
        return -errno;
    return fd_write_file(AT_FDCWD, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
}
