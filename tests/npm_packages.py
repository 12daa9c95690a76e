# SPDX-License-Identifier: Apache-2.0
"""Programs of others, which the tests drive unmodified: fetched with npm as the package-lock.json beside a suite has them,
once, into build-test/NAME (or CAY_NAME). Where they cannot be had the tests that need them are skipped, and say why."""

import fcntl
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess

BUILD = pathlib.Path(__file__).resolve().parent.parent / "build-test"
FLAGS = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
FILES = ("package.json", "package-lock.json")
PATIENCE = 600  # seconds, for some hundred packages
NODE_LEAST = 20  # older ones look for localhost at ::1 alone


class Missing(Exception):
    pass


def check_node():
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise Missing("there is no node, or no npm")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.lstrip("v").split(".")[0]) < NODE_LEAST:
        raise Missing(f"node is {version}, and {NODE_LEAST} is the least")


def stamp_of(source):
    return hashlib.sha256(b"".join((source / name).read_bytes() for name in FILES)).hexdigest()


def fetch(source, into):
    for name in FILES:
        shutil.copyfile(source / name, into / name)
    try:
        done = subprocess.run(["npm", "ci", *FLAGS], cwd=into, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired as error:
        raise Missing(f"npm ci took more than {PATIENCE} s") from error
    if done.returncode != 0:
        raise Missing("npm ci failed: " + (done.stderr.strip().splitlines() or ["?"])[0])


@functools.cache
def folder(source, name):
    """Where node_modules is, of what the two files in `source` name. Raises Missing."""
    check_node()
    source = pathlib.Path(source)
    into = pathlib.Path(os.environ.get(f"CAY_{name.upper()}", BUILD / name))
    into.mkdir(parents=True, exist_ok=True)
    with open(into / "lock", "w", encoding="utf-8") as lock:  # two suites may want them at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp, there = stamp_of(source), into / "stamp"
        if not there.exists() or there.read_text() != stamp:
            there.unlink(missing_ok=True)
            fetch(source, into)
            there.write_text(stamp)
    return into
