# SPDX-License-Identifier: Apache-2.0
"""The image that sandboxes get which name none (`cay serve --image`), and what a server says of the image `host`."""

import io
import os
import subprocess
import tarfile

import pytest
from serve_helpers import CAY, PATIENCE, Serve, await_that, environment, refused

OUR_PROGRAM = {"argv": ["/usr/bin/cay", "help"]}
MODULES = "/usr/lib/python3/dist-packages"


def import_small(data, tmp_path):
    """An image with one program: ours, which needs no other file."""
    path = tmp_path / "small.tar"
    with tarfile.open(path, "w") as tar:
        for name in ("usr", "usr/bin", "etc"):
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        with open(CAY, "rb") as program:
            info = tarfile.TarInfo("usr/bin/cay")
            info.size, info.mode = os.stat(CAY).st_size, 0o755
            tar.addfile(info, program)
        passwd = b"root:x:0:0:root:/root:/bin/sh\n"
        info = tarfile.TarInfo("etc/passwd")
        info.size = len(passwd)
        tar.addfile(info, io.BytesIO(passwd))
    subprocess.run([CAY, "image", "import", "small", path], env=environment(CAY_DATA=data), check=True,
                   capture_output=True, timeout=PATIENCE)


def test_an_image_that_is_missing_is_refused(data):
    code, line = refused("--data", data, "--listen", "127.0.0.1:0", "--image", "nosuch")
    assert code == 125 and "there is no image 'nosuch'" in line
    code, line = refused("--data", data, "--listen", "127.0.0.1:0", "--image", "data")
    assert code == 125 and "'cay image build data' makes it" in line
    code, line = refused("--data", data, "--listen", "127.0.0.1:0", "--image", "../x")
    assert code == 125 and "cannot name an image" in line


def test_sandboxes_and_the_pool_stand_on_it(data, tmp_path):
    import_small(data, tmp_path)
    with Serve(data, "--image", "small") as server:
        await_that(lambda: server.call("GET", "/health")["pool"]["ready"] > 0)
        made = server.call("POST", "/sandbox", {"id": "a"})
        assert made["image"] == "small"
        assert "usage: cay" in server.call("POST", "/sandbox/a/exec", OUR_PROGRAM)["stdout"]
        again = server.call("POST", "/sandbox", {"id": "a", "image": "small"})  # the same settings
        assert not again["created"]
        assert server.call("POST", "/sandbox", {"id": "b", "image": "host"})["image"] == "host"
        assert server.call("POST", "/sandbox/b/exec", {"command": "echo hi"})["stdout"] == "hi\n"
        done = subprocess.run([CAY, "image", "rm", "small"], env=environment(CAY_DATA=data), capture_output=True,
                              timeout=PATIENCE, check=False)
        assert done.returncode == 125 and b"in use" in done.stderr
        assert server.stop() == 0
    # Sandboxes keep what they were made with.
    with Serve(data) as server:
        assert server.call("GET", "/sandbox/a")["image"] == "small"
        assert "usage: cay" in server.call("POST", "/sandbox/a/exec", OUR_PROGRAM)["stdout"]
        assert server.call("POST", "/sandbox", {"id": "c"})["image"] == "host"


@pytest.mark.skipif(not os.path.isdir(MODULES), reason="not a Debian machine")
def test_what_the_host_lacks_is_said(data, tmp_path):
    wrapper = tmp_path / "cay-without"
    wrapper.write_text(f"#!/bin/sh\nmount -t tmpfs none {MODULES} && exec {CAY} \"$@\"\n")
    wrapper.chmod(0o755)
    server = Serve(data, "--pool", "0")
    server.command = ["unshare", "--mount", str(wrapper), *server.command[1:]]
    with server:
        lines = [line for line in server.said if line.startswith("  lacks ")]
    assert len(lines) == 1 and "numpy, pandas, matplotlib" in lines[0]
    assert "apt-get install" in lines[0] and "python3-numpy" in lines[0] and "cay image build data" in lines[0]
