# SPDX-License-Identifier: Apache-2.0
"""Clients of the ways in and out of a box, at work while the daemon is killed. Each knows what must be true of what it
was answered; what was not answered was done as a whole or not at all."""

import hashlib
import io
import itertools
import json
import random
import tarfile
import threading
import time
import traceback

import outside
from crash_helpers import PATIENCE, Broken, wait_until
from preview_helpers import SERVER as BOX_SERVER
from preview_helpers import WebSocket
from ws_helpers import Closed, Terminal

BIG = 8 << 20
BLOCK = 16
PORT = 3000


class Way(threading.Thread):
    """Steps until it is told to end. One that is cut off goes on with the next."""

    def __init__(self, server, sandbox, seed=0):
        super().__init__(daemon=True)
        self.server, self.sandbox = server, sandbox
        self.client = server.client()
        self.chance = random.Random(f"{seed} {type(self).__name__}")
        self.numbers = itertools.count(1)
        self.over = threading.Event()
        self.failure = None
        self.done = self.cuts = 0

    def run(self):
        try:
            while not self.over.is_set():
                try:
                    self.step()
                    self.done += 1
                except (Broken, OSError):
                    self.cuts += 1
                    self.client.close()
                    time.sleep(0.01)
            self.finish()
        except Exception:  # pylint: disable=broad-except
            self.failure = f"{type(self).__name__}: {traceback.format_exc()}"
        finally:
            self.client.close()

    def step(self):
        raise NotImplementedError

    def finish(self):
        pass

    def end(self):
        self.over.set()
        self.join(PATIENCE * 3)
        assert not self.is_alive(), f"{type(self).__name__} hangs"
        assert self.failure is None, self.failure

    def path(self, rest):
        return f"/sandbox/{self.sandbox}{rest}"

    def sh(self, command):
        """What a command printed, run by a daemon that was there from its beginning to its end."""
        answer = self.client.call("POST", self.path("/exec"), {"command": command, "timeout": PATIENCE * 1000})
        if answer.status == 503:
            raise Broken(str(answer))
        assert answer.status == 200, answer
        return answer.json


# -- files


def content(number, size):
    """Of one number alone: a mixture shows."""
    return f"{number:0{BLOCK}d}".encode() * (size // BLOCK)


def is_whole(data):
    return data == data[:BLOCK] * (len(data) // BLOCK)


def pieces(data, size):
    return (data[at : at + size] for at in range(0, len(data), size))


class Files(Way):
    """Puts the same few files again and again, and knows what may be in each."""

    SIZES = {"a": 1024, "b": 1024, "c": 100 << 10, "d": BIG, "e": BIG}

    def __init__(self, server, sandbox, seed=0, folder="f"):
        super().__init__(server, sandbox, seed)
        self.folder = f"/workspace/{folder}"
        self.may = {name: {None} for name in self.SIZES}  # sums of what may be there, None for nothing

    def url(self, name=""):
        return self.path(f"/files{self.folder}{name and '/' + name}")

    def step(self):
        steps = [self.put] * 6 + [self.get] * 4 + [self.tar_in, self.tar_out, self.look]
        self.chance.choice(steps)()

    def put(self):
        name = self.chance.choice(list(self.SIZES))
        data = content(next(self.numbers), self.SIZES[name])
        new = hashlib.sha256(data).digest()
        body = pieces(data, 99_999) if self.chance.random() < 0.3 else data
        before = self.may[name]
        self.may[name] = before | {new}
        answer = self.client.call("PUT", self.url(name), body)
        if answer.status == 503:
            return
        assert answer.status in (200, 201), answer
        assert answer.json["size"] == len(data), answer
        self.may[name] = {new}

    def get(self):
        self.check(self.chance.choice(list(self.SIZES)), self.client.call)

    def check(self, name, call):
        answer = call("GET", self.url(name))
        if answer.status == 503:
            return
        assert answer.status in (200, 404), answer
        data = answer.raw if answer.status == 200 else None
        assert data is None or is_whole(data), f"{name} is a mixture"
        found = None if data is None else hashlib.sha256(data).digest()
        assert found in self.may[name], f"{name}: {data and data[:BLOCK]} is not what was put"
        self.may[name] = {found}

    def tar_in(self):
        number = next(self.numbers)
        data, file = content(number, 64 << 10), io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as tar:
            for i in range(20):
                info = tarfile.TarInfo(f"t{i}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        answer = self.client.call("PUT", self.path(f"/archive?path={self.folder}/tar"), file.getvalue())
        if answer.status == 503:
            return
        assert answer.status == 200 and answer.json["entries"] == 20, answer
        want = f"{hashlib.sha256(data).hexdigest()}\n"
        found = self.sh(f"cat {self.folder}/tar/t* | sha256sum; sha256sum {self.folder}/tar/* | cut -c-64 | sort -u")
        assert found["stdout"].endswith("-\n" + want), found

    def tar_out(self):
        answer = self.client.call("GET", self.path(f"/archive?path={self.folder}"))
        if answer.status in (404, 503):
            return
        assert answer.status == 200, answer
        with tarfile.open(fileobj=io.BytesIO(answer.raw)) as tar:
            for info in tar:
                if info.isfile() and "tar/" not in info.name:
                    data = tar.extractfile(info).read()
                    name = info.name.rpartition("/")[2]
                    assert hashlib.sha256(data).digest() in self.may[name], info.name

    def listed(self, call):
        answer = call("GET", self.url() + "?list&hidden=1&recursive=1")
        return [e["path"] for e in answer.json["entries"]] if answer.status == 200 else []

    def look(self):
        self.listed(self.client.call)

    def no_leftovers(self):
        """A hand whose daemon was killed may still be about to tidy up."""
        left = lambda: [p for p in self.listed(self.client.again) if "/.cay-" in p]
        assert wait_until(lambda: not left()), left()

    def finish(self):
        for name in self.SIZES:
            self.check(name, self.client.again)
        self.no_leftovers()


class Download(Way):
    """All of it, or a connection that was cut."""

    def __init__(self, server, sandbox):
        super().__init__(server, sandbox)
        self.data = content(1, BIG)
        self.client.call("PUT", self.path("/files/workspace/big"), self.data)

    def step(self):
        answer = self.client.call("GET", self.path("/files/workspace/big"))
        assert answer.status in (200, 503), answer
        assert answer.status == 503 or answer.raw == self.data, len(answer.raw)


class Watch(Way):
    """What is told is told of everything, until it is cut."""

    def step(self):
        folder = "/workspace/watched"
        assert self.client.call("POST", self.path("/files:mkdir"), {"path": folder, "parents": True}).status in (200, 409, 503)
        other = self.server.client()
        response = other.begin("GET", self.path(f"/watch?path={folder}"), Accept="text/event-stream")
        try:
            if response.status == 503:
                return
            assert response.status == 200, response.read()
            self.until(response, lambda e: e["type"] == "watching")
            for _ in range(5):
                name = f"{folder}/n{next(self.numbers)}"
                if self.client.call("PUT", self.path(f"/files{name}"), b"x").status == 201:
                    self.until(response, lambda e, n=name: e.get("path") == n)
        finally:
            response.close()
            other.close()

    @staticmethod
    def until(response, is_it):
        try:
            for line in response:
                if line.startswith(b"data: "):
                    event = json.loads(line[6:])
                    assert event["type"] != "error", event
                    if is_it(event):
                        return
        except (OSError, ValueError) as error:
            raise Broken(f"watch: {error!r}") from error
        except Exception as error:
            if isinstance(error, AssertionError):
                raise
            raise Broken(f"watch: {error!r}") from error
        raise Broken("watch: the end")


# -- the way out


class Net(Way):
    """Whatever is answered was run by one daemon, so what it reached must have been there."""

    def __init__(self, server, sandbox, world):
        super().__init__(server, sandbox)
        self.commands = reaching(world)

    def step(self):
        name = self.chance.choice(list(self.commands))
        command, want = self.commands[name]
        done = self.sh(f"( {command} ) 2>&1")
        assert done["stdout"] == want, (name, done)


def reaching(world):
    """One command for each way out, and what it prints."""
    at, named = f"http://{outside.HOST}:{world.port}", f"http://{outside.NAME}:{world.port}"
    curl = "curl -sS -m 50"
    return {
        "proxy": (f"{curl} {at}/p", "/p"),
        "tunnel": (f"{curl} --proxytunnel {at}/t", "/t"),
        "names": (f"{curl} {named}/n", "/n"),
        "transparent": (f"{curl} --noproxy '*' {named}/d", "/d"),
        "much": (f"{curl} --noproxy '*' {named}/big/3000000 | wc -c", "3000000\n"),
        "secret": (f"{curl} http://key.cay/secret", "known"),
        "secret, transparent": (f"{curl} --noproxy '*' http://key.cay/secret", "known"),
        "denied": (f"{curl} -o /dev/null -w '%{{http_code}}' http://{outside.HOST}:9/", "403"),
    }


# In the box: connections that stay, one through a tunnel and one that knows of no proxy. A byte that is not the one that
# was sent is written down; an end is not one.
STAYING = r"""
import socket, sys, threading, time
HOST, NAME, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
counts = {"tunnel": 0, "direct": 0}
def tunnel():
    s = socket.create_connection(("127.0.0.1", 3128), 50)
    s.sendall(b"CONNECT %s:%d HTTP/1.1\r\nHost: x\r\n\r\n" % (HOST.encode(), PORT))
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        more = s.recv(1)
        if not more:
            raise OSError("cut off")
        head += more
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise ValueError(head)
    return s
def direct():
    return socket.create_connection((NAME, PORT), 50)
def stay(kind, connect):
    n, last = 0, None
    while True:
        try:
            with connect() as s:
                while True:
                    n += 1
                    sent = (b"%07d\n" % n) * 512
                    s.sendall(sent)
                    got = b""
                    while len(got) < len(sent):
                        more = s.recv(65536)
                        if not more:
                            raise OSError("cut off")
                        got += more
                    if got != sent:
                        raise ValueError("%r" % got[:100])
                    counts[kind] += 1
                    time.sleep(0.002)
        except OSError as e:
            if repr(e) != last:
                last = repr(e)
                print(kind, last, flush=True)
            time.sleep(0.01)
        except ValueError as e:
            open("/workspace/wrong", "a").write("%s: %s\n" % (kind, e))
            return
for kind, connect in (("tunnel", tunnel), ("direct", direct)):
    threading.Thread(target=stay, args=(kind, connect), daemon=True).start()
while True:
    time.sleep(0.02)
    with open("/workspace/counts.new", "w") as f:
        f.write("%(tunnel)d %(direct)d" % counts)
    import os; os.rename("/workspace/counts.new", "/workspace/counts")
"""


# -- the way in


class Preview(Way):
    """Requests on a connection that is kept, and messages of a WebSocket."""

    def __init__(self, server, sandbox, host):
        super().__init__(server, sandbox)
        self.host = host
        self.client = server.client()

    def step(self):
        for _ in range(10):
            path = f"/{next(self.numbers)}"
            answer = self.client.call("GET", path, Host=self.host)
            assert answer.status == 200 and answer.raw == f"hello from {path}".encode(), answer
        answer = self.client.call("POST", "/echo", content(7, 1 << 20), Host=self.host)
        assert answer.status == 200 and answer.json["length"] == 1 << 20, answer


class Socket(Way):
    def __init__(self, server, sandbox, host):
        super().__init__(server, sandbox)
        self.host = host

    def step(self):
        self.client.connect()
        try:
            ws = WebSocket(self.client.connection.sock, self.host)
        except (OSError, TypeError) as error:  # no answer
            raise Broken(repr(error)) from error
        assert ws.status == 101, (ws.status, ws.body)
        try:
            while not self.over.is_set():
                data = content(next(self.numbers), self.chance.choice([16, 4096, 20000]))
                ws.send(data)
                got = ws.receive()
                if got is None or len(got) < len(data):
                    raise Broken("cut off")
                assert got == data
                self.done += 1
        except (OSError, IndexError) as error:
            raise Broken(repr(error)) from error
        finally:
            ws.close()
            self.client.close()


class Adapter:
    """Our server as the clients of tests/api want it."""

    unix = False

    def __init__(self, server):
        self.server, self.token, self.client = server, server.token, server.client()

    def connect(self):
        self.client.connect()
        return self.client.connection


LINES = "n=0; while [ ! -e /workspace/stop-terminal ]; do echo line-$n; n=$((n+1)); sleep 0.003; done"


class Lines(Way):
    """A terminal with output: whoever comes back by offset misses no byte of it."""

    def __init__(self, server, sandbox):
        super().__init__(server, sandbox)
        self.shown, self.process, self.ended = b"", None, None

    def step(self):
        self.look({"session": "lines", "command": LINES} if self.process is None else self.resumed())

    def resumed(self):
        return {"resume": self.process, "offset": len(self.shown)}

    def look(self, query):
        t = None
        try:
            t = Terminal(Adapter(self.server), self.sandbox, **query)
            self.process = t.ready["process"]
            assert t.start == len(self.shown), (t.start, len(self.shown), t.ready)
            while not self.over.is_set():
                t.step()
                self.done += 1
            self.ended = t.end()
        except (Closed, OSError) as error:
            raise Broken(repr(error)) from error
        except AssertionError as error:
            if error.args == (b"",) or "<503" in str(error):  # cut off in the handshake
                raise Broken(repr(error)) from error
            raise
        finally:
            if t is not None:
                t.ws.sock.close()
                self.shown += t.shown

    def finish(self):
        """Whoever ends us has ended it."""
        assert wait_until(self.read_rest), "it does not end"
        lines = self.shown.split(b"\r\n")
        assert lines == [b"line-%d" % i for i in range(len(lines) - 1)] + [b""], "a byte is missing"
        assert len(lines) > 10

    def read_rest(self):
        try:
            if self.ended is None:
                self.look(self.resumed())
        except Broken:
            pass
        return self.ended is not None and self.ended[1] is not None


class Git(Way):
    def __init__(self, server, sandbox, world):
        super().__init__(server, sandbox)
        self.url = f"{world.git.url}/open/hello.git"

    def step(self):
        target = f"/workspace/git/r{next(self.numbers)}"
        body = {"repoUrl": self.url, "targetDir": target, "depth": 1}
        answer = self.client.call("POST", self.path("/git/checkout"), body)
        if answer.status == 503:
            return
        assert answer.status in (200, 201), answer
        done = self.sh(f"cat {target}/README.md; git -C {target} status --porcelain; rm -rf {target}")
        assert done["stdout"] == "hello\n", done


# -- all of it


class Ways:
    """A sandbox with everything in it that must not notice, and all of the above at work on it."""

    def __init__(self, server, world, seed=0):
        self.server, self.world, self.client = server, world, server.client()
        self.client.good("PUT", "/secrets/key", world.secret)
        self.client.good("PUT", "/sandbox/ways", {"keepAlive": True, "network": world.network, "secrets": ["key"]})
        self.box = self.client.good("GET", "/sandbox/ways")["box"]
        self.open_port()
        self.start_staying()
        self.shell_pid = self.ask_shell("x=41", "")
        self.jobs = [
            Files(server, "ways", seed),
            Download(server, "ways"),
            Watch(server, "ways"),
            Net(server, "ways", world),
            Net(server, "ways", world),
            Preview(server, "ways", self.host),
            Socket(server, "ways", self.host),
            Lines(server, "ways"),
            Git(server, "ways", world),
        ]

    def open_port(self):
        self.client.call("PUT", "/sandbox/ways/files/tmp/server.py", BOX_SERVER.encode())
        self.client.good(
            "POST", "/sandbox/ways/processes", {"id": "web", "argv": ["python3", "/tmp/server.py", "127.0.0.1", str(PORT)]}
        )
        wait = {"port": PORT, "timeout": PATIENCE * 1000}
        answer = self.client.good("POST", "/sandbox/ways/processes/web/wait", wait)
        assert answer["success"], answer
        self.port = self.client.good("POST", "/sandbox/ways/ports", {"port": PORT})
        self.host = self.port["url"][len("http://") : -1]

    def start_again(self):
        """What ended with its box."""
        for name in ("web", "staying"):
            self.client.again("DELETE", f"/sandbox/ways/processes/{name}")
        self.client.again("DELETE", "/sandbox/ways/files/workspace/counts")
        self.open_port()
        self.start_staying()

    def start_staying(self):
        self.client.call("PUT", "/sandbox/ways/files/tmp/staying.py", STAYING.encode())
        argv = ["python3", "/tmp/staying.py", outside.HOST, outside.NAME, str(self.world.echo_port)]
        self.client.good("POST", "/sandbox/ways/processes", {"id": "staying", "argv": argv})

    def start(self):
        for job in self.jobs:
            job.start()

    def failures(self):
        return [job.failure for job in self.jobs if job.failure]

    def ask_shell(self, command, want):
        with Terminal(Adapter(self.server), "ways", session="shell") as t:
            shown = t.run(f"{command}; echo pid''=$$", "DONE")
            assert want in shown, shown
            return shown.split("pid=")[1].split()[0]

    # -- after a kill

    def counts(self):
        answer = self.client.again("GET", "/sandbox/ways/files/workspace/counts")
        return [int(word) for word in answer.raw.split()] if answer.status == 200 else [0, 0]

    def check(self):
        sandbox = self.client.again("GET", "/sandbox/ways").json
        assert (sandbox["status"], sandbox["box"]) == ("running", self.box), sandbox
        assert [p["port"] for p in sandbox["ports"]] == [PORT], sandbox
        assert sandbox["secrets"] == ["key"] and sandbox["network"] != "none", sandbox
        assert self.ask_shell("echo x''=$x", "x=41") == self.shell_pid
        for name, (command, want) in reaching(self.world).items():
            answer = self.client.again("POST", "/sandbox/ways/exec", {"command": f"( {command} ) 2>&1"})
            assert answer.status == 200 and answer.json["stdout"] == want, (name, answer, self.server.log())
        answer = self.client.again("GET", "/after", Host=self.host)
        assert answer.status == 200 and answer.raw == b"hello from /after", answer
        before = self.counts()
        further = lambda: all(now > then for now, then in zip(self.counts(), before))
        assert wait_until(further), (before, self.counts())
        assert self.client.again("GET", "/sandbox/ways/files/workspace/wrong").status == 404

    def end(self):
        self.client.again("PUT", "/sandbox/ways/files/workspace/stop-terminal", b"")
        for job in self.jobs:
            job.end()
        assert all(job.done > 0 for job in self.jobs), {type(job).__name__: job.done for job in self.jobs}

    def destroy(self):
        assert self.client.again("DELETE", "/sandbox/ways").status in (200, 404)
        assert self.client.again("DELETE", "/secrets/key").status in (200, 404)
        self.client.close()
