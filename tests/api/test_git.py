# SPDX-License-Identifier: Apache-2.0
"""Git in a box: clone, status, diff, commit, against a real git server; and what a repository must not make it do."""

import http.server
import itertools
import json
import tempfile
import threading

import pytest
from api_helpers import Client, Server, at_once, eventually
from conftest import need_root
from git_server import BASIC, HOST, PASSWORD, USER, GitServer, git

numbers = itertools.count(1)
WORK = "/workspace"


@pytest.fixture(scope="module")
def remote():
    with tempfile.TemporaryDirectory(prefix="cay-git-") as root:
        server = GitServer(root)
        server.head = server.repo("open/hello.git", {"README.md": "hello\n", "src/a.txt": "one\n"})
        server.repo("open/hello.git", {"feature.txt": "f\n"}, branch="main")
        server.head = server.repo("open/hello.git", {"README.md": "hello again\n"}, branch="main")
        server.repo("private/closed.git", {"inside.txt": "closed\n"})
        yield server
        server.close()


@pytest.fixture(scope="module")
def server(request):
    """One that opens the loopback of this machine to boxes that are allowed to reach it."""
    make = request.getfixturevalue("make_module_server")
    return make("--egress-private", "127.0.0.0/8")


@pytest.fixture(scope="module")
def make_module_server(top):
    need_root()
    servers = []

    def make(*flags):
        servers.append(Server(tempfile.mkdtemp(prefix="git-", dir=top), *flags))
        return servers[-1]

    yield make
    for one in servers:
        assert one.stop() == 0
        assert one.faults() == []


@pytest.fixture(scope="module")
def api(server):
    return Client(server)


class Box:
    def __init__(self, api, remote, **more):
        self.api, self.remote = api, remote
        self.name = f"git-{next(numbers)}"
        body = {"network": {"allow": [f"{HOST}:{remote.port}"]}, **more}
        api.ok("PUT", f"/sandbox/{self.name}", body)

    def post(self, what, body):
        return self.api("POST", f"/sandbox/{self.name}/git/{what}", body)

    def clone(self, repo="open/hello.git", **more):
        reply = self.post("checkout", {"repoUrl": f"{self.remote.url}/{repo}", **more})
        assert reply.status == 200, reply
        return reply.json

    def look(self, what, path=f"{WORK}/hello"):
        reply = self.api("GET", f"/sandbox/{self.name}/git/{what}?path={path}")
        assert reply.status == 200, reply
        return reply.json

    def commit(self, message="work", path=f"{WORK}/hello", **more):
        return self.post("commit", {"message": message, "path": path, **more})

    def sh(self, command, code=0):
        done = self.api.exec(self.name, f"export HOME=/root; {command}")
        assert code is None or done["exitCode"] == code, done
        return done["stdout"]


@pytest.fixture
def box(api, remote):
    box = Box(api, remote)
    yield box
    api("DELETE", f"/sandbox/{box.name}")


# -- cloning


def test_clone(box, remote):
    done = box.clone()
    assert done["success"] and done["repoUrl"] == f"{remote.url}/open/hello.git"
    assert (done["branch"], done["commit"], done["targetDir"]) == ("main", remote.head, f"{WORK}/hello")
    assert done["duration"] > 0
    assert box.sh(f"cat {WORK}/hello/README.md") == "hello again\n"
    assert box.sh(f"cd {WORK}/hello && git remote get-url origin") == f"{remote.url}/open/hello.git\n"
    assert box.look("status")["clean"]


def test_clone_with_all_of_it(box, remote):
    done = box.clone(branch="main", targetDir="/srv/a b/c", depth=1, timeout="1m")
    assert done["targetDir"] == "/srv/a b/c"
    assert box.sh("cd '/srv/a b/c' && git rev-list --count HEAD") == "1\n"


def test_clone_of_an_empty_repository(box, remote):
    git("init", "-q", "--bare", "-b", "main", f"{remote.root}/open/empty.git")
    done = box.clone("open/empty.git")
    assert done["success"] and done["commit"] is None


@pytest.mark.parametrize(
    "body,status,code,words",
    [
        ({"repoUrl": "{url}/open/nothing.git"}, 404, "GIT_REPO_NOT_FOUND", "no repository"),
        ({"repoUrl": "{url}/private/closed.git"}, 403, "GIT_AUTH_FAILED", "/secrets/"),
        ({"repoUrl": "{url}/open/hello.git", "branch": "nope"}, 404, "GIT_BRANCH_NOT_FOUND", "'nope'"),
        ({"repoUrl": "{url}/open/hello.git", "targetDir": "/etc"}, 409, "FILE_EXISTS", "/etc"),
        ({"repoUrl": "{url}/open/hello.git", "targetDir": "/etc/passwd"}, 409, "FILE_EXISTS", "/etc/passwd"),
        ({"repoUrl": "http://127.0.0.1:1/x/y.git"}, 403, "GIT_NETWORK_DENIED", "network"),
        ({"repoUrl": "https://github.com/x/y.git"}, 403, "GIT_NETWORK_DENIED", "network"),
        ({"repoUrl": "{url}/open/hello.git", "secret": "nobody"}, 400, "INVALID_REQUEST", "'secrets'"),
    ],
)
def test_clones_that_fail(box, remote, body, status, code, words):
    body = {key: value.replace("{url}", remote.url) for key, value in body.items()}
    box.post("checkout", body).error(status, code, words)


@pytest.mark.parametrize(
    "body,words",
    [
        ({}, "repoUrl"),
        ({"repoUrl": ""}, "repoUrl"),
        ({"repoUrl": "--upload-pack=touch /tmp/canary"}, "repoUrl"),
        ({"repoUrl": "ext::sh -c touch% /tmp/canary"}, "repoUrl"),
        ({"repoUrl": "file:///etc"}, "repoUrl"),
        ({"repoUrl": "/etc"}, "repoUrl"),
        ({"repoUrl": "git@github.com:x/y.git"}, "repoUrl"),
        ({"repoUrl": "ssh://git@github.com/x/y"}, "repoUrl"),
        ({"repoUrl": "git://github.com/x/y"}, "repoUrl"),
        ({"repoUrl": "https://user:token@github.com/x/y"}, "/secrets/"),
        ({"repoUrl": "https://token@github.com/x/y"}, "/secrets/"),
        ({"repoUrl": "https://github.com"}, "repoUrl"),
        ({"repoUrl": "https://github.com/"}, "repoUrl"),
        ({"repoUrl": "https://github.com/x/../y"}, "repoUrl"),
        ({"repoUrl": "https://github.com/x?y"}, "repoUrl"),
        ({"repoUrl": "https://github.com/x\ny"}, "repoUrl"),
        ({"repoUrl": "https://github.com/x y"}, "repoUrl"),
        ({"repoUrl": "https://2130706433/x"}, "repoUrl"),
        ({"repoUrl": "HTTPS://github.com/x/y"}, "repoUrl"),
        ({"repoUrl": "https://h/x", "branch": "--upload-pack=x"}, "branch"),
        ({"repoUrl": "https://h/x", "branch": "-b"}, "branch"),
        ({"repoUrl": "https://h/x", "branch": ""}, "branch"),
        ({"repoUrl": "https://h/x", "branch": "a..b"}, "branch"),
        ({"repoUrl": "https://h/x", "branch": "a b"}, "branch"),
        ({"repoUrl": "https://h/x", "branch": "a~1"}, "branch"),
        ({"repoUrl": "https://h/x", "branch": "@"}, "branch"),
        ({"repoUrl": "https://h/x", "branch": "a.lock"}, "branch"),
        ({"repoUrl": "https://h/x", "branch": "/a"}, "branch"),
        ({"repoUrl": "https://h/x", "branch": "a//b"}, "branch"),
        ({"repoUrl": "https://h/x", "branch": "a\n"}, "branch"),
        ({"repoUrl": "https://h/x", "targetDir": "x"}, "targetDir"),
        ({"repoUrl": "https://h/x", "targetDir": "-x"}, "targetDir"),
        ({"repoUrl": "https://h/x", "targetDir": "/a/../b"}, "targetDir"),
        ({"repoUrl": "https://h/x", "targetDir": "/a\nb"}, "targetDir"),
        ({"repoUrl": "https://h/x", "depth": 0}, "depth"),
        ({"repoUrl": "https://h/x", "depth": "1"}, "depth"),
        ({"repoUrl": "https://h/x", "timeout": 0}, "timeout"),
        ({"repoUrl": "https://h/%2e%2e"}, "targetDir"),
        ({"repoUrl": "https://h/.git"}, "targetDir"),
    ],
)
def test_clones_that_are_none(box, body, words):
    box.post("checkout", body).error(400, "INVALID_REQUEST", words)
    box.sh("test ! -e /tmp/canary")


def test_a_sandbox_without_a_network(api, remote):
    box = Box(api, remote, network="none")
    box.post("checkout", {"repoUrl": f"{remote.url}/open/hello.git"}).error(403, "GIT_NETWORK_DENIED", "network")
    api.ok("DELETE", f"/sandbox/{box.name}")


def test_timeout(box, remote):
    box.post("checkout", {"repoUrl": f"{remote.url}/open/hello.git", "timeout": 1}).error(502, "GIT_CLONE_FAILED", "longer")


# -- with a secret


@pytest.fixture
def secret(api, remote):
    api.ok("PUT", "/secrets/git", {"value": f"{USER}:{PASSWORD}", "upstream": remote.url, "format": "Basic {basic}"})
    yield "git"
    api("DELETE", "/secrets/git")


def test_clone_with_a_secret(api, remote, secret):
    box = Box(api, remote, network="none", secrets=[secret])
    remote.seen.clear()
    done = box.clone("private/closed.git", secret=secret)
    assert done["targetDir"] == f"{WORK}/closed"
    assert box.sh(f"cat {WORK}/closed/inside.txt") == "closed\n"
    assert {shown for _, path, shown, _ in remote.seen if "private" in path} == {f"Basic {BASIC}"}
    # What is left in the box is the URL as it was given, and nothing of the credential.
    assert box.sh(f"cd {WORK}/closed && git remote get-url origin") == f"{remote.url}/private/closed.git\n"
    for planted in (PASSWORD, BASIC):
        box.sh(f"! grep -rqaF {planted} {WORK} /root /tmp /etc /var 2>/dev/null")
    api.ok("DELETE", f"/sandbox/{box.name}")


def test_secrets_that_do_not_fit(api, remote, secret):
    api.ok("PUT", "/secrets/other", {"value": "x", "upstream": f"{remote.url}/open"})
    url = f"{remote.url}/private/closed.git"
    box = Box(api, remote, secrets=["other"])
    body = {"repoUrl": url, "secret": secret}
    box.post("checkout", body).error(400, "INVALID_REQUEST", "'git'", "'secrets'")
    box.post("checkout", {**body, "secret": "other"}).error(400, "INVALID_REQUEST", "not there")
    api.ok("PATCH", f"/sandbox/{box.name}", {"secrets": ["other", secret]})
    assert box.post("checkout", body).status == 200
    api.ok("DELETE", "/secrets/other")
    box.post("checkout", {"repoUrl": f"{remote.url}/open/hello.git", "secret": "other"}).error(400, "INVALID_REQUEST", "'other'")
    api.ok("DELETE", f"/sandbox/{box.name}")


def test_a_wrong_secret(api, remote):
    api.ok("PUT", "/secrets/wrong", {"value": "a:b", "upstream": remote.url, "format": "Basic {basic}"})
    box = Box(api, remote, secrets=["wrong"])
    box.post("checkout", {"repoUrl": f"{remote.url}/private/closed.git", "secret": "wrong"}).error(403, "GIT_AUTH_FAILED")
    api.ok("DELETE", f"/sandbox/{box.name}")
    api.ok("DELETE", "/secrets/wrong")


# -- at creation


def test_a_repository_to_begin_with(api, remote, secret):
    allow = {"allow": [f"{HOST}:{remote.port}"]}
    made = api("PUT", "/sandbox/born", {"network": allow, "gitUrl": f"{remote.url}/open/hello.git", "gitBranch": "main"})
    assert made.status == 201 and made.json["created"]
    assert made.json["git"]["success"] and made.json["git"]["commit"] == remote.head
    assert api.exec("born", f"cat {WORK}/hello/README.md")["stdout"] == "hello again\n"
    api.ok("DELETE", "/sandbox/born")
    # with one of its secrets that fits
    made = api("POST", "/sandbox", {"secrets": [secret], "gitUrl": f"{remote.url}/private/closed.git"})
    assert made.status == 201 and made.json["git"]["success"], made
    api.ok("DELETE", f"/sandbox/{made.json['id']}")


@pytest.mark.parametrize("path,code", [("open/nothing.git", "GIT_REPO_NOT_FOUND"), ("private/closed.git", "GIT_AUTH_FAILED")])
def test_a_sandbox_is_there_though_its_repository_is_not(api, remote, path, code):
    made = api("PUT", "/sandbox/half", {"network": {"allow": [f"{HOST}:{remote.port}"]}, "gitUrl": f"{remote.url}/{path}"})
    assert made.status == 201
    assert made.json["success"] and not made.json["git"]["success"]
    assert made.json["git"]["error_code"] == code and made.json["git"]["error"]
    assert api.exec("half", "echo here")["stdout"] == "here\n"
    api.ok("DELETE", "/sandbox/half")


def test_repositories_that_are_none(api):
    for body in ({"gitUrl": "file:///etc"}, {"gitUrl": "https://u:p@h/x"}, {"gitBranch": "x"}, {"gitUrl": "https://h/x", "gitBranch": "-x"}):
        api("PUT", "/sandbox/never", body).error(400, "INVALID_REQUEST", "git")
    assert api("GET", "/sandbox/never").status == 404


def test_gitUrl_cannot_be_changed(api, box):
    api("PATCH", f"/sandbox/{box.name}", {"gitUrl": "https://h/x"}).error(400, "INVALID_REQUEST", "gitUrl")


# -- status, diff, commit


def test_status(box):
    box.clone()
    box.sh(
        f"cd {WORK}/hello && echo new > 'new file' && echo more >> README.md && git mv src/a.txt src/b.txt"
        " && printf x > $'line\\nfeed' && echo i > ignored && echo ignored > .git/info/exclude && rm feature.txt"
    )
    found = box.look("status")
    assert found["branch"] == "main" and not found["clean"] and found["upstream"] == "origin/main"
    assert (found["ahead"], found["behind"]) == (0, 0)
    files = {f["path"]: f for f in found["files"]}
    assert files["new file"]["status"] == "untracked"
    assert files["line\nfeed"]["status"] == "untracked"
    assert (files["README.md"]["status"], files["README.md"]["index"], files["README.md"]["worktree"]) == ("modified", ".", "M")
    assert files["src/b.txt"]["status"] == "renamed" and files["src/b.txt"]["oldPath"] == "src/a.txt"
    assert files["feature.txt"]["status"] == "deleted"
    assert "ignored" not in files
    assert found["files"] == box.look("status", f"{WORK}/hello/src")["files"]  # from below, too


def test_diff_has_new_files_and_leaves_the_index_alone(box):
    box.clone()
    box.sh(
        f"cd {WORK}/hello && mkdir d && echo new > d/new && echo more >> README.md && echo s > staged && git add staged"
        " && head -c 100 /dev/zero > zeros && cp .git/index /tmp/before && git status --porcelain=v2 > /tmp/status"
        " && cp .git/index /tmp/before"
    )
    found = box.look("diff")
    assert {f["path"]: f["status"] for f in found["files"]} == {
        "README.md": "modified",
        "d/new": "added",
        "staged": "added",
        "zeros": "added",
    }
    assert "+more" in found["diff"] and "+++ b/d/new\n" in found["diff"] and "+new\n" in found["diff"]
    assert not found["truncated"]
    box.sh(f"cd {WORK}/hello && cmp .git/index /tmp/before && git status --porcelain=v2 | cmp - /tmp/status")
    eventually(lambda: "cay" not in box.sh(f"ls {WORK}/hello/.git"))
    # The patch is one: it makes the same tree of what was committed.
    box.sh(f"git clone -q {WORK}/hello /tmp/again")
    box.api.ok("POST", f"/sandbox/{box.name}/exec", {"argv": ["tee", "/tmp/patch"], "stdin": found["diff"]})
    box.sh(f"cd /tmp/again && git apply --index /tmp/patch && diff -r --exclude=.git . {WORK}/hello")


def test_diff_of_what_is_no_text(box):
    box.clone()
    box.sh(f"cd {WORK}/hello && printf '\\377\\376 x\\n' > latin && git add latin && git commit -qm x && printf '\\377 y\\n' > latin", None)
    box.commit("x")
    box.sh(f"cd {WORK}/hello && printf 'caf\\351\\n' > latin")
    found = box.look("diff")
    assert found["encoding"] == "base64"


def test_diff_of_a_change_that_is_hard_to_see(box):
    """As long as before and in the same second, which is all that git looks at, but for the time of its index."""
    box.clone()
    for i in range(5):
        box.sh(
            f"cd {WORK}/hello && while [ $(date +%N | cut -c1) != 9 ]; do :; done; echo aaa{i} > file && git add file && echo bbb{i} > file"
        )
        found = box.look("diff")
        assert f"+bbb{i}" in found["diff"], found
        assert box.commit().status == 200
        assert box.sh(f"cd {WORK}/hello && git show HEAD:file") == f"bbb{i}\n"


def test_diff_of_a_new_repository(box):
    box.sh(f"git init -q {WORK}/fresh && cd {WORK}/fresh && echo a > a")
    found = box.look("diff", f"{WORK}/fresh")
    assert [f["path"] for f in found["files"]] == ["a"] and "+a\n" in found["diff"]
    status = box.look("status", f"{WORK}/fresh")
    assert status["commit"] is None and status["files"][0]["status"] == "untracked"


def test_a_large_diff_is_cut(box):
    box.sh(f"git init -q {WORK}/big && cd {WORK}/big && seq 1 3000000 > a")
    found = box.look("diff", f"{WORK}/big")
    assert found["truncated"] and len(found["diff"]) <= 16 * 1024 * 1024
    eventually(lambda: "cay" not in box.sh(f"ls {WORK}/big/.git"))


def test_commit(box):
    box.clone()
    head = box.sh(f"cd {WORK}/hello && git rev-parse HEAD").strip()
    box.commit().error(409, "CONFLICT", "nothing to commit")
    box.sh(f"cd {WORK}/hello && echo new > new && rm feature.txt && echo more >> README.md")
    author = {"name": "Ada Ö", "email": "ada@example.com"}
    done = box.commit("Title\n\n# not a comment\n", author=author)
    assert done.status == 200 and done.json["branch"] == "main" and done.json["commit"] != head
    assert box.sh(f"cd {WORK}/hello && git log -1 --format='%an|%ae|%cn|%B'") == "Ada Ö|ada@example.com|Ada Ö|Title\n\n# not a comment\n\n"
    assert box.look("status")["clean"]
    # only what is staged; the repository's own identity
    box.sh(f"cd {WORK}/hello && git config user.name Me && git config user.email me@here && echo 1 > staged && echo 2 > left && git add staged")
    assert box.commit(all=False).status == 200
    assert [f["path"] for f in box.look("status")["files"]] == ["left"]
    assert box.sh(f"cd {WORK}/hello && git log -1 --format='%an|%ae'") == "Me|me@here\n"


def test_from_below(box):
    """A directory in a repository is as good as its top; paths are the top's."""
    box.clone()
    box.sh(f"cd {WORK}/hello && echo new > new && mkdir src/d && echo n > 'src/d/*' && echo more >> src/a.txt && rm feature.txt")
    names = {"new", "src/d/*", "src/a.txt", "feature.txt"}
    for what in ("status", "diff"):
        found = box.look(what, f"{WORK}/hello/src")
        assert {f["path"] for f in found["files"]} == names and found["path"] == f"{WORK}/hello"
    assert "+n\n" in found["diff"]
    assert box.commit(path=f"{WORK}/hello/src").json["path"] == f"{WORK}/hello"
    assert box.look("status")["clean"]
    assert set(box.sh(f"cd {WORK}/hello && git show --format= --name-only").split("\n")) == names | {""}


@pytest.mark.parametrize(
    "body,words",
    [
        ({"message": ""}, "message"),
        ({"message": " \n"}, "message"),
        ({"message": "x", "path": "relative"}, "path"),
        ({"message": "x", "path": "/a/../b"}, "path"),
        ({"message": "x", "author": {"name": "a"}}, "email"),
        ({"message": "x", "author": {"name": "a <b>", "email": "c"}}, "author"),
        ({"message": "x", "author": {"name": "a\nb", "email": "c"}}, "author"),
        ({"message": "x\u0000y"}, "message"),
    ],
)
def test_commits_that_are_none(box, body, words):
    box.post("commit", body).error(400, "INVALID_REQUEST", words)


@pytest.mark.parametrize("what", ["status", "diff"])
def test_no_repository(api, box, what):
    api("GET", f"/sandbox/{box.name}/git/{what}").error(404, "GIT_REPO_NOT_FOUND", "/workspace")
    api("GET", f"/sandbox/{box.name}/git/{what}?path=/nowhere").error(404, "NOT_FOUND", "/nowhere")
    for path in ("x", "/a/../b", "-x", "/a%0ab"):
        api("GET", f"/sandbox/{box.name}/git/{what}?path={path}").error(400, "INVALID_REQUEST", "path")


def test_commit_without_a_repository(box):
    box.commit(path="/tmp").error(404, "GIT_REPO_NOT_FOUND", "/tmp")


# -- clients that go


class Slow(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.set()
        self.server.go_on.wait(60)
        self.close_connection = True

    def log_message(self, *_):
        pass


def test_a_client_that_goes_takes_its_clone_with_it(box, api):
    slow = http.server.ThreadingHTTPServer((HOST, 0), Slow)
    slow.daemon_threads = True
    slow.asked, slow.go_on = threading.Event(), threading.Event()
    threading.Thread(target=slow.serve_forever, daemon=True).start()
    port = slow.server_address[1]
    api.ok("PATCH", f"/sandbox/{box.name}", {"network": {"allow": [f"{HOST}:{port}"]}})
    connection = api.connect()
    headers, body = api.head({}, {"repoUrl": f"http://{HOST}:{port}/x/y.git"})
    connection.request("POST", f"/sandbox/{box.name}/git/checkout", body, headers)
    assert slow.asked.wait(60)
    assert "git" in box.sh("cat /proc/*/comm")
    connection.close()
    eventually(lambda: "git" not in box.sh("cat /proc/*/comm 2>/dev/null", None).split())
    slow.go_on.set()
    slow.shutdown()
    slow.server_close()


def test_a_clone_with_a_key_goes_on(box, api, remote):
    """Its client goes before it is there, and has the answer when it asks again."""
    reached, go_on = threading.Event(), threading.Event()
    remote.http.hold = (reached, go_on)
    headers, body = api.head({"Idempotency-Key": "clone-1"}, {"repoUrl": f"{remote.url}/open/hello.git"})
    connection = api.connect()
    connection.request("POST", f"/sandbox/{box.name}/git/checkout", body, headers)
    try:
        assert reached.wait(60)
        connection.close()
        api.ok("GET", f"/sandbox/{box.name}")  # the server has seen it go, or will: both are the same to it
    finally:
        remote.http.hold = None
        go_on.set()
    eventually(lambda: "README.md" in box.sh(f"ls {WORK}/hello 2>/dev/null", None))
    again = {"repoUrl": f"{remote.url}/open/hello.git"}
    headers = {"Idempotency-Key": "clone-1"}
    eventually(lambda: api("POST", f"/sandbox/{box.name}/git/checkout", again, headers=headers).status == 200)


def test_many_at_once(box):
    box.clone()
    box.sh(f"cd {WORK}/hello && echo new > new")
    jobs = [lambda what=what: box.look(what) for what in ("status", "diff") * 8]
    assert {json.dumps(found["files"][0]["path"]) for found in at_once(*jobs)} == {'"new"'}
    eventually(lambda: "cay" not in box.sh(f"ls {WORK}/hello/.git"))


# -- what a repository must not make us run: each plants a canary, and shows that plain git would run it

CANARY = "/tmp/canary"
EVIL = f"#!/bin/sh\\ntouch {CANARY}\\nexit 1\\n"
HOOKS = "pre-commit prepare-commit-msg commit-msg post-commit post-checkout post-index-change reference-transaction pre-auto-gc"

PLANTS = {
    "hooks": (
        f"mkdir -p .git/hooks; for h in {HOOKS}; do printf '{EVIL}' > .git/hooks/$h; chmod +x .git/hooks/$h; done",
        "git commit -qam x",
    ),
    "hooksPath": (
        f"mkdir hooks; for h in {HOOKS}; do printf '{EVIL}' > hooks/$h; chmod +x hooks/$h; done; git config core.hooksPath hooks",
        "git commit -qam x",
    ),
    "fsmonitor": (f"git config core.fsmonitor 'touch {CANARY};false'", "git status"),
    "filter-clean": (
        f"printf '* filter=evil\\n' > .gitattributes; git config filter.evil.clean 'touch {CANARY}; cat'; touch README.md",
        "git add -A",
    ),
    "filter-process": (
        f"printf '* filter=evil.er\\n' > .gitattributes; git config filter.evil.er.process 'touch {CANARY}; false'; touch README.md",
        "git add -A",
    ),
    "filter-required": (
        f"printf '* filter=evil\\n' > .gitattributes; git config filter.evil.clean 'touch {CANARY}; cat';"
        " git config filter.evil.required true",
        "git add -A",
    ),
    "filter-included": (
        f"printf '* filter=evil\\n' > .gitattributes; git config include.path /tmp/more;"
        f" git config -f /tmp/more filter.evil.clean 'touch {CANARY}; cat'",
        "git add -A",
    ),
    "diff-external": (f"git config diff.external 'touch {CANARY};'", "git diff"),
    "diff-textconv": (
        f"printf '* diff=evil\\n' > .gitattributes; git config diff.evil.textconv 'touch {CANARY}; cat'",
        "git diff",
    ),
    "diff-command": (
        f"printf '* diff=evil\\n' > .gitattributes; git config diff.evil.command 'touch {CANARY};'",
        "git diff",
    ),
    "gpg": (
        f"printf '{EVIL}' > /tmp/gpg; chmod +x /tmp/gpg; git config gpg.program /tmp/gpg; git config commit.gpgSign true;"
        " git config user.signingKey x",
        "git commit -qam x",
    ),
    "pager": (f"git config core.pager 'touch {CANARY}; cat'; git config pager.status true", "python3 -c 'import pty; pty.spawn([\"git\", \"status\"])'"),
    "editor": (f"git config core.editor 'touch {CANARY};false'", "git commit -a"),
    "global": (f"git config --global core.fsmonitor 'touch {CANARY};false'", "git status"),
    "system": (f"git config --system core.fsmonitor 'touch {CANARY};false'", "git status"),
    "symlinked-git": (
        f"mv .git /tmp/real; ln -s /tmp/real .git; git config core.fsmonitor 'touch {CANARY};false';"
        f" mkdir -p /tmp/real/hooks; printf '{EVIL}' > /tmp/real/hooks/pre-commit; chmod +x /tmp/real/hooks/pre-commit",
        "git status",
    ),
    "gitfile": (
        f"mv .git /tmp/real2; echo 'gitdir: /tmp/real2' > .git; git config core.fsmonitor 'touch {CANARY};false'",
        "git status",
    ),
    "worktree-config": (
        "git config extensions.worktreeConfig true;"
        f" git config -f .git/config.worktree core.fsmonitor 'touch {CANARY};false'",
        "git status",
    ),
    "lazy-fetch": (
        f"git config protocol.ext.allow always; git config remote.origin.url 'ext::sh -c touch% {CANARY}';"
        " git config remote.origin.promisor true; git config extensions.partialClone origin;"
        " git config core.repositoryFormatVersion 1; find .git/objects -name '*.pack' -exec mv {} /tmp/p \\;;"
        " rm -rf .git/objects/pack/*; git unpack-objects -q < /tmp/p; rm -f .git/index;"
        " b=$(git rev-parse HEAD:README.md); git read-tree HEAD; rm -f .git/objects/$(echo $b | cut -c1-2)/$(echo $b | cut -c3-)",
        "git log -p",
    ),
    "submodule": (
        "git init -q sub; (cd sub; echo s > s; git add s; git -c user.name=a -c user.email=b commit -qm s); git add sub;"
        f" (cd sub; printf '* filter=evil\\n' > .gitattributes; git config filter.evil.clean 'touch {CANARY}; cat'; touch -d 2001-01-01 s)",
        "git status",
    ),
}


def plain(box, command):
    """What git does when nobody looks after it."""
    return box.sh(
        f"cd {WORK}/hello; export GIT_EDITOR= GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=b;"
        f" unset GIT_EDITOR; {command} < /dev/null",
        None,
    )


@pytest.mark.parametrize("name", PLANTS)
def test_nothing_of_a_repository_runs(box, name):
    plant, control = PLANTS[name]
    box.clone()
    box.sh(f"cd {WORK}/hello && echo changed >> README.md && echo new > new && {plant}")
    box.sh(f"rm -f {CANARY}")
    for what in ("status", "diff"):
        reply = box.api("GET", f"/sandbox/{box.name}/git/{what}?path={WORK}/hello")
        assert reply.status < 500, reply
        assert box.sh(f"ls {CANARY} 2>/dev/null", None) == "", (name, what)
    reply = box.commit()
    assert reply.status < 500, reply
    assert box.sh(f"ls {CANARY} 2>/dev/null", None) == "", (name, "commit")
    if name not in ("lazy-fetch",):
        assert reply.status == 200, reply
        box.sh(f"cd {WORK}/hello && echo again >> README.md", None)
    plain(box, control)
    box.sh(f"rm {CANARY}")  # the control: it is there


def test_nothing_of_the_variables_runs(api, remote):
    names = ("GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_EDITOR", "GIT_PAGER", "GIT_ASKPASS", "SSH_ASKPASS")
    env = {name: f"touch {CANARY};" for name in names}
    env.update(GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="core.fsmonitor", GIT_CONFIG_VALUE_0=f"touch {CANARY};false")
    env["GIT_CONFIG_PARAMETERS"] = f"'core.fsmonitor'='touch {CANARY};false'"
    box = Box(api, remote, env=env)
    box.clone()
    box.sh(f"cd {WORK}/hello && echo changed >> README.md; rm -f {CANARY}")
    box.look("status"), box.look("diff")
    assert box.commit().status == 200
    assert box.sh(f"ls {CANARY} 2>/dev/null", None) == ""
    plain(box, "git status")
    box.sh(f"rm {CANARY}")
    api.ok("DELETE", f"/sandbox/{box.name}")


def test_no_credential_helper_is_asked(api, remote, secret):
    box = Box(api, remote, secrets=[secret])
    helper = f"git config --global credential.helper '!touch {CANARY};'; git config --global core.askPass /tmp/ask;"
    box.sh(f"{helper} printf '{EVIL}' > /tmp/ask; chmod +x /tmp/ask; printf 'machine {HOST} login a password b' > /root/.netrc")
    box.post("checkout", {"repoUrl": f"{remote.url}/private/closed.git"}).error(403, "GIT_AUTH_FAILED")
    assert not [shown for _, _, shown, _ in remote.seen[-3:] if shown]
    box.clone("private/closed.git", secret=secret)
    assert box.sh(f"ls {CANARY} 2>/dev/null", None) == ""
    box.sh(f"rm /root/.netrc; cd /tmp; GIT_TERMINAL_PROMPT=0 git clone {remote.url}/private/closed.git x", None)
    box.sh(f"rm {CANARY}")
    api.ok("DELETE", f"/sandbox/{box.name}")


def test_submodules_are_left_alone(box, remote):
    modules = f'[submodule "s"]\n\tpath = s\n\turl = ext::sh -c touch% {CANARY}\n'
    remote.repo("open/mother.git", {".gitmodules": modules, "a": "a\n"})
    work = f"{remote.root}/open/mother.git.work"
    git("update-index", "--add", "--cacheinfo", f"160000,{remote.head},s", cwd=work)
    git("commit", "-qm", "module", cwd=work)
    git("push", "-q", "origin", "HEAD:main", cwd=work)
    box.clone("open/mother.git")
    assert box.sh(f"ls {CANARY} 2>/dev/null", None) == ""
    box.sh(f"cd /tmp; git -c protocol.ext.allow=always clone --recurse-submodules {remote.url}/open/mother.git y", None)
    box.sh(f"rm {CANARY}")
