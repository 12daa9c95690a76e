# SPDX-License-Identifier: Apache-2.0
"""Repositories brought in by the container protocol, also with credentials in their URLs, which stay outside."""

import tempfile

import pytest
from container_helpers import Container, eventually
from git_server import HOST, PASSWORD, USER, GitServer

CHECKOUT = "/api/git/checkout"


@pytest.fixture(scope="module")
def remote():
    with tempfile.TemporaryDirectory(prefix="cay-git-") as root:
        server = GitServer(root)
        server.repo("open/hello.git", {"README.md": "hello\n"})
        server.repo("open/hello.git", {"README.md": "hello again\n"}, branch="main")
        server.repo("private/closed.git", {"inside.txt": "closed\n"})
        server.with_login = f"http://{USER}:{PASSWORD}@{HOST}:{server.port}"
        yield server
        server.close()


@pytest.fixture
def box(new):
    """One that was made on first sight, with the internet for a network."""
    new.ok("/api/exists", {"path": "/"})
    return new


def test_checkout(new, remote):
    done = new.ok(CHECKOUT, {"repoUrl": f"{remote.url}/open/hello.git", "sessionId": "s"})
    assert (done["repoUrl"], done["branch"], done["targetDir"]) == (f"{remote.url}/open/hello.git", "main", "/workspace/hello")
    assert new.read("hello/README.md")["content"] == "hello again\n"
    done = new.ok(CHECKOUT, {"repoUrl": f"{remote.url}/open/hello.git", "branch": "main", "targetDir": "shallow/x", "depth": 1, "timeoutMs": 60000})
    assert done["targetDir"] == "/workspace/shallow/x"
    assert new.run("git -C /workspace/shallow/x -c safe.directory='*' rev-list --count HEAD") == "1\n"


def test_bad_requests(shared):
    good = {"repoUrl": "https://example.com/a/b.git"}
    shared.invalid(CHECKOUT, {}, "repoUrl")
    shared.invalid(CHECKOUT, {"repoUrl": 1}, "repoUrl")
    for name, bad in (("branch", 1), ("branch", "a..b"), ("targetDir", []), ("targetDir", ""), ("depth", 0), ("depth", "1"), ("timeoutMs", 0), ("timeoutMs", 1.5)):
        shared.invalid(CHECKOUT, {**good, name: bad}, name)
    for url in ("", "x", "git@github.com:a/b.git", "ssh://git@github.com/a/b", "file:///etc", "https://", "https://example.com", "https://h/" + "a" * 3000, "https://u%zz@h/a", "https://u%3ax:p@h/a"):
        error = shared.fail(CHECKOUT, {"repoUrl": url}, 400, "INVALID_GIT_URL")
        assert "repoUrl" in error["message"]


def test_each_failure_has_its_code(box, remote):
    box.api.ok("PATCH", f"/sandbox/{box.box}", {"network": {"allow": [f"{HOST}:{remote.port}", f"{HOST}:1"]}})
    open_ = f"{remote.url}/open/hello.git"
    box.fail(CHECKOUT, {"repoUrl": f"{remote.url}/open/nothing.git"}, 404, "GIT_REPOSITORY_NOT_FOUND", repository=f"{remote.url}/open/nothing.git")
    error = box.fail(CHECKOUT, {"repoUrl": open_, "branch": "nope"}, 404, "GIT_BRANCH_NOT_FOUND", repository=open_, branch="nope")
    assert error["context"]["stderr"]
    box.fail(CHECKOUT, {"repoUrl": f"{remote.url}/private/closed.git"}, 401, "GIT_AUTH_FAILED")
    box.fail(CHECKOUT, {"repoUrl": "https://example.com/a/b"}, 502, "GIT_NETWORK_ERROR")  # its network does not let it
    box.fail(CHECKOUT, {"repoUrl": f"http://{HOST}:1/a/b"}, 502, "GIT_NETWORK_ERROR")  # nobody is there
    box.write("/workspace/full/x", "y")
    box.fail(CHECKOUT, {"repoUrl": open_, "targetDir": "full"}, 500, "GIT_CLONE_FAILED", targetDir="/workspace/full")


def test_credentials_in_the_url_stay_outside(box, remote, server):
    done = box.ok(CHECKOUT, {"repoUrl": f"{remote.with_login}/private/closed.git"})
    assert done["repoUrl"] == f"{remote.url}/private/closed.git" and PASSWORD not in str(done)
    assert box.read("closed/inside.txt")["content"] == "closed\n"
    assert box.run("git -C /workspace/closed -c safe.directory='*' remote get-url origin") == f"{remote.url}/private/closed.git\n"
    assert box.run(f"grep -rl {PASSWORD} /workspace /root /tmp /etc 2>/dev/null | wc -l") == "0\n"
    assert PASSWORD not in server.log()
    assert not box.api.ok("GET", f"/sandbox/{box.box}").get("secrets")
    # they were for that one time
    error = box.fail(CHECKOUT, {"repoUrl": f"{remote.url}/private/closed.git", "targetDir": "again"}, 401, "GIT_AUTH_FAILED")
    assert PASSWORD not in str(error)


def test_wrong_credentials(box, remote, server):
    for login in (f"{USER}:wrong-pass", "just-a-token", "u%40x:p%20q"):
        url = f"http://{login}@{HOST}:{remote.port}/private/closed.git"
        error = box.fail(CHECKOUT, {"repoUrl": url}, 401, "GIT_AUTH_FAILED", repository=f"{remote.url}/private/closed.git")
        assert login not in str(error) and "wrong-pass" not in server.log()


def test_a_secret_that_fits_is_used(api, box, remote):
    api.ok("PUT", "/secrets/repo", {"value": f"{USER}:{PASSWORD}", "upstream": remote.url, "format": "Basic {basic}"})
    api.ok("PATCH", f"/sandbox/{box.box}", {"secrets": ["repo"]})
    box.ok(CHECKOUT, {"repoUrl": f"{remote.url}/private/closed.git"})
    api.ok("DELETE", "/secrets/repo")


def test_one_who_leaves(box, remote):
    """A clone that nobody waits for any more is ended, and what was lent taken back."""
    box.run("mkdir -p /workspace/bin; printf '#!/bin/sh\\necho > /workspace/started; sleep 1000\\n' > /workspace/bin/git; chmod 755 /workspace/bin/git")
    box.api.ok("PATCH", f"/sandbox/{box.box}", {"env": {"PATH": "/workspace/bin:/usr/bin:/bin"}})
    connection = box.api.connect()
    headers, body = box.api.head(None, {"repoUrl": f"{remote.with_login}/private/closed.git"})
    connection.request("POST", box.base + CHECKOUT, body=body, headers=headers)
    eventually(lambda: box.ok("/api/exists", {"path": "/workspace/started"})["exists"])
    connection.close()
    eventually(lambda: box.run("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '").count("sleep 1000") == 0)


def test_its_time(box, remote):
    box.run("mkdir -p /workspace/bin; printf '#!/bin/sh\\nsleep 1000\\n' > /workspace/bin/git; chmod 755 /workspace/bin/git")
    box.api.ok("PATCH", f"/sandbox/{box.box}", {"env": {"PATH": "/workspace/bin:/usr/bin:/bin"}})
    error = box.fail(CHECKOUT, {"repoUrl": f"{remote.url}/open/hello.git", "timeoutMs": 100}, 500, "GIT_CLONE_FAILED")
    assert "longer" in error["message"]


def test_no_git(api, remote):
    box = Container(api, "no-git")
    api.ok("PUT", "/sandbox/no-git", {"network": "internet", "env": {"PATH": "/nowhere"}})
    box.fail(CHECKOUT, {"repoUrl": f"{remote.url}/open/hello.git"}, 501, "NOT_IMPLEMENTED")
    api("DELETE", "/sandbox/no-git")
