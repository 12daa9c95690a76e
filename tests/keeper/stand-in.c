// SPDX-License-Identifier: Apache-2.0
#include "stand-in.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "wire/wire.h"

enum { FD_KEEPER = 3, FD_CONF, FD_LISTENER };

static uint64_t status_number(const char *text, const char *key, int base)
{
    const char *at = strstr(text, key);
    return at != NULL ? strtoull(at + strlen(key), NULL, base) : 0;
}

static uint32_t count_fds(void)
{
    uint32_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;)
        n += e->d_name[0] != '.';
    if (dir != NULL)
        (void)closedir(dir);
    return n - 1; // that of the directory
}

static void look(struct stand_in_hello *h)
{
    char text[4096];
    h->pid = getpid();
    h->uid = getuid();
    h->gid = getgid();
    h->n_fds = count_fds();
    h->n_groups = (uint32_t)getgroups(0, NULL);
    if (fd_read_file(AT_FDCWD, "/proc/self/status", text, sizeof text) < 0)
        exit(3);
    h->caps[0] = status_number(text, "\nCapPrm:", 16);
    h->caps[1] = status_number(text, "\nCapEff:", 16);
    h->caps[2] = status_number(text, "\nCapBnd:", 16);
    h->caps[3] = status_number(text, "\nCapInh:", 16);
    h->no_new_privs = (uint32_t)status_number(text, "\nNoNewPrivs:", 10);
    for (char **e = environ; *e != NULL; e++)
        h->n_env++;
    for (int fd = FD_LISTENER; fcntl(fd, F_GETFD) >= 0; fd++)
        h->n_listeners++;
    ssize_t n = fd_read_all(FD_CONF, h->conf, sizeof h->conf - 1);
    h->conf[n > 0 ? n : 0] = '\0';
}

static void on_term(int sig)
{
    (void)sig;
    _exit(0);
}

static void obey(int control)
{
    char order;
    if (read(control, &order, 1) != 1)
        return;
    if (order == STAND_IN_IGNORE_TERM)
        (void)signal(SIGTERM, SIG_IGN);
    else
        exit(order - '0');
    (void)fd_write_all(control, "k", 1);
}

int main(int argc, char **argv)
{
    static struct stand_in_hello hello;
    if (argc > 1 && strcmp(argv[1], "--version") == 0)
        return 0;
    look(&hello);
    (void)signal(SIGTERM, on_term);
    (void)signal(SIGPIPE, SIG_IGN);
    for (;;) {
        struct pollfd fds[2] = {
            {.fd = FD_LISTENER, .events = POLLIN},
            {.fd = FD_KEEPER                }, // its end shows whatever is asked for
        };
        if (poll(fds, 2, -1) > 0 && fds[1].revents != 0)
            return 1;
        auto_fd control = accept4(FD_LISTENER, NULL, NULL, SOCK_CLOEXEC);
        int keeper = FD_KEEPER;
        if (control >= 0 && wire_send(control, &hello, sizeof hello, NULL, 0, &keeper, 1) == 0)
            obey(control);
    }
}
