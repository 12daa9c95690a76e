# SPDX-License-Identifier: Apache-2.0
"""What the tests of images share: running `cay image`, and making archives, honest and hostile."""

import io
import json
import os
import pathlib
import subprocess
import tarfile

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
CAY = os.environ.get("CAY", str(TOP / "build" / "cay"))


class Images:
    """`cay image` on a data directory of its own."""

    def __init__(self, data):
        self.data = pathlib.Path(data)
        self.env = {**os.environ, "CAY_DATA": str(data)}

    def run(self, *args, **kwargs):
        kwargs.setdefault("timeout", 120)
        return subprocess.run(
            [CAY, "image", *map(str, args)], env=self.env, capture_output=True, check=False, **kwargs
        )

    def start(self, *args, **kwargs):
        return subprocess.Popen([CAY, "image", *map(str, args)], env=self.env, **kwargs)

    def ls(self):
        done = self.run("ls", "--json")
        assert done.returncode == 0, done.stderr
        return {image["name"]: image for image in json.loads(done.stdout)}

    def root(self, name):
        return self.data / "images" / name / "rootfs"

    def left(self):
        """The names in the directory of images, temporary ones too."""
        path = self.data / "images"
        return sorted(os.listdir(path)) if path.exists() else []

    def refuse(self, archive, *words, code=125, name="bad", args=()):
        """Imports what must be refused: one line that says why, and nothing stays."""
        before = self.left()
        done = self.run("import", name, archive, *args, timeout=900)
        text = done.stderr.decode()
        assert done.returncode == code, text
        for word in words:
            assert word in text, text
        assert len([line for line in text.splitlines() if "cay: unpacked " not in line]) == 1, text
        assert self.left() == before
        return text


def member(name, data=None, kind=None, link=None, mode=0o755, uid=0, gid=0, major=0, minor=0):
    info = tarfile.TarInfo(name)
    info.mode, info.uid, info.gid = mode, uid, gid
    info.devmajor, info.devminor = major, minor
    if kind is None:
        kind = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
    info.type = kind
    if link is not None:
        info.linkname = link
    if data is not None:
        info.size = len(data)
    return info, data


def small_root():
    """What a root needs at least to be taken for one."""
    return [
        member("./"),
        member("./usr"),
        member("./usr/bin"),
        member("./usr/bin/tool", b"#!/bin/sh\n", mode=0o755),
        member("./etc"),
        member("./etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", mode=0o644),
    ]


def write_tar(path, members, mode="w"):
    with tarfile.open(path, mode, format=tarfile.GNU_FORMAT) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data) if data is not None else None)
    return path
