# SPDX-License-Identifier: Apache-2.0
"""The table of the ways in and out: files, previews and egress beside nginx and socat. bench/ways-bench measures
what takes one client, wrk the requests per second; bench/ways-end is what is reached, or reaches out, in the box
and beside it."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import server
from server import free_port, median
from table import MEDIAN, P99, Line, line_table, run_program, timed

NAME, TITLE = "ways", "Ways in and out"
PROGRAMS = ["cay", "cayd", "bench/ways-bench", "bench/ways-end"]
GIB = 1 << 30
PATIENCE = 120
IN_BOX = 3000  # the port of ways-end in the box
WRK_CONNECTIONS = 64
PREVIEW, PLAIN, KEPT = "cay", "nginx", "nginx with keepalive to the upstream"

# As Debian's own, but for one worker, no log, and where things lie.
NGINX_CONF = """\
user root;
worker_processes 1;
daemon off;
pid {dir}/nginx.pid;
error_log {dir}/nginx-error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    client_max_body_size 0;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    upstream kept {{ server 127.0.0.1:{end}; keepalive 64; }}
    server {{
        listen 127.0.0.1:{volume};
        client_body_temp_path {dir}/volume/body;
        location / {{ root {dir}/volume/root; dav_methods PUT DELETE; }}
    }}
    server {{
        listen 127.0.0.1:{plain};
        client_body_temp_path {dir}/plain/body;
        location / {{ root {dir}/plain/root; dav_methods PUT DELETE; }}
    }}
    server {{
        listen 127.0.0.1:{proxy};
        location / {{ proxy_pass http://127.0.0.1:{end}; }}
    }}
    server {{
        listen 127.0.0.1:{kept};
        location / {{ proxy_pass http://kept; proxy_http_version 1.1; proxy_set_header Connection ""; }}
    }}
}}
"""


# -- the lines


def speeds(part, *names):
    """Of the median round."""

    def detail(results):
        size = results.values[part, "bytes"]
        words = []
        for name in names:
            rounds, *_ = series = results.series[part, name]
            words.append(f"{name} {size / series[MEDIAN] * 1e9 / (1 << 20):.0f} MiB/s ({rounds})")
        return ", ".join(words)

    return detail


def moved(number, part, what, other, *beside):
    return Line(
        number,
        part,
        what,
        lambda r: r.ratio(part, other, "cay"),
        0.7,
        speeds(part, "cay", other, *beside),
        at_least=True,
    )


def memory_detail(results):
    resident, anon = (results.values["upload", name] for name in ("resident", "anon"))
    return f"most resident during one upload, beside {resident:.1f} MiB before it; its own {anon:+.2f} MiB after it"


def beside_detail(results):
    median_ratio = results.ratio("beside", "with", "without")
    return f"medians {median_ratio:.2f}x; " + results.times("beside", "with", "without", "the cold download")


def preview_figure(results):
    return results.values["preview", PREVIEW] / results.values["preview", PLAIN]


def preview_detail(results):
    rounds = "; ".join(results.values["preview", "rounds", who] for who in (PREVIEW, PLAIN, KEPT))
    return f"requests a second, each round: {rounds}"


LINES = [
    moved("w1", "download", "1 GiB from a file, speed beside nginx", "nginx", "nginx without a volume"),
    moved("w2", "upload", "1 GiB into a file, speed beside nginx", "nginx", "nginx without a volume"),
    Line(
        "w2",
        "upload",
        "growth of the daemon's memory during it",
        lambda r: r.values["upload", "peak"],
        4,
        memory_detail,
        form="{:.2f} MiB",
    ),
    Line(
        "w3",
        "beside",
        "exec `true` while a cold 1 GiB is downloaded: 99th percentile with and without",
        lambda r: r.ratio("beside", "with", "without", P99),
        3,
        beside_detail,
    ),
    timed("w4", "small", "1 KB into a file and back", "small", "write and read", "bare", 0.5),
    Line(
        "w5",
        "preview",
        "preview, 64 connections: requests a second beside nginx",
        preview_figure,
        0.5,
        preview_detail,
        at_least=True,
    ),
    timed("w6", "echo", "WebSocket through a preview and back, beside direct", "echo", "preview", "direct", 2.0, "socat"),
    moved("w7", "relay", "1 GiB by CONNECT, speed beside socat", "socat", "direct"),
]


# -- what is asked and started


class Api:
    """The server, as root of it."""

    def __init__(self, port, token):
        self.port, self.token = port, token

    def __call__(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        headers = {"Authorization": f"Bearer {self.token}", **headers}
        if isinstance(body, dict):
            body = json.dumps(body)
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            text = reply.read()
        except OSError as error:
            raise RuntimeError(f"{method} {path}: {error}") from error
        finally:
            connection.close()
        if reply.status >= 300:
            raise RuntimeError(f"{method} {path}: {reply.status} {text[:400]!r}")
        return json.loads(text)

    def run(self, box, *argv):
        done = self("POST", f"/sandbox/{box}/exec", {"argv": [str(word) for word in argv]})
        if done["exitCode"] != 0:
            raise RuntimeError(f"{argv[0]} {argv[1]} in the box: {done['stderr']}")
        return done["stdout"]

    def put(self, box, name, body, size, mode):
        path = f"/sandbox/{box}/files/workspace/{name}?mode={mode}"
        self("PUT", path, body, **{"Content-Length": str(size)})


def is_listening(port):
    """Without a connection, which some would take for a client."""
    sockets = pathlib.Path("/proc/net/tcp").read_text(encoding="utf-8")
    return re.search(rf": 0100007F:{port:04X} 00000000:0000 0A ", sockets) is not None


def wait_for_port(process, port):
    until = time.monotonic() + PATIENCE
    while not is_listening(port):
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"{process.args[0]} does not serve")
        time.sleep(0.02)


@contextlib.contextmanager
def started(command, port):
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for_port(process, port)
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(PATIENCE)


@contextlib.contextmanager
def volume(directory):
    """Btrfs in a file, as the server's own: the same options, also of the loop device."""
    image, top = directory / "volume.btrfs", directory / "volume"
    top.mkdir()
    with image.open("wb") as file:
        file.truncate(16 * GIB)
    subprocess.run(["mkfs.btrfs", "-q", "-f", "-K", image], check=True, capture_output=True)
    made = subprocess.run(
        ["losetup", "--find", "--show", "--direct-io=on", image], check=True, capture_output=True, text=True
    )
    device = made.stdout.strip()
    try:
        subprocess.run(["mount", "-o", "noatime,nosuid,nodev", device, top], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", top], check=True)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@contextlib.contextmanager
def nginx(directory, end):
    """Its ports by name. Files lie on a volume, and plainly on what the directory is on."""
    ports = {name: free_port() for name in ("volume", "plain", "proxy", "kept")}
    conf = directory / "nginx.conf"
    conf.write_text(NGINX_CONF.format(dir=directory, end=end, **ports), encoding="utf-8")
    with volume(directory):
        for place in ("volume", "plain"):
            (directory / place / "root").mkdir(parents=True)
        with started(["nginx", "-p", directory, "-c", conf], ports["plain"]):
            yield ports


class Scene:
    """Everything that runs while this table is measured."""

    def __init__(self, build, data, quick):
        self.build, self.data, self.quick = build, data, quick
        self.bytes = GIB // 8 if quick else GIB
        self.end = build / "bench/ways-end"
        self.port, self.direct, self.source, self.relay = (free_port() for _ in range(4))
        self.other = data / "other"
        self.api = self.serve = self.nginx = self.host = None
        self.has_big = False

    @contextlib.contextmanager
    def running(self):
        self.other.mkdir()
        flags = ["--egress-private", "127.0.0.0/8", "--pool", "4"]
        with contextlib.ExitStack() as stack:
            self.serve = stack.enter_context(server.run_serve(self.build, self.data / "cay", self.port, 64, *flags))
            stack.enter_context(started([self.end, "serve", self.direct], self.direct))
            self.nginx = stack.enter_context(nginx(self.other, self.direct))
            self.make_boxes()
            yield

    def make_boxes(self):
        token = (self.data / "cay" / "admin.token").read_text(encoding="utf-8").strip()
        self.api = Api(self.port, token)
        network = {"allow": [f"127.0.0.1:{self.source}"]}
        self.api("POST", "/sandbox", {"id": "ways", "keepAlive": True, "disk": 8 * GIB, "network": network})
        self.api("POST", "/sandbox", {"id": "beside", "keepAlive": True})
        self.api.put("ways", "ways-end", self.end.read_bytes(), self.end.stat().st_size, "0755")
        argv = ["/workspace/ways-end", "serve", str(IN_BOX)]
        process = self.api("POST", "/sandbox/ways/processes", {"argv": argv})["process"]["id"]
        self.api("POST", f"/sandbox/ways/processes/{process}/wait", {"port": IN_BOX, "timeout": PATIENCE * 1000})
        made = self.api("POST", "/sandbox/ways/ports", {"port": IN_BOX})
        self.host = re.fullmatch(r"http://([^/]+)/?", made["url"]).group(1)

    def make_big(self):
        """The large file, everywhere. Of bytes that no layer below can make less of."""
        if self.has_big:
            return
        self.has_big = True
        piece = os.urandom(1 << 20)
        self.api.put("ways", "big", (piece for _ in range(self.bytes >> 20)), self.bytes, "0644")
        for place in ("volume", "plain"):
            with (self.other / place / "root" / "big").open("wb") as file:
                for _ in range(self.bytes >> 20):
                    file.write(piece)
        os.sync()


# -- measuring


def run_bench(scene, part, results):
    flags = {
        "--port": scene.port,
        "--keeper": scene.serve.pid,
        "--nginx": scene.nginx["volume"],
        "--plain": scene.nginx["plain"],
        "--direct": scene.direct,
        "--relay": scene.relay,
        "--preview": scene.host,
        "--volume": scene.data / "cay" / "volume.btrfs",
        "--bytes": scene.bytes,
    }
    if part in ("download", "beside"):
        scene.make_big()
    results.values[part, "bytes"] = scene.bytes
    command = [scene.build / "bench/ways-bench", *(word for flag in flags.items() for word in flag)]
    command += ["--quick"] * scene.quick + [part]
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "CAY_TOKEN": scene.api.token},
    )
    return run_program(process, results)


def socat(scene, to):
    listen = f"TCP-LISTEN:{scene.relay},bind=127.0.0.1,fork,reuseaddr"
    return started(["socat", listen, f"TCP:127.0.0.1:{to}"], scene.relay)


def measure_echo(scene, part, results):
    with socat(scene, scene.direct):
        return run_bench(scene, part, results)


def wrk(port, host, seconds):
    url = f"http://127.0.0.1:{port}/"
    command = ["wrk", "-t2", f"-c{WRK_CONNECTIONS}", f"-d{seconds}s", "-H", f"Host: {host}", url]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Socket errors" in text or "Non-2xx" in text:
        raise RuntimeError(f"wrk on {host}: {text}")
    return float(re.search(r"Requests/sec:\s*([0-9.]+)", text).group(1))


def measure_preview(scene, _, results):
    sides = {
        PREVIEW: (scene.port, scene.host),
        PLAIN: (scene.nginx["proxy"], "127.0.0.1"),
        KEPT: (scene.nginx["kept"], "127.0.0.1"),
    }
    rates = {who: [] for who in sides}
    rounds, seconds = (1, 1) if scene.quick else (7, 3)
    print(f"  {WRK_CONNECTIONS} connections, {rounds} rounds of {seconds} s", file=sys.stderr)
    for _ in range(rounds):
        for who, (port, host) in sides.items():
            rates[who].append(wrk(port, host, seconds))
    for who, found in rates.items():
        results.values["preview", who] = median(found)
        results.values["preview", "rounds", who] = who + " " + ", ".join(f"{rate:.0f}" for rate in found)
    return True


def series_of(times):
    times = sorted(times)
    return (len(times), *(times[max(0, -(-len(times) * p // 100) - 1)] for p in (10, 50, 90, 99)))


def drain(scene, port):
    command = [str(scene.end), "drain", f"127.0.0.1:{port}", str(scene.bytes)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure_relay(scene, part, results):
    sides = {
        "cay": lambda: int(
            scene.api.run(
                "ways", "/workspace/ways-end", "drain", f"127.0.0.1:{scene.source}", scene.bytes, "HTTP_PROXY"
            )
        ),
        "socat": lambda: drain(scene, scene.relay),
        "direct": lambda: drain(scene, scene.source),
    }
    times = {who: [] for who in sides}
    rounds = 2 if scene.quick else 9
    print(f"  a large file through a proxy, {rounds} rounds", file=sys.stderr)
    source = [scene.end, "source", scene.source, scene.bytes]
    with started(source, scene.source), socat(scene, scene.source):
        for _ in range(rounds):
            for who, run in sides.items():
                times[who].append(run())
    results.values[part, "bytes"] = scene.bytes
    for who, found in times.items():
        results.series[part, who] = series_of(found)
    return True


PARTS = {"preview": measure_preview, "echo": measure_echo, "relay": measure_relay}


FAILURES = (RuntimeError, OSError, subprocess.SubprocessError)


def measure_part(scene, part, results):
    print(f"{part}:", file=sys.stderr, flush=True)
    try:
        return PARTS.get(part, run_bench)(scene, part, results)
    except FAILURES as error:
        print(f"bench/run: {error}", file=sys.stderr)
        return False


def measure(parts, build, data, quick, results):
    """Whether everything went well. One server, with two sandboxes, for all of it."""
    scene = Scene(build, data, quick)
    try:
        with scene.running():
            return all([measure_part(scene, part, results) for part in parts])
    except FAILURES as error:
        print(f"bench/run: {error}", file=sys.stderr)
        return False


def report(lines, results):
    yield from line_table(lines, results)
