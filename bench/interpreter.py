# SPDX-License-Identifier: Apache-2.0
"""The table of the code interpreter: cells over HTTP beside interpreters that are started bare, and beside ipykernel.
bench/code-bench measures it."""

import os
import pathlib
import subprocess
import sys
import time

import server
from table import MEDIAN, Line, line_table, run_program, timed

NAME, TITLE = "code", "Code interpreter"
PROGRAMS = ["cay", "cayd", "bench/code-bench"]
BOXES, POOL, NODES = 64, 8, 2  # NODES: the daemon keeps so many Nodes in the boxes of the pool
PATIENCE = 60
CLIENT = pathlib.Path(__file__).resolve().parent / "ipykernel-cells.py"

METHOD = """\
One client with one connection that stays, on loopback, and a server with a pool of {pool} boxes. Before each new sandbox
the pool is full and has been left alone for 100 ms (300 ms for javascript), as at a user's pace, so that interpreters wait
in its boxes again. *three requests* are `POST /sandbox`, `POST .../contexts` and `POST .../code`; *two requests* leave the
context to the server. `create`, `context` and `code` are their parts. *bare* is fork, exec and wait of the interpreter with
the same code, by the same small client. *ipykernel* is `jupyter_client` with its blocking client: execute, then read
until the result, idleness and the reply have come. Memory is what each context's process alone has written to, after it
has imported pandas and used it once. The ten million bytes are lines of 80, read as server-sent events by the same client
from both; what each takes from its first byte of output on stands beside it."""


# -- the lines


def first(number, part, what, target):
    form = "{:.3f}x" if target < 0.1 else "{:.2f}x"
    parts = ("create", "context", "code")
    return [
        timed(number, part, what, part, "three requests", "bare", target, *parts, form=form),
        timed(number, part, "the same in two requests", part, "two requests", "bare", target, form=form),
    ]


def cell_detail(results):
    quiet = results.ratio("cell-quiet", "cell", "ipykernel")
    return (
        results.times("cell", "cell", "ipykernel")
        + f"; after 20 ms of quiet {quiet:.2f}x: "
        + results.times("cell-quiet", "cell", "ipykernel")
    )


def memory_detail(results):
    values = {name: results.values["memory", name] for name in MEMORY}
    return (
        "{contexts:.0f} contexts, {per sandbox:.0f} in a sandbox; the largest {most:.2f} MiB; "
        "page tables of each {tables:.0f} KiB, growth of the daemon {daemon:.0f} KiB; proportional {proportional:.1f} MiB"
    ).format(**values)


MEMORY = ("contexts", "per sandbox", "most", "tables", "daemon", "proportional")


def print_detail(results):
    def rate(name):
        return results.values["print", "bytes"] / results.series["print", name][MEDIAN] * 1e3

    whole = ", ".join(f"{name} {rate(name):.0f} MB/s" for name in ("cell", "exec"))
    alone = results.ratio("print", "exec's output", "cell's output")
    return (
        f"{whole}; from the first byte of output on {alone:.2f}x; " + results.times("print", "cell", "exec")
    )


LINES = [
    *first("c1", "first", "new sandbox, python context, `1+1`, beside `python3 -c`", 0.25),
    *first("c2", "pandas", "new sandbox, python context, pandas used once, beside `python3 -c`", 0.03),
    Line(
        "c3",
        "cell",
        "a further cell `1+1` beside ipykernel",
        lambda r: r.ratio("cell", "cell", "ipykernel"),
        0.1,
        cell_detail,
    ),
    *first("c4", "node", "new sandbox, javascript context, `1+1`, beside `node -e`", 0.25),
    Line(
        "c5",
        "memory",
        "an idle context that has used pandas, beyond the zygote",
        lambda r: r.values["memory", "dirty"],
        8,
        memory_detail,
        form="{:.2f} MiB",
    ),
    Line(
        "c6",
        "print",
        "10 MB printed by a cell and streamed, speed beside exec",
        lambda r: r.ratio("print", "exec", "cell"),
        0.5,
        print_detail,
        at_least=True,
    ),
]


# -- whom it is compared with


def package_version(name):
    code = f"from importlib.metadata import version; print(version({name!r}))"
    done = subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "not installed"


def describe(first_line):
    yield "python3", first_line("/usr/bin/python3", "--version")
    for name in ("pandas", "ipykernel", "jupyter-client"):
        yield name, package_version(name)
    yield "node", first_line("/usr/bin/node", "--version")


# -- a server with interpreters in its pool


def children(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return []


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def wait_until_parked(keeper, pythons=POOL, nodes=NODES):
    """At the start, when the libraries are still being loaded. A guest's children are what is parked in its box."""
    until = time.monotonic() + PATIENCE
    while True:
        names = [name_of(pid) for guest in children(keeper) for pid in children(guest)]
        if names.count("python3") >= pythons and names.count("node") >= nodes:
            return
        if time.monotonic() > until:
            raise RuntimeError(f"the pool's boxes have only {sorted(names)}")
        time.sleep(0.1)


def environment(data, token):
    home = str(data / "home")
    os.makedirs(home)
    return {**os.environ, "CAY_TOKEN": token, "HOME": home, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


def measure_part(part, build, data, quick, results):
    port = server.free_port()
    with server.run_serve(build, data, port, BOXES, "--pool", str(POOL)) as serve:
        wait_until_parked(serve.pid)
        token = (data / "admin.token").read_text(encoding="utf-8").strip()
        command = [build / "bench/code-bench", "--port", port, "--keeper", serve.pid, "--ipykernel", CLIENT]
        command += ["--quick"] * quick + [part]
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(data, token),
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
    yield METHOD.format(pool=POOL)
    yield ""
    yield from line_table(lines, results)
