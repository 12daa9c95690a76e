# SPDX-License-Identifier: Apache-2.0
"""The table of boxes: what the keeper and its guests do, asked directly. bench/box-bench measures."""

import subprocess
import sys

from table import Line, line_table, markdown, run_program, timed

NAME, TITLE = "boxes", "Boxes"
PROGRAMS = ["cay", "bench/box-bench"]


def streamed(number, what, line):
    return Line(
        number,
        "stream",
        what,
        lambda r: r.ratio(line, "bare", "exec"),
        0.7,
        lambda r: r.times(line, "exec", "bare", "run"),
        at_least=True,
    )


def rate_detail(results):
    flying, pool = results.values["rate", "in_flight"], results.values["rate", "pool"]
    seconds = results.values["rate", "seconds"]
    return f"{flying:.0f} in flight, pool of {pool:.0f}, {seconds:.0f} s; 500 is the prize"


def memory_detail(results):
    return f"{results.values['memory', 'boxes']:.0f} boxes; parts below"


LINES = [
    timed(1, "claim", "pooled box: claim, `true`, exit known, all reaped", "claim", "ended", "bare", 1.3, "destroyed"),
    timed(1, "claim", "the same after 50 ms of quiet", "claim-quiet", "ended", "bare", 1.5, "destroyed"),
    timed(2, "claim", "the same until its cgroups and disk are gone", "claim", "gone", "bare", 2.0),
    timed(3, "cold", "line 1 with an empty pool", "cold", "ended", "bare", 3.5),
    timed(3, "cold", "line 2 with an empty pool", "cold", "gone", "bare", 3.5),
    timed(4, "exec", "`true` in a running box", "exec", "exec", "bare", 1.1),
    timed(4, "exec", "the same after 50 ms of quiet", "exec-quiet", "exec", "bare", 1.3),
    timed(5, "command", "`cay run -- true` beside `bwrap`", "bwrap", "cay", "bwrap", 1.0),
    timed(5, "command", "`cay run -- true` beside `runsc`", "runsc", "cay", "runsc", 0.1),
    timed(6, "version", "`cay --version` beside `/bin/true`", "version", "cay", "true", 2.0),
    Line(
        7,
        "rate",
        "boxes made, used once and destroyed a second, two cores",
        lambda r: r.values["rate", "per_second"],
        350,
        rate_detail,
        at_least=True,
        form="{:.0f}",
    ),
    Line(
        8,
        "memory",
        "memory of an idle box",
        lambda r: r.values["memory", "sum"],
        700,
        memory_detail,
        form="{:.0f} KiB",
    ),
    streamed(9, "1 GiB of output through exec, 64 KiB a write, speed", "stream-dd"),
    streamed(9, "the same, 8 KiB a write, speed", "stream-head"),
]

MEMORY_PARTS = [
    ("SUnreclaim", "kernel objects: network namespace, cgroups, tasks, sockets, mounts"),
    ("SReclaimable", "inodes and directory entries that its mounts and /proc hold"),
    ("PageTables", "page tables of the guest"),
    ("AnonPages", "memory of the guest that it does not share"),
    ("VmallocUsed", "larger kernel objects, without the stacks"),
    ("KernelStack", "kernel stack of the guest"),
    ("Percpu", "counters that exist once per core"),
    ("Shmem", "files on tmpfs"),
]


def memory_table(values):
    rows = [["memory of an idle box", "KiB", "what it is"]]
    rows += [[n, f"{values['memory', n]:.0f}", text] for n, text in MEMORY_PARTS]
    rows.append(["sum", f"{values['memory', 'sum']:.0f}", ""])
    for name, text in (("MemAvailable", "less available"), ("MemFree", "less free"), ("Cached", "more cached")):
        value = values["memory", name] * (1 if name == "Cached" else -1)
        rows.append([name, f"({value:.0f})", f"{text}, for comparison; not in the sum"])
    yield from markdown(rows)


def measure(parts, build, data, quick, results):
    """Whether everything went well."""
    good = True
    for part in parts:
        command = [str(build / "bench/box-bench"), "--data", str(data), "--cay", str(build / "cay")]
        command += ["--quick"] * quick + [part]
        print(f"{part}:", file=sys.stderr, flush=True)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        good = run_program(process, results) and good
    return good


def report(lines, results):
    yield from line_table(lines, results)
    if ("memory", "sum") in results.values:
        yield ""
        yield from memory_table(results.values)
