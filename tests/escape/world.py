# SPDX-License-Identifier: Apache-2.0
"""Boxes, witnesses and the state of the host, for test_escape.py.

A witness is `escape --witness TOKEN`. One runs on the host and one in a box beside those that attempt
something. Each says ten times a second whether its things are intact and whether it still gets what a
process may expect; see witness.h.
"""

import base64
import hashlib
import json
import os
import pathlib
import re
import secrets
import socket
import stat
import subprocess
import tempfile
import threading
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
CAY = os.environ.get("CAY", str(TOP / "build" / "cay"))
CAY_WEAK = os.environ.get("CAY_WEAK", str(TOP / "build-test" / "cay-weak"))
ESCAPE = os.environ.get("CAY_ESCAPE", str(TOP / "build-test" / "tests" / "escape" / "escape"))

# Far beyond what anything takes: reached only by a hang, which is a failure.
PATIENCE = 120

INTO_BOX = 'cat >/tmp/escape && chmod 755 /tmp/escape && exec /tmp/escape "$@"'


def disk_device():
    """Numbers of a disk that root on this machine may open, the one below / if possible."""
    root = os.stat("/").st_dev
    devices = [f"{os.major(root)}:{os.minor(root)}"]
    devices += [p.read_text(encoding="ascii").strip() for p in pathlib.Path("/sys/block").glob("*/dev")]
    with tempfile.TemporaryDirectory() as scratch:
        for number, text in enumerate(devices):
            major, minor = text.split(":")
            node = f"{scratch}/{number}"
            try:
                os.mknod(node, 0o600 | stat.S_IFBLK, os.makedev(int(major), int(minor)))
                os.close(os.open(node, os.O_RDONLY))
                return text
            except OSError:
                continue
    return devices[0]


DISK_DEVICE = disk_device()


def escape_table():
    """All attempts, as the program lists them."""
    text = subprocess.run([ESCAPE, "--list", "--json"], capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def machine_features():
    text = subprocess.run([ESCAPE, "--features"], capture_output=True, text=True, check=True).stdout
    return json.loads(text)


def missing_feature(needs, features):
    """The first thing of `needs` that this machine does not have, or None."""
    known = pathlib.Path("/proc/filesystems").read_text(encoding="ascii").split()
    for need in (needs or "").split(","):
        kind, _, rest = need.partition(":")
        if kind == "file" and not os.path.exists(rest):
            return rest
        if kind == "fs" and rest not in known:
            return f"file system {rest}"
        if need and kind not in ("file", "fs") and not features[need]:
            return need
    return None


def parse_results(text):
    """The JSON lines among the output, by name."""
    found = {}
    for line in text.splitlines():
        if line.startswith('{"n":'):
            result = json.loads(line)
            found[result["name"]] = result
    return found


class Report(dict):
    """What `cay run --json` said, and what was seen of its process."""

    def __init__(self, text, returncode, stderr, max_rss):
        super().__init__(json.loads(text) if text.startswith("{") else {})
        self.raw = text
        self.returncode = returncode
        self.cay_stderr = stderr
        self.max_rss = max_rss  # bytes, of the cay process itself

    @property
    def output(self):
        """Standard output as bytes: text, or base64 where it is no UTF-8."""
        text = self.get("stdout", "")
        return base64.b64decode(text) if self.get("encoding") == "base64" else text.encode()

    @property
    def results(self):
        return parse_results(self.output.decode(errors="replace"))


class Boxes:
    """Starts boxes: of which program, without which defences, as whom, and knowing which witnesses."""

    def __init__(self, program=CAY, weaken="", user=None, host=None, neighbour=None, prefix=()):
        self.program = program
        self.prefix = list(prefix)
        self.env = {**os.environ, "CAY_WEAKEN": weaken}
        self.flags = [] if user is None else ["--user", str(user)]
        self.host = host
        self.neighbour = neighbour

    def knowledge(self):
        """What an attempt is told of the world outside."""
        args = ["--host-pidns", str(os.stat("/proc/self/ns/pid").st_ino)]
        args += ["--host-netns", str(os.stat("/proc/self/ns/net").st_ino)]
        args += ["--disk-device", DISK_DEVICE]
        if self.host:
            args += ["--host", self.host.peer]
        if self.neighbour:
            args += ["--neighbour", self.neighbour.peer]
        return args

    def command(self, flags, args):
        inside = ["sh", "-c", INTO_BOX, "escape", *self.knowledge(), *args]
        return [*self.prefix, self.program, "run", *self.flags, *flags, "--", *inside]

    def start(self, flags, args, **popen):
        """Starts escape in a box; the caller waits for it."""
        with open(ESCAPE, "rb") as program:
            return subprocess.Popen(self.command(flags, args), stdin=program, env=self.env, **popen)

    def run(self, flags, args):
        """Runs escape in a box with --json and waits for its report."""
        return self.wait(self.start(["--json", *flags], args, stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    def run_plain(self, flags, command):
        """Runs a command that is in the box already."""
        full = [self.program, "run", *self.flags, "--json", *flags, "--", *command]
        process = subprocess.Popen(
            full, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env
        )
        return self.wait(process)

    @staticmethod
    def wait(process):
        """Reads the report, and reaps by hand: only so the kernel tells what this one process took."""
        killer = threading.Timer(PATIENCE, process.kill)
        killer.start()
        text, stderr = process.stdout.read(), process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        killer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        for stream in (process.stdout, process.stderr):
            stream.close()
        return Report(text.decode(), process.returncode, stderr.decode(errors="replace"), usage.ru_maxrss * 1024)


class Witness:
    """A running witness and what it has said so far."""

    def __init__(self, process, where):
        self.process = process
        self.where = where
        self.beats = []
        self.peer = None
        self._ready = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()
        if not self._ready.wait(PATIENCE) or self.peer is None:
            raise RuntimeError(f"the witness in {where} did not start")

    @property
    def token(self):
        return self.peer.split(":")[0]

    def _listen(self):
        for line in self.process.stdout:
            word, _, rest = line.decode().strip().partition(" ")
            if word == "PEER":
                self.peer = rest
                self._ready.set()
            elif word == "BEAT":
                self.beats.append({k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", rest)})
        self._ready.set()

    def mark(self):
        return len(self.beats)

    def wait_beats(self, mark, count=2):
        """Waits for `count` beats after `mark`; the beats since."""
        end = time.monotonic() + PATIENCE
        while len(self.beats) < mark + count:
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"the witness in {self.where} no longer answers")
            time.sleep(0.02)
        return self.beats[mark:]

    def complaints(self, mark):
        """What went wrong since `mark`, in words; empty when nothing did."""
        try:
            beats = self.wait_beats(mark)
        except AssertionError as gone:
            return str(gone)
        strays = self.beats[mark - 1]["strays"] if mark else 0
        for beat in beats:
            if not beat["intact"]:
                return f"the things of the witness in {self.where} were changed"
            if beat["strays"] > strays:
                return f"the witness in {self.where} got a signal"
            for what in ("watch", "terminal", "queue", "timer", "lock", "fork"):
                if beat[what]:
                    return f"the witness in {self.where} gets no {what} any more: {os.strerror(beat[what])}"
        return ""

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def witness_on_host():
    token = "h" + secrets.token_hex(6)
    process = subprocess.Popen([ESCAPE, "--witness", token], stdout=subprocess.PIPE)
    return Witness(process, "the host")


def witness_in_box():
    """Everything here looks at this one box, so that one that does not come is asked for again, and its words are kept."""
    said = []
    for _ in range(3):
        token = "n" + secrets.token_hex(6)
        with tempfile.TemporaryFile() as errors:
            process = Boxes().start([], ["--witness", token], stdout=subprocess.PIPE, stderr=errors)
            try:
                return Witness(process, "a neighbour box")
            except RuntimeError as why:
                ended = process.poll()
                process.kill()
                process.wait()
                errors.seek(0)
                said.append(f"{why} (exit code {ended}): {errors.read().decode(errors='replace')}")
                print(said[-1])
    raise RuntimeError("; ".join(said))


def lingering(token):
    """Processes on the host that become_lingerer left: their ids."""
    found = []
    name = f"cay-linger-{token}".encode()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    if name in file.read():
                        found.append(int(entry))
            except OSError:
                pass
    return found


SAMPLED = [
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/domainname",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/printk",
    "/proc/sys/kernel/randomize_va_space",
    "/proc/sys/kernel/poweroff_cmd",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/net/ipv4/ip_unprivileged_port_start",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/vm/nr_hugepages",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/fs/file-max",
    "/proc/swaps",
    "/etc/ld.so.preload",
    "/etc/passwd",
    "/sys/power/state",
]


def host_state():
    """What no box may change."""

    def read(path):
        try:
            return pathlib.Path(path).read_bytes()
        except OSError as error:
            return error.errno

    state = {path: read(path) for path in SAMPLED}
    for name in ("release_agent", "notify_on_release"):
        for path in sorted(pathlib.Path("/sys/fs/cgroup").glob(f"*/{name}")):
            state[str(path)] = read(path)
    state["hostname"] = socket.gethostname()
    state["interfaces"] = sorted(os.listdir("/sys/class/net"))
    state["mounts"] = sorted(pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines())
    for program in (CAY, CAY_WEAK, ESCAPE):
        state[program] = hashlib.sha256(pathlib.Path(program).read_bytes()).hexdigest()
    return state


def clock_offset():
    """Seconds between the clock that can be set and the one that cannot."""
    return time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


def markdown_table():
    """The table of README.md."""
    lines = ["| | attempt | tries | held by | canary without |", "|---|---|---|---|---|"]
    for entry in sorted(escape_table(), key=lambda e: e["n"]):
        canary = entry["canary"] or f"none: {entry['noCanary']}"
        if entry["needs"]:
            canary += " (needs " + entry["needs"].replace("file:", "").replace("fs:", "").replace(",", ", ") + ")"
        tries, held = entry["tries"], entry["heldBy"]
        lines.append(f"| {entry['n']} | `{entry['name']}` | {tries} | {held} | {canary} |")
    return "\n".join(lines) + "\n"


def write_readme():
    path = pathlib.Path(__file__).parent / "README.md"
    head, mark, _ = path.read_text(encoding="utf-8").partition("## The table\n")
    path.write_text(f"{head}{mark}\n{markdown_table()}", encoding="utf-8")


if __name__ == "__main__":
    write_readme()
