# SPDX-License-Identifier: Apache-2.0
"""cay-pack by hand, on directories, and a full listing of a tree."""

import hashlib
import os
import pathlib
import stat
import subprocess

PACK = os.environ.get("CAY_PACK") or str(pathlib.Path(os.environ.get("CAY", "build/cay")).parent / "cay-pack")


def run(top, work, *args, data=b"", timeout=120):
    """Its output and its verdict."""
    command = [PACK, "--top", str(top), work, *map(str, args)]
    done = subprocess.run(command, input=data, capture_output=True, timeout=timeout, check=False)
    verdict = done.stderr.decode()
    assert verdict.endswith("\n") and verdict.count("\n") == 1, verdict
    assert (done.returncode == 0) == verdict.startswith("ok "), verdict
    return done.stdout, verdict


def describe(path, top):
    st = os.lstat(path)
    kind = stat.S_IFMT(st.st_mode)
    attributes = {k: os.getxattr(path, k, follow_symlinks=False) for k in os.listxattr(path, follow_symlinks=False)}
    links = st.st_nlink if kind != stat.S_IFDIR else 0
    content = None
    if kind == stat.S_IFREG:
        content = (st.st_size, hashlib.sha256(pathlib.Path(os.fsdecode(path)).read_bytes()).hexdigest())
    elif kind == stat.S_IFLNK:
        content = os.readlink(path)
    return oct(st.st_mode), st.st_uid, st.st_gid, st.st_mtime_ns, st.st_rdev, links, attributes, content


def listing(top):
    top = os.fsencode(str(top))
    found = {b".": describe(top, top)}
    for where, dirs, files in os.walk(top):
        for name in dirs + files:
            path = os.path.join(where, name)
            found[os.path.relpath(path, top)] = describe(path, top)
    return found
