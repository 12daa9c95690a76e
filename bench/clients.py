# SPDX-License-Identifier: Apache-2.0
"""The table of the clients that people already have: the operations of Cloudflare's container protocol beside `bash -c` of the
same commands, and what the SDKs add to a request. bench/clients-bench measures the protocol, bench/sdk-* the SDKs."""

import http.client
import json
import os
import pathlib
import subprocess
import sys

import server
from table import MEDIAN, MS, P10, Line, markdown, run_program

NAME, TITLE = "clients", "The clients people already have"
PROGRAMS = ["cay", "cayd", "bench/clients-bench"]
HERE = pathlib.Path(__file__).resolve().parent
BOXES = 20
SDKS = {
    "typescript": ["node", HERE / "sdk-typescript.mjs"],
    "python": ["/usr/bin/python3", HERE / "sdk-python.py"],
}
CALLS = {"exec": "exec `true` in a session", "write": "write 1 KB", "read": "read 1 KB"}


# -- the lines


class Beside(Line):
    """A line that has Cloudflare's own figure beside it, and perhaps no target."""

    def __init__(self, number, part, what, series, target, theirs="", bare="bare"):
        line, ours = series
        super().__init__(
            number,
            part,
            what,
            lambda r: r.ratio(line, ours, bare),
            target,
            lambda r: f"fastest tenth {r.ratio(line, ours, bare, P10):.2f}x; {r.times(line, ours, bare)}",
        )
        self.theirs = theirs
        self.median = lambda r: r.series[line, ours][MEDIAN] / MS

    def row(self, results):
        if self.target is not None:
            number, what, measured, target, met, detail = super().row(results)
        else:
            number, what, measured, target, met, detail = self.untargeted(results)
        ours = f"{self.median(results):.2f} ms" if detail else ""
        return [number, what, measured, target, met, ours, self.theirs, detail]

    def untargeted(self, results):
        try:
            return [self.number, self.what, self.form.format(self.figure(results)), "", "", self.detail(results)]
        except KeyError:
            return [self.number, self.what, "not measured", "", "", ""]


class Killed(Beside):
    """Nothing bare beside it."""

    def __init__(self, number, part, what, series, theirs):
        super().__init__(number, part, what, series, None, theirs)
        self.figure = self.median
        self.detail = lambda r: r.times(*series)
        self.form = "{:.2f} ms"


def sdk_line(number, part, language, name, way="sdk"):
    what = f"{CALLS[name]} by the SDK in {language}, beside the bare request"
    return Beside(number, part, what, (f"sdk-{part}", f"{name} {way}"), 1.2, bare=f"{name} raw")


# The figures of Cloudflare's own server are medians, measured once on a machine like this one: see the page.
LINES = [
    Beside("k1", "sessions", "a new session", ("session", "create"), None, "16 ms"),
    Beside("k2", "execs", "exec `true` in a session", ("exec", "session"), 1.5, "23 ms"),
    Beside("k2", "execs", "exec `true` without a session", ("exec", "sessionless"), 2, "8 ms"),
    Beside("k3", "output", "exec printing 1 MB, in a session", ("one-mb", "session"), None, "538 ms"),
    Beside("k3", "output", "exec printing 1 MB, without one", ("one-mb", "sessionless"), None, "40 ms"),
    Beside("k3", "output", "exec printing 10 MB, in a session", ("ten-mb", "session"), 3, "4400 ms"),
    Beside("k3", "output", "exec printing 10 MB, without one", ("ten-mb", "sessionless"), 3, "270 ms"),
    Beside("k4", "streams", "stream of `echo`, first byte, in a session", ("first-byte", "session"), 1.5, "101 ms"),
    Beside("k4", "streams", "stream of `echo`, first byte, without one", ("first-byte", "sessionless"), 1.5, "3.7 ms"),
    Beside("k4", "streams", "stream of `seq 100000`, in a session", ("seq", "session"), None, "2150 ms"),
    Beside("k4", "streams", "stream of `seq 100000`, without one", ("seq", "sessionless"), None, "27 ms"),
    Beside("k5", "files", "write 1 KB", ("write", "ours"), 0.5, "2 ms"),
    Beside("k5", "files", "read 1 KB", ("read", "ours"), 0.5, "39 ms"),
    Beside("k5", "files", "exists", ("exists", "ours"), 0.5, "20 ms"),
    Beside("k5", "files", "mkdir", ("mkdir", "ours"), 0.5, "26 ms"),
    Beside("k5", "files", "list-files, of 20", ("list", "ours"), 0.5, "93 ms"),
    Beside("k6", "processes", "startProcess", ("process", "start"), 1.5, "25 ms"),
    Killed("k6", "processes", "kill-all of 20", ("process", "kill all"), "960 ms"),
    Beside("k7", "during", "read 1 KB while `exec sleep` runs in the session, beside without", ("during", "during"), 1.2, "1970 ms", bare="without"),
    *(sdk_line("k8", "typescript", "TypeScript", name) for name in CALLS),
    *(sdk_line("k9", "python", "Python", name) for name in CALLS),
    *(sdk_line("k9", "python", "Python, asyncio", name, "asyncio") for name in CALLS),
]


# -- measuring


def make_sandbox(port, token):
    """As a sandbox is that was first seen by the container protocol, but it never sleeps."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request("PUT", "/sandbox/clients", json.dumps({"network": "internet", "keepAlive": True}), headers)
    reply = connection.getresponse()
    text = reply.read()
    connection.close()
    if reply.status != 201:
        raise RuntimeError(f"no sandbox: {reply.status} {text}")


def command_of(part, build, data, port, quick):
    if part in SDKS:
        if not SDKS[part][1].exists():
            raise RuntimeError(f"there is no {SDKS[part][1].name}")
        return [*SDKS[part], "--rounds", "50" if quick else "400"]  # each with a sandbox of its own
    files = data / "bare"
    files.mkdir()
    return [build / "bench/clients-bench", "--port", str(port), "--dir", files, *["--quick"] * quick, part]


def measure_part(part, build, data, quick, results):
    port = server.free_port()
    command = command_of(part, build, data, port, quick)
    with server.run_serve(build, data / "cay", port, BOXES):
        token = (data / "cay" / "admin.token").read_text(encoding="utf-8").strip()
        make_sandbox(port, token)
        process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "CAY": str(build / "cay"), "CAY_TOKEN": token, "CAY_URL": f"http://127.0.0.1:{port}"},
        )
        return run_program(process, results)


def measure(parts, build, data, quick, results):
    """Whether everything went well. Each part has a server of its own."""
    good = True
    for part in parts:
        directory = data / part
        (directory / "cay").mkdir(parents=True)
        print(f"{part}:", file=sys.stderr, flush=True)
        try:
            good = measure_part(part, build, directory, quick, results) and good
        except RuntimeError as error:
            print(f"bench/run: {error}", file=sys.stderr)
            good = False
    return good


def report(lines, results):
    head = ["", "what", "measured", "target", "met", "ours", "Cloudflare's", "medians / p90 / p99 (rounds), for information"]
    yield from markdown([head, *(line.row(results) for line in lines)])


def describe(first_line):
    yield "bash", first_line("bash", "--version")
    yield "node", first_line("node", "--version")
    yield "python", first_line("/usr/bin/python3", "--version")
