# SPDX-License-Identifier: Apache-2.0
"""docs/NETWORK.md, followed from its first line to its last: what it says is typed, what it shows is looked for. All of
it runs in a network of its own, in which this file, run as a program, plays the hosts of the page on their own ports."""

import base64
import fcntl
import http.server
import json
import os
import pathlib
import re
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading

import api_helpers
import egress_helpers
import git_server
import pytest
from api_helpers import ADMIN, CAY, PATIENCE, TOP

PAGE = TOP / "docs" / "NETWORK.md"
HOST = "127.0.0.2"  # not 127.0.0.1, which programs do not ask a proxy for
NAMES = ["example.com", "www.example.com", "api.github.com", "github.com", "git.example.com", "httpbin.org",
         "api.anthropic.com"]
GITHUB = ["ghp_0123456789abcdefghij", "ghp_9876543210zyxwvutsrq"]  # the second is the newer one
GIT = "ada:correct-horse"
KEY = "sk-ant-0123456789"  # of a model that is none
HOME_PAGE = b"<!doctype html><html><head><title>Example Domain</title></head></html>\n"


# --- the world, as a program


class Host(git_server.Handler):
    """All hosts of the page: which one, the request says."""

    def say(self, body, status=200):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if body[:1] == b"{" else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        host, shown = self.headers["Host"], self.headers.get("Authorization")
        if host == "api.github.com":
            known = shown in self.server.known
            self.say({"login": "octocat", "id": 583231} if known else {"message": "Bad credentials"}, 200 if known else 401)
        elif host == "api.anthropic.com":
            self.say({"data": [{"id": "claude-sonnet-5-5", "type": "model"}]}, 200 if self.headers["x-api-key"] == KEY else 401)
        elif host == "httpbin.org":
            self.say({"headers": dict(self.headers.items())})
        elif "/info/refs" in self.path:
            self.answer()
        else:
            self.say(HOME_PAGE)

    def do_POST(self):
        if self.headers["Host"] != "api.anthropic.com":
            super().do_POST()
            return
        self.rfile.read(int(self.headers["Content-Length"]))
        self.say({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "stop_reason": "end_turn",
                  "content": [{"type": "text", "text": "Hello!"}], "usage": {"input_tokens": 10, "output_tokens": 5}},
                 200 if self.headers["x-api-key"] == KEY else 401)

    do_HEAD = do_GET


def listen(port, root, tls):
    server = http.server.ThreadingHTTPServer((HOST, port), Host)
    server.daemon_threads, server.root, server.seen, server.moved_to = True, root, [], ""
    server.known = [f"Bearer {token}" for token in GITHUB]
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{root}/host.pem", f"{root}/host.key")
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def loopback_up():
    with socket.socket() as s:
        fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", b"lo", 1 | 0x40))  # SIOCSIFFLAGS: up and running


def mount(what, where):
    subprocess.run(["mount", "--bind", what, where], check=True)


def be_the_world(root):
    loopback_up()
    egress_helpers.NAMES[:] = NAMES
    egress_helpers.make_certificates(root)
    bundle = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
    pathlib.Path(f"{root}/bundle").write_text(bundle.read_text() + pathlib.Path(f"{root}/ca.pem").read_text())
    pathlib.Path(f"{root}/hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{HOST} {n}\n" for n in NAMES))
    for name in ("bundle", "hosts"):
        os.chmod(f"{root}/{name}", 0o644)
    mount(f"{root}/bundle", str(bundle))  # programs in boxes trust it: the image is made of these files
    mount(f"{root}/hosts", "/etc/hosts")
    git_server.BASIC = base64.b64encode(GIT.encode()).decode()
    for name in ("octocat", "private"):
        os.makedirs(f"{root}/{name}")
    git_server.make_repo(f"{root}/octocat/Hello-World.git", {"README": "Hello World!\n"}, branch="master")
    git_server.make_repo(f"{root}/private/notes.git", {"notes.txt": "closed\n"})
    listen(80, root, tls=False)
    listen(443, root, tls=True)
    print("ready", flush=True)
    sys.stdin.read()  # until whoever started it is gone


# --- the page


def steps():
    """(command, what is shown under it). A line that ends with a backslash goes on in the next."""
    found, skipped, skip, fresh = [], 0, False, False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("<!-- not run"):
            skip = True
        elif line.startswith("    $ ") and skip:
            skipped += 1
        elif line.startswith("    $ "):
            found.append([line[6:], []])
            fresh = True
        elif line.startswith("    ") and fresh and not skip:
            if not found[-1][1] and found[-1][0].endswith("\\"):
                found[-1][0] += "\n" + line[4:]
            else:
                found[-1][1].append(line[4:])
        elif line.strip():
            skip = fresh = False
    return found, skipped


def squeeze(text):
    """Where lines are broken is the page's affair. ^@ is what script(1) types when it has nobody to read from."""
    return re.sub(r"\s", "", text.replace("^@", ""))


def pattern(shown):
    """'…' stands for anything."""
    return ".*".join(re.escape(squeeze(part)) for part in "".join(shown).split("…"))


def script(commands):
    """One shell for all, as a reader has; each command's output ends with a mark of its own."""
    prelude = [
        'cay() { if [ "$1" = shell ]; then script -qec "$CAY_PROGRAM $(printf "%q " "$@")" /dev/null </dev/null;'
        ' else "$CAY_PROGRAM" "$@"; fi; }',
        'curl() { command curl -sS -m 60 "$@"; }',
    ]
    lines = [f"{{ {command}\n}} 2>&1\necho; echo '=== {i} ==='" for i, command in enumerate(commands)]
    return "\n".join(prelude + [line for line in lines if line])


@pytest.fixture(scope="module")
def world(top):
    root = tempfile.mkdtemp(prefix="doc-", dir=top)
    os.chmod(root, 0o755)
    command = ["unshare", "--net", "--mount", sys.executable, __file__, root]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    assert process.stdout.readline() == b"ready\n"
    yield process, root
    process.stdin.close()
    process.wait(PATIENCE)


@pytest.fixture
def server(world, top, monkeypatch):
    """In the world's namespaces, where the port of the page is free."""
    process, root = world
    inside = f"nsenter -t {process.pid} -n -m"
    wrapper = pathlib.Path(root) / "cay-in-there"
    wrapper.write_text(f'#!/bin/sh\nexec {inside} {CAY} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setattr(api_helpers, "CAY", str(wrapper))
    data = tempfile.mkdtemp(prefix="doc-data-", dir=top)
    server = api_helpers.Server(data, "--egress-private", "127.0.0.0/8", "--egress-ca", f"{root}/ca.pem", env={"ANTHROPIC_API_KEY": KEY})
    server.inside = inside.split()
    yield server
    assert server.stop() == 0
    assert server.faults() == []


def test_most_of_it_is_run():
    found, skipped = steps()
    assert len(found) >= 40 and skipped <= 2


def test_followed(server, tmp_path):
    env = {
        **os.environ,
        "CAY": f"http://127.0.0.1:{server.port}",
        "AUTH": f"Authorization: Bearer {ADMIN}",
        "CAY_PROGRAM": CAY,
        "CAY_DATA": str(server.data),
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    found, _ = steps()
    found = [step for step in found if not step[0].startswith("export ")]
    whole = script([command for command, _ in found])
    done = subprocess.run([*server.inside, "bash", "-c", whole], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=PATIENCE * 5, check=False)
    outputs = re.split(r"\n=== \d+ ===\n", done.stdout)
    assert len(outputs) == len(found) + 1, done
    wrong = []
    for (command, shown), output in zip(found, outputs, strict=False):
        if not re.search(pattern(shown), squeeze(output)):
            wrong.append(f"$ {command}\nshould show:\n" + "\n".join(shown) + f"\nbut shows:\n{output}\n")
    if os.environ.get("CAY_DOC_TRANSCRIPT"):
        with open(os.environ["CAY_DOC_TRANSCRIPT"], "w", encoding="utf-8") as f:
            f.writelines(f"$ {command}\n{output}\n" for (command, _), output in zip(found, outputs, strict=False))
    assert not wrong, "\n".join(wrong)


if __name__ == "__main__":
    be_the_world(sys.argv[1])
