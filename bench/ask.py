# SPDX-License-Identifier: Apache-2.0
"""The table of questions and answers: what Cay adds to a model that answers at once, which is a stand-in.
bench/ask-bench measures it."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import urllib.request

import interpreter
import server
from table import MEDIAN, MS, P10, Line, line_table, run_program

NAME, TITLE = "ask", "Questions and answers"
PROGRAMS = ["cay", "cayd", "bench/ask-bench"]
PATIENCE = 60
POOL = 16  # boxes that `cay serve` keeps ready when nothing else is said
STANDIN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "standin" / "standin.py"
REMEMBERED = 1 << 20  # bytes of requests that the stand-in keeps

METHOD = """\
**The model is a stand-in** (`tests/standin`, a Python program on this machine that says at once what it was told to, as
a stream of events): no model is that fast, and what is measured is what comes on top of one. *curl* is a process that makes
the same call to it that the server makes, with the same body, started, read to its end and waited for; *model call* is that
call by a small client on a connection that stays, so without the start of a process. Both are in turns with ours, and after
the same pause (100 ms, the pool full), as at a user's pace. The server is `cay serve` as it comes."""


# -- the lines


def median(results, line, name):
    return results.series[line, name][MEDIAN]


def beyond(results, line, ours, inside, other, of=MEDIAN):
    """What ours takes beyond a part of it, beside something else."""
    took = [results.series[line, name][of] for name in (ours, inside, other)]
    return (took[0] - took[1]) / took[2]


def question_detail(inside, *beside):
    def detail(results):
        tenth = beyond(results, "question", "question", inside, "python3", P10)
        more = (median(results, "question", "question") - median(results, "question", inside)) / MS
        return f"{more:.2f} ms more; fastest tenth {tenth:.2f}x; " + results.times("question", *beside)

    return detail


def talk_detail(results):
    tenth = results.ratio("talk", "turn", "curl", P10)
    more = (median(results, "talk", "turn") - median(results, "talk", "model call")) / MS
    return f"fastest tenth {tenth:.2f}x; {more:.2f} ms more than the model call; " + results.times(
        "talk", "turn", "curl", "model call"
    )


def burst_detail(results):
    values = {name: results.values["burst", name] for name in ("questions", "rounds", "health")}
    return (
        "{questions:.0f} questions at once, {rounds:.0f} times; until the last answer ".format(**values)
        + results.times("burst", "all")
        + "; the longest wait for `/health` meanwhile {health:.0f} ms".format(**values)
    )


def memory_detail(_):
    return "most seen; all processes of the server, sandboxes and what waits for them included"


def terminal_detail(results):
    tenth = beyond(results, "terminal", "cay ask", "model's first byte", "node", P10)
    more = (median(results, "terminal", "cay ask") - median(results, "terminal", "model's first byte")) / MS
    return f"{more:.2f} ms more; fastest tenth {tenth:.3f}x; " + results.times(
        "terminal", "cay ask", "model's first byte", "node"
    )


class Beside(Line):
    """A row that nothing was promised for."""

    def __init__(self, number, part, what, figure, detail):
        super().__init__(number, part, what, figure, float("inf"), detail)

    def row(self, results):
        row = super().row(results)
        return row[:3] + ["", "", row[5]]


LINES = [
    Line(
        "a1",
        "question",
        "`/execute` beyond a model call by `curl`, beside `python3 -c` of the same code",
        lambda r: beyond(r, "question", "question", "curl", "python3"),
        0.5,
        question_detail("curl", "question", "curl", "python3"),
    ),
    Beside(
        "a1",
        "question",
        "the same without curl's own start: beyond the model call",
        lambda r: beyond(r, "question", "question", "model call", "python3"),
        question_detail("model call", "model call", "generation_ms", "sandbox_ms"),
    ),
    Line(
        "a2",
        "talk",
        "`/execute/sdk`, one turn, beside the same model call by `curl`",
        lambda r: r.ratio("talk", "turn", "curl"),
        1.3,
        talk_detail,
    ),
    server.count("a3", "burst", "50 questions at once: failed", lambda r: r.values["burst", "failed"], burst_detail),
    Line(
        "a3",
        "burst",
        "memory of all with them",
        lambda r: r.values["burst", "memory"],
        2048,
        memory_detail,
        form="{:.0f} MiB",
    ),
    Line(
        "a4",
        "terminal",
        "`cay ask` until code is on the terminal, beyond the model's first byte, beside `node -e 0`",
        lambda r: beyond(r, "terminal", "cay ask", "model's first byte", "node"),
        0.1,
        terminal_detail,
        form="{:.3f}x",
    ),
]


def describe(first_line):
    yield "python3", first_line("/usr/bin/python3", "--version")
    yield "node", first_line("/usr/bin/node", "--version")
    yield "curl", first_line("/usr/bin/curl", "--version")


# -- a model, a server, and what the one sends to the other


@contextlib.contextmanager
def run_standin():
    """Its port."""
    command = ["/usr/bin/python3", str(STANDIN), "--die-with-parent", "--keep", str(REMEMBERED)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int(process.stdout.readline().rsplit(":", 1)[1])
        finally:
            process.terminate()


@contextlib.contextmanager
def model_environment(port):
    """What `cay serve` is started with, and nothing else that might name a model."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        del os.environ[name]
    os.environ.update(ANTHROPIC_API_KEY="sk-ant-stand-in", ANTHROPIC_BASE_URL=f"http://127.0.0.1:{port}")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def call(port, path, body=None, token=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=body and json.dumps(body).encode())
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer)


def save_call(port, model_port, token, path, body, file):
    """Has the server ask the model, and keeps what it sent."""
    call(port, path, body, token)
    sent = call(model_port, "/_requests")[-1]["body"]
    file.write_text(json.dumps(sent, separators=(",", ":")), encoding="utf-8")


def save_calls(port, model_port, token, data):
    question = "number 0 [[code: total = sum(range(1000))\nprint(total)]]"
    save_call(port, model_port, token, "/execute", {"question": question}, data / "question.json")
    save_call(port, model_port, token, "/execute/sdk", {"prompt": "[[text: Canberra]]"}, data / "talk.json")


# -- all of it


def measure_part(part, build, data, quick, results):
    port = server.free_port()
    with run_standin() as model_port, model_environment(model_port), run_server(build, data, port) as serve:
        interpreter.wait_until_parked(serve.pid, POOL)
        token = (data / "admin.token").read_text(encoding="utf-8").strip()
        save_calls(port, model_port, token, data)
        command = [build / "bench/ask-bench", "--port", port, "--keeper", serve.pid, "--model-port", model_port]
        command += ["--cay", build / "cay", "--data", data]
        command += ["--question", data / "question.json", "--talk", data / "talk.json"]
        process = subprocess.Popen(
            [str(word) for word in command + ["--quick"] * quick + [part]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            cwd=data,
            env={**os.environ, "CAY_TOKEN": token},
        )
        return run_program(process, results)


def run_server(build, data, port):
    command = [str(build / "cay"), "serve", "--listen", f"127.0.0.1:{port}", "--data", str(data), "--log-level", "error"]
    return server.running(command, port, "/health")


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
    yield METHOD
    yield ""
    yield from line_table(lines, results)
