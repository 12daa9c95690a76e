# SPDX-License-Identifier: Apache-2.0
"""cay cp, cat, write and find, against a real server."""

import hashlib
import io
import os
import pathlib
import pty
import resource
import stat
import subprocess
import tarfile

import pytest
from cli_helpers import PATIENCE, clean_env, refused

BIG = 64 * 1024 * 1024


def blob(n):
    return hashlib.shake_256(b"cp").digest(n)


@pytest.mark.parametrize("n", [0, 1, 40_000, 300_000, 5_000_000])
def test_there_and_back(cli, sandbox, tmp_path, n):
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(blob(n))
    source.chmod(0o750)
    assert cli.ok("cp", source, f"{sandbox}:/w/copy") == ""
    assert cli.ok("cp", f"{sandbox}:/w/copy", back) == ""
    assert back.read_bytes() == source.read_bytes()
    assert cli.ok("exec", sandbox, "stat", "-c", "%a", "/w/copy") == "750\n"
    assert sorted(os.listdir(tmp_path)) == ["back", "source"]


def test_into_directories(cli, sandbox, tmp_path):
    (tmp_path / "f").write_text("x")
    cli.ok("exec", sandbox, "mkdir", "-p", "/d")
    cli.ok("cp", tmp_path / "f", f"{sandbox}:/d")
    cli.ok("cp", tmp_path / "f", f"{sandbox}:/e/")
    assert cli.ok("cat", f"{sandbox}:/d/f", f"{sandbox}:/e/f") == "xx"
    (tmp_path / "out").mkdir()
    cli.ok("cp", f"{sandbox}:/d/f", tmp_path / "out")
    assert (tmp_path / "out" / "f").read_text() == "x"


def test_streams(cli, sandbox):
    data = blob(700_000)
    done = cli.run("cp", "-", f"{sandbox}:/piped", input=data)
    assert (done.returncode, done.stderr) == (0, b"")
    assert cli.run("cp", f"{sandbox}:/piped", "-").stdout == data
    assert cli.run("cat", f"{sandbox}:/piped").stdout == data


def test_json(cli, sandbox, tmp_path):
    (tmp_path / "f").write_text("x")
    up = cli.json("cp", tmp_path / "f", f"{sandbox}:/f")
    assert up["success"] is True and up["size"] == 1 and up["created"] is True
    down = cli.json("cp", f"{sandbox}:/f", tmp_path / "g")
    assert down == {"success": True, "path": str(tmp_path / "g"), "bytes": 1}


def test_trees(cli, sandbox, tmp_path):
    top = tmp_path / "tree"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "f").write_bytes(blob(300_000))
    (top / "a" / "x").write_text("#!/bin/sh\n")
    (top / "a" / "x").chmod(0o755)
    (top / "l").symlink_to("a/x")
    assert cli.ok("cp", "-r", top, f"{sandbox}:/tree") == ""
    assert cli.ok("exec", sandbox, "readlink", "/tree/l") == "a/x\n"
    assert cli.ok("cp", "-r", f"{sandbox}:/tree/", tmp_path / "back") == ""
    subprocess.run(["diff", "-r", top, tmp_path / "back"], check=True)
    assert stat.S_IMODE((tmp_path / "back" / "a" / "x").stat().st_mode) & 0o700 == 0o700
    answer = cli.json("cp", "-r", top, f"{sandbox}:/other")
    assert answer["entries"] >= 5


def test_a_strangers_tree(cli, sandbox, tmp_path):
    """No setuid bit, owner or name of the box's choice comes out, though root unpacks it."""
    cli.ok("exec", sandbox, "sh", "-c", "mkdir -p /t/d; cp /bin/true /t/su; chmod 6755 /t/su; chown 1000 /t/su; ln -s /etc /t/l; mkfifo /t/p")
    done = cli.run("cp", "-r", f"{sandbox}:/t", tmp_path / "t")
    assert done.returncode in (0, 125), done
    found = (tmp_path / "t" / "su").stat()
    assert found.st_mode & 0o7000 == 0 and found.st_uid == os.geteuid()
    assert os.readlink(tmp_path / "t" / "l") == "/etc"


def test_refusals(cli, sandbox, tmp_path):
    (tmp_path / "f").write_text("x")
    refused(cli.run("cp", f"{sandbox}:/nope", tmp_path / "g"), 125, "/nope")
    assert not (tmp_path / "g").exists() and os.listdir(tmp_path) == ["f"]
    refused(cli.run("cp", tmp_path / "nope", f"{sandbox}:/f"), 125, "nope")
    refused(cli.run("cp", tmp_path, f"{sandbox}:/f"), 125, "-r")
    refused(cli.run("cp", "-r", tmp_path / "nothing", f"{sandbox}:/f"), 125, "nothing")
    refused(cli.run("cp", "-r", "/etc/passwd", f"{sandbox}:/f"), 125, "without -r")
    refused(cli.run("cp", f"{sandbox}:/etc", tmp_path / "g"), 125, "directory")
    refused(cli.run("cp", tmp_path / "f", "/elsewhere"), 2, "ID:/path")
    refused(cli.run("cp", f"{sandbox}:/a", f"{sandbox}:/b"), 2, "ID:/path")
    refused(cli.run("cp", tmp_path / "f", f"{sandbox}:relative"), 2, "begins with '/'")
    refused(cli.run("cp", tmp_path / "f"), 2, "SRC and DST")
    refused(cli.run("cp", "-r", "-", f"{sandbox}:/x"), 2, "-r")
    refused(cli.run("cat", "nothing"), 2, "ID:/path")
    refused(cli.run("cat", f"{sandbox}:/etc"), 125, "directory")
    refused(cli.run("cp", tmp_path / "f", "no-such-sandbox:/f"), 125, "no-such-sandbox")


def test_a_file_here_with_a_colon(cli, sandbox, tmp_path):
    (tmp_path / "a:b").write_text("x")
    cli.ok("cp", f"{tmp_path}/a:b", f"{sandbox}:/f")
    assert cli.ok("cat", f"{sandbox}:/f") == "x"


def test_odd_names(cli, sandbox, tmp_path):
    for name in ("a b", "ä?#%", "-n", "x+y"):
        (tmp_path / "f").write_text(name)
        cli.ok("cp", tmp_path / "f", f"{sandbox}:/odd/{name}")
        assert cli.ok("cat", f"{sandbox}:/odd/{name}") == name
    assert sorted(cli.ok("find", f"{sandbox}:/odd").splitlines()) == sorted(["/odd/a b", "/odd/ä?#%", "/odd/-n", "/odd/x+y"])


def test_write(cli, sandbox, tmp_path):
    assert cli.run("write", f"{sandbox}:/f", input=b"one").returncode == 0
    assert cli.ok("cat", f"{sandbox}:/f") == "one"
    refused(cli.run("write", f"{sandbox}:/f", "--new", input=b"two"), 125, "/f")
    (tmp_path / "g").write_text("three")
    cli.ok("write", f"{sandbox}:/f", tmp_path / "g", "--mode", "0600")
    assert cli.ok("cat", f"{sandbox}:/f") == "three"
    assert cli.ok("exec", sandbox, "stat", "-c", "%a", "/f") == "600\n"
    refused(cli.run("write", f"{sandbox}:/f", "--mode", "4755", input=b""), 125, "mode")


def test_find(cli, sandbox):
    cli.ok("exec", sandbox, "sh", "-c", "mkdir -p /s/.h; echo 'a needle here' > /s/x.c; echo NEEDLE > /s/y.h; touch /s/.h/z.c")
    assert cli.ok("find", f"{sandbox}:/s", "--name", "*.c") == "/s/x.c\n"
    assert cli.ok("find", f"{sandbox}:/s", "--text", "needle") == "/s/x.c:1:3: a needle here\n"
    assert len(cli.ok("find", f"{sandbox}:/s", "--text", "needle", "-i").splitlines()) == 2
    assert "/s/.h/z.c" in cli.ok("find", f"{sandbox}:/s", "-a", "--name", "*.c").splitlines()
    assert cli.json("find", f"{sandbox}:/s", "--name", "*.h")["matches"] == [{"path": "/s/y.h"}]
    done = cli.run("find", sandbox, "--limit", "1")
    assert len(done.stdout.splitlines()) == 1 and b"more" in done.stderr
    # What a box names its files does not reach the terminal as it is.
    cli.ok("exec", sandbox, "sh", "-c", "mkdir /e; touch \"$(printf '/e/\\033[31m')\"")
    assert "\033" not in cli.ok("find", f"{sandbox}:/e")


def test_a_full_disk_is_heard(cli, tmp_path):
    """The server says no while the command still sends."""
    name = cli.ok("create", "--disk", "32m").strip()
    (tmp_path / "f").write_bytes(b"\1" * (200 << 20))
    refused(cli.run("cp", tmp_path / "f", f"{name}:/f"), 125, "full")
    cli.run("rm", name)


def test_nothing_is_held_in_memory(cli, sandbox, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(blob(BIG))

    def little():
        resource.setrlimit(resource.RLIMIT_DATA, (16 << 20, 16 << 20))

    for args in ((source, f"{sandbox}:/big"), (f"{sandbox}:/big", tmp_path / "back")):
        done = cli.run("cp", *args, preexec_fn=little)
        assert done.returncode == 0, done
    assert (tmp_path / "back").read_bytes() == source.read_bytes()


def test_progress_on_a_terminal(cli, sandbox, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(blob(BIG))
    ours, theirs = pty.openpty()
    with open("/dev/null", "rb") as nothing:
        process = subprocess.Popen(cli.command("cp", source, f"{sandbox}:/big"), stdin=nothing, stdout=nothing, stderr=theirs, env=clean_env())
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:
        pass
    assert process.wait(PATIENCE) == 0
    os.close(ours)
    assert shown.endswith(b"\r\x1b[K"), shown[-80:]  # the line is wiped


def test_a_reader_that_goes(cli, sandbox):
    cli.run("write", f"{sandbox}:/f", input=blob(5_000_000))
    command = " ".join(cli.command("cat", f"{sandbox}:/f"))
    done = subprocess.run(["bash", "-c", f"{command} | head -c 10; echo ${{PIPESTATUS[0]}}"], capture_output=True, env=clean_env(), check=True)
    assert done.stdout[10:].strip() == b"141" and done.stderr == b""


def test_a_broken_download_leaves_nothing(standin, tmp_path):
    """The connection ends in the middle: what was there stays."""
    (tmp_path / "f").write_text("before")
    standin.play(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 500)
    done = standin.cli.run("cp", "a:/f", tmp_path / "f")
    assert done.returncode == 125
    assert (tmp_path / "f").read_text() == "before" and os.listdir(tmp_path) == ["f"]


def test_a_lying_archive(standin, tmp_path):
    """Names that lead elsewhere and devices: what tar would make of them stays in the directory, or is not made."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("../escaped", "/tmp/cay-absolute-escape", "link/through"):
            if name.startswith("link"):
                info = tarfile.TarInfo("link")
                info.type, info.linkname = tarfile.SYMTYPE, str(tmp_path)
                tar.addfile(info)
            info = tarfile.TarInfo(name)
            info.size = 5
            tar.addfile(info, io.BytesIO(b"pwned"))
        info = tarfile.TarInfo("disk")
        info.type, info.devmajor, info.devminor, info.mode = tarfile.BLKTYPE, 8, 0, 0o666
        tar.addfile(info)
    body = out.getvalue()
    standin.play(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    inside = tmp_path / "in"
    standin.cli.run("cp", "-r", "a:/t", inside)
    assert os.listdir(tmp_path) == ["in"]
    assert not pathlib.Path("/tmp/cay-absolute-escape").exists()
    disk = inside / "disk"
    assert not disk.exists() or not stat.S_ISBLK(disk.stat().st_mode)
