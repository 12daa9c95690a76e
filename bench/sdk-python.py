#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a call through the Python SDK takes beside the same request on a bare http.client: a command in a session, a small
file there and back. Both take turns, so that what else the machine does hits both. The server is $CAY_URL's.

    CAY_URL=http://127.0.0.1:8787 CAY_TOKEN=... bench/sdk-python.py [--rounds N]

Records for bench/run go to standard output, a table for people to standard error.
"""

import argparse
import asyncio
import http.client
import json
import os
import pathlib
import secrets
import socket
import sys
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "sdk" / "python"))
sys.dont_write_bytecode = True
import cay  # noqa: E402

TEXT = "x" * 1024
QUANTILES = (0.1, 0.5, 0.9, 0.99)


class Bare:
    """The least that a program would write itself: one connection that is kept, the same request, the answer's JSON."""

    def __init__(self, box, session, keys=True):
        url = urllib.parse.urlsplit(os.environ.get("CAY_URL", "http://127.0.0.1:8787"))
        self.connection = http.client.HTTPConnection(url.hostname, url.port)
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.headers = {"Authorization": f"Bearer {os.environ.get('CAY_TOKEN', '')}"}
        self.base, self.session, self.keys = f"/sandbox/{box}", session, keys

    def ask(self, method, path, body=None, **headers):
        self.connection.request(method, self.base + path, body, {**self.headers, **headers})
        return self.connection.getresponse().read()

    def exec(self):
        body = json.dumps({"command": "true", "session": self.session})
        headers = {"Idempotency-Key": secrets.token_hex(16)} if self.keys else {}
        assert json.loads(self.ask("POST", "/exec", body, **headers))["success"]

    def write(self):
        assert json.loads(self.ask("PUT", "/files/workspace/bench", TEXT))["success"]

    def read(self):
        assert self.ask("GET", "/files/workspace/bench").decode() == TEXT


class Sdk:
    def __init__(self, box, session):
        self.box, self.session = box, session

    def exec(self):
        assert self.box.exec("true", session=self.session).success

    def write(self):
        assert self.box.write_file("bench", TEXT).size == len(TEXT)

    def read(self):
        assert self.box.read_file("bench") == TEXT


class Asyncio(Sdk):
    def __init__(self, box, session):
        super().__init__(cay.aio.get_sandbox(box.id), session)
        self.loop = asyncio.new_event_loop()

    def exec(self):
        assert self.loop.run_until_complete(self.box.exec("true", session=self.session)).success

    def write(self):
        assert self.loop.run_until_complete(self.box.write_file("bench", TEXT)).size == len(TEXT)

    def read(self):
        assert self.loop.run_until_complete(self.box.read_file("bench")) == TEXT


def timed(work):
    start = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - start


def quantiles(times):
    ordered = sorted(times)
    return [ordered[min(int(q * len(ordered)), len(ordered) - 1)] for q in QUANTILES]


def measure(name, rounds, ways):
    """Who takes how long, taking turns; a few rounds first do not count."""
    works = {way: getattr(thing, name) for way, thing in ways.items()}
    times = {way: [] for way in ways}
    for i in range(rounds + 5):
        for way, work in works.items():
            took = timed(work)
            if i >= 5:
                times[way].append(took)
    figures = {way: quantiles(taken) for way, taken in times.items()}
    for way, figure in figures.items():
        print("time", "sdk-python", f"{name} {way}", rounds, *figure, sep="\t", flush=True)
    bare = figures["raw"][1]
    words = [f"{way} {figure[1] / 1e6:.3f} ms ({figure[1] / bare:.2f}x)" for way, figure in figures.items()]
    print(f"{name:<6}", "  ".join(words), file=sys.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=400)
    rounds = parser.parse_args().rounds
    with cay.get_sandbox(keep_alive=True) as box:
        session = box.create_session().id
        ways = {"raw": Bare(box.id, session), "sdk": Sdk(box, session), "asyncio": Asyncio(box, session)}
        # What it costs the server that a command is done once, however often it is asked for.
        measure("exec", rounds, {**ways, "without a key": Bare(box.id, session, keys=False)})
        for name in ("write", "read"):
            measure(name, rounds, ways)
        ways["asyncio"].loop.close()


if __name__ == "__main__":
    main()
