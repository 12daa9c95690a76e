# SPDX-License-Identifier: Apache-2.0
"""What is outside of a box, for the load: an HTTP server, one that sends back what it gets, and repositories, all on
an address of the host's loopback that boxes do not take for their own."""

import http.server
import pathlib
import socket
import sys
import threading

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "api"))

from git_server import HOST, GitServer  # noqa: E402  pylint: disable=wrong-import-position

NAME = "outside.test"
SECRET = "sk-crash-51c0ffee51c0ffee"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        known = self.headers.get("Authorization") == f"Bearer {SECRET}"
        body = b"x" * int(self.path[5:]) if self.path.startswith("/big/") else self.path.encode()
        if self.path.startswith("/secret"):
            body = b"known" if known else b"stranger"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Web(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, *_):  # clients that are cut off are what this is about
        pass


class Outside:
    def __init__(self, top):
        top = pathlib.Path(top)
        self.web = Web((HOST, 0), Handler)
        self.port = self.web.server_address[1]
        threading.Thread(target=self.web.serve_forever, daemon=True).start()
        self.lock, self.echoing = threading.Lock(), 0  # connections that are echoed
        self.echo = socket.create_server((HOST, 0), backlog=256)
        self.echo_port = self.echo.getsockname()[1]
        threading.Thread(target=self.serve_echo, daemon=True).start()
        self.git = GitServer(top / "git")
        self.git.http.handle_error = lambda *_: None
        self.git.repo("open/hello.git", {"README.md": "hello\n", "src/a.c": "int a;\n" * 2000})
        self.hosts = top / "hosts"
        self.hosts.write_text(f"127.0.0.1 localhost\n{HOST} {NAME}\n", encoding="utf-8")

    def serve_echo(self):
        while True:
            try:
                client, _ = self.echo.accept()
            except OSError:
                return
            threading.Thread(target=self.echo_one, args=(client,), daemon=True).start()

    def echo_one(self, client):
        with self.lock:
            self.echoing += 1
        with client:
            try:
                while data := client.recv(65536):
                    client.sendall(data)
            except OSError:
                pass
        with self.lock:
            self.echoing -= 1

    @property
    def secret(self):
        """One whose upstream it is."""
        return {"value": SECRET, "upstream": f"http://{HOST}:{self.port}"}

    @property
    def network(self):
        """The setting of a sandbox that may reach it, and nothing else."""
        ports = (self.port, self.echo_port, self.git.port)
        return {"allow": [f"{host}:{port}" for host in (HOST, NAME) for port in ports]}

    def close(self):
        self.web.shutdown()
        self.web.server_close()
        self.echo.shutdown(socket.SHUT_RDWR)  # else the thread that waits for it may take one from the next world
        self.echo.close()
        self.git.close()
