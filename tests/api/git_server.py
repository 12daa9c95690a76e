# SPDX-License-Identifier: Apache-2.0
"""A real git server for tests: `git http-backend` behind a small HTTP server on the loopback. Below /open/ everybody
reads, below /private/ those who show USER:PASSWORD. It remembers what it was shown."""

import base64
import http.server
import os
import subprocess
import threading

HOST = "127.0.0.2"  # not 127.0.0.1, which boxes do not ask a proxy for
USER, PASSWORD = "robot", "planted-9f8e7d6c5b4a"
BASIC = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


def git(*args, cwd=None, **more):
    env = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_{what}": "t@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    done = subprocess.run(["git", *args], cwd=cwd, env=env, capture_output=True, text=True, check=True, **more)
    return done.stdout


def make_repo(path, files, branch="main"):
    """A bare repository with one commit, or one more where it is there already."""
    work = f"{path}.work"
    if not os.path.exists(path):
        git("init", "--quiet", "--bare", "-b", branch, path)
        git("clone", "--quiet", path, work)
        git("checkout", "-q", "-B", branch, cwd=work)
    for name, text in files.items():
        os.makedirs(os.path.dirname(f"{work}/{name}"), exist_ok=True)
        with open(f"{work}/{name}", "w", encoding="utf-8") as f:
            f.write(text)
    git("add", "-A", cwd=work)
    git("commit", "-q", "-m", "files", cwd=work)
    git("push", "-q", "origin", f"HEAD:{branch}", cwd=work)
    return git("rev-parse", "HEAD", cwd=work).strip()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def refuse(self, status):
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def read_body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def answer(self):
        path, _, query = self.path.partition("?")
        self.server.seen.append((self.command, self.path, self.headers.get("Authorization"), self.headers.get("Host")))
        body = self.read_body()
        if hold := getattr(self.server, "hold", None):  # two events: it was asked, it may answer
            hold[0].set()
            hold[1].wait(60)
        if path.startswith("/moved/"):
            self.send_response(302)
            self.send_header("Location", self.server.moved_to)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if path.startswith("/private/") and self.headers.get("Authorization") != f"Basic {BASIC}":
            self.refuse(401)
            return
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": self.server.root,
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_ADDR": "127.0.0.1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }
        done = subprocess.run(["git", "http-backend"], env=env, input=body, capture_output=True, check=False)
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        status, headers = 200, []
        for line in head.decode().splitlines():
            name, _, value = line.partition(": ")
            if name.lower() == "status":
                status = int(value.split()[0])
            elif name:
                headers.append((name, value))
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest)

    do_GET = do_POST = answer


class GitServer:
    def __init__(self, root):
        self.root = str(root)
        for name in ("open", "private"):
            os.makedirs(f"{self.root}/{name}", exist_ok=True)
        self.http = http.server.ThreadingHTTPServer((HOST, 0), Handler)
        self.http.daemon_threads = True
        self.http.root, self.http.seen, self.http.moved_to = self.root, [], ""
        self.port = self.http.server_address[1]
        self.url = f"http://{HOST}:{self.port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def seen(self):
        return self.http.seen

    def repo(self, name, files=None, **more):
        return make_repo(f"{self.root}/{name}", files or {"README.md": "hello\n"}, **more)

    def close(self):
        self.http.shutdown()
        self.http.server_close()
