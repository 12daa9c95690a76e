// SPDX-License-Identifier: Apache-2.0
// Commands as a shell starts them: `cay run` beside other people's tools, `cay --version` beside
// /bin/true. All start in this process by fork and execve, and take turns.
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "client.h"

enum { WARM_UP = 3 };

// --- cay run ---

static const char *const find_in[] = {"/usr/bin/", "/usr/local/bin/", "/bin/"};

static int find(const char *name, char *ret, size_t size)
{
    for (unsigned i = 0; i < sizeof find_in / sizeof *find_in; i++) {
        (void)snprintf(ret, size, "%s%s", find_in[i], name);
        if (access(ret, X_OK) == 0)
            return 1;
    }
    return 0;
}

static void rounds(const char *line, struct series *series, const char *const *const *commands,
                   unsigned n_commands, unsigned n)
{
    for (unsigned i = 0; i < WARM_UP * n_commands; i++) {
        watchdog(commands[i % n_commands][0]);
        (void)bare_command(commands[i % n_commands]);
    }
    for (unsigned i = 0; i < n; i++) {
        for (unsigned j = 0; j < n_commands; j++) {
            watchdog(commands[j][0]);
            series_add(&series[j], bare_command(commands[j]));
        }
    }
    for (unsigned j = 0; j < n_commands; j++)
        series_done(&series[j], line);
}

// The same namespaces and a root of the same shape: /usr read-only, the /etc of our image, /proc, a
// small /dev, room to write.
static void beside_bwrap(const struct bench *b, const char *const *cay)
{
    char bwrap[64], etc[PATH_MAX];
    struct series series[3];
    (void)snprintf(etc, sizeof etc, "%s/images/host/rootfs/etc", b->data);
    if (!find("bwrap", bwrap, sizeof bwrap)) {
        note("bwrap is not installed");
        return;
    }
    const char *argv[] = {
        bwrap,
        "--unshare-all",
        "--unshare-user",
        "--uid",
        "0",
        "--gid",
        "0",
        "--ro-bind",
        "/usr",
        "/usr",
        "--ro-bind",
        etc,
        "/etc",
        "--symlink",
        "usr/bin",
        "/bin",
        "--symlink",
        "usr/sbin",
        "/sbin",
        "--symlink",
        "usr/lib",
        "/lib",
        "--symlink",
        "usr/lib64",
        "/lib64",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
        "--tmpfs",
        "/workspace",
        "--chdir",
        "/workspace",
        "--",
        "true",
        NULL,
    };
    const char *const bare[] = {"/bin/true", NULL};
    const char *const *const commands[] = {cay, argv, bare};
    note("cay run and bwrap, %u rounds", b->rounds);
    series_init(&series[0], "cay", b->rounds);
    series_init(&series[1], "bwrap", b->rounds);
    series_init(&series[2], "true", b->rounds);
    rounds("bwrap", series, commands, 3, b->rounds);
}

static void beside_runsc(const struct bench *b, const char *const *cay)
{
    char runsc[64], root[PATH_MAX];
    struct series series[2];
    if (!find("runsc", runsc, sizeof runsc)) {
        note("runsc is not installed");
        return;
    }
    (void)snprintf(root, sizeof root, "--root=%s/runsc", b->data);
    const char *const argv[] = {runsc,  root, "--platform=ptrace", "--network=none", "do",
                                "true", NULL};
    const char *const *const commands[] = {cay, argv};
    note("cay run and runsc, %u rounds", b->few);
    series_init(&series[0], "cay", b->few);
    series_init(&series[1], "runsc", b->few);
    rounds("runsc", series, commands, 2, b->few);
}

void line_command(const struct bench *b)
{
    const char *const cay[] = {b->cay, "run", "--data", b->data, "--", "true", NULL};
    beside_bwrap(b, cay);
    beside_runsc(b, cay);
}

// --- cay --version ---

void line_version(const struct bench *b)
{
    const char *const ours[] = {b->cay, "--version", NULL};
    const char *const bare[] = {"/bin/true", NULL};
    const char *const *const commands[] = {ours, bare};
    struct series series[2];
    note("cay --version, %u rounds", b->rounds);
    series_init(&series[0], "cay", b->rounds);
    series_init(&series[1], "true", b->rounds);
    rounds("version", series, commands, 2, b->rounds);
}
