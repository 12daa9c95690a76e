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
static int out_without(const char *path, const char *file, uint32_t flags, const char *excludes)
{
    static char buf[1 << 16];
    char data[1024];
    struct hand_tar head = {.exclude_len = (uint32_t)strlen(excludes)};
    memcpy(data, &head, sizeof head);
    memcpy(data + sizeof head, excludes, strlen(excludes) + 1);
    struct kit_run run = kit_start(work_tar_out, path, flags, excludes[0] != '\0' ? data : NULL,
                                   excludes[0] != '\0' ? sizeof head + strlen(excludes) + 1 : 0);
    auto_fd fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t n;
    assert_true(fd >= 0);
    while ((n = read(run.out, buf, sizeof buf)) > 0)
        assert_int_equal(fd_write_all(fd, buf, (size_t)n), 0);
    return wait_and_note(&run);
}

static int out_flags(const char *path, const char *file, uint32_t flags)
{
    return out_without(path, file, flags, "");
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

// Owners, modes (without setuid and setgid), kinds, times, links and content.
static void assert_same(const char *a, const char *b)
{
    assert_int_equal(
        kit_sh("list() {\n"
               "  (cd $1; find . -mindepth 1 -printf '%%P %%y %%m %%U:%%G %%l %%Ts %%n\\n' |"
               "    sed -E 's/^(.* [a-z] )[246]([0-7]{3} )/\\1\\2/' | sort;"
               "    find . -type f -size -9M -print0 | sort -z | xargs -0r sha256sum)\n"
               "}\n"
               "diff <(list %s) <(list %s)",
               a, b),
        0);
}

CHECK_CASE(others_read_a_tree)
{
    assert_int_equal(kit_sh("%s", some_tree), 0);
    assert_int_equal(out("from", "a.tar"), 0);
    assert_int_equal(last_n, 13);
    assert_int_equal(kit_sh("mkdir to; tar -xpf a.tar --same-owner -C to 2>&1"), 0);
    assert_same("from", "to");
    assert_int_equal(kit_sh("diff <(tar -tf a.tar) - <<<'./\n"
                            ".hidden/\n"
                            ".hidden/none\n"
                            "a\n"
                            "absolute\n"
                            "big\n"
                            "block\n"
                            "dir/\n"
                            "dir/b\n"
                            "dir/empty/\n"
                            "dir/hard\n"
                            "dir/link\n"
                            "fifo'"),
                     0);
    assert_int_equal(kit_sh("python3 -c 'import tarfile, sys\n"
                            "t = tarfile.open(\"a.tar\")\n"
                            "assert t.getmember(\"dir/hard\").linkname == \"a\"\n"
                            "assert t.getmember(\"dir/b\").mode == 0o4755\n"
                            "assert t.extractfile(\"a\").read() == b\"one\\n\"\n"
                            "assert len(t.getmembers()) == 13'"),
                     0);
}

CHECK_CASE(some_of_a_tree)
{
    assert_int_equal(
        kit_sh("mkdir -p from/a/b/c from/node_modules/x from/src/node_modules; cd from;"
               "touch a/1.log a/b/2.log a/b/c/3.txt node_modules/x/y src/node_modules/z"
               " keep 'a,b' q.log"),
        0);
    static const struct {
        const char *excludes, *left;
    } rows[] = {
        {"node_modules",
         "./ a/ a/1.log a/b/ a/b/2.log a/b/c/ a/b/c/3.txt a,b keep q.log src/ src/node_modules/ "
         "src/node_modules/z "                                                                        },
        {"*.log,node_modules",  "./ a/ a/b/ a/b/c/ a/b/c/3.txt a,b keep src/ src/node_modules/ "
                               "src/node_modules/z "                    },
        {"a/b,src/*,,",         "./ a/ a/1.log a,b keep node_modules/ node_modules/x/ node_modules/x/y "
                        "q.log src/ "                                          },
        {"[ak]*,*q*,nothing,s", "./ node_modules/ node_modules/x/ node_modules/x/y src/ "
                                "src/node_modules/ src/node_modules/z "},
        {"*",                   "./ "                                                                 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(out_without(kit_path("from"), "a.tar", 0, rows[i].excludes), 0);
        if (kit_sh("[ \"$(tar -tf a.tar | tr '\\n' ' ')\" = '%s' ]", rows[i].left) != 0)
            fail_msg("without %s", rows[i].excludes);
    }
}

CHECK_CASE(a_plain_archive)
{
    assert_int_equal(kit_sh("%s truncate -s 5000000 from/holes; echo end >>from/holes", some_tree),
                     0);
    assert_int_equal(out_flags(kit_path("from"), "a.tar", HAND_PLAIN), 0);
    assert_int_equal(
        kit_sh("python3 -c 'import tarfile\n"
               "t = tarfile.open(\"a.tar\")\n"
               "kinds = {m.type for m in t.getmembers()}\n"
               "assert kinds == {tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE}, kinds\n"
               "assert not any(k.startswith(\"GNU\") for m in t.getmembers()"
               " for k in m.pax_headers)\n"
               "assert t.extractfile(\"dir/hard\").read() == b\"one\\n\"\n"
               "assert t.extractfile(\"holes\").read() == bytes(5000000) + b\"end\\n\"\n"
               "assert \"fifo\" not in t.getnames()'"),
        0);
    assert_int_equal(kit_sh("truncate -s 3G from/holes"), 0);
    assert_int_equal(out_flags(kit_path("from"), "a.tar", HAND_PLAIN), -EFBIG);
    assert_string_equal(last_path, "holes");
}

CHECK_CASE(it_reads_its_own)
{
    assert_int_equal(kit_sh("%s", some_tree), 0);
    assert_int_equal(out("from", "a.tar"), 0);
    assert_int_equal(in_pieces("a.tar", kit_path("to/deep/er"), HAND_OWNER, 1 << 16), 0);
    assert_int_equal(last_n, 13);
    assert_int_equal(last_bytes, 3000000 + 512 + 4 + 4);
    assert_same("from", "to/deep/er");
    // The mode of the directory that was made is the archive's too.
    assert_int_equal(kit_sh("chmod 0711 from"), 0);
    assert_int_equal(out("from", "b.tar"), 0);
    assert_int_equal(in_pieces("b.tar", kit_path("to2"), 0, 7), 0);
    assert_int_equal(kit_sh("[ $(stat -c %%a to2) = 711 ]; [ $(stat -c %%u to2/a) = 0 ]"), 0);
    assert_int_equal(in("b.tar", "to/deep/er"), 0);
    assert_int_equal(kit_sh("[ $(stat -c %%a to/deep/er) = 755 ]"), 0);
}

CHECK_CASE(names_of_every_length_and_letter)
{
    assert_int_equal(
        kit_sh(
            "python3 -c '\n"
            "import os\n"
            "os.mkdir(b\"from\"); os.chdir(b\"from\")\n"
            "for n in list(range(95, 105)) + list(range(150, 160)) + list(range(250, 256)):\n"
            "    open(b\"n\" * n, \"w\").close(); os.mkdir(b\"d\" * n)\n"
            "    open(b\"d\" * n + b\"/\" + b\"f\" * n, \"w\").close()\n"
            "    os.symlink(b\"t\" * n, b\"l\" * n)\n"
            "deep = b\"/\".join([b\"p\" * 200] * 19)\n"
            "os.makedirs(deep); open(deep + b\"/x\", \"w\").close()\n"
            "os.symlink(b\"s\" * 4090, b\"far\")\n"
            "for n in [\"\\u00e4\\u4e2d\\U0001f600\".encode(), b\"\\xff\\xfe\", b\"line\\nbreak\",\n"
            "          b\" \", b\"-rf\", b\"back\\\\slash\", b\"%%s\", b\"\\x01\", b\"a=b\"]:\n"
            "    open(n, \"w\").close(); os.symlink(n, b\"link to \" + n)\n"
            "    os.link(n, b\"also \" + n)\n"
            "'"),
        0);
    assert_int_equal(out("from", "a.tar"), 0);
    assert_int_equal(kit_sh("mkdir to; tar -xpf a.tar --same-owner -C to 2>&1"), 0);
    assert_same("from", "to");
    assert_int_equal(kit_sh("mkdir to3; python3 -c 'import tarfile\n"
                            "tarfile.open(\"a.tar\").extractall(\"to3\")'"),
                     0);
    assert_int_equal(kit_sh("diff <(cd from; find | sort) <(cd to3; find | sort)"), 0);
    assert_int_equal(in("a.tar", "to2"), 0);
    assert_same("from", "to2");
    // One letter more than a path has room for.
    assert_int_equal(kit_sh("python3 -c 'import os\n"
                            "os.chdir(\"from\")\n"
                            "for i in range(30): os.mkdir(\"q\" * 200); os.chdir(\"q\" * 200)'"),
                     0);
    assert_int_equal(out("from", "b.tar"), -ENAMETOOLONG);
    assert_int_equal(strncmp(last_path, "qqq", 3), 0);
}

CHECK_CASE(a_single_thing)
{
    assert_int_equal(kit_sh("%s ln -s dir from/todir; ln -s a from/toa", some_tree), 0);
    assert_int_equal(out("from/a", "a.tar"), 0);
    assert_int_equal(kit_sh("[ \"$(tar -tf a.tar)\" = a ]; [ \"$(tar -xOf a.tar a)\" = one ]"), 0);
    assert_int_equal(out("from/toa", "a.tar"), 0);
    assert_int_equal(kit_sh("[ \"$(tar -xOf a.tar toa)\" = one ]"), 0);
    assert_int_equal(out("from/todir", "a.tar"), 0);
    assert_int_equal(kit_sh("tar -tf a.tar | grep -qx empty/"), 0);
    assert_int_equal(out_flags(kit_path("from/todir"), "a.tar", HAND_NO_FOLLOW), 0);
    assert_int_equal(kit_sh("tar -tvf a.tar | grep -q '^l.* todir -> dir$'"), 0);
    assert_int_equal(out("from/fifo", "a.tar"), 0);
    assert_int_equal(kit_sh("tar -tvf a.tar | grep -q '^prw--w---- .* fifo$'"), 0);
    assert_int_equal(out("from/not-there", "a.tar"), -ENOENT);
    assert_true(strstr(last_path, "not-there") != NULL);
    assert_int_equal(out("from/a/b", "a.tar"), -ENOTDIR);
    assert_int_equal(out_flags("/dev/null", "a.tar", 0), -EINVAL);
    assert_int_equal(out_flags("/proc/self/stat", "a.tar", 0), -EINVAL);
    assert_int_equal(out_flags("/proc", "a.tar", 0), 0);
    assert_int_equal(kit_sh("[ \"$(tar -tf a.tar)\" = ./ ]"), 0);
}

CHECK_CASE(sockets_and_devices_are_left_out)
{
    assert_int_equal(kit_sh("mkdir from; touch from/a from/z; python3 -c 'import socket\n"
                            "socket.socket(socket.AF_UNIX).bind(\"from/s\")'\n"
                            "mknod from/null c 1 3 || :"),
                     0);
    assert_int_equal(out("from", "a.tar"), 0);
    assert_int_equal(kit_sh("diff <(tar -tf a.tar) - <<<'./\na\nz'"), 0);
}

CHECK_CASE(holes_are_not_written)
{
    struct stat st;
    assert_int_equal(kit_sh("mkdir from; truncate -s 1T from/all; truncate -s 1T from/some;"
                            "printf begin | dd of=from/some conv=notrunc status=none;"
                            "printf middle | dd of=from/some bs=1 seek=600000000001 conv=notrunc "
                            "status=none; truncate -s 100k from/last; printf end >>from/last;"
                            "truncate -s 1000 from/small; echo x >from/x"),
                     0);
    assert_int_equal(out("from", "a.tar"), 0);
    assert_true(stat("a.tar", &st) == 0 && st.st_size < 300000);
    assert_int_equal(kit_sh("mkdir to; tar -xpSf a.tar --same-owner -C to"), 0);
    assert_same("from", "to");
    assert_int_equal(in("a.tar", "to2"), 0);
    assert_same("from", "to2");
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            kit_sh("cd to%s; [ $(stat -c %%s all) = $((1<<40)) ]; [ $(stat -c %%b all) -lt 100 ];"
                   "[ \"$(head -c 5 some)\" = begin ]; [ $(stat -c %%b some) -lt 1000 ];"
                   "[ \"$(dd if=some bs=1 skip=600000000001 count=6 status=none)\" = middle ];"
                   "cmp ../from/last last; cmp ../from/small small; [ \"$(cat x)\" = x ]",
                   i == 0 ? "" : "2"),
            0);
    assert_int_equal(kit_sh("python3 -c 'import tarfile\n"
                            "t = tarfile.open(\"a.tar\")\n"
                            "assert t.getmember(\"all\").size == 1 << 40\n"
                            "f = t.extractfile(\"some\"); f.seek(600000000001)\n"
                            "assert f.read(7) == b\"middle\\0\"'"),
                     0);
}

CHECK_CASE(too_many_holes)
{
    struct stat st;
    // Every other block of 256 KiB is a hole, 20,000 times: more pieces than are kept; and a file
    // whose holes would all have to be written.
    assert_int_equal(
        kit_sh("python3 -c 'import os\n"
               "os.mkdir(\"from\"); f = os.open(\"from/holes\", os.O_CREAT | os.O_WRONLY)\n"
               "for i in range(20000): os.pwrite(f, b\"x\", i * 262144)\n"
               "os.mkdir(\"wide\"); f = os.open(\"wide/holes\", os.O_CREAT | os.O_WRONLY)\n"
               "for i in range(20000): os.pwrite(f, b\"x\", i << 28)'"),
        0);
    assert_int_equal(out("wide", "a.tar"), -EFBIG);
    assert_string_equal(last_path, "holes");
    assert_int_equal(kit_sh("truncate -s 900M from/holes"), 0); // 3600 pieces
    assert_int_equal(out("from", "a.tar"), 0);
    assert_true(stat("a.tar", &st) == 0 && st.st_size < 32 << 20);
    assert_int_equal(in("a.tar", "to"), 0);
    assert_int_equal(kit_sh("cmp from/holes to/holes"), 0);
}

// A stopped reader gives us the time to change a file under it.
static void change_while_read(const char *change, bool same_begin)
{
    static char buf[1 << 16];
    assert_int_equal(
        kit_sh("rm -rf from; mkdir from; head -c 40000000 /dev/zero | tr '\\0' x >from/f;"
               "echo next >from/g"),
        0);
    struct kit_run run = kit_start(work_tar_out, kit_path("from"), 0, NULL, 0);
    auto_fd fd = open("a.tar", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t n = fd_read_all(run.out, buf, sizeof buf);
    assert_int_equal(n, sizeof buf);
    assert_int_equal(fd_write_all(fd, buf, (size_t)n), 0);
    assert_int_equal(kit_sh("%s", change), 0);
    while ((n = read(run.out, buf, sizeof buf)) > 0)
        assert_int_equal(fd_write_all(fd, buf, (size_t)n), 0);
    assert_int_equal(wait_and_note(&run), 0);
    assert_int_equal(kit_sh("[ $(tar -xOf a.tar f | wc -c) = 40000000 ];"
                            "[ \"$(tar -xOf a.tar g)\" = next ];"
                            "%s [ \"$(tar -xOf a.tar f 2>/dev/null | head -c 10)\" = xxxxxxxxxx ]",
                            same_begin ? "" : ":;"),
                     0);
}

CHECK_CASE(files_that_change)
{
    change_while_read("truncate -s 5000 from/f", false);
    change_while_read("truncate -s 0 from/f", false);
    change_while_read("cat from/f >>from/h; cat from/h >>from/f", true);
    change_while_read("rm from/f", true);
    change_while_read("mv from/f from/e; mkdir from/f; ln -s /etc from/etc", true);
}

CHECK_CASE(the_pipe_is_closed)
{
    char byte;
    assert_int_equal(kit_sh("mkdir from; head -c 40000000 /dev/zero >from/f"), 0);
    struct kit_run run = kit_start(work_tar_out, kit_path("from"), 0, NULL, 0);
    assert_int_equal(read(run.out, &byte, 1), 1);
    assert_int_equal(kit_end(&run), -EPIPE);
}

CHECK_CASE(many_names_and_deep_trees)
{
    assert_int_equal(
        kit_sh(
            "python3 -c 'import os\n"
            "os.mkdir(\"from\")\n"
            "for i in range(20000): open(\"from/%%d-%%s\" %% (i * 7919 %% 20000, \"n\" * 40), \"w\")\n"
            "d = \"from\"\n"
            "for i in range(1500):\n"
            "    d += \"/d\"; os.mkdir(d)\n"
            "    if i %% 100 == 0: open(d + \"/a\", \"w\"); open(d + \"/z\", \"w\")'"),
        0);
    assert_int_equal(out("from", "a.tar"), 0);
    assert_int_equal(last_n, 1 + 20000 + 1500 + 30);
    assert_int_equal(kit_sh("tar -tf a.tar | grep -v / | LC_ALL=C sort -c"), 0);
    assert_int_equal(in("a.tar", "to"), 0);
    assert_same("from", "to");
}

// --- in

CHECK_CASE(archives_of_others)
{
    assert_int_equal(kit_sh("%s", some_tree), 0);
    static const char *const formats[] = {"gnu", "oldgnu", "pax", "ustar", "v7"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(formats[i], "v7") == 0)
            assert_int_equal(kit_sh("rm from/fifo"), 0);
        assert_int_equal(kit_sh("tar -cf a.tar --format=%s -C from .; rm -rf to", formats[i]), 0);
        assert_int_equal(in_pieces("a.tar", kit_path("to"), HAND_OWNER, 5000), 0);
        assert_same("from", "to");
    }
    assert_int_equal(kit_sh("rm -rf to; tar -cf a.tar -C from --xattrs --acls --label=x ."), 0);
    assert_int_equal(in_pieces("a.tar", kit_path("to"), HAND_OWNER, 5000), 0);
    assert_same("from", "to");
}

CHECK_CASE(long_names_of_others)
{
    assert_int_equal(kit_sh("d=from; for i in 1 2 3 4 5; do d=$d/$(printf %%0120d $i); done;"
                            "mkdir -p $d; echo x >$d/f; ln -s $d/$d $d/s; ln $d/f $d/h"),
                     0);
    static const char *const formats[] = {"gnu", "pax"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kit_sh("tar -cf a.tar --format=%s -C from .; rm -rf to", formats[i]), 0);
        assert_int_equal(in("a.tar", "to"), 0);
        assert_same("from", "to");
    }
}

CHECK_CASE(every_split)
{
    assert_int_equal(kit_sh("%s rm from/big; head -c 70000 /dev/urandom >from/mid;"
                            "tar -cf a.tar --format=pax -C from .",
                            some_tree),
                     0);
    static const size_t pieces[] = {1, 3, 511, 513, 4096};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        assert_int_equal(kit_sh("rm -rf to"), 0);
        assert_int_equal(in_pieces("a.tar", kit_path("to"), HAND_OWNER, pieces[i]), 0);
        assert_same("from", "to");
    }
}

CHECK_CASE(sparse_files_of_others)
{
    assert_int_equal(kit_sh("mkdir from; truncate -s 20M from/f; for i in 0 3 5 7 9 11 13; do\n"
                            "printf part$i | dd of=from/f bs=1M seek=$i conv=notrunc status=none;"
                            "done; truncate -s 3G from/g; echo x >from/x"),
                     0);
    static const char *const ways[] = {"--format=gnu", "--format=pax --sparse-version=1.0"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kit_sh("tar -cSf a.tar %s -C from .; rm -rf to", ways[i]), 0);
        assert_int_equal(in("a.tar", "to"), 0);
        assert_int_equal(kit_sh("cmp from/f to/f; [ $(stat -c %%s to/g) = $((3<<30)) ];"
                                "cmp from/x to/x; [ $(stat -c %%b to/g) -lt 100 ]"),
                         0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            kit_sh("tar -cSf a.tar --format=pax --sparse-version=0.%d -C from .; rm -rf to", i), 0);
        assert_int_equal(in("a.tar", "to"), -EPROTONOSUPPORT);
    }
}

CHECK_CASE(compressed_ones_are_told_apart)
{
    static const char *const by[] = {"gzip", "xz", "bzip2", "zstd"};
    assert_int_equal(kit_sh("echo x >f; tar -cf a.tar f"), 0);
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        if (kit_sh("command -v %s && %s <a.tar >b.tar", by[i], by[i]) != 0)
            continue;
        assert_int_equal(in("b.tar", "to"), -EPROTONOSUPPORT);
    }
    assert_int_equal(kit_sh("printf 'PK\\3\\4' >b.tar"), 0);
    assert_int_equal(in("b.tar", "to"), -EPROTONOSUPPORT);
    assert_int_equal(kit_sh("echo x >BZh; tar -cf b.tar BZh; rm -rf to"), 0);
    assert_int_equal(in("b.tar", "to"), 0);
    assert_true(exists("to/BZh"));
}

CHECK_CASE(what_is_there_is_replaced)
{
    assert_int_equal(kit_sh("mkdir -p from/d to/d to/other; echo new >from/f; echo new >from/d/g;"
                            "ln -s new from/l; echo new >from/h; ln from/h from/i; mkfifo from/p;"
                            "mkdir from/was-file from/was-link; tar -cf a.tar -C from ."
                            "; echo old >to/f; echo old >outside; ln -s ../outside to/h;"
                            "ln outside to/l; ln -s ../.. to/was-link; echo old >to/was-file;"
                            "echo kept >to/d/kept; ln to/f to/f2; ln -s nowhere to/p"),
                     0);
    assert_int_equal(in("a.tar", "to"), 0);
    assert_int_equal(
        kit_sh("[ $(cat outside) = old ]; [ $(cat to/f) = new ]; [ $(cat to/f2) = old ];"
               "[ $(cat to/d/kept) = kept ]; [ \"$(cat to/h to/i)\" = $'new\\nnew' ];"
               "[ ! -L to/was-link ]; [ -d to/was-link ]; [ -d to/was-file ];"
               "[ $(readlink to/l) = new ]; [ -p to/p ]; [ ! -L to/h ]"),
        0);
    assert_int_equal(kit_sh("rm -rf to; mkdir -p to/f"), 0);
    assert_int_equal(in("a.tar", "to"), -EISDIR);
    assert_string_equal(last_path, "f");
    assert_int_equal(kit_sh("rm -rf to; mkdir -p to/l"), 0);
    assert_int_equal(in("a.tar", "to"), -EISDIR);
    assert_int_equal(kit_sh("rm -rf to; mkdir -p to/d; echo old >to/d/g"), 0);
    assert_int_equal(in_pieces("a.tar", kit_path("to"), HAND_NO_REPLACE, 5000), -EEXIST);
    assert_string_equal(last_path, "d/g");
    assert_int_equal(kit_sh("[ $(cat to/d/g) = old ]"), 0);
}

// Each ends with the error and leaves nothing outside; `path` is what is blamed.
CHECK_CASE(hostile_names)
{
    static const struct {
        const char *script;
        int error;
        const char *path;
    } cases[] = {
        {"add('/abs'); end()",                                                      EINVAL,       "/abs"      },
        {"add('../up'); end()",                                                     EINVAL,       "../up"     },
        {"add('a/../../up'); end()",                                                EINVAL,       "a/../../up"},
        {"add('a/..'); end()",                                                      EINVAL,       "a/.."      },
        {"add('a/../b'); end()",                                                    EINVAL,       "a/../b"    },
        {"add('..', b'5'); end()",                                                  EINVAL,       "../"       },
        {"add('.'); end()",                                                         EINVAL,       "."         },
        {"add('./.'); end()",                                                       EINVAL,       "."         },
        {"add('', b'5'); end()",                                                    EINVAL,       "/"         },
        {"add('x', path='/abs'); end()",                                            EINVAL,       "/abs"      },
        {"add('x' * 300 + '/../../y'); end()",                                      EINVAL,       NULL        },
        {"add('x' * 300 + '/../../y', fmt=tarfile.GNU_FORMAT); end()",              EINVAL,       NULL        },
        {"add('n' * 256); end()",                                                   ENAMETOOLONG, NULL        },
        {"add('d/' * 2050 + 'x'); end()",                                           ENAMETOOLONG, NULL        },
 // links, then something through them
        {"add('l', b'2', link='/tmp'); add('l/in-tmp'); end()",                     ENOTDIR,      "l/in-tmp"  },
        {"add('l', b'2', link='..'); add('l/up'); end()",                           ENOTDIR,      "l/up"      },
        {"add('l', b'2', link='..'); add('l/up', b'5'); end()",                     ENOTDIR,      "l/up"      },
        {"add('l', b'2', link='.'); add('l/up', b'2', link='x'); end()",            ENOTDIR,      "l/up"      },
        {"add('d', b'5'); add('d/l', b'2', link='../..'); add('d/l/a/b/c'); end()", ELOOP,        NULL        },
        {"add('f'); add('f/x'); end()",                                             ENOTDIR,      "f/x"       },
        {"add('d/x'); add('d', b'2', link='..'); add('d/up'); end()",               EISDIR,       "d"         },
 // hard links
        {"add('h', b'1', link='/etc/passwd'); end()",                               EINVAL,       "h"         },
        {"add('h', b'1', link='../secret'); end()",                                 EINVAL,       "h"         },
        {"add('h', b'1', link='missing'); end()",                                   ENOENT,       "h"         },
        {"add('h', b'1', link='.'); end()",                                         EINVAL,       "h"         },
        {"add('h', b'1', link=''); end()",                                          EINVAL,       "h"         },
        {"add('l', b'2', link='..'); add('h', b'1', link='l/secret'); end()",       ENOTDIR,      "h"         },
        {"add('d', b'5'); add('h', b'1', link='d'); end()",                         EPERM,        "h"         },
        {"add('s', b'2', link=''); end()",                                          EBADMSG,      "s"         },
    };
    assert_int_equal(kit_sh("echo secret >secret"), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int r = in_by_python(cases[i].script);
        if (r != -cases[i].error)
            fail_msg("%s: %d, not %d", cases[i].script, r, -cases[i].error);
        if (cases[i].path != NULL)
            assert_string_equal(last_path, cases[i].path);
        assert_false(exists("up") || exists("/tmp/in-tmp") || exists("/abs"));
        assert_int_equal(kit_sh("[ $(stat -c %%h secret) = 1 ]"), 0);
    }
    // A hard link to a link is one more name of the link; writing to it replaces it.
    assert_int_equal(in_by_python("add('l', b'2', link='../secret'); add('h', b'1', link='l')\n"
                                  "add('h', data=b'no'); add('l', data=b'no'); end()"),
                     0);
    assert_int_equal(kit_sh("[ $(cat secret) = secret ]; [ $(cat to/h to/l) = nono ]"), 0);
    assert_int_equal(in_by_python("add('f', data=b'x'); add('f', b'1', link='./f'); end()"), 0);
    assert_int_equal(kit_sh("[ $(cat to/f) = x ]"), 0);
}

CHECK_CASE(hostile_numbers)
{
    static const struct {
        const char *script;
        int error;
    } cases[] = {
        {"",                                                                                          EBADMSG        },
        {"raw(b'x' * 512)",                                                                           EBADMSG        },
        {"raw(b'x' * 100)",                                                                           EBADMSG        },
        {"add('f', patch=lambda h: h.__setitem__(slice(124, 136), b'-0000000001\\0')); end()",
         EBADMSG                                                                                                     },
        {"add('f', patch=lambda h: h.__setitem__(slice(124, 136), b'\\xff' * 12)); end()",            EBADMSG        },
        {"add('f', patch=lambda h: h.__setitem__(slice(124, 136), b'\\x80' + b'\\xff' * 11)); end()",
         EBADMSG                                                                                                     },
        {"add('f', patch=lambda h: h.__setitem__(slice(124, 136), b'\\x80\\0\\0\\0\\x80' + b'\\0' * 7));"
         "end()",                                                                            EBADMSG        },
        {"add('f', patch=lambda h: h.__setitem__(slice(124, 136), b'777777777777')); end()",
         EBADMSG                                                                                                     },
        {"add('f', patch=lambda h: h.__setitem__(slice(124, 136), b'00000000009\\0')); end()",
         EBADMSG                                                                                                     },
        {"add('f', patch=lambda h: h.__setitem__(156, 0x5a)); end()",                                 EPROTONOSUPPORT},
        {"add('f', patch=lambda h: h.__setitem__(156, 0x4d)); end()",                                 EPROTONOSUPPORT},
        {"add('d', b'5', size=512); raw(b'\\0' * 512); end()",                                        EBADMSG        },
        {"add('l', b'2', link='x', size=1); raw(b'\\0' * 512); end()",                                EBADMSG        },
        {"pax(rec(b'size', b'-5')); add('f'); end()",                                                 EBADMSG        },
        {"pax(rec(b'size', b'99999999999999999999')); add('f'); end()",                               EBADMSG        },
        {"pax(rec(b'size', b'0x10')); add('f'); end()",                                               EBADMSG        },
        {"pax(rec(b'size', b'4096')); add('f', data=b'y'); end()",                                    EBADMSG        }, // cut
        {"pax(rec(b'size', b'5'), b'g'); add('f'); end()",                                            EBADMSG        },
        {"pax(rec(b'path', b'f'), b'g'); add('f'); end()",                                            EBADMSG        },
        {"pax(rec(b'path', b'a\\0b')); add('f'); end()",                                              EBADMSG        },
        {"pax(rec(b'path', b'a' * 5000)); add('f'); end()",                                           ENAMETOOLONG   },
        {"pax(b'9 path=ab'); add('f'); end()",                                                        EBADMSG        },
        {"pax(b'99 path=ab\\n'); add('f'); end()",                                                    EBADMSG        },
        {"pax(b'0 path=ab\\n'); add('f'); end()",                                                     EBADMSG        },
        {"pax(b'2 \\n'); add('f'); end()",                                                            EBADMSG        },
        {"pax(b'path=ab\\n'); add('f'); end()",                                                       EBADMSG        },
        {"pax(b'5 =a\\n'); add('f'); end()",                                                          EBADMSG        },
        {"pax(rec(b'comment', b'x' * 300000)); add('f'); end()",                                      EBADMSG        },
        {"pax(rec(b'mtime', b'soon')); add('f'); end()",                                              EBADMSG        },
        {"pax(rec(b'path', b'f')); end()",                                                            EBADMSG        }, // of nothing
        {"add('x', b'L', b'\\0' * 5); add('f'); end()",                                               EBADMSG        },
        {"add('x', b'L', size=1<<40); end()",                                                         EBADMSG        },
        {"add('whole', data=b'abc')",                                                                 EBADMSG        }, // no end
        {"add('whole', data=b'abc', pad=False)",                                                      EBADMSG        },
 // sparse
        {"add('f', GNU__sparse__major='1', GNU__sparse__minor='0'); end()",                           EBADMSG        },
        {"add('f', GNU__sparse__major='2', GNU__sparse__minor='0'); end()",                           EPROTONOSUPPORT},
        {"S = dict(GNU__sparse__major='1', GNU__sparse__minor='0', GNU__sparse__realsize='10')\n"
         "add('f', data=b'1\\n5\\n6\\n'.ljust(512, b'\\0') + b'abcdef', **S); end()",        EBADMSG        },
        {"S = dict(GNU__sparse__major='1', GNU__sparse__minor='0', GNU__sparse__realsize='10')\n"
         "add('f', data=b'2\\n5\\n1\\n3\\n1\\n'.ljust(512, b'\\0') + b'ab', **S); end()",    EBADMSG        },
        {"S = dict(GNU__sparse__major='1', GNU__sparse__minor='0', GNU__sparse__realsize='10')\n"
         "add('f', data=b'1\\n5\\n2\\n'.ljust(512, b'\\0') + b'abc', **S); end()",           EBADMSG        },
        {"S = dict(GNU__sparse__major='1', GNU__sparse__minor='0', GNU__sparse__realsize='10')\n"
         "add('f', data=b'99999999\\n'.ljust(512, b'1'), **S); end()",                       EFBIG          },
        {"S = dict(GNU__sparse__major='1', GNU__sparse__minor='0', GNU__sparse__realsize='10')\n"
         "add('f', data=b'3\\n1\\n1\\n'.ljust(512, b'\\0'), **S); end()",                    EBADMSG        },
        {"S = dict(GNU__sparse__major='1', GNU__sparse__minor='0', GNU__sparse__realsize='10')\n"
         "add('f', data=b'1\\n5', **S); end()",                                              EBADMSG        },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int r = in_by_python(cases[i].script);
        if (r != -cases[i].error)
            fail_msg("%s: %d, not %d", cases[i].script, r, -cases[i].error);
        assert_false(exists("to/f")); // nothing half written
    }
}

CHECK_CASE(odd_but_honest)
{
    assert_int_equal(
        in_by_python("add('./a//b/./c', data=b'x'); add('d/', b'5', mode=0o6750)\n"
                     "add('s', data=b'x', mode=0o6755)\n"
                     "add('dev', b'3'); add('dev2', b'4'); add('.', b'5', mode=0)\n"
                     "pax(rec(b'mtime', b'-1.5')+rec(b'path', b'gone')+rec(b'path', b''))\n"
                     "add('t', data=b'y'); end(); raw(b'junk' * 500000)"),
        0);
    assert_int_equal(last_n, 5);
    assert_int_equal(
        kit_sh("[ $(cat to/a/b/c) = x ]; [ $(stat -c %%a to/d) = 750 ];"
               "[ $(stat -c %%a to/s) = 755 ]; [ ! -e to/dev -a ! -e to/dev2 ];"
               "[ $(stat -c %%a to) = 755 ]; [ $(stat -c %%.9Y to/t) = -1.500000000 ]"),
        0);
    assert_int_equal(in_by_python("pax(rec(b'uid', b'77') + rec(b'mtime', b'99.25'), b'g')\n"
                                  "add('a'); add('b', mtime='1'); end()"),
                     0);
    assert_int_equal(kit_sh("[ $(stat -c %%.2Y to/a) = 99.25 ]; [ $(stat -c %%Y to/b) = 1 ];"
                            "[ $(stat -c %%u to/a) = 0 ]"),
                     0);
    assert_int_equal(in_pieces("hostile.tar", kit_path("to"), HAND_OWNER, 100), 0);
    assert_int_equal(kit_sh("[ $(stat -c %%u to/a) = 77 ]"), 0);
}

CHECK_CASE(cut_anywhere)
{
    assert_int_equal(
        kit_sh("mkdir from; echo one >from/a; printf %%0200d 1 >from/$(printf %%0150d 1);"
               "ln -s a from/l; tar -cf a.tar --format=pax -b 1 -C from .; ls -l a.tar"),
        0);
    struct stat st;
    assert_int_equal(stat("a.tar", &st), 0);
    for (off_t len = 0; len < st.st_size - 1024; len += 171) {
        assert_int_equal(kit_sh("rm -rf to; head -c %ld a.tar >b.tar", (long)len), 0);
        assert_int_equal(in("b.tar", "to"), -EBADMSG);
    }
}

CHECK_CASE(a_full_disk_is_named)
{
    assert_int_equal(kit_sh("mkdir -p small from/d; head -c 5000000 /dev/zero >from/d/large;"
                            "tar -cf a.tar -C from ."),
                     0);
    if (kit_sh("mount -t tmpfs -o size=1m none small") != 0)
        skip();
    int r = in("a.tar", "small/to");
    bool left = exists("small/to/d/large");
    (void)kit_sh("umount small");
    assert_int_equal(r, -ENOSPC);
    assert_string_equal(last_path, "d/large");
    assert_false(left);
}

CHECK_CASE(many_entries)
{
    assert_int_equal(
        in_by_python("b = b''\n"
                     "for i in range(50000):\n"
                     "    t = tarfile.TarInfo('d%d/%d' % (i % 100, i)); raw(t.tobuf())\n"
                     "for i in range(20000):\n"
                     "    t = tarfile.TarInfo('e%d/sub' % i); t.type = b'5'\n"
                     "    t.mtime = 12345; raw(t.tobuf())\n"
                     "end()"),
        0);
    assert_int_equal(last_n, 70000);
    assert_int_equal(kit_sh("[ $(find to -type f | wc -l) = 50000 ];"
                            "[ $(find to/e* -name sub -not -newermt @12345 | wc -l) = 20000 ]"),
                     0);
}

CHECK_CASE(the_target)
{
    assert_int_equal(kit_sh("mkdir real; ln -s real link; echo x >f; tar -cf a.tar f; echo >file"),
                     0);
    assert_int_equal(in("a.tar", "link"), 0);
    assert_true(exists("real/f"));
    assert_int_equal(in_pieces("a.tar", kit_path("link"), HAND_NO_FOLLOW, 100), -ENOTDIR);
    assert_int_equal(in("a.tar", "file"), -ENOTDIR);
    assert_int_equal(in("a.tar", "file/below"), -ENOTDIR);
    assert_int_equal(in("a.tar", "a/b/c"), 0);
    assert_true(exists("a/b/c/f"));
}

// --- bytes alone

CHECK_CASE(headers_there_and_back)
{
    static struct tar_head head, back;
    static struct tar_extra extra, none;
    uint8_t bytes[TAR_HEAD_MAX];
    static const uint64_t sizes[] = {0, 1, 511, 077777777777, 0100000000000, INT64_MAX - 9};
    static const int64_t times[] = {0, -1, 077777777777, 0100000000000, -(1ll << 40)};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t j = 0; j < sizeof times / sizeof *times; j++) {
            head = (struct tar_head){.kind = TAR_FILE, .mode = 07777, .uid = sizes[i] >> 20};
            head.size = sizes[i];
            head.mtime = times[j];
            memset(head.name, 'n', 90 + 3 * i);
            size_t len = tar_put_head(&head, bytes);
            extra = none;
            if (len > TAR_BLOCK) {
                assert_int_equal(tar_get_head(bytes, &back), 0);
                assert_int_equal(back.kind, TAR_PAX);
                assert_int_equal(
                    tar_get_pax((char *)bytes + TAR_BLOCK, (size_t)back.size, false, &extra), 0);
            }
            assert_int_equal(tar_get_head(bytes + len - TAR_BLOCK, &back), 0);
            assert_int_equal(tar_apply(&back, &none, &extra), 0);
            assert_int_equal(back.size, head.size);
            assert_int_equal(back.mtime, head.mtime);
            assert_int_equal(back.uid, head.uid);
            assert_int_equal(back.mode, head.mode);
            assert_string_equal(back.name, head.name);
        }
    }
}

CHECK_CASE(cleaned_names)
{
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"a",           "a"        },
        {"./a",         "a"        },
        {"a/",          "a"        },
        {"a//b",        "a/b"      },
        {"././a/./b/.", "a/b"      },
        {".",           ""         },
        {"./",          ""         },
        {"...",         "..."      },
        {"..a",         "..a"      },
        {"a/..b/c..",   "a/..b/c.."},
        {"/a",          NULL       },
        {"..",          NULL       },
        {"a/../b",      NULL       },
        {"a/..",        NULL       },
        {"",            NULL       },
        {"//a",         NULL       },
        {"./..",        NULL       },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s", cases[i].from);
        int r = tar_clean_name(name);
        if (cases[i].to == NULL) {
            assert_int_equal(r, -EINVAL);
        } else {
            assert_int_equal(r, strlen(cases[i].to));
            assert_string_equal(name, cases[i].to);
        }
    }
}

KIT_MAIN(KIT_CASE(others_read_a_tree), KIT_CASE(some_of_a_tree), KIT_CASE(a_plain_archive),
         KIT_CASE(it_reads_its_own), KIT_CASE(names_of_every_length_and_letter),
         KIT_CASE(a_single_thing), KIT_CASE(sockets_and_devices_are_left_out),
         KIT_CASE(holes_are_not_written), KIT_CASE(too_many_holes), KIT_CASE(files_that_change),
         KIT_CASE(the_pipe_is_closed), KIT_CASE(many_names_and_deep_trees),
         KIT_CASE(archives_of_others), KIT_CASE(long_names_of_others), KIT_CASE(every_split),
         KIT_CASE(sparse_files_of_others), KIT_CASE(compressed_ones_are_told_apart),
         KIT_CASE(what_is_there_is_replaced), KIT_CASE(hostile_names), KIT_CASE(hostile_numbers),
         KIT_CASE(odd_but_honest), KIT_CASE(cut_anywhere), KIT_CASE(a_full_disk_is_named),
         KIT_CASE(many_entries), KIT_CASE(the_target), KIT_CASE(headers_there_and_back),
         KIT_CASE(cleaned_names))
