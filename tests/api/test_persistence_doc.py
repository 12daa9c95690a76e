# SPDX-License-Identifier: Apache-2.0
"""docs/PERSISTENCE.md, followed from its first line to its last; and cells of its table that can be tried without pulling a plug."""

import os
import re
import tempfile

import pytest
from api_helpers import ADMIN, CAY, TOP, Client, Server
from conftest import need_root
from doc_helpers import differences, follow, steps

PAGE = TOP / "docs" / "PERSISTENCE.md"


@pytest.fixture
def own(make_server):
    return make_server()


@pytest.fixture
def environment(own):
    return {
        **os.environ,
        "CAY": f"http://127.0.0.1:{own.port}",
        "AUTH": f"Authorization: Bearer {ADMIN}",
        "CAY_PROGRAM": CAY,
        "CAY_DATA": str(own.data),
        "ASAN_OPTIONS": "detect_leaks=0",
    }


def test_followed(environment, tmp_path):
    found = steps(PAGE)
    assert len(found) >= 25
    wrong = differences(found, follow(found, environment, tmp_path))
    assert not wrong, "\n".join(wrong)


def test_routes_and_settings_are_there(own):
    """What the page names exists: routes by the description of the server, settings by the example file."""
    text = PAGE.read_text(encoding="utf-8")
    paths = Client(own).ok("GET", "/openapi.json")["paths"]
    for end in ("snapshots", "rollback", "fork", "sync", "stored", "backups", "restore", "export", "import", "archive"):
        assert f"/{end}" in text and f"/sandbox/{{id}}/{end}" in paths, end
    assert "/backups" in paths and "/du" in paths
    example = (TOP / "cay.conf.example").read_text(encoding="utf-8")
    named = set(re.findall(r"\b(?:s3-[a-z-]+|store-dir|disk-spare|keep-results|max-results(?:-bytes)?)\b", text))
    assert len(named) >= 10
    for name in named:
        assert re.search(rf"^#? ?{name} =", example, re.MULTILINE), name


@pytest.fixture
def doomed(top):
    """One that may tell of faults in its end."""
    need_root()
    server = Server(tempfile.mkdtemp(prefix="doomed-", dir=top))
    yield server
    server.stop()


def test_what_is_kept_when_all_is_killed(doomed):
    api = Client(doomed)
    api.ok("PUT", "/sandbox/a", {})
    api.ok("POST", "/sandbox/a/sessions", {"id": "s"})
    api.ok("POST", "/sandbox/a/exec", {"session": "s", "command": "cd /tmp; export V=1; echo kept > /workspace/f"})
    api.ok("POST", "/sandbox/a/snapshots", {"name": "n"})
    api.ok("POST", "/sandbox/a/exec", {"session": "s", "command": "cd /var; export V=2"})
    doomed.process.kill()  # daemon and boxes go with it
    doomed.process.wait()
    doomed.start()
    said = api.ok("POST", "/sandbox/a/exec", {"session": "s", "command": "pwd; echo $V; cat /workspace/f"})
    assert said["stdout"] == "/var\n1\nkept\n"  # variables are those of the snapshot
    assert len(api.ok("GET", "/sandbox/a/snapshots")["snapshots"]) == 1
