# SPDX-License-Identifier: Apache-2.0
"""What the tests of agents share: the image with the real programs in it, and servers that have it."""

import os
import pathlib
import shutil
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(TOP / "tests" / folder) for folder in ("api", "standin")]

from api_helpers import Client, Server, eventually  # noqa: E402, F401
from standin_helper import StandIn  # noqa: E402, F401

RELEASE = os.environ.get("CAY", str(TOP / "build" / "cay"))
SANITIZED = os.environ.get("CAY_SAN", str(TOP / "build-test" / "cay"))
# A data directory with the image in it and nothing else; `make test` makes it (scripts/agents-image).
IMAGE_DATA = pathlib.Path(os.environ.get("CAY_AGENTS_IMAGE", str(TOP / "build-test" / "agents-image")))
IMAGE = "agents"


def near_image():
    """A directory on the file system of the image, so that it need not be copied; one that everybody may pass if that can
    be had."""
    return "/var/tmp" if os.stat("/var/tmp").st_dev == os.stat(IMAGE_DATA).st_dev else IMAGE_DATA


def link_or_copy(source, target):
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # another file system
        shutil.copy2(source, target, follow_symlinks=False)


def give_image(data):
    """Puts the image into a data directory, by hard links: nobody writes to it."""
    source = IMAGE_DATA / "images" / IMAGE
    images = pathlib.Path(data) / "images"
    images.mkdir(mode=0o700, exist_ok=True)
    copy_tree(source, images / IMAGE)


def copy_tree(source, target):
    """As `cp -al`: owners and modes of directories stay."""
    target.mkdir()
    for entry in os.scandir(source):
        if entry.is_dir(follow_symlinks=False):
            copy_tree(pathlib.Path(entry.path), target / entry.name)
        else:
            link_or_copy(entry.path, target / entry.name)
    stat = os.lstat(source)
    os.chown(target, stat.st_uid, stat.st_gid)
    os.chmod(target, stat.st_mode & 0o7777)


def new_data(top, prefix="own-"):
    """A data directory that has the image."""
    data = tempfile.mkdtemp(prefix=prefix, dir=top)
    give_image(data)
    return data


def serve(top, model, *flags, program=SANITIZED, env=None):
    """A server with the image, for sandboxes that name none too, whose model is the stand-in."""
    return Server(new_data(top), "--image", IMAGE, *flags, env={**model.env(), **(env or {})}, program=program)


def end(server):
    """It has found no fault in itself."""
    assert server.stop() == 0
    assert server.faults() == []


def make_box(api, name, **more):
    """A sandbox in which the model can be reached, and nothing else."""
    body = {"network": "none", "secrets": ["anthropic"], "memory": "2g", **more}
    api.ok("PUT", f"/sandbox/{name}", body)
    return name
