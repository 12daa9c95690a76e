// SPDX-License-Identifier: Apache-2.0
// Archives out of the hand are read by the machine's tar and by Python's; archives into it are made
// by them, and by Python where no honest program would make them.
#include <sys/stat.h>

#include "hand/tar-format.h"
#include "hand_kit.h"

// --- running it

static int last_n;
static uint64_t last_bytes;
static char last_path[256];

static void note(const struct kit_run *run)
{
    last_n = (int)run->work->n;
    last_bytes = run->work->bytes;
    memcpy(last_path, run->work->path, sizeof last_path);
}

static int wait_and_note(struct kit_run *run)
{
    siginfo_t info;
    fd_close(TAKE_FD(run->in));
    assert_int_equal(waitid(P_PID, (id_t)run->pid, &info, WEXITED | WNOWAIT), 0);
    note(run);
    return kit_end(run);
}

// The archive of a path, in a file.
static int out_flags(const char *path, const char *file, uint32_t flags)
{
    static char buf[1 << 16];
    struct kit_run run = kit_start(work_tar_out, path, flags, NULL, 0);
    auto_fd fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t n;
    assert_true(fd >= 0);
    while ((n = read(run.out, buf, sizeof buf)) > 0)
        assert_int_equal(fd_write_all(fd, buf, (size_t)n), 0);
    return wait_and_note(&run);
}

static int out(const char *path, const char *file)
{
    return out_flags(kit_path(path), file, 0);
}

// Unpacks a file, given in pieces of `piece` bytes.
static int in_pieces(const char *file, const char *path, uint32_t flags, size_t piece)
{
    static char buf[1 << 16];
    struct kit_run run = kit_start(work_tar_in, path, flags, NULL, 0);
    auto_fd fd = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t n;
    assert_true(fd >= 0 && piece <= sizeof buf);
    while ((n = read(fd, buf, piece)) > 0)
        if (fd_write_all(run.in, buf, (size_t)n) < 0)
            break; // it has stopped
    return wait_and_note(&run);
}

static int in(const char *file, const char *path)
{
    return in_pieces(file, kit_path(path), 0, 1 << 16);
}

// An archive by Python: `script` calls add(name, type, ...), raw(bytes) and such.
static void make_by_python(const char *file, const char *script)
{
    auto_fd fd = open("make.py", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    static const char before[] =
        "import io, os, sys, tarfile\n"
        "F = open(sys.argv[1], 'wb')\n"
        "def raw(b): F.write(b)\n"
        "def add(name, type=b'0', data=b'', link='', fmt=tarfile.PAX_FORMAT, mode=0o644, pad=True,\n"
        "        size=None, patch=None, **pax):\n"
        "    t = tarfile.TarInfo(name); t.type = type; t.linkname = link; t.mode = mode\n"
        "    t.size = len(data) if size is None else size\n"
        "    t.pax_headers = {k.replace('__', '.'): v for k, v in pax.items()}\n"
        "    b = bytearray(t.tobuf(fmt))\n"
        "    if patch is not None:\n"
        "        h = bytearray(b[-512:]); patch(h); h[148:156] = b' ' * 8\n"
        "        h[148:156] = b'%06o\\0 ' % sum(h); b[-512:] = h\n"
        "    raw(bytes(b)); raw(data)\n"
        "    if pad: raw(b'\\0' * (-len(data) % 512))\n"
        "def pax(records, type=b'x'):\n"
        "    add('x', type, records, fmt=tarfile.USTAR_FORMAT)\n"
        "def rec(k, v):\n"
        "    n = len(k) + len(v) + 3; t = n + len(str(n)); t = n + len(str(t))\n"
        "    return b'%d %s=%s\\n' % (t, k, v)\n"
        "def end(): raw(b'\\0' * 1024)\n";
    assert_true(fd >= 0 && fd_write_all(fd, before, sizeof before - 1) == 0);
    assert_int_equal(fd_write_all(fd, script, strlen(script)), 0);
    assert_int_equal(kit_sh("exec python3 make.py %s", file), 0);
}

static int in_by_python(const char *script)
{
    make_by_python("hostile.tar", script);
    (void)kit_sh("rm -rf to; mkdir to");
    return in("hostile.tar", "to");
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

// --- out

static const char some_tree[] =
    "mkdir -p from/dir/empty from/.hidden; echo one >from/a; echo two >from/dir/b;"
    "ln -s ../a from/dir/link; ln -s /etc/passwd from/absolute; ln from/a from/dir/hard;"
    "mkfifo -m 0620 from/fifo; chmod 0751 from/dir; chmod 4755 from/dir/b; : >from/.hidden/none;"
    "head -c 3000000 /dev/urandom >from/big; head -c 512 /dev/urandom >from/block;"
    "touch -d 2001-02-03T04:05:06 from/a from/dir; touch -h -d 2002-02-03 from/dir/link;"
    "chown 1000:1001 from/a; chown -h 12:13 from/absolute;";

// Owners, modes, kinds, times and content.
static const char list[] = "(cd %s && find . -printf '%%P %%y %%m %%U:%%G %%l %%Ts %%n\\n' | sort;"
                           " find . -type f -print0 | sort -z | xargs -0 sha256sum)";

static void assert_same(const char *a, const char *b)
{
    char script[2048], one[512], two[512];
    (void)snprintf(one, sizeof one, "cd %s; find . -mindepth 1 -printf '%%P %%y %%m %%U:%%G %%l %%Ts %%n\\n' | sort; find . -type f -print0 | sort -z | xargs -0 sha256sum", a);
    (void)snprintf(two, sizeof two, "cd %s; find . -mindepth 1 -printf '%%P %%y %%m %%U:%%G %%l %%Ts %%n\\n' | sort; find . -type f -print0 | sort -z | xargs -0 sha256sum", b);
    (void)snprintf(script, sizeof script, "diff <(%s) <(%s)", one, two);
    assert_int_equal(kit_sh("%s", script), 0);
}
