# SPDX-License-Identifier: Apache-2.0
"""The outside world of the tests of egress: hosts with names and certificates on this machine's loopback."""

import hashlib
import http.server
import json
import os
import pathlib
import socket
import ssl
import subprocess
import threading
import urllib.parse

import api_helpers

# All lead to 127.0.0.1, by /etc/hosts.
NAMES = ["web.example", "api.example", "other.example", "wrong.example", "a.wild.example", "evilwild.example",
         "wild.example", "deep.a.wild.example"]
# And these by a name server: what it says is its own affair.
SERVED = {
    "served.example": ["127.0.0.1"],
    "meta.example": ["169.254.169.254"],
    "mixed.example": ["10.255.255.1", "127.0.0.1", "0.0.0.0"],
    "server.example": ["127.0.0.1"],
}
NAME_SERVER = "127.53.0.1"


def make_certificates(top):
    """An authority, and a certificate for all names but wrong.example."""
    top = pathlib.Path(top)
    names = ",".join(f"DNS:{name}" for name in NAMES if name != "wrong.example")

    def run(*command):
        subprocess.run(command, check=True, capture_output=True)

    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=Test authority",
        "-addext", "basicConstraints=critical,CA:TRUE", "-keyout", top / "ca.key", "-out", top / "ca.pem")
    run("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test", "-addext", f"subjectAltName={names}",
        "-keyout", top / "host.key", "-out", top / "host.csr")
    run("openssl", "x509", "-req", "-in", top / "host.csr", "-CA", top / "ca.pem", "-CAkey", top / "ca.key",
        "-CAcreateserial", "-days", "2", "-copy_extensions", "copy", "-out", top / "host.pem")
    os.chmod(top / "ca.pem", 0o644)
    return top


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen = []  # (method, path, headers)

    def log_message(self, *_):
        pass

    def answer(self, body, status=200, **headers):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def chunks(self, parts):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in parts:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.seen.append((self.command, self.path, dict(self.headers.items())))
        credential = self.headers.get("Authorization", "") + self.headers.get("X-Api-Key", "")
        if url.path.endswith("/echo"):  # an echo service
            self.answer(json.dumps(dict(self.headers.items())).encode())
        elif url.path.endswith("/echo-head"):
            self.answer(b"", X_You_Sent=credential)
        elif url.path.endswith("/echo-chunks"):
            half = len(credential) // 2 + 4
            self.chunks([credential[:half].encode(), credential[half:].encode()])
        elif url.path.endswith("/big"):
            self.answer(b"x" * int(query["n"]))
        elif url.path.endswith("/redirect"):
            self.answer(b"", 302, Location=query["to"])
        elif url.path.endswith("/sum"):
            self.answer(hashlib.sha256(body).hexdigest().encode())
        else:
            self.answer(f"hello from {self.headers['Host']} {self.path}".encode())

    do_POST = do_PUT = do_HEAD = do_TRACE = do_GET


class NameServer:
    """Answers for SERVED, and keeps what it was asked for."""

    def __init__(self):
        self.asked = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((NAME_SERVER, 53))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            data, peer = self.socket.recvfrom(4096)
            labels, at = [], 12
            while data[at]:
                labels.append(data[at + 1:at + 1 + data[at]].decode())
                at += 1 + data[at]
            question, name = data[12:at + 5], ".".join(labels).lower()
            self.asked.append(name)
            a = data[at + 2] == 1
            addresses = SERVED.get(name, []) if a else []
            code = 0 if name in SERVED else 3
            answer = data[:2] + bytes([0x81, 0x80 | code, 0, 1, 0, len(addresses), 0, 0, 0, 0]) + question
            for address in addresses:
                answer += b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4" + socket.inet_aton(address)
            self.socket.sendto(answer, peer)


class Web(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, *_):  # clients that are cut off are what this is about
        pass


class World:
    def __init__(self, top):
        self.dns = NameServer()
        self.top = make_certificates(top)
        self.handler = type("Seen", (Handler,), {"seen": []})
        self.web = self.serve(False)
        self.tls = self.serve(True)
        self.echo = socket.create_server(("127.0.0.1", 0))
        self.echo_port = self.echo.getsockname()[1]
        threading.Thread(target=self.serve_echo, daemon=True).start()
        (self.top / "resolv.conf").write_text(f"nameserver {NAME_SERVER}\nsearch search.example\n")
        (self.top / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"127.0.0.1 {n}\n" for n in NAMES))

    def serve(self, tls):
        server = Web(("127.0.0.1", 0), self.handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.top / "host.pem", self.top / "host.key")
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_address[1]

    def serve_echo(self):
        while True:
            try:
                client, _ = self.echo.accept()
            except OSError:
                return
            threading.Thread(target=self.echo_one, args=(client,), daemon=True).start()

    @staticmethod
    def echo_one(client):
        with client:
            try:
                while data := client.recv(65536):
                    client.sendall(data)
            except OSError:
                pass

    @property
    def seen(self):
        return self.handler.seen

    def serve_cay(self, data, *flags):
        """A server with a resolver of its own: in its mount namespace /etc/hosts and /etc/resolv.conf are ours."""
        wrapper = self.top / "cay-with-hosts"
        cay = api_helpers.CAY
        wrapper.write_text(f"#!/bin/sh\nexec unshare --mount sh -c 'mount --bind {self.top}/hosts /etc/hosts && "
                           f"mount --bind {self.top}/resolv.conf /etc/resolv.conf && exec {cay} \"$@\"' cay \"$@\"\n")
        wrapper.chmod(0o755)
        api_helpers.CAY = str(wrapper)
        try:
            return api_helpers.Server(data, "--egress-private", "127.0.0.0/8",
                                      "--egress-ca", str(self.top / "ca.pem"), *flags)
        finally:
            api_helpers.CAY = cay
