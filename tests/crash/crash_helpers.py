# SPDX-License-Identifier: Apache-2.0
"""A server that is killed, and clients that do not give up."""

import glob
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
CAY = os.environ.get("CAY", str(TOP / "build" / "cay"))
FULL = os.environ.get("CAY_TEST_FULL") == "1"
PATIENCE = 60
FAULT = re.compile(r"AddressSanitizer|LeakSanitizer|runtime error:|Assertion|level=error")


def wait_until(check, seconds=PATIENCE, every=0.01):
    """The first true value of check(), or None when the time was up."""
    deadline = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > deadline:
            return None
        time.sleep(every)


class Broken(Exception):
    """The connection ended before there was an answer: whether it was done, nobody knows."""


class Answer:
    def __init__(self, status, raw, headers):
        self.status, self.raw, self.headers = status, raw, headers

    @property
    def json(self):
        return json.loads(self.raw)

    def __repr__(self):
        return f"<{self.status} {self.raw[:300]!r}>"


class Client:
    """One connection that is kept; for one thread."""

    def __init__(self, server, token=None):
        self.server, self.token, self.connection = server, token, None

    def connect(self):
        self.connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE)
        try:
            self.connection.connect()
        except ConnectionRefusedError:
            self.server.refused.append(time.monotonic())
            raise
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def begin(self, method, path, body=None, **headers):
        """Sends a request; the answer is to be read."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers["Authorization"] = f"Bearer {self.token or self.server.token}"
        try:
            if self.connection is None:
                self.connect()
            connection = self.connection  # another thread may close it
            if isinstance(body, dict):
                body = json.dumps(body)
            connection.request(method, path, body, headers)  # bytes as they are, pieces as chunks
            return connection.getresponse()
        except ConnectionRefusedError:
            raise
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Broken(f"{method} {path}: {error!r}") from error

    def call(self, method, path, body=None, **headers):
        response = self.begin(method, path, body, **headers)
        try:
            return Answer(response.status, response.read(), response.headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Broken(f"{method} {path}: {error!r}") from error

    def again(self, method, path, body=None, **headers):
        """For what may be done twice: until it is answered, and not with 503."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                answer = self.call(method, path, body, **headers)
                if answer.status != 503 or time.monotonic() > deadline:
                    return answer
                time.sleep(0.02)
            except Broken:
                if time.monotonic() > deadline:
                    raise

    def good(self, method, path, body=None, **headers):
        answer = self.call(method, path, body, **headers)
        assert 200 <= answer.status < 300, (method, path, answer)
        return answer.json

    def exec(self, sandbox, command, **more):
        result = self.good("POST", f"/sandbox/{sandbox}/exec", {"command": command, **more})
        assert result["success"], result
        return result["stdout"]

    def events(self, sandbox):
        return [event["type"] for event in self.good("GET", f"/sandbox/{sandbox}/events")["events"]]


# -- the server


def children(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    except OSError:
        return []
    return [int(word) for word in text.split()]


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def is_zygote(pid):
    """A Python that kernels are forked from, not one of these."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().endswith(b"\0zygote\0")
    except OSError:
        return False


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def disks_of(keeper, place):
    """Numbers of the disks in a place of the volume, as the keeper sees them."""
    for fd in glob.glob(f"/proc/{keeper}/fd/*"):
        try:
            if {"blank", "kept"} <= set(os.listdir(fd)):
                folders = [f"{fd}/{place}", *glob.glob(f"{fd}/{place}/s*")]
                return sorted(name for folder in folders for name in os.listdir(folder) if name.isdigit())
        except OSError:
            pass
    raise AssertionError("the keeper holds no volume")


class Server:
    """`cay serve` in a data directory. Whoever finds a connect refused writes it down in `refused`."""

    POOL, BLANK = 4, 2
    FLAGS = ["--preload", "", "--pool", str(POOL), "--pool-blank", str(BLANK), "--boxes", "200", "--volume", "16g"]

    def __init__(self, data, program=CAY, flags=(), hosts=None):
        self.data, self.program, self.flags = pathlib.Path(data), program, list(flags)
        self.env = {}  # beside our own
        self.hosts = hosts  # what it has for /etc/hosts, if not the machine's
        self.port = free_port()
        self.refused = []
        self.process, self.keeper_was_killed = None, False

    def start(self):
        command = [self.program, "serve", "--listen", f"127.0.0.1:{self.port}", "--data", str(self.data)]
        if self.hosts is not None:  # in a mount namespace of its own
            bind = f'mount --bind {self.hosts} /etc/hosts && exec "$@"'
            command = ["unshare", "--mount", "sh", "-c", bind, "sh", *command]
        with open(self.data / "serve.log", "ab") as log:
            self.process = subprocess.Popen(
                command + self.FLAGS + self.flags,
                env={**os.environ, **self.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        assert wait_until(self.is_serving, every=0.05), self.log()
        return self

    def log(self):
        return (self.data / "serve.log").read_text(encoding="utf-8", errors="replace")[-4000:]

    def faults(self):
        """What a sanitizer has found."""
        text = (self.data / "serve.log").read_text(encoding="utf-8", errors="replace")
        faults = [line for line in text.splitlines() if FAULT.search(line)]
        return [line for line in faults if not (self.keeper_was_killed and 'msg="the keeper is gone"' in line)]

    @property
    def token(self):
        return (self.data / "admin.token").read_text(encoding="utf-8").strip()

    def is_serving(self):
        assert self.process.poll() is None, self.log()
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            client.request("GET", "/health")
            return client.getresponse().status == 200
        except OSError:
            return False
        finally:
            client.close()

    def client(self, token=None):
        return Client(self, token)

    # -- its processes

    def daemon(self):
        """Pid of the daemon, None while there is none."""
        found = [pid for pid in children(self.process.pid) if name_of(pid) == "cayd"]
        return found[0] if found else None

    def kill_daemon(self):
        """Kills the one that is there; its pid."""
        pid = wait_until(self.daemon)
        assert pid is not None, self.log()
        os.kill(pid, signal.SIGKILL)
        return pid

    def wait_for_another(self, killed):
        """Until a daemon that is not the killed one answers."""
        assert wait_until(lambda: self.daemon() not in (None, killed)), self.log()
        assert wait_until(self.is_serving), self.log()

    def kill_both(self):
        daemon = self.daemon()
        self.keeper_was_killed = True  # the daemon may live long enough to say so
        os.kill(self.process.pid, signal.SIGKILL)
        if daemon is not None:
            try:
                os.kill(daemon, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait(PATIENCE)

    def stop(self):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            assert self.process.wait(PATIENCE) == 0, self.log()
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()

    # -- what it holds

    def health(self):
        return self.client().again("GET", "/health").json

    def boxes(self):
        """How many children its keeper has besides the daemon and zygotes: guests, and the spawner."""
        return len([pid for pid in children(self.process.pid) if name_of(pid) != "cayd" and not is_zygote(pid)])

    def zygotes(self):
        return [pid for pid in children(self.process.pid) if is_zygote(pid)]

    def disks(self, place="kept"):
        """Numbers of the disks that are kept, or elsewhere on the volume."""
        return disks_of(self.process.pid, place)

    def log_files(self):
        return sorted(os.listdir(self.data / "daemon" / "logs"))


# -- what stays on the machine


def mounts_of(data):
    lines = pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if str(data) in line]


def loops_of(data):
    found = []
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        try:
            if pathlib.Path(path).read_text(encoding="utf-8").startswith(str(data)):
                found.append(path)
        except OSError:
            pass
    return found


def processes_with(word):
    """Pids of processes, in boxes too, that have the word in their arguments."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            text = pathlib.Path(path).read_bytes()
        except OSError:
            continue
        if word.encode() in text and int(path.split("/")[2]) != os.getpid():
            found.append(int(path.split("/")[2]))
    return found


def cgroups_of_nobody(before=frozenset()):
    """Directories of boxes in which no process is."""
    found = set()
    for root in ("/sys/fs/cgroup/cay", "/sys/fs/cgroup/*/cay"):
        for path in glob.glob(f"{root}/[0-9]*"):
            try:
                procs = glob.glob(f"{path}/**/cgroup.procs", recursive=True)
                if not any(pathlib.Path(p).read_text(encoding="utf-8") for p in procs):
                    found.add(path)
            except OSError:
                pass
    return found - before


class Prober(threading.Thread):
    """Connects again and again; a refused connect is written down."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.over, self.count = server, threading.Event(), 0

    def run(self):
        while not self.over.wait(0.003):
            try:
                socket.create_connection(("127.0.0.1", self.server.port), PATIENCE).close()
                self.count += 1
            except ConnectionRefusedError:
                self.server.refused.append(time.monotonic())
            except OSError:
                pass

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()
