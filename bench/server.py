# SPDX-License-Identifier: Apache-2.0
"""The table of the server: HTTP on loopback, as a client sees it. bench/server-bench measures most of it,
wrk the requests per second beside nginx."""

import contextlib
import http.client
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

from table import MEDIAN, P99, Line, line_table, run_program, timed

NAME, TITLE = "server", "Server"
PROGRAMS = ["cay", "cayd", "bench/server-bench"]
START_SECONDS, STOP_SECONDS = 60, 180
WRK_CONNECTIONS = 64
BOXES, BOXES_OF_OTHERS = {"many": 1024}, 200  # 4095 is the most that all servers of a machine may have

NGINX_CONF = """\
worker_processes 1;
daemon off;
pid {dir}/nginx.pid;
error_log {dir}/nginx-error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    keepalive_timeout 75s;
    keepalive_requests 1000000000;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    server {{
        listen 127.0.0.1:{port};
        default_type text/plain;
        location / {{ return 200 "twenty bytes of text"; }}
    }}
}}
"""


# -- the lines


def tail_detail(results):
    ratio = results.ratio("first", "first exec", "bare", P99)
    return f"p99 beside the median of bare; beside its p99 {ratio:.2f}x"


def burst_figure(results):
    return results.series["burst", "all"][MEDIAN] / results.series["burst", "one"][MEDIAN]


def burst_detail(results):
    number = results.values["burst", "sandboxes"]
    return f"{number:.0f} sandboxes; " + results.times("burst", "all", "one")


def health_figure(results):
    return results.values["health", "cay"] / results.values["health", "nginx"]


def health_detail(results):
    rounds = "; ".join(results.values["health", "rounds", who] for who in ("cay", "nginx"))
    return f"requests a second, each round: {rounds}"


def many_detail(results):
    sandboxes, seconds = results.values["many", "sandboxes"], results.values["many", "seconds"]
    made, rate = results.values["many", "made_s"], results.values["many", "per_second"]
    behind = " (**it fell behind**)" if rate < 0.95 * sandboxes else ""
    return (
        f"{sandboxes:.0f} sandboxes (made and used once in {made:.1f} s), {seconds:.0f} s, "
        + f"{rate:.0f} answers a second{behind}; "
        + results.times("many", "exec")
    )


def memory_detail(results):
    parts = [("daemon.Pss:", "proportional"), ("daemon.Private_Dirty:", "its own"), ("keeper.Rss:", "the keeper")]
    words = [f"{text} {results.values['memory', name]:.1f} MiB" for name, text in parts]
    return f"{results.values['many', 'sandboxes']:.0f} sandboxes run; resident; " + ", ".join(words)


def restart_detail(results):
    values = {name: results.values["restart", name] for name in ("broken", "unwell", "lost")}
    return (
        "first answer after the kill: "
        + results.times("restart", "/health", "exec")
        + f"; {values['unwell']:.0f} answers other than 200, {values['broken']:.0f} requests cut off"
        + f", {values['lost']:.0f} sandboxes lost"
    )


def count(number, part, what, figure, detail):
    """Something that must not happen at all."""
    return Line(number, part, what, figure, 0, detail, form="{:.0f}")


LINES = [
    timed("s1", "first", "new sandbox and its first exec `true`", "first", "first exec", "bare", 2.5, "create"),
    Line(
        "s1",
        "first",
        "the same, 99th percentile",
        lambda r: r.series["first", "first exec"][P99] / r.series["first", "bare"][MEDIAN],
        10,
        tail_detail,
    ),
    timed("s2", "exec", "exec `true` in a running sandbox", "exec", "exec", "bare", 1.5),
    timed("s2", "exec", "the same after 50 ms of quiet", "exec-quiet", "exec", "bare", 1.7),
    timed("s3", "session", "exec of `:` in a session", "session", "exec", "bare", 0.5),
    Line("s4", "burst", "100 sandboxes at once beside one alone", burst_figure, 100, burst_detail),
    count("s4", "burst", "of these, failed", lambda r: r.values["burst", "failed"], lambda _: ""),
    Line("s5", "health", "`/health` a second beside nginx", health_figure, 0.7, health_detail, at_least=True),
    Line(
        "s6",
        "many",
        "1000 sandboxes, an exec a second in each: 99th percentile beside median",
        lambda r: r.series["many", "exec"][P99] / r.series["many", "exec"][MEDIAN],
        50,
        many_detail,
    ),
    count("s6", "many", "of these execs, failed", lambda r: r.values["many", "failed"], lambda _: ""),
    Line(
        "s7",
        "many",
        "memory of the daemon with them",
        lambda r: r.values["memory", "daemon.Rss:"],
        64,
        memory_detail,
        form="{:.1f} MiB",
    ),
    count(
        "s8",
        "many",
        "connects refused while the daemon is killed and comes back",
        lambda r: r.values["restart", "refused"],
        restart_detail,
    ),
]


# -- a server


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def answers(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def wait_until_it_answers(process, port, path):
    until = time.monotonic() + START_SECONDS
    while not answers(port, path):
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"{process.args[0]} does not serve")
        time.sleep(0.02)


@contextlib.contextmanager
def running(command, port, path):
    """A server in a process group of its own: who stops this program stops it in order."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=None, start_new_session=True
    )
    try:
        wait_until_it_answers(process, port, path)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"bench/run: {command[0]} does not end", file=sys.stderr)
            process.kill()
            process.wait()


def run_serve(build, data, port, boxes, *flags):
    command = [str(build / "cay"), "serve", "--listen", f"127.0.0.1:{port}", "--data", str(data)]
    return running(command + ["--log-level", "error", "--boxes", str(boxes), *flags], port, "/health")


def run_nginx(directory, port):
    conf = directory / "nginx.conf"
    conf.write_text(NGINX_CONF.format(dir=directory, port=port), encoding="utf-8")
    return running(["nginx", "-p", str(directory), "-c", str(conf)], port, "/")


# -- requests a second


def wrk(port, path, seconds):
    command = ["wrk", "-t1", f"-c{WRK_CONNECTIONS}", f"-d{seconds}s", f"http://127.0.0.1:{port}{path}"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Socket errors" in text or "Non-2xx" in text:
        raise RuntimeError(f"wrk on {path}: {text}")
    return float(re.search(r"Requests/sec:\s*([0-9.]+)", text).group(1))


def median(numbers):
    return sorted(numbers)[len(numbers) // 2]


def measure_health(port, directory, quick, results):
    rates = {"cay": [], "nginx": []}
    nginx_port = free_port()
    rounds, seconds = (1, 1) if quick else (5, 3)
    print(f"  {WRK_CONNECTIONS} connections, {rounds} rounds of {seconds} s", file=sys.stderr)
    try:
        with run_nginx(directory, nginx_port):
            for _ in range(rounds):
                rates["cay"].append(wrk(port, "/health", seconds))
                rates["nginx"].append(wrk(nginx_port, "/", seconds))
    except OSError as error:
        print(f"  {error.filename} is not installed", file=sys.stderr)
        return
    for who, found in rates.items():
        results.values["health", who] = median(found)
        results.values["health", "rounds", who] = who + " " + ", ".join(f"{rate:.0f}" for rate in found)


# -- all of it


def measure_part(part, build, data, quick, results):
    port = free_port()
    with run_serve(build, data, port, BOXES.get(part, BOXES_OF_OTHERS)) as serve:
        if part == "health":
            measure_health(port, data, quick, results)
            return True
        token = pathlib.Path(data, "admin.token").read_text(encoding="utf-8").strip()
        command = [str(build / "bench/server-bench"), "--port", str(port), "--keeper", str(serve.pid)]
        command += ["--quick"] * quick + [part]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "CAY_TOKEN": token},
        )
        return run_program(process, results)


def measure(parts, build, data, quick, results):
    """Whether everything went well. Each part has a server of its own, with nothing in it."""
    good = True
    for part in parts:
        directory = data / part
        directory.mkdir()
        print(f"{part}:", file=sys.stderr, flush=True)
        try:
            good = measure_part(part, build, directory, quick, results) and good
        except RuntimeError as error:
            print(f"bench/run: {error}", file=sys.stderr)
            good = False
    return good


def report(lines, results):
    yield from line_table(lines, results)
