# SPDX-License-Identifier: Apache-2.0
"""What gets in the way of transfers, tunnels and terminals: the sandbox is removed, put to sleep, or its PID 1 killed in
the middle of each. Whoever waits is told, the name works again, and the server holds nothing more than before."""

import concurrent.futures
import hashlib
import io
import os
import signal
import socket
import tarfile
import threading
import time

import leaks
import outside
import pytest
from crash_helpers import FULL, PATIENCE, Broken, wait_until
from preview_helpers import SERVER as BOX_SERVER
from preview_helpers import WebSocket
from test_ways import guest_of, server, settled, world  # noqa: F401  pylint: disable=unused-import
from ways import BIG, PORT, STAYING, Adapter, content, is_whole, reaching
from ws_helpers import Closed, Terminal

ROUNDS = 10 if FULL else 1
UPHEAVALS = ("delete", "sleep", "kill")


class Half:
    """A request of which half is done, on a connection of its own."""

    def __init__(self, server, method, path, *headers, body=b""):
        self.sock = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
        lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {server.token}", *headers]
        self.sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def read(self, size):
        got = b""
        while len(got) < size:
            more = self.sock.recv(min(65536, size - len(got)))
            if not more:
                break
            got += more
        return got

    def end(self, rest=b""):
        """Sends the rest and reads to the end, whichever that is. What came."""
        got = b""
        try:
            self.sock.sendall(rest)
        except OSError:
            pass
        try:
            self.sock.shutdown(socket.SHUT_WR)
            while more := self.sock.recv(65536):
                got += more
        except OSError as error:
            assert not isinstance(error, TimeoutError), "nobody ends it"
        self.sock.close()
        return got


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


# -- what may be under way; each gives a function that waits for its end


def upload(server, _client, path):
    data = content(5, BIG)
    half = Half(server, "PUT", path("/files/workspace/up"), f"Content-Length: {BIG}", body=data[: BIG // 2])

    def end():
        status = status_of(half.end(data[BIG // 2 :]))
        assert status is None or status in (200, 201) or status >= 400, status
        return status

    return end


def tar_in(server, _client, path):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        info = tarfile.TarInfo("in")
        info.size = BIG
        tar.addfile(info, io.BytesIO(content(6, BIG)))
    data = file.getvalue()
    half = Half(server, "PUT", path("/archive?path=/workspace/t"), f"Content-Length: {len(data)}", body=data[: BIG // 2])
    return lambda: half.end(data[BIG // 2 :])


def fill(client, path):
    assert client.call("PUT", path("/files/workspace/d/big"), content(8, 4 * BIG)).status in (200, 201)


def download(server, client, path):
    fill(client, path)
    half = Half(server, "GET", path("/files/workspace/d/big"), "Connection: close")
    head = half.read(4096)

    def end():
        rest = half.end()
        body = (head + rest).partition(b"\r\n\r\n")[2]
        body = body[: len(body) // 16 * 16]
        assert len(body) <= 4 * BIG and is_whole(body)

    return end


def tar_out(server, client, path):
    fill(client, path)
    half = Half(server, "GET", path("/archive?path=/workspace/d"), "Connection: close")
    assert half.read(4096)
    return half.end


def watch(server, _client, path):
    half = Half(server, "GET", path("/watch?path=/workspace"), "Accept: text/event-stream")
    got = b""
    while b'"watching"' not in got:
        got += half.sock.recv(4096)

    def end():
        rest = b""
        while not rest.endswith(b"0\r\n\r\n"):
            more = half.sock.recv(4096)
            assert more, rest
            rest += more
        half.sock.close()
        assert b'"type":"stopped"' in rest, rest

    return end


def tunnel(server, client, path):
    world = server.world
    client.call("PUT", path("/files/tmp/staying.py"), STAYING.encode())
    argv = ["python3", "/tmp/staying.py", outside.HOST, outside.NAME, str(world.echo_port)]
    client.good("POST", path("/processes"), {"id": "staying", "argv": argv})
    # A refusal of the proxy, or bytes that were not sent, end it without a word: they are in a file.
    pages = ("/processes/staying/logs?stream=stdout", "/processes/staying/logs?stream=stderr", "/files/workspace/wrong", "/events")
    said = lambda: [client.call("GET", path(page)).raw for page in pages]
    assert wait_until(lambda: world.echoing == 2), (path(""), world.echoing, said(), server.log())

    def end():
        assert wait_until(lambda: world.echoing == 0), world.echoing

    return end


def terminal(server, _client, path):
    t = Terminal(Adapter(server), path("").rpartition("/")[2], session="t", command="seq 1 1000000; sleep 1000")
    t.until("\n1000\r\n")

    def end():
        try:
            while True:
                t.step()
        except (Closed, ConnectionError):
            t.ws.sock.close()

    return end


def preview(server, client, path):
    client.call("PUT", path("/files/tmp/server.py"), BOX_SERVER.encode())
    client.good("POST", path("/processes"), {"id": "web", "argv": ["python3", "/tmp/server.py", "127.0.0.1", str(PORT)]})
    client.good("POST", path("/processes/web/wait"), {"port": PORT, "timeout": PATIENCE * 1000})
    host = client.good("POST", path("/ports"), {"port": PORT})["url"][len("http://") : -1]
    ws = WebSocket(socket.create_connection(("127.0.0.1", server.port), PATIENCE), host)
    assert ws.status == 101
    endless = Half(server, "GET", path(f"/proxy/{PORT}/endless"))
    assert endless.read(100000)

    def end():
        try:
            ws.send(b"x")
            while ws.receive() is not None:
                pass
        except OSError:
            pass
        ws.close()
        while True:
            try:
                if not endless.sock.recv(1 << 20):
                    break
            except ConnectionError:
                break
        endless.sock.close()

    return end


UNDER_WAY = [upload, download, tar_in, tar_out, watch, tunnel, terminal, preview]


def upset(server, client, name, how):
    if how == "delete":
        assert client.call("DELETE", f"/sandbox/{name}").status == 200
    elif how == "sleep":
        assert client.call("POST", f"/sandbox/{name}/sleep").status == 200
    else:
        os.kill(guest_of(server, client, name), signal.SIGKILL)
        asleep = lambda: client.call("GET", f"/sandbox/{name}").json["status"] == "sleeping"
        assert wait_until(asleep), client.call("GET", f"/sandbox/{name}")


def test_in_the_middle_of_it(server, world):  # noqa: F811
    """Each upheaval in the middle of each."""
    server.world = world
    client = server.client()
    client.good("PUT", "/secrets/key", world.secret)
    client.good("PUT", "/sandbox/warm", {"network": "internet"})
    client.call("PUT", "/sandbox/warm/files/workspace/x", b"x" * 1000000)
    client.good("DELETE", "/sandbox/warm")
    settled(server)
    before = leaks.held(server)
    for how in UPHEAVALS * ROUNDS:
        for start in UNDER_WAY:
            name = f"{start.__name__}-{how}".replace("_", "-")
            client.good("PUT", f"/sandbox/{name}", {"keepAlive": True, "network": world.network, "secrets": ["key"]})
            ended = start(server, client, lambda rest, n=name: f"/sandbox/{n}{rest}")
            upset(server, client, name, how)
            status = ended()
            check_name_works(client, name, how, status)
            client.good("DELETE", f"/sandbox/{name}")
    settled(server)
    rest = lambda: leaks.difference(before, leaks.held(server))
    assert wait_until(lambda: not rest(), 20), rest()


def check_name_works(client, name, how, status):
    if how == "delete":
        assert client.call("GET", f"/sandbox/{name}").status == 404
        client.good("PUT", f"/sandbox/{name}", {})
        assert client.exec(name, "ls -A /workspace") == ""
        return
    if status in (200, 201):
        answer = client.call("GET", f"/sandbox/{name}/files/workspace/up")
        assert answer.raw == content(5, BIG), answer.status
    assert ".cay-" not in client.exec(name, "find /workspace -name '.cay-*'"), (name, status)
    assert client.exec(name, "echo awake") == "awake\n"


def test_terminals_are_attached_while_it_goes(server):  # noqa: F811
    client = server.client()
    for i in range(6 * ROUNDS):
        client.good("PUT", "/sandbox/x", {})
        gate, told = threading.Barrier(5), []

        def attach():
            gate.wait(PATIENCE)
            try:
                with Terminal(Adapter(server), "x", session="s") as t:
                    told.append(t.end())
            except (Closed, OSError, AssertionError) as error:  # also a refusal
                told.append(error)

        threads = [threading.Thread(target=attach, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        gate.wait(PATIENCE)
        time.sleep(0.005 * i)
        upset(server, client, "x", UPHEAVALS[i % 2])
        # One that came behind a sleep has woken it.
        client.call("DELETE", "/sandbox/x")
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a terminal hangs"
        assert len(told) == 4
        client.call("DELETE", "/sandbox/x")
    settled(server)


def test_settings_change_under_traffic(server, world):  # noqa: F811
    client = server.client()
    client.good("PUT", "/secrets/key", world.secret)
    client.good("PUT", "/sandbox/x", {"network": world.network, "secrets": ["key"]})
    commands, over, failures = reaching(world), threading.Event(), []

    def traffic():
        mine = server.client()
        while not over.is_set():
            for command, _ in commands.values():
                quick = command.replace("-m 50", "-m 5")
                answer = mine.call("POST", "/sandbox/x/exec", {"command": f"( {quick} ) 2>&1"})
                if answer.status != 200:
                    failures.append(answer)
        mine.close()

    threads = [threading.Thread(target=traffic, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    settings = [{"network": "none"}, {"network": world.network}, {"secrets": []}, {"network": "internet"}, {"secrets": ["key"]}]
    for i in range(60 * ROUNDS):
        client.good("PATCH", "/sandbox/x", settings[i % len(settings)])
        if i % 20 == 19:
            client.good("POST", "/sandbox/x/sleep")
    client.good("PATCH", "/sandbox/x", {"network": world.network, "secrets": ["key"]})
    over.set()
    for thread in threads:
        thread.join(PATIENCE * 3)
        assert not thread.is_alive()
    assert not failures, failures[0]
    for name, (command, want) in commands.items():
        answer = client.good("POST", "/sandbox/x/exec", {"command": f"( {command} ) 2>&1"})
        assert answer["stdout"] == want, (name, answer)
    client.good("DELETE", "/sandbox/x")
    settled(server)


# -- uploads against uploads


def put_at_once(server, requests):
    """(path, body, headers) each, on connections of their own."""
    gate = threading.Barrier(len(requests))

    def one(request):
        path, body, headers = request
        client = server.client()
        client.connect()
        gate.wait(PATIENCE)
        try:
            return client.call("PUT", path, body, **headers)
        finally:
            client.close()

    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(one, requests))


@pytest.mark.parametrize("size", [1024, BIG])
def test_one_of_those_that_match_wins(server, size):  # noqa: F811
    client = server.client()
    client.good("PUT", "/sandbox/x", {})
    path = "/sandbox/x/files/workspace/f"
    etag = client.call("PUT", path, content(0, size)).json["etag"]
    for i in range(5 * ROUNDS):
        bodies = [content(i * 10 + n, size) for n in range(1, 5)]
        answers = put_at_once(server, [(path, body, {"If_Match": etag}) for body in bodies])
        assert sorted(a.status for a in answers) == [200, 412, 412, 412], answers
        winner = next(n for n, a in enumerate(answers) if a.status == 200)
        answer = client.call("GET", path)
        assert answer.raw == bodies[winner] and answer.headers["ETag"] == answers[winner].json["etag"]
        etag = answer.headers["ETag"]
    assert client.exec("x", "ls -A /workspace") == "f\n"
    client.good("DELETE", "/sandbox/x")


def test_a_hundred_uploads_to_one_sandbox(server):  # noqa: F811
    client = server.client()
    client.good("PUT", "/sandbox/x", {})
    for i in range(ROUNDS):
        bodies = [content(i * 1000 + n, 1 << 20) for n in range(100)]
        paths = [f"/sandbox/x/files/workspace/many/f{n}" for n in range(100)]
        answers = put_at_once(server, [(p, b, {}) for p, b in zip(paths, bodies)])
        assert {a.status for a in answers} <= {200, 201}, answers
        for path, body in zip(paths, bodies):
            assert client.call("GET", path).raw == body
        answers = put_at_once(server, [("/sandbox/x/files/workspace/one", b, {}) for b in bodies])
        assert sorted(a.status for a in answers)[:-1] == [200] * 99, answers
        assert hashlib.sha256(client.call("GET", "/sandbox/x/files/workspace/one").raw).digest() in {
            hashlib.sha256(b).digest() for b in bodies
        }
    assert client.exec("x", "ls -A /workspace") == "many\none\n"
    assert client.exec("x", "ls -A /workspace/many | wc -l") == "100\n"
    client.good("DELETE", "/sandbox/x")


def test_a_box_is_killed_under_many_uploads(server):  # noqa: F811
    """What was answered is there when it wakes; what was not is as it was or as it should be."""
    client = server.client()
    client.good("PUT", "/sandbox/x", {})
    for i in range(2 * ROUNDS):
        paths = [f"/sandbox/x/files/workspace/f{n}" for n in range(20)]
        olds, news = ([content(i * 100 + k + n, 1 << 20) for n in range(20)] for k in (20, 60))
        for path, body in zip(paths, olds):
            assert client.call("PUT", path, body).status in (200, 201)
        guest = guest_of(server, client, "x")
        killer = threading.Timer(0.02 * (i + 1), os.kill, (guest, signal.SIGKILL))
        killer.start()

        def one(n, paths=paths, news=news):
            mine = server.client()
            try:
                return mine.call("PUT", paths[n], news[n]).status
            except Broken:
                return None
            finally:
                mine.close()

        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            statuses = list(pool.map(one, range(20)))
        killer.join()
        for n, status in enumerate(statuses):
            found = client.again("GET", paths[n]).raw
            assert found == news[n] if status in (200, 201) else found in (olds[n], news[n]), (n, status)
        assert client.exec("x", "ls -A /workspace | grep -c ^.cay; true") == "0\n"
    client.good("DELETE", "/sandbox/x")
    settled(server)


def test_a_file_helper_is_killed_between_two_uploads(server):  # noqa: F811
    """By whatever is root in the box, or for want of memory: what the next one holds is not the first's."""
    client = server.client()
    client.good("PUT", "/sandbox/x", {})
    guest = guest_of(server, client, "x")
    path = lambda rest: f"/sandbox/x{rest}"
    halves = []
    for name in ("a", "b"):
        data = content(ord(name), BIG)
        url = path(f"/files/workspace/{name}")
        halves.append((Half(server, "PUT", url, f"Content-Length: {BIG}", body=data[: BIG // 2]), data[BIG // 2 :]))
        assert wait_until(lambda: [h for h in leaks.hands(guest) if any("(deleted)" in f for f in leaks.list_fds(h))])
        if name == "a":
            os.kill(leaks.hands(guest)[0], signal.SIGKILL)
            assert wait_until(lambda: not leaks.hands(guest))
    (first, rest_of_first), (second, rest_of_second) = halves
    answer = first.end(rest_of_first)
    assert status_of(answer) == 503 and b"try again" in answer, answer
    assert client.exec("x", "ls -A /workspace") == ""
    assert status_of(second.end(rest_of_second)) == 201
    assert client.call("GET", path("/files/workspace/b")).raw == content(ord("b"), BIG)
    client.good("DELETE", "/sandbox/x")
